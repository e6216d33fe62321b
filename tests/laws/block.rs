//! Block verification (Sun et al. 2024, arXiv 2403.10444, Algorithm 2). All drafts of a round and all numbers of
//! accepted ones are enumerated from the paper: the text has the target's distribution to the last digits, and rounds
//! of whole sessions commit what the enumeration says.

use outrider_codec::scheme::{Code, SchemeParameters};
use outrider_speculation::{
    judge::{Rule, Verification},
    sample::{End, Randomness},
    session::edge::{Mode, Settings, Speculation},
};
use outrider_tests::{
    closed_forms::Position,
    goodness::{assert_caught, assert_follows, cell, distance, error, samples},
    samplings::{NEUTRAL, SHARPENED},
    texts::{PROMPT, Texts},
};

use crate::rules::{SPARSE, farthest};

/// Size of the vocabulary.
const V: u32 = 3;

/// Errors that are easily made.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Planted {
    Nothing,
    /// The next token is drawn from max(0, π − q̂), as after a token-wise rejection.
    TokenWiseResidual,
    /// pᵢ is the product of the ratios, which may exceed 1.
    Uncapped,
    /// The round ends at the first draft that fails, not after the last that passes.
    FirstRejection,
}

/// Outcome of rounds: committed tokens with their probabilities, and the mean number of accepted drafts.
struct Outcome {
    committed: Vec<(Vec<u32>, f64)>,
    accepted: f64,
}

/// π of the rule at a position: p under the exact rule.
fn pi(position: &Position, rule: &Rule) -> Vec<f64> {
    let fate = position.fate(rule);
    fate.accepted.iter().zip(fate.replaced).map(|(accepted, replaced)| accepted + replaced).collect()
}

/// The drafts of a round: γ, and one more under rules without a bonus token.
fn drafts(texts: &Texts) -> usize {
    texts.draft_length + usize::from(!texts.rule.info().has_bonus)
}

/// All outcomes of a round after the prompt, by the paper's algorithm.
fn enumerated(texts: &Texts, planted: Planted) -> Outcome {
    let gamma = drafts(texts);
    let mut outcome = Outcome { committed: Vec::new(), accepted: 0.0 };
    for path in 0..V.pow(gamma as u32) {
        let ids: Vec<u32> = (0..gamma as u32).map(|place| path / V.pow(place) % V).collect();
        let at = |i: usize| texts.position(&[&PROMPT[..], &ids[..i]].concat());
        let positions: Vec<(Vec<f64>, Vec<f64>)> = (0..=gamma)
            .map(|i| {
                let position = at(i);
                (position.q.clone(), pi(&position, &texts.rule))
            })
            .collect();
        let drafted: f64 = ids.iter().zip(&positions).map(|(&id, (q, _))| q[id as usize]).product();
        if drafted == 0.0 {
            continue;
        }
        let (mut kept, mut passes) = (vec![1.0], Vec::new());
        for (i, &id) in ids.iter().enumerate() {
            let (q, pi) = &positions[i];
            let ratio = kept[i] * pi[id as usize] / q[id as usize];
            kept.push(if planted == Planted::Uncapped { ratio } else { f64::min(1.0, ratio) });
        }
        let residual = |i: usize, scale: f64| -> Vec<f64> {
            let (q, pi) = &positions[i];
            q.iter().zip(pi).map(|(q, pi)| (scale * pi - q).max(0.0)).collect()
        };
        for (i, &kept) in kept.iter().enumerate().skip(1) {
            let excess: f64 = if i < gamma { residual(i, kept).iter().sum() } else { 0.0 };
            let certain = i < gamma && excess + 1.0 - kept <= 1e-12;
            let h = if i == gamma { kept } else { excess / (excess + 1.0 - kept) };
            passes.push(if certain { 1.0 } else { h.clamp(0.0, 1.0) });
        }
        for tau in 0..=gamma {
            // passes[i − 1] is hᵢ.
            let last = |h: &f64| 1.0 - h;
            let chance: f64 = if planted == Planted::FirstRejection {
                passes[..tau].iter().product::<f64>() * passes.get(tau).map_or(1.0, last)
            } else {
                tau.checked_sub(1).map_or(1.0, |i| passes[i]) * passes[tau..].iter().map(last).product::<f64>()
            };
            let mass = drafted * chance;
            outcome.accepted += mass * tau as f64;
            let scale = if planted == Planted::TokenWiseResidual { 1.0 } else { kept[tau] };
            let mut next = if tau < gamma { residual(tau, scale) } else { positions[gamma].1.clone() };
            if next.iter().sum::<f64>() <= 1e-12 {
                next.clone_from(&positions[tau].1);
            }
            let sum: f64 = next.iter().sum();
            if tau == gamma && !texts.rule.info().has_bonus {
                outcome.committed.push((ids.clone(), mass));
            } else if mass > 0.0 {
                let grown = (0..V).map(|id| [&ids[..tau], &[id]].concat());
                outcome.committed.extend(grown.zip(next).map(|(tokens, weight)| (tokens, mass * weight / sum)));
            }
        }
    }
    outcome
}

