//! Tokens that the edge commits without asking: what they do to the distribution of a text, under every scheme; where
//! texts end; and that nothing of a sequence cascade is shown before it is decided.

use half::f16;
use outrider_codec::{
    frame::{Finish, Frame, SamplingParameters},
    scheme::{Code, SchemeParameters},
};
use outrider_speculation::{
    draft::{Confidence, Gate, Head, Heads, ThresholdParameters},
    judge::Rule,
    sample,
    session::edge::{EndReason, Mode, Origin, Settings, Speculation},
};
use outrider_tests::{
    goodness::{assert_follows, distance},
    in_process::{InProcess, Run},
    samplings::{GREEDY, NEUTRAL, SHARPENED},
    schemes,
    texts::{PROMPT, RESTLESS, Texts},
    toy::ToyModel,
};
use proptest::prelude::*;

const TAU: f64 = 0.5;

fn texts(scheme: SchemeParameters, rule: Rule, sampling: SamplingParameters, draft_length: usize) -> Texts {
    Texts { rule, draft_length, ..Texts::of_three(scheme, sampling) }
}

/// A gate made by hand: passes about half of the hidden states.
fn heads() -> Heads {
    Heads { gate: Some(Head::new(vec![-1.0, 0.5], 0.1, Vec::new()).unwrap()), stop: None, threshold: TAU }
}

fn gate(draft: &ToyModel, prefix: &[u32]) -> bool {
    let hidden = draft.hidden(prefix);
    0.5 * hidden[1] - hidden[0] + 0.1 >= 0.0
}

/// Chow's rule: max q ≥ 1 − α of the draft model's own distribution, in f16 as it would travel.
fn is_sure(draft: &ToyModel, alpha: f64, prefix: &[u32]) -> bool {
    let q = sample::transform(&draft.logits(prefix), &NEUTRAL).unwrap();
    f16::from_f64(q.into_iter().fold(0.0, f64::max)).to_f64() >= 1.0 - alpha
}

fn pair(texts: &Texts, context_length: u32, eos: &[u32]) -> InProcess {
    InProcess::connect_with(texts.draft.clone(), texts.target.clone(), context_length, eos, Some(heads()))
}

fn mode(texts: &Texts, gate: Gate) -> Mode {
    Mode::Speculative(Speculation { gate, ..texts.speculation() })
}

fn settings(texts: &Texts, gate: Gate, seed: u64, length: u32) -> Settings {
    Settings { mode: mode(texts, gate), sampling: texts.sampling, seed, max_new_tokens: length }
}

/// Counts of the texts under a gate. With C-SQS the gate may depend on the threshold, which a session carries on, so
/// each text has a session to itself.
fn counts(texts: &Texts, gate: Gate) -> Vec<u32> {
    let fresh = |session: &mut InProcess| {
        if texts.scheme.has_threshold() {
            *session = pair(texts, 64, &[]);
        }
    };
    texts.of_sessions(mode(texts, gate), &mut pair(texts, 64, &[]), fresh)
}

/// Asserts that unverified tokens are distributed as q and all others as the target, whatever is drafted after them.
fn assert_sprinter(scheme: SchemeParameters) {
    for draft_length in [1, 2] {
        let texts = texts(scheme, Rule::EXACT, NEUTRAL, draft_length);
        let distribution = texts.distribution(&|prefix, _| gate(&texts.draft, prefix));
        let (p, q) = (texts.ungated(), texts.distribution(&|_, _| true));
        assert!(distance(&distribution, &p) > 0.05 && distance(&distribution, &q) > 0.05, "the gate says something");
        let other = Texts { draft_length: 3 - draft_length, ..texts.clone() };
        let other = other.distribution(&|prefix, _| gate(&texts.draft, prefix));
        assert!(distance(&distribution, &other) > 0.02, "and is not asked behind a draft");
        let counts = counts(&texts, Gate::Sprinter { threshold: Some(TAU) });
        assert_follows(&counts, &distribution, format!("{scheme:?}, γ = {draft_length}"));
    }
}

