//! Generation of the choices of one request, token by token.
//!
//! The choices of a request are generated in parallel. Each lane is a session of its own on a slot of its own, so that
//! the engine batches their tokens. A request has at least one slot. It gets more while half of the slots are free and
//! its address has fewer additional choices than it may have sessions. A lane that has finished a choice takes the
//! next. The first lane reads the prompt; the others copy its KV cache.
//!
//! ```text
//! lane 0: choice 0, choice 2 ──┐
//! lane 1: choice 1, choice 3 ──┴─▶ deltas ──▶ TokenStream ──▶ one object, or server-sent events
//! ```

use std::{
    mem,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use outrider_codec::frame::{ErrorCode, ErrorFrame, Finish, Request, Tokens};
use outrider_models::{CallReader, Piece, ReasoningReader, StopStrings, TextStream, TokenTexts, Tokenizer};
use outrider_speculation::session::{cloud::Shaping, edge::Mode};
use tokio::{
    sync::{
        mpsc::{self, UnboundedReceiver, unbounded_channel},
        watch,
    },
    task::JoinSet,
    time::{self, Instant},
};
use tracing::Instrument;

use super::{
    admitted_request::AdmittedRequest,
    delta::{Delta, TokenLogprob, TokenText, no_probabilities},
    echo::Echo,
    seat::{Alone, Seat, SeatSession},
};
use crate::{
    api_drafting::{ApiDrafting, DraftedSession},
    http::{ApiError, Served, Shared},
    keys::Key,
    session::{self, EXPIRED, Limits, NO_SHAPING, STOPPING, in_process::InProcessSession},
    shaping::{AnswerShaping, Penalties, grammar::Grammar},
    target::{
        TargetSlot,
        engine::{LogprobSink, TokenProbability},
    },
};

/// Capacity of each lane's queue of deltas for a slow reader. A full queue makes the lane wait, up to its time limit
/// for writing.
const WAITING_DELTAS: usize = 4;

/// Generation parameters of a request.
pub(super) struct GenerationParams {
    /// Request of the first choice of each prompt; its others have the seeds that follow.
    pub(super) requests: Vec<Request>,
    /// Number of choices of each prompt, at least one.
    pub(super) per_prompt: u32,
    /// Number of most likely tokens listed at each position; `None` without log-probabilities.
    pub(super) log_probabilities: Option<usize>,
    /// Stop strings, which end a choice. A special token, which has no text, ends it if a stop string spells it.
    pub(super) stop: Vec<String>,
    /// Tokens that end a choice like the target's own.
    pub(super) stop_ids: Vec<u32>,
    /// Reader of tool calls in the text, if there are tools to call.
    pub(super) calls: Option<CallReader>,
    /// Reader of the reasoning before the answer, if it is to be separated.
    pub(super) reasoning: Option<ReasoningReader>,
    pub(super) penalties: Penalties,
    /// Grammar of each choice, at its beginning.
    pub(super) grammar: Option<Grammar>,
    /// Drafting of all choices; `None` if the target writes them alone.
    pub(super) drafting: Option<(Arc<ApiDrafting>, Mode)>,
    /// Beginning of the choices of each prompt; empty without `echo`.
    pub(super) echoes: Vec<Echo>,
}

impl GenerationParams {
    /// Number of choices of all prompts.
    fn choices(&self) -> u32 {
        self.per_prompt * self.requests.len() as u32
    }

    /// Request of a choice.
    fn request(&self, choice: u32) -> Request {
        let request = &self.requests[(choice / self.per_prompt) as usize];
        Request { seed: request.seed.wrapping_add((choice % self.per_prompt).into()), ..request.clone() }
    }

    /// Returns true if the target's logits are to be changed.
    fn changes_logits(&self) -> bool {
        self.grammar.is_some() || self.penalties != Penalties::default()
    }

    /// Change of the target's logits for a choice of a request, if there is any.
    fn shaping(&self, request: &Request) -> Option<Arc<dyn Shaping>> {
        if !self.changes_logits() {
            return None;
        }
        let Request { sampling, tokens, .. } = request;
        let grammar = self.grammar.as_ref().map(Grammar::copy);
        Some(Arc::new(AnswerShaping::new(self.penalties.clone(), sampling.temperature, tokens.len(), grammar)))
    }
}

/// Deltas of all choices of a request, in order within each choice. Dropping it ends the generation.
pub(super) struct TokenStream {
    deltas: mpsc::Receiver<Result<Delta, ApiError>>,
    /// Number of choices that are not complete.
    unfinished: u32,
    tokens: u32,
    /// Key that the tokens count towards.
    key: Option<Arc<Key>>,
    _lanes: JoinSet<()>,
}

impl TokenStream {
    /// Takes slots and starts the lanes.
    ///
    /// # Errors
    /// If no slot is free, or the target gives no log-probabilities.
    pub(super) async fn begin(
        shared: &Shared,
        served: &Served,
        admitted: AdmittedRequest,
        params: GenerationParams,
    ) -> Result<Self, ApiError> {
        let AdmittedRequest { caller, entry, key, .. } = admitted;
        let (state, client) = (&shared.state, caller.address);
        let choices = params.choices();
        let slot = shared.slot(served, client).await?;
        if let Some(key) = &key {
            key.used(params.requests.iter().map(|request| request.tokens.len() as u64).sum(), 0);
        }
        let first = slot.id();
        let mut seats = vec![(slot, Some(entry), None)];
        while seats.len() < choices as usize {
            let Some((permit, slot)) = shared.slot_for_choice(served, client) else { break };
            let slot = if params.drafting.is_some() { slot } else { slot.copying(first) };
            seats.push((slot, None, Some(permit)));
        }
        if params.changes_logits() && !seats[0].0.gives_rows() {
            return Err(no_shaping());
        }
        let (sender, deltas) = mpsc::channel(WAITING_DELTAS * seats.len());
        let (params, next) = (Arc::new(params), Arc::new(AtomicU32::new(0)));
        let (has_read, prompt_read) = watch::channel(false);
        let mut has_read = Some(has_read);
        let mut lanes = JoinSet::new();
        for (mut slot, entry, permit) in seats {
            let probabilities = match (params.log_probabilities, &mut slot) {
                (None, _) => None,
                (Some(count), TargetSlot::Model(slot)) => {
                    let (to, probabilities) = unbounded_channel();
                    slot.send_logprobs(LogprobSink { count, to });
                    Some(probabilities)
                }
                (Some(_), TargetSlot::Gateway(_)) => return Err(no_probabilities()),
            };
            let span = session::span(&slot, &served.name, client);
            let (target, limits, held) = (served.target.clone(), state.limits, (entry, permit));
            let seat = match &params.drafting {
                None => Seat::Alone(Box::new(Alone { slot, target, client, _held: held })),
                Some((drafting, mode)) => {
                    let (mode, stopping) = (mode.clone(), state.closing.clone());
                    let session = DraftedSession::new(drafting, mode, slot, target, limits, stopping, held);
                    Seat::Drafted(session.map_err(ApiError::from)?)
                }
            };
            let lane = Lane {
                tokenizer: Arc::clone(&served.tokenizer),
                params: Arc::clone(&params),
                next: Arc::clone(&next),
                has_read: has_read.take(),
                prompt_read: prompt_read.clone(),
                probabilities,
                deltas: sender.clone(),
                limits,
                closing: state.closing.clone(),
            };
            lanes.spawn(lane.run(seat).instrument(span));
        }
        Ok(Self { deltas, unfinished: choices, tokens: 0, key, _lanes: lanes })
    }

    /// Number of tokens so far, including end-of-text tokens.
    pub(super) fn tokens(&self) -> u32 {
        self.tokens
    }

    /// Waits for the next delta; `None` if all choices are complete.
    ///
    /// # Errors
    /// The error that ends all choices early.
    pub(super) async fn next(&mut self) -> Result<Option<Delta>, ApiError> {
        if self.unfinished == 0 {
            return Ok(None);
        }
        let lost = || Err(ApiError::internal("The generation was lost."));
        let delta = self.deltas.recv().await.unwrap_or_else(lost)?;
        if !delta.is_prompt {
            self.tokens += 1;
            if let Some(key) = &self.key {
                key.used(0, 1);
            }
        }
        self.unfinished -= u32::from(delta.finish.is_some());
        Ok(Some(delta))
    }
}

/// The choices that are generated on one seat, one after another.
struct Lane {
    tokenizer: Arc<Tokenizer>,
    params: Arc<GenerationParams>,
    /// Index of the next choice of the request to begin.
    next: Arc<AtomicU32>,
    /// Becomes true when the first lane has read the prompt, which the others copy. The first lane has the sender.
    has_read: Option<watch::Sender<bool>>,
    prompt_read: watch::Receiver<bool>,
    /// Log-probabilities of each token; they arrive before the token does.
    probabilities: Option<UnboundedReceiver<TokenProbability>>,
    deltas: mpsc::Sender<Result<Delta, ApiError>>,
    limits: Limits,
    closing: watch::Receiver<bool>,
}

impl Lane {
    async fn run(mut self, mut seat: Seat) {
        let expiry = Instant::now() + self.limits.lifetime;
        let mut session = match &mut seat {
            Seat::Alone(seat) => {
                SeatSession::Alone(Box::new(InProcessSession::new(&seat.slot, seat.target.clone(), seat.client)))
            }
            Seat::Drafted(session) => SeatSession::Drafted(session),
        };
        let GenerationParams { stop, calls, reasoning, .. } = &*self.params;
        let has_no_text = |id: &u32| TextStream::new().text_of(&self.tokenizer, *id).is_empty();
        let special = stop.iter().filter_map(|stop| self.tokenizer.token_id(stop).filter(has_no_text));
        let stop_ids: Vec<u32> = special.chain(self.params.stop_ids.iter().copied()).collect();
        if self.has_read.is_none() {
            // If the first lane ends early, its sender is dropped and the others continue.
            let _ = self.prompt_read.wait_for(|has_read| *has_read).await;
        }
        loop {
            let choice = self.next.fetch_add(1, Ordering::Relaxed);
            if choice >= self.params.choices() {
                return;
            }
            let request = self.params.request(choice);
            let stream = TextStream::after(&self.tokenizer, &request.tokens);
            let mut text = Text {
                texts: TokenTexts::new(StopStrings::new(stop.clone()), stream.clone()),
                told: stream,
                stop_ids: stop_ids.clone(),
                calls: calls.clone(),
                reasoning: reasoning.clone(),
                has_called: false,
                length: 0,
                logprobs: Vec::new(),
                ids: Vec::new(),
                certain: 0,
            };
            if let Some(echo) = self.params.echoes.get((choice / self.params.per_prompt) as usize) {
                let count = self.params.log_probabilities;
                let delta = echo.delta(session.slot(), &self.tokenizer, &request, choice, count).await;
                let is_whole = delta.as_ref().is_ok_and(|delta| delta.finish.is_some());
                text.length = delta.as_ref().map_or(0, Delta::characters);
                if !self.send(delta).await {
                    return;
                }
                if is_whole {
                    continue;
                }
            }
            // Log-probabilities of a choice that a stop string ended may be left over.
            while self.probabilities.as_mut().is_some_and(|probabilities| probabilities.try_recv().is_ok()) {}
            let shaping = self.params.shaping(&request);
            session.generate(request, shaping);
            let mut is_complete = false;
            while !is_complete {
                let tokens = tokio::select! {
                    tokens = session.next() => tokens,
                    () = session::stopped(&mut self.closing) => Err(session.close(ErrorCode::ShuttingDown, STOPPING)),
                    () = time::sleep_until(expiry) => Err(session.close(ErrorCode::SessionExpired, EXPIRED)),
                };
                if let Some(has_read) = self.has_read.as_ref().filter(|has_read| !*has_read.borrow()) {
                    has_read.send_replace(true);
                }
                let deltas = text.deltas(&self.tokenizer, choice, tokens, self.probabilities.as_mut());
                for delta in deltas {
                    is_complete |= delta.as_ref().map_or(true, |delta| delta.finish.is_some());
                    if !self.send(delta).await {
                        return;
                    }
                }
            }
        }
    }

    /// Sends a delta to the stream. Returns false if nothing can follow it.
    async fn send(&self, delta: Result<Delta, ApiError>) -> bool {
        let is_failure = delta.is_err();
        let sent = time::timeout(self.limits.write, self.deltas.send(delta)).await;
        !is_failure && matches!(sent, Ok(Ok(())))
    }
}

/// State of a choice that is being generated.
struct Text {
    texts: TokenTexts,
    /// Text of the tokens whose log-probabilities are known, whether it is held back or not.
    told: TextStream,
    /// Special tokens that end the choice.
    stop_ids: Vec<u32>,
    calls: Option<CallReader>,
    reasoning: Option<ReasoningReader>,
    has_called: bool,
    /// Number of characters of that text, and of the prompt if the choice begins with it.
    length: usize,
    /// Log-probabilities of tokens without any text sent yet.
    logprobs: Vec<TokenLogprob>,
    /// Ids of the tokens that were not sent yet.
    ids: Vec<u32>,
    /// Number of leading ids whose text no stop string can take back. A client that continues the text itself begins
    /// after the ids that it has, and shows the text of those that follow.
    certain: usize,
}

impl Text {
    /// Deltas of tokens that arrived together, up to the end of the choice.
    fn deltas(
        &mut self,
        tokenizer: &Tokenizer,
        choice: u32,
        tokens: Result<Tokens, ErrorFrame>,
        mut probabilities: Option<&mut UnboundedReceiver<TokenProbability>>,
    ) -> Vec<Result<Delta, ApiError>> {
        let Tokens { position, ids, finish: end, .. } = match tokens {
            Ok(tokens) => tokens,
            Err(error) => return vec![Err(error.into())],
        };
        let mut deltas = Vec::with_capacity(ids.len());
        let count = ids.len();
        for (index, id) in ids.into_iter().enumerate() {
            let is_stop = self.stop_ids.contains(&id);
            let end = if is_stop { Some(Finish::Eos) } else { end.filter(|_| index + 1 == count) };
            if let Some(probabilities) = probabilities.as_deref_mut() {
                match probability(probabilities, position as usize + index, id) {
                    // What ends a text and has none is no part of it.
                    Ok(_) if end == Some(Finish::Eos) && self.told.text_of(tokenizer, id).is_empty() => {}
                    Ok(probability) => self.add_logprob(tokenizer, probability),
                    Err(error) => {
                        deltas.push(Err(error));
                        return deltas;
                    }
                }
            }
            self.ids.push(id);
            let (reasoning, pieces, finish) = self.push(tokenizer, id, end);
            let has_news = !pieces.is_empty() || !reasoning.is_empty() || finish.is_some();
            let (logprobs, certain) = match has_news {
                true => (mem::take(&mut self.logprobs), mem::take(&mut self.certain)),
                false => Default::default(),
            };
            let given = if finish.is_some() { self.ids.len() } else { certain };
            let ids = self.ids.drain(..given).collect();
            deltas.push(Ok(Delta { choice, pieces, reasoning, logprobs, ids, finish, is_prompt: false }));
            if finish.is_some() {
                break;
            }
        }
        deltas
    }

    fn add_logprob(&mut self, tokenizer: &Tokenizer, probability: TokenProbability) {
        let TokenProbability { id, log_probability, likeliest, .. } = probability;
        let log_probability = Some(log_probability);
        let text_of = |id| TokenText::of(id, &self.told, tokenizer);
        let (token, offset) = (text_of(id), self.length);
        let likeliest = likeliest.into_iter().map(|(id, p)| (text_of(id), p)).collect();
        self.length += self.told.push(tokenizer, id).chars().count();
        self.logprobs.push(TokenLogprob { token, log_probability, likeliest, offset });
    }

    /// Reasoning, text and calls that a token adds, and the finish reason if the choice ends with it. `end` is the
    /// reason given by the model or by a limit.
    fn push(
        &mut self,
        tokenizer: &Tokenizer,
        token: u32,
        end: Option<Finish>,
    ) -> (String, Vec<Piece>, Option<&'static str>) {
        let texts = self.texts.push(tokenizer, token);
        self.certain += texts.len();
        let mut text = texts.concat();
        let stopped = self.texts.has_stopped();
        if end.is_some() && !stopped {
            let (waiting, rest) = self.texts.finish();
            text.extend(waiting);
            text.push_str(&rest);
        }
        let reason = match end {
            _ if stopped => Some("stop"),
            Some(Finish::Eos) => Some("stop"),
            Some(Finish::Length | Finish::Context) => Some("length"),
            None => None,
        };
        let mut reasoning = String::new();
        if let Some(reader) = &mut self.reasoning {
            (reasoning, text) = reader.push(&text);
            if reason.is_some() {
                let (more, rest) = reader.finish();
                reasoning += &more;
                text += &rest;
            }
        }
        let pieces = match &mut self.calls {
            Some(calls) => {
                let mut pieces = calls.push(&text);
                if reason.is_some() {
                    pieces.extend(calls.finish());
                }
                pieces
            }
            None if text.is_empty() => Vec::new(),
            None => vec![Piece::Text(text)],
        };
        self.has_called |= pieces.iter().any(|piece| matches!(piece, Piece::Call(_)));
        let reason = reason.map(|reason| if self.has_called && reason == "stop" { "tool_calls" } else { reason });
        (reasoning, pieces, reason)
    }
}

/// Log-probability of a token; it arrived before the token did.
fn probability(
    probabilities: &mut UnboundedReceiver<TokenProbability>,
    position: usize,
    id: u32,
) -> Result<TokenProbability, ApiError> {
    while let Ok(probability) = probabilities.try_recv() {
        if (probability.position, probability.id) == (position, id) {
            return Ok(probability);
        }
    }
    Err(no_probabilities())
}

/// Error of a target whose logits cannot be changed.
fn no_shaping() -> ApiError {
    ApiError::invalid(NO_SHAPING).code("unsupported_parameter")
}
