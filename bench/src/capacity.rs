//! `cargo xtask bench capacity`: how many sessions one core of a large target serves.
//!
//! ```text
//! capacity FOLDER OUTRIDER TARGET SMALL LARGE [quick]         measures; results go to FOLDER
//! capacity FOLDER OUTRIDER chat NAME TARGET DRAFT [quick]     the same of a chat model with the draft made for it
//! ```
//!
//! In the first form TARGET is the built-in one at a larger cost. The draft model is the built-in one, or one of the
//! same text at a larger cost, SMALL or LARGE. In the second form NAME is part of the report's name. The server has one
//! thread for its models; those who ask it run on what is left of the machine. Edges cost nothing but the time that is
//! waited for each of their drafts: what their draft model guesses was computed before. Every text is the same in every
//! way of writing it; a session that gets another one is an error.

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
use outrider_models::{Chunk, Model};
use outrider_speculation::sample::{Distribution, SharedNoise};
use serde::Serialize;
use serde_json::json;
use tokio::{task::JoinSet, time};
use tokio_tungstenite::tungstenite::Message;

use crate::{
    models::Pair,
    passes::Failure,
    report,
    samples::{Samples, digits},
    serve::process::Server,
};

const SAMPLING: SamplingParameters = SamplingParameters { temperature: 0.7, top_k: 0, top_p: 1.0 };
/// Tokens of a text, without its prompt.
const TOKENS: u32 = 64;
/// Number of tokens that an edge guesses ahead of the text.
const LEAD: usize = 6;
/// Parameters of draft models, and the milliseconds that a guess takes browsers with them.
const DRAFTS: [(&str, u64); 3] = [("1M", 1), ("37M", 3), ("135M", 8)];
/// The same of the draft made for SmolLM2.
const CHAT_DRAFT: (&str, u64) = ("20M", 3);
/// Time limit for an answer of the server.
const PATIENCE: Duration = Duration::from_secs(120);

/// Runs the measurement with the arguments that follow its name.
pub fn run(arguments: &[&str]) -> Result<(), Failure> {
    let (arguments, quick) = match arguments {
        [arguments @ .., "quick"] => (arguments, true),
        arguments => (arguments, false),
    };
    let (folder, outrider, models) = match *arguments {
        [folder, outrider, "chat", name, target, draft] => (folder, outrider, Models::chat(name, target, draft)),
        [folder, outrider, target, small, large] => (folder, outrider, Models::grown(target, small, large)),
        _ => return Err("a folder, the server's executable, models and perhaps `quick` are expected".into()),
    };
    let bench = Bench {
        folder: folder.into(),
        outrider: outrider.into(),
        models,
        levels: if quick { &[1, 4, 8] } else { &[1, 2, 3, 4, 6, 8, 12, 16, 24] },
        time: Duration::from_secs(if quick { 12 } else { 30 }),
    };
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?.block_on(bench.run())
}

struct Bench {
    folder: PathBuf,
    outrider: PathBuf,
    models: Models,
    levels: &'static [usize],
    time: Duration,
}

/// A target, and draft models for it by ascending cost.
struct Models {
    target: String,
    drafts: Vec<Draft>,
    /// Name of the report, and its first sentence.
    report: String,
    about: &'static str,
    is_chat: bool,
}

struct Draft {
    name: &'static str,
    /// `None`: the built-in one.
    path: Option<String>,
    /// Time that an edge takes for a guess.
    guess: Duration,
}

impl Models {
    fn grown(target: &str, small: &str, large: &str) -> Self {
        let drafts = DRAFTS.into_iter().zip([None, Some(small), Some(large)]);
        Self {
            target: target.to_owned(),
            drafts: drafts.map(|(of, path)| Draft::new(of, path)).collect(),
            report: "capacity".to_owned(),
            about: "The built-in target grown to 1.1B: the cost of such a model, the text and the acceptance rate of \
                    the small one. Sessions write after eight words.",
            is_chat: false,
        }
    }

    fn chat(name: &str, target: &str, draft: &str) -> Self {
        Self {
            target: target.to_owned(),
            drafts: vec![Draft::new(CHAT_DRAFT, Some(draft))],
            report: format!("capacity-{name}"),
            about: "A chat model with the draft made for it. Sessions answer a question each.",
            is_chat: true,
        }
    }

    /// The target with one of its drafts.
    fn pair(&self, draft: &Draft) -> Pair {
        match (&draft.path, self.is_chat) {
            (Some(path), true) => Pair::chat(&self.target, path),
            (path, is_chat) => {
                let (target, draft) = (Some((&self.target).into()), path.as_ref().map(Into::into));
                Pair { paths: PairPaths { target, draft, ..PairPaths::default() }, is_chat }
            }
        }
    }
}