macro_rules! sprinter {
    ($($name:ident: $index:literal;)+) => {$(
        #[test]
        fn $name() {
            assert_sprinter(schemes::every(2, 12)[$index]);
        }
    )+};
}

sprinter! {
    sprinter_over_dense: 0;
    sprinter_over_qs: 1;
    sprinter_over_qs_adaptive: 2;
    sprinter_over_k_sqs: 3;
    sprinter_over_k_sqs_adaptive: 4;
    sprinter_over_c_sqs: 5;
    sprinter_over_c_sqs_adaptive: 6;
    sprinter_over_tk_slt: 7;
    sprinter_over_dssd_full: 8;
    sprinter_over_dssd_sampled: 9;
    sprinter_over_coupled: 10;
}

/// Weights of a gate that sees the token: for ln q(x), H(q) and max q.
const SEEN: [f32; 3] = [1.0, 0.4, -1.0];
const SEEING_BIAS: f32 = 1.3;

/// Returns true if that gate passes a token drawn after a prefix from S(q).
fn gate_that_sees(texts: &Texts, prefix: &[u32], id: u32) -> bool {
    let hidden = texts.draft.hidden(prefix);
    let q = sample::transform(&texts.draft.logits(prefix), &texts.sampling).unwrap();
    let entropy: f64 = q.iter().filter(|q| **q > 0.0).map(|q| -q * q.ln()).sum();
    let peak = q.iter().copied().fold(0.0, f64::max);
    let seen = [q[id as usize].ln(), entropy, peak];
    let score: f64 = seen.iter().zip(SEEN).map(|(number, weight)| number * f64::from(weight)).sum();
    score + f64::from(0.5 * hidden[1] - hidden[0] + SEEING_BIAS) >= 0.0
}

/// A gate may see the token (Zhong et al., §3.2): a token that it passes follows q, one that it doubts is judged as a
/// draft from q̂, cut and rounded or not.
#[test]
fn sprinter_that_sees_the_token() {
    for (scheme, sampling, name) in [0, 1, 3, 5, 7, 8, 9]
        .map(|scheme| (scheme, NEUTRAL, "exact"))
        .into_iter()
        .chain([(3, SHARPENED, "lossy"), (0, SHARPENED, "exact")])
    {
        for draft_length in [1, 2] {
            let rule = Rule::new(name, if name == "exact" { 0.0 } else { 0.3 }).unwrap();
            let texts = Texts {
                threshold: ThresholdParameters { step: 1e-9, ..RESTLESS },
                ..texts(schemes::every(2, 12)[scheme], rule, sampling, draft_length)
            };
            let distribution = texts.distribution(&|prefix, id| gate_that_sees(&texts, prefix, id));
            let (p, q) = (texts.ungated(), texts.distribution(&|_, _| true));
            assert!(
                distance(&distribution, &p) > 0.02 && distance(&distribution, &q) > 0.05,
                "the gate says something"
            );
            let gate = Head::new(vec![-1.0, 0.5], SEEING_BIAS, SEEN.to_vec()).unwrap();
            let heads = Heads { gate: Some(gate), stop: None, threshold: TAU };
            let ends = (texts.draft.clone(), texts.target.clone());
            let mut pair = InProcess::connect_with(ends.0, ends.1, 64, &[], Some(heads));
            let counts = texts.of_sessions(mode(&texts, Gate::Sprinter { threshold: Some(TAU) }), &mut pair, |_| {});
            assert_follows(&counts, &distribution, format!("{:?}, {sampling:?}, γ = {draft_length}", texts.scheme));
        }
    }
}

