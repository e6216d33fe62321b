//! A text as the engine streams it: one request, and another one that continues the text if the stream is cut.
//!
//! Received tokens are kept whatever happens to the connection. Each was drawn given those before it, so a request that
//! continues after the last of them is as exact as an uninterrupted one.
//!
//! Dropping the stream ends the request, and the engine stops.

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

/// Number of received tokens above which the connection is not read, so that further tokens wait in it.
const MOST_WAITING: usize = 256;

/// Engine and settings for requests of a text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) client: &'a Client,
    pub(super) metrics: &'a GatewayMetrics,
    pub(super) vocab_size: u32,
    /// Tokens that end a text.
    pub(super) eos_ids: &'a [u32],
}

/// A text that the engine continues.
#[derive(Debug)]
pub(super) struct Stream {
    /// Prompt of the first request, and the tokens taken since.
    text: Vec<u32>,
    sampling: SamplingParameters,
    /// Tokens that were received after `text` and not taken yet.
    waiting: Vec<u32>,
    connection: Option<Connection>,
    /// Number of tokens received since the last request.
    came: usize,
    /// Error that ended the last request, if it ended before the text did.
    failure: Option<GatewayError>,
}

/// A response that is being read.
#[derive(Debug)]
struct Connection {
    answer: Events,
    /// Prompt of the request, until the engine has confirmed it.
    asked: Option<Vec<u32>>,
    /// Limit on the tokens of the response.
    most: usize,
}

impl Stream {
    /// A stream after a text, without any request yet.
    pub(super) fn behind(text: Vec<u32>, sampling: SamplingParameters) -> Self {
        Self { text, sampling, waiting: Vec::new(), connection: None, came: 0, failure: None }
    }

    /// Returns true if the stream continues this text, whose first `agreed` tokens are known to be its own.
    pub(super) fn goes_on(&self, text: &[u32], agreed: usize, sampling: SamplingParameters) -> bool {
        self.sampling == sampling && self.text.len() == text.len() && self.text[agreed..] == text[agreed..]
    }

    /// Tokens that were received and not taken.
    pub(super) fn waiting(&self) -> &[u32] {
        &self.waiting
    }

    /// Returns true if the last request has led to tokens, and resets that.
    pub(super) fn take_come(&mut self) -> bool {
        std::mem::take(&mut self.came) > 0
    }

    /// Takes `count` of the received tokens, or all if there are fewer.
    pub(super) fn take(&mut self, count: usize) {
        self.text.extend(self.waiting.drain(..count.min(self.waiting.len())));
    }

    /// Stops the engine and keeps the received tokens; the next request continues after them.
    pub(super) fn pause(&mut self) {
        self.connection = None;
    }

    /// Reads the tokens that have arrived, without waiting. An error is returned by the next call of
    /// [`more`](Self::more).
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

    /// Waits for at least one more token, of `left` that may follow the taken ones. Makes a request if there is none.
    ///
    /// # Errors
    /// If no token comes. Tokens received before stay.
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

    /// Requests the tokens after all received ones.
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

    /// Reads the next event of the response. Dropping this future loses nothing.
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
            return Err(lacks(format!(
                "it continues after {} tokens, of the {} that were sent",
                read.len(),
                asked.len()
            )));
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

    /// Ends the response, which is complete.
    fn end(&mut self) -> Result<(), GatewayError> {
        let Some(connection) = self.connection.take().filter(|_| self.came > 0) else {
            return Err(lacks("it ended without a token".to_owned()));
        };
        client::finish(connection.answer);
        Ok(())
    }
}

/// Requests one token after a prompt of `length` tokens, or at most that many. Returns it with the prompt as the engine
/// has read it. Repeats the request after a failure that may pass.
pub(super) async fn first(client: &Client, prompt: Prompt<'_>, length: usize) -> Result<Chunk, GatewayError> {
    let asked = Continuation { prompt, max_tokens: 1, sampling: NEUTRAL, eos_ids: &[] };
    let reads = || async {
        let mut answer = client.stream(&asked, length).await?;
        let mut first = Chunk::default();
        while first.ids.is_empty() {
            match answer.next().await.transpose().map_err(|broken| client.broken(broken))? {
                None | Some(Event::Tokens(Chunk { end: Some(End::GivenUp), .. })) => return Err(client.cut()),
                Some(Event::Tokens(chunk)) => {
                    first = Chunk { prompt: first.prompt.or(chunk.prompt), ..chunk };
                }
                Some(Event::Failed { status, message }) => return Err(client.failed(status, message)),
                Some(Event::Done) => return Err(lacks("it ended without a token".to_owned())),
            }
        }
        client::finish(answer);
        Ok(first)
    };
    let in_time = || async { time::timeout(client.limit(), reads()).await.unwrap_or_else(|_| Err(client.slow())) };
    client::repeated(client::is_passing_for_streams, in_time).await
}

/// Ids that the engine encodes a text into, read from a stream of one token.
pub(super) async fn ids_of(client: &Client, text: &str) -> Result<Vec<u32>, GatewayError> {
    let ids = first(client, Prompt::Text(text), text.len()).await;
    let ids = ids.and_then(|first| first.prompt.ok_or_else(|| lacks("no prompt_token_ids".to_owned())));
    ids.map_err(|error| match error {
        GatewayError::Answer { what } => GatewayError::NoStream { what },
        other => other,
    })
}
