//! The statistical test catches errors: every scheme has one of its own planted, in a round loop whose halves can be
//! exchanged, and the distribution that `exactness.rs` finds right is then found wrong.

use outrider_codec::{
    distribution::{DraftDist, DraftToken},
    frame::{SamplingParameters, TargetDist},
    probabilities::DraftProbability,
    scheme::{Code, Downlink, Drafts, Scheme, SchemeParameters},
};
use outrider_speculation::{
    draft,
    judge::{Judgement, NextToken, Round, dssd, judge},
    sample::{self, Distribution, End, Randomness, SharedNoise},
};
use outrider_tests::{
    goodness::{self, assert_follows, cell, samples},
    toy::ToyModel,
};

const V: u32 = 4;
const LENGTH: usize = 3;
const PROMPT: [u32; 2] = [1, 2];
const S: SamplingParameters = SamplingParameters { temperature: 1.0, top_k: 0, top_p: 1.0 };
/// Drafts a round.
const GAMMA: usize = 2;

/// Both ends' state in one generation.
struct Ends {
    seed: u64,
    edge: Randomness,
    cloud: Randomness,
    noise: SharedNoise,
}

/// Draws one token of a row of the draft's logits at a position, or ends the round.
type DraftOne<T> = dyn Fn(&[f32], usize, &mut Ends) -> Option<T>;
/// The number of accepted drafts and the token after them.
type Outcome = (usize, u32);
/// Judges drafts, given the target's rows and the position of the first; includes what the edge resamples.
type Judge<T> = dyn Fn(&[T], &[&[f32]], usize, &mut Ends) -> Outcome;

/// Texts of three tokens from a loop of rounds, by value.
fn texts<T>(id: fn(&T) -> u32, draft_one: &DraftOne<T>, judge: &Judge<T>) -> Vec<u32> {
    let target = ToyModel::target(V, 5);
    let draft_model = target.draft(1.5);
    let mut counts = vec![0; (V as usize).pow(LENGTH as u32)];
    for seed in 0..u64::from(samples(counts.len())) {
        let mut ends = Ends {
            seed,
            edge: Randomness::new(seed, End::Edge),
            cloud: Randomness::new(seed, End::Cloud),
            noise: SharedNoise::new(seed),
        };
        let mut text = PROMPT.to_vec();
        while text.len() < PROMPT.len() + LENGTH {
            let (mut prefix, mut drafts) = (text.clone(), Vec::new());
            let mut rows = vec![target.logits(&prefix)];
            for _ in 0..GAMMA {
                let Some(token) = draft_one(&draft_model.logits(&prefix), prefix.len(), &mut ends) else { break };
                prefix.push(id(&token));
                drafts.push(token);
                rows.push(target.logits(&prefix));
            }
            let rows: Vec<&[f32]> = rows.iter().map(Vec::as_slice).collect();
            let (accepted, token) = judge(&drafts, &rows, text.len(), &mut ends);
            text.extend(drafts[..accepted].iter().map(id));
            text.push(token);
        }
        counts[cell(&text[PROMPT.len()..PROMPT.len() + LENGTH], V)] += 1;
    }
    counts
}

fn distribution_of_target() -> Vec<f64> {
    ToyModel::target(V, 5).distribution(&PROMPT, LENGTH, &S)
}

fn assert_right<T>(id: fn(&T) -> u32, draft_one: &DraftOne<T>, judge: &Judge<T>) {
    assert_follows(&texts(id, draft_one, judge), &distribution_of_target(), "the right halves");
}

fn assert_caught<T>(id: fn(&T) -> u32, draft_one: &DraftOne<T>, judge: &Judge<T>) {
    goodness::assert_caught(&texts(id, draft_one, judge), &distribution_of_target(), "planted");
}

const K_SQS: SchemeParameters =
    SchemeParameters::KSqs { support_size: 2, lattice_resolution: 5, code: Code::Enumerative };
