//! `outrider generate --explain`: what the papers' closed forms predict of a generation, beside what was measured.
//!
//! The acceptance rate is predicted from the distributions that the drafts were judged by. What a round gives and gains
//! follows from that rate, as TK-SLT has it; its closed forms take every draft to be accepted with the same
//! probability, whatever became of the one before.

mod ahead;

use core::time::Duration;

use outrider_codec::scheme::Sends;
use outrider_models::HeadsFile;
use outrider_speculation::{
    draft::Gate,
    judge::Rule,
    session::edge::Speculation,
    study::{Explanation, RoundRecord, Statistics},
};
use serde::Serialize;

use crate::theory::{sprinter::GateRates, tk_slt::tokens_per_round};

pub use ahead::ExplainedAhead;

/// Quantities that are compared; `None` where the closed form does not cover such a generation.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explained {
    acceptance_rate: Option<Acceptance>,
    tokens_per_round: Option<Compared>,
    speedup: Option<Speedup>,
    resampling_rate: Option<Resampling>,
    passed_per_round: Option<Passed>,
    /// Mean TV between the distribution of a judged token and the target's; `None` where the exact rule makes it 0.
    divergence: Option<f64>,
}

#[derive(Debug, Serialize)]
struct Compared {
    predicted: f64,
    measured: f64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Acceptance {
    /// 1 − the mean probability of rejection.
    predicted: f64,
    /// Standard deviation of the measured rate around it.
    deviation: f64,
    measured: f64,
    /// 1 − mean TV(q, p): the acceptance rate of the exact rule if q were sent without loss.
    unquantized: Option<f64>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Speedup {
    /// S_inf, over rounds of the lengths that they had; `None` if the target wrote too little alone, or if it or the
    /// edge wrote tokens between rounds.
    predicted: Option<f64>,
    /// Tokens per second, as a multiple of the target's alone.
    measured: f64,
    costs: Option<Costs>,
}

/// Cost of a draft, in passes of the target.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Costs {
    /// Cost of drafting, c.
    drafting: f64,
    /// Transmission cost b: time added to the round trip and to the target's pass.
    transmission: f64,
}

/// Tokens that were resampled, per round.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Resampling {
    predicted: f64,
    measured: f64,
    /// Bound over the judged drafts by the terms of SQS's Theorem 1, which sums them over the tokens of the text. Under
    /// the exact rule, and where drafts do not share noise with the target.
    bound: Option<Bound>,
}

/// Tokens that SPRINTER's gate passes before the first that it does not.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Passed {
    /// E\[N\] of Theorem 3.3 rises with r, how many tokens in a row are acceptable, or falls, depending on the gate.
    /// Passed tokens are not judged, so r is not known: this is the expectation at r = 0.
    without_acceptable: f64,
    /// The expectation as r grows without bound.
    all_acceptable: f64,
    measured: f64,
}

#[derive(Debug, Serialize)]
struct Bound {
    total: f64,
    /// Σ TV(q, p) per round.
    discrepancy: f64,
    /// Σ (α_n + K_n/4ℓ) per round.
    distortion: f64,
}

/// Rates of the trained gate that passes tokens; `None` without one, or at another threshold than that of its training.
pub fn gate_rates(speculation: &Speculation, heads: Option<&HeadsFile>) -> Option<GateRates> {
    let metadata = &heads?.metadata;
    match speculation.gate {
        Gate::Sprinter { threshold } if threshold.is_none_or(|threshold| threshold == metadata.tau) => {
            Some(GateRates { true_positive: metadata.eta_tp, false_positive: metadata.eta_fp })
        }
        _ => None,
    }
}

/// Standard deviation of the measured acceptance rate around the predicted one.
fn deviation(explanation: &Explanation) -> f64 {
    explanation.variance.sqrt() / explanation.judged as f64
}

