//! `cargo xtask bench serve`: one server, many sessions.
//!
//! ```text
//! serve FOLDER OUTRIDER [quick]                        measures; results go to FOLDER
//! serve FOLDER OUTRIDER chat TARGET DRAFT [quick]      the same of a chat model with the draft made for it
//! ```
//!
//! Drafts are recorded once, at fixed seeds, and sent again, so that the edges cost nothing: what is measured is the
//! server. Its answers are the recorded ones, independent of the sessions that share its runs; another answer is an
//! error. The server is a process of its own, a fresh one for each number of sessions, on the same processor as those
//! who ask it.

mod batches;
pub mod process;
pub mod recording;
mod report;

use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::task::JoinSet;

use crate::{
    models::Pair,
    passes::Failure,
    samples::sorted,
    serve::{
        batches::{Shared, shared_passes},
        process::Server,
        recording::{Played, Player, Recording, record},
        report::{Crowd, Level, Report},
    },
};

/// Numbers of sessions at a time.
const LEVELS: &[usize] = &[1, 4, 16, 64, 256];

/// Runs the measurement with the arguments that follow its name.
pub fn run(arguments: &[&str]) -> Result<(), Failure> {
    let (arguments, form) = match arguments {
        [arguments @ .., "quick"] => (arguments, Form::QUICK),
        arguments => (arguments, Form::FULL),
    };
    let (folder, outrider, pair) = match *arguments {
        [folder, outrider] => (folder, outrider, Pair::built_in()),
        [folder, outrider, "chat", target, draft] => (folder, outrider, Pair::chat(target, draft)),
        _ => {
            return Err(
                "a folder, the server's executable, a chat model perhaps, and perhaps `quick` are expected".into()
            );
        }
    };
    let bench = Bench { folder: folder.into(), outrider: outrider.into(), pair, form };
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?.block_on(bench.run())
}

/// Extent of the measurement.
struct Form {
    levels: &'static [usize],
    /// Time that sessions go on at each level.
    time: Duration,
    /// Number of different recordings.
    recordings: usize,
    /// Numbers of connected sessions, and of active ones among these.
    crowd: (usize, usize),
    /// Rounds of the passes that are timed.
    rounds: usize,
}

impl Form {
    const FULL: Self =
        Self { levels: LEVELS, time: Duration::from_secs(20), recordings: 16, crowd: (1000, 50), rounds: 30 };
    const QUICK: Self =
        Self { levels: &[1, 4, 16, 64], time: Duration::from_secs(3), recordings: 4, crowd: (200, 10), rounds: 8 };
}

struct Bench {
    folder: PathBuf,
    outrider: PathBuf,
    pair: Pair,
    form: Form,
}

impl Bench {
    async fn run(self) -> Result<(), Failure> {
        println!("Passes that sessions share");
        let passes: Vec<Shared> = shared_passes(&self.pair.paths, self.form.rounds)?;
        println!("Recording {} sessions", self.form.recordings);
        let recordings = self.record().await?;
        let mut levels = Vec::new();
        for &sessions in self.form.levels {
            println!("{sessions} sessions");
            levels.push(self.level(sessions, &recordings).await?);
        }
        let (connected, active) = self.form.crowd;
        let crowd = match self.pair.is_chat {
            // Its caches would take more memory than machines have.
            true => None,
            false => {
                println!("{connected} sessions, of which {active} are active");
                Some(self.crowd(connected, active, &recordings).await?)
            }
        };
        let report = Report { is_chat: self.pair.is_chat, passes, levels, crowd };
        report.write(&self.folder)
    }

    async fn record(&self) -> Result<Vec<Arc<Recording>>, Failure> {
        let server = self.server(&[])?;
        record(&self.pair, &server.session_url(), self.form.recordings).await
    }

    fn server(&self, arguments: &[&str]) -> Result<Server, Failure> {
        let models = self.pair.arguments();
        Server::start(&self.outrider, &[arguments, &models.iter().map(String::as_str).collect::<Vec<_>>()].concat())
    }

