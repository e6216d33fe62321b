//! A text as the engine writes it: one request, whose tokens come in chunks, and another behind them if it is cut.
//!
//! Tokens that came are kept whatever happens to the connection. Each was drawn behind those before it, so a request
//! that goes on behind the last of them is as exact as one that was never cut.
//!
//! Dropped, it ends the request, and the engine stops.

use futures_util::FutureExt;
use outrider_codec::frame::SamplingParameters;
use tokio::time::{self, Instant};

use super::{
    client::{self, Client},
    completion::{Continuation, NEUTRAL, Prompt, lacks},
    error::GatewayError,
    events::{Chunk, End, Event, Events},
};
use crate::metrics::GatewayMetrics;

/// Tokens that wait to be taken, above which nothing more is read: what comes waits in the connection.
const MOST_WAITING: usize = 256;

/// What is asked of an engine, for all of a text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) client: &'a Client,
    pub(super) metrics: &'a GatewayMetrics,
    pub(super) vocab_size: u32,
    /// Tokens that end a text.
    pub(super) eos_ids: &'a [u32],
}

/// A text and the engine that goes on with it.
#[derive(Debug)]
pub(super) struct Stream {
    /// What was asked and what was taken since.
    text: Vec<u32>,
    sampling: SamplingParameters,
    /// Tokens that came behind that and were not taken.
    waiting: Vec<u32>,
    connection: Option<Connection>,
    /// Tokens that came since the last request.
    came: usize,
    /// What ended the last one, if that was no end of the text.
    failure: Option<GatewayError>,
}

/// An answer that is being read.
#[derive(Debug)]
struct Connection {
    answer: Events,
    /// The prompt, until the engine has said that it has read that.
    asked: Option<Vec<u32>>,
    /// Tokens that may come.
    most: usize,
}

impl Stream {
    /// Behind a text, of which nothing has been asked yet.
    pub(super) fn behind(text: Vec<u32>, sampling: SamplingParameters) -> Self {
        Self { text, sampling, waiting: Vec::new(), connection: None, came: 0, failure: None }
    }

    /// Whether it goes on from this text, of which the first `agreed` tokens are known to be its own.
    pub(super) fn goes_on(&self, text: &[u32], agreed: usize, sampling: SamplingParameters) -> bool {
        self.sampling == sampling && self.text.len() == text.len() && self.text[agreed..] == text[agreed..]
    }

    /// Tokens that came and were not taken.
    pub(super) fn waiting(&self) -> &[u32] {
        &self.waiting
    }

    /// Whether the last request has led to tokens; told once a request.
    pub(super) fn take_come(&mut self) -> bool {
        std::mem::take(&mut self.came) > 0
    }

    /// Takes so many of them, as far as they came.
    pub(super) fn take(&mut self, count: usize) {
        self.text.extend(self.waiting.drain(..count.min(self.waiting.len())));
    }

    /// Has the engine stop. What came stays; what follows is asked for when it is wanted.
    pub(super) fn pause(&mut self) {
        self.connection = None;
    }

    /// Reads what has come, without waiting for anything. What is wrong with it is told by [`more`](Self::more).
    pub(super) fn drain(&mut self, source: Source<'_>) {
        while self.waiting.len() < MOST_WAITING && self.connection.is_some() {
            match self.read(source).now_or_never() {
                Some(Ok(())) => {}
                Some(Err(error)) => {
                    (self.connection, self.failure) = (None, Some(error));
                }
                None => break,
            }
        }
    }

    /// Waits for at least one token more, of `left` that may follow those that were taken. Asks for them if need be.
    ///
    /// # Errors
    /// If none comes. What came before stays.
    pub(super) async fn more(&mut self, source: Source<'_>, left: usize) -> Result<(), GatewayError> {
        if let Some(error) = self.failure.take() {
            return Err(error);
        }
        let deadline = Instant::now() + source.client.limit();
        let had = self.waiting.len();
        let waits = async {
            while self.waiting.len() == had {
                if self.connection.is_none() {
                    self.ask(source, left).await?;
                }
                self.read(source).await?;
            }
            Ok(())
        };
        let result = time::timeout_at(deadline, waits).await.unwrap_or_else(|_| Err(source.client.slow()));
        if result.is_err() {
            self.connection = None;
        }
        result
    }

