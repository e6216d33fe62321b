//! Checks of the frames that follow a pass: evidence and a verdict, or a token of the target's own.

use outrider_codec::{
    distribution::DraftDist,
    frame::{ErrorCode, Evidence, Frame, Next, TargetDist, Tokens, Verdict},
    scheme::Drafts,
};

use super::{
    Driver,
    reference::{Drafting, Generation},
};
use crate::rules;

/// Rounding error allowed in sums of f32.
const ROUNDING: f64 = 1e-4;

impl Driver {
    /// The frames that came of a pass, the last of which is not evidence. All rows were the model's if `sound`.
    pub(super) fn conclude(&mut self, frames: &[Frame], sound: bool) {
        let mut current = self.reference.generation.take().expect("a generation is under way");
        let goes_on = match frames {
            [Frame::Tokens(tokens)] => self.tokens(&mut current, tokens, sound),
            [Frame::Error(error)] if !sound => {
                assert_eq!((error.generation, error.code), (current.request.generation, ErrorCode::Internal));
                false
            }
            [evidence @ .., Frame::Verdict(verdict)] => self.verdict(&mut current, evidence, verdict, sound),
            other => panic!("a pass does not give {other:?}"),
        };
        self.reference.generation = Some(current).filter(|_| goes_on);
    }

    /// The end of a round; whether the generation goes on.
    fn verdict(&self, current: &mut Generation, evidence: &[Frame], verdict: &Verdict, sound: bool) -> bool {
        let target = &self.reference.target;
        let greedy = sound && current.request.sampling.temperature == 0.0;
        let Generation { request, text, drafting } = current;
        let drafting = drafting.as_mut().expect("the edge drafts");
        assert_eq!(drafting.stream, 0, "a verdict came in place of a token");
        let drafts = drafting.drafts.take().expect("there are drafts");
        let ids = drafts.ids();
        assert_eq!((verdict.generation, verdict.round), (request.generation, drafting.round));
        let accepted = usize::from(verdict.accepted);
        let before = text.len();
        let rejects = accepted < ids.len();
        text.extend(&ids[..accepted]);
        let ended = text[before..].last().is_some_and(|id| target.eos_ids.contains(id));
        assert!(
            !ids[..accepted.saturating_sub(1)].iter().any(|id| target.eos_ids.contains(id)),
            "goes on after its end"
        );
        assert!(!ended || verdict.next == Next::Nothing, "the text goes on after its end");
        let exact = greedy && rules::is_the_targets_when_greedy(drafting.rule);
        let mut token = None;
        match &verdict.next {
            Next::Nothing => {
                let has_no_bonus = !rejects && accepted > 0 && !drafting.has_bonus();
                assert!(ended || has_no_bonus, "nothing follows {accepted} of {} drafts", ids.len());
            }
            Next::Token(id) => {
                assert!(!(rejects && drafting.resamples()), "the edge resamples");
                assert!(rejects || ids.is_empty() || drafting.has_bonus(), "there is no bonus token");
                token = Some(*id);
            }
            Next::Samples(samples) => {
                assert_eq!(drafting.samples(), Some(samples.len()));
                assert!(rejects && samples.iter().all(|&(id, p)| id < target.vocab_size && p > 0.0), "{samples:?}");
                if greedy {
                    let only = (self.model.greedy(text), 1.0);
                    assert!(samples.iter().all(|&sample| sample == only), "{samples:?}");
                }
                drafting.due = true;
            }
            Next::Distribution(dist) => {
                assert!(rejects && drafting.resamples() && drafting.samples().is_none());
                self.check_target(dist);
                if greedy {
                    assert_eq!(dist.0, [(self.model.greedy(text), 1.0)]);
                }
                drafting.due = true;
            }
        }
        let is_rejected = rejects && verdict.next != Next::Nothing;
        if exact && is_rejected {
            assert_ne!(ids[accepted], self.model.greedy(text), "the target's own token was rejected");
        }
        if drafting.evidence {
            assert_eq!(
                evidence.len(),
                accepted + usize::from(is_rejected),
                "for each accepted one and the first rejected one"
            );
        } else {
            assert_eq!(evidence, [], "nobody asked for it");
        }
        for (index, frame) in evidence.iter().enumerate() {
            let Frame::Evidence(evidence) = frame else { panic!("{} came before the verdict", frame.name()) };
            assert_eq!((evidence.generation, evidence.round), (request.generation, drafting.round));
            assert_eq!(usize::from(evidence.index), index);
            self.check_target(&evidence.target);
            if greedy {
                let prefix = [&text[..before], &ids[..index]].concat();
                assert_eq!(evidence.target.0, [(self.model.greedy(&prefix), 1.0)], "{evidence:?}");
            }
            check_rates(evidence, drafting, &drafts, index, is_rejected && index == accepted, exact);
        }
        // What a token in place of a draft may be when nothing is left to chance: the target's, or one that the draft
        // might have been.
        let draft = drafts_dist(&drafts, accepted).filter(|_| is_rejected);
        text.extend(token);
        for end in before..text.len() {
            assert!(text[end] < target.vocab_size, "{} is outside the vocabulary", text[end]);
            let own = self.model.greedy(&text[..end]);
            let is_drafts = end < before + accepted || draft.is_some_and(|dist| dist.count(text[end]) > 0);
            let is_bound = exact || greedy && !is_drafts;
            assert!(!is_bound || text[end] == own, "{} after {:?}, not {own}", text[end], &text[..end]);
        }
        drafting.scheme.commit(&drafts, accepted, token);
        drafting.round += 1;
        drafting.epoch += u32::from(drafting.continued && rejects);
        let finish = if drafting.due { None } else { current.finish(target) };
        assert_eq!(verdict.finish, finish);
        finish.is_none()
    }

