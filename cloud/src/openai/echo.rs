//! The prompt as the beginning of a text, with the log-probabilities of its tokens.

use outrider_codec::frame::Request;
use outrider_models::{Piece, TextStream, Tokenizer};

use super::delta::{Delta, TokenLogprob, TokenText, no_probabilities};
use crate::{http::ApiError, target::TargetSlot};

/// Delta of the prompt of a choice, which ends it if no token is to follow. `count` most likely tokens are listed at
/// each position; without it there are no log-probabilities, and no slot is needed.
///
/// # Errors
/// If the target gives no log-probabilities, or fails.
pub(super) async fn delta(
    slot: Option<&TargetSlot>,
    tokenizer: &Tokenizer,
    request: &Request,
    choice: u32,
    count: Option<usize>,
) -> Result<Delta, ApiError> {
    let tokens = &request.tokens;
    let mut probabilities = match (count, slot) {
        (None, _) => Vec::new(),
        (Some(count), Some(TargetSlot::Model(slot))) if slot.gives_rows() => slot
            .prompt_logprobs(tokens, count)
            .await
            .map_err(|error| ApiError::internal(format!("The prompt cannot be read: {error}.")))?,
        (Some(_), _) => return Err(no_probabilities()),
    }
    .into_iter();
    let (mut stream, mut text, mut logprobs) = (TextStream::new(), String::new(), Vec::new());
    let mut offset = 0;
    for (index, &id) in tokens.iter().enumerate() {
        if count.is_some() {
            let probability = if index > 0 { probabilities.next() } else { None };
            let likeliest = probability.iter().flat_map(|probability| &probability.likeliest);
            let likeliest = likeliest.map(|&(id, p)| (TokenText::of(id, &stream, tokenizer), p)).collect();
            let log_probability = probability.as_ref().map(|probability| probability.log_probability);
            let token = TokenText::of(id, &stream, tokenizer);
            logprobs.push(TokenLogprob { token, log_probability, likeliest, offset });
        }
        let own = stream.push(tokenizer, id);
        offset += own.chars().count();
        text += &own;
    }
    let finish = (request.max_new_tokens == 0).then_some("length");
    // A character that the prompt has begun is completed by the tokens that follow.
    if finish.is_some() {
        text += &stream.finish();
    }
    Ok(Delta { choice, pieces: vec![Piece::Text(text)], logprobs, finish, is_prompt: true, ..Delta::default() })
}
