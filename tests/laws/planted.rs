//! The statistical test catches errors: every scheme has one of its own planted, in a round loop whose halves can be
//! exchanged, and the distribution that `exactness.rs` finds right is then found wrong.

use outrider_codec::{
    distribution::{DraftDist, DraftToken},
    frame::TargetDist,
    probabilities::DraftProbability,
    scheme::{Code, Downlink, Drafts, SchemeParameters},
};
use outrider_speculation::{
    judge::{Judgement, NextToken, Round, judge},
    sample::{self, Distribution, Randomness},
};
use outrider_tests::{
    goodness::{self, assert_follows},
    samplings::NEUTRAL,
    texts::{Ends, Texts},
};

const V: u32 = 4;

/// Draws one token from a row of the draft's logits at a position, or ends the round.
type DraftOne = dyn Fn(&Texts, &[f32], usize, &mut Ends) -> Option<DraftToken>;
/// The number of accepted drafts and the token after them.
type Outcome = (usize, u32);
/// Judges drafts, given the target's rows and the position of the first; includes what the edge resamples.
type Judge = dyn Fn(&[DraftToken], &[&[f32]], usize, &mut Ends) -> Outcome;

/// Texts from a loop of rounds, by value, and the target's distribution.
fn written(scheme: SchemeParameters, draft_one: &DraftOne, judge: &Judge) -> (Vec<u32>, Vec<f64>) {
    let texts = Texts::of_four(scheme, NEUTRAL);
    let counts = texts.of_rounds(|text, ends| {
        let (drafts, rows) = texts.round(text, |row, position| draft_one(&texts, row, position, ends));
        let rows: Vec<&[f32]> = rows.iter().map(Vec::as_slice).collect();
        let (accepted, token) = judge(&drafts, &rows, text.len(), ends);
        drafts[..accepted].iter().map(|draft| draft.id).chain([token]).collect()
    });
    (counts, texts.of_target())
}

fn assert_right(scheme: SchemeParameters, draft_one: &DraftOne, judge: &Judge) {
    let (counts, distribution) = written(scheme, draft_one, judge);
    assert_follows(&counts, &distribution, ("the right halves", scheme));
}

fn assert_caught(scheme: SchemeParameters, draft_one: &DraftOne, judge: &Judge) {
    let (counts, distribution) = written(scheme, draft_one, judge);
    goodness::assert_caught(&counts, &distribution, ("planted", scheme));
}

const K_SQS: SchemeParameters =
    SchemeParameters::KSqs { support_size: 2, lattice_resolution: 5, code: Code::Enumerative };
const QS: SchemeParameters = SchemeParameters::Qs { lattice_resolution: 12, code: Code::Enumerative };
const C_SQS: SchemeParameters = SchemeParameters::CSqs { lattice_resolution: 12, code: Code::Enumerative };
const ADAPTIVE: SchemeParameters = SchemeParameters::Qs { lattice_resolution: 12, code: Code::Adaptive };
const TK_SLT: SchemeParameters = SchemeParameters::TkSlt { support_size: 2 };

fn s(logits: &[f32]) -> Vec<f64> {
    sample::transform(logits, &NEUTRAL).unwrap()
}

/// A draft as the edge makes it.
fn right_draft(texts: &Texts, logits: &[f32], _: usize, ends: &mut Ends) -> Option<DraftToken> {
    Some(texts.draw(logits, &mut ends.edge))
}

/// The right judgement of a round.
fn judged(scheme: SchemeParameters, drafts: Drafts, rows: &[&[f32]], position: usize, ends: &Ends) -> Judgement {
    judge(&Round { scheme: Some(scheme), drafts, ..Round::alone(NEUTRAL, ends.seed, position) }, rows).unwrap()
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
        assert_right(scheme, &right_draft, &right_judge);
    }
}

#[test]
fn drawing_before_quantizing_is_caught() {
    let broken = |texts: &Texts, logits: &[f32], _: usize, ends: &mut Ends| {
        let q = s(logits);
        let dist = texts.draw(logits, &mut ends.edge).dist;
        // The planted error: drawn from q cut to the support, while the cloud receives q̂.
        let weights: Vec<f64> = (0..V).map(|id| if dist.count(id) > 0 { q[id as usize] } else { 0.0 }).collect();
        Some(DraftToken { id: ends.edge.draw(&weights), dist, support_size: 2 })
    };
    assert_caught(K_SQS, &broken, &right_judge);
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
    assert_caught(K_SQS, &right_draft, &broken);
}

#[test]
fn resampling_from_p_is_caught() {
    let broken = |drafts: &[DraftToken], rows: &[&[f32]], position: usize, ends: &mut Ends| {
        let (accepted, token) = right_judge(drafts, rows, position, ends);
        // The planted error: after a rejection the token is drawn from p, not from the residual.
        (accepted, if accepted < drafts.len() { ends.cloud.draw(&s(rows[accepted])) } else { token })
    };
    assert_caught(K_SQS, &right_draft, &broken);
}

#[test]
fn a_budget_that_looks_at_the_draw_is_caught() {
    let broken = |texts: &Texts, logits: &[f32], _: usize, ends: &mut Ends| {
        let token = texts.draw(logits, &mut ends.edge);
        // The planted error: the round ends before a token whose index turns out to cost two bits or more.
        (4 * token.dist.count(token.id) > token.dist.total()).then_some(token)
    };
    assert_caught(ADAPTIVE, &broken, &right_judge);
}

