//! Verification without rows of logits: of p, the target's distribution, single probabilities and samples are all there
//! is.
//!
//! This is the case where the target runs in another project's engine. The engine reports the probabilities of a
//! prompt's tokens, and writes tokens; it does not return all V numbers. Exact verification needs no more:
//!
//! 1. Draft x is accepted with probability min(1, p(x)/q̂(x)), which takes p(x) alone: [`accepted`].
//! 2. At the first rejection the token is drawn from norm(max(0, p − q̂)). That is p thinned: a sample y of p is kept
//!    with probability max(0, 1 − q̂(y)/p(y)), which takes p(y) alone, and
//!
//!    ```text
//!    P(y is drawn and kept) = p(y)·max(0, 1 − q̂(y)/p(y)) = max(0, p(y) − q̂(y))
//!    ```
//!
//!    Samples are independent, so the first that is kept is distributed as this divided by its sum, whatever was
//!    dropped before it: [`survivor`].
//! 3. If all are accepted, a sample of p follows.
//!
//! The sum in 2 is P(reject): a sample is kept as often as the draft is rejected. With d = P(reject) a round needs 1/d
//! samples with probability d: one sample on average, whatever the models are.
//!
//! DSSD thins too, on the edge.
//!
//! Where not even p(x) can be had there is [`matching`]: whatever engine samples from whatever p, its own sample y at
//! each drafted position is what is committed, and the round goes on while y = x. The committed token is a sample of p
//! by construction, so this is exact for every p and every q̂, which need not be known; a draft is accepted with
//! probability Σ q̂(x)·p(x) in place of Σ min(q̂(x), p(x)).
//!
//! Where the target writes its text continuously, token after token, its samples are there already: [`streamed`].

use outrider_codec::distribution::{DraftDist, DraftToken};

use crate::{
    judge::types::{Judgement, NextToken, Round},
    sample::Randomness,
};

/// Number of drafts that are accepted, where `probabilities[i]` is p of the i-th at its position. Takes one draw a
/// draft that is judged.
///
/// # Panics
/// If there is not one probability for each draft.
pub fn accepted(drafts: &[DraftToken], probabilities: &[f64], randomness: &mut Randomness) -> usize {
    assert_eq!(drafts.len(), probabilities.len(), "a round needs one probability a draft");
    let accepts = |(draft, p): &(&DraftToken, &f64)| randomness.unit() * probability(&draft.dist, draft.id) < **p;
    drafts.iter().zip(probabilities).take_while(accepts).count()
}

/// Decides if a sample of p survives against q̂, which it does with probability max(0, 1 − q/p).
pub(crate) fn survives(p: f64, q: f64, randomness: &mut Randomness) -> bool {
    randomness.unit() * p < p - q
}

/// The first of independent samples of p, each with its probability, that survives against q̂; `None` if none does,
/// which says nothing of what further ones would do. Takes one draw a sample that is looked at.
pub fn survivor(samples: &[(u32, f64)], dist: &DraftDist, randomness: &mut Randomness) -> Option<u32> {
    samples.iter().find(|&&(id, p)| survives(p, probability(dist, id), randomness)).map(|&(id, _)| id)
}

/// The judgement of a round by the target's `own` token after the text and after each draft. The last is not needed
/// where no bonus token follows.
///
/// # Panics
/// If there are too few.
pub fn matching(round: &Round, own: &[u32]) -> Judgement {
    let ids = round.drafts.ids();
    assert!(own.len() >= round.rows(), "a round needs one token of the target's a row");
    let accepted = ids.iter().zip(own).take_while(|(draft, own)| draft == own).count();
    own.get(accepted).map_or(Judgement { accepted, ..Judgement::default() }, |&token| round.settle(accepted, token))
}

/// The judgement of a round by the tokens that the target has `written` after its text so far; `None` if they do not
/// suffice.
///
/// Guesses ahead are accepted as far as they equal these tokens, except the last token that has come: it is what
/// follows. Thus tokens never wait for later ones. Other rounds are judged to their end, or to the first rejection.
/// After an accepted token of `eos_ids` nothing is waited for: anything after the end of a text is dropped.
pub fn streamed(round: &Round, written: &[u32], eos_ids: &[u32]) -> Option<Judgement> {
    let accepted_of = |ids: &[u32], most: usize| ids.iter().zip(&written[..most]).take_while(|(a, b)| a == b).count();
    if round.is_guessed {
        let (&last, before) = written.split_last()?;
        let lines = (0..=round.branches.len()).map(|line| (accepted_of(&round.line(line), before.len()), line));
        // Of several that agree as far the first.
        let (accepted, branch) = lines.rev().max_by_key(|(accepted, _)| *accepted).unwrap_or_default();
        let next = NextToken::Token(written.get(accepted).copied().unwrap_or(last));
        return Some(Judgement { accepted, branch, next, ..Judgement::default() });
    }
    let ids = round.drafts.ids();
    let accepted = accepted_of(&ids, written.len());
    if accepted == ids.len() && !round.has_bonus() {
        return Some(Judgement { accepted, ..Judgement::default() });
    }
    let end = written.last().filter(|id| accepted == written.len() && eos_ids.contains(id));
    written.get(accepted).or(end).map(|&token| round.settle(accepted, token))
}

