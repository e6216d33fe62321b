//! Attacks of strangers on a server.

use std::{
    pin::Pin,
    time::{Duration, Instant},
};

use futures_util::SinkExt;
use outrider_codec::{
    distribution::{DraftDist, DraftToken},
    frame::{Draft, Frame, Prompt, Request, SamplingParameters},
    scheme::{Code, Drafts, Scheme, SchemeParameters},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    task, time,
};
use tokio_tungstenite::tungstenite::Message;

use super::stranger::{Stranger, Tally, name, receive};
use crate::passes::Failure;

/// Size of the built-in pair's vocabulary, V.
const VOCABULARY: u32 = 4096;
/// Drafts of a round, as many as a server allows.
const DRAFTS: u8 = 16;
const MIB: usize = 1 << 20;
/// The most rounds of a session: its text ends at 400 tokens.
const ROUNDS: u32 = 20;

/// A running attack, which ends when the time is over.
type Attacking = Pin<Box<dyn Future<Output = Result<Tally, Failure>> + Send>>;

/// An attack of several strangers at a time.
pub struct Attack {
    pub name: &'static str,
    pub what: &'static str,
    pub strangers: usize,
    /// Settings of the server, besides its defaults.
    pub settings: &'static [&'static str],
    /// True if a line of the log is written for each request, and nothing reads the log.
    pub log_is_unread: bool,
    /// Attack of the stranger of this index.
    pub attack: fn(Stranger, Instant, usize) -> Attacking,
}

const USUAL: SchemeParameters =
    SchemeParameters::KSqs { support_size: 32, lattice_resolution: 100, code: Code::Enumerative };

macro_rules! attack {
    ($name:literal, $what:literal, $strangers:literal, $attack:expr) => {
        attack!($name, $what, $strangers, &[], false, $attack)
    };
    ($name:literal, $what:literal, $strangers:literal, $settings:expr, $log_is_unread:literal, $attack:expr) => {
        Attack {
            name: $name,
            what: $what,
            strangers: $strangers,
            settings: $settings,
            log_is_unread: $log_is_unread,
            attack: $attack,
        }
    };
}

/// All attacks, after a run without any.
pub const ATTACKS: &[Attack] = &[
    attack!("nobody", "the witness alone", 0, |_, _, _| Box::pin(async { Ok(Tally::default()) })),
    attack!("seats", "Hello, Prompt, Welcome, cut", 12, |stranger, end, _| Box::pin(seats(stranger, end))),
    attack!("silence", "connections that say nothing", 200, |stranger, end, _| Box::pin(silence(stranger, end))),
    attack!("prompts", "prompts of 1 MiB", 48, |stranger, end, _| {
        Box::pin(post(stranger, end, "/v1/completions", json!({ "prompt": "Once upon a time ".repeat(MIB / 17 - 8) })))
    }),
    attack!("chats", "chats of 29 000 messages", 16, |stranger, end, _| {
        let messages = vec![json!({ "role": "user", "content": "a" }); 29_000];
        Box::pin(post(stranger, end, "/v1/chat/completions", json!({ "messages": messages })))
    }),
    attack!("objects", "1 MiB of tiny JSON objects", 24, |stranger, end, _| {
        Box::pin(post(stranger, end, "/v1/completions", json!({ "prompt": vec![json!({ "a": 1 }); MIB / 8 - 16] })))
    }),
    attack!("trickle", "bodies of 1 MiB, a byte a second", 300, |stranger, end, _| Box::pin(trickle(stranger, end))),
    attack!("ready", "/readyz without a pause", 16, |stranger, end, _| Box::pin(get(stranger, end, "/readyz"))),
    attack!("downloads", "the draft without a pause", 32, |stranger, end, _| Box::pin(get(
        stranger,
        end,
        "/pair/draft"
    ))),
    attack!("pings", "pings without a pause", 4, |stranger, end, _| Box::pin(pings(stranger, end))),
    attack!("wide drafts", "QS, ℓ = 4096, the widest allowed: 16 KB a round", 4, |stranger, end, index| {
        let scheme = SchemeParameters::Qs { lattice_resolution: 1 << 12, code: Code::Enumerative };
        Box::pin(rounds(stranger, end, index, scheme, false))
    }),
    attack!("large supports", "K-SQS, K = ℓ = 2048", 4, |stranger, end, index| {
        let scheme = SchemeParameters::KSqs { support_size: 2048, lattice_resolution: 2048, code: Code::Enumerative };
        Box::pin(rounds(stranger, end, index, scheme, false))
    }),
    attack!("adaptive", "the adaptive code, K = ℓ = 2048", 4, |stranger, end, index| {
        let scheme = SchemeParameters::KSqs { support_size: 2048, lattice_resolution: 2048, code: Code::Adaptive };
        Box::pin(rounds(stranger, end, index, scheme, false))
    }),
    attack!("evidence", "rounds that ask for evidence", 16, |stranger, end, index| {
        Box::pin(rounds(stranger, end, index, USUAL, true))
    }),
    attack!("long prompts", "prompts of 480 tokens and a draft, and cut", 64, |stranger, end, index| {
        Box::pin(prompts(stranger, end, index))
    }),
    attack!(
        "waiting prompts",
        "the same without waiting for an answer, with memory for five",
        64,
        LITTLE_MEMORY,
        false,
        { |stranger, end, index| Box::pin(abandoned_prompts(stranger, end, index)) }
    ),
    attack!("cancelled prompts", "prompts of 480 tokens, each cancelled at once", 4, |stranger, end, index| {
        Box::pin(cancelled_prompts(stranger, end, index))
    }),
    attack!("ranges", "ranges of 5,000 and 40,000 parts", 4, |stranger, end, index| {
        let parts = if index % 2 == 0 { 5_000 } else { 40_000 };
        Box::pin(ranges(stranger, end, parts))
    }),
    attack!("unread log", "a line of the log for each request, and no reader", 16, &[], true, |stranger, end, _| {
        Box::pin(get(stranger, end, "/v1/models"))
    }),
];

