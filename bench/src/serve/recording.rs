//! Sessions whose messages were recorded, played again.

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::{SinkExt, StreamExt};
use outrider_cloud::{
    edge::{NativeEdge, Transport},
    pair::draft_info,
};
use outrider_codec::{
    frame::{Frame, Next},
    scheme::{Code, SchemeParameters},
};
use outrider_speculation::session::edge::{Mode, Settings, Speculation};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, tungstenite::Message};

use crate::{models::Pair, passes::Failure};
use outrider_papers::reproduce::sessions::DEFAULT_SAMPLING;

const SCHEME: SchemeParameters =
    SchemeParameters::KSqs { support_size: 32, lattice_resolution: 100, code: Code::Enumerative };
/// Drafts of a round: five rows of the target.
const DRAFTS: u32 = 4;
/// Tokens of a session.
const TOKENS: u32 = 96;
/// Words of the tale's sentence that a text begins with.
const PROMPT_WORDS: usize = 12;
/// Time limit for an answer of the server.
const PATIENCE: Duration = Duration::from_secs(60);

/// A message of a session.
#[derive(Debug, Clone)]
enum Step {
    /// A message from the edge.
    Send(Vec<u8>),
    /// A message from the server.
    Expect(Vec<u8>),
}

/// All messages of a session, in order.
#[derive(Debug)]
pub struct Recording(Vec<Step>);

impl Recording {
    /// Number of messages of both ends.
    pub fn steps(&self) -> usize {
        self.0.len()
    }
}

/// Sessions of a pair with the server at `url`, through a proxy that writes down what passes by.
pub async fn record(pair: &Pair, url: &str, count: usize) -> Result<Vec<Arc<Recording>>, Failure> {
    let tokenizer = pair.paths.tokenizer()?;
    let draft = pair.paths.draft_with(&tokenizer)?;
    let prompts = pair.prompts(&pair.paths.target()?, &tokenizer, PROMPT_WORDS)?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let proxy = format!("ws://{}/session", listener.local_addr()?);
    let mut recordings = Vec::new();
    for (seed, prompt) in (1..).zip(prompts.iter().cycle().take(count)) {
        let prompt = prompt.clone();
        let mode = Mode::Speculative(Speculation::new(SCHEME, DRAFTS));
        let settings = Settings { mode, sampling: DEFAULT_SAMPLING, seed, max_new_tokens: TOKENS };
        let generate = async {
            let transport = Transport::connect(&proxy).await?;
            let mut edge = NativeEdge::greet(&draft, draft_info(&draft, &tokenizer)?, transport).await?;
            edge.generate(prompt, &settings, |_| ()).await?;
            edge.close().await;
            Ok::<_, Failure>(())
        };
        let (steps, generated) = tokio::join!(pass_on(&listener, url), generate);
        generated?;
        recordings.push(Arc::new(Recording(steps?)));
    }
    Ok(recordings)
}

/// Records one connection, until either end closes it.
async fn pass_on(listener: &TcpListener, url: &str) -> Result<Vec<Step>, Failure> {
    let (stream, _) = listener.accept().await?;
    stream.set_nodelay(true)?;
    let mut edge = tokio_tungstenite::accept_async(stream).await?;
    let (mut server, _) = tokio_tungstenite::connect_async_with_config(url, None, true).await?;
    let mut steps = Vec::new();
    loop {
        let (message, to_server) = tokio::select! {
            message = edge.next() => (message, true),
            message = server.next() => (message, false),
        };
        let Some(Ok(Message::Binary(bytes))) = message else { return Ok(steps) };
        let step = if to_server { Step::Send } else { Step::Expect };
        steps.push(step(bytes.to_vec()));
        let sent =
            if to_server { server.send(Message::Binary(bytes)).await } else { edge.send(Message::Binary(bytes)).await };
        if sent.is_err() {
            return Ok(steps);
        }
    }
}

/// Results of one session.
#[derive(Debug, Default)]
pub struct Played {
    pub tokens: usize,
    /// Milliseconds from each Draft to its Verdict.
    pub latencies_ms: Vec<f64>,
}

impl Played {
    pub fn add(&mut self, other: Self) {
        self.tokens += other.tokens;
        self.latencies_ms.extend(other.latencies_ms);
    }
}

/// A connection that sends the recorded messages, and requires the recorded answers.
pub struct Player {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    steps: VecDeque<Step>,
    drafted: Instant,
    pub played: Played,
}

impl Player {
    pub async fn connect(url: &str, recording: &Recording) -> Result<Self, Failure> {
        let (socket, _) = tokio_tungstenite::connect_async_with_config(url, None, true).await?;
        let steps = recording.0.clone().into();
        Ok(Self { socket, steps, drafted: Instant::now(), played: Played::default() })
    }

    /// Plays on until the time is over or the session has ended.
    pub async fn play_until(&mut self, end: Instant) -> Result<(), Failure> {
        while Instant::now() < end && !self.steps.is_empty() {
            self.step().await?;
        }
        Ok(())
    }

    /// Plays at least `least` messages, or those that are left: the last one is an answer.
    pub async fn play(&mut self, least: usize) -> Result<(), Failure> {
        let mut count = 0;
        while let Some(next) = self.steps.front() {
            if count >= least && matches!(next, Step::Send(_)) {
                break;
            }
            count += 1;
            self.step().await?;
        }
        Ok(())
    }

    async fn step(&mut self) -> Result<(), Failure> {
        match self.steps.pop_front() {
            None => {}
            Some(Step::Send(bytes)) => {
                self.drafted = Instant::now();
                self.socket.send(Message::Binary(bytes.into())).await?;
            }
            Some(Step::Expect(expected)) => {
                let message = tokio::time::timeout(PATIENCE, self.socket.next()).await?;
                let Some(Ok(Message::Binary(bytes))) = message else {
                    return Err(format!("the server ended a session: {message:?}").into());
                };
                self.check(&bytes, &expected)?;
            }
        }
        Ok(())
    }

    fn check(&mut self, bytes: &[u8], expected: &[u8]) -> Result<(), Failure> {
        match (Frame::decode(bytes)?, Frame::decode(expected)?) {
            // Says who the session is, which is another each time.
            (Frame::Welcome(_), Frame::Welcome(_)) => {}
            (Frame::Verdict(verdict), _) if bytes == expected => {
                self.played.latencies_ms.push(self.drafted.elapsed().as_secs_f64() * 1e3);
                self.played.tokens += usize::from(verdict.accepted) + usize::from(verdict.next != Next::Nothing);
            }
            _ if bytes == expected => {}
            (found, wanted) => return Err(format!("the server answered {found:?}, and {wanted:?} alone").into()),
        }
        Ok(())
    }
}
