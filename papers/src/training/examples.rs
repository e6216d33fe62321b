//! Positions of texts with what a head should have said there.
//!
//! SPRINTER's gate meets texts in which tokens of the draft, passed unverified, and of the target alternate. So it is
//! trained on four kinds of text in equal parts (§3.2): originals, completions by the draft, by the target, and by
//! both. Both models go along every text. At each position after the beginning the draft draws a token x ~ q =
//! S(draft), whose ratio q(x)/p(x), p = S(target), is the label's raw material; h is the draft's hidden state that q
//! was read from.

use std::thread;

use outrider_codec::frame::SamplingParameters;
use outrider_models::{Chunk, KvCache, Logits, Model};
use outrider_speculation::{
    draft::TokenFeatures,
    sample::{Distribution, End, LogitsError, Randomness, transform},
};
use serde::Serialize;

use super::error::TrainingError;
use crate::theory::total_variation;

/// The author of a text after its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Kind {
    /// The text's own author.
    ///
    /// A text without one is written by the target without top-k and top-p at temperature 1: the nearest there is to
    /// the pair's training data.
    Original,
    /// The draft model writes.
    Draft,
    /// The target model writes.
    Target,
    /// Either, by a fair draw for every token.
    Mixed,
}

impl Kind {
    /// All four kinds of author.
    pub const ALL: [Self; 4] = [Self::Original, Self::Draft, Self::Target, Self::Mixed];
}

/// A text for both models to follow.
#[derive(Debug, Clone)]
pub struct Job<'a> {
    /// The author after the beginning.
    pub kind: Kind,
    /// Tokens that are there; at least one.
    pub beginning: &'a [u32],
    /// The whole text, beginning included, where it has an author.
    pub original: Option<&'a [u32]>,
    /// Tokens at which the text ends, if not before.
    pub length: usize,
    /// Seed of the random draws.
    pub seed: u64,
}

/// A finished text with its examples.
#[derive(Debug, Clone)]
pub struct Text {
    /// The author of the text.
    pub kind: Kind,
    /// Tokens of the whole text, the beginning included.
    pub tokens: Vec<u32>,
    /// Examples, one for every position after the beginning.
    pub examples: Vec<Example>,
}

/// One position of a text.
#[derive(Debug, Clone)]
pub struct Example {
    /// The draft's hidden state before the token.
    pub hidden: Vec<f32>,
    /// Features of the draft's token that a gate may see.
    pub seen: TokenFeatures,
    /// Probabilities of the draft's token.
    pub drawn: Drawn,
    /// TV(p, q) of all tokens.
    pub total_variation: f64,
}

/// A token that the draft drew, in both models' eyes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Drawn {
    /// Probability under the draft, q(x) > 0.
    pub draft: f64,
    /// Probability under the target, p(x).
    pub target: f64,
}

impl Drawn {
    /// SPRINTER's label: q(x)/p(x) ≤ λ. At λ = 1 these are the tokens that the target accepts for certain.
    pub fn acceptable(&self, lambda: f64) -> bool {
        self.draft <= lambda * self.target
    }

    /// SpecDec++'s label: min(1, p(x)/q(x)), the probability that the target accepts.
    pub fn acceptance(&self) -> f64 {
        (self.target / self.draft).min(1.0)
    }
}

/// Both models of a pair, and the sampling S of both.
#[derive(Clone, Copy)]
pub struct Pair<'a> {
    /// Draws the tokens that are judged.
    pub draft: &'a Model,
    /// The target, which judges the drafts.
    pub target: &'a Model,
    /// Sampling parameters S of both models.
    pub sampling: SamplingParameters,
}

/// Texts that go through the models together.
const LANES: usize = 32;

/// Sampling of the pair's training corpus.
const PLAIN: SamplingParameters = SamplingParameters { temperature: 1.0, top_k: 0, top_p: 1.0 };

