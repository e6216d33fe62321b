//! Short texts of two toy models: what their distribution is, and how often sessions and loops of rounds write each.

use outrider_codec::{
    distribution::DraftToken,
    frame::SamplingParameters,
    scheme::{Scheme, SchemeParameters},
};
use outrider_speculation::{
    draft::{self, Proposal, ThresholdParameters},
    judge::Rule,
    sample::{self, Distribution, End, Randomness, SharedNoise},
    session::edge::{Mode, Settings, Speculation},
};

use crate::{
    closed_forms::Position,
    goodness::{cell, histogram, samples},
    in_process::InProcess,
    toy::ToyModel,
};

/// The prompt of all texts.
pub const PROMPT: [u32; 2] = [1, 2];
/// Texts that grow together, round by round.
const TOGETHER: usize = 10_000;
/// C-SQS with a threshold that moves.
pub const RESTLESS: ThresholdParameters = ThresholdParameters { target: 0.1, step: 0.3, initial: 0.2 };

/// Two models and the edge's settings: everything that the distribution of a text depends on.
#[derive(Debug, Clone)]
pub struct Texts {
    /// The draft model, q before S(·).
    pub draft: ToyModel,
    /// The target model, p before S(·).
    pub target: ToyModel,
    /// The sampling S(·) of the target.
    pub sampling: SamplingParameters,
    /// The temperature of the draft model; `None` for the target's.
    pub draft_temperature: Option<f32>,
    /// The scheme that makes q̂ from the draft model's distribution.
    pub scheme: SchemeParameters,
    /// The threshold of C-SQS.
    pub threshold: ThresholdParameters,
    /// The acceptance rule of the rounds.
    pub rule: Rule,
    /// Drafts of a round, γ.
    pub draft_length: usize,
    /// Tokens of a text, after the prompt.
    pub length: usize,
}

/// A gate: returns true if the token, drawn after the prefix, skips verification.
pub type Gate<'a> = &'a dyn Fn(&[u32], u32) -> bool;

/// Both ends' random draws in one round of a loop.
pub struct Ends {
    /// The seed of the text.
    pub seed: u64,
    /// Random draws of the edge.
    pub edge: Randomness,
    /// The cloud's, which are not those that [`judge`](outrider_speculation::judge::judge) takes.
    pub cloud: Randomness,
    /// The noise that both ends share.
    pub noise: SharedNoise,
}

impl Ends {
    /// The random draws of the round after a text.
    pub fn new(seed: u64, text: &[u32]) -> Self {
        let [mut edge, mut cloud] =
            [(seed, End::Edge), (!seed, End::Cloud)].map(|(seed, end)| Randomness::new(seed, end));
        edge.begin_round(text.len());
        cloud.begin_round(text.len());
        Self { seed, edge, cloud, noise: SharedNoise::new(seed) }
    }
}

impl Texts {
    /// Texts of three tokens, drafted two by two under the exact rule; the draft's logits differ from the target's by
    /// up to `difference`.
    pub fn new(target: ToyModel, difference: f64, scheme: SchemeParameters, sampling: SamplingParameters) -> Self {
        let draft = target.draft(difference);
        Self {
            draft,
            target,
            sampling,
            draft_temperature: None,
            scheme,
            threshold: RESTLESS,
            rule: Rule::EXACT,
            draft_length: 2,
            length: 3,
        }
    }

    /// Texts over a vocabulary of four tokens.
    pub fn of_four(scheme: SchemeParameters, sampling: SamplingParameters) -> Self {
        Self::new(ToyModel::target(4, 5), 1.5, scheme, sampling)
    }

    /// Texts over a vocabulary of three tokens.
    pub fn of_three(scheme: SchemeParameters, sampling: SamplingParameters) -> Self {
        Self::new(ToyModel::target(3, 299), 2.0, scheme, sampling)
    }

    /// A session between the two models, with a context of 64 tokens.
    pub fn connect(&self) -> InProcess {
        InProcess::connect(self.draft.clone(), self.target.clone(), 64, &[])
    }

    /// Settings of the edge.
    pub fn speculation(&self) -> Speculation {
        let speculation = Speculation { rule: self.rule, ..Speculation::new(self.scheme, self.draft_length as u32) };
        Speculation { threshold: self.threshold, draft_temperature: self.draft_temperature, ..speculation }
    }

    /// S(·) of the draft model.
    fn draft_sampling(&self) -> SamplingParameters {
        let temperature = self.draft_temperature.unwrap_or(self.sampling.temperature);
        SamplingParameters { temperature, ..self.sampling }
    }