    /// Runs `sessions` sessions until the time is over; each starts over when it has ended.
    async fn level(&self, sessions: usize, recordings: &[Arc<Recording>]) -> Result<Level, Failure> {
        let server = self.server(&["--max-rounds-per-second", "0"])?;
        let before = server.resident_bytes()?;
        let start = Instant::now();
        let players = self.play(sessions, recordings, &server, start + self.form.time);
        // The middle of the time: everyone is there.
        tokio::time::sleep(self.form.time / 2).await;
        let resident = server.resident_bytes()?;
        let played = collect(players).await?;
        let seconds = start.elapsed().as_secs_f64();
        let counted = server.metrics().await?;
        Ok(Level {
            sessions,
            tokens_per_second: played.iter().map(|played| played.tokens).sum::<usize>() as f64 / seconds,
            latencies_ms: sorted(played.into_iter().flat_map(|played| played.latencies_ms)),
            rows_per_run: counted.value("outrider_run_rows_sum") / counted.value("outrider_run_rows_count"),
            queue_ms: 1e3 * counted.value("outrider_queue_seconds_sum") / counted.value("outrider_queue_seconds_count"),
            bytes_per_session: resident.saturating_sub(before) as f64 / sessions as f64,
        })
    }

    /// Runs many connected sessions that have begun, a few of which go on. At the end all go on.
    async fn crowd(&self, connected: usize, active: usize, recordings: &[Arc<Recording>]) -> Result<Crowd, Failure> {
        let server = self.server(&[])?;
        let before = server.resident_bytes()?;
        let mut idle = Vec::new();
        for (index, recording) in (0..connected - active).zip(recordings.iter().cycle()) {
            let mut player = Player::connect(&server.session_url(), recording).await?;
            player.play(recording.steps() / 2).await.map_err(|error| format!("session {index}: {error}"))?;
            idle.push(player);
        }
        let idle_resident = server.resident_bytes()?;
        let start = Instant::now();
        let players = self.play(active, recordings, &server, start + self.form.time);
        tokio::time::sleep(self.form.time / 2).await;
        let (resident, counted) = (server.resident_bytes()?, server.metrics().await?);
        let played = collect(players).await?;
        let seconds = start.elapsed().as_secs_f64();
        // Those that waited go on where they were, parked or not.
        for mut player in idle {
            player.play(usize::MAX).await?;
        }
        let errors = server.metrics().await?.sum("outrider_errors_total");
        Ok(Crowd {
            connected,
            active,
            before_bytes: before as f64,
            idle_bytes: idle_resident as f64,
            resident_bytes: resident as f64,
            kv_bytes: counted.value("outrider_kv_bytes"),
            parked: counted.value("outrider_sessions_parked"),
            tokens_per_session: sorted(played.iter().map(|played| played.tokens as f64 / seconds)),
            latencies_ms: sorted(played.into_iter().flat_map(|played| played.latencies_ms)),
            errors,
        })
    }

    fn play(
        &self,
        sessions: usize,
        recordings: &[Arc<Recording>],
        server: &Server,
        end: Instant,
    ) -> JoinSet<Result<Played, Failure>> {
        let mut players = JoinSet::new();
        for recording in recordings.iter().cycle().take(sessions) {
            let (url, recording) = (server.session_url(), Arc::clone(recording));
            players.spawn(async move {
                let mut played = Played::default();
                while Instant::now() < end {
                    let mut player = Player::connect(&url, &recording).await?;
                    player.play_until(end).await?;
                    played.add(player.played);
                }
                Ok(played)
            });
        }
        players
    }
}

async fn collect(mut players: JoinSet<Result<Played, Failure>>) -> Result<Vec<Played>, Failure> {
    let mut played = Vec::new();
    while let Some(player) = players.join_next().await {
        played.push(player??);
    }
    Ok(played)
}
