//! Language models small enough to know their distribution in closed form.

use std::sync::Arc;

use outrider_codec::frame::{Limits, SamplingParameters};
use outrider_models::DraftVocabulary;
use outrider_speculation::{
    Forward,
    draft::Heads,
    judge::Judgement,
    sample,
    session::{
        cloud::{Pass, TargetInfo},
        edge::DraftInfo,
    },
};

const TOKENIZER_HASH: [u8; 32] = [9; 32];

/// Logits after any prefix, made from a hash of its last two tokens and a seed.
#[derive(Debug, Clone)]
pub struct ToyModel {
    vocab_size: u32,
    seed: u64,
    /// Distance of this model's logits from those of the model with the same seed and no difference.
    difference: f64,
    salt: u64,
    /// Output head of fewer rows than tokens, if it has one.
    head: Option<Arc<TrimmedHead>>,
}

/// Output head with rows for some tokens only.
#[derive(Debug)]
struct TrimmedHead {
    /// Token whose logit each row computes.
    rows: Vec<u32>,
    /// Token that each row's logit is taken for.
    vocabulary: DraftVocabulary,
}

impl ToyModel {
    /// The target of a seed.
    pub fn target(vocab_size: u32, seed: u64) -> Self {
        Self { vocab_size, seed, difference: 0.0, salt: 0, head: None }
    }

    /// A draft that resembles this target: its logits differ by up to `difference` each way.
    pub fn draft(&self, difference: f64) -> Self {
        Self { difference, salt: 77, ..self.clone() }
    }

    /// The model with a head that has a row for each of the tokens in `rows`; all others have probability 0. `d2t` is
    /// the token of each row in ascending order: the same tokens, unless an error is planted.
    pub fn trimmed(&self, rows: &[u32], d2t: &[u32]) -> Self {
        assert_eq!(rows.len(), d2t.len(), "a token for each row");
        let vocabulary = DraftVocabulary::of_tokens(d2t.to_vec()).unwrap();
        Self { head: Some(Arc::new(TrimmedHead { rows: rows.to_vec(), vocabulary })), ..self.clone() }
    }

    /// Size of the vocabulary, V.
    pub fn vocab_size(&self) -> u32 {
        self.vocab_size
    }

    /// Description of the model as the target of a session.
    pub fn target_info(&self, context_length: u32, eos_ids: &[u32]) -> TargetInfo {
        let (vocab_size, tokenizer_hash, eos_ids) = (self.vocab_size, TOKENIZER_HASH, eos_ids.to_vec());
        TargetInfo {
            vocab_size,
            tokenizer_hash,
            limits: Limits {
                max_in_flight: 8,
                max_guesses: 64,
                max_branches: 16,
                ..Limits::rounds(context_length, 16)
            },
            eos_ids,
        }
    }

    /// Description of the model as a draft, with trained heads on its [hidden states](Self::hidden) or without.
    pub fn draft_info(&self, context_length: u32, heads: Option<Heads>) -> DraftInfo {
        let (vocab_size, tokenizer_hash, heads) = (self.vocab_size, TOKENIZER_HASH, heads.map(Arc::new));
        DraftInfo { vocab_size, tokenizer_hash, context_length, heads, guess_chance: None }
    }

    /// The logits after a prefix.
    pub fn logits(&self, prefix: &[u32]) -> Vec<f32> {
        let state = prefix.iter().rev().take(2).fold(self.seed, |state, &id| mix(state ^ u64::from(id + 1)));
        let logit = |id: u32| {
            let base = 2.0 * signed(mix(state ^ (u64::from(id) << 32)));
            (base + self.difference * signed(mix(state ^ self.salt ^ (u64::from(id) << 40)))) as f32
        };
        let Some(head) = &self.head else { return (0..self.vocab_size).map(logit).collect() };
        let rows: Vec<f32> = head.rows.iter().copied().map(logit).collect();
        let mut logits = Vec::new();
        head.vocabulary.spread(&rows, rows.len(), self.vocab_size as usize, &mut logits);
        logits
    }

