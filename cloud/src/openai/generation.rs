//! Generations, token by token.

use std::{collections::VecDeque, mem, sync::Arc, time::Duration};

use futures_channel::mpsc;
use futures_util::StreamExt;
use outrider_codec::frame::{Finish, Frame, Hello, Request};
use outrider_models::{CallReader, Piece, TextStream, Tokenizer};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tracing::Instrument;

use super::{ApiError, asked::Asked, text::Assembler};
use crate::{
    app::Shared,
    session::{self, Limits},
    target::{
        TargetSlot,
        engine::{Teller, TokenProbability},
    },
    wire::Wire,
};

/// Frames that wait for a slow reader; then the session waits with them, up to its time limit for writing.
const WAITING_FRAMES: usize = 4;

/// A session of our own that generates once or more often. Dropped, it ends.
struct Generation {
    to_cloud: mpsc::UnboundedSender<Vec<u8>>,
    from_cloud: mpsc::Receiver<Vec<u8>>,
    /// What is being written.
    request: Request,
    /// Tokens that came together with those that were asked for, where the next of them stands, and why they are the
    /// last.
    waiting: VecDeque<u32>,
    position: usize,
    finish: Option<Finish>,
    /// What the target says of each token, if that is wanted.
    told: Option<UnboundedReceiver<TokenProbability>>,
}

/// A token, what is told of it, and why it is the last if it is.
struct Next {
    id: u32,
    told: Option<TokenProbability>,
    finish: Option<Finish>,
}

impl Generation {
    async fn begin(
        shared: &Shared,
        asked: Asked,
        request: Request,
        log_probabilities: Option<usize>,
    ) -> Result<Self, ApiError> {
        let Asked { caller, entry, .. } = asked;
        let mut slot = shared.slot(caller.address).await?;
        let told = match (log_probabilities, &mut slot) {
            (None, _) => None,
            (Some(count), TargetSlot::Model(slot)) => {
                let (to, told) = unbounded_channel();
                slot.tell(Teller { count, to });
                Some(told)
            }
            (Some(_), TargetSlot::Gateway(_)) => return Err(no_probabilities()),
        };
        let state = &shared.state;
        let (to_cloud, incoming) = mpsc::unbounded();
        let (outgoing, from_cloud) = mpsc::channel(WAITING_FRAMES);
        let hello = Hello { vocab_size: state.target.vocab_size, tokenizer_hash: state.target.tokenizer_hash };
        // Nobody comes back to it.
        let limits = Limits { detached: Duration::ZERO, ..shared.limits(&caller) };
        let (target, stopping) = (state.target.clone(), state.closing.clone());
        let span = session::span(&slot, caller.address);
        let session = session::run(entry, slot, target, limits, Wire::new(incoming, outgoing), stopping);
        tokio::spawn(session.instrument(span));
        let (waiting, position, finish) = (VecDeque::new(), 0, None);
        let generation = Self { to_cloud, from_cloud, request, waiting, position, finish, told };
        generation.say(&Frame::Hello(hello));
        generation.say(&Frame::Generate(generation.request.clone()));
        Ok(generation)
    }

    /// Once more, with the next seed. What is still being written nobody wants.
    fn again(&mut self) {
        self.say(&Frame::Cancel { generation: self.request.generation });
        self.request.generation += 1;
        self.request.seed = self.request.seed.wrapping_add(1);
        (self.waiting, self.finish) = (VecDeque::new(), None);
        self.say(&Frame::Generate(self.request.clone()));
    }

    fn say(&self, frame: &Frame) {
        // Who does not hear it is not heard from either.
        let _ = self.to_cloud.unbounded_send(frame.encode());
    }

    async fn next(&mut self) -> Result<Next, ApiError> {
        let number = self.request.generation;
        let gone = || ApiError::internal("The generation is lost.");
        loop {
            if let Some(id) = self.waiting.pop_front() {
                let told = self.told(id)?;
                self.position += 1;
                return Ok(Next { id, told, finish: self.finish.filter(|_| self.waiting.is_empty()) });
            }
            let bytes = self.from_cloud.next().await.ok_or_else(gone)?;
            match Frame::decode(&bytes) {
                Ok(Frame::Tokens(tokens)) if tokens.generation == number => {
                    (self.waiting, self.finish) = (tokens.ids.into(), tokens.finish);
                    self.position = tokens.position as usize;
                }
                Ok(Frame::Error(error)) => return Err(error.into()),
                Ok(_) => {}
                Err(_) => return Err(gone()),
            }
        }
    }

    /// What is told of the next token. It was before the token came, behind what was told of tokens that nobody wanted.
    fn told(&mut self, id: u32) -> Result<Option<TokenProbability>, ApiError> {
        let Some(told) = &mut self.told else { return Ok(None) };
        while let Ok(probability) = told.try_recv() {
            if (probability.position, probability.id) == (self.position, id) {
                return Ok(Some(probability));
            }
        }
        Err(no_probabilities())
    }
}

/// The target gives its choice alone.
fn no_probabilities() -> ApiError {
    let text = "logprobs cannot be had of this server: its target's logits are elsewhere, on a device or in an engine.";
    ApiError::invalid(text).param("logprobs").code("unsupported_parameter")
}