impl Explained {
    /// Compares a generation with its prediction and with the target's own, `alone`. `gate` is known if a trained gate
    /// passes tokens.
    pub fn new(
        speculation: &Speculation,
        gate: Option<GateRates>,
        statistics: &Statistics,
        rounds: &[RoundRecord],
        alone: &Statistics,
    ) -> Self {
        let (rule, measured, target) = (&speculation.rule, statistics.report(), alone.report());
        let explanation = statistics.explanation.as_ref().filter(|explanation| explanation.judged > 0);
        let rate = measured.predicted_acceptance_rate;
        let is_exact = *rule == Rule::EXACT;
        // None follows a continued round.
        let has_bonus = rule.info().has_bonus && speculation.max_in_flight == 1;
        // Coupled drafts are rejected more often than TV says.
        let is_coupled = speculation.scheme.sends() == Sends::Ids;
        let drafts: Vec<f64> = rounds.iter().map(|round| round.drafted.len() as f64).collect();
        let per_round = rate.filter(|_| !drafts.is_empty()).map(|rate| {
            rounds.iter().map(|round| expected_tokens(has_bonus, rate, round.drafted.len())).sum::<f64>()
                / drafts.len() as f64
        });
        // Rounds that are in flight together share their times.
        let only_drafts = statistics.passed + statistics.streamed == 0 && speculation.max_in_flight == 1;
        let costs = Costs::of(rounds, alone).filter(|_| only_drafts);
        let length = drafts.iter().sum::<f64>() / drafts.len().max(1) as f64;
        let speedup = |(tokens, costs): (f64, Costs)| tokens / (1.0 + length * costs.ratio());
        Self {
            acceptance_rate: explanation.zip(rate).map(|(explanation, predicted)| Acceptance {
                predicted,
                deviation: deviation(explanation),
                measured: measured.acceptance_rate,
                unquantized: is_exact.then(|| 1.0 - explanation.bound.discrepancy / explanation.judged as f64),
            }),
            tokens_per_round: per_round.map(|predicted| Compared { predicted, measured: measured.tokens_per_round }),
            speedup: (target.tokens_per_second > 0.0).then(|| Speedup {
                predicted: per_round.zip(costs).map(speedup),
                measured: measured.tokens_per_second / target.tokens_per_second,
                costs,
            }),
            resampling_rate: explanation.filter(|_| statistics.rounds > 0).map(|explanation| {
                let per_round = |sum: f64| sum / statistics.rounds as f64;
                let bound = &explanation.bound;
                Resampling {
                    predicted: per_round(explanation.rejections),
                    measured: per_round(statistics.resampled as f64),
                    bound: (is_exact && !is_coupled).then(|| Bound {
                        total: per_round(bound.discrepancy + bound.distortion),
                        discrepancy: per_round(bound.discrepancy),
                        distortion: per_round(bound.distortion),
                    }),
                }
            }),
            passed_per_round: gate.filter(|_| statistics.rounds > 0).map(|gate| Passed {
                without_acceptable: gate.expected_passed(0),
                all_acceptable: gate.expected_passed(u32::MAX),
                measured: statistics.passed as f64 / statistics.rounds as f64,
            }),
            divergence: measured.divergence.filter(|_| !is_exact),
        }
    }

    /// The comparison as a table in plain text.
    pub fn text(&self) -> String {
        let mut rows = vec![["", "predicted", "measured", ""].map(str::to_owned)];
        let mut row = |name: &str, predicted: String, measured: String, note: String| {
            rows.push([name.to_owned(), predicted, measured, note]);
        };
        if let Some(rate) = &self.acceptance_rate {
            let predicted = format!("{:.3} ± {:.3}", rate.predicted, rate.deviation);
            row("acceptance rate", predicted, format!("{:.3}", rate.measured), String::new());
            if let Some(best) = rate.unquantized {
                let note = "1 - mean TV(q, p)".to_owned();
                row("  if nothing were lost", format!("{best:.3}"), "-".to_owned(), note);
            }
        }
        if let Some(tokens) = &self.tokens_per_round {
            let note = "from the acceptance rate".to_owned();
            row("tokens per round", format!("{:.2}", tokens.predicted), format!("{:.2}", tokens.measured), note);
        }
        if let Some(Speedup { predicted, measured, costs }) = &self.speedup {
            let note = costs.map(|Costs { drafting, transmission }| {
                format!("S_inf at c = {drafting:.2}, b = {transmission:.2} passes of the target")
            });
            let predicted = predicted.map_or("-".to_owned(), |predicted| format!("{predicted:.2}"));
            row("speed-up over the target alone", predicted, format!("{measured:.2}"), note.unwrap_or_default());
        }
        if let Some(Resampling { predicted, measured, bound }) = &self.resampling_rate {
            row("resampled per round", format!("{predicted:.3}"), format!("{measured:.3}"), String::new());
            if let Some(Bound { total, discrepancy, distortion }) = bound {
                let note = format!(
                    "over judged drafts (Theorem 1: over tokens): TV(q, p) {discrepancy:.3}, alpha_n + K_n/4l \
                     {distortion:.3}"
                );
                row("  at most", format!("{total:.3}"), "-".to_owned(), note);
            }
        }
        if let Some(Passed { without_acceptable, all_acceptable, measured }) = &self.passed_per_round {
            let predicted = format!("{without_acceptable:.2} to {all_acceptable:.2}");
            let note =
                "E[N], Theorem 3.3 at r = 0 and without end; the gate's rates are those of its training".to_owned();
            row("passed before a round", predicted, format!("{measured:.2}"), note);
        }
        if let Some(divergence) = self.divergence {
            let note = "mean TV between the distribution of a verified token and the target's".to_owned();
            row("divergence from the target", format!("{divergence:.3}"), "-".to_owned(), note);
        }
        if self.acceptance_rate.is_none() {
            row("acceptance rate", "-".to_owned(), "-".to_owned(), "no draft was verified".to_owned());
        }
        let line = |[name, predicted, measured, note]: &[String; 4]| {
            format!("{}\n", format!("{name:<30} {predicted:<15} {measured:<10} {note}").trim_end())
        };
        rows.iter().map(line).collect()
    }
}

