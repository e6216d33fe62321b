//! One session at an engine elsewhere: its tokens, its random draws, and the judgements of its rounds.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::Ordering};

use outrider_codec::{
    distribution::{DraftDist, DraftToken},
    frame::SamplingParameters,
};
use outrider_speculation::{
    Forward,
    judge::{Judgement, NextToken, Round, judge, thinning},
    sample::{End, Randomness},
    session::cloud::{Offer, Pass},
};
use tokio::time;

use super::{
    client::{PAUSES, is_passing_for_streams},
    completion::{Choice, NEUTRAL, Probabilities, Prompt, Question, lacks},
    error::GatewayError,
    plan::Plan,
    shared::{Shared, Streaming},
    stream::{self, Source, Stream},
};
use crate::metrics::Metrics;

/// Number of samples requested after a rejection: for the first request, and for further ones while none survives. One
/// is needed on average, but several in one request cost hardly more, and the round waits for each request.
const SAMPLES: [usize; 2] = [8, 64];
/// Number of samples without a survivor after which the last one is taken: p and q̂ are then equal but for rounding. If
/// they truly differ by d, this happens in d·(1 − d)^N rounds, fewer than one in eN: 5·10⁻⁵.
const MOST_SAMPLES: usize = 8192;
/// Number of tokens requested at once where the engine writes alone. Tokens that are not wanted are discarded.
const AHEAD: usize = 8;

/// A session's slot at the gateway. Dropping it frees the slot.
#[derive(Debug)]
pub struct GatewaySlot {
    id: u64,
    shared: Arc<Shared>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Tokens that a KV cache would hold.
    tokens: Vec<u32>,
    /// Tokens that the engine wrote after `tokens` and that no pass has asked for yet, last token first.
    ahead: Vec<u32>,
    /// Text that the engine streams, if it streams one.
    stream: Option<Stream>,
    /// Number of leading tokens on which `tokens` and the streamed text are known to agree.
    agreed: usize,
    /// Random draws of the gateway. They do not come from the session's seed, which the edge knows and drafts with.
    randomness: Randomness,
}