/// A gate that is always right, V(x) = 1 where q(x) ≤ p(x), costs nothing: with all of q̂ sent the text is the
/// target's, as of the paper's ideal verifier.
#[test]
fn an_ideal_gate_writes_the_targets_text() {
    let texts = texts(SchemeParameters::Dense, Rule::EXACT, NEUTRAL, 1);
    let ideal = |prefix: &[u32], id: u32| {
        let [q, p] =
            [&texts.draft, &texts.target].map(|model| sample::transform(&model.logits(prefix), &NEUTRAL).unwrap());
        q[id as usize] <= p[id as usize]
    };
    // All but the last token, which the target writes if it is in doubt: there is no room for a bonus token after it.
    let marginal = |texts: Vec<f64>| texts.chunks(3).map(|chunk| chunk.iter().sum()).collect::<Vec<f64>>();
    let off = |gate: &dyn Fn(&[u32], u32) -> bool| {
        distance(&marginal(texts.distribution(gate)), &marginal(texts.of_target()))
    };
    // Half precision is all that is between q and q̂.
    assert!(off(&ideal) < 1e-3, "{}", off(&ideal));
    assert!(off(&|prefix, id| !ideal(prefix, id)) > 0.1);
}

/// Under a lossy rule the same with the rule's distribution; and where statistics travel.
#[test]
fn sprinter_before_a_lossy_rule() {
    for (name, parameter) in [("diff", 0.1), ("lossy", 0.4), ("bild", 1.0)] {
        let rule = Rule::new(name, parameter).unwrap();
        // BiLD needs all of q.
        let scheme = if name == "bild" { SchemeParameters::Dense } else { schemes::every(2, 12)[3] };
        let texts = texts(scheme, rule, SHARPENED, 2);
        let distribution = texts.distribution(&|prefix, _| gate(&texts.draft, prefix));
        assert_follows(&counts(&texts, Gate::Sprinter { threshold: Some(TAU) }), &distribution, name);
    }
}

/// The draft model writes the tokens that it is sure of, the target all others: at every place of the text, the last
/// one too.
#[test]
fn a_token_cascade_mixes_the_models_by_chows_rule() {
    for sampling in [NEUTRAL, SHARPENED] {
        for (scheme, name) in [(0, "exact"), (3, "exact"), (9, "exact"), (10, "exact"), (3, "lossy")] {
            let rule = Rule::new(name, 0.0).unwrap();
            let texts = Texts { draft_length: 0, ..texts(schemes::every(2, 12)[scheme], rule, sampling, 2) };
            // An α at which some prefixes are sure.
            let alpha = (1..20).map(|step| f64::from(step) / 20.0).max_by_key(|&alpha| {
                let distribution = texts.distribution(&|prefix, _| is_sure(&texts.draft, alpha, prefix));
                let far = |sure: bool| distance(&distribution, &texts.distribution(&|_, _| sure));
                (1e6 * far(true).min(far(false))) as u64
            });
            let alpha = alpha.unwrap();
            let distribution = texts.distribution(&|prefix, _| is_sure(&texts.draft, alpha, prefix));
            let target = texts.ungated();
            assert!(distance(&distribution, &target) > 0.05, "α = {alpha} lets tokens pass");
            let drafting = Texts { draft_length: 2, ..texts };
            let counts = counts(&drafting, Gate::TokenCascade { alpha });
            assert_follows(&counts, &distribution, format!("{:?}, α = {alpha}", drafting.scheme));
        }
    }
}

/// "We allow the small model to predict for a maximum of 10 tokens […] before invoking the large model" (Narasimhan et
/// al., App. F.1), however sure it is.
#[test]
fn a_token_cascade_asks_the_target_after_ten_tokens() {
    let texts = texts(schemes::every(2, 12)[3], Rule::EXACT, NEUTRAL, 2);
    let run = pair(&texts, 64, &[]).generate(&PROMPT, &settings(&texts, Gate::TokenCascade { alpha: 1.0 }, 3, 50));
    let origins: Vec<Origin> = run.committed.iter().flat_map(|one| &one.tokens).map(|token| token.1).collect();
    let lengths: Vec<usize> = origins.split(|origin| *origin != Origin::Passed).map(<[_]>::len).collect();
    assert_eq!((origins.len(), lengths), (50, vec![10, 10, 10, 10, 6]));
}

