//! Distributed split speculative decoding (Ning et al.): Tables 1 to 3.
//!
//! Rounds, drafts and rejections of Tables 2 and 3 are those of real sessions of a pair of ours (128 tokens at T = 1,
//! top-k 10, as in §4). Their seconds are the paper's accounting: γ drafts, a pass, NTT, and what crosses the link at
//! the paper's |V| = 50272 in 16 bits, for DSD γ distributions up, for DSSD one down after a rejection. A draft takes
//! c passes (§4.2); how long a pass takes is not said.

use outrider_codec::frame::SamplingParameters;
use outrider_speculation::session::options::{DownlinkName, DraftingOptions, SchemeName};
use serde_json::{Value, json};

use super::{
    clock::{Clock, Sent},
    laboratory::Laboratory,
    sessions::{Failure, Session},
    table::{markdown, row},
};
use crate::report::{
    chart::{self, Chart},
    estimate::Estimate,
    files::Report,
};
use crate::theory::{
    dssd,
    tables::{DISTRIBUTION_MS, DSSD_LENGTHS as DRAFT_LENGTHS, DSSD_RATES as RATES, OVERHEAD_MS},
};

/// Vocabulary size of OPT.
const VOCABULARY_SIZE: usize = 50_272;
const BITS: usize = 16;
const TOKENS: u32 = 128;
const SAMPLING: SamplingParameters = SamplingParameters { temperature: 1.0, top_k: 10, top_p: 1.0 };
/// Seconds of a pass of the target, which the paper does not give. With it DSSD's speed-up in the first row of Table 2,
/// where the link takes least, is near the printed one.
const PASS: f64 = 0.025;

/// A row: NTT in ms, Mbit/s and γ, with the paper's numbers for 6.7B: DSD's speed-up and DSSD's.
struct Row {
    ntt: f64,
    megabits: f64,
    gamma: u32,
    printed: [f64; 2],
}

const fn line(ntt: f64, megabits: f64, gamma: u32, printed: [f64; 2]) -> Row {
    Row { ntt, megabits, gamma, printed }
}

const TABLE_2: [Row; 6] = [
    line(0.0, 100.0, 8, [1.51, 2.28]),
    line(20.0, 100.0, 8, [1.41, 2.31]),
    line(50.0, 10.0, 8, [0.43, 2.19]),
    line(20.0, 50.0, 8, [1.24, 2.22]),
    line(50.0, 50.0, 8, [1.08, 1.97]),
    line(50.0, 10.0, 6, [1.16, 1.57]),
];
const TABLE_3: [Row; 6] = [
    line(0.0, 100.0, 8, [0.88, 0.98]),
    line(20.0, 100.0, 8, [0.85, 0.92]),
    line(20.0, 50.0, 8, [0.72, 0.92]),
    line(20.0, 100.0, 4, [1.10, 1.11]),
    line(20.0, 100.0, 6, [1.12, 1.14]),
    line(20.0, 100.0, 8, [0.93, 1.04]),
];

pub(super) fn table1() -> Report {
    let cell = |gamma: u32, rate: f64| {
        let rejection = dssd::rejection_probability(rate, gamma);
        let time = dssd::communication_time(rate, gamma, DISTRIBUTION_MS, OVERHEAD_MS);
        (rejection, time)
    };
    let rows: Vec<_> = DRAFT_LENGTHS
        .iter()
        .map(|&gamma| row(gamma, RATES.map(|rate| format!("{:.2} ({:.2})", cell(gamma, rate).0, cell(gamma, rate).1))))
        .collect();
    let numbers = DRAFT_LENGTHS.iter().flat_map(|&gamma| {
        RATES.map(|rate| json!({ "draftLength": gamma, "acceptanceRate": rate, "cell": cell(gamma, rate) }))
    });
    let bars = |of: fn((f64, f64)) -> f64| -> Vec<(String, Vec<f64>)> {
        DRAFT_LENGTHS.map(|gamma| (format!("γ = {gamma}"), RATES.map(|rate| of(cell(gamma, rate))).to_vec())).into()
    };
    let series = vec!["α = 0.5", "0.6", "0.7", "0.8", "0.9", "0.99"];
    let rejections =
        Chart { title: "1 − α^γ".to_owned(), series: series.clone(), groups: bars(|(rejection, _)| rejection) };
    let times = Chart { title: "T_comm in ms".to_owned(), series, groups: bars(|(_, time)| time) };
    Report {
        text: format!(
            "1 − α^γ, and T_comm in ms at |V|b/R = {DISTRIBUTION_MS} ms and NTT = {OVERHEAD_MS} ms, which the paper does \
             not say and which give all its cells.\n\n"
        ) + &markdown(&row("γ \\ α", RATES), &rows),
        numbers: numbers.collect(),
        svg: Some(chart::svg(&[rejections, times])),
    }
}

pub(super) fn table2(laboratory: &mut Laboratory) -> Result<Report, Failure> {
    report(laboratory, &TABLE_2, 0.05, "a draft takes a twentieth of a pass")
}

pub(super) fn table3(laboratory: &mut Laboratory) -> Result<Report, Failure> {
    report(laboratory, &TABLE_3, 0.1, "c = 0.1, as §4.2 says for 125M → 6.7B")
}