const QS: SchemeParameters = SchemeParameters::Qs { lattice_resolution: 12, code: Code::Enumerative };
const C_SQS: SchemeParameters = SchemeParameters::CSqs { lattice_resolution: 12, code: Code::Enumerative };
const ADAPTIVE: SchemeParameters = SchemeParameters::Qs { lattice_resolution: 12, code: Code::Adaptive };
const TK_SLT: SchemeParameters = SchemeParameters::TkSlt { support_size: 2 };

fn token_id(token: &DraftToken) -> u32 {
    token.id
}

fn s(logits: &[f32]) -> Vec<f64> {
    sample::transform(logits, &S).unwrap()
}

fn distribution(logits: &[f32]) -> Distribution<'_> {
    Distribution::new(logits, &S).unwrap()
}

/// A draft as the edge makes it, and its way over the wire.
fn right_draft(parameters: SchemeParameters) -> impl Fn(&[f32], usize, &mut Ends) -> Option<DraftToken> {
    let scheme = Scheme::new(parameters, V).unwrap();
    move |logits, _, ends| {
        Some(draft::draw(draft::propose(&distribution(logits), parameters, &scheme, 0.2).unwrap(), &mut ends.edge))
    }
}

/// The right judgement of a round.
fn judged(scheme: SchemeParameters, drafts: Drafts, rows: &[&[f32]], position: usize, ends: &Ends) -> Judgement {
    judge(&Round { scheme: Some(scheme), drafts, ..Round::alone(S, ends.seed, position) }, rows).unwrap()
}

fn right_judge(drafts: &[DraftToken], rows: &[&[f32]], position: usize, ends: &mut Ends) -> Outcome {
    let judgement = judged(K_SQS, Drafts::Distributions(drafts.to_vec()), rows, position, ends);
    let NextToken::Token(token) = judgement.next else { panic!("{judgement:?}") };
    (judgement.accepted, token)
}

/// max(0, p − q̂), not normalised.
fn residual(p: &[f64], q: &DraftDist) -> Vec<f64> {
    (0..).zip(p).map(|(id, p)| (p - f64::from(q.count(id)) / f64::from(q.total())).max(0.0)).collect()
}

#[test]
fn the_loop_with_the_right_halves_is_exact() {
    for scheme in [SchemeParameters::Dense, QS, K_SQS, C_SQS, TK_SLT] {
        assert_right(token_id, &right_draft(scheme), &right_judge);
    }
}

#[test]
fn drawing_before_quantizing_is_caught() {
    let scheme = Scheme::new(K_SQS, V).unwrap();
    let broken = move |logits: &[f32], _: usize, ends: &mut Ends| {
        let q = s(logits);
        let dist = draft::propose(&distribution(logits), K_SQS, &scheme, 0.0).unwrap().dist;
        // The planted error: drawn from q cut to the support, while q̂ is what the cloud is told.
        let weights: Vec<f64> = (0..V).map(|id| if dist.count(id) > 0 { q[id as usize] } else { 0.0 }).collect();
        Some(DraftToken { id: ends.edge.draw(&weights), dist, support_size: 2 })
    };
    assert_caught(token_id, &broken, &right_judge);
}

#[test]
fn an_inverted_ratio_is_caught() {
    let broken = |drafts: &[DraftToken], rows: &[&[f32]], _: usize, ends: &mut Ends| {
        for (accepted, (draft, row)) in drafts.iter().zip(rows).enumerate() {
            let p = s(row);
            let q = f64::from(draft.dist.count(draft.id)) / f64::from(draft.dist.total());
            // The planted error, printed in two of the papers: q/p in place of p/q.
            if ends.cloud.unit() * p[draft.id as usize] >= q {
                return (accepted, ends.cloud.draw(&residual(&p, &draft.dist)));
            }
        }
        (drafts.len(), ends.cloud.draw(&s(rows[drafts.len()])))
    };
    assert_caught(token_id, &right_draft(K_SQS), &broken);
}

