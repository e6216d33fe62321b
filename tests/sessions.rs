//! Both ends together on a virtual clock: identity at temperature 0, bits on the wire, time on the link.

use core::time::Duration;

use outrider_codec::{
    enumerative::subset_bits,
    frame::{Finish, Frame, SamplingParameters, SchemeParameters},
};
use outrider_speculation::edge::{EndReason, Mode, Origin, Settings, StartError};
use outrider_tests::{in_process::InProcess, toy::ToyModel};
use proptest::prelude::*;

const GREEDY: SamplingParameters = SamplingParameters { temperature: 0.0, top_k: 0, top_p: 1.0 };

fn speculative(k: u32, resolution: u32, draft_length: u32) -> Mode {
    let scheme = SchemeParameters::KSqs { support_size: k, lattice_resolution: resolution };
    Mode::Speculative { scheme, draft_length, bit_budget: None }
}

fn settings(mode: Mode, temperature: f32, max_new_tokens: u32) -> Settings {
    Settings { mode, sampling: SamplingParameters { temperature, ..GREEDY }, seed: 3, max_new_tokens }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn greedy_text_is_the_targets_own(
        seed in any::<u64>(), difference in 0.0f64..2.0, k in 1u32..8, resolution in 1u32..200, draft_length in 1u32..9,
        budget in prop::option::of(0u32..200), length in 1u32..40, prompt in prop::collection::vec(0u32..23, 1..20), eos in prop::option::of(0u32..23),
    ) {
        let target = ToyModel::target(23, seed);
        let eos: Vec<u32> = eos.into_iter().collect();
        let mut pair = InProcess::connect(target.draft(difference), target.clone(), 48, &eos);
        let mut settings = settings(speculative(k, resolution, draft_length), 0.0, length);
        if let Mode::Speculative { bit_budget, .. } = &mut settings.mode {
            *bit_budget = budget;
        }
        let room = 48 - prompt.len();
        let expected = target.greedy(&prompt, room.min(length as usize), &eos);
        // Twice over one connection: the second generation starts from caches that the first has filled.
        for _ in 0..2 {
            let run = pair.generate(&prompt, &settings);
            prop_assert_eq!(&run.tokens, &expected);
            let end = if expected.last().is_some_and(|id| eos.contains(id)) { Finish::Eos }
                else if expected.len() == length as usize { Finish::Length }
                else { Finish::Context };
            prop_assert_eq!(run.end, Some(EndReason::Finish(end)));
            let statistics = pair.edge.statistics();
            prop_assert_eq!(statistics.tokens, expected.len());
            prop_assert_eq!(statistics.rounds, statistics.server_passes);
            let accepted = run.committed.iter().flat_map(|c| &c.tokens).filter(|t| t.1 == Origin::Accepted).count();
            prop_assert_eq!(statistics.accepted, accepted);
        }
        settings.mode = Mode::CloudOnly;
        prop_assert_eq!(pair.generate(&prompt, &settings).tokens, expected);
    }
}

/// A draft costs what the papers say, ⌈log2 C(V,K)⌉ + ⌈log2 C(ℓ+K−1,K−1)⌉ + ⌈log2 K⌉ bits, and a frame 4 bytes more
/// (5 and 6 for generations and rounds from 128 on), filled up to whole bytes.
#[test]
fn bits_on_the_wire_are_the_papers() {
    for (v, k, resolution) in [(23, 4, 10), (300, 8, 100), (300, 1, 5), (4096, 32, 100)] {
        let target = ToyModel::target(v, 1);
        let mut pair = InProcess::connect(target.draft(0.5), target, 512, &[]);
        pair.keep_frames = true;
        let run = pair.generate(&[0], &settings(speculative(k, resolution, 4), 1.0, 300));
        let token_bits =
            subset_bits(v, k) + subset_bits(resolution + k - 1, k - 1) + (f64::from(k)).log2().ceil() as u32;
        let mut drafts = 0;
        for (by_edge, frame) in &pair.frames {
            if let Frame::Draft(draft) = frame {
                assert!(by_edge);
                let payload = usize::from(draft.count) * token_bits as usize;
                assert_eq!(draft.payload.len(), payload.div_ceil(8));
                let header = if draft.round < 128 { 4 } else { 5 };
                assert_eq!(frame.encode().len(), header + payload.div_ceil(8));
                let record = run.committed[draft.round as usize].round.as_ref().unwrap();
                assert_eq!((record.payload_bits, record.uplink_bits), (payload, frame.encode().len() * 8));
                drafts += usize::from(draft.count);
            }
        }
        assert_eq!(drafts, pair.edge.statistics().drafted);
        assert_eq!(pair.edge.statistics().payload_bits, drafts * token_bits as usize);
    }
}