fn report(laboratory: &Laboratory, table: &[Row], cost: f64, said: &str) -> Result<Report, Failure> {
    let mut numbers: Vec<Value> = Vec::new();
    let (mut rows, mut found, mut bars) = (Vec::new(), Vec::new(), Vec::new());
    for &Row { ntt, megabits, gamma, printed } in table {
        if !found.iter().any(|(length, _)| *length == gamma) {
            laboratory.say(&format!("γ = {gamma}"));
            found.push((gamma, sessions(laboratory, gamma)?));
        }
        let Some((_, sessions)) = found.iter().find(|(length, _)| *length == gamma) else { continue };
        let clock = clock(cost, ntt, megabits);
        let [dsd, dssd] = [false, true].map(|split| Speed::of(sessions, &clock, split));
        let acceptance = acceptance(sessions);
        rows.push(row(
            format!("{ntt}"),
            [
                format!("{megabits}"),
                gamma.to_string(),
                format!("{acceptance:.3}"),
                format!("{:.2}", dsd.link.value),
                format!("{:.2}", dsd.speedup),
                format!("{:.2}", printed[0]),
                format!("{:.2}", dssd.link.value),
                format!("{:.2}", dssd.speedup),
                format!("{:.2}", printed[1]),
            ],
        ));
        let group = format!("{ntt} ms, {megabits} Mbit/s, γ = {gamma}");
        bars.push((group, vec![dsd.speedup.value, printed[0], dssd.speedup.value, printed[1]]));
        numbers.push(json!({
            "nttMs": ntt, "megabits": megabits, "draftLength": gamma, "acceptanceRate": acceptance,
            "dsd": dsd.speedup, "dssd": dssd.speedup, "printed": printed,
        }));
    }
    let last = table.last().ok_or("a table has rows")?;
    let link = clock(cost, last.ntt, last.megabits);
    let real = laboratory.for_real(&options(last.gamma), SAMPLING, TOKENS, link)?;
    let head = row(
        "NTT, ms",
        ["Mbit/s", "γ", "α", "DSD: link, s", "speed-up", "printed", "DSSD: link, s", "speed-up", "printed"],
    );
    let series = ["DSD", "DSD, printed", "DSSD", "DSSD, printed"];
    Ok(Report {
        text: format!(
            "Rounds, drafts and rejections of our pair (T = 1, top-k 10, {TOKENS} tokens a text); seconds by the paper's \
             accounting at |V| = {VOCABULARY_SIZE} in {BITS} bits, a pass of {} ms ({said}). Speed-up over the target \
             alone; ± is one standard error over prompts. Printed: 125M → 6.7B, whose α is 0.61 ± 0.05.\n\n",
            1e3 * PASS
        ) + &markdown(&head, &rows)
            + &real.told("the last row's link, with distributions of this pair's vocabulary in 32 bits"),
        numbers: json!({ "rows": numbers, "inRealTime": real.numbers() }),
        svg: Some(chart::single("speed-up over the target alone", &series, bars)),
    })
}

/// The clock of a link, with drafts that take a share `cost` of a pass.
fn clock(cost: f64, ntt: f64, megabits: f64) -> Clock {
    Clock { draft: cost * PASS, pass: PASS, row: 0.0, bits_per_second: Some(megabits * 1e6), delay: ntt / 2e3 }
}

fn options(gamma: u32) -> DraftingOptions {
    DraftingOptions {
        scheme: SchemeName::Dssd.into(),
        downlink: DownlinkName::Full,
        draft_length: Some(gamma),
        bit_budget: 0,
        ..DraftingOptions::default()
    }
}

fn sessions(laboratory: &Laboratory, gamma: u32) -> Result<Vec<Session>, Failure> {
    laboratory.sessions(&options(gamma), SAMPLING, TOKENS)
}

/// Accepted per judged draft.
fn acceptance(sessions: &[Session]) -> Estimate {
    let pair = |session: &Session| (session.statistics.accepted as f64, session.statistics.judged as f64);
    Estimate::of(&sessions.iter().map(pair).collect::<Vec<_>>())
}

/// Link time and speed-up of a way to send.
struct Speed {
    /// Seconds on the link, of a text.
    link: Estimate,
    /// Speed-up over the target alone.
    speedup: Estimate,
}

impl Speed {
    fn of(sessions: &[Session], clock: &Clock, split: bool) -> Self {
        let spent: Vec<_> = sessions
            .iter()
            .map(|session| {
                let rounds = session.rounds.iter().map(|round| {
                    let (drafts, is_rejected) = (round.drafted.len(), round.accepted < round.drafted.len());
                    let distribution = VOCABULARY_SIZE * BITS;
                    if split {
                        // Ids and their probabilities go up.
                        Sent { drafts, up: drafts * 2 * BITS, down: if is_rejected { distribution } else { BITS } }
                    } else {
                        Sent { drafts, up: drafts * (distribution + BITS), down: 2 * BITS }
                    }
                });
                (clock.spend(rounds), session.tokens.len())
            })
            .collect();
        let link = spent.iter().map(|(spent, tokens)| (spent.link * f64::from(TOKENS), *tokens as f64));
        let speedup = spent.iter().map(|(spent, tokens)| (clock.alone(*tokens), spent.total()));
        Self { link: Estimate::of(&link.collect::<Vec<_>>()), speedup: Estimate::of(&speedup.collect::<Vec<_>>()) }
    }
}
