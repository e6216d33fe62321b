//! The prompt as the beginning of a text, with the log-probabilities of its tokens.

use outrider_codec::frame::Request;
use outrider_models::{Piece, TextStream, Tokenizer};

use super::delta::{Delta, TokenLogprob, TokenText, no_probabilities};
use crate::{http::ApiError, target::TargetSlot};

/// Prompt that a text begins with.
#[derive(Default)]
pub(super) struct Echo {
    /// Text as it was sent; `None` for ids.
    pub(super) text: Option<String>,
    /// Number of tokens before those of the text.
    pub(super) added: usize,
}

impl Echo {
    /// Delta of the prompt of a choice, which ends it if no token is to follow. `count` most likely tokens are listed
    /// at each position; without it there are no log-probabilities, and no slot is needed. Special tokens of the prompt
    /// are spelled out.
    ///
    /// # Errors
    /// If the target gives no log-probabilities, or fails.
    pub(super) async fn delta(
        &self,
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
        let special = |index, id| {
            let is_special = index >= self.added && tokenizer.bytes_of(id).is_none();
            is_special.then(|| tokenizer.token(id)).flatten()
        };
        // A tokenizer may change a text, so that its tokens are longer.
        let longest = self.text.as_ref().map_or(usize::MAX, |text| text.chars().count());
        let (mut stream, mut decoded, mut logprobs) = (TextStream::new(), String::new(), Vec::new());
        let mut offset = 0;
        for (index, &id) in tokens.iter().enumerate() {
            if count.is_some() {
                let text_of = |id| match special(index, id) {
                    Some(text) => TokenText { bytes: text.clone().into_bytes(), text },
                    None => TokenText::of(id, &stream, tokenizer),
                };
                let probability = if index > 0 { probabilities.next() } else { None };
                let likeliest = probability.iter().flat_map(|probability| &probability.likeliest);
                let likeliest = likeliest.map(|&(id, p)| (text_of(id), p)).collect();
                let log_probability = probability.as_ref().map(|probability| probability.log_probability);
                logprobs.push(TokenLogprob { token: text_of(id), log_probability, likeliest, offset });
            }
            let own = match special(index, id) {
                Some(text) => stream.finish() + &text,
                None => stream.push(tokenizer, id),
            };
            offset = longest.min(offset + own.chars().count());
            decoded += &own;
        }
        let finish = (request.max_new_tokens == 0).then_some("length");
        // A character that the prompt has begun is completed by the tokens that follow.
        if finish.is_some() {
            decoded += &stream.finish();
        }
        let pieces = vec![Piece::Text(self.text.clone().unwrap_or(decoded))];
        Ok(Delta { choice, pieces, logprobs, finish, is_prompt: true, ..Delta::default() })
    }
}