impl GatewaySlot {
    pub(super) fn new(shared: Arc<Shared>, id: u64) -> Self {
        // The standard library seeds hash maps with randomness of the operating system.
        let seed = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0);
        let state = State {
            tokens: Vec::new(),
            ahead: Vec::new(),
            stream: None,
            agreed: 0,
            randomness: Randomness::new(seed, End::Cloud),
        };
        Self { id, shared, state: Mutex::new(state) }
    }

    /// Number of the session in the log, from 1.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Metrics in which the session is counted.
    pub fn metrics(&self) -> &Metrics {
        &self.shared.metrics
    }

    /// Takes the tokens of a pass, and judges its round.
    ///
    /// # Errors
    /// If the engine fails, or the round cannot be judged exactly. The next pass may succeed.
    pub async fn judge(&self, pass: Pass) -> Result<Judgement, GatewayError> {
        let Pass { forward, round, left, .. } = pass;
        let ahead = self.feed(&forward);
        let plan = Plan::of(&round, self.shared.listed, self.shared.streaming.is_some())?;
        if forward.rows == 0 {
            // The engine reads the prompt with the first round.
            return Ok(Judgement::default());
        }
        if let (Plan::Streamed, Some(streaming)) = (&plan, &self.shared.streaming) {
            let judgement = self.streamed(&round, left, streaming).await?;
            self.shared.metrics.engine.passes.inc();
            return Ok(judgement);
        }
        let fed = self.state().tokens.clone();
        // The last draft of a continued round is not fed, since no token is drawn after it. The engine is asked for its
        // probability all the same.
        let text = [&fed[..round.position], &round.drafts.ids()].concat();
        let judgement = match plan {
            Plan::Listed(count) => self.listed(&text, &round, count).await?,
            Plan::Thinned(tokens) => self.thinned(&text, &round, tokens).await?,
            Plan::Matched if round.scheme.is_none() => {
                let token = match ahead {
                    Some(token) => token,
                    None => self.alone(&text, &round).await?,
                };
                round.settle(0, token)
            }
            Plan::Matched | Plan::Streamed => self.matched(&text, &round).await?,
        };
        self.shared.metrics.engine.passes.inc();
        Ok(judgement)
    }

    /// Sends guesses at the text to the engine's workers, if it streams.
    pub(crate) fn offer(&self, offer: &Offer) {
        if let Some(streaming) = &self.shared.streaming {
            streaming.workers.offer(offer);
        }
    }

    /// Ends the streamed text, so that the engine stops unless it was at its end.
    pub(crate) fn rest(&self) {
        self.state().stream = None;
    }

    /// Stops the engine while the session has no connection; tokens that it has written are kept.
    pub(crate) fn pause(&self) {
        if let Some(stream) = &mut self.state().stream {
            stream.pause();
        }
    }

    /// Checks that the engine writes a token, in the way in which sessions use it.
    pub(crate) async fn probe(&self) -> Result<(), GatewayError> {
        let Shared { client, streaming, .. } = &*self.shared;
        let text = [0];
        match streaming {
            Some(_) => stream::first(client, Prompt::Tokens(&text), text.len()).await.map(drop),
            None => client.ask(&Question::after(&text)).await.map(drop),
        }
    }

    /// Takes the pass's tokens. Returns the token that follows if the engine has written it already.
    fn feed(&self, forward: &Forward) -> Option<u32> {
        let mut state = self.state();
        let goes_on = forward.keep == state.tokens.len() && forward.tokens.len() == 1;
        state.agreed = state.agreed.min(forward.keep);
        state.tokens.truncate(forward.keep);
        state.tokens.extend(&forward.tokens);
        let expected = state.ahead.pop();
        if !goes_on || expected != forward.tokens.first().copied() {
            state.ahead.clear();
        }
        state.ahead.last().copied()
    }

    /// Judges a round by the text that the engine streams, which is requested once. Uses the tokens that have come, or
    /// waits for the next ones.
    async fn streamed(&self, round: &Round, left: usize, streaming: &Streaming) -> Result<Judgement, GatewayError> {
        let Shared { client, metrics, vocab_size, .. } = &*self.shared;
        let metrics = &metrics.gateway;
        let source = Source { client, metrics, vocab_size: *vocab_size, eos_ids: &streaming.eos_ids };
        let mut stream = self.state().stream_behind(round);
        let mut pauses = PAUSES.iter();
        loop {
            stream.drain(source);
            if let Some(judgement) = thinning::streamed(round, stream.waiting(), source.eos_ids) {
                stream.take(judgement.accepted + usize::from(judgement.next != NextToken::Nothing));
                self.state().stream = Some(stream);
                return Ok(judgement);
            }
            let Err(error) = stream.more(source, left).await else { continue };
            if !is_passing_for_streams(&error) {
                return Err(error);
            }
            // A request that has led to tokens shows that the engine works, so the pauses start over.
            if stream.take_come() {
                pauses = PAUSES.iter();
            } else {
                let Some(pause) = pauses.next() else { return Err(error) };
                time::sleep(*pause).await;
            }
            tracing::warn!(%error, "asking the engine for the rest of the text");
            metrics.streams_cut.inc();
        }
    }

    /// Judges a round by S(p) at every position, since the engine lists all tokens that S keeps.
    async fn listed(&self, text: &[u32], round: &Round, count: u32) -> Result<Judgement, GatewayError> {
        let drafts = round.drafts.len();
        let question = Question {
            listed: count,
            prompt_listed: (drafts > 0).then_some(count),
            // The sampled token is not used, and the most likely tokens are listed anyway.
            sampling: SamplingParameters { temperature: 0.0, ..NEUTRAL },
            ..Question::after(text)
        };
        let choice = self.one(&question).await?;
        let mut rows = Vec::with_capacity(drafts + 1);
        for position in positions(&choice, text, drafts)?.chain([&choice.likely]) {
            self.check(position)?;
            if position.iter().all(|&(_, p)| p == 0.0) {
                return Err(lacks("nothing is listed at a position".to_owned()));
            }
            rows.push(self.row(position));
        }
        let rows: Vec<&[f32]> = rows.iter().take(round.rows()).map(Vec::as_slice).collect();
        judge(round, &rows).map_err(|error| lacks(error.to_string()))
    }

    /// Logits of the tokens listed at a position, `[vocab_size]`: ln p, and −∞ for all that S(·) drops.
    fn row(&self, listed: &[(u32, f64)]) -> Vec<f32> {
        let mut row = vec![f32::NEG_INFINITY; self.shared.vocab_size as usize];
        for &(id, p) in listed {
            if let Some(logit) = row.get_mut(id as usize) {
                *logit = p.ln() as f32;
            }
        }
        row
    }

    /// Judges a round by p of the drafts and samples of p.
    async fn thinned(&self, text: &[u32], round: &Round, drafts: &[DraftToken]) -> Result<Judgement, GatewayError> {
        let prompt_listed = (!drafts.is_empty()).then_some(0);
        let choice = self.one(&Question { prompt_listed, ..Question::after(text) }).await?;
        let probabilities = positions(&choice, text, drafts.len())?.zip(drafts).map(|(position, draft)| {
            let own = position.iter().find(|(token, _)| *token == draft.id);
            own.map(|&(_, p)| p).ok_or_else(|| lacks(format!("prompt token {} has no log-probability", draft.id)))
        });
        let probabilities = probabilities.collect::<Result<Vec<f64>, _>>()?;
        let accepted = thinning::accepted(drafts, &probabilities, &mut self.state().randomness);
        let token = match drafts.get(accepted) {
            None => self.first(&choice)?,
            Some(draft) => self.replacement(&text[..round.position + accepted], &draft.dist).await?,
        };
        Ok(round.settle(accepted, token))
    }

    /// Draws from norm(max(0, p − q̂)) after a text: the first surviving sample of p.
    async fn replacement(&self, text: &[u32], dist: &DraftDist) -> Result<u32, GatewayError> {
        let [mut samples, more] = SAMPLES;
        let mut seen = 0;
        loop {
            let choices = self.shared.client.ask(&Question { samples, ..Question::after(text) }).await?;
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

    /// Judges a round by the engine's own sample at each position.
    async fn matched(&self, text: &[u32], round: &Round) -> Result<Judgement, GatewayError> {
        let prompts: Vec<&[u32]> = (round.position..=text.len()).map(|end| &text[..end]).collect();
        let question =
            Question { prompt: Prompt::Several(&prompts), sampling: round.sampling, ..Question::after(text) };
        let choices = self.shared.client.ask(&question).await?;
        let own = choices.iter().map(|choice| self.first(choice)).collect::<Result<Vec<u32>, _>>()?;
        Ok(thinning::matching(round, &own))
    }

    /// Requests the engine's next token. Tokens that it writes after that are kept for later passes.
    async fn alone(&self, text: &[u32], round: &Round) -> Result<u32, GatewayError> {
        let room = self.shared.context_length.saturating_sub(text.len()).max(1);
        let question = Question { max_tokens: AHEAD.min(room), sampling: round.sampling, ..Question::after(text) };
        let choice = self.one(&question).await?;
        self.check(&choice.tokens)?;
        let token = self.first(&choice)?;
        self.state().ahead = choice.tokens.iter().rev().map(|&(id, _)| id).collect();
        Ok(token)
    }

    async fn one(&self, question: &Question<'_>) -> Result<Choice, GatewayError> {
        let mut choices = self.shared.client.ask(question).await?;
        choices.pop().ok_or_else(|| lacks("no choice".to_owned()))
    }

    fn first(&self, choice: &Choice) -> Result<u32, GatewayError> {
        self.check(&choice.tokens[..1])?;
        Ok(choice.tokens[0].0)
    }

    fn check(&self, tokens: &[(u32, f64)]) -> Result<(), GatewayError> {
        let vocab_size = self.shared.vocab_size;
        match tokens.iter().find(|&&(id, _)| id >= vocab_size) {
            Some((id, _)) => Err(lacks(format!("token {id} is outside the vocabulary of {vocab_size}"))),
            None => Ok(()),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No code under this lock can panic halfway through a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Stream that continues the text of a round: the current one, or one that makes a new request.
    fn stream_behind(&mut self, round: &Round) -> Stream {
        let (text, sampling) = (&self.tokens[..round.position], round.sampling);
        let agreed = self.agreed.min(text.len());
        self.agreed = text.len();
        let stream = self.stream.take().filter(|stream| stream.goes_on(text, agreed, sampling));
        stream.unwrap_or_else(|| Stream::behind(text.to_vec(), sampling))
    }
}

impl Drop for GatewaySlot {
    fn drop(&mut self) {
        self.shared.taken.fetch_sub(1, Ordering::AcqRel);
        self.shared.metrics.sessions.connected.dec();
    }
}

/// Tokens listed at the positions of the drafts, which end the text.
fn positions<'a>(
    choice: &'a Choice,
    text: &[u32],
    drafts: usize,
) -> Result<impl Iterator<Item = &'a Probabilities>, GatewayError> {
    let (found, expected) = (choice.prompt.len(), text.len());
    if drafts > 0 && found != expected {
        return Err(lacks(format!("log-probabilities of {found} prompt tokens in place of {expected}")));
    }
    Ok(choice.prompt.iter().skip(expected - drafts))
}
