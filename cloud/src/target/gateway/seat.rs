//! One session at an engine elsewhere: its tokens, its coins, and what becomes of its rounds.

use std::sync::{Mutex, MutexGuard, PoisonError, atomic::Ordering};

use outrider_codec::{
    distribution::{DraftDist, DraftToken},
    frame::SamplingParameters,
};
use outrider_speculation::{
    Forward,
    judge::{acceptance::Outcome, thinning},
    sample::{End, Randomness},
    session::cloud::Round,
};

use super::{
    Gateway, GatewayError,
    completion::{Choice, NEUTRAL, Probabilities, Prompt, Question, lacks},
    plan::Plan,
};
use crate::{
    metrics::Metrics,
    target::rows::{Decided, row},
};

/// How many samples are asked for after a rejection: first, and as often as none survives. One is needed on average, but those
/// of one question cost hardly more than one, and the round waits for each question.
const SAMPLES: [usize; 2] = [8, 64];
/// After so many samples of which none survived, the last is taken: p and q̂ are then equal but for rounding. Where they differ
/// by d in truth, that happens in d·(1 − d)^N rounds, fewer than one in eN: 5·10⁻⁵.
const MOST_SAMPLES: usize = 8192;
/// How many tokens the engine writes at once where it writes alone. Those that are not wanted are thrown away.
const AHEAD: usize = 8;

/// A session's place at the gateway. Given up when dropped.
#[derive(Debug)]
pub struct Seat {
    id: u64,
    gateway: Gateway,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// What a cache would hold.
    tokens: Vec<u32>,
    /// What the engine wrote after `tokens`, last token first, and was not asked for yet.
    ahead: Vec<u32>,
    /// The gateway's coins. Not from the session's seed, which the edge knows and draws its drafts by.
    randomness: Randomness,
}