impl Draft {
    fn new((name, guess_ms): (&'static str, u64), path: Option<&str>) -> Self {
        Self { name, path: path.map(str::to_owned), guess: Duration::from_millis(guess_ms) }
    }
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
    draft: &'static str,
    sessions: usize,
    tokens_per_second: f64,
    /// Tokens per second of the slowest session.
    least: f64,
    passes_per_token: f64,
    rows_per_token: f64,
    /// Drafts of the server's own that a pass judged, for each text in it.
    own_drafts_per_pass: f64,
    /// Resident memory of the server at the end, in bytes.
    memory: f64,
}

/// The law of capacity for a draft model and a number of sessions, and the measured ratio.
#[derive(Serialize)]
struct Law {
    draft: &'static str,
    sessions: usize,
    /// Own drafts in a pass for each text where drafts cost nothing, γ.
    drafts: f64,
    /// Milliseconds of a pass of the draft model with a row for each session, and of a pass of the target that judges.
    draft_ms: f64,
    verify_ms: f64,
    /// 1 + γ·t_draft/t_verify.
    law: f64,
    /// Throughput with drafts that cost the server nothing, as a multiple of that with its own.
    measured: f64,
}

impl Bench {
    async fn run(self) -> Result<(), Failure> {
        let pair = self.models.pair(&self.models.drafts[0]);
        let tokenizer = pair.paths.tokenizer()?;
        let (draft, target) = (pair.paths.draft_with(&tokenizer)?, pair.paths.target_with(&tokenizer)?);
        let hello = Hello { vocab_size: draft.config().vocab_size as u32, tokenizer_hash: tokenizer.fingerprint() };
        let mut prompts = pair.prompts(&target, &tokenizer, 8)?;
        prompts.truncate(8);
        let texts = self.texts(&draft, prompts, &hello).await?;
        let mut levels: Vec<Level> = Vec::new();
        for &sessions in self.levels {
            for (number, draft) in self.models.drafts.iter().enumerate() {
                // Without drafts their cost makes no difference.
                let ways = if number == 0 { &Way::ALL[..] } else { &[Way::OwnDrafts, Way::Guesses] };
                for &way in ways {
                    levels.push(self.level((way, draft), sessions, &hello, &texts).await?);
                    println!("{sessions} sessions, {}", way.name());
                }
            }
        }
        let laws = self.laws(&target, &levels)?;
        let text = tables(&self.models, &levels, &laws)?;
        report::write(&self.folder, &self.models.report, &text, json!({ "levels": levels, "laws": laws }), None)
    }

    fn server(&self, way: Way, draft: &Draft) -> Result<Server, Failure> {
        let models = self.models.pair(draft).arguments();
        let mut arguments = vec!["--threads", "1", "--own-draft", way.own_draft(), "--guesses", way.judged()];
        arguments.extend(models.iter().map(String::as_str));
        Server::start(&self.outrider, &arguments)
    }

    /// Compares the law of capacity with the throughput of drafts that cost the server nothing.
    fn laws(&self, target: &Model, levels: &[Level]) -> Result<Vec<Law>, Failure> {
        let mut laws = Vec::new();
        let cheapest = self.models.drafts[0].name;
        for of in &self.models.drafts {
            let (draft, of) = (self.models.pair(of).paths.draft()?, of.name);
            for &sessions in self.levels {
                let find = |way, of| {
                    levels.iter().find(|level| (level.way, level.draft, level.sessions) == (way, of, sessions))
                };
                let (Some(own), Some(guesses)) = (find(Way::OwnDrafts, of), find(Way::Guesses, of)) else { continue };
                // The cheapest model's: with a dear one the server drafts less.
                let Some(free) = find(Way::OwnDrafts, cheapest) else { continue };
                let drafts = free.own_drafts_per_pass;
                let draft_ms = pass_ms(&draft, sessions, 1)?;
                let verify_ms = pass_ms(target, sessions, 1 + drafts.round() as usize)?;
                laws.push(Law {
                    draft: of,
                    sessions,
                    drafts,
                    draft_ms,
                    verify_ms,
                    law: 1.0 + drafts * draft_ms / verify_ms,
                    measured: guesses.tokens_per_second / own.tokens_per_second,
                });
            }
        }
        Ok(laws)
    }

    /// Texts as the target writes them alone, and the draft model's guesses at them.
    async fn texts(&self, draft: &Model, prompts: Vec<Vec<u32>>, hello: &Hello) -> Result<Vec<Arc<Text>>, Failure> {
        let server = self.server(Way::Alone, &self.models.drafts[0])?;
        let mut texts = Vec::new();
        for (seed, prompt) in (1..).zip(prompts) {
            let mut text = Text { seed, ids: prompt.clone(), prompt, guesses: Vec::new() };
            let written = Session::open(&server, hello).await?.write(&text, None, None).await?;
            text.ids.extend(written);
            text.guesses = guesses(draft, &text)?;
            texts.push(Arc::new(text));
        }
        Ok(texts)
    }

