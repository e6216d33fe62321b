//! The server's own drafts, for sessions whose edges have not guessed in time: a draft model's, or what the text itself
//! has repeated.
//!
//! With the noise of the text a model drafts the very tokens that an edge with the same model would. Drafts change the
//! speed of the text, not the text.

use std::{sync::Arc, time::Instant};

use outrider_codec::frame::SamplingParameters;
use outrider_speculation::{
    Forward,
    control::goodput::{Prices, RowCosts},
    draft::Lookup,
    judge::{NextToken, Round},
    session::cloud::{OwnDraft as Guess, OwnDrafts, Pass},
};

use tokio::sync::oneshot::{self, error::TryRecvError};

use super::{
    backend::Answer,
    error::EngineError,
    handle::{Engine, ModelSlot, OwnDraft},
    settings::{GuessPolicy, OwnDraftPolicy},
};

/// A session's source of drafts.
#[derive(Debug)]
pub enum Drafter {
    /// The server's draft model.
    Model(ModelDrafter),
    /// Index of the text that the session has written.
    Text(Lookup),
}

/// A session's slot at the draft model.
#[derive(Debug)]
pub struct ModelDrafter {
    slot: ModelSlot,
    /// Tokens in its KV cache.
    read: Vec<u32>,
    /// Answer to the last pass that only reads.
    reading: Option<Reading>,
}

/// Answer to a pass without drafts, once it has been read.
type Reading = oneshot::Receiver<Result<Answer, EngineError>>;

impl OwnDraft {
    /// Cost of a draft, in tokens that could be committed meanwhile at this rate.
    fn price(&self, goodput: f64) -> f64 {
        match self.policy {
            OwnDraftPolicy::Off | OwnDraftPolicy::Lookup => f64::INFINITY,
            OwnDraftPolicy::On => 0.0,
            OwnDraftPolicy::Auto => goodput * self.engine.as_ref().map_or(f64::INFINITY, |engine| engine.rates.wait()),
        }
    }
}

impl Engine {
    /// Adds a draft model beside the target; it has the same vocabulary.
    #[must_use]
    pub fn with_own_draft(mut self, draft: Engine, policy: OwnDraftPolicy) -> Self {
        draft.rates.draft_for(Arc::clone(&self.rates));
        self.own_draft = Some(OwnDraft { engine: Some(Box::new(draft)), policy });
        self
    }

    /// Drafts from what each text has repeated, without a model.
    #[must_use]
    pub fn with_lookups(mut self) -> Self {
        self.own_draft = Some(OwnDraft { engine: None, policy: OwnDraftPolicy::Lookup });
        self
    }

    /// Sets the guesses that passes judge.
    #[must_use]
    pub fn judging(mut self, guesses: GuessPolicy) -> Self {
        self.guesses = guesses;
        self
    }

    /// Policy for drafts of the server's own.
    pub(crate) fn own_draft_policy(&self) -> OwnDraftPolicy {
        self.own_draft.as_ref().map_or(OwnDraftPolicy::Off, |own| own.policy)
    }

    /// Current prices of guesses.
    pub(crate) fn prices(&self) -> Prices {
        let goodput = self.rates.goodput();
        let looks_up = self.own_draft_policy() == OwnDraftPolicy::Lookup;
        let own_draft = self.own_draft.as_ref().map(|own| own.price(goodput));
        let rows = match self.guesses {
            GuessPolicy::Paid => self.rates.row_prices(),
            GuessPolicy::All => RowCosts::each(0.0),
        };
        Prices { rows, own_draft, looks_up }
    }
}

impl ModelSlot {
    /// Takes a slot at the server's own draft model, if there is one with a free slot, or looks drafts up.
    pub(crate) fn drafter(&self) -> Option<Drafter> {
        let own = self.engine().own_draft.as_ref()?;
        let Some(engine) = &own.engine else { return Some(Drafter::Text(Lookup::default())) };
        let slot = engine.slot()?.of(self.client());
        Some(Drafter::Model(ModelDrafter { slot, read: Vec::new(), reading: None }))
    }
}

