//! `cargo xtask bench schemes`: every uplink scheme on the default pair, both ends in this process.
//!
//! The argument is a folder: the table goes to `schemes.md` there, and to standard output.

use std::{fmt::Write, path::Path, time::Duration};

use outrider_cloud::{both_ends, pair::PairPaths};
use outrider_codec::choice::Choice;
use outrider_models::{Chunk, Model};
use outrider_speculation::{
    control::link::Link,
    judge::Verification,
    sample,
    session::edge::Settings,
    session::options::{Code, DownlinkName, DraftingOptions, SchemeChoice, SchemeName},
};
use serde::Serialize;
use serde_json::json;
use tokio::runtime::Runtime;

use crate::{passes::Failure, report};
use outrider_papers::reproduce::sessions::{DEFAULT_SAMPLING, Pair, Session};

const SESSIONS: usize = 20;
/// Sessions of each row that compares the two ways of verification.
const COMPARED: usize = 100;
/// Prompts of a row over an emulated link.
const LINKED: usize = 10;
const TOKENS: u32 = 128;

/// Runs the measurement with the arguments that follow its name.
pub fn run(arguments: &[&str]) -> Result<(), Failure> {
    let [folder] = *arguments else { return Err("a folder is expected".into()) };
    let pair = both_ends::open(&PairPaths::default())?;
    let prompts = pair.prompts(SESSIONS)?;
    let runtime = Runtime::new()?;
    let blocks = verifications(&runtime, &pair)?;
    let turns = runner_ups(&runtime, &pair)?;
    let mut table = format!(
        "{SESSIONS} prompts of 128 tokens at default settings (T = 0.7, top-p 0.95, γ = 4, K = 32, ℓ = 100), no bit \
         budget, verified token by token. Acceptance: accepted per judged draft, ± one standard error. Uplink: \
         payload bits. Downlink: whole \
         frames. Passes: of the target, per committed token; tokens/s with both ends on this machine.\n\n\
         | scheme | acceptance | uplink / drafted | uplink / token | downlink / token | passes / token | tokens/s |\n\
         |---|--:|--:|--:|--:|--:|--:|\n"
    );
    let mut rejections = String::from(
        "\nDSSD after a rejection: bytes down (verdict and what followed), and how often no sample survived and the \
         distribution was asked for.\n\n| downlink | bytes / rejection | asked on |\n|---|--:|--:|\n",
    );
    let (mut notes, mut samples) = (String::new(), Vec::new());
    for (name, options) in variants() {
        let sessions = runtime.block_on(pair.generate(&prompts, &options.speculation()?))?;
        let total = Total::of(&sessions);
        samples.extend(
            sessions.iter().map(|session| json!({ "scheme": name, "sums": Total::of(std::slice::from_ref(session)) })),
        );
        writeln!(
            table,
            "| {name} | {:.3} ± {:.3} | {:.1} | {:.1} | {:.1} | {:.3} | {:.0} |",
            total.acceptance(),
            (total.acceptance() * (1.0 - total.acceptance()) / total.judged).sqrt(),
            total.payload_bits / total.drafted,
            total.payload_bits / total.tokens,
            total.downlink_bits / total.tokens,
            total.passes / total.tokens,
            total.tokens / total.seconds
        )?;
        match options.scheme {
            SchemeChoice::Rounds(SchemeName::Dssd) => writeln!(
                rejections,
                "| {name} | {:.1} | {:.1} % |",
                total.rejection_bits / 8.0 / total.resampled,
                100.0 * total.follow_ups / total.resampled
            )?,
            SchemeChoice::Rounds(SchemeName::Coupled) => {
                let target = PairPaths::default().target()?;
                let bounds = Bounds::of(&sessions, &pair.draft, &target)?;
                writeln!(
                    notes,
                    "\nCoupled drafting accepted {:.3} of {} judged drafts. On the same positions, with TV between S(q) and \
                     S(p): mean of (1−TV)/(1+TV), its guarantee, {:.3}; mean of 1−TV, the best of any scheme, {:.3}.",
                    total.acceptance(),
                    bounds.positions,
                    bounds.guarantee,
                    bounds.best
                )?;
            }
            SchemeChoice::Rounds(SchemeName::CSqs) => {
                let generations = runtime.block_on(pair.generate_in_one(&prompts, &options.speculation()?))?;
                writeln!(notes, "\n{}", of_one_session(&name, &options, &sessions, &generations))?;
            }
            _ => {}
        }
        println!("{name} done");
    }
    let markdown = format!("{table}{rejections}{blocks}{turns}{notes}");
    report::write(Path::new(&folder), "schemes", &markdown, samples.into(), None)
}