    /// Asks for what follows all that came.
    async fn ask(&mut self, source: Source<'_>, left: usize) -> Result<(), GatewayError> {
        let most = left.saturating_sub(self.waiting.len());
        if most == 0 {
            return Err(lacks("the text is at its end".to_owned()));
        }
        let prompt = [&self.text[..], &self.waiting].concat();
        let (sampling, eos_ids) = (self.sampling, source.eos_ids);
        let continuation = Continuation { prompt: Prompt::Tokens(&prompt), max_tokens: most, sampling, eos_ids };
        let answer = source.client.stream(&continuation, prompt.len()).await?;
        self.came = 0;
        self.connection = Some(Connection { answer, asked: Some(prompt), most });
        Ok(())
    }

    /// Reads the next event of the answer. Nothing is lost if this is dropped before it is ready.
    async fn read(&mut self, source: Source<'_>) -> Result<(), GatewayError> {
        let Some(connection) = &mut self.connection else { return Ok(()) };
        let Some(event) = connection.answer.next().await else { return Err(source.client.cut()) };
        let chunk = match event.map_err(|broken| source.client.broken(broken))? {
            Event::Tokens(chunk) => chunk,
            Event::Failed { status, message } => return Err(source.client.failed(status, message)),
            Event::Done => return self.end(),
        };
        if let (Some(read), Some(asked)) = (chunk.prompt, connection.asked.take())
            && read != asked
        {
            return Err(lacks(format!("it goes on from {} tokens, of {} that were asked", read.len(), asked.len())));
        }
        if let Some(id) = chunk.ids.iter().find(|id| **id >= source.vocab_size) {
            return Err(lacks(format!("token {id} is outside the vocabulary of {}", source.vocab_size)));
        }
        self.came += chunk.ids.len();
        if self.came > connection.most {
            let (came, most) = (self.came, connection.most);
            return Err(lacks(format!("{came} tokens are more than the {most} that were asked for")));
        }
        if !chunk.ids.is_empty() {
            source.metrics.chunk_tokens.observe(chunk.ids.len() as f64);
        }
        self.waiting.extend(chunk.ids);
        match chunk.end {
            None => Ok(()),
            Some(End::OfText) => self.end(),
            Some(End::GivenUp) => Err(source.client.cut()),
        }
    }

    /// The answer is complete.
    fn end(&mut self) -> Result<(), GatewayError> {
        let Some(connection) = self.connection.take().filter(|_| self.came > 0) else {
            return Err(lacks("it ended without a token".to_owned()));
        };
        client::finish(connection.answer);
        Ok(())
    }
}

/// The ids that the engine reads a text as, which it tells with a stream of one token.
pub(super) async fn ids_of(client: &Client, text: &str) -> Result<Vec<u32>, GatewayError> {
    let asked = Continuation { prompt: Prompt::Text(text), max_tokens: 1, sampling: NEUTRAL, eos_ids: &[] };
    let reads = async {
        let mut answer = client.stream(&asked, text.len()).await?;
        while let Some(event) = answer.next().await {
            if let Event::Tokens(Chunk { prompt: Some(ids), .. }) = event.map_err(|broken| client.broken(broken))? {
                client::finish(answer);
                return Ok(ids);
            }
        }
        Err(lacks("no prompt_token_ids".to_owned()))
    };
    let ids = time::timeout(client.limit(), reads).await.unwrap_or_else(|_| Err(client.slow()));
    ids.map_err(|error| match error {
        GatewayError::Answer { what } => GatewayError::NoStream { what },
        other => other,
    })
}
