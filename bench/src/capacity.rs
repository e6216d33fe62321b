//! `cargo xtask bench capacity`: how many sessions one core of a large target serves.
//!
//! ```text
//! capacity FOLDER OUTRIDER TARGET [quick]     measures; results go to FOLDER
//! ```
//!
//! The server has one thread for its models; those who ask it run on what is left of the machine. Edges cost nothing
//! but the time that is waited for each of their drafts: what their draft model guesses was computed before. Every text
//! is the same in every way of writing it; a session that gets another one is an error.

use std::{
    fmt::Write,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::{SinkExt, StreamExt};
use outrider_cloud::pair::PairPaths;
use outrider_codec::{
    frame::{Frame, Guesses, Hello, Request, SamplingParameters},
    scheme::{Drafts, Scheme, SchemeParameters},
};
use outrider_models::{Chunk, Model, Tokenizer};
use outrider_speculation::sample::{Distribution, SharedNoise};
use serde::Serialize;
use tokio::{task::JoinSet, time};
use tokio_tungstenite::tungstenite::Message;

use outrider_papers::reproduce::sessions::beginnings;

use crate::{passes::Failure, report, samples::digits, serve::process::Server};

const SAMPLING: SamplingParameters = SamplingParameters { temperature: 0.7, top_k: 0, top_p: 1.0 };
/// Tokens of a text, without its prompt.
const TOKENS: u32 = 64;
/// Number of tokens that an edge guesses ahead of the text, and time that a guess takes it.
const LEAD: usize = 6;
const DRAFT: Duration = Duration::from_millis(1);
/// Time limit for an answer of the server.
const PATIENCE: Duration = Duration::from_secs(120);

/// Runs the measurement with the arguments that follow its name.
pub fn run(arguments: &[&str]) -> Result<(), Failure> {
    let (folder, outrider, target, quick) = match *arguments {
        [folder, outrider, target] => (folder, outrider, target, false),
        [folder, outrider, target, "quick"] => (folder, outrider, target, true),
        _ => return Err("a folder, the server's executable, a target and perhaps `quick` are expected".into()),
    };
    let bench = Bench {
        folder: folder.into(),
        outrider: outrider.into(),
        target: target.into(),
        levels: if quick { &[1, 2, 4, 8] } else { &[1, 2, 3, 4, 6, 8, 12, 16, 24] },
        time: Duration::from_secs(if quick { 12 } else { 30 }),
    };
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?.block_on(bench.run())
}

struct Bench {
    folder: PathBuf,
    outrider: PathBuf,
    target: String,
    levels: &'static [usize],
    time: Duration,
}

/// The way in which texts are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
enum Way {
    Alone,
    OwnDrafts,
    Guesses,
    AllGuesses,
    Both,
}

impl Way {
    const ALL: [Self; 5] = [Self::Alone, Self::OwnDrafts, Self::Guesses, Self::AllGuesses, Self::Both];

    fn name(self) -> &'static str {
        match self {
            Self::Alone => "the server alone",
            Self::OwnDrafts => "its own drafts",
            Self::Guesses => "guesses",
            Self::AllGuesses => "guesses, all of them judged",
            Self::Both => "guesses and its own drafts",
        }
    }

    fn own_draft(self) -> &'static str {
        if matches!(self, Self::OwnDrafts | Self::Both) { "auto" } else { "off" }
    }

    fn guesses(self) -> bool {
        matches!(self, Self::Guesses | Self::AllGuesses | Self::Both)
    }

    fn judged(self) -> &'static str {
        if self == Self::AllGuesses { "all" } else { "paid" }
    }
}

/// A text, and the draft model's guess for each of its positions.
struct Text {
    seed: u64,
    prompt: Vec<u32>,
    /// Prompt included; empty until it has been written once.
    ids: Vec<u32>,
    guesses: Vec<u32>,
}

/// Result of one way of writing at one number of sessions at a time.
#[derive(Serialize)]
struct Level {
    way: Way,
    sessions: usize,
    tokens_per_second: f64,
    /// Tokens per second of the slowest session.
    least: f64,
    passes_per_token: f64,
    rows_per_token: f64,
}

impl Bench {
    async fn run(self) -> Result<(), Failure> {
        let pair = PairPaths::default();
        let (draft, tokenizer) = (pair.draft()?, pair.tokenizer()?);
        let hello = Hello { vocab_size: draft.config().vocab_size as u32, tokenizer_hash: tokenizer.fingerprint() };
        let texts = self.texts(&draft, &tokenizer, &hello).await?;
        let mut levels: Vec<Level> = Vec::new();
        for &sessions in self.levels {
            for way in Way::ALL {
                levels.push(self.level(way, sessions, &hello, &texts).await?);
                println!("{sessions} sessions, {}", way.name());
            }
        }
        report::write(&self.folder, "capacity", &tables(&levels)?, serde_json::to_value(&levels)?, None)
    }