#[test]
fn a_stop_head_that_drops_the_token_that_it_saw_is_caught() {
    let broken = |texts: &Texts, logits: &[f32], _: usize, ends: &mut Ends| {
        let token = texts.draw(logits, &mut ends.edge);
        // The planted error: the round ends before the token that the decision looked at, not after it.
        (s(logits)[token.id as usize] >= 0.3).then_some(token)
    };
    assert_caught(K_SQS, &broken, &right_judge);
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
        assert_caught(scheme, &right_draft, &broken);
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
    assert_caught(SchemeParameters::Dense, &right_draft, &broken);
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
    assert_caught(TK_SLT, &right_draft, &broken);
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

/// Draws of P with their probabilities, as the cloud sends them.
fn samples(target: &TargetDist, count: usize, randomness: &mut Randomness) -> Vec<(u32, f32)> {
    let weights: Vec<f64> = target.0.iter().map(|&(_, p)| p.into()).collect();
    (0..count).map(|_| target.0[randomness.draw(&weights) as usize]).collect()
}

/// The first sample y that is kept, which it is with probability max(0, 1 − q̂(y)/P(y)).
fn survivor(samples: &[(u32, f32)], dist: &DraftDist, randomness: &mut Randomness) -> Option<u32> {
    let q = |id| f64::from(dist.count(id)) / f64::from(dist.total());
    let kept = |&&(id, p): &&(u32, f32)| randomness.unit() < 1.0 - q(id) / f64::from(p);
    samples.iter().find(kept).map(|sample| sample.0)
}

/// A draw from norm(max(0, P − q̂)).
fn resample(target: &TargetDist, dist: &DraftDist, randomness: &mut Randomness) -> u32 {
    let q = |id| f64::from(dist.count(id)) / f64::from(dist.total());
    let weights: Vec<f64> = target.0.iter().map(|&(id, p)| (f64::from(p) - q(id)).max(0.0)).collect();
    target.0[randomness.draw(&weights) as usize].0
}

fn from_samples(draft: &DraftToken, target: &TargetDist, ends: &mut Ends) -> u32 {
    let sent = samples(target, 2, &mut ends.cloud);
    let kept = survivor(&sent, &draft.dist, &mut ends.edge);
    kept.unwrap_or_else(|| resample(target, &draft.dist, &mut ends.edge))
}

#[test]
fn dssd_with_the_right_halves_is_exact() {
    assert_right(SchemeParameters::Dense, &right_draft, &dssd_judge(from_samples));
}

#[test]
fn a_surviving_sample_weighted_wrongly_is_caught() {
    let broken = |draft: &DraftToken, target: &TargetDist, ends: &mut Ends| {
        let sent = samples(target, 2, &mut ends.cloud);
        let kept = sent.iter().find(|&&(id, p)| {
            let q = f64::from(draft.dist.count(id)) / f64::from(draft.dist.total());
            // The planted error: survives with max(0, 1 − P/q̂)'s complement, min(1, P/q̂), in place of max(0, 1 −
            // q̂/P).
            ends.edge.unit() * q < f64::from(p)
        });
        kept.map_or_else(|| resample(target, &draft.dist, &mut ends.edge), |sample| sample.0)
    };
    assert_caught(SchemeParameters::Dense, &right_draft, &dssd_judge(broken));
}

#[test]
fn a_follow_up_that_forgets_the_draft_is_caught() {
    let broken = |draft: &DraftToken, target: &TargetDist, ends: &mut Ends| {
        let sent = samples(target, 1, &mut ends.cloud);
        let kept = survivor(&sent, &draft.dist, &mut ends.edge);
        // The planted error: where no sample survives, one is drawn from P itself.
        kept.unwrap_or_else(|| samples(target, 1, &mut ends.edge)[0].0)
    };
    assert_caught(SchemeParameters::Dense, &right_draft, &dssd_judge(broken));
}

/// A draft that travels as its id alone.
fn only(id: u32) -> Option<DraftToken> {
    Some(DraftToken { id, dist: DraftDist::new(vec![id], vec![1]).unwrap(), support_size: 1 })
}

fn ids(drafts: &[DraftToken]) -> Vec<u32> {
    drafts.iter().map(|draft| draft.id).collect()
}

fn coupled_draft(_: &Texts, logits: &[f32], position: usize, ends: &mut Ends) -> Option<DraftToken> {
    only(ends.noise.choose_from(position, &Distribution::new(logits, &NEUTRAL).unwrap()))
}

#[test]
fn coupled_drafting_is_exact() {
    let judge = |drafts: &[DraftToken], rows: &[&[f32]], position: usize, ends: &mut Ends| {
        let judgement = judged(SchemeParameters::Coupled, Drafts::Ids(ids(drafts)), rows, position, ends);
        let NextToken::Token(token) = judgement.next else { panic!("{judgement:?}") };
        (judgement.accepted, token)
    };
    assert_right(SchemeParameters::Coupled, &coupled_draft, &judge);
}

#[test]
fn noise_reused_across_positions_is_caught() {
    let draft = |_: &Texts, logits: &[f32], _: usize, ends: &mut Ends| only(ends.noise.choose(0, &s(logits)));
    let judge = |drafts: &[DraftToken], rows: &[&[f32]], _: usize, ends: &mut Ends| {
        // The planted error: every position has the noise of the first.
        let choice = |row: &[f32]| ends.noise.choose(0, &s(row));
        let accepted = drafts.iter().zip(rows).take_while(|(draft, row)| draft.id == choice(row)).count();
        (accepted, choice(rows[accepted]))
    };
    assert_caught(SchemeParameters::Coupled, &draft, &judge);
}