/// A text is the draft model's if it is sure enough of it, and else the target's from the first token.
#[test]
fn a_sequence_cascade_keeps_or_replaces_the_whole_text() {
    let kinds = [(0, "exact"), (3, "exact"), (4, "lossy"), (9, "exact"), (5, "exact")];
    for (sampling, (scheme, name)) in [NEUTRAL, SHARPENED].into_iter().flat_map(|at| kinds.map(move |kind| (at, kind)))
    {
        let texts = texts(schemes::every(2, 12)[scheme], Rule::new(name, 0.0).unwrap(), sampling, 2);
        let texts = Texts { threshold: ThresholdParameters { step: 1e-9, ..RESTLESS }, ..texts };
        let (p, q) = (texts.of_target(), texts.distribution(&|_, _| true));
        let confidence = if scheme % 2 == 0 { Confidence::Product } else { Confidence::Mean };
        let confidences = confidences(&texts, confidence);
        // The middle of two neighbours is the confidence of no text.
        let mut all = confidences.clone();
        all.sort_by(f64::total_cmp);
        let kept =
            |least: f64| q.iter().zip(&confidences).filter(|(_, own)| **own >= least).map(|(q, _)| q).sum::<f64>();
        let uneven = |least: &f64| (kept(*least) - 0.5).abs();
        let between = all.windows(2).map(|pair| f64::midpoint(pair[0], pair[1]));
        let least = between.min_by(|a, b| uneven(a).total_cmp(&uneven(b))).unwrap();
        let kept = kept(least);
        assert!((0.02..0.98).contains(&kept), "{kept}");
        let texts_of_both = p.iter().zip(&q).zip(&confidences);
        let distribution: Vec<f64> =
            texts_of_both.map(|((p, q), own)| (1.0 - kept) * p + if *own >= least { *q } else { 0.0 }).collect();
        let gate = Gate::SequenceCascade { alpha: 1.0 - least, confidence };
        assert_follows(&counts(&texts, gate), &distribution, format!("{:?}, {sampling:?}", texts.scheme));
    }
}

/// Confidence of the draft model in each text, independent of S(·) and of the scheme: the product of the probabilities
/// that it gives the tokens itself (Narasimhan et al., eq. 1), or their geometric mean.
fn confidences(texts: &Texts, confidence: Confidence) -> Vec<f64> {
    let own = texts.draft.distribution(&PROMPT, texts.length, &NEUTRAL);
    let root = if confidence == Confidence::Product { 1.0 } else { texts.length as f64 };
    own.iter().map(|probability| probability.powf(1.0 / root)).collect()
}

/// Nothing is shown before it is decided, then all at once or as the target writes it; the cloud hears of no draft.
#[test]
fn a_sequence_cascade_shows_nothing_that_it_takes_back() {
    let texts = texts(schemes::every(2, 12)[3], Rule::EXACT, NEUTRAL, 2);
    let mut pair = pair(&texts, 64, &[]);
    let (mut kept, mut replaced) = (0, 0);
    for seed in 0..200 {
        pair.keep_frames = true;
        pair.frames.clear();
        let run = pair.generate(
            &PROMPT,
            &settings(&texts, Gate::SequenceCascade { alpha: 0.45, confidence: Confidence::Mean }, seed, 4),
        );
        assert_eq!((run.tokens.len(), run.end), (4, Some(EndReason::Finish(Finish::Length))));
        let statistics = pair.edge.statistics();
        let names: Vec<_> = pair.frames.iter().map(|frame| frame.1.name()).collect();
        if run.committed[0].tokens[0].1 == Origin::Passed {
            kept += 1;
            assert_eq!((run.committed.len(), statistics.passed, statistics.server_passes), (1, 4, 0));
            assert_eq!(names, ["Prompt", "Cancel"]);
        } else {
            replaced += 1;
            assert!(run.committed.iter().all(|c| c.tokens.len() == 1 && c.tokens[0].1 == Origin::Cloud));
            assert_eq!((statistics.passed, statistics.streamed, statistics.rounds), (0, 4, 0));
            assert_eq!(names, ["Prompt", "Draft", "Tokens", "Tokens", "Tokens", "Tokens"]);
            assert!(matches!(&pair.frames[1].1, Frame::Draft(draft) if draft.passed.is_empty() && draft.count == 0));
        }
    }
    assert!(kept > 20 && replaced > 20, "{kept} {replaced}");
}