    fn server(&self, way: Way) -> Result<Server, Failure> {
        let drafts = ["--own-draft", way.own_draft(), "--guesses", way.judged()];
        Server::start(&self.outrider, &[&["--threads", "1", "--target", &self.target][..], &drafts].concat())
    }

    /// Texts as the target writes them alone, and the draft model's guesses at them.
    async fn texts(&self, draft: &Model, tokenizer: &Tokenizer, hello: &Hello) -> Result<Vec<Arc<Text>>, Failure> {
        let server = self.server(Way::Alone)?;
        let mut texts = Vec::new();
        for (seed, beginning) in (1..).zip(beginnings(8).iter().take(8)) {
            let prompt = tokenizer.encode_prompt(draft.config().first_token(), beginning)?;
            let mut text = Text { seed, ids: prompt.clone(), prompt, guesses: Vec::new() };
            let written = Session::open(&server, hello).await?.write(&text, false, None).await?;
            text.ids.extend(written);
            text.guesses = guesses(draft, &text)?;
            texts.push(Arc::new(text));
        }
        Ok(texts)
    }

    /// Runs `sessions` sessions until the time is over; each begins another text when one has ended.
    async fn level(&self, way: Way, sessions: usize, hello: &Hello, texts: &[Arc<Text>]) -> Result<Level, Failure> {
        let server = self.server(way)?;
        let mut players = JoinSet::new();
        let start = Instant::now();
        let end = start + self.time;
        for offset in 0..sessions {
            let (mut session, texts) = (Session::open(&server, hello).await?, texts.to_vec());
            players.spawn(async move {
                let mut tokens = 0;
                for text in texts.iter().cycle().skip(offset) {
                    let written = session.write(text, way.guesses(), Some(end)).await?;
                    tokens += written.len();
                    if Instant::now() >= end {
                        break;
                    }
                }
                Ok::<usize, Failure>(tokens)
            });
        }
        let mut tokens = Vec::new();
        while let Some(played) = players.join_next().await {
            tokens.push(played?? as f64);
        }
        let seconds = start.elapsed().as_secs_f64();
        let counted = server.metrics().await?;
        let all: f64 = tokens.iter().sum();
        Ok(Level {
            way,
            sessions,
            tokens_per_second: all / seconds,
            least: tokens.iter().copied().fold(f64::INFINITY, f64::min) / seconds,
            passes_per_token: counted.value("outrider_passes_total") / all,
            rows_per_token: counted.value("outrider_run_rows_sum") / all,
        })
    }
}

/// Token that the draft model chooses with the shared noise, for each position after the prompt.
fn guesses(draft: &Model, text: &Text) -> Result<Vec<u32>, Failure> {
    let mut cache = draft.new_cache();
    let positions: Vec<usize> = (text.prompt.len() - 1..text.ids.len() - 1).collect();
    let logits = draft.forward(&mut [Chunk { cache: &mut cache, tokens: &text.ids, positions: &positions }])?;
    let noise = SharedNoise::new(text.seed);
    let mut guesses = text.prompt.clone();
    for row in logits[0].iter() {
        guesses.push(noise.choose_from(guesses.len(), &Distribution::new(row, &SAMPLING)?));
    }
    Ok(guesses)
}

/// A connection to the server, after the handshake.
struct Session {
    socket: tokio_tungstenite::WebSocketStream<tokio_tungstenite::MaybeTlsStream<tokio::net::TcpStream>>,
    generation: u32,
    vocab_size: u32,
}

impl Session {
    async fn open(server: &Server, hello: &Hello) -> Result<Self, Failure> {
        let (socket, _) = tokio_tungstenite::connect_async_with_config(server.session_url(), None, true).await?;
        let mut session = Self { socket, generation: 0, vocab_size: hello.vocab_size };
        session.send(&Frame::Hello(hello.clone())).await?;
        match session.receive().await? {
            Frame::Welcome(_) => Ok(session),
            other => Err(format!("the server answered {other:?}").into()),
        }
    }

    async fn send(&mut self, frame: &Frame) -> Result<(), Failure> {
        Ok(self.socket.send(Message::Binary(frame.encode().into())).await?)
    }

    async fn receive(&mut self) -> Result<Frame, Failure> {
        match time::timeout(PATIENCE, self.socket.next()).await? {
            Some(Ok(Message::Binary(bytes))) => Ok(Frame::decode(&bytes)?),
            other => Err(format!("the server ended a session: {other:?}").into()),
        }
    }

