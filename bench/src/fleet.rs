//! `cargo xtask bench fleet`: guesses for vLLM, beside vLLM alone.
//!
//! ```text
//! fleet FOLDER OUTRIDER VLLM PACKAGE [quick] [TARGET] [CELL ...]    measures; results go to FOLDER
//! fleet checkpoint TARGET FOLDER    writes a target as vLLM reads it: `built-in`, or a size grown from it
//! ```
//!
//! Where a target or cells are named (`32x100`: 32 sessions, 100 ms) nothing else is measured, and cells six times.
//!
//! VLLM is the executable, PACKAGE the folder of `outrider_vllm`. Every engine of a target is started before anything
//! is measured. Each way of writing has its turn in every round, so that what else the machine does meets all of them.
//! Engines are on core 0; gateways, edges and plain clients are where this program is held to.
//!
//! ```text
//! vLLM alone            plain client ─────────── link ─────────── vLLM
//! vLLM's own n-grams    plain client ─────────── link ─────────── vLLM --speculative-config ngram
//! vLLM's own draft      plain client ─────────── link ─────────── vLLM with the draft model that edges have
//! openai:               edge ─── link ─── outrider serve ──────── vLLM                 rounds of drafts
//! the proposer          plain client ─────────── link ─────────── vLLM with outrider_vllm: its own cost
//! vllm: with guesses    edge ─── link ─── outrider serve ──────── vLLM with outrider_vllm
//!                                                └─ guesses, Unix socket ─┘
//! ```

pub mod engine;
mod link;
pub mod players;
mod report;
mod way;

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use futures_util::future::try_join_all;
use outrider_cloud::pair::{PairPaths, draft_info};
use outrider_papers::reproduce::sessions::excerpts;
use tokio::time;

use self::{
    engine::{Counts, Drafting, Engine, Launch},
    link::Link,
    players::{Edges, Plain, Player, play},
    report::{Case, Level, Memory},
    way::Way,
};
use crate::{checkpoint, grow, passes::Failure, serve::process::Server};

/// Targets, and the time of each measurement: the larger one takes longer for a text.
const TARGETS: [(&str, Duration); 2] = [("built-in", Duration::from_secs(6)), ("135M", Duration::from_secs(12))];
/// Words that each text begins with.
const PROMPT_WORDS: usize = 8;
/// Time until the engine has dropped requests that were cut off.
const SETTLING: Duration = Duration::from_millis(500);

/// Runs the measurement with the arguments that follow its name.
pub fn run(arguments: &[&str]) -> Result<(), Failure> {
    let (folder, outrider, vllm, package, chosen) = match *arguments {
        ["checkpoint", target, folder] => return write_checkpoint(target, folder.as_ref(), folder.as_ref()),
        [folder, outrider, vllm, package, ref chosen @ ..] => (folder, outrider, vllm, package, chosen),
        _ => return Err("a folder, outrider, vllm and its package's folder are expected".into()),
    };
    let (mut quick, mut targets, mut cells) = (false, Vec::new(), Vec::new());
    for word in chosen {
        match (TARGETS.iter().find(|(name, _)| name == word), word.split_once('x')) {
            (Some(target), _) => targets.push(*target),
            (None, Some((sessions, ms))) => cells.push((sessions.parse()?, ms.parse()?)),
            (None, None) if *word == "quick" => quick = true,
            (None, None) => return Err(format!("{word} is no target, and no cell as 32x100 is one").into()),
        }
    }
    let has_two = cells.contains(&CELL_OF_TWO);
    let (cells, rounds, has_two) = match (cells.is_empty(), quick) {
        (false, _) => (cells, 6, has_two),
        (true, true) => (QUICK_CELLS.into(), 2, false),
        (true, false) => (ALL_CELLS.into(), 2, true),
    };
    let bench = Bench {
        folder: folder.into(),
        outrider: outrider.into(),
        vllm: vllm.into(),
        package: package.into(),
        targets: if targets.is_empty() { TARGETS.into() } else { targets },
        cells,
        has_two,
        rounds,
    };
    // Links have a thread of their own: a gateway that asks its engine through a link does so while it starts.
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?.block_on(bench.run())
}

/// Writes a target as a checkpoint; one that is grown is kept in `models`.
fn write_checkpoint(target: &str, models: &Path, folder: &Path) -> Result<(), Failure> {
    let pair = PairPaths::default();
    let gguf = match target {
        "built-in" => pair.target_gguf()?.into_owned(),
        size => fs::read(grow::grown(models, "target", size, "f16")?)?,
    };
    checkpoint::write(&gguf, &pair.tokenizer_with_json()?.1, folder)
}

