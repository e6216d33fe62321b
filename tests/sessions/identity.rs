//! Both ends together on a virtual clock: identity at temperature 0, bits on the wire, time on the link.

use core::time::Duration;

use outrider_codec::{
    enumerative::subset_bits,
    frame::{Finish, Frame, Next},
    scheme::{Code, Downlink, Scheme, SchemeParameters},
};
use outrider_speculation::{
    control::stop::StopRule,
    draft::{ThresholdParameters, propose},
    judge::Rule,
    sample::Distribution,
    session::edge::{EndReason, Mode, Origin, Settings, Speculation, StartError},
};
use outrider_tests::{in_process::InProcess, samplings::at, schemes, toy::ToyModel};
use proptest::prelude::*;

fn speculative(k: u32, resolution: u32, draft_length: u32) -> Mode {
    Mode::Speculative(k_sqs(k, resolution, draft_length))
}

fn k_sqs(k: u32, resolution: u32, draft_length: u32) -> Speculation {
    let scheme = SchemeParameters::KSqs { support_size: k, lattice_resolution: resolution, code: Code::Enumerative };
    Speculation::new(scheme, draft_length)
}

fn settings(mode: Mode, temperature: f32, max_new_tokens: u32) -> Settings {
    Settings { mode, sampling: at(temperature), seed: 3, max_new_tokens }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// Under every scheme, with one round to eight in flight over links of every delay.
    #[test]
    fn greedy_text_is_the_targets_own(
        seed in any::<u64>(), difference in 0.0f64..2.0, scheme in 0..schemes::count(), k in 1u32..8,
        resolution in 1u32..200, draft_length in 1u32..9,
        budget in prop::option::of(0u32..200), length in 1u32..40, prompt in prop::collection::vec(0u32..23, 1..20),
        eos in prop::option::of(0u32..23), (max_in_flight, times) in (1u8..=8, prop::array::uniform4(0u64..6)),
    ) {
        let target = ToyModel::target(23, seed);
        let eos: Vec<u32> = eos.into_iter().collect();
        let mut pair = InProcess::connect(target.draft(difference), target.clone(), 48, &eos);
        let [draft_time, pass_time, up, down] = times.map(Duration::from_millis);
        (pair.draft_time, pair.pass_time) = (draft_time, pass_time);
        pair.uplink.configure(None, up);
        pair.downlink.configure(None, down);
        let speculation = Speculation::new(schemes::every(k, resolution)[scheme], draft_length);
        let speculation = Speculation { bit_budget: budget, max_in_flight, ..speculation };
        let mut settings = settings(Mode::Speculative(speculation), 0.0, length);
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
            prop_assert!(max_in_flight > 1 || statistics.wasted == 0);
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

/// The other schemes' formulas, through a session: PAPERS' eqs for the lattice, 16 bits a probability elsewhere.
#[test]
fn every_scheme_costs_its_formula() {
    let (v, k, l) = (300u32, 8u32, 100u32);
    let log2 = |n: u32| f64::from(n).log2().ceil() as u32;
    let composition = |k: u32| subset_bits(l + k - 1, k - 1);
    let formulas = [
        (SchemeParameters::Dense, 16 * v + log2(v)),
        (SchemeParameters::Qs { lattice_resolution: l, code: Code::Enumerative }, composition(v) + log2(v)),
        (SchemeParameters::TkSlt { support_size: k }, k * (log2(v) + 16) + log2(k)),
        (SchemeParameters::Dssd { downlink: Downlink::Full }, log2(v) + 16 + 25),
        (SchemeParameters::Coupled, log2(v)),
    ];
    for (scheme, bits) in formulas {
        let target = ToyModel::target(v, 1);
        let mut pair = InProcess::connect(target.draft(0.5), target, 512, &[]);
        let run = pair.generate(&[0], &settings(Mode::Speculative(Speculation::new(scheme, 4)), 1.0, 200));
        for committed in &run.committed {
            let record = committed.round.as_ref().unwrap();
            assert_eq!(record.payload_bits, record.drafted.len() * bits as usize, "{scheme:?}");
        }
    }
    // C-SQS: ⌈log2 V⌉ more than K-SQS of the K that the threshold gives.
    let scheme = SchemeParameters::CSqs { lattice_resolution: l, code: Code::Enumerative };
    let target = ToyModel::target(v, 1);
    let draft = target.draft(0.5);
    let mut pair = InProcess::connect(draft.clone(), target, 512, &[]);
    let threshold = ThresholdParameters { target: 0.02, step: 0.01, initial: 0.004 };
    let mode = Mode::Speculative(Speculation { threshold, ..Speculation::new(scheme, 1) });
    let run = pair.generate(&[0], &settings(mode, 1.0, 100));
    let mut text = vec![0];
    let mut beta = threshold.initial;
    let coded = Scheme::new(scheme, v).unwrap();
    for committed in &run.committed {
        let record = committed.round.as_ref().unwrap();
        let row = draft.logits(&text);
        let q = Distribution::new(&row, &at(1.0)).unwrap();
        let k = propose(&q, scheme, &coded, beta).unwrap().support_size;
        let expected = log2(v) + subset_bits(v, k) + composition(k) + log2(k);
        assert_eq!(record.payload_bits, record.drafted.len() * expected as usize);
        text.extend(committed.tokens.iter().map(|token| token.0));
        // One draft a round: rejected, its update is the committed token's; accepted, the bonus token's follows.
        beta = record.threshold.unwrap();
        if record.accepted == 1 {
            let q = &text[..text.len() - 1];
            let row = draft.logits(q);
            let q = Distribution::new(&row, &at(1.0)).unwrap();
            beta = beta - threshold.step * (propose(&q, scheme, &coded, beta).unwrap().dropped_mass - threshold.target);
        }
    }
}

/// Under DSSD the edge resamples, says so with its next drafts, and sees where the text ends; the more samples come
/// down, the fewer distributions are asked for.
#[test]
fn dssd_asks_less_the_more_samples_it_gets() {
    let target = ToyModel::target(50, 3);
    let run = |downlink| {
        let mut pair = InProcess::connect(target.draft(1.0), target.clone(), 512, &[9]);
        pair.keep_frames = true;
        let scheme = SchemeParameters::Dssd { downlink };
        let mode = Mode::Speculative(Speculation::new(scheme, 4));
        let mut follow_ups = (0, 0);
        for seed in 0..20 {
            let settings = Settings { seed, ..settings(mode.clone(), 1.0, 60) };
            let run = pair.generate(&[7], &settings);
            let last = run.tokens.last().unwrap();
            let end = if *last == 9 { Finish::Eos } else { Finish::Length };
            assert_eq!(run.end, Some(EndReason::Finish(end)));
            let statistics = pair.edge.statistics();
            let resampled = run.committed.iter().flat_map(|c| &c.tokens).filter(|t| t.1 == Origin::Resampled).count();
            assert_eq!(statistics.resampled, resampled);
            follow_ups = (follow_ups.0 + statistics.follow_ups, follow_ups.1 + resampled);
        }
        // The token of each rejection travels up with the next round, or the generation is over.
        let mut due = false;
        for (_, frame) in &pair.frames {
            match frame {
                Frame::Draft(draft) => assert_eq!(draft.resampled.is_some(), std::mem::take(&mut due)),
                Frame::Verdict(verdict) => due = matches!(verdict.next, Next::Samples(_) | Next::Distribution(_)),
                Frame::Cancel { .. } => assert!(std::mem::take(&mut due)),
                _ => {}
            }
        }
        follow_ups
    };
    let shares = [Downlink::Full, Downlink::Sampled(1), Downlink::Sampled(4), Downlink::Sampled(16)].map(|downlink| {
        let (follow_ups, resampled) = run(downlink);
        follow_ups as f64 / resampled as f64
    });
    assert_eq!(shares[0], 0.0);
    assert!(shares[1] > 1.5 * shares[2] && shares[2] > 1.5 * shares[3], "{shares:?}");
}

/// At T → 0 the draft model leaves no doubt, and AdaEDL's bound on the acceptance of what is drawn from it is 1: it
/// ends no round. The entropy before S(·), of half a nat or more at each of these tokens, would end all of them.
#[test]
fn adaedl_goes_by_the_distribution_that_drafts_are_drawn_from() {
    let target = ToyModel::target(23, 5);
    let draft = target.draft(0.0);
    let mut prefix = vec![1];
    for _ in 0..12 {
        let own = outrider_speculation::sample::transform(&draft.logits(&prefix), &at(1.0)).unwrap();
        let entropy: f64 = own.iter().filter(|q| **q > 0.0).map(|q| -q * q.ln()).sum();
        assert!(entropy > 0.5, "{entropy} after {prefix:?}");
        prefix.push(draft.greedy(&prefix, 1, &[])[0]);
    }
    let mut pair = InProcess::connect(draft, target, 64, &[]);
    let stop = StopRule::AdaEdl { scale: 0.2, threshold: 0.7 };
    let speculation = Speculation { stop, ..Speculation::new(SchemeParameters::Dense, 6) };
    let run = pair.generate(&[1], &settings(Mode::Speculative(speculation), 0.01, 12));
    let drafted = run.committed[0].round.as_ref().unwrap().drafted.len();
    assert!(drafted > 3, "{drafted}");
}

#[test]
fn a_budget_ends_the_round_before_it_is_exceeded() {
    let target = ToyModel::target(300, 1);
    let mut pair = InProcess::connect(target.draft(0.0), target, 512, &[]);
    let mut settings = settings(speculative(8, 100, 16), 1.0, 100);
    // 51 + 35 + 3 = 89 bits a token (57 for the support).
    let token_bits = subset_bits(300, 8) + subset_bits(107, 7) + 3;
    for (budget, expected) in [(token_bits - 1, 0), (token_bits, 1), (3 * token_bits - 1, 2), (3 * token_bits, 3)] {
        settings.mode = Mode::Speculative(Speculation { bit_budget: Some(budget), ..k_sqs(8, 100, 16) });
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
    // The first round waits until the prompt is sent.
    for committed in &run.committed[1..] {
        let record = committed.round.as_ref().unwrap();
        let expected = record.uplink_bits as f64 / 10.0 + record.downlink_bits as f64 / 20.0 + 100.0;
        assert!((record.round_trip_ms - expected).abs() < 0.01, "{} for {expected}", record.round_trip_ms);
        assert_eq!(record.accepted, record.drafted.len());
    }
    assert_eq!(run.committed.len(), 10);
    assert_eq!(pair.edge.statistics().report().server_passes_per_token, 0.2);
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

/// No combination of rule, stop rule and mode comes to a halt: each round moves the text on, or the next one does.
#[test]
fn every_rule_ends_under_every_stop_rule() {
    let target = ToyModel::target(9, 4);
    let mut pair = InProcess::connect(target.draft(1.0), target, 80, &[]);
    let stops = [
        StopRule::Fixed,
        StopRule::Odld,
        StopRule::AdaEdl { scale: 0.2, threshold: 0.5 },
        StopRule::Bild { fallback: 0.7 },
        StopRule::Bild { fallback: 0.0 },
    ];
    for info in Rule::all() {
        for (stop, adaptive_mode) in stops.into_iter().flat_map(|stop| [(stop, false), (stop, true)]) {
            let rule = Rule::new(info.name, info.default).unwrap();
            let needs_all = ["bild", "bild-star"].contains(&info.name);
            let plain = if needs_all { Speculation::new(SchemeParameters::Dense, 3) } else { k_sqs(3, 20, 3) };
            let speculation = Speculation { stop, adaptive_mode, rule, ..plain };
            let run = pair.generate(&[1], &settings(Mode::Speculative(speculation), 0.7, 60));
            assert_eq!(run.tokens.len(), 60, "{} {stop:?}", info.name);
        }
    }
}