/// Compares token-wise and block verification by tokens per round; prompts and seeds are the same.
fn verifications(runtime: &Runtime, pair: &Pair) -> Result<String, Failure> {
    let prompts = pair.prompts(COMPARED)?;
    let mut table = format!(
        "\nTokens per round by token-wise and by block verification, {COMPARED} prompts each, ± one standard error of \
         the gain over prompts.\n\n| scheme | γ | token by token | as a block | gain |\n|---|--:|--:|--:|--:|\n"
    );
    for (scheme, draft_length) in [
        (SchemeName::KSqs, 4),
        (SchemeName::KSqs, 8),
        (SchemeName::Dense, 4),
        (SchemeName::CSqs, 4),
        (SchemeName::TkSlt, 4),
        (SchemeName::Qs, 4),
    ] {
        let mut per_round = Vec::new();
        for verification in [Verification::Token, Verification::Block] {
            let (scheme, draft_length) = (scheme.into(), Some(draft_length));
            let options =
                DraftingOptions { scheme, draft_length, verification, bit_budget: 0, ..DraftingOptions::default() };
            let sessions = runtime.block_on(pair.generate(&prompts, &options.speculation()?))?;
            per_round.push(
                sessions
                    .iter()
                    .map(|session| {
                        let Total { tokens, passes, .. } = Total::of(std::slice::from_ref(session));
                        (tokens, passes)
                    })
                    .collect::<Vec<_>>(),
            );
        }
        let [token, block] = [0, 1].map(|way| {
            let sum: (f64, f64) = per_round[way].iter().fold((0.0, 0.0), |sum, of| (sum.0 + of.0, sum.1 + of.1));
            sum.0 / sum.1
        });
        let gains = per_round[0].iter().zip(&per_round[1]).map(|(token, block)| block.0 / block.1 - token.0 / token.1);
        let gains: Vec<f64> = gains.collect();
        let mean = gains.iter().sum::<f64>() / gains.len() as f64;
        let variance = gains.iter().map(|gain| (gain - mean).powi(2)).sum::<f64>() / (gains.len() - 1) as f64;
        let row = format!(
            "| {} | {draft_length} | {token:.3} | {block:.3} | {:+.1} ± {:.1} % |",
            scheme.name(),
            100.0 * (block / token - 1.0),
            100.0 * (variance / gains.len() as f64).sqrt() / token
        );
        println!("{row}");
        writeln!(table, "{row}")?;
    }
    Ok(table)
}

/// Compares coupled rounds with the same rounds of `ahead`, whose guesses may be the second best candidates, too.
fn runner_ups(runtime: &Runtime, pair: &Pair) -> Result<String, Failure> {
    let prompts = pair.prompts(LINKED)?;
    let mut table = format!(
        "\nCoupled rounds of four over an emulated link, {LINKED} prompts each: frame bits up per token, and tokens/s by \
         round trip.\n\n| rounds | uplink / token | 20 ms | 100 ms |\n|---|--:|--:|--:|\n"
    );
    let rounds = DraftingOptions { scheme: SchemeName::Coupled.into(), bit_budget: 0, ..DraftingOptions::default() };
    let turns = |candidates| DraftingOptions {
        scheme: SchemeChoice::Ahead,
        group_size: 4,
        lead: 4,
        patience: 2000.0,
        candidates,
        ..DraftingOptions::default()
    };
    for (name, options) in [("of drafts", rounds), ("of guesses", turns(1)), ("of guesses and runner-ups", turns(2))] {
        let mode = options.mode(options.speculation()?);
        let (mut speeds, mut uplink) = (String::new(), 0.0);
        for round_trip in [20, 100] {
            let mut link = Link::unlimited();
            link.configure(None, Duration::from_millis(round_trip) / 2);
            let mut sessions = Vec::new();
            for (prompt, seed) in prompts.iter().zip(1..) {
                let settings =
                    Settings { mode: mode.clone(), sampling: DEFAULT_SAMPLING, seed, max_new_tokens: TOKENS };
                sessions.push(runtime.block_on(pair.generate_over(Some(&link), prompt, &settings))?);
            }
            let total = Total::of(&sessions);
            uplink = sessions.iter().map(|session| session.statistics.uplink_bits as f64).sum::<f64>() / total.tokens;
            write!(speeds, " {:.1} |", total.tokens / total.seconds)?;
        }
        let row = format!("| {name} | {uplink:.1} |{speeds}");
        println!("{row}");
        writeln!(table, "{row}")?;
    }
    Ok(table)
}

/// Describes C-SQS's threshold in sessions of a generation each, and in one of them all.
fn of_one_session(name: &str, options: &DraftingOptions, alone: &[Session], together: &[Session]) -> String {
    let dropped = |session: &Session| session.statistics.mean_dropped_mass.unwrap_or(0.0);
    let mean = alone.iter().map(dropped).sum::<f64>() / alone.len() as f64;
    let bound = together.last().and_then(|last| last.statistics.dropped_mass_bound);
    let (all, first_told) =
        (Total::of(together), together.iter().take_while(|of| of.statistics.dropped_mass_bound.is_none()).count());
    format!(
        "{name}: mean dropped mass over committed tokens {mean:.5} where each prompt has a session of its own, for \
         which Theorem 2's bound is above 1. In one session of all prompts, {} tokens with one threshold: {:.5}; the \
         bound is below 1 after {} generations, at last {} (α = {}, η = {}, β₁ = {}). Acceptance {:.3}, {:.1} bits \
         per drafted token.",
        all.tokens,
        together.last().map_or(0.0, dropped),
        first_told + 1,
        bound.map_or("above 1".to_owned(), |bound| format!("{bound:.3}")),
        options.dropped_mass_target,
        options.step_size,
        options.initial_threshold,
        all.acceptance(),
        all.payload_bits / all.drafted
    )
}