    /// Runs `sessions` sessions until the time is over; each begins another text when one has ended.
    async fn level(
        &self,
        (way, draft): (Way, &Draft),
        sessions: usize,
        hello: &Hello,
        texts: &[Arc<Text>],
    ) -> Result<Level, Failure> {
        let server = self.server(way, draft)?;
        let guess = way.guesses().then_some(draft.guess);
        let mut players = JoinSet::new();
        let start = Instant::now();
        let end = start + self.time;
        for offset in 0..sessions {
            let (mut session, texts) = (Session::open(&server, hello).await?, texts.to_vec());
            players.spawn(async move {
                let mut tokens = 0;
                for text in texts.iter().cycle().skip(offset) {
                    let written = session.write(text, guess, Some(end)).await?;
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
        let passes = counted.value("outrider_passes_total");
        Ok(Level {
            way,
            draft: draft.name,
            sessions,
            tokens_per_second: all / seconds,
            least: tokens.iter().copied().fold(f64::INFINITY, f64::min) / seconds,
            passes_per_token: passes / all,
            rows_per_token: counted.value("outrider_run_rows_sum") / all,
            own_drafts_per_pass: counted.sum("outrider_own_drafts_judged_total") / passes,
            memory: counted.value("outrider_process_resident_memory_bytes"),
        })
    }
}

/// Milliseconds of a pass on one thread with `rows` rows for each of `sessions` texts: the median of some.
fn pass_ms(model: &Model, sessions: usize, rows: usize) -> Result<f64, Failure> {
    outrider_models::threads::set(1);
    let tokens = vec![1; rows];
    let positions: Vec<usize> = (0..rows).collect();
    let mut times = Vec::new();
    for _ in 0..9 {
        let mut caches: Vec<_> = (0..sessions).map(|_| model.new_cache()).collect();
        let mut chunks: Vec<Chunk<'_>> =
            caches.iter_mut().map(|cache| Chunk { cache, tokens: &tokens, positions: &positions }).collect();
        let began = Instant::now();
        model.forward(&mut chunks)?;
        times.push(began.elapsed().as_secs_f64() * 1e3);
    }
    Samples::of(&times).map(|times| times.median).ok_or_else(|| "no pass was timed".into())
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

    /// Has the server write a text, with guesses that take the edge a time each, or without; cuts it off when the time
    /// is over. Returns the tokens.
    async fn write(&mut self, text: &Text, guess: Option<Duration>, end: Option<Instant>) -> Result<Vec<u32>, Failure> {
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
            if let Some(guess) = guess.filter(|_| guessed < limit) {
                let is_wrong = |&position: &usize| text.guesses[position] != text.ids[position];
                wrong = wrong.min((guessed..limit).find(is_wrong).unwrap_or(usize::MAX));
                let count = limit - guessed;
                ready = ready.max(Instant::now()) + guess * count as u32;
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

fn tables(models: &Models, levels: &[Level], laws: &[Law]) -> Result<String, Failure> {
    let about = models.about;
    let drafts: Vec<_> = models.drafts.iter().map(|of| format!("{} ms ({})", of.guess.as_millis(), of.name)).collect();
    let drafts = drafts.join(", ");
    let mut text = format!(
        "{about} One thread for the server's models; edges guess {LEAD} ahead at most, each guess after {drafts}, by \
         parameters of the draft model. Texts have {TOKENS} tokens, at T = 0.7.\n\n\
         | sessions | way | draft | tokens/s of all | of the slowest | passes / token | rows / token | memory, MiB |\n\
         |--:|---|--:|--:|--:|--:|--:|--:|\n",
    );
    for Level { way, draft, sessions, tokens_per_second, least, passes_per_token, rows_per_token, memory, .. } in levels
    {
        let name = way.name();
        let [all, least, memory] = [*tokens_per_second, *least, memory / f64::from(1 << 20)].map(digits);
        let per_token = format!("{passes_per_token:.2} | {rows_per_token:.2}");
        writeln!(text, "| {sessions} | {name} | {draft} | {all} | {least} | {per_token} | {memory} |")?;
    }
    text.push_str(
        "\nThroughput with guesses as a multiple of that with the server's own drafts, beside 1 + γ·t_draft/t_verify \
         (arXiv 2606.25091). γ: own drafts in a pass for each text, with the smallest draft model; times of passes of \
         this machine with a row for each session, and with the rows that judge.\n\n\
         | draft | sessions | γ | t_draft, ms | t_verify, ms | law | measured |\n|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    for Law { draft, sessions, drafts, draft_ms, verify_ms, law, measured } in laws {
        let [draft_ms, verify_ms] = [*draft_ms, *verify_ms].map(digits);
        writeln!(text, "| {draft} | {sessions} | {drafts:.2} | {draft_ms} | {verify_ms} | {law:.2} | {measured:.2} |")?;
    }
    Ok(text)
}