impl Pair<'_> {
    /// Goes along all texts; `done` hears how many are finished. The result depends on the jobs only, not on how
    /// many cores there are.
    pub fn go_along(&self, jobs: &[Job<'_>], mut done: impl FnMut(usize)) -> Result<Vec<Text>, TrainingError> {
        let mut waiting = jobs.iter().enumerate();
        let mut lanes: Vec<Lane<'_>> = Vec::new();
        let mut texts: Vec<Option<Text>> = jobs.iter().map(|_| None).collect();
        let mut finished = 0;
        loop {
            while lanes.len() < LANES
                && let Some((index, job)) = waiting.next()
            {
                let lane = Lane::new(index, job, self);
                // A beginning may be all there is.
                if lane.ended(self) {
                    texts[index] = Some(lane.text);
                    finished += 1;
                } else {
                    lanes.push(lane);
                }
            }
            if lanes.is_empty() {
                done(finished);
                return Ok(texts.into_iter().flatten().collect());
            }
            self.step(&mut lanes)?;
            let before = finished;
            let (over, on): (Vec<_>, Vec<_>) = lanes.into_iter().partition(|lane| lane.ended(self));
            lanes = on;
            for lane in over {
                texts[lane.index] = Some(lane.text);
                finished += 1;
            }
            if finished > before {
                done(finished);
            }
        }
    }

    /// Writes one token in every lane.
    fn step(&self, lanes: &mut [Lane<'_>]) -> Result<(), TrainingError> {
        let draft = run(self.draft, lanes.iter_mut().map(|lane| (&lane.text.tokens[..], &mut lane.draft_cache)))?;
        let target = run(self.target, lanes.iter_mut().map(|lane| (&lane.text.tokens[..], &mut lane.target_cache)))?;
        let mut work: Vec<_> = lanes.iter_mut().zip(draft.iter().zip(&target)).collect();
        let share = work.len().div_ceil(thread::available_parallelism().map_or(1, usize::from));
        let outcomes: Vec<Result<(), LogitsError>> = thread::scope(|scope| {
            let one = |share: &mut [(&mut Lane<'_>, (&Logits, &Logits))]| {
                share.iter_mut().try_for_each(|(lane, (draft, target))| lane.extend(draft, target, &self.sampling))
            };
            let threads: Vec<_> = work.chunks_mut(share).map(|share| scope.spawn(move || one(share))).collect();
            let join = |thread: thread::ScopedJoinHandle<'_, _>| match thread.join() {
                Ok(outcome) => outcome,
                Err(panic) => std::panic::resume_unwind(panic),
            };
            threads.into_iter().map(join).collect()
        });
        outcomes.into_iter().collect::<Result<(), _>>().map_err(TrainingError::from)
    }
}

/// Feeds the tokens of a text that its cache lacks, and returns the logits after the last token.
fn run<'a>(
    model: &Model,
    texts: impl Iterator<Item = (&'a [u32], &'a mut KvCache)>,
) -> Result<Vec<Logits>, TrainingError> {
    let fresh: Vec<(&[u32], &mut KvCache, [usize; 1])> = texts
        .map(|(tokens, cache)| {
            let fresh = &tokens[cache.len()..];
            (fresh, cache, [fresh.len() - 1])
        })
        .collect();
    let mut fresh = fresh;
    let mut batch: Vec<Chunk<'_>> =
        fresh.iter_mut().map(|(tokens, cache, last)| Chunk { cache, tokens, positions: last }).collect();
    Ok(model.forward(&mut batch)?)
}

/// A text that is being written.
struct Lane<'a> {
    /// Index of the lane's job.
    index: usize,
    job: &'a Job<'a>,
    text: Text,
    draft_cache: KvCache,
    target_cache: KvCache,
    randomness: Randomness,
}

impl<'a> Lane<'a> {
    fn new(index: usize, job: &'a Job<'a>, pair: &Pair<'_>) -> Self {
        Self {
            index,
            job,
            text: Text { kind: job.kind, tokens: job.beginning.to_vec(), examples: Vec::new() },
            draft_cache: pair.draft.new_cache(),
            target_cache: pair.target.new_cache(),
            randomness: Randomness::new(job.seed, End::Edge),
        }
    }

    /// Returns true at the end of the text. The first token may end texts too: some pairs begin with it.
    fn ended(&self, pair: &Pair<'_>) -> bool {
        let tokens = &self.text.tokens;
        let ends = |token: &u32| pair.target.config().eos_token_ids.contains(token);
        tokens.len() >= self.job.length || tokens[1..].last().is_some_and(ends)
    }

    /// Judges the position, and adds a token.
    fn extend(&mut self, draft: &Logits, target: &Logits, sampling: &SamplingParameters) -> Result<(), LogitsError> {
        let (q, p) = (transform(draft.row(0), sampling)?, transform(target.row(0), sampling)?);
        let x = self.randomness.draw(&q);
        self.text.examples.push(Example {
            hidden: draft.hidden(0).to_vec(),
            seen: TokenFeatures::of(&Distribution::new(draft.row(0), sampling)?, x),
            drawn: Drawn { draft: q[x as usize], target: p[x as usize] },
            total_variation: total_variation(&p, &q),
        });
        let from_draft = match self.job.kind {
            Kind::Original => {
                let given = self.job.original.map(|original| original[self.text.tokens.len()]);
                let token = match given {
                    Some(token) => token,
                    None => self.randomness.draw(&transform(target.row(0), &PLAIN)?),
                };
                self.text.tokens.push(token);
                return Ok(());
            }
            Kind::Draft => true,
            Kind::Target => false,
            Kind::Mixed => self.randomness.below(2) == 0,
        };
        self.text.tokens.push(if from_draft { x } else { self.randomness.draw(&p) });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::built_in;

    #[test]
    fn labels_ask_whether_the_draft_claims_too_much() {
        // The target finds the token twice as likely as the draft.
        let modest = Drawn { draft: 0.2, target: 0.4 };
        assert!(modest.acceptable(1.0) && modest.acceptance() == 1.0);
        let bold = Drawn { draft: 0.4, target: 0.2 };
        assert!(!bold.acceptable(1.0) && !bold.acceptable(1.99) && bold.acceptable(2.0));
        assert_eq!(bold.acceptance(), 0.5);
        // What top-p cuts from the target is never acceptable.
        let cut = Drawn { draft: 0.1, target: 0.0 };
        assert!(!cut.acceptable(1e9) && cut.acceptance() == 0.0);
        let equal = Drawn { draft: 0.3, target: 0.3 };
        assert!(equal.acceptable(1.0) && !equal.acceptable(0.99));
    }

    fn jobs(kinds: &[Kind]) -> Vec<Job<'static>> {
        let job = |(seed, &kind)| Job { kind, beginning: &[0], original: None, length: 40, seed };
        (0..).zip(kinds.iter().cycle().take(40)).map(job).collect()
    }

