//! TK-SLT (Zheng & Yang, "Communication-Efficient Collaborative LLM Inference via Distributed Speculative Decoding"):
//! how much speculation gains, how long to draft (ODLD), and whether to draft at all (AS²).
//!
//! A round drafts γ tokens, each at a cost of L passes of the target, and verifies them in one more. A draft is
//! accepted with probability α, independently of the others; the first that is rejected ends the round. So against one
//! token a pass
//!
//! ```text
//! S_inf(γ) = (1 + α + … + α^γ) / (1 + γL)                                                 (eqs 11, 12)
//! ```
//!
//! The numerator is concave in γ and the denominator linear, so S_inf rises to one maximum and falls after it. Its
//! derivative vanishes at γ₀ (eq. 21). With v = −W₋₁(−α^(1/L−1)/e), the logarithm of the definition of W says
//! v − ln v = 1 − (1/L − 1)·ln α, which takes 1/L out of the paper's form and with it all cancellation:
//!
//! ```text
//! γ₀ = (W₋₁(−α^(1/L−1)/e) + 1)/ln α − 1/L = −ln v / ln α − 1
//! ```
//!
//! Errata. "b ≈ 0.07 and c ≈ 0.23" (§VI-B) are swapped: Table II is L = 0.07 + 0.23·K/32000. Table I marks with a star
//! where S_inf < 1; where α = L, S_inf(1) = (1 + α)/(1 + L) is exactly 1, yet the table stars (0.6, 0.6) and not
//! (0.4, 0.4): in double precision eq. 11 as written gives 0.9999999999999998 and 1. AS² uses the target alone in both.

use lambert_w::lambert_wm1;

/// L: what drafting and sending one token costs, in passes of the target (eqs 5, 6; Table II).
///
/// `draft_cost` is c = T_SLM/T_LLM. `transmission_cost` is b = T_V/T_LLM for the whole distribution, of which the K
/// most likely of V ≥ 1 tokens are sent (0 < K ≤ V); like the paper, this leaves out the bits that name them.
pub fn cost_ratio(draft_cost: f64, transmission_cost: f64, support_size: u32, vocabulary_size: u32) -> f64 {
    draft_cost + transmission_cost * f64::from(support_size) / f64::from(vocabulary_size.max(1))
}

/// Expected tokens of a round, (1 − α^(γ+1))/(1 − α) (eq. 12; Leviathan et al. 2023): the accepted ones and the one
/// that follows. From 1 (α = 0 or γ = 0) to γ + 1 (α = 1).
pub fn tokens_per_round(acceptance_rate: f64, draft_length: u32) -> f64 {
    1.0 + acceptance_rate * geometric_sum(acceptance_rate, draft_length)
}

/// S_inf(γ): tokens per unit of time, as a multiple of the target alone (Theorem 1, eq. 11).
///
/// 1 at γ = 0. At α = 0 it is 1/(1 + γL), at α = 1 (γ + 1)/(1 + γL); at L = 0 the tokens of a round.
pub fn speedup(acceptance_rate: f64, cost_ratio: f64, draft_length: u32) -> f64 {
    tokens_per_round(acceptance_rate, draft_length) / (1.0 + f64::from(draft_length) * cost_ratio)
}

/// γ₀: the real number at which S_inf is largest (Theorem 2, eq. 21); below 0 if drafting only costs.
///
/// The edges are limits. α → 0: −1. α → 1 with L < 1, or L → 0: infinity, as every further draft gains. L ≥ 1 lies
/// outside of the theorem; there the first draft costs a pass or more, so S_inf ≤ 1 everywhere: −1.
pub fn stationary_draft_length(acceptance_rate: f64, cost_ratio: f64) -> f64 {
    if acceptance_rate <= 0.0 || cost_ratio >= 1.0 {
        return -1.0;
    }
    if acceptance_rate >= 1.0 || cost_ratio <= 0.0 {
        return f64::INFINITY;
    }
    let decay = -acceptance_rate.ln();
    log_lambert((1.0 - cost_ratio) / cost_ratio * decay) / decay - 1.0
}

/// ln v with v = −W₋₁(−e^(−1−u)), so that v − ln v = 1 + u, for u ≥ 0; relative error below 10⁻⁸.
fn log_lambert(u: f64) -> f64 {
    if u < 1e-6 {
        // The argument of W is −1/e to within rounding. There v = 1 + s + s²/3 + s³/36 − … with s = √(2u).
        let s = (2.0 * u).sqrt();
        s - s.powi(2) / 6.0 + s.powi(3) / 36.0
    } else if u < 700.0 {
        (-lambert_wm1(-(-1.0 - u).exp())).ln()
    } else {
        // The argument of W is too small for a double; v = 1 + u + ln v contracts by 1/v a step.
        (0..6).fold(1.0 + u, |v, _| 1.0 + u + v.ln()).ln()
    }
}