#[test]
fn resampling_from_p_is_caught() {
    let broken = |drafts: &[DraftToken], rows: &[&[f32]], position: usize, ends: &mut Ends| {
        let (accepted, token) = right_judge(drafts, rows, position, ends);
        // The planted error: after a rejection the token is drawn from p, not from the residual.
        (accepted, if accepted < drafts.len() { ends.cloud.draw(&s(rows[accepted])) } else { token })
    };
    assert_caught(token_id, &right_draft(K_SQS), &broken);
}

#[test]
fn a_budget_that_looks_at_the_draw_is_caught() {
    let draft = right_draft(ADAPTIVE);
    let broken = move |logits: &[f32], position: usize, ends: &mut Ends| {
        let token = draft(logits, position, ends)?;
        // The planted error: the round ends before a token whose index turns out to cost two bits or more.
        (4 * token.dist.count(token.id) > token.dist.total()).then_some(token)
    };
    assert_caught(token_id, &broken, &right_judge);
}

/// A decoder that reads one count too low and the next too high.
fn off_by_one(token: &DraftToken) -> DraftToken {
    let (ids, mut counts) = (token.dist.ids().to_vec(), token.dist.counts().to_vec());
    if let Some(from) = counts.iter().position(|&count| count > 1) {
        let to = (from + 1) % counts.len();
        counts[from] -= 1;
        counts[to] += 1;
    }
    DraftToken { dist: DraftDist::new(ids, counts).unwrap(), ..token.clone() }
}

#[test]
fn a_count_off_by_one_in_the_decoder_is_caught() {
    let broken = |drafts: &[DraftToken], rows: &[&[f32]], position: usize, ends: &mut Ends| {
        let misread: Vec<DraftToken> = drafts.iter().map(off_by_one).collect();
        right_judge(&misread, rows, position, ends)
    };
    for scheme in [QS, K_SQS, C_SQS, ADAPTIVE] {
        assert_caught(token_id, &right_draft(scheme), &broken);
    }
}

#[test]
fn probabilities_of_the_wrong_ids_are_caught() {
    let broken = |drafts: &[DraftToken], rows: &[&[f32]], position: usize, ends: &mut Ends| {
        // The planted error: the dense distribution is read from the second id on.
        let misread = drafts.iter().map(|token| {
            let mut counts = vec![0; V as usize];
            for (&id, &count) in token.dist.ids().iter().zip(token.dist.counts()) {
                counts[((id + 1) % V) as usize] = count;
            }
            let kept = (0..V).zip(counts).filter(|row| row.1 > 0);
            let (ids, counts) = kept.unzip();
            DraftToken { dist: DraftDist::new(ids, counts).unwrap(), ..token.clone() }
        });
        right_judge(&misread.collect::<Vec<_>>(), rows, position, ends)
    };
    assert_caught(token_id, &right_draft(SchemeParameters::Dense), &broken);
}

#[test]
fn probabilities_that_are_not_renormalised_are_caught() {
    let broken = |drafts: &[DraftToken], rows: &[&[f32]], position: usize, ends: &mut Ends| {
        // The planted error: the cloud divides TK-SLT's probabilities by more than they add up to, as if those of the
        // tokens that were left out were still among them.
        let misread = drafts.iter().map(|token| {
            let (mut ids, mut counts) = (token.dist.ids().to_vec(), token.dist.counts().to_vec());
            if let Some(other) = (0..V).find(|id| !ids.contains(id)) {
                let place = ids.partition_point(|&id| id < other);
                ids.insert(place, other);
                counts.insert(place, 1 << 22);
            }
            DraftToken { dist: DraftDist::new(ids, counts).unwrap(), ..token.clone() }
        });
        right_judge(&misread.collect::<Vec<_>>(), rows, position, ends)
    };
    assert_caught(token_id, &right_draft(TK_SLT), &broken);
}