    /// The mean of min(1, p(x)/q(x)) over x ~ q is 1 − TV(p, q). With p and q exchanged anywhere it is not: over x ~ q
    /// of min(1, q(x)/p(x)), or over x ~ p.
    #[test]
    fn acceptance_is_what_the_distance_says() {
        let (draft, target) = (built_in::draft(), built_in::target());
        let pair = Pair { draft: &draft, target: &target, sampling: PLAIN };
        let texts = pair.go_along(&jobs(&[Kind::Target]), |_| {}).unwrap();
        let examples: Vec<&Example> = texts.iter().flat_map(|text| &text.examples).collect();
        let mean = |of: &dyn Fn(&Example) -> f64| {
            examples.iter().map(|example| of(example)).sum::<f64>() / examples.len() as f64
        };
        let expected = 1.0 - mean(&|example| example.total_variation);
        assert!(examples.len() > 1000);
        // Four standard deviations of a mean of this number of values in [0, 1].
        let tolerance = 2.0 / (examples.len() as f64).sqrt();
        let found = mean(&|example| example.drawn.acceptance());
        assert!((found - expected).abs() < tolerance, "{found} and {expected}");
        let swapped = mean(&|example| Drawn { draft: example.drawn.target, target: example.drawn.draft }.acceptance());
        assert!((swapped - expected).abs() > tolerance, "an exchange would not be seen: {swapped} and {expected}");
        assert!(examples.iter().all(|example| example.hidden.len() == draft.config().hidden_size));
    }

    fn greedy_text(model: &Model, beginning: &[u32], length: usize) -> Vec<u32> {
        let mut tokens = beginning.to_vec();
        while tokens.len() < length && !model.config().eos_token_ids.contains(&tokens[tokens.len() - 1]) {
            let mut cache = model.new_cache();
            let last = [tokens.len() - 1];
            let chunk = Chunk { cache: &mut cache, tokens: &tokens, positions: &last };
            let logits = model.forward(&mut [chunk]).unwrap();
            let row = logits[0].row(0);
            tokens.push((0..row.len()).max_by(|&a, &b| row[a].total_cmp(&row[b])).unwrap() as u32);
        }
        tokens
    }

    #[test]
    fn kinds_write_their_own_texts() {
        let (draft, target) = (built_in::draft(), built_in::target());
        let greedy = SamplingParameters { temperature: 0.0, top_k: 0, top_p: 1.0 };
        let pair = Pair { draft: &draft, target: &target, sampling: greedy };
        let original: Vec<u32> = (0..24).map(|i| i * 31 % 4000).collect();
        let job = |kind| Job { kind, beginning: &original[..4], original: Some(&original), length: 24, seed: 1 };
        let texts = pair.go_along(&Kind::ALL.map(job), |_| {}).unwrap();
        assert_eq!(texts[0].tokens, original);
        let (drafts, targets) = (greedy_text(&draft, &original[..4], 24), greedy_text(&target, &original[..4], 24));
        assert_ne!(drafts, targets);
        assert_eq!((&texts[1].tokens, &texts[2].tokens), (&drafts, &targets));
        assert!(texts[3].tokens != drafts && texts[3].tokens != targets, "one model wrote the mixed text alone");
        for text in &texts {
            assert_eq!(text.examples.len(), text.tokens.len() - 4);
        }
        // A target that agrees with itself: no distance, every draft accepted.
        let same = Pair { draft: &target, ..pair };
        for text in same.go_along(&Kind::ALL.map(job), |_| {}).unwrap() {
            assert!(text.examples.iter().all(|e| e.total_variation == 0.0 && e.drawn.acceptable(1.0)));
        }
    }

    #[test]
    fn texts_depend_on_their_seed_and_not_on_their_company() {
        let (draft, target) = (built_in::draft(), built_in::target());
        let pair = Pair { draft: &draft, target: &target, sampling: PLAIN };
        let jobs = jobs(&Kind::ALL);
        let together = pair.go_along(&jobs, |_| {}).unwrap();
        let alone = pair.go_along(&jobs[5..6], |_| {}).unwrap();
        assert_eq!(alone[0].tokens, together[5].tokens);
        assert_eq!(alone[0].examples[3].hidden, together[5].examples[3].hidden);
        assert_ne!(together[1].tokens, together[5].tokens);
    }
}
