//! Settings of a driver, which hold until they are changed.

use std::sync::Arc;

use super::{DraftModel, Driver, Platform, Retry};
use crate::draft::Passages;

impl<P: Platform, D: DraftModel> Driver<P, D> {
    /// Sets how often to connect again from now on when the connection is lost. At first it never does.
    pub fn set_retry(&mut self, retry: Retry) {
        self.retry = retry;
    }

    /// Sets the passages in which guesses are looked up from the next generation on.
    pub fn set_passages(&mut self, passages: Arc<Passages>) {
        self.session.set_passages(passages);
    }

    /// Plans the first text by the acceptance of an earlier session:
    /// [`EdgeSession::expect_acceptance`](super::EdgeSession::expect_acceptance).
    pub fn expect_acceptance(&mut self, acceptance: [f64; 2]) {
        self.session.expect_acceptance(acceptance);
    }

    /// Changes the target's logits: [`EdgeSession::set_shaping`](super::EdgeSession::set_shaping).
    pub fn set_shaping(&mut self, options: Option<String>, answered: usize) {
        self.session.set_shaping(options, answered);
    }

    /// Sets how many tokens to guess after the committed text while the connection is gone. At first none.
    pub fn set_offline_tokens(&mut self, tokens: usize) {
        self.offline_tokens = tokens;
    }
}