/// Settings of a server whose KV caches hold five prompts of [`PROMPT`] tokens: a token takes 13.5 KiB.
const LITTLE_MEMORY: &[&str] = &["--kv-memory", "32MiB"];
/// Tokens of a long prompt, which nearly fills the context of the built-in pair.
const PROMPT: u32 = 480;

fn prompt(scheme: SchemeParameters, tokens: Vec<u32>, index: usize) -> Prompt {
    let sampling = SamplingParameters { temperature: 1.0, top_k: 0, top_p: 1.0 };
    let request = Request { generation: 1, sampling, seed: index as u64, max_new_tokens: 400, tokens };
    Prompt::exact(scheme, request)
}

async fn seats(stranger: Stranger, end: Instant) -> Result<Tally, Failure> {
    let mut tally = Tally::default();
    while Instant::now() < end {
        let Ok((mut session, answer)) = stranger.greeted().await else {
            tally.count("no connection");
            continue;
        };
        tally.count(answer);
        let _ = session.send(Message::Binary(Frame::Prompt(prompt(USUAL, vec![0, 5], 0)).encode().into())).await;
    }
    Ok(tally)
}

async fn silence(stranger: Stranger, end: Instant) -> Result<Tally, Failure> {
    let mut tally = Tally::default();
    while Instant::now() < end {
        let Ok(mut stream) = stranger.connect().await else {
            tally.count("no connection");
            time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        match time::timeout_at(end.into(), stream.read_u8()).await {
            Ok(_) => tally.count("closed"),
            Err(_) => tally.count("still there"),
        }
        // A stranger that is refused tries again, but not at once.
        time::sleep(Duration::from_millis(100)).await;
    }
    Ok(tally)
}

/// Sends one request after another, and counts the answers.
async fn ask(stranger: Stranger, end: Instant, method: &str, path: &str, body: Vec<u8>) -> Result<Tally, Failure> {
    let mut tally = Tally::default();
    while Instant::now() < end {
        tally.count(stranger.ask(method, path, &body).await.unwrap_or_else(|_| "no connection".to_owned()));
    }
    Ok(tally)
}

async fn get(stranger: Stranger, end: Instant, path: &str) -> Result<Tally, Failure> {
    ask(stranger, end, "GET", path, Vec::new()).await
}

async fn post(stranger: Stranger, end: Instant, path: &str, body: Value) -> Result<Tally, Failure> {
    ask(stranger, end, "POST", path, body.to_string().into_bytes()).await
}

async fn trickle(stranger: Stranger, end: Instant) -> Result<Tally, Failure> {
    let mut tally = Tally::default();
    while Instant::now() < end {
        let Ok(mut stream) = stranger.connect().await else {
            tally.count("no connection");
            time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        stream.write_all(&stranger.head("POST", "/v1/completions", MIB)).await?;
        let mut byte = [0];
        let outcome = loop {
            if Instant::now() >= end {
                break "still there";
            }
            if stream.write_all(b" ").await.is_err() {
                break "closed";
            }
            if let Ok(read) = time::timeout(Duration::from_secs(1), stream.read(&mut byte)).await {
                break if read.is_ok_and(|read| read > 0) { "answered" } else { "closed" };
            }
        };
        tally.count(outcome);
        time::sleep(Duration::from_millis(100)).await;
    }
    Ok(tally)
}

async fn pings(stranger: Stranger, end: Instant) -> Result<Tally, Failure> {
    let (mut session, answer) = stranger.greeted().await?;
    let mut tally = Tally::default();
    tally.count(answer);
    let mut sent = 0;
    while Instant::now() < end {
        for _ in 0..64 {
            if session.feed(Message::Ping(Vec::new().into())).await.is_err() {
                tally.count("cut");
                return Ok(tally);
            }
            sent += 1;
        }
        if session.flush().await.is_err() {
            break;
        }
    }
    tally.count(format!("× {sent} pings"));
    Ok(tally)
}

/// Rounds of the most drafts, each as expensive as it can be. They are coded once, so that the strangers take no more
/// of the processor than they must: what a code has learned from a verdict makes the next round another, in another
/// session.
async fn rounds(
    stranger: Stranger,
    end: Instant,
    index: usize,
    scheme: SchemeParameters,
    evidence: bool,
) -> Result<Tally, Failure> {
    let mut tally = Tally::default();
    let prompt = Prompt { evidence, ..prompt(scheme, vec![0, 5], index) };
    let (primed, learns) =
        (prompt.request.tokens.clone(), Scheme::new(scheme, VOCABULARY)?.fixed_token_bits().is_none());
    let coded = task::spawn_blocking(move || {
        let mut code = Scheme::new(scheme, VOCABULARY).map_err(|error| error.to_string())?;
        code.prime(&primed);
        let drafts = Drafts::Distributions(vec![spread(scheme)?; DRAFTS.into()]);
        code.encode_round(&drafts).map_err(|error| error.to_string())
    });
    let payload = coded.await??;
    while Instant::now() < end {
        let (mut session, answer) = stranger.greeted().await?;
        if answer != "Welcome" {
            tally.count(answer);
            time::sleep(Duration::from_millis(100)).await;
            continue;
        }
        session.send(Message::Binary(Frame::Prompt(prompt.clone()).encode().into())).await?;
        for round in 0..if learns { 1 } else { ROUNDS } {
            let draft = Draft { generation: 1, round, count: DRAFTS, payload: payload.clone(), ..Draft::default() };
            if session.send(Message::Binary(Frame::Draft(draft).encode().into())).await.is_err() {
                tally.count("cut");
                break;
            }
            let answer = loop {
                match receive(&mut session).await {
                    Some(Frame::Evidence(_)) => {}
                    other => break other,
                }
            };
            tally.count(answer.as_ref().map_or_else(|| "cut".to_owned(), name));
            let goes_on = matches!(answer, Some(Frame::Verdict(verdict)) if verdict.finish.is_none());
            if !goes_on || Instant::now() >= end {
                break;
            }
        }
    }
    Ok(tally)
}

/// A draft over as many ids as the scheme codes, each with what there is of mass.
fn spread(scheme: SchemeParameters) -> Result<DraftToken, String> {
    let resolution = scheme.lattice_resolution().unwrap_or(100);
    let ids = match scheme {
        SchemeParameters::KSqs { support_size, .. } => support_size,
        _ => VOCABULARY,
    };
    let ids = ids.min(resolution).min(VOCABULARY);
    // Not the first ones, whose rank is short.
    let first = VOCABULARY - ids;
    let mut counts = vec![resolution / ids; ids as usize];
    counts[0] += resolution % ids;
    let dist = DraftDist::new((first..VOCABULARY).collect(), counts).map_err(|error| error.to_string())?;
    Ok(DraftToken { id: first, support_size: ids, dist })
}

/// A prompt of [`PROMPT`] tokens; each number has another text.
fn long_prompt(number: usize) -> Prompt {
    prompt(USUAL, (0..PROMPT).map(|token| 300 + (token * 7 + number as u32 * 101) % 3000).collect(), number)
}

async fn prompts(stranger: Stranger, end: Instant, index: usize) -> Result<Tally, Failure> {
    let mut tally = Tally::default();
    let payload = Scheme::new(USUAL, VOCABULARY)?.encode_round(&Drafts::Distributions(vec![spread(USUAL)?]))?;
    while Instant::now() < end {
        let Ok((mut session, answer)) = stranger.greeted().await else {
            tally.count("no connection");
            continue;
        };
        if answer != "Welcome" {
            tally.count(answer);
            time::sleep(Duration::from_millis(100)).await;
            continue;
        }
        session.send(Message::Binary(Frame::Prompt(long_prompt(index)).encode().into())).await?;
        let draft = Draft { generation: 1, count: 1, payload: payload.clone(), ..Draft::default() };
        session.send(Message::Binary(Frame::Draft(draft).encode().into())).await?;
        tally.count(receive(&mut session).await.map_or_else(|| "cut".to_owned(), |frame| name(&frame)));
    }
    Ok(tally)
}

/// Begins sessions with a long prompt and closes their connections at once.
async fn abandoned_prompts(stranger: Stranger, end: Instant, index: usize) -> Result<Tally, Failure> {
    let mut tally = Tally::default();
    for number in (index * 1000).. {
        if Instant::now() >= end {
            break;
        }
        let Ok((mut session, answer)) = stranger.greeted().await else {
            tally.count("no connection");
            time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let is_welcome = answer == "Welcome";
        tally.count(answer);
        if is_welcome {
            let prompt = Frame::Prompt(long_prompt(number)).encode();
            let _ = session.send(Message::Binary(prompt.into())).await;
        } else {
            time::sleep(Duration::from_millis(100)).await;
        }
    }
    Ok(tally)
}

/// Requests texts with long prompts on one session, and cancels each at once. The server may write them itself, so that
/// its own draft model would read them, too.
async fn cancelled_prompts(stranger: Stranger, end: Instant, index: usize) -> Result<Tally, Failure> {
    let (mut session, answer) = stranger.greeted().await?;
    let (mut tally, mut sent) = (Tally::default(), 0_u32);
    tally.count(answer);
    while Instant::now() < end {
        sent += 1;
        let request = Request { generation: sent, ..long_prompt(index * 1000 + sent as usize).request };
        for frame in [Frame::Generate(request), Frame::Cancel { generation: sent }] {
            if session.send(Message::Binary(frame.encode().into())).await.is_err() {
                tally.count("cut");
                return Ok(tally);
            }
        }
    }
    tally.count(format!("× {sent} prompts"));
    Ok(tally)
}

/// Requests the draft model with a Range header of many parts.
async fn ranges(stranger: Stranger, end: Instant, parts: usize) -> Result<Tally, Failure> {
    let ranges: Vec<String> = (0..parts).map(|part| format!("{0}-{0}", 2 * part)).collect();
    let header = format!("Range: bytes={}\r\n", ranges.join(","));
    let mut tally = Tally::default();
    while Instant::now() < end {
        let answer = stranger.ask_with("GET", "/pair/draft", &header, &[]).await;
        tally.count(answer.unwrap_or_else(|_| "no connection".to_owned()));
    }
    Ok(tally)
}