impl Costs {
    /// Measures the costs of all rounds but the first, in which both models read the prompt; `None` if there are none,
    /// or if the pace of the target is not known.
    fn of(rounds: &[RoundRecord], alone: &Statistics) -> Option<Self> {
        let pass = pass_time(alone)?.as_secs_f64() * 1e3;
        let rounds = rounds.get(1..)?;
        let drafted = rounds.iter().map(|round| round.drafted.len()).sum::<usize>() as f64;
        let unit = drafted * pass;
        (unit > 0.0).then(|| Self {
            drafting: rounds.iter().map(|round| round.draft_ms).sum::<f64>() / unit,
            transmission: rounds.iter().map(|round| round.round_trip_ms - pass).sum::<f64>().max(0.0) / unit,
        })
    }

    /// Cost ratio L = b + c.
    fn ratio(&self) -> f64 {
        self.drafting + self.transmission
    }
}

/// Time of a pass of the target, from a text that it wrote alone. The first token is left out: it includes the prompt.
fn pass_time(alone: &Statistics) -> Option<Duration> {
    let further = u32::try_from(alone.tokens.checked_sub(1)?).ok().filter(|&further| further > 0)?;
    Some(alone.elapsed.saturating_sub(alone.first_token) / further).filter(|time| !time.is_zero())
}