/// γ*: the draft length that S_inf is largest at (ODLD, Algorithm 1), from 1 to `longest` ≥ 1.
///
/// 1 if γ₀ < 1, else the better of ⌊γ₀⌋ and ⌈γ₀⌉, the longer if they are equally good. `longest` where γ₀ is beyond it:
/// S_inf rises until there.
pub fn optimal_draft_length(acceptance_rate: f64, cost_ratio: f64, longest: u32) -> u32 {
    let stationary = stationary_draft_length(acceptance_rate, cost_ratio);
    if stationary < 1.0 {
        return 1;
    }
    if stationary >= f64::from(longest) {
        return longest.max(1);
    }
    let floor = stationary as u32;
    let speedup = |draft_length| speedup(acceptance_rate, cost_ratio, draft_length);
    if speedup(floor) <= speedup(floor + 1) { floor + 1 } else { floor }
}

/// True if drafting pays at all: S_inf(γ*) > 1 (AS², Algorithm 2).
///
/// That is α > L, for any bound on the draft length, and so it is computed: S_inf(0) = 1, and S_inf has one maximum. If
/// S_inf(1) = (1 + α)/(1 + L) ≤ 1 it falls from there; if not, S_inf(γ*) ≥ S_inf(1) > 1. Comparing S_inf itself would
/// leave ties to rounding.
pub fn speculates(acceptance_rate: f64, cost_ratio: f64) -> bool {
    acceptance_rate > cost_ratio
}

