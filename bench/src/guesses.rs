//! `cargo xtask bench guesses`: text that is visible before the server has confirmed it, by round trip.
//!
//! A native edge and the server's engine run in this process, over an emulated link in real time. The argument is a
//! folder: the report goes to `guesses.md` there, and to standard output.

use std::{collections::BTreeMap, fmt::Write, path::Path, time::Duration, time::Instant};

use outrider_cloud::{
    edge::{NativeEdge, Transport},
    pair::{Ends, PairPaths, draft_info, target_info},
    target::engine::Engine,
};
use outrider_codec::frame::MAX_DRAFT_TOKENS;
use outrider_models::{Model, Tokenizer};
use outrider_papers::reproduce::sessions::DEFAULT_SAMPLING;
use outrider_speculation::{
    control::link::Link,
    session::{
        cloud::TargetInfo,
        edge::{Ahead, EdgeSession, Mode, Preview, Settings},
        edge_driver::Notice,
    },
};
use serde::Serialize;
use serde_json::json;

use crate::{
    chat::{Template, many_questions},
    passes::Failure,
    report,
};

const ROUND_TRIPS_MS: [u64; 5] = [2, 50, 100, 200, 400];
const PROMPTS: usize = 24;
/// Texts in a row; rows have seeds of their own, so that they are as many samples of the calibration.
const TEXTS: usize = 96;
const TOKENS: u32 = 96;
/// Least chances of visible guesses; the first is the package's default of `guessesFrom`.
const GUESSES_FROM: [f64; 2] = [0.5, 0.8];
const BINS: usize = 10;

/// Runs the measurement with the arguments that follow its name.
pub fn run(arguments: &[&str]) -> Result<(), Failure> {
    let [folder] = *arguments else { return Err("a folder is expected".into()) };
    let runtime = tokio::runtime::Runtime::new()?;
    let mut smollm2 = PairPaths { model: vec!["smollm2".parse()?], ..PairPaths::default() };
    runtime.block_on(smollm2.fetch())?;
    let (mut samples, mut text) = (Vec::new(), String::new());
    for (name, paths) in [("built-in pair", PairPaths::default()), ("SmolLM2-135M-Instruct with its draft", smollm2)] {
        let (tokenizer, _) = paths.tokenizer_for(Ends::Both)?;
        let (draft, target) = (paths.draft_with(&tokenizer)?, paths.target_with(&tokenizer)?);
        let prompts: Vec<Vec<u32>> = if paths.model.is_empty() {
            outrider_cloud::both_ends::open(&paths)?.prompts(PROMPTS)?
        } else {
            let template = Template::of(&paths, &target, &tokenizer)?;
            many_questions().iter().map(|question| template.ask(&tokenizer, question)).collect::<Result<_, _>>()?
        };
        let info = target_info(&target, &tokenizer, MAX_DRAFT_TOKENS)?;
        let engine = Engine::start(target, 1)?;
        let mut totals = Vec::new();
        let rows = ROUND_TRIPS_MS.into_iter().flat_map(|trip| GUESSES_FROM.map(|from| (trip, from)));
        for ((trip, from), first_seed) in rows.zip((1..).step_by(TEXTS)) {
            let session = async {
                let transport = over_link(&engine, &info, trip).await;
                texts(&draft, &tokenizer, transport, (&prompts, first_seed, from)).await
            };
            totals.push((trip, from, runtime.block_on(session)?));
        }
        write!(text, "## {name}\n\n{}\n", tables(&totals)?)?;
        samples.push((name, totals));
    }
    report::write(Path::new(folder), "guesses", &text, json!(samples), None)
}

/// Connects an edge of this process to an engine once that has a free slot. The link's round trip is in milliseconds.
pub async fn over_link(engine: &Engine, info: &TargetInfo, round_trip_ms: u64) -> Transport {
    let mut link = Link::unlimited();
    link.configure(None, Duration::from_millis(round_trip_ms) / 2);
    loop {
        match Transport::local(engine, info.clone()) {
            Some(transport) => return transport.over(link.clone(), link),
            None => tokio::task::yield_now().await,
        }
    }
}

/// Sums over the texts of one round trip.
#[derive(Debug, Default, Serialize)]
struct Total {
    texts: f64,
    tokens: f64,
    /// Seconds until the first token was visible, and until one was confirmed.
    first_visible: f64,
    first_confirmed: f64,
    /// Texts whose first visible token was a guess, and the seconds until these were visible.
    early: f64,
    first_early: f64,
    /// Seconds from the first visible token on, and visible unconfirmed tokens summed over them.
    seconds: f64,
    ahead: f64,
    /// Guesses that were shown, and those that were withdrawn; and the times that any were.
    shown: f64,
    withdrawn: f64,
    replacements: f64,
    /// By bins of the chance: guesses, their predicted chances, and those that were right.
    bins: [[f64; 3]; BINS],
}

/// One text while it is written.
struct View {
    began: Instant,
    last: Instant,
    preview: Preview,
    confirmed: usize,
    /// The number of tokens that were visible at any time.
    reach: usize,
    is_visible: bool,
    /// Id and chance of each guess when it was first made, by its position.
    guesses: BTreeMap<usize, (u32, f64)>,
}