impl Drafter {
    /// Begins to read a text while the target reads it, so that later drafts need not wait for that.
    pub fn read(&mut self, text: &[u32]) {
        if let Self::Model(model) = self {
            model.read(text);
        }
    }

    /// Returns true if a text is still being read. Dropping the drafter then stops that.
    pub fn is_reading(&mut self) -> bool {
        match self {
            Self::Model(model) => model.is_reading(),
            Self::Text(_) => false,
        }
    }

    /// Drafts tokens after a text; fewer than wanted at the end of the model's context, or where nothing is repeated.
    ///
    /// # Errors
    /// If the draft model fails.
    pub async fn draft(&mut self, wanted: &OwnDrafts) -> Result<Vec<Guess>, EngineError> {
        match self {
            Self::Model(model) => model.draft(wanted).await,
            Self::Text(lookup) => {
                lookup.read(&wanted.text);
                let guesses = lookup.guess(wanted.count).into_iter().zip(lookup.matched()..);
                Ok(guesses.map(|(id, matched)| Guess { matched, ..Guess::from(id) }).collect())
            }
        }
    }
}

impl ModelDrafter {
    /// Begins to read a text while the target reads it, so that later drafts need not wait for that.
    fn read(&mut self, text: &[u32]) {
        let keep = self.cut_back(text);
        let silent = &text[keep..text.len().saturating_sub(1).max(keep)];
        if silent.is_empty() || text.len() > self.slot.engine().longest_text() {
            return;
        }
        let round = Round::alone(SamplingParameters { temperature: 0.0, top_k: 0, top_p: 1.0 }, 0, text.len());
        let forward = Forward::new(keep, silent.to_vec(), 0);
        self.reading = Some(self.slot.begin(Pass { forward, round: Arc::new(round), left: 1, shaping: None }));
        self.read.extend(silent);
    }

    /// Returns true if a text is still being read. Dropping the drafter then stops that.
    fn is_reading(&mut self) -> bool {
        self.reading.take_if(|answer| !matches!(answer.try_recv(), Err(TryRecvError::Empty)));
        self.reading.is_some()
    }

    /// Discards tokens that are not in this text. Returns the number of tokens kept, at most all but the last of the
    /// text, since the next token is drawn from the last one's row.
    fn cut_back(&mut self, text: &[u32]) -> usize {
        let same = self.read.iter().zip(text).take_while(|(read, token)| read == token).count();
        let keep = same.min(text.len().saturating_sub(1));
        self.read.truncate(keep);
        keep
    }

    /// Drafts tokens after a text as long as another is worth its price; fewer at the end of the model's context.
    async fn draft(&mut self, wanted: &OwnDrafts) -> Result<Vec<Guess>, EngineError> {
        let OwnDrafts { text, depth, sampling, seed, .. } = wanted;
        let room = self.slot.engine().longest_text().saturating_sub(text.len());
        let mut text = text.clone();
        let mut guesses: Vec<Guess> = Vec::new();
        // The first is asked for in any case: now and then one is made that does not pay.
        while guesses.len() < room && (guesses.is_empty() || depth.goes_on(guesses.iter().map(|guess| guess.clarity))) {
            let keep = self.cut_back(&text);
            let forward = Forward::new(keep, text[keep..].to_vec(), 1);
            let round = Arc::new(Round::guess(*sampling, *seed, text.len()));
            let (is_short, began) = (forward.tokens.len() == 1, Instant::now());
            let judgement = self.slot.judge(Pass { forward, round, left: 1, shaping: None }).await?;
            let NextToken::Token(id) = judgement.next else { break };
            // The first pass also reads the tokens committed meanwhile, so only single tokens are timed.
            if is_short {
                self.slot.engine().rates.answered(began.elapsed());
            }
            self.read.extend(&text[keep..]);
            text.push(id);
            guesses.push(Guess { clarity: judgement.clarity, ..Guess::from(id) });
        }
        Ok(guesses)
    }
}