    /// Counts of the texts that sessions between these two write, by [`cell`]: both state machines, frames and
    /// roll-back included. `before` is called before each.
    pub fn of_sessions(&self, mode: Mode, pair: &mut InProcess, mut before: impl FnMut(&mut InProcess)) -> Vec<u32> {
        let mut settings = Settings { mode, sampling: self.sampling, seed: 0, max_new_tokens: self.length as u32 };
        histogram(self.target.vocab_size(), self.length, |seed| {
            before(pair);
            settings.seed = seed;
            pair.generate(&PROMPT, &settings).tokens
        })
    }

    /// Counts of the texts that a loop of rounds writes, without the state machines, so that errors can be planted.
    /// `round` returns the tokens that follow a text.
    pub fn of_rounds(&self, mut round: impl FnMut(&[u32], &mut Ends) -> Vec<u32>) -> Vec<u32> {
        self.of_rounds_together(|texts| {
            texts.iter().map(|(seed, text)| round(text, &mut Ends::new(*seed, text))).collect()
        })
    }

    /// Counts the texts of a loop of rounds like [`of_rounds`](Self::of_rounds), many texts at a time, each with its
    /// seed.
    pub fn of_rounds_together(&self, mut round: impl FnMut(&[(u64, Vec<u32>)]) -> Vec<Vec<u32>>) -> Vec<u32> {
        let vocab_size = self.target.vocab_size();
        let mut counts = vec![0; (vocab_size as usize).pow(self.length as u32)];
        let seeds: Vec<u64> = (0..samples(counts.len()).into()).collect();
        for seeds in seeds.chunks(TOGETHER) {
            let mut texts: Vec<(u64, Vec<u32>)> = seeds.iter().map(|&seed| (seed, PROMPT.to_vec())).collect();
            while !texts.is_empty() {
                let written = round(&texts);
                texts.iter_mut().zip(written).for_each(|((_, text), written)| text.extend(written));
                texts.retain(|(_, text)| match text.get(PROMPT.len()..PROMPT.len() + self.length) {
                    Some(text) => {
                        counts[cell(text, vocab_size)] += 1;
                        false
                    }
                    None => true,
                });
            }
        }
        counts
    }

    /// The drafts of a round, each made by `draft` from the draft model's logits until it ends the round, and the
    /// target's logits before each of them and after the last.
    pub fn round(
        &self,
        text: &[u32],
        mut draft: impl FnMut(&[f32], usize) -> Option<DraftToken>,
    ) -> (Vec<DraftToken>, Vec<Vec<f32>>) {
        let (mut prefix, mut drafts) = (text.to_vec(), Vec::new());
        let mut rows = vec![self.target.logits(&prefix)];
        while drafts.len() < self.draft_length
            && let Some(token) = draft(&self.draft.logits(&prefix), prefix.len())
        {
            prefix.push(token.id);
            drafts.push(token);
            rows.push(self.target.logits(&prefix));
        }
        (drafts, rows)
    }

    /// Draws a draft as the edge does.
    pub fn draw(&self, logits: &[f32], edge: &mut Randomness) -> DraftToken {
        let scheme = Scheme::new(self.scheme, self.target.vocab_size()).unwrap();
        let q = Distribution::new(logits, &self.draft_sampling()).unwrap();
        draft::draw(draft::propose(&q, self.scheme, &scheme, self.threshold.initial).unwrap(), edge)
    }

    /// q̂ after a prefix of a text. C-SQS's threshold has had an update for every committed token, from either end.
    fn proposal(&self, prefix: &[u32]) -> Proposal {
        let scheme = Scheme::new(self.scheme, self.target.vocab_size()).unwrap();
        let propose = |prefix: &[u32], beta: f64| {
            let row = self.draft.logits(prefix);
            let q = Distribution::new(&row, &self.draft_sampling()).unwrap();
            draft::propose(&q, self.scheme, &scheme, beta).unwrap()
        };
        let ThresholdParameters { target, step, initial } = self.threshold;
        let moved =
            |beta: f64, end: usize| (beta - step * (propose(&prefix[..end], beta).dropped_mass - target)).min(1.0);
        propose(prefix, (PROMPT.len()..prefix.len()).fold(initial, moved))
    }

    /// The position after a prefix.
    pub fn position(&self, prefix: &[u32]) -> Position {
        let (draft, target) = (self.draft.logits(prefix), self.target.logits(prefix));
        Position::new(&draft, &target, &self.sampling, (&self.proposal(prefix).dist, self.scheme))
    }

    /// S(q) after a prefix.
    fn own(&self, prefix: &[u32]) -> Vec<f64> {
        sample::transform(&self.draft.logits(prefix), &self.draft_sampling()).unwrap()
    }

