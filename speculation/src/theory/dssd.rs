//! DSSD (Ning et al., "DSSD: Efficient Edge-Device LLM Deployment and Collaborative Inference via Distributed Split
//! Speculative Decoding"): how long a round is on the link.
//!
//! Every time is in one unit, whichever the caller likes. `distribution` is the time that one distribution takes,
//! |V|·b/R; `overhead` is T_NTT: propagation, processing and queues of one round trip.

/// 1 − α^γ: the probability that a round has a rejection (§3.1, Table 1). 0 at γ = 0 and at α = 1; 1 at α = 0, γ ≥ 1.
pub fn rejection_probability(acceptance_rate: f64, draft_length: u32) -> f64 {
    1.0 - acceptance_rate.powf(f64::from(draft_length))
}

/// T_comm of DSSD, (1 − α^γ)·|V|b/R_down + T_NTT (eq. 9): the target's distribution comes down after a rejection only.
///
/// From T_NTT to |V|b/R_down + T_NTT (Corollary 3.1); it grows with γ and falls with α.
pub fn communication_time(acceptance_rate: f64, draft_length: u32, distribution: f64, overhead: f64) -> f64 {
    rejection_probability(acceptance_rate, draft_length) * distribution + overhead
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    #[test]
    fn table_1_to_the_printed_digits() {
        // The paper does not say |V|b/R and T_NTT. 8 ms (50000 tokens of 16 bits at 100 Mbit/s) and 20 ms give every
        // cell.
        let table = [
            (2, ["0.75 26.00", "0.64 25.12", "0.51 24.08", "0.36 22.88", "0.19 21.52", "0.02 20.16"]),
            (4, ["0.94 27.50", "0.87 26.96", "0.76 26.08", "0.59 24.72", "0.34 22.75", "0.04 20.32"]),
            (6, ["0.98 27.88", "0.95 27.63", "0.88 27.06", "0.74 25.90", "0.47 23.75", "0.06 20.47"]),
            (8, ["1.00 27.97", "0.98 27.87", "0.94 27.54", "0.83 26.66", "0.57 24.56", "0.08 20.62"]),
        ];
        for (draft_length, row) in table {
            let cells = [0.5, 0.6, 0.7, 0.8, 0.9, 0.99].map(|acceptance_rate| {
                let time = communication_time(acceptance_rate, draft_length, 8.0, 20.0);
                format!("{:.2} {time:.2}", rejection_probability(acceptance_rate, draft_length))
            });
            assert_eq!(cells, row);
        }
    }

    #[test]
    fn edges_are_limits() {
        assert_eq!((communication_time(1.0, 8, 8.0, 20.0), communication_time(0.0, 8, 8.0, 20.0)), (20.0, 28.0));
        assert_eq!(communication_time(0.0, 0, 8.0, 20.0), 20.0);
    }

    proptest! {
        #[test]
        fn the_time_grows_with_the_length_and_falls_with_the_rate(
            rates in (0.0f64..=1.0, 0.0f64..=1.0), lengths in (0u32..100, 0u32..100),
            distribution in 0.0f64..1e3, overhead in 0.0f64..1e3,
        ) {
            let (low, high) = (rates.0.min(rates.1), rates.0.max(rates.1));
            let (short, long) = (lengths.0.min(lengths.1), lengths.0.max(lengths.1));
            let time = |rate, length| communication_time(rate, length, distribution, overhead);
            prop_assert!(time(low, short) <= time(low, long));
            prop_assert!(time(low, short) >= time(high, short));
            prop_assert!((overhead..=overhead + distribution).contains(&time(low, short)));
        }
    }
}