/// DSSD with the edge's half of a rejection exchangeable: from the rejected draft and P to a token.
fn dssd_judge(
    resample: impl Fn(&DraftToken, &TargetDist, &mut Ends) -> u32,
) -> impl Fn(&[DraftToken], &[&[f32]], usize, &mut Ends) -> Outcome {
    move |drafts, rows, position, ends| {
        let sent = Drafts::Probabilities(drafts.iter().map(DraftProbability::from).collect());
        let scheme = SchemeParameters::Dssd { downlink: Downlink::Full };
        let Judgement { accepted, next, .. } = judged(scheme, sent, rows, position, ends);
        match next {
            NextToken::Token(token) => (accepted, token),
            NextToken::Residual { target, .. } => (accepted, resample(&drafts[accepted], &target, ends)),
            NextToken::Nothing => panic!("a token follows every round"),
        }
    }
}

fn from_samples(draft: &DraftToken, target: &TargetDist, ends: &mut Ends) -> u32 {
    let samples = dssd::samples(target, 2, &mut ends.cloud);
    let survivor = dssd::survivor(&samples, &draft.dist, &mut ends.edge);
    survivor.unwrap_or_else(|| dssd::resample(target, &draft.dist, &mut ends.edge))
}

#[test]
fn dssd_with_the_right_halves_is_exact() {
    assert_right(token_id, &right_draft(SchemeParameters::Dense), &dssd_judge(from_samples));
}

#[test]
fn a_surviving_sample_weighted_wrongly_is_caught() {
    let broken = |draft: &DraftToken, target: &TargetDist, ends: &mut Ends| {
        let samples = dssd::samples(target, 2, &mut ends.cloud);
        let survivor = samples.iter().find(|&&(id, p)| {
            let q = f64::from(draft.dist.count(id)) / f64::from(draft.dist.total());
            // The planted error: survives with max(0, 1 − P/q̂)'s complement, min(1, P/q̂), in place of max(0, 1 −
            // q̂/P).
            ends.edge.unit() * q < f64::from(p)
        });
        survivor.map_or_else(|| dssd::resample(target, &draft.dist, &mut ends.edge), |sample| sample.0)
    };
    assert_caught(token_id, &right_draft(SchemeParameters::Dense), &dssd_judge(broken));
}

#[test]
fn a_follow_up_that_forgets_the_draft_is_caught() {
    let broken = |draft: &DraftToken, target: &TargetDist, ends: &mut Ends| {
        let samples = dssd::samples(target, 1, &mut ends.cloud);
        let survivor = dssd::survivor(&samples, &draft.dist, &mut ends.edge);
        // The planted error: where no sample survives, one is drawn from P itself.
        survivor.unwrap_or_else(|| dssd::samples(target, 1, &mut ends.edge)[0].0)
    };
    assert_caught(token_id, &right_draft(SchemeParameters::Dense), &dssd_judge(broken));
}

fn id_of(id: &u32) -> u32 {
    *id
}

fn coupled_draft(logits: &[f32], position: usize, ends: &mut Ends) -> Option<u32> {
    Some(ends.noise.choose_from(position, &distribution(logits)))
}

#[test]
fn coupled_drafting_is_exact() {
    let judge = |ids: &[u32], rows: &[&[f32]], position: usize, ends: &mut Ends| {
        let judgement = judged(SchemeParameters::Coupled, Drafts::Ids(ids.to_vec()), rows, position, ends);
        let NextToken::Token(token) = judgement.next else { panic!("{judgement:?}") };
        (judgement.accepted, token)
    };
    assert_right(id_of, &coupled_draft, &judge);
}

#[test]
fn noise_reused_across_positions_is_caught() {
    let draft = |logits: &[f32], _: usize, ends: &mut Ends| Some(ends.noise.choose(0, &s(logits)));
    let judge = |ids: &[u32], rows: &[&[f32]], _: usize, ends: &mut Ends| {
        // The planted error: every position has the noise of the first.
        let choice = |row: &[f32]| ends.noise.choose(0, &s(row));
        let accepted = ids.iter().zip(rows).take_while(|(id, row)| **id == choice(row)).count();
        (accepted, choice(rows[accepted]))
    };
    assert_caught(id_of, &draft, &judge);
}
