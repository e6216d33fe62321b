//! The exactness contract: whatever is drafted, sparsified, quantized and sent, the text is distributed as the
//! target's own samples. Each distribution is in closed form; how small an error is seen is in
//! [`goodness`](outrider_tests::goodness). `planted.rs` shows that errors are caught.

use outrider_codec::{
    distribution::DraftDist,
    frame::SamplingParameters,
    scheme::{Code, Downlink, SchemeParameters},
};
use outrider_speculation::{
    draft::{self, Proposal},
    sample::{End, Randomness},
    session::edge::{Mode, Speculation},
};
use outrider_tests::{
    goodness::{self, ERRORS, Fit, assert_caught, assert_follows, samples, samples_for},
    samplings::at,
    texts::{RESTLESS, Texts},
};

const ENUMERATIVE: Code = Code::Enumerative;

fn assert_exact(sampling: SamplingParameters, speculation: Speculation) {
    assert_target(sampling, Mode::Speculative(Speculation { threshold: RESTLESS, ..speculation }));
}

fn assert_target(sampling: SamplingParameters, mode: Mode) {
    let texts = Texts::of_four(SchemeParameters::Dense, sampling);
    let mut pair = texts.connect();
    assert_follows(&texts.of_sessions(mode.clone(), &mut pair, |_| {}), &texts.of_target(), mode);
}

/// Every scheme with a fixed draft length at temperature 1, and under a budget that ends rounds early at 0.7.
macro_rules! exact {
    ($($name:ident: $scheme:expr, $budget:literal;)+) => {$(
        mod $name {
            use super::*;

            #[test]
            fn is_exact_with_a_fixed_draft_length() {
                assert_exact(at(1.0), Speculation::new($scheme, 2));
            }

            #[test]
            fn is_exact_under_a_bit_budget() {
                assert_exact(at(0.7), Speculation { bit_budget: Some($budget), ..Speculation::new($scheme, 5) });
            }
        }
    )+};
}

// The budgets have room for one token or two, of those that cost the same: over four tokens 66, 11, 10, 37, 43 and 2
// bits.
exact! {
    dense: SchemeParameters::Dense, 140;
    qs: SchemeParameters::Qs { lattice_resolution: 12, code: ENUMERATIVE }, 25;
    qs_adaptive: SchemeParameters::Qs { lattice_resolution: 12, code: Code::Adaptive }, 20;
    k_sqs: SchemeParameters::KSqs { support_size: 2, lattice_resolution: 20, code: ENUMERATIVE }, 20;
    k_sqs_adaptive: SchemeParameters::KSqs { support_size: 2, lattice_resolution: 20, code: Code::Adaptive }, 20;
    c_sqs: SchemeParameters::CSqs { lattice_resolution: 12, code: ENUMERATIVE }, 20;
    c_sqs_adaptive: SchemeParameters::CSqs { lattice_resolution: 12, code: Code::Adaptive }, 20;
    tk_slt: SchemeParameters::TkSlt { support_size: 2 }, 80;
    dssd_full: SchemeParameters::Dssd { downlink: Downlink::Full }, 90;
    dssd_sampled: SchemeParameters::Dssd { downlink: Downlink::Sampled(2) }, 90;
    coupled: SchemeParameters::Coupled, 5;
}

#[test]
fn k_sqs_is_exact_with_one_candidate_and_with_truncated_sampling() {
    let scheme = SchemeParameters::KSqs { support_size: 1, lattice_resolution: 1, code: ENUMERATIVE };
    assert_exact(SamplingParameters { temperature: 1.0, top_k: 3, top_p: 0.9 }, Speculation::new(scheme, 3));
}

#[test]
fn cloud_only_is_the_target() {
    assert_target(at(0.7), Mode::CloudOnly);
}

/// The yardstick itself, at both sizes: the right distribution is never rejected, one that is wrong by the error that
/// is to be seen nearly always.
#[test]
fn an_error_of_the_size_that_is_to_be_seen_is_caught() {
    const TIMES: usize = 20;
    let right = Texts::of_four(SchemeParameters::Dense, at(1.0)).of_target();
    let half = right.len() / 2;
    let (first, second) = (right[..half].iter().sum::<f64>(), right[half..].iter().sum::<f64>());
    let mut randomness = Randomness::new(1, End::Cloud);
    for error in ERRORS {
        // Spread over all cells in proportion: the error that χ² sees worst.
        let scale = |cell| if cell < half { 1.0 + error / first } else { 1.0 - error / second };
        let wrong: Vec<f64> = right.iter().enumerate().map(|(cell, p)| p * scale(cell)).collect();
        let mut missed = 0;
        for _ in 0..TIMES {
            let mut counts = vec![0; right.len()];
            for _ in 0..samples_for(right.len(), error) {
                counts[randomness.draw(&right) as usize] += 1;
            }
            assert_follows(&counts, &right, "the right distribution");
            missed += usize::from(Fit::new(&counts, &wrong).is_good());
        }
        assert!(missed <= 1, "{missed} of {TIMES} errors of {error} were missed");
    }
}

#[test]
fn sample_sizes_are_what_the_formula_gives() {
    // 64 cells have 63 degrees of freedom and the threshold 131.4: λ = 153 is the first with 63 + λ − 3.09 √(2 (63 +
    // 2λ)) above it.
    assert_eq!([0.02, 0.01].map(|error| samples_for(64, error)), [95_625, 382_500]);
    assert!(samples_for(27, 0.01) < samples_for(81, 0.01));
}

#[test]
fn a_distribution_is_what_its_counts_say() {
    let dist = DraftDist::new(vec![0, 3], vec![1, 4]).unwrap();
    let proposal = Proposal { dist, support_size: 2, dropped_mass: 0.0 };
    let mut randomness = Randomness::new(2, End::Edge);
    let mut counts = [0; 4];
    for _ in 0..samples(4) {
        counts[draft::draw(proposal.clone(), &mut randomness).id as usize] += 1;
    }
    let error = goodness::error();
    assert_follows(&counts, &[0.2, 0.0, 0.0, 0.8], "drawn from counts");
    assert_caught(&counts, &[0.2 + error, 0.0, 0.0, 0.8 - error], "another distribution");
}