    /// A token that the target wrote alone; whether the generation goes on.
    fn tokens(&self, current: &mut Generation, tokens: &Tokens, sound: bool) -> bool {
        let [token] = tokens.ids[..] else { panic!("{tokens:?} where nothing was guessed") };
        assert_eq!((tokens.generation, tokens.accepted), (current.request.generation, 0));
        assert_eq!(tokens.position as usize, current.text.len());
        assert!(token < self.model.vocab_size, "{token} is outside the vocabulary");
        if sound && current.request.sampling.temperature == 0.0 {
            assert_eq!(token, self.model.greedy(&current.text), "after {:?}", current.text);
        }
        current.text.push(token);
        if let Some(drafting) = &mut current.drafting {
            drafting.stream = drafting.stream.checked_sub(1).expect("a token came in place of a verdict");
            drafting.round += u32::from(drafting.stream == 0);
            drafting.scheme.prime(&[token]);
        }
        let finish = current.finish(&self.reference.target);
        assert_eq!(tokens.finish, finish);
        finish.is_none()
    }

    pub(super) fn check_target(&self, target: &TargetDist) {
        assert!(!target.0.is_empty() && target.0.iter().all(|&(id, p)| id < self.model.vocab_size && p > 0.0));
        let sum: f64 = target.0.iter().map(|&(_, p)| f64::from(p)).sum();
        assert!((sum - 1.0).abs() < ROUNDING, "{target:?} adds up to {sum}");
    }
}

/// Checks the probabilities in evidence, where they can be computed from the frames that the cloud was sent. `exact`:
/// the text is the target's for certain.
fn check_rates(evidence: &Evidence, drafting: &Drafting, drafts: &Drafts, index: usize, rejects: bool, exact: bool) {
    let (rejection, divergence) = (f64::from(evidence.rejection), f64::from(evidence.divergence));
    let Some(dist) = drafts_dist(drafts, index) else {
        assert_eq!((rejection, divergence), (0.0, 0.0), "the cloud cannot know them");
        return;
    };
    assert!(!rejects || rejection > 0.0, "a draft was rejected that could not: {evidence:?}");
    if exact || drafting.rule.number == 0 {
        // A draft is rejected where q̂ has more than p: on the whole, with probability TV(q̂, p).
        let p = |id: u32| evidence.target.0.iter().find(|entry| entry.0 == id).map_or(0.0, |entry| entry.1.into());
        let q = |count: u32| f64::from(count) / f64::from(dist.total());
        let distance: f64 = dist.ids().iter().zip(dist.counts()).map(|(&id, &count)| (q(count) - p(id)).max(0.0)).sum();
        assert!((rejection - distance).abs() < ROUNDING && divergence < ROUNDING, "{evidence:?}, TV {distance}");
    }
}

/// q̂ of a draft, if it was sent.
fn drafts_dist(drafts: &Drafts, index: usize) -> Option<&DraftDist> {
    if let Drafts::Distributions(tokens) = drafts { tokens.get(index).map(|token| &token.dist) } else { None }
}