/// Index of the tokens that a round commits in its histogram: the shorter ones first.
fn index(tokens: &[u32]) -> usize {
    let shorter: usize = (1..tokens.len()).map(|length| (V as usize).pow(length as u32)).sum();
    shorter + cell(tokens, V)
}

/// The number of [indices](index) of rounds that commit up to γ + 1 tokens.
fn cells(texts: &Texts) -> usize {
    (1..=texts.draft_length + 1).map(|length| (V as usize).pow(length as u32)).sum()
}

/// The distribution of the committed tokens by [`index`].
fn of_rounds(texts: &Texts, outcome: &Outcome) -> Vec<f64> {
    let mut distribution = vec![0.0; cells(texts)];
    outcome.committed.iter().for_each(|(tokens, mass)| distribution[index(tokens)] += mass);
    distribution
}

/// The distribution of texts of γ + 1 tokens, the rest of which follows π.
fn of_texts(texts: &Texts, mut open: Vec<(Vec<u32>, f64)>) -> Vec<f64> {
    let length = texts.draft_length + 1;
    let mut distribution = vec![0.0; (V as usize).pow(length as u32)];
    while let Some((tokens, mass)) = open.pop() {
        if tokens.len() == length {
            distribution[cell(&tokens, V)] += mass;
            continue;
        }
        let next = pi(&texts.position(&[&PROMPT[..], &tokens].concat()), &texts.rule);
        open.extend((0..V).zip(next).map(|(id, p)| ([&tokens[..], &[id]].concat(), mass * p)));
    }
    distribution
}

fn speculation(texts: &Texts, verification: Verification) -> Speculation {
    Speculation { verification, ..texts.speculation() }
}

/// Counts of the tokens that the first rounds of sessions commit, by [`index`].
fn committed(texts: &Texts, verification: Verification) -> Vec<u32> {
    let (mut pair, mut counts) = (texts.connect(), vec![0; cells(texts)]);
    let mode = Mode::Speculative(speculation(texts, verification));
    let max_new_tokens = texts.draft_length as u32 + 1;
    let mut settings = Settings { mode, sampling: texts.sampling, seed: 0, max_new_tokens };
    for seed in 0..samples(counts.len()).into() {
        settings.seed = seed;
        let run = pair.generate(&PROMPT, &settings);
        let first: Vec<u32> = run.committed[0].tokens.iter().map(|token| token.0).collect();
        counts[index(&first)] += 1;
    }
    counts
}

/// Mean number of committed tokens.
fn mean_length(counts: &[u32]) -> f64 {
    let (mut sum, mut start, mut length) = (0.0, 0, 1);
    while start < counts.len() {
        let end = start + (V as usize).pow(length);
        sum += f64::from(length) * f64::from(counts[start..end].iter().sum::<u32>());
        (start, length) = (end, length + 1);
    }
    sum / f64::from(counts.iter().sum::<u32>())
}

const K_SQS: SchemeParameters =
    SchemeParameters::KSqs { support_size: 2, lattice_resolution: 20, code: Code::Enumerative };

/// Texts of rounds of three drafts.
fn long(scheme: SchemeParameters) -> Texts {
    Texts { draft_length: 3, ..Texts::of_three(scheme, NEUTRAL) }
}

