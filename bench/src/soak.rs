//! `cargo xtask bench soak`: fifty mixed clients for ten minutes, and the server's memory meanwhile.
//!
//! ```text
//! soak FOLDER OUTRIDER [quick]     measures; results go to FOLDER
//! ```
//!
//! Each client has an address of its own. A fifth of them drafts, a fifth does and is cut, a fifth asks the HTTP API, a
//! fifth leaves in the middle of its stream, and a fifth opens sessions, reads what the server says of itself, and does
//! nothing for a while.

use std::{
    fmt::Write,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::json;
use tokio::{io::AsyncReadExt, io::AsyncWriteExt, task::JoinSet};

use crate::{
    hostile::stranger::{Stranger, Tally},
    models::Pair,
    passes::Failure,
    report,
    serve::{
        process::Server,
        recording::{Player, Recording, record},
    },
};

const CLIENTS: usize = 50;
/// Number of different recordings of drafts.
const RECORDINGS: usize = 8;
/// Readings of the server's memory.
const READINGS: usize = 60;
/// Time that an idle client stays.
const IDLE: Duration = Duration::from_secs(5);
const MIB: f64 = 1024.0 * 1024.0;

/// Runs the measurement with the arguments that follow its name.
pub fn run(arguments: &[&str]) -> Result<(), Failure> {
    let (folder, outrider, time) = match *arguments {
        [folder, outrider] => (folder, outrider, Duration::from_secs(600)),
        [folder, outrider, "quick"] => (folder, outrider, Duration::from_secs(30)),
        _ => return Err("a folder, the server's executable and perhaps `quick` are expected".into()),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    runtime.block_on(soak(folder.as_ref(), outrider.as_ref(), time))
}

/// A reading of the server's memory.
#[derive(Debug, Clone, Copy, serde::Serialize)]
struct Reading {
    seconds: f64,
    resident: u64,
    /// Bytes of these in KV caches.
    caches: f64,
}

async fn soak(folder: &Path, outrider: &Path, time: Duration) -> Result<(), Failure> {
    let server = Server::start(outrider, &[])?;
    let recordings = record(&Pair::built_in(), &server.session_url(), RECORDINGS).await?;
    let (began, end) = (Instant::now(), Instant::now() + time);
    let mut clients = JoinSet::new();
    for index in 0..CLIENTS {
        let stranger = Stranger::new([127, 0, 1, 1 + index as u8], server.address())?;
        let (url, recording) = (server.session_url(), Arc::clone(&recordings[index % RECORDINGS]));
        clients.spawn(client(index, stranger, url, recording, end));
    }
    let mut readings = Vec::new();
    for count in 1..=READINGS as u32 {
        tokio::time::sleep_until((began + time * count / READINGS as u32).into()).await;
        let (resident, metrics) = (server.resident_bytes()?, server.metrics().await?);
        let caches = metrics.value("outrider_kv_bytes");
        readings.push(Reading { seconds: began.elapsed().as_secs_f64(), resident, caches });
    }
    let mut tally = Tally::default();
    while let Some(client) = clients.join_next().await {
        tally.add(client?);
    }
    write(folder, &readings, &tally, time)
}

/// One client, until the end.
async fn client(index: usize, stranger: Stranger, url: String, recording: Arc<Recording>, end: Instant) -> Tally {
    let mut tally = Tally::default();
    let mut turn = index;
    while Instant::now() < end {
        turn += 1;
        let done = match index % 5 {
            0 => plays(&url, &recording, usize::MAX).await,
            1 => plays(&url, &recording, 2 + turn % recording.steps()).await,
            2 => asks(&stranger, turn, usize::MAX).await,
            3 => asks(&stranger, turn, 400 * (1 + turn % 8)).await,
            _ => idles(&stranger).await,
        };
        let kind = ["texts drafted", "texts cut", "texts of the API", "streams left", "idle sessions"][index % 5];
        tally.count(if done.is_ok() { kind } else { "failures" });
    }
    tally
}

async fn plays(url: &str, recording: &Arc<Recording>, steps: usize) -> Result<(), Failure> {
    Player::connect(url, recording).await?.play(steps).await
}

/// Asks for a streamed text and reads `most` bytes of it.
async fn asks(stranger: &Stranger, turn: usize, most: usize) -> Result<(), Failure> {
    let body = json!({
        "model": "outrider-target", "stream": true, "max_tokens": 64, "seed": turn,
        "prompt": format!("Once upon a time there were {turn} small ships"),
    });
    let body = body.to_string().into_bytes();
    let mut stream = stranger.connect().await?;
    stream.write_all(&stranger.head("POST", "/v1/completions", body.len())).await?;
    stream.write_all(&body).await?;
    let (mut read, mut buffer) = (0, [0; 400]);
    while read < most {
        match stream.read(&mut buffer).await? {
            0 if read > 0 => return Ok(()),
            0 => return Err("no answer".into()),
            count => read += count,
        }
    }
    Ok(())
}

async fn idles(stranger: &Stranger) -> Result<(), Failure> {
    let (_session, _) = stranger.greeted().await?;
    for path in ["/v1/info", "/v1/models", "/metrics", "/pair/tokenizer.json"] {
        stranger.ask("GET", path, b"").await?;
    }
    tokio::time::sleep(IDLE).await;
    Ok(())
}

fn write(folder: &Path, readings: &[Reading], tally: &Tally, time: Duration) -> Result<(), Failure> {
    let most = |readings: &[Reading]| readings.iter().map(|reading| reading.resident).max().unwrap_or(0) as f64;
    let (first, second) = readings.split_at(readings.len() / 2);
    let mut text = format!(
        "{CLIENTS} clients with an address each, for {:.0} s, on the machine of the server, which has the built-in pair \
         and no limit for an address: {tally}.\n\n\
         Most memory of the second half: {:.3} times that of the first.\n\n\
         | seconds | resident, MiB | of it KV caches, MiB |\n|--:|--:|--:|\n",
        time.as_secs_f64(),
        most(second) / most(first),
    );
    for Reading { seconds, resident, caches } in readings.iter().skip(5).step_by(6) {
        writeln!(text, "| {seconds:.0} | {:.1} | {:.1} |", *resident as f64 / MIB, caches / MIB)?;
    }
    report::write(folder, "soak", &text, json!({ "readings": readings, "clients": tally }), None)
}