/// Sessions at a time, and the milliseconds of a round trip.
type Cell = (usize, u32);

const ALL_CELLS: [Cell; 9] = [(1, 0), (1, 20), (1, 100), (8, 0), (8, 20), (8, 100), (32, 0), (32, 20), (32, 100)];
const QUICK_CELLS: [Cell; 4] = [(1, 0), (1, 20), (8, 20), (32, 100)];
/// The cell in which two workers are measured, too.
const CELL_OF_TWO: Cell = (8, 20);
/// Sessions and time that each way runs before anything is measured: the first judged drafts of an engine cost it a
/// second or two.
const WARM_UP: Cell = (32, 0);
const WARM_UP_TIME: Duration = Duration::from_secs(4);

struct Bench {
    folder: PathBuf,
    outrider: PathBuf,
    vllm: PathBuf,
    package: PathBuf,
    targets: Vec<(&'static str, Duration)>,
    cells: Vec<Cell>,
    /// True if two workers are measured, too: their engines take memory.
    has_two: bool,
    rounds: usize,
}

/// All servers and links for one target.
struct Fleet {
    // Dropped in this order: gateways before what they are connected to.
    rounds: Server,
    guesses: Server,
    /// The gateway of two workers, and the link that spreads connections over those that have guesses.
    two_guesses: Option<(Server, Link)>,
    /// Engines that write alone; the first serves `openai:` as well.
    plain: Vec<Engine>,
    ngrams: Engine,
    drafted: Engine,
    guessed: Vec<Engine>,
}

impl Fleet {
    /// The engines that a way uses.
    fn engines(&self, way: Way) -> Vec<&Engine> {
        match way {
            Way::Alone | Way::Rounds => vec![&self.plain[0]],
            Way::Ngrams => vec![&self.ngrams],
            Way::OwnDraft => vec![&self.drafted],
            Way::Idle | Way::Guesses => vec![&self.guessed[0]],
            Way::TwoAlone => self.plain.iter().collect(),
            Way::TwoGuesses => self.guessed.iter().collect(),
        }
    }

    /// Guesses that its edges have sent so far.
    async fn guesses_sent(&self, way: Way) -> Result<f64, Failure> {
        let gateway = match way {
            Way::Guesses => Some(&self.guesses),
            Way::TwoGuesses => self.two_guesses.as_ref().map(|(gateway, _)| gateway),
            _ => None,
        };
        let Some(gateway) = gateway else { return Ok(0.0) };
        Ok(gateway.metrics().await?.sum("outrider_guesses_total"))
    }

    /// Addresses that its clients connect to, beyond the link.
    fn addresses(&self, way: Way) -> Vec<String> {
        match way {
            Way::Rounds => vec![self.rounds.address().to_owned()],
            Way::Guesses => vec![self.guesses.address().to_owned()],
            Way::TwoGuesses => self.two_guesses.iter().map(|(gateway, _)| gateway.address().to_owned()).collect(),
            _ => self.engines(way).into_iter().map(|engine| engine.address().to_owned()).collect(),
        }
    }
}

impl Bench {
    async fn run(self) -> Result<(), Failure> {
        let pair = PairPaths::default();
        let (draft, tokenizer) = (pair.draft()?, pair.tokenizer()?);
        let edges = Edges { draft: &draft, info: draft_info(&draft, &tokenizer)? };
        let mut prompts = Vec::new();
        for beginning in &excerpts(PROMPT_WORDS) {
            prompts.push(tokenizer.encode_prompt(draft.config().first_token(), beginning)?);
        }
        let (mut levels, mut memory, mut version) = (Vec::new(), Vec::new(), String::new());
        for &(target, time) in &self.targets {
            let fleet = self.start(target).await?;
            version = fleet.plain[0].version().await?;
            for way in self.ways(CELL_OF_TWO) {
                let (sessions, round_trip_ms) = WARM_UP;
                let case = Case { target, round: 0, way, sessions, round_trip_ms };
                self.level(&fleet, case, WARM_UP_TIME, &prompts, &edges).await?;
            }
            for round in 0..self.rounds {
                for &cell in &self.cells {
                    let ways = self.ways(cell);
                    // The first way of one round is the last of the next.
                    for &way in ways.iter().cycle().skip(round).take(ways.len()) {
                        let (sessions, round_trip_ms) = cell;
                        let case = Case { target, round, way, sessions, round_trip_ms };
                        let level = self.level(&fleet, case, time, &prompts, &edges).await?;
                        let name = way.name();
                        println!("{target}, {sessions} sessions, {round_trip_ms} ms, {name}: {:.1}", level.rate);
                        levels.push(level);
                    }
                }
            }
            for way in [Way::Alone, Way::Ngrams, Way::OwnDraft, Way::Guesses] {
                memory.push(Memory { target, way, mib: fleet.engines(way)[0].memory_mib()? });
            }
        }
        report::write(&self.folder, &version, &self.targets, &levels, &memory)
    }