/// q̂(id), the probability of a token.
fn probability(dist: &DraftDist, id: u32) -> f64 {
    f64::from(dist.count(id)) / f64::from(dist.total())
}

#[cfg(test)]
mod tests {
    use outrider_codec::{frame::SamplingParameters, scheme::Drafts};

    use super::*;
    use crate::{judge::types::Branch, sample::End};

    fn draft(id: u32) -> DraftToken {
        DraftToken { id, dist: DraftDist::new(vec![0, 1], vec![3, 1]).unwrap(), support_size: 2 }
    }

    #[test]
    fn what_the_target_makes_more_likely_is_accepted_and_what_it_excludes_rejected() {
        let mut randomness = Randomness::new(1, End::Cloud);
        for _ in 0..1000 {
            assert_eq!(accepted(&[draft(1), draft(0)], &[0.25, 0.75], &mut randomness), 2);
            assert_eq!(accepted(&[draft(1), draft(0), draft(1)], &[1.0, 0.0, 1.0], &mut randomness), 1);
            assert_eq!(survivor(&[(0, 0.5), (1, 0.25)], &draft(0).dist, &mut randomness), None);
            assert_eq!(survivor(&[(0, 0.5), (2, 0.1), (3, 0.2)], &draft(0).dist, &mut randomness), Some(2));
        }
        assert_eq!(accepted(&[], &[], &mut randomness), 0);
    }

    #[test]
    fn matching_goes_as_far_as_the_targets_own_text() {
        let sampling = SamplingParameters { temperature: 1.0, top_k: 0, top_p: 1.0 };
        let round = |ids: &[u32]| Round { drafts: Drafts::Ids(ids.to_vec()), ..Round::alone(sampling, 1, 2) };
        let token = |accepted, id| Judgement { accepted, next: NextToken::Token(id), ..Judgement::default() };
        assert_eq!(matching(&round(&[5, 6]), &[5, 6, 7]), token(2, 7));
        assert_eq!(matching(&round(&[5, 6]), &[5, 8, 7]), token(1, 8));
        assert_eq!(matching(&round(&[5, 6]), &[9, 6, 7]), token(0, 9));
        assert_eq!(matching(&round(&[]), &[9]), token(0, 9));
        let written = |ids: &[u32], text: &[u32]| streamed(&round(ids), text, &[9]);
        assert_eq!(written(&[5, 6], &[5, 6, 7]), Some(token(2, 7)));
        assert_eq!(written(&[5, 6], &[5, 8]), Some(token(1, 8)));
        assert_eq!((written(&[5, 6], &[5, 6]), written(&[5, 6], &[5]), written(&[], &[])), (None, None, None));
        assert_eq!(written(&[], &[9, 1]), Some(token(0, 9)));
        // The target writes nothing after the end of a text.
        assert_eq!((written(&[5, 9], &[5, 9]), written(&[9, 5], &[9])), (Some(token(2, 9)), Some(token(1, 9))));
        let continued = Round { continued: true, ..round(&[5, 6]) };
        assert_eq!(streamed(&continued, &[5, 6], &[9]), Some(Judgement { accepted: 2, ..Judgement::default() }));
        assert_eq!(streamed(&continued, &[5], &[9]), None);
        for own in [&[5, 6][..], &[5, 6, 7]] {
            assert_eq!(matching(&continued, own), Judgement { accepted: 2, ..Judgement::default() });
        }
    }

    /// No token waits for a later one, and none counts as accepted before it was compared.
    #[test]
    fn guesses_are_judged_as_far_as_the_text_has_come() {
        let sampling = SamplingParameters { temperature: 1.0, top_k: 0, top_p: 1.0 };
        // 1 2 3, in place of 2: 4 5, after 3: 6.
        let branches =
            vec![Branch { parent: 0, from: 1, ids: vec![4, 5] }, Branch { parent: 0, from: 3, ids: vec![6] }];
        let round = Round { branches, ..Round::ahead(sampling, 1, 7, vec![1, 2, 3]) };
        for (written, accepted, branch) in [
            (&[1][..], 0, 0),
            (&[1, 2], 1, 0),
            (&[1, 2, 3, 6, 0], 4, 2),
            (&[1, 2, 3, 0, 0], 3, 0),
            (&[1, 4, 5, 0], 3, 1),
            (&[1, 4, 0, 5], 2, 1),
            (&[1, 4], 1, 0),
            (&[2, 2, 3], 0, 0),
        ] {
            let next = NextToken::Token(written[accepted]);
            let expected = Judgement { accepted, branch, next, ..Judgement::default() };
            let judgement = streamed(&round, written, &[9]).unwrap();
            assert_eq!(judgement, expected, "{written:?}");
            assert_eq!(round.check(&judgement, 8), Ok(()));
        }
        assert_eq!(streamed(&round, &[], &[9]), None);
        assert_eq!([0, 1, 2, 3, 4].map(|tokens| round.guesses_at(tokens)), [0, 1, 3, 5, 6]);
    }
}