#[test]
fn a_budget_ends_the_round_before_it_is_exceeded() {
    let target = ToyModel::target(300, 1);
    let mut pair = InProcess::connect(target.draft(0.0), target, 512, &[]);
    let mut settings = settings(speculative(8, 100, 16), 1.0, 100);
    // 51 + 35 + 3 = 89 bits a token (57 for the support).
    let token_bits = subset_bits(300, 8) + subset_bits(107, 7) + 3;
    for (budget, expected) in [(token_bits - 1, 0), (token_bits, 1), (3 * token_bits - 1, 2), (3 * token_bits, 3)] {
        if let Mode::Speculative { bit_budget, .. } = &mut settings.mode {
            *bit_budget = Some(budget);
        }
        let run = pair.generate(&[0], &settings);
        let most = run.committed.iter().map(|c| c.round.as_ref().unwrap().drafted.len()).max();
        assert_eq!(most, Some(expected));
    }
}

/// A round takes its bits over the rates plus both delays; a draft that equals the target takes γ + 1 tokens a round.
#[test]
fn the_link_takes_the_time_it_should() {
    let target = ToyModel::target(300, 1);
    let mut pair = InProcess::connect(target.draft(0.0), target, 512, &[]);
    pair.uplink.configure(Some(10_000.0), Duration::from_millis(40));
    pair.downlink.configure(Some(20_000.0), Duration::from_millis(60));
    let run = pair.generate(&[0], &settings(speculative(1, 1, 4), 0.0, 50));
    for committed in &run.committed {
        let record = committed.round.as_ref().unwrap();
        let expected = record.uplink_bits as f64 / 10.0 + record.downlink_bits as f64 / 20.0 + 100.0;
        assert!((record.round_trip_ms - expected).abs() < 0.01, "{} for {expected}", record.round_trip_ms);
        assert_eq!(record.accepted, record.drafted.len());
    }
    assert_eq!(run.committed.len(), 10);
    assert_eq!(pair.edge.statistics().server_passes_per_token(), 0.2);
    assert_eq!(pair.target_passes(), 10);
}

#[test]
fn settings_out_of_range_are_refused_before_anything_is_sent() {
    let target = ToyModel::target(23, 1);
    let mut pair = InProcess::connect(target.draft(0.0), target, 16, &[]);
    let good = settings(speculative(2, 10, 2), 1.0, 5);
    let mut refuse = |prompt: &[u32], change: &dyn Fn(&mut Settings)| {
        let mut bad = good.clone();
        change(&mut bad);
        let error = pair.edge.start(prompt.to_vec(), &bad, Duration::ZERO).unwrap_err();
        assert_eq!(pair.edge.poll(Duration::ZERO), Ok(None));
        error
    };
    assert_eq!(refuse(&[], &|_| {}), StartError::EmptyPrompt);
    assert_eq!(refuse(&[0; 16], &|_| {}), StartError::PromptTooLong { tokens: 16, limit: 15 });
    assert!(matches!(refuse(&[0], &|s| s.mode = speculative(0, 10, 2)), StartError::Scheme(_)));
    assert!(matches!(refuse(&[0], &|s| s.mode = speculative(24, 10, 2)), StartError::Scheme(_)));
    assert!(matches!(refuse(&[0], &|s| s.mode = speculative(2, 0, 2)), StartError::Scheme(_)));
    for change in [
        (|s: &mut Settings| s.mode = speculative(2, 10, 0)) as fn(&mut Settings),
        |s| s.sampling.temperature = -0.5,
        |s| s.sampling.temperature = f32::NAN,
        |s| s.sampling.top_p = 0.0,
        |s| s.max_new_tokens = 0,
    ] {
        assert!(matches!(refuse(&[0], &change), StartError::Setting { .. }));
    }
    assert_eq!(pair.generate(&[0], &good).tokens.len(), 5);
    pair.edge.start(vec![0], &good, Duration::ZERO).unwrap();
    assert_eq!(pair.edge.start(vec![0], &good, Duration::ZERO), Err(StartError::NotIdle));
}