/// Texts that are to be written, one after another.
pub(super) struct Order {
    /// Of the first; the others have the seeds that follow.
    pub(super) request: Request,
    /// How many, at least one.
    pub(super) choices: u32,
    /// How many of the likeliest tokens are told at each place, if any are.
    pub(super) log_probabilities: Option<usize>,
    /// Ends a text.
    pub(super) stop: Vec<String>,
    /// Where there are tools to call.
    pub(super) calls: Option<CallReader>,
}

/// What a token adds.
#[derive(Default)]
pub(super) struct Written {
    /// To which of the texts.
    pub(super) choice: u32,
    /// Perhaps nothing.
    pub(super) pieces: Vec<Piece>,
    /// Of the tokens that these are made of and of any since the last, where that is wanted; of none that ends a text.
    pub(super) told: Vec<ToldToken>,
    /// Why it is the last one of its text, if it is.
    pub(super) finish: Option<&'static str>,
}

/// A token as text, and what the target says of it.
#[derive(Debug)]
pub(super) struct ToldToken {
    pub(super) text: String,
    pub(super) log_probability: f64,
    /// The likeliest tokens there, the likeliest first.
    pub(super) likeliest: Vec<(String, f64)>,
    /// Characters of the tokens of its text before it.
    pub(super) offset: usize,
}

/// Generations as text and calls.
pub(super) struct Writing {
    /// None once it is over.
    generation: Option<Generation>,
    tokenizer: Arc<Tokenizer>,
    /// What each text begins with.
    empty: Text,
    text: Text,
    choice: u32,
    choices: u32,
    tokens: u32,
    /// What is told of tokens of which nothing has been written yet.
    told: Vec<ToldToken>,
}

/// A text that is being written.
#[derive(Clone)]
struct Text {
    assembler: Assembler,
    calls: Option<CallReader>,
    has_called: bool,
    /// Characters of its tokens.
    length: usize,
}

impl Writing {
    pub(super) async fn begin(shared: &Shared, asked: Asked, order: Order) -> Result<Self, ApiError> {
        let Order { request, choices, log_probabilities, stop, calls } = order;
        let tokenizer = Arc::clone(&shared.state.served.tokenizer);
        let assembler = Assembler::new(stop, TextStream::after(&tokenizer, &request.tokens));
        let empty = Text { assembler, calls, has_called: false, length: 0 };
        Ok(Self {
            generation: Some(Generation::begin(shared, asked, request, log_probabilities).await?),
            tokenizer,
            text: empty.clone(),
            empty,
            choice: 0,
            choices,
            tokens: 0,
            told: Vec::new(),
        })
    }

    /// Tokens so far, the end-of-text tokens included.
    pub(super) fn tokens(&self) -> u32 {
        self.tokens
    }

    /// What the next token adds; `None` if all is written.
    pub(super) async fn next(&mut self) -> Result<Option<Written>, ApiError> {
        let Some(generation) = &mut self.generation else { return Ok(None) };
        let Next { id, told, finish: end } = match generation.next().await {
            Ok(next) => next,
            Err(error) => {
                self.generation = None;
                return Err(error);
            }
        };
        self.tokens += 1;
        let told = told.filter(|_| end != Some(Finish::Eos)).map(|told| self.text.tell(&self.tokenizer, told));
        self.told.extend(told);
        let (pieces, finish) = self.text.push(&self.tokenizer, id, end);
        let told = if pieces.is_empty() && finish.is_none() { Vec::new() } else { mem::take(&mut self.told) };
        let written = Written { choice: self.choice, pieces, told, finish };
        if finish.is_some() {
            self.choice += 1;
            self.text = self.empty.clone();
            if self.choice < self.choices {
                generation.again();
            } else {
                // The engine need not go on with what nobody reads.
                self.generation = None;
            }
        }
        Ok(Some(written))
    }
}

impl Text {
    fn tell(&mut self, tokenizer: &Tokenizer, told: TokenProbability) -> ToldToken {
        let TokenProbability { id, log_probability, likeliest, .. } = told;
        let text_of = |id| self.assembler.text_of(tokenizer, id);
        let (text, offset) = (text_of(id), self.length);
        let likeliest = likeliest.into_iter().map(|(id, p)| (text_of(id), p)).collect();
        self.length += text.chars().count();
        ToldToken { text, log_probability, likeliest, offset }
    }

    /// What a token adds, and why it is the last one if it is; `end`: what the model or a limit says of that.
    fn push(&mut self, tokenizer: &Tokenizer, token: u32, end: Option<Finish>) -> (Vec<Piece>, Option<&'static str>) {
        let (mut text, mut stopped) = self.assembler.push(tokenizer, token);
        if end.is_some() && !stopped {
            let (rest, stopped_late) = self.assembler.finish();
            text.push_str(&rest);
            stopped = stopped_late;
        }
        let reason = match end {
            _ if stopped => Some("stop"),
            Some(Finish::Eos) => Some("stop"),
            Some(Finish::Length | Finish::Context) => Some("length"),
            None => None,
        };
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
        (pieces, reason)
    }
}