    /// Ways that are measured in a cell.
    fn ways(&self, cell: Cell) -> Vec<Way> {
        let two: &[Way] = if self.has_two && cell == CELL_OF_TWO { &Way::OF_TWO } else { &[] };
        [&Way::OF_ONE[..], two].concat()
    }

    /// The target as a checkpoint, and all that serves it.
    async fn start(&self, target: &str) -> Result<Fleet, Failure> {
        let models = self.folder.join("fleet");
        let checkpoint = models.join(target);
        if !checkpoint.join("config.json").exists() {
            write_checkpoint(target, &models, &checkpoint)?;
        }
        let launch = Launch { vllm: &self.vllm, package: &self.package, model: &checkpoint, logs: &self.folder };
        let (mut plain, mut guessed, mut sockets) = (Vec::new(), Vec::new(), Vec::new());
        // One after the other: each takes all of the core until it serves.
        for worker in 0..if self.has_two { 2 } else { 1 } {
            let socket = self.folder.join(format!("fleet-guesses-{worker}.sock"));
            plain.push(launch.start(&Drafting::Nobody).await?);
            guessed.push(launch.start(&Drafting::Guesses(socket.clone())).await?);
            sockets.push(socket);
        }
        let ngrams = launch.start(&Drafting::Ngrams).await?;
        let draft = models.join("draft");
        let pair = PairPaths::default();
        checkpoint::write(&pair.draft_file()?, &pair.tokenizer_with_json()?.1, &draft)?;
        let drafted = launch.start(&Drafting::Model(draft)).await?;
        let tokenizer = checkpoint.join("tokenizer.json");
        let gateway = |target: String, sockets: &[PathBuf]| {
            let channels: Vec<String> = sockets.iter().map(|socket| format!("unix:{}", socket.display())).collect();
            let tokenizer = tokenizer.display().to_string();
            let mut arguments = vec!["--target", &target, "--tokenizer", &tokenizer];
            arguments.extend(channels.iter().flat_map(|channel| ["--guesses-to", channel.as_str()]));
            Server::start(&self.outrider, &arguments)
        };
        let rounds = gateway(format!("openai:http://{}", plain[0].address()), &[])?;
        let guesses = gateway(format!("vllm:http://{}", guessed[0].address()), &sockets[..1])?;
        let mut two_guesses = None;
        if self.has_two {
            let workers = guessed.iter().map(|engine| engine.address().to_owned()).collect();
            let spread = Link::start(workers, Duration::ZERO).await?;
            two_guesses = Some((gateway(format!("vllm:http://{}", spread.address()), &sockets)?, spread));
        }
        Ok(Fleet { rounds, guesses, two_guesses, plain, ngrams, drafted, guessed })
    }

    /// Runs `case.sessions` sessions for `duration`; each begins another text when one has ended.
    async fn level(
        &self,
        fleet: &Fleet,
        case: Case,
        duration: Duration,
        prompts: &[Vec<u32>],
        edges: &Edges<'_>,
    ) -> Result<Level, Failure> {
        let one_way = Duration::from_millis(case.round_trip_ms.into()) / 2;
        let link = Link::start(fleet.addresses(case.way), one_way).await?;
        // All at once: over a long link the first of many would have been idle until vLLM hangs up.
        let players = (0..case.sessions).map(async |_| match case.way {
            Way::Rounds => edges.in_rounds(link.address()).await,
            Way::Guesses | Way::TwoGuesses => edges.ahead(link.address()).await,
            _ => Plain::connect(link.address()).await.map(Player::Plain),
        });
        let players = try_join_all(players).await?;
        let engines = fleet.engines(case.way);
        for engine in &engines {
            engine.forget().await?;
        }
        let before = (Counts::default().since(&engines).await?, fleet.guesses_sent(case.way).await?);
        let played = play(players, prompts, duration).await?;
        drop(link);
        time::sleep(SETTLING).await;
        let sent = fleet.guesses_sent(case.way).await? - before.1;
        Ok(Level::new(case, played, before.0.since(&engines).await?, sent))
    }
}
