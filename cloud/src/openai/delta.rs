//! Additions to the choices of a request.

use outrider_models::{Piece, TextStream, Tokenizer};

use crate::http::ApiError;

/// Addition of one token to a choice.
#[derive(Default)]
pub(super) struct Delta {
    /// Index of the choice.
    pub(super) choice: u32,
    /// Text and tool calls; may be empty.
    pub(super) pieces: Vec<Piece>,
    /// Reasoning before the text; may be empty.
    pub(super) reasoning: String,
    /// Log-probabilities of the tokens of these pieces and of tokens before them without a text, if they are wanted. A
    /// token that ends the choice is left out.
    pub(super) logprobs: Vec<TokenLogprob>,
    /// Ids of the tokens since the last delta with pieces or an end, those without a text and the last one included.
    pub(super) ids: Vec<u32>,
    /// Finish reason, if the choice ends here.
    pub(super) finish: Option<&'static str>,
    /// True for the prompt, which a choice may begin with.
    pub(super) is_prompt: bool,
}

impl Delta {
    /// Number of characters of its text.
    pub(super) fn characters(&self) -> usize {
        let of = |piece: &Piece| if let Piece::Text(text) = piece { text.chars().count() } else { 0 };
        self.pieces.iter().map(of).sum()
    }
}

/// A token with its log-probability under the target.
#[derive(Debug, Clone)]
pub(super) struct TokenLogprob {
    pub(super) token: TokenText,
    /// `None` for the first token of a text, which no token is before.
    pub(super) log_probability: Option<f64>,
    /// Most likely tokens at this position with their log-probabilities, in descending order.
    pub(super) likeliest: Vec<(TokenText, f64)>,
    /// Number of characters of the text before the token, or before the character that it is a part of.
    pub(super) offset: usize,
}

/// Text and bytes that a token adds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TokenText {
    /// U+FFFD for bytes that form no character on their own.
    pub(super) text: String,
    pub(super) bytes: Vec<u8>,
}

impl TokenText {
    /// Text of a token that comes next in `stream`.
    pub(super) fn of(id: u32, stream: &TextStream, tokenizer: &Tokenizer) -> Self {
        let text = stream.text_of(tokenizer, id);
        let bytes = match tokenizer.bytes_of(id) {
            Some(bytes) if text.contains(char::REPLACEMENT_CHARACTER) => bytes,
            _ => text.clone().into_bytes(),
        };
        Self { text, bytes }
    }
}

/// Error of a target that returns chosen tokens only.
pub(super) fn no_probabilities() -> ApiError {
    let text = "logprobs is not supported by this server: its target runs on a GPU or in another engine.";
    ApiError::invalid(text).param("logprobs").code("unsupported_parameter")
}
