//! Reasons why a conversation has no prompt.

use crate::error::EncodeError;

/// Errors when turning a conversation into a prompt.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChatError {
    /// Invalid Jinja, or a Jinja feature that is not supported.
    #[error("the chat template cannot be used: {0}")]
    Template(String),
    /// Error raised by the template itself, for example that roles must alternate.
    #[error("the model's chat template refuses this conversation: {0}")]
    Refused(String),
    /// The last message is to go on, but it is not the assistant's, is empty, or the template changes its text.
    #[error("the last message cannot go on: it has to be the assistant's, with a text that the chat template keeps")]
    NotContinued,
    /// The conversation has tools, but the template ignores them.
    #[error("the model's chat template has no place for tools")]
    Tools,
    /// The tokenizer cannot encode the prompt.
    #[error(transparent)]
    Encode(#[from] EncodeError),
}