/// Expected tokens of a round of `drafts` drafts. Without a bonus token there is one less where all are
/// accepted: the last draft is then in the bonus token's place.
fn expected_tokens(has_bonus: bool, acceptance_rate: f64, drafts: usize) -> f64 {
    let length = if has_bonus { drafts } else { drafts.saturating_sub(1) };
    tokens_per_round(acceptance_rate, u32::try_from(length).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use outrider_speculation::theory::RejectionBound;

    use super::*;
    use crate::theory::tk_slt;
    use outrider_codec::scheme::SchemeParameters;

    fn round(number: u32, drafts: usize) -> RoundRecord {
        RoundRecord {
            round: number,
            drafted: vec![7; drafts],
            accepted: 0,
            token: Some(7),
            payload_bits: 0,
            uplink_bits: 0,
            downlink_bits: 0,
            // The first reads the prompt.
            draft_ms: drafts as f64 + if number == 0 { 100.0 } else { 0.0 },
            round_trip_ms: 10.0 + 2.0 * drafts as f64 + if number == 0 { 1000.0 } else { 0.0 },
            threshold: None,
            other_bits: BTreeMap::new(),
        }
    }

    /// Two in ten rejected, six rounds, c = 0.1 and b = 0.2 by construction.
    fn run(drafts: usize) -> (Statistics, Vec<RoundRecord>, Statistics) {
        let explanation = Explanation {
            judged: 20,
            rejections: 4.0,
            variance: 3.2,
            divergence: 1.0,
            bound: RejectionBound { discrepancy: 3.0, distortion: 3.0 },
        };
        let statistics = Statistics {
            tokens: 18,
            rounds: 6,
            judged: 20,
            accepted: 15,
            resampled: 5,
            elapsed: Duration::from_millis(90),
            explanation: Some(explanation),
            ..Statistics::default()
        };
        let alone = Statistics {
            tokens: 11,
            first_token: Duration::from_millis(50),
            elapsed: Duration::from_millis(150),
            ..Statistics::default()
        };
        (statistics, (0..6).map(|number| round(number, drafts)).collect(), alone)
    }

    fn exact() -> Speculation {
        Speculation::new(SchemeParameters::Dense, 4)
    }

    #[test]
    fn rounds_of_one_length_have_the_papers_speedup() {
        for drafts in [1, 4] {
            let (statistics, rounds, alone) = run(drafts);
            let explained = Explained::new(&exact(), None, &statistics, &rounds, &alone);
            let speedup = explained.speedup.unwrap();
            let costs = speedup.costs.unwrap();
            assert!((costs.drafting - 0.1).abs() < 1e-9 && (costs.transmission - 0.2).abs() < 1e-9, "{costs:?}");
            let expected = tk_slt::speedup(0.8, 0.3, drafts as u32);
            assert!((speedup.predicted.unwrap() - expected).abs() < 1e-9);
            // 200 tokens per second against 11 in 150 ms.
            assert!((speedup.measured - 200.0 / (11.0 / 0.15)).abs() < 1e-9);
        }
    }

    #[test]
    fn a_rule_without_a_bonus_gives_one_token_less() {
        let (statistics, rounds, alone) = run(4);
        let predicted = |rule: Rule| {
            let explained = Explained::new(&Speculation { rule, ..exact() }, None, &statistics, &rounds, &alone);
            (explained.tokens_per_round.unwrap().predicted, explained.divergence)
        };
        let lossy = Rule::new("lossy", 0.3).unwrap();
        assert!((predicted(Rule::EXACT).0 - 3.3616).abs() < 1e-9);
        assert_eq!(predicted(Rule::EXACT).1, None);
        assert!((predicted(lossy).0 - 2.952).abs() < 1e-9);
        assert_eq!(predicted(lossy).1, Some(0.05));
        assert_eq!(expected_tokens(false, 0.8, 0), 1.0);
    }

    #[test]
    fn theorem_1_is_the_exact_rule_s_alone() {
        let (statistics, rounds, alone) = run(4);
        let explained = Explained::new(&exact(), None, &statistics, &rounds, &alone);
        let rate = explained.acceptance_rate.unwrap();
        assert_eq!((rate.predicted, rate.measured, rate.unquantized), (0.8, 0.75, Some(0.85)));
        let resampling = explained.resampling_rate.unwrap();
        assert_eq!(resampling.bound.unwrap().total, 1.0);
        // Theorem 1's sum is over the tokens of the text (eq. 3), this one over the drafts that were judged.
        let text = Explained::new(&exact(), None, &statistics, &rounds, &alone).text();
        assert!(text.contains("over judged drafts"), "{text}");
        let coupled = Speculation::new(SchemeParameters::Coupled, 4);
        let coupled = Explained::new(&coupled, None, &statistics, &rounds, &alone);
        assert!(coupled.resampling_rate.unwrap().bound.is_none() && coupled.acceptance_rate.is_some());
        let bild = Speculation { rule: Rule::new("bild", 3.0).unwrap(), ..exact() };
        let bild = Explained::new(&bild, None, &statistics, &rounds, &alone);
        assert!(bild.resampling_rate.unwrap().bound.is_none() && bild.acceptance_rate.unwrap().unquantized.is_none());
    }

    #[test]
    fn what_cannot_be_predicted_is_left_out() {
        let (statistics, rounds, alone) = run(4);
        let passed = Statistics { passed: 3, ..statistics.clone() };
        assert!(Explained::new(&exact(), None, &passed, &rounds, &alone).speedup.unwrap().predicted.is_none());
        let one = Statistics { tokens: 1, ..alone };
        assert!(Explained::new(&exact(), None, &statistics, &rounds, &one).speedup.unwrap().predicted.is_none());
        let nothing = Explained::new(&exact(), None, &Statistics::default(), &[], &Statistics::default());
        assert!(nothing.acceptance_rate.is_none() && nothing.speedup.is_none());
        assert!(nothing.text().contains("no draft was verified"));
    }

    /// r = 0 leaves η_FP/(1 − η_FP), endless r η_TP/(1 − η_TP).
    #[test]
    fn a_gate_passes_between_its_two_geometric_means() {
        let (statistics, rounds, alone) = run(1);
        let gate = GateRates { true_positive: 0.8, false_positive: 0.5 };
        let statistics = Statistics { passed: 12, ..statistics };
        let explained = Explained::new(&exact(), Some(gate), &statistics, &rounds, &alone);
        assert!(explained.text().contains("1.00 to 4.00    2.00"), "{}", explained.text());
        let passed = explained.passed_per_round.unwrap();
        assert!((passed.without_acceptable - 1.0).abs() < 1e-9 && (passed.all_acceptable - 4.0).abs() < 1e-9);
    }
}