impl Seat {
    pub(super) fn new(gateway: Gateway, id: u64) -> Self {
        // Hash maps are seeded by the operating system.
        let seed = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0);
        let state = State { tokens: Vec::new(), ahead: Vec::new(), randomness: Randomness::new(seed, End::Cloud) };
        Self { id, gateway, state: Mutex::new(state) }
    }

    /// Tells sessions apart in the log: counts from 1.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Where the session is counted.
    pub fn metrics(&self) -> &Metrics {
        &self.gateway.0.metrics
    }

    /// Decides the round that a pass is for; `round` is `None` if its generation is over.
    ///
    /// # Errors
    /// If the engine fails, or the round cannot be decided exactly. The next pass may do better.
    pub async fn forward(&self, forward: Forward, round: Option<Round>) -> Result<Decided, GatewayError> {
        let (rows, vocab_size) = (forward.rows, self.gateway.0.vocab_size);
        let (text, ahead) = self.feed(&forward);
        let nothing = Decided::default();
        let Some(round) = round else { return Ok(nothing) };
        let plan = Plan::of(&round, self.gateway.0.listed)?;
        if rows == 0 {
            // The engine reads the prompt with the first round.
            return Ok(nothing);
        }
        // The last draft of a continued round is not fed: no token is drawn after it. The engine is asked for its probability all the same.
        let committed = &text[..text.len() + 1 - rows];
        let ids = round.drafts.ids();
        let (drafts, text) = (&ids[..], [committed, &ids].concat());
        let outcome = match plan {
            Plan::Listed(count) => return Ok(self.listed(&text, drafts, count).await?.first(rows)),
            Plan::Thinned(tokens) => self.thinned(committed, &text, tokens).await?,
            Plan::Matched if round.scheme.is_none() => {
                let token = match ahead {
                    Some(token) => token,
                    None => self.alone(&text, &round).await?,
                };
                Outcome { accepted: 0, token: Some(token) }
            }
            Plan::Matched => self.matched(&text, drafts, &round).await?,
        };
        self.gateway.0.metrics.engine.passes.inc();
        Ok(Decided::forcing(outcome, drafts, vocab_size, rows))
    }

    /// Whether the engine answers.
    pub(crate) async fn probe(&self) -> Result<(), GatewayError> {
        self.gateway.0.client.models().await.map(drop)
    }

    /// Takes the pass's tokens; gives all, and the next if the engine has written it already.
    fn feed(&self, forward: &Forward) -> (Vec<u32>, Option<u32>) {
        let mut state = self.state();
        let goes_on = forward.keep == state.tokens.len() && forward.tokens.len() == 1;
        state.tokens.truncate(forward.keep);
        state.tokens.extend(&forward.tokens);
        let expected = state.ahead.pop();
        if !goes_on || expected != forward.tokens.first().copied() {
            state.ahead.clear();
        }
        (state.tokens.clone(), state.ahead.last().copied())
    }

    /// S(p) of every place, of which the engine lists all that S keeps.
    async fn listed(&self, text: &[u32], drafts: &[u32], count: u32) -> Result<Decided, GatewayError> {
        let question = Question {
            listed: count,
            prompt_listed: (!drafts.is_empty()).then_some(count),
            // The token itself is not used, and the most likely is listed anyway.
            sampling: SamplingParameters { temperature: 0.0, ..NEUTRAL },
            ..Question::after(text)
        };
        let choice = self.one(&question).await?;
        let mut rows = Vec::with_capacity(drafts.len() + 1);
        for place in places(&choice, text, drafts)?.chain([&choice.likely]) {
            self.check(place)?;
            if place.iter().all(|&(_, p)| p == 0.0) {
                return Err(lacks("nothing is listed at a place".to_owned()));
            }
            rows.push(row(place, self.gateway.0.vocab_size));
        }
        self.gateway.0.metrics.engine.passes.inc();
        Ok(Decided::of(rows))
    }

    /// By p of the drafts and samples of p.
    async fn thinned(&self, committed: &[u32], text: &[u32], drafts: &[DraftToken]) -> Result<Outcome, GatewayError> {
        let prompt_listed = (!drafts.is_empty()).then_some(0);
        let choice = self.one(&Question { prompt_listed, ..Question::after(text) }).await?;
        let ids: Vec<u32> = drafts.iter().map(|draft| draft.id).collect();
        let probabilities = places(&choice, text, &ids)?.zip(&ids).map(|(place, id)| {
            let own = place.iter().find(|(token, _)| token == id);
            own.map(|&(_, p)| p).ok_or_else(|| lacks(format!("prompt token {id} has no log-probability")))
        });
        let probabilities = probabilities.collect::<Result<Vec<f64>, _>>()?;
        let accepted = thinning::standing(drafts, &probabilities, &mut self.state().randomness);
        let token = match drafts.get(accepted) {
            None => self.first(&choice)?,
            Some(draft) => self.replacement(&text[..committed.len() + accepted], &draft.dist).await?,
        };
        Ok(Outcome { accepted, token: Some(token) })
    }

    /// A draw from norm(max(0, p − q̂)) after a text: the first of samples of p that survives.
    async fn replacement(&self, text: &[u32], dist: &DraftDist) -> Result<u32, GatewayError> {
        let [mut samples, more] = SAMPLES;
        let mut seen = 0;
        loop {
            let choices = self.gateway.0.client.ask(&Question { samples, ..Question::after(text) }).await?;
            let drawn: Probabilities = choices.iter().map(|choice| choice.tokens[0]).collect();
            self.check(&drawn)?;
            let survivor = thinning::survivor(&drawn, dist, &mut self.state().randomness);
            seen += samples;
            match (survivor, drawn.last()) {
                (Some(token), _) => return Ok(token),
                (None, Some(&(token, _))) if seen >= MOST_SAMPLES => return Ok(token),
                _ => samples = more,
            }
        }
    }

    /// By the engine's own sample at each place.
    async fn matched(&self, text: &[u32], drafts: &[u32], round: &Round) -> Result<Outcome, GatewayError> {
        let first = text.len() - drafts.len();
        let prompts: Vec<&[u32]> = (first..=text.len()).map(|end| &text[..end]).collect();
        let question =
            Question { prompt: Prompt::Several(&prompts), sampling: round.sampling, ..Question::after(text) };
        let choices = self.gateway.0.client.ask(&question).await?;
        let own = choices.iter().map(|choice| self.first(choice)).collect::<Result<Vec<u32>, _>>()?;
        Ok(thinning::matching(drafts, &own))
    }

    /// The engine's next token. What it writes behind it is kept for the passes that follow.
    async fn alone(&self, text: &[u32], round: &Round) -> Result<u32, GatewayError> {
        let room = self.gateway.0.context_length.saturating_sub(text.len()).max(1);
        let question = Question { max_tokens: AHEAD.min(room), sampling: round.sampling, ..Question::after(text) };
        let choice = self.one(&question).await?;
        self.check(&choice.tokens)?;
        let token = self.first(&choice)?;
        self.state().ahead = choice.tokens.iter().rev().map(|&(id, _)| id).collect();
        Ok(token)
    }

    async fn one(&self, question: &Question<'_>) -> Result<Choice, GatewayError> {
        let mut choices = self.gateway.0.client.ask(question).await?;
        choices.pop().ok_or_else(|| lacks("no choice".to_owned()))
    }

    fn first(&self, choice: &Choice) -> Result<u32, GatewayError> {
        self.check(&choice.tokens[..1])?;
        Ok(choice.tokens[0].0)
    }

    fn check(&self, tokens: &[(u32, f64)]) -> Result<(), GatewayError> {
        let vocab_size = self.gateway.0.vocab_size;
        match tokens.iter().find(|&&(id, _)| id >= vocab_size) {
            Some((id, _)) => Err(lacks(format!("token {id} is outside the vocabulary of {vocab_size}"))),
            None => Ok(()),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing that can panic runs under the lock and leaves it half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.gateway.0.seated.fetch_sub(1, Ordering::AcqRel);
        self.gateway.0.metrics.sessions.connected.dec();
    }
}

/// What is listed at the places of the drafts, which end the text.
fn places<'a>(
    choice: &'a Choice,
    text: &[u32],
    drafts: &[u32],
) -> Result<impl Iterator<Item = &'a Probabilities>, GatewayError> {
    if !drafts.is_empty() && choice.prompt.len() != text.len() {
        return Err(lacks(format!(
            "log-probabilities of {} prompt tokens in place of {}",
            choice.prompt.len(),
            text.len()
        )));
    }
    Ok(choice.prompt.iter().skip(text.len() - drafts.len()))
}