async fn texts(
    draft: &Model,
    tokenizer: &Tokenizer,
    transport: Transport,
    (prompts, first_seed, from): (&[Vec<u32>], u64, f64),
) -> Result<Total, Failure> {
    let mut edge = NativeEdge::greet(draft, draft_info(draft, tokenizer)?, transport).await?;
    let mut total = Total::default();
    for (seed, prompt) in (first_seed..).zip(prompts.iter().cycle().take(TEXTS)) {
        let mode = Mode::Ahead(Ahead::default());
        let settings = Settings { mode, sampling: DEFAULT_SAMPLING, seed, max_new_tokens: TOKENS };
        let mut view = View::new(from);
        edge.generate_with(prompt.clone(), &settings, |session, notice| view.follow(session, &notice, &mut total))
            .await?;
        total.texts += 1.0;
    }
    edge.close().await;
    Ok(total)
}

impl View {
    fn new(from: f64) -> Self {
        let (began, preview) = (Instant::now(), Preview::new(from));
        Self { began, last: began, preview, confirmed: 0, reach: 0, is_visible: false, guesses: BTreeMap::new() }
    }

    fn follow(&mut self, session: &EdgeSession, notice: &Notice, total: &mut Total) {
        let now = Instant::now();
        if self.is_visible {
            let seconds = (now - self.last).as_secs_f64();
            total.seconds += seconds;
            total.ahead += seconds * self.preview.ids().len() as f64;
        }
        self.last = now;
        match notice {
            Notice::Committed(committed) => {
                if self.confirmed == 0 {
                    total.first_confirmed += (now - self.began).as_secs_f64();
                }
                for &(id, _) in &committed.tokens {
                    self.confirm(id, total);
                }
            }
            Notice::Guessed => {
                let line = session.guesses();
                for ((&id, &chance), position) in line.ids.iter().zip(&line.chances).zip(self.confirmed..) {
                    self.guesses.entry(position).or_insert((id, chance));
                }
                self.preview.update(&line);
                let visible = self.confirmed + self.preview.ids().len();
                total.shown += visible.saturating_sub(self.reach) as f64;
                self.reach = self.reach.max(visible);
            }
            _ => {}
        }
        if !self.is_visible && self.reach > 0 {
            self.is_visible = true;
            let seconds = (now - self.began).as_secs_f64();
            total.first_visible += seconds;
            if self.confirmed == 0 {
                total.early += 1.0;
                total.first_early += seconds;
            }
        }
    }

    fn confirm(&mut self, id: u32, total: &mut Total) {
        let withdrawn = self.preview.commit(id);
        total.withdrawn += withdrawn as f64;
        total.replacements += f64::from(withdrawn > 0);
        if withdrawn > 0 {
            self.reach = self.confirmed;
        }
        let is_right = self.guesses.remove(&self.confirmed).map(|(guess, chance)| {
            score(&mut total.bins, chance, guess == id);
            guess == id
        });
        if is_right == Some(false) {
            // What assumed a wrong guess is wrong.
            for (_, chance) in std::mem::take(&mut self.guesses).into_values() {
                score(&mut total.bins, chance, false);
            }
        }
        self.confirmed += 1;
        self.reach = self.reach.max(self.confirmed);
        total.tokens += 1.0;
    }
}

fn score(bins: &mut [[f64; 3]; BINS], chance: f64, is_right: bool) {
    let bin = &mut bins[((chance * BINS as f64) as usize).min(BINS - 1)];
    for (sum, value) in bin.iter_mut().zip([1.0, chance, f64::from(is_right)]) {
        *sum += value;
    }
}

fn tables(totals: &[(u64, f64, Total)]) -> Result<String, Failure> {
    let mut text = format!(
        "A native edge and the engine in one process, the link emulated in real time: {} texts of at most {TOKENS} \
         tokens for each row, default settings. From: least chance of a guess that is shown. Ahead: \
         visible tokens that are not confirmed, mean over time. Replaced: share of the shown guesses.\n\n\
         | round trip, ms | from | first visible token, ms | texts that begin with a guess | theirs, ms | \
         first confirmed token, ms | tokens ahead | replaced | replacements / 100 tokens |\n\
         |--:|--:|--:|--:|--:|--:|--:|--:|--:|\n",
        totals.first().map_or(0.0, |(_, _, total)| total.texts),
    );
    for (trip, from, total) in totals {
        writeln!(
            text,
            "| {trip} | {from} | {:.1} | {:.0} % | {:.1} | {:.1} | {:.2} | {:.1} % | {:.2} |",
            1e3 * total.first_visible / total.texts,
            100.0 * total.early / total.texts,
            1e3 * total.first_early / total.early.max(1.0),
            1e3 * total.first_confirmed / total.texts,
            total.ahead / total.seconds,
            100.0 * total.withdrawn / total.shown.max(1.0),
            100.0 * total.replacements / total.tokens,
        )?;
    }
    text.push_str(
        "\nCalibration over all round trips: the chance that a guess and all before it hold, as estimated when the \
         guess was made, against the share that did.\n\n| chance | guesses | predicted | actual |\n|---|--:|--:|--:|\n",
    );
    for bin in 0..BINS {
        let [count, predicted, right] =
            [0, 1, 2].map(|which| totals.iter().map(|(_, _, total)| total.bins[bin][which]).sum::<f64>());
        if count > 0.0 {
            let (from, to) = (bin as f64 / BINS as f64, (bin + 1) as f64 / BINS as f64);
            writeln!(text, "| {from:.1} to {to:.1} | {count} | {:.3} | {:.3} |", predicted / count, right / count)?;
        }
    }
    Ok(text)
}