/// The greedy text under a token cascade, one token after the other: no rounds. The target writes at least every
/// eleventh.
fn greedy_text(texts: &Texts, gate: &dyn Fn(&[u32]) -> bool, length: usize, eos: &[u32]) -> Vec<(u32, bool)> {
    let (mut text, mut out) = (PROMPT.to_vec(), Vec::new());
    while out.len() < length {
        let row = out.iter().rev().take_while(|token: &&(u32, bool)| token.1).count();
        let passes = row < 10 && gate(&text);
        let model = if passes { &texts.draft } else { &texts.target };
        let id = model.greedy(&text, 1, &[])[0];
        text.push(id);
        out.push((id, passes));
        if eos.contains(&id) {
            break;
        }
    }
    out
}

fn end_of(text: &[(u32, bool)], eos: &[u32], wanted: u32, room: usize) -> EndReason {
    EndReason::Finish(match text.last() {
        Some(last) if eos.contains(&last.0) => Finish::Eos,
        _ if wanted as usize <= room => Finish::Length,
        _ => Finish::Context,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    /// At T = 0, under every scheme, texts end where they should: by a token that passed, by one that was judged, by
    /// the length or the context. With γ = 1 or a token cascade each token's origin is known, and so is the text.
    #[test]
    fn gated_greedy_texts_are_known(
        seed in any::<u64>(), difference in 0.0f64..2.0, scheme in 0..schemes::count(), cascade: bool,
        alpha in 0.0f64..1.0,
        length in 1u32..30, context in 4u32..20, eos in prop::option::of(0u32..11),
    ) {
        let eos: Vec<u32> = eos.into_iter().collect();
        let target = ToyModel::target(11, seed);
        let base = texts(schemes::every(3, 20)[scheme], Rule::EXACT, GREEDY, 1);
        let texts = Texts { draft: target.draft(difference), target, ..base };
        let room = context as usize - PROMPT.len();
        let sprinter = Gate::Sprinter { threshold: Some(TAU) };
        let skips = if cascade { Gate::TokenCascade { alpha } } else { sprinter };
        let mut pair = pair(&texts, context, &eos);
        for _ in 0..2 {
            let run = pair.generate(&PROMPT, &settings(&texts, skips, seed, length));
            let origins: Vec<(u32, bool)> = run
                .committed
                .iter()
                .flat_map(|committed| &committed.tokens)
                .map(|&(id, origin)| (id, origin == Origin::Passed))
                .collect();
            if cascade {
                let sure = |prefix: &[u32]| is_sure(&texts.draft, alpha, prefix);
                prop_assert_eq!(&origins, &greedy_text(&texts, &sure, room.min(length as usize), &eos));
            } else {
                // The bonus token of a round is the target's whatever the gate says of it.
                let mut text = PROMPT.to_vec();
                for &(id, passed) in &origins {
                    let model = if passed { &texts.draft } else { &texts.target };
                    prop_assert!(!passed || gate(&texts.draft, &text));
                    prop_assert_eq!(id, model.greedy(&text, 1, &[])[0]);
                    text.push(id);
                }
                prop_assert!(origins.iter().rev().skip(1).all(|token| !eos.contains(&token.0)));
                let ended = origins.last().is_some_and(|last| eos.contains(&last.0));
                prop_assert!(ended || origins.len() == room.min(length as usize));
            }
            prop_assert_eq!(run.end, Some(end_of(&origins, &eos, length, room)));
            let statistics = pair.edge.statistics();
            prop_assert_eq!(statistics.passed, origins.iter().filter(|token| token.1).count());
            prop_assert_eq!(statistics.tokens, origins.len());
            prop_assert!(pair.edge.is_idle() && !pair.cloud.is_generating());
        }
    }

    /// Sequence cascades at T = 0: the draft's own greedy text, to where it ends, if the draft model is sure of it by
    /// its own distribution; else the target's. α = 0 wants all certainty, and so the target's.
    #[test]
    fn a_greedy_sequence_cascade_is_sure_or_the_targets(
        seed in any::<u64>(), scheme in 0..schemes::count(), length in 1u32..30, context in 4u32..20,
        eos in prop::option::of(0u32..11), alpha in prop_oneof![1 => Just(0.0), 4 => 0.3f64..0.95],
        by_product in any::<bool>(),
    ) {
        let confidence = if by_product { Confidence::Product } else { Confidence::Mean };
        let eos: Vec<u32> = eos.into_iter().collect();
        let target = ToyModel::target(11, seed);
        let base = texts(schemes::every(3, 20)[scheme], Rule::EXACT, GREEDY, 2);
        let texts = Texts { draft: target.draft(1.0), target, ..base };
        let room = context as usize - PROMPT.len();
        let mut pair = pair(&texts, context, &eos);
        let gate = Gate::SequenceCascade { alpha, confidence };
        let run: Run = pair.generate(&PROMPT, &settings(&texts, gate, seed, length));
        let most = room.min(length as usize);
        let [own, other] = [&texts.draft, &texts.target].map(|model| model.greedy(&PROMPT, most, &eos));
        let mut prefix = PROMPT.to_vec();
        let mut certainty = 0.0;
        for &id in &own {
            certainty += sample::transform(&texts.draft.logits(&prefix), &NEUTRAL).unwrap()[id as usize].ln();
            prefix.push(id);
        }
        let sure = (certainty / if by_product { 1.0 } else { own.len() as f64 }).exp();
        prop_assume!((sure - (1.0 - alpha)).abs() > 1e-9);
        let is_kept = sure > 1.0 - alpha;
        prop_assert_eq!(&run.tokens, if is_kept { &own } else { &other }, "confidence {}", sure);
        prop_assert_eq!(pair.edge.statistics().server_passes, if is_kept { 0 } else { other.len() });
    }
}

/// After a rejection under DSSD the resampled token, then passed ones, then drafts: the cloud commits them in that
/// order.
#[test]
fn resampled_and_passed_tokens_travel_together() {
    for scheme in [8, 9] {
        let texts = texts(schemes::every(2, 12)[scheme], Rule::EXACT, NEUTRAL, 2);
        let mut pair = pair(&texts, 1024, &[]);
        pair.keep_frames = true;
        let run = pair.generate(&PROMPT, &settings(&texts, Gate::Sprinter { threshold: Some(TAU) }, 1, 1000));
        let drafts = pair.frames.iter().filter_map(|(_, frame)| match frame {
            Frame::Draft(draft) => Some(draft),
            _ => None,
        });
        assert!(drafts.filter(|draft| draft.resampled.is_some() && draft.passed.len() > 1).count() > 5);
        assert_eq!(run.tokens.len(), 1000);
    }
}

/// The adaptive code learns from passed tokens too: what both ends have seen is in step over long texts.
#[test]
fn long_gated_texts_stay_in_step() {
    for code in [Code::Enumerative, Code::Adaptive] {
        let scheme = SchemeParameters::CSqs { lattice_resolution: 30, code };
        let target = ToyModel::target(40, 3);
        let base = texts(scheme, Rule::EXACT, NEUTRAL, 3);
        let texts = Texts { draft: target.draft(1.0), target, ..base };
        let mut pair = pair(&texts, 4096, &[]);
        let run = pair.generate(&PROMPT, &settings(&texts, Gate::Sprinter { threshold: Some(TAU) }, 1, 2000));
        assert_eq!(run.end, Some(EndReason::Finish(Finish::Length)));
        let statistics = pair.edge.statistics();
        assert!(statistics.passed > 500 && statistics.rounds > 300, "{statistics:?}");
        let (mean, bound) = (statistics.mean_dropped_mass.unwrap(), statistics.dropped_mass_bound.unwrap());
        assert!(mean <= bound, "{mean} {bound}");
    }
}