fn variants() -> Vec<(String, DraftingOptions)> {
    let verification = Verification::Token;
    let plain = DraftingOptions { bit_budget: 0, verification, ..DraftingOptions::default() };
    let of = |scheme: SchemeName| DraftingOptions { scheme: scheme.into(), ..plain.clone() };
    let adaptive = |scheme| DraftingOptions { code: Code::Adaptive, ..of(scheme) };
    let mut variants: Vec<(String, DraftingOptions)> = [
        ("dense", of(SchemeName::Dense)),
        ("qs", of(SchemeName::Qs)),
        ("k-sqs", of(SchemeName::KSqs)),
        ("k-sqs, adaptive", adaptive(SchemeName::KSqs)),
        ("c-sqs", of(SchemeName::CSqs)),
        ("c-sqs, adaptive", adaptive(SchemeName::CSqs)),
        ("tk-slt", of(SchemeName::TkSlt)),
        ("dssd, full", DraftingOptions { downlink: DownlinkName::Full, ..of(SchemeName::Dssd) }),
    ]
    .map(|(name, options)| (name.to_owned(), options))
    .into();
    for downlink_samples in [1, 2, 4, 8, 16] {
        let options = DraftingOptions { downlink_samples, ..of(SchemeName::Dssd) };
        variants.push((format!("dssd, m = {downlink_samples}"), options));
    }
    variants.push(("coupled".to_owned(), of(SchemeName::Coupled)));
    variants
}

/// Sums over several sessions.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Total {
    tokens: f64,
    drafted: f64,
    judged: f64,
    accepted: f64,
    resampled: f64,
    follow_ups: f64,
    rejection_bits: f64,
    payload_bits: f64,
    downlink_bits: f64,
    passes: f64,
    seconds: f64,
}

impl Total {
    fn of(sessions: &[Session]) -> Self {
        let mut total = Self::default();
        for session in sessions {
            let statistics = &session.statistics;
            total.tokens += statistics.tokens as f64;
            total.drafted += statistics.drafted as f64;
            total.judged += statistics.judged as f64;
            total.accepted += statistics.accepted as f64;
            total.resampled += statistics.resampled as f64;
            total.follow_ups += statistics.follow_ups as f64;
            total.rejection_bits += statistics.rejection_downlink_bits as f64;
            total.payload_bits += statistics.payload_bits as f64;
            total.downlink_bits += statistics.downlink_bits as f64;
            total.passes += statistics.server_passes as f64;
            total.seconds += statistics.elapsed.as_secs_f64();
        }
        total
    }

    fn acceptance(&self) -> f64 {
        self.accepted / self.judged
    }
}

/// Bounds on the acceptance rate at the positions of judged drafts.
struct Bounds {
    positions: usize,
    guarantee: f64,
    best: f64,
}

impl Bounds {
    fn of(sessions: &[Session], draft: &Model, target: &Model) -> Result<Self, Failure> {
        let (mut positions, mut guarantee, mut best) = (0, 0.0, 0.0);
        for session in sessions {
            let text = [&session.prompt[..], &session.tokens].concat();
            // The row that gives a token is that of the one before.
            let mut rows = Vec::new();
            let mut next = session.prompt.len() - 1;
            for round in &session.rounds {
                let judged = (round.accepted + 1).min(round.drafted.len());
                rows.extend(next..next + judged);
                next += round.accepted + usize::from(round.token.is_some());
            }
            let q = distributions(draft, &text, &rows)?;
            let p = distributions(target, &text, &rows)?;
            for (q, p) in q.iter().zip(&p) {
                let distance = q.iter().zip(p).map(|(q, p)| (q - p).abs()).sum::<f64>() / 2.0;
                positions += 1;
                best += 1.0 - distance;
                guarantee += (1.0 - distance) / (1.0 + distance);
            }
        }
        let count = positions as f64;
        Ok(Self { positions, guarantee: guarantee / count, best: best / count })
    }
}

/// S of the logits at `rows` of a text.
fn distributions(model: &Model, text: &[u32], rows: &[usize]) -> Result<Vec<Vec<f64>>, Failure> {
    let mut cache = model.new_cache();
    let logits = model.forward(&mut [Chunk { cache: &mut cache, tokens: text, positions: rows }])?;
    Ok(logits[0].iter().map(|row| sample::transform(row, &DEFAULT_SAMPLING)).collect::<Result<_, _>>()?)
}