/// Σ of ratio^k for k from 0 to `terms` − 1, that is (1 − ratio^terms)/(1 − ratio); `terms` at ratio 1.
pub fn geometric_sum(ratio: f64, terms: u32) -> f64 {
    if terms == 0 || ratio == 1.0 {
        return f64::from(terms);
    }
    // exp_m1 keeps the digits that 1 − ratio^terms loses near ratio 1.
    -(f64::from(terms) * ratio.ln()).exp_m1() / (1.0 - ratio)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    /// Longer than any draft in these tests.
    const ANY: u32 = u32::MAX;

    #[test]
    fn table_1_to_the_printed_digits() {
        // γ*, and whether the paper stars it: S_inf < 1.
        let table = [
            (0.4, [(4, false), (2, false), (1, false), (1, false), (1, true)]),
            (0.6, [(7, false), (3, false), (2, false), (1, false), (1, true)]),
            (0.8, [(14, false), (6, false), (4, false), (2, false), (1, false)]),
        ];
        for (acceptance_rate, row) in table {
            for (cost_ratio, (draft_length, starred)) in [0.01, 0.1, 0.2, 0.4, 0.6].into_iter().zip(row) {
                assert_eq!(optimal_draft_length(acceptance_rate, cost_ratio, ANY), draft_length);
                if acceptance_rate == cost_ratio {
                    // See the errata: S_inf is 1, and the stars of these two cells are rounding.
                    assert!((speedup(acceptance_rate, cost_ratio, 1) - 1.0).abs() < 1e-15);
                    assert!(!speculates(acceptance_rate, cost_ratio));
                } else {
                    assert_eq!(speculates(acceptance_rate, cost_ratio), !starred, "{acceptance_rate} {cost_ratio}");
                }
            }
        }
    }

    #[test]
    fn table_2_to_the_printed_digits() {
        let printed = [3, 32, 320, 3200, 32000].map(|k| cost_ratio(0.07, 0.23, k, 32000));
        assert_eq!(printed[..3].iter().map(|l| format!("{l:.4}")).collect::<Vec<_>>(), ["0.0700", "0.0702", "0.0723"]);
        assert_eq!(printed[3..].iter().map(|l| format!("{l:.3}")).collect::<Vec<_>>(), ["0.093", "0.300"]);
    }

    /// Table II's γ* come from acceptance rates that only Figure 3 shows. They are what ODLD gives for rates that fall
    /// with K at T = 0 and rise with it at T = 1, as the text says of that figure.
    #[test]
    fn table_2_s_draft_lengths_agree_with_the_trend_of_figure_3() {
        let lengths = |acceptance_rates: [f64; 5]| {
            let costs = [3, 32, 320, 3200, 32000].map(|k| cost_ratio(0.07, 0.23, k, 32000));
            let each = costs.into_iter().zip(acceptance_rates);
            each.map(|(cost, rate)| optimal_draft_length(rate, cost, ANY)).collect::<Vec<_>>()
        };
        assert_eq!(lengths([0.50, 0.45, 0.40, 0.30, 0.25]), [3, 2, 2, 1, 1]);
        assert_eq!(lengths([0.35, 0.38, 0.40, 0.42, 0.45]), [2, 2, 2, 2, 1]);
    }

    #[test]
    fn edges_are_limits() {
        assert_eq!((tokens_per_round(0.0, 5), tokens_per_round(1.0, 5), tokens_per_round(0.5, 0)), (1.0, 6.0, 1.0));
        assert_eq!((speedup(0.0, 0.5, 2), speedup(1.0, 0.5, 2), speedup(0.5, 0.0, 1)), (0.5, 1.5, 1.5));
        for (acceptance_rate, cost_ratio, draft_length) in [
            (0.0, 0.0, 1),
            (0.0, 0.5, 1),
            (1.0, 0.5, 16),
            (1.0, 0.0, 16),
            (0.5, 0.0, 16),
            (1.0, 1.0, 1),
            (0.9, 2.0, 1),
            (f64::MIN_POSITIVE, 0.5, 1),
            (0.5, f64::MIN_POSITIVE, 16),
            (1.0 - f64::EPSILON, 0.5, 16),
            (1.0 - f64::EPSILON, 1.0 - f64::EPSILON, 1),
        ] {
            assert_eq!(optimal_draft_length(acceptance_rate, cost_ratio, 16), draft_length);
        }
        assert_eq!(optimal_draft_length(0.9, 0.1, 1), 1);
        assert_eq!(optimal_draft_length(1.0, 0.1, 0), 1);
    }

    /// Rates and costs of every size, the edges included.
    fn unit() -> impl Strategy<Value = f64> {
        prop_oneof![Just(0.0), Just(1.0), 0.0f64..1.0, (0.0f64..300.0).prop_map(|e| 10f64.powf(-e)), 1.0 - 1e-12..1.0]
    }

    proptest! {
        #[test]
        fn the_geometric_sum_is_the_sum(
            ratio in prop_oneof![Just(0.0), Just(1.0), 0.0f64..1.0, 1.0 - 1e-9..1.0], terms in 0u32..200,
        ) {
            let sum: f64 = (0..terms).map(|k| ratio.powf(f64::from(k))).sum();
            prop_assert!((geometric_sum(ratio, terms) - sum).abs() <= 1e-11 * sum);
        }

        /// Below γ₀ = 1 as well: the paper's rule then takes the smallest length, and S_inf falls from there.
        #[test]
        fn no_draft_length_is_better_than_odld_s(acceptance_rate in unit(), cost_ratio in unit()) {
            let chosen = optimal_draft_length(acceptance_rate, cost_ratio, 200);
            let best = (1..=200).map(|length| speedup(acceptance_rate, cost_ratio, length)).fold(0.0, f64::max);
            let gained = speedup(acceptance_rate, cost_ratio, chosen);
            prop_assert!(gained >= best * (1.0 - 1e-12), "{} at {}, {} is possible", gained, chosen, best);
        }

        #[test]
        fn the_stationary_length_is_the_paper_s(acceptance_rate in 0.01f64..0.99, cost_ratio in 0.02f64..0.98) {
            let argument = -acceptance_rate.powf(1.0 / cost_ratio - 1.0) / std::f64::consts::E;
            let printed = (lambert_wm1(argument) + 1.0) / acceptance_rate.ln() - 1.0 / cost_ratio;
            let ours = stationary_draft_length(acceptance_rate, cost_ratio);
            prop_assert!((ours - printed).abs() < 1e-6 * (1.0 + ours.abs()), "{} {}", ours, printed);
        }

        #[test]
        fn the_derivative_vanishes_there(acceptance_rate in 0.05f64..0.95, exponent in 0.05f64..12.0) {
            let cost = 10f64.powf(-exponent);
            let length = stationary_draft_length(acceptance_rate, cost);
            // Equation 24, divided by L.
            let power = acceptance_rate.powf(length + 1.0);
            let rest = -power * acceptance_rate.ln() * (1.0 / cost + length) - (1.0 - power);
            prop_assert!(rest.abs() < 1e-9, "{}", rest);
        }

        #[test]
        fn as2_speculates_where_the_speedup_is_above_one(
            acceptance_rate in unit(), cost_ratio in unit(), longest in 1u32..50,
        ) {
            let draft_length = optimal_draft_length(acceptance_rate, cost_ratio, longest);
            let gained = speedup(acceptance_rate, cost_ratio, draft_length);
            let tie = (gained - 1.0).abs() < 1e-12;
            prop_assert!(tie || speculates(acceptance_rate, cost_ratio) == (gained > 1.0));
        }

        #[test]
        fn tokens_per_round_are_their_mean(acceptance_rate in unit(), draft_length in 0u32..30) {
            // k drafts are accepted and the next is rejected, or all are accepted; each gives k + 1 tokens.
            let accepted = |k: u32| acceptance_rate.powf(f64::from(k));
            let round = |k: u32| f64::from(k + 1) * accepted(k) * (1.0 - acceptance_rate);
            let rejected: f64 = (0..draft_length).map(round).sum();
            let expected = rejected + f64::from(draft_length + 1) * accepted(draft_length);
            prop_assert!((tokens_per_round(acceptance_rate, draft_length) - expected).abs() < 1e-9);
        }
    }
}
