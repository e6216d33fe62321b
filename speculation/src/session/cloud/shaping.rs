//! Changes of the target's logits that a request asks for, such as a grammar.
//!
//! They come before S(·), so that p is the distribution of the changed logits, and everything that holds of p holds of
//! it: under the exact rule the text is distributed as the changed target's own, whatever was drafted.

use std::{fmt, sync::Arc};

use crate::judge::Round;

/// Change of the target's logits by the text so far.
pub trait Shaping: fmt::Debug + Send + Sync {
    /// Changes the row of V logits of the token that follows `text`, prompt included. −∞ excludes a token. The rows of
    /// a pass come in order, each with a token more than the one before. Returns false if no token can follow;
    /// the row means nothing then.
    ///
    /// # Errors
    /// The reason why the text cannot go on.
    fn shape(&self, text: &[u32], logits: &mut [f32]) -> Result<bool, String>;
}

/// Options of a change of logits, as the edge has sent them.
#[derive(Debug, Clone, PartialEq)]
pub struct ShapingOptions {
    /// JSON in the terms of OpenAI's API.
    pub options: String,
    /// Temperature of S(·).
    pub temperature: f32,
    /// Number of tokens before the answer.
    pub prompt: usize,
}

/// The change of a pass's rows.
#[derive(Debug, Clone)]
pub struct PassShaping {
    pub(super) by: Arc<dyn Shaping>,
    /// Tokens of the text before the round, prompt included.
    pub(super) text: Vec<u32>,
}

impl PassShaping {
    /// Changes the rows of a round in place. Its drafts form a line.
    ///
    /// # Errors
    /// The reason why the text cannot go on.
    pub fn shape(&self, round: &Round, rows: &mut [Vec<f32>]) -> Result<(), String> {
        let (mut text, drafts) = (self.text.clone(), round.drafts.ids());
        for (index, row) in rows.iter_mut().enumerate() {
            if !self.by.shape(&text, row)? {
                // After a draft that is rejected no row counts. Only what is committed cannot be taken back.
                return if index > 0 { Ok(()) } else { Err("what is written does not fit its form".to_owned()) };
            }
            text.extend(drafts.get(index));
        }
        Ok(())
    }
}

impl PartialEq for PassShaping {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.by, &other.by) && self.text == other.text
    }
}
