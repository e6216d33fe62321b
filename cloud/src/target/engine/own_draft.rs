//! The server's own drafts: the draft model beside the target, for sessions whose edges have not guessed in time.
//!
//! With the noise of the text it drafts the very tokens that an edge with the same model would. They change how fast
//! the text comes, and nothing of it.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use outrider_speculation::{
    Forward,
    judge::{NextToken, Round},
    policy::goodput::Prices,
    session::cloud::{OwnDrafts, Pass},
};

use super::{
    error::EngineError,
    handle::{Engine, ModelSlot, OwnDraft},
    rates::Rates,
    settings::OwnDraftPolicy,
};

/// A session's slot at the draft model.
#[derive(Debug)]
pub struct Drafter {
    slot: ModelSlot,
    /// What its KV cache holds.
    read: Vec<u32>,
    /// Of the target, which waits meanwhile.
    target: Arc<Rates>,
}

impl OwnDraft {
    /// What a draft costs, where tokens come at this rate.
    fn price(&self, goodput: f64) -> f64 {
        match self.policy {
            OwnDraftPolicy::Off => f64::INFINITY,
            OwnDraftPolicy::On => 0.0,
            OwnDraftPolicy::Auto => goodput * self.engine.rates.wait(),
        }
    }
}

impl Engine {
    /// This target with a draft model beside it, which has the same vocabulary.
    #[must_use]
    pub fn with_own_draft(mut self, draft: Engine, policy: OwnDraftPolicy) -> Self {
        self.own_draft = Some(OwnDraft { engine: Box::new(draft), policy });
        self
    }

    /// When it drafts itself.
    pub(crate) fn own_draft_policy(&self) -> OwnDraftPolicy {
        self.own_draft.as_ref().map_or(OwnDraftPolicy::Off, |own| own.policy)
    }

    /// What guesses cost now.
    pub(crate) fn prices(&self) -> Prices {
        let goodput = self.rates.goodput();
        let own_draft = self.own_draft.as_ref().map(|own| own.price(goodput));
        Prices { row: goodput * self.rates.row(), own_draft }
    }
}

impl ModelSlot {
    /// A slot at the server's own draft model, if there is one and it has one.
    pub(crate) fn drafter(&self) -> Option<Drafter> {
        let own = self.engine().own_draft.as_ref()?;
        own.engine.slot().map(|slot| Drafter { slot, read: Vec::new(), target: Arc::clone(&self.engine().rates) })
    }
}

impl Drafter {
    /// Guesses so many tokens behind a text; fewer where the model's context ends.
    ///
    /// # Errors
    /// If the model fails.
    pub async fn draft(&mut self, wanted: &OwnDrafts) -> Result<Vec<u32>, EngineError> {
        let OwnDrafts { text, count, sampling, seed } = wanted;
        let room = self.slot.engine().longest_text().saturating_sub(text.len());
        let mut text = text.clone();
        let written = text.len();
        for _ in 0..(*count).min(room) {
            // What is kept is at most all but the last token: its row is what the next one is drawn from.
            let same = self.read.iter().zip(&text).take_while(|(read, token)| read == token).count();
            let keep = same.min(text.len() - 1);
            self.read.truncate(keep);
            let forward = Forward { keep, tokens: text[keep..].to_vec(), rows: 1 };
            let round = Arc::new(Round::ahead(*sampling, *seed, text.len(), Vec::new()));
            let (is_short, began) = (forward.tokens.len() == 1, Instant::now());
            let NextToken::Token(token) = self.slot.judge(Pass { forward, round }).await?.next else { break };
            // The first also reads what was written meanwhile.
            if is_short {
                self.slot.engine().rates.answered(began.elapsed());
            }
            self.read.extend(&text[keep..]);
            text.push(token);
        }
        let drafts = text.split_off(written);
        self.target.spent(Duration::from_secs_f64(self.slot.engine().rates.wait() * drafts.len() as f64));
        Ok(drafts)
    }
}