    /// The distribution of the texts after the prompt: the last token counts fastest. Tokens that the `gate` passes
    /// follow the draft model's own distribution, S(q), whatever q̂ leaves of it.
    ///
    /// Rounds are enumerated: a token depends on how many drafts precede it in its round, since a bonus token is p's,
    /// and on how many tokens are left. Drafts after a rejected one leave no trace, so a round is a chain of its
    /// drafts, each of which continues it or ends it.
    pub fn distribution(&self, gate: Gate<'_>) -> Vec<f64> {
        let mut distribution = vec![0.0; (self.target.vocab_size() as usize).pow(self.length as u32)];
        self.add(&mut distribution, &PROMPT, 0, 1.0, gate);
        distribution
    }

    /// The distribution of the texts without a gate.
    pub fn ungated(&self) -> Vec<f64> {
        self.distribution(&|_, _| false)
    }

    /// The distribution of the texts that the target writes alone.
    pub fn of_target(&self) -> Vec<f64> {
        self.target.distribution(&PROMPT, self.length, &self.sampling)
    }

    /// The drafts of a round: γ, and one in the bonus token's place where that is not p's. With γ = 0 there are none.
    fn drafts(&self) -> usize {
        match self.draft_length {
            0 => 0,
            length => length + usize::from(!self.rule.info().has_bonus),
        }
    }

    fn add(&self, distribution: &mut [f64], text: &[u32], drafted: usize, mass: f64, gate: Gate<'_>) {
        let left = PROMPT.len() + self.length - text.len();
        if mass == 0.0 {
            return;
        }
        if left == 0 {
            distribution[cell(&text[PROMPT.len()..], self.target.vocab_size())] += mass;
            return;
        }
        let position = self.position(text);
        let mut grow = |next: &[f64], drafted: usize| {
            for (id, p) in (0u32..).zip(next) {
                self.add(distribution, &[text, &[id]].concat(), drafted, mass * p, gate);
            }
        };
        // The draft with the probability that it is in doubt; without a gate, and after the first, it always is.
        let mut draft = position.q.clone();
        if drafted == 0 {
            let own = self.own(text);
            let passes = |id: usize| gate(text, id as u32);
            let passed: Vec<f64> = own.iter().enumerate().map(|(id, q)| if passes(id) { *q } else { 0.0 }).collect();
            grow(&passed, 0);
            draft = in_doubt(&own, &position.q, &passes);
        }
        let doubt: f64 = draft.iter().sum();
        if drafted < self.drafts() && left > usize::from(self.rule.info().has_bonus) {
            let is_coupled = self.scheme == SchemeParameters::Coupled;
            let fate = if is_coupled { position.coupled() } else { position.fate(&self.rule) };
            let of_q = |(id, accepted): (usize, &f64)| {
                if draft[id] > 0.0 { accepted * draft[id] / position.q[id] } else { 0.0 }
            };
            let accepted: Vec<f64> = fate.accepted.iter().enumerate().map(of_q).collect();
            let rejected = doubt - accepted.iter().sum::<f64>();
            let replaced = fate.replaced.iter().sum::<f64>();
            grow(&accepted, drafted + 1);
            if replaced > 0.0 {
                grow(&fate.replaced.iter().map(|mass| mass / replaced * rejected).collect::<Vec<_>>(), 0);
            }
        } else if drafted > 0 && !self.rule.info().has_bonus {
            self.add(distribution, text, 0, mass, gate);
        } else {
            grow(&position.p.iter().map(|p| p * doubt).collect::<Vec<_>>(), 0);
        }
    }
}

/// The distribution of x̂ ~ q̂ = `draft` where x ~ q = `own`, maximally coupled to it, does not pass. They are equal
/// with probability min(q, q̂); otherwise each is drawn from what it has more than the other, independently.
fn in_doubt(own: &[f64], draft: &[f64], passes: &dyn Fn(usize) -> bool) -> Vec<f64> {
    let more = |a: f64, b: f64| (a - b).max(0.0);
    let (mut differs, mut doubted) = (0.0, 0.0);
    for (id, (q, draft)) in own.iter().zip(draft).enumerate() {
        differs += more(*q, *draft);
        doubted += if passes(id) { 0.0 } else { more(*q, *draft) };
    }
    let doubted = if differs > 0.0 { doubted / differs } else { 0.0 };
    let both = own.iter().zip(draft).enumerate();
    both.map(|(id, (q, draft))| if passes(id) { 0.0 } else { q.min(*draft) } + more(*draft, *q) * doubted).collect()
}
