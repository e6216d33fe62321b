//! One generation, token by token.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use futures_channel::mpsc;
use futures_util::StreamExt;
use outrider_codec::frame::{ErrorCode, ErrorFrame, Finish, Frame, Hello, Request};
use outrider_models::{CallReader, Piece, Tokenizer};

use super::{ApiError, asked::Asked, text::Assembler};
use crate::{
    app::Shared,
    session::{self, Limits},
    wire::Wire,
};

/// Frames that wait for a slow reader; then the session waits with them, up to its time limit for writing.
const WAITING_FRAMES: usize = 4;

/// A session of our own that generates once. Dropped, it ends.
struct Generation {
    /// Held open: closed, it reads as the client having gone.
    _to_cloud: mpsc::UnboundedSender<Vec<u8>>,
    from_cloud: mpsc::Receiver<Vec<u8>>,
    /// Tokens that came together with those that were asked for, and why they are the last.
    waiting: VecDeque<u32>,
    finish: Option<Finish>,
}

impl Generation {
    async fn begin(shared: &Shared, asked: Asked, request: Request) -> Result<Self, ApiError> {
        let Asked { caller, entry, .. } = asked;
        let slot = shared.slot().await?;
        let state = &shared.state;
        let (to_cloud, incoming) = mpsc::unbounded();
        let (outgoing, from_cloud) = mpsc::channel(WAITING_FRAMES);
        let hello = Hello { vocab_size: state.target.vocab_size, tokenizer_hash: state.target.tokenizer_hash };
        for frame in [Frame::Hello(hello), Frame::Generate(request)] {
            // The other end is above.
            let _ = to_cloud.unbounded_send(frame.encode());
        }
        // Nobody comes back to it.
        let limits = Limits { detached: Duration::ZERO, ..shared.limits(&caller) };
        let (target, stopping) = (state.target.clone(), state.closing.clone());
        tokio::spawn(session::run(entry, slot, target, limits, Wire::new(incoming, outgoing), stopping));
        Ok(Self { _to_cloud: to_cloud, from_cloud, waiting: VecDeque::new(), finish: None })
    }

    async fn next(&mut self) -> Result<(u32, Option<Finish>), ErrorFrame> {
        let gone =
            || ErrorFrame { generation: 1, code: ErrorCode::Internal, text: "The generation is lost.".to_owned() };
        loop {
            if let Some(id) = self.waiting.pop_front() {
                return Ok((id, self.finish.filter(|_| self.waiting.is_empty())));
            }
            let bytes = self.from_cloud.next().await.ok_or_else(gone)?;
            match Frame::decode(&bytes) {
                Ok(Frame::Tokens(tokens)) => (self.waiting, self.finish) = (tokens.ids.into(), tokens.finish),
                Ok(Frame::Error(error)) => return Err(error),
                Ok(_) => {}
                Err(_) => return Err(gone()),
            }
        }
    }
}

/// A generation as text and calls.
pub(super) struct Writing {
    /// None once it is over.
    generation: Option<Generation>,
    assembler: Assembler,
    /// Where there are tools to call.
    calls: Option<CallReader>,
    has_called: bool,
    tokenizer: Arc<Tokenizer>,
    tokens: u32,
}

impl Writing {
    pub(super) async fn begin(
        shared: &Shared,
        asked: Asked,
        request: Request,
        stop: Vec<String>,
        calls: Option<CallReader>,
    ) -> Result<Self, ApiError> {
        Ok(Self {
            generation: Some(Generation::begin(shared, asked, request).await?),
            assembler: Assembler::new(stop),
            calls,
            has_called: false,
            tokenizer: Arc::clone(&shared.state.served.tokenizer),
            tokens: 0,
        })
    }

    /// Tokens so far, the end-of-text token included.
    pub(super) fn tokens(&self) -> u32 {
        self.tokens
    }

    /// What the next token adds to what is written, if anything, and why it is the last one, if it is.
    pub(super) async fn next(&mut self) -> Result<(Vec<Piece>, Option<&'static str>), ApiError> {
        let Some(generation) = &mut self.generation else { return Ok((Vec::new(), Some("stop"))) };
        let (token, finish) = match generation.next().await {
            Ok(next) => next,
            Err(error) => {
                self.generation = None;
                return Err(error.into());
            }
        };
        self.tokens += 1;
        let (mut text, mut stopped) = self.assembler.push(&self.tokenizer, token);
        if finish.is_some() && !stopped {
            let (rest, stopped_late) = self.assembler.finish();
            text.push_str(&rest);
            stopped = stopped_late;
        }
        let reason = match finish {
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
        if reason.is_some() {
            // The engine need not go on with what nobody reads.
            self.generation = None;
        }
        let reason = reason.map(|reason| if self.has_called && reason == "stop" { "tool_calls" } else { reason });
        Ok((pieces, reason))
    }
}