    /// A hidden state after a prefix: two numbers in [−1, 1), from the same hash as the logits.
    pub fn hidden(&self, prefix: &[u32]) -> Vec<f32> {
        let state = prefix.iter().rev().take(2).fold(self.seed, |state, &id| mix(state ^ u64::from(id + 1)));
        (1..3).map(|index| signed(mix(state ^ (index << 50))) as f32).collect()
    }

    /// The distribution of the `length` tokens after a prefix under S: probability of every sequence, the last token
    /// counting fastest.
    pub fn distribution(&self, prompt: &[u32], length: usize, parameters: &SamplingParameters) -> Vec<f64> {
        let mut distribution = vec![(prompt.to_vec(), 1.0)];
        for _ in 0..length {
            distribution = distribution
                .into_iter()
                .flat_map(|(prefix, mass)| {
                    let next = sample::transform(&self.logits(&prefix), parameters).unwrap();
                    next.into_iter()
                        .zip(0u32..)
                        .map(move |(p, id)| ([&prefix[..], &[id]].concat(), mass * p))
                        .collect::<Vec<_>>()
                })
                .collect();
        }
        distribution.into_iter().map(|(_, mass)| mass).collect()
    }

    /// Greedy decoding by this model alone.
    pub fn greedy(&self, prompt: &[u32], length: usize, eos_ids: &[u32]) -> Vec<u32> {
        let mut text = prompt.to_vec();
        for _ in 0..length {
            let greedy = SamplingParameters { temperature: 0.0, top_k: 0, top_p: 1.0 };
            let p = sample::transform(&self.logits(&text), &greedy).unwrap();
            let id = p.iter().position(|&p| p == 1.0).unwrap() as u32;
            text.push(id);
            if eos_ids.contains(&id) {
                break;
            }
        }
        text.split_off(prompt.len())
    }
}

/// A model with a KV cache that remembers its tokens, so that a wrong roll-back gives wrong logits.
#[derive(Debug, Clone)]
pub struct CachedToy {
    model: ToyModel,
    cache: Vec<u32>,
    /// Number of passes run so far.
    pub passes: usize,
}

impl CachedToy {
    /// A model with an empty cache.
    pub fn new(model: ToyModel) -> Self {
        Self { model, cache: Vec::new(), passes: 0 }
    }

    /// Runs a pass: rows of logits, each with its hidden state. Panics if it keeps more than there is.
    pub fn forward(&mut self, forward: &Forward) -> Vec<(Vec<f32>, Vec<f32>)> {
        assert!(forward.keep <= self.cache.len(), "keeps {} of {}", forward.keep, self.cache.len());
        assert!(!forward.tokens.is_empty() && forward.rows <= forward.tokens.len());
        self.passes += 1;
        self.cache.truncate(forward.keep);
        let silent = forward.tokens.len() - forward.rows;
        self.cache.extend(&forward.tokens[..silent]);
        forward.tokens[silent..]
            .iter()
            .map(|&id| {
                self.cache.push(id);
                (self.model.logits(&self.cache), self.model.hidden(&self.cache))
            })
            .collect()
    }

    /// Runs a pass of the target, and judges its round.
    pub fn judge(&mut self, pass: &Pass) -> Judgement {
        let mut rows: Vec<Vec<f32>> = self.forward(&pass.forward).into_iter().map(|row| row.0).collect();
        let round = &pass.round;
        for (line, branch) in (1..).zip(&round.branches) {
            let text = [&self.cache[..round.position], &round.line(line)].concat();
            let first = round.position + branch.from + 1;
            rows.extend((first..=text.len()).map(|length| self.model.logits(&text[..length])));
        }
        pass.judge(&rows.iter().map(Vec::as_slice).collect::<Vec<_>>()).unwrap()
    }
}

/// splitmix64's finalizer.
fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// A number in [−1, 1).
fn signed(x: u64) -> f64 {
    (x >> 11) as f64 / (1u64 << 52) as f64 - 1.0
}