/// A planted error is off the target's distribution under each scheme, and samples catch it under one at least.
#[test]
fn a_block_has_the_targets_distribution_and_planted_errors_do_not() {
    const ERRORS: [Planted; 3] = [Planted::TokenWiseResidual, Planted::Uncapped, Planted::FirstRejection];
    let mut caught = Vec::new();
    for scheme in [SchemeParameters::Dense, K_SQS] {
        let texts = long(scheme);
        let target = texts.target.distribution(&PROMPT, texts.draft_length + 1, &texts.sampling);
        let right = enumerated(&texts, Planted::Nothing);
        let text = of_texts(&texts, right.committed.clone());
        assert!(text.iter().zip(&target).all(|(text, target)| (text - target).abs() < 1e-12), "{scheme:?}");
        let distribution = of_rounds(&texts, &right);
        for planted in ERRORS {
            let wrong = enumerated(&texts, planted);
            let off = distance(&of_texts(&texts, wrong.committed.clone()), &target);
            assert!(off > 1e-3, "{planted:?} {scheme:?}: {off}");
            let (wrong, mut randomness) = (of_rounds(&texts, &wrong), Randomness::new(1, End::Cloud));
            if distance(&wrong, &distribution) > error() {
                let mut counts = vec![0; wrong.len()];
                (0..samples(wrong.len())).for_each(|_| counts[randomness.draw(&wrong) as usize] += 1);
                assert_caught(&counts, &distribution, (planted, scheme));
                caught.push(planted);
            }
        }
    }
    assert!(ERRORS.iter().all(|planted| caught.contains(planted)), "{caught:?}");
}

/// Rounds of sessions against the enumeration: the distribution, and E\[τ\], which is above the token-wise one.
#[test]
fn rounds_commit_what_the_paper_enumerates() {
    for scheme in [SchemeParameters::Dense, K_SQS, SchemeParameters::TkSlt { support_size: 2 }] {
        let texts = long(scheme);
        let outcome = enumerated(&texts, Planted::Nothing);
        let counts = committed(&texts, Verification::Block);
        assert_follows(&counts, &of_rounds(&texts, &outcome), scheme);
        let [block, token] = [counts, committed(&texts, Verification::Token)].map(|counts| mean_length(&counts) - 1.0);
        // τ is at most 3, so its standard deviation is at most 1.5.
        let margin = 4.0 * 1.5 / f64::from(samples(cells(&texts))).sqrt();
        assert!((block - outcome.accepted).abs() < margin, "{scheme:?}: {block} instead of {}", outcome.accepted);
        assert!(outcome.accepted > token + margin, "{scheme:?}: {} and {token}", outcome.accepted);
    }
}

/// Every rule with a ratio has its own π in place of p; the others are judged token by token.
#[test]
fn rules_keep_their_distributions() {
    for info in Rule::all() {
        let dense = ["bild", "bild-star"].contains(&info.name);
        let scheme = if dense { SchemeParameters::Dense } else { SPARSE };
        let (texts, distribution) = farthest(info.name, SHARPENED, scheme);
        if info.has_ratio {
            let outcome = enumerated(&texts, Planted::Nothing);
            let text = of_texts(&texts, outcome.committed.clone());
            assert!(distance(&text, &of_texts(&texts, vec![(Vec::new(), 1.0)])) < 1e-6, "{}", info.name);
            assert_follows(&committed(&texts, Verification::Block), &of_rounds(&texts, &outcome), info.name);
        } else {
            let mode = Mode::Speculative(speculation(&texts, Verification::Block));
            assert_follows(&texts.of_sessions(mode, &mut texts.connect(), |_| {}), &distribution, info.name);
        }
    }
}

/// Several rounds in flight, a budget that ends rounds early, evidence, and a threshold that moves.
#[test]
fn sessions_are_exact_however_rounds_end() {
    let c_sqs = SchemeParameters::CSqs { lattice_resolution: 12, code: Code::Adaptive };
    for scheme in [SchemeParameters::Dense, K_SQS, c_sqs] {
        let texts = Texts { length: 4, ..Texts::of_three(scheme, NEUTRAL) };
        let block = speculation(&texts, Verification::Block);
        let in_flight = Speculation { max_in_flight: 3, ..block.clone() };
        let budget = if scheme == SchemeParameters::Dense { 120 } else { 20 };
        let cut = Speculation { bit_budget: Some(budget), draft_length: 3, explain: true, ..block };
        for speculation in [in_flight, cut] {
            let mode = Mode::Speculative(speculation);
            let counts = texts.of_sessions(mode.clone(), &mut texts.connect(), |_| {});
            assert_follows(&counts, &texts.of_target(), mode);
        }
    }
}