    /// Has the server write a text, with guesses or without; cuts it off when the time is over. Returns the tokens.
    async fn write(&mut self, text: &Text, guesses: bool, end: Option<Instant>) -> Result<Vec<u32>, Failure> {
        self.generation += 1;
        let generation = self.generation;
        let request = Request {
            generation,
            sampling: SAMPLING,
            seed: text.seed,
            max_new_tokens: TOKENS,
            tokens: text.prompt.clone(),
        };
        self.send(&Frame::Generate(request)).await?;
        let scheme = Scheme::new(SchemeParameters::Coupled, self.vocab_size)?;
        let mut written = text.prompt.clone();
        // The state of guessing: number of the chain, end of its guesses, position of its first wrong guess, and time
        // at which the edge will have drafted it.
        let (mut chain, mut guessed, mut wrong, mut ready) = (0, 0, usize::MAX, Instant::now());
        loop {
            let limit = text.guesses.len().saturating_sub(1).min(written.len() + LEAD);
            // After a wrong guess, which it takes for a right one until the text contradicts it, an edge guesses on.
            if guessed <= written.len() || wrong < written.len() {
                (chain, guessed, wrong) = (chain + 1, written.len(), usize::MAX);
            }
            if guesses && guessed < limit {
                let is_wrong = |&position: &usize| text.guesses[position] != text.ids[position];
                wrong = wrong.min((guessed..limit).find(is_wrong).unwrap_or(usize::MAX));
                let count = limit - guessed;
                ready = ready.max(Instant::now()) + DRAFT * count as u32;
                time::sleep_until(ready.into()).await;
                let payload = scheme.encode_round(&Drafts::Ids(text.guesses[guessed..limit].to_vec()))?;
                let (position, count) = (guessed as u32, count as u8);
                self.send(&Frame::Guesses(Guesses {
                    generation,
                    chain,
                    parent: 0,
                    position,
                    patience: 0,
                    count,
                    payload,
                }))
                .await?;
                guessed = limit;
            }
            match self.receive().await? {
                Frame::Tokens(tokens) if tokens.generation == generation => {
                    written.extend(tokens.ids);
                    let known = text.ids.len() > text.prompt.len();
                    if known && !text.ids.starts_with(&written) {
                        return Err("the server wrote another text than alone".into());
                    }
                    let is_over = end.is_some_and(|end| Instant::now() >= end);
                    if tokens.finish.is_some() || is_over {
                        if tokens.finish.is_none() {
                            self.send(&Frame::Cancel { generation }).await?;
                        }
                        return Ok(written.split_off(text.prompt.len()));
                    }
                }
                Frame::Tokens(_) => {}
                other => return Err(format!("the server answered {other:?}").into()),
            }
        }
    }
}

fn tables(levels: &[Level]) -> Result<String, Failure> {
    let one =
        levels.iter().find(|level| level.way == Way::Alone && level.sessions == 1).map_or(0.0, |level| level.least);
    let wanted = one / 2.0;
    let mut text = format!(
        "The built-in target grown to 1.1B: the cost of such a model, the text and the acceptance rate of the small one. \
         One thread for the server's models; guesses come {LEAD} ahead at most, each {} ms after the one before. Every \
         session writes {TOKENS} tokens after eight words, at T = 0.7.\n\n\
         A session alone gets {} tokens/s; r is half of that, {}.\n\n\
         | way | sessions that get r each | tokens/s of all, then |\n|---|--:|--:|\n",
        DRAFT.as_millis(),
        digits(one),
        digits(wanted)
    );
    for way in Way::ALL {
        let served = levels.iter().filter(|level| level.way == way && level.least >= wanted);
        let most = served.max_by_key(|level| level.sessions);
        let (sessions, tokens) = most.map_or((0, 0.0), |level| (level.sessions, level.tokens_per_second));
        writeln!(text, "| {} | {sessions} | {} |", way.name(), digits(tokens))?;
    }
    text.push_str(
        "\n| sessions | way | tokens/s of all | of the slowest | forward passes / token | rows / token |\n\
         |--:|---|--:|--:|--:|--:|\n",
    );
    for Level { way, sessions, tokens_per_second, least, passes_per_token, rows_per_token } in levels {
        let name = way.name();
        let [all, least] = [*tokens_per_second, *least].map(digits);
        writeln!(text, "| {sessions} | {name} | {all} | {least} | {passes_per_token:.2} | {rows_per_token:.2} |")?;
    }
    Ok(text)
}
