//! `cargo xtask bench hostile`: a server attacked from one address, beside a session of another that behaves.
//!
//! ```text
//! hostile FOLDER OUTRIDER [quick]     measures; results go to FOLDER
//! ```
//!
//! Everything stays on this machine, and is bounded in number and time. Each attack meets a fresh server with its own
//! defaults. The witness plays recorded drafts again, from 127.0.0.1; strangers come from 127.0.0.2; and from 127.0.0.3
//! a newcomer asks five times a second for a session, which an attack of one address may not refuse it.

mod attacks;
mod report;
pub mod stranger;

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::task::JoinSet;

use self::{
    attacks::{ATTACKS, Attack},
    report::{Outcome, Report},
    stranger::{Stranger, Tally},
};
use crate::{
    models::Pair,
    passes::Failure,
    samples::sorted,
    serve::{
        process::Server,
        recording::{Played, Player, Recording, record},
    },
};

/// Address from which a newcomer asks for a session.
const NEWCOMER: [u8; 4] = [127, 0, 0, 3];
/// Time between two visits of the newcomer.
const VISIT: Duration = Duration::from_millis(200);
/// Time between two readings of the server's memory.
const LOOK: Duration = Duration::from_millis(50);
/// Time after an attack until the server's memory is read again.
const REST: Duration = Duration::from_secs(3);

/// Runs the measurement with the arguments that follow its name.
pub fn run(arguments: &[&str]) -> Result<(), Failure> {
    let (folder, outrider, time) = match *arguments {
        [folder, outrider] => (folder, outrider, Duration::from_secs(15)),
        [folder, outrider, "quick"] => (folder, outrider, Duration::from_secs(3)),
        _ => return Err("a folder, the server's executable and perhaps `quick` are expected".into()),
    };
    let bench = Bench { outrider: outrider.into(), time };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let server = bench.server(&[])?;
        let recording = record(&Pair::built_in(), &server.session_url(), 1).await?.remove(0);
        let mut outcomes = Vec::new();
        for attack in ATTACKS {
            println!("{}", attack.name);
            outcomes.push(bench.attack(attack, &recording).await?);
        }
        Report { outcomes }.write(folder.as_ref())
    })
}

struct Bench {
    outrider: PathBuf,
    time: Duration,
}

impl Bench {
    fn server(&self, arguments: &[&str]) -> Result<Server, Failure> {
        Server::guarded(&self.outrider, arguments)
    }

    async fn attack(&self, attack: &Attack, recording: &Arc<Recording>) -> Result<Outcome, Failure> {
        let server = if attack.log_is_unread {
            Server::with_unread_log(&self.outrider, attack.settings)?
        } else {
            self.server(attack.settings)?
        };
        // What a server holds that has served somebody.
        Player::connect(&server.session_url(), recording).await?.play(usize::MAX).await?;
        let before = server.resident_bytes()?;
        let end = Instant::now() + self.time;
        // On a thread of their own: what they wait for is the server, not the strangers that share this program.
        let witness = witness(server.session_url(), Arc::clone(recording), end);
        let newcomer = newcomer(Stranger::new(NEWCOMER, server.address())?, end);
        let neighbours = tokio::task::spawn_blocking(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            Ok::<_, Failure>(runtime.block_on(async { tokio::join!(witness, newcomer) }))
        });
        let (over, peak) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(before)));
        let mut strangers = JoinSet::new();
        for index in 0..attack.strangers {
            let stranger = Stranger::attacking(server.address())?;
            let attacking = (attack.attack)(stranger, end, index);
            // Some wait for an answer that does not come.
            strangers.spawn(tokio::time::timeout_at((end + REST).into(), attacking));
        }
        let looks = async {
            while !over.load(Ordering::Relaxed) {
                peak.fetch_max(server.resident_bytes()?, Ordering::Relaxed);
                tokio::time::sleep(LOOK).await;
            }
            Ok::<_, Failure>(())
        };
        let attacked = async {
            let mut tally = Tally::default();
            while let Some(stranger) = strangers.join_next().await {
                match stranger? {
                    Ok(seen) => tally.add(seen?),
                    Err(_) => tally.count("without an answer"),
                }
            }
            let (played, visits) = neighbours.await??;
            let visits = visits?;
            over.store(true, Ordering::Relaxed);
            Ok::<_, Failure>((tally, played, visits))
        };
        let (looked, attacked) = tokio::join!(looks, attacked);
        looked?;
        let (tally, (played, failures), visits) = attacked?;
        tokio::time::sleep(REST).await;
        let after = server.resident_bytes()?;
        let caches = server.metrics().await?.value("outrider_kv_bytes") as u64;
        Ok(Outcome {
            name: attack.name,
            what: attack.what,
            strangers: attack.strangers,
            latencies_ms: sorted(played.latencies_ms.into_iter()),
            witness_failures: failures,
            newcomers: visits,
            strangers_saw: tally,
            before_bytes: before,
            peak_bytes: peak.load(Ordering::Relaxed),
            after_bytes: after,
            caches_bytes: caches,
        })
    }
}

/// Plays a session again and again; counts its failures, too.
async fn witness(url: String, recording: Arc<Recording>, end: Instant) -> (Played, usize) {
    let (mut played, mut failures) = (Played::default(), 0);
    while Instant::now() < end {
        let session = async {
            let mut player = Player::connect(&url, &recording).await?;
            let result = player.play_until(end).await;
            Ok::<_, Failure>((player.played, result))
        };
        match session.await {
            Ok((seen, result)) => {
                played.add(seen);
                failures += usize::from(result.is_err());
            }
            Err(_) => failures += 1,
        }
    }
    (played, failures)
}

/// Opens a session again and again, and leaves after its welcome.
async fn newcomer(stranger: Stranger, end: Instant) -> Result<Tally, Failure> {
    let mut tally = Tally::default();
    while Instant::now() < end {
        match tokio::time::timeout(VISIT * 10, stranger.greeted()).await {
            Ok(Ok((_, answer))) => tally.count(answer),
            Ok(Err(_)) => tally.count("no connection"),
            Err(_) => tally.count("without an answer"),
        }
        tokio::time::sleep(VISIT).await;
    }
    Ok(tally)
}
