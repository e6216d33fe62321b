//! The text of a generation: the prompt and what is committed, with the place where it has to end.

use outrider_codec::frame::{Finish, TargetDist, Welcome};

use super::error::EdgeError;

/// Prompt and committed tokens.
#[derive(Debug)]
pub(super) struct Text {
    ids: Vec<u32>,
    eos_ids: Vec<u32>,
    vocab_size: u32,
    /// Longest length of the text, and the reason why it is no longer.
    length_limit: usize,
    limit: Finish,
}

impl Text {
    /// A prompt that up to `max_new_tokens` tokens may follow, as far as the target's context goes.
    pub(super) fn new(prompt: Vec<u32>, max_new_tokens: u32, server: &Welcome) -> Self {
        let wanted = prompt.len().saturating_add(max_new_tokens as usize);
        let context = server.limits.context_length as usize;
        Self {
            ids: prompt,
            eos_ids: server.eos_ids.clone(),
            vocab_size: server.vocab_size,
            length_limit: wanted.min(context),
            limit: if wanted <= context { Finish::Length } else { Finish::Context },
        }
    }

    /// Prompt and committed tokens.
    pub(super) fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// Number of tokens of the text.
    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }

    /// Longest length of the text, in tokens.
    pub(super) fn length_limit(&self) -> usize {
        self.length_limit
    }

    /// The reason why it may not grow longer.
    pub(super) fn limit(&self) -> Finish {
        self.limit
    }

    /// Tokens that may still follow.
    pub(super) fn left(&self) -> usize {
        self.length_limit - self.ids.len()
    }

    /// V, the size of the vocabulary.
    pub(super) fn vocab_size(&self) -> u32 {
        self.vocab_size
    }

    /// True if the text ends with this token.
    pub(super) fn is_end(&self, token: u32) -> bool {
        self.eos_ids.contains(&token)
    }

    /// The reason why the text is over with a token that makes it `length` tokens long, if it is.
    pub(super) fn ending(&self, token: u32, length: usize) -> Option<Finish> {
        if self.is_end(token) { Some(Finish::Eos) } else { (length >= self.length_limit).then_some(self.limit) }
    }

    /// Commits tokens to the text.
    pub(super) fn write(&mut self, tokens: impl IntoIterator<Item = u32>) {
        self.ids.extend(tokens);
    }

    /// Takes the last `tokens` tokens back.
    pub(super) fn take_back(&mut self, tokens: usize) {
        self.ids.truncate(self.ids.len() - tokens);
    }

    /// Commits a token that the target wrote alone.
    ///
    /// # Errors
    /// If it is no token, or leaves the text at its limit without saying so.
    pub(super) fn write_streamed(&mut self, token: u32, finish: Option<Finish>) -> Result<(), EdgeError> {
        if token >= self.vocab_size {
            return Err(EdgeError::ImpossibleVerdict { what: "its token is outside the vocabulary" });
        }
        if finish.is_none() && self.left() <= 1 {
            return Err(EdgeError::ImpossibleVerdict { what: "it goes on past the end" });
        }
        self.ids.push(token);
        Ok(())
    }

    /// Checks that a distribution of the target's is one over this vocabulary.
    pub(super) fn check_target(&self, target: &TargetDist) -> Result<(), EdgeError> {
        match target.0.last() {
            Some(last) if last.0 < self.vocab_size => Ok(()),
            _ => Err(EdgeError::ImpossibleVerdict { what: "its distribution is outside the vocabulary" }),
        }
    }

    /// Prompt and committed tokens, for another generation that goes on from them.
    pub(super) fn into_ids(self) -> Vec<u32> {
        self.ids
    }
}
