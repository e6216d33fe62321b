//! Models that cost nothing: logits from a hash of the last two tokens. What `outrider-tests` has as well, without
//! what that crate depends on.

use arbitrary::{Result, Unstructured};
use outrider_speculation::Forward;

/// Logits after any prefix.
#[derive(Debug, Clone, Copy)]
pub struct Toy {
    /// V.
    pub vocab_size: u32,
    /// Models of different seeds know nothing of each other.
    pub seed: u8,
    /// How far a draft is from the target of the same seed, in sixteenths.
    pub difference: u8,
}

impl Toy {
    /// The logits after a prefix.
    pub fn logits(&self, prefix: &[u32]) -> Vec<f32> {
        let state = prefix.iter().rev().take(2).fold(self.seed.into(), |state, &id| mix(state ^ u64::from(id) << 8));
        (0..u64::from(self.vocab_size))
            .map(|id| {
                let base = level(mix(state ^ id << 32));
                base + f32::from(self.difference) / 16.0 * level(mix(state ^ id << 40))
            })
            .collect()
    }

    /// The most likely token after a prefix; of equals the smallest.
    pub fn greedy(&self, prefix: &[u32]) -> u32 {
        let logits = self.logits(prefix);
        (0..self.vocab_size).rev().max_by(|&a, &b| logits[a as usize].total_cmp(&logits[b as usize])).unwrap_or(0)
    }
}

/// What a KV cache holds.
#[derive(Debug, Clone, Default)]
pub struct Cache(pub Vec<u32>);

impl Cache {
    /// Runs a pass of `model` and gives the rows it asks for.
    pub fn forward(&mut self, forward: &Forward, model: &Toy) -> Vec<Vec<f32>> {
        assert!(forward.keep <= self.0.len(), "keeps {} of {}", forward.keep, self.0.len());
        assert!(!forward.tokens.is_empty() && forward.rows <= forward.tokens.len(), "{forward:?}");
        assert!(forward.tokens.iter().all(|&id| id < model.vocab_size), "{forward:?}");
        self.0.truncate(forward.keep);
        self.0.extend(&forward.tokens);
        (self.0.len() - forward.rows..self.0.len()).map(|last| model.logits(&self.0[..=last])).collect()
    }

    /// Asserts that what is kept and fed is the start of `text`, as far as either goes.
    pub fn assert_holds(&self, text: &[u32]) {
        let both = self.0.len().min(text.len());
        assert_eq!(self.0[..both], text[..both], "the cache does not hold the text");
    }
}

/// A row of logits that a model should not give: not finite, flat, or of another length.
pub fn odd_row(input: &mut Unstructured<'_>, vocab_size: u32) -> Result<Vec<f32>> {
    let mut row = vec![0.0; vocab_size as usize];
    let place = input.int_in_range(0..=row.len().saturating_sub(1))?;
    let value = match input.int_in_range(0..=5u8)? {
        0 => f32::NAN,
        1 => f32::INFINITY,
        2 => f32::NEG_INFINITY,
        3 => f32::MAX,
        4 => f32::MIN_POSITIVE,
        _ => 0.0,
    };
    match input.int_in_range(0..=4u8)? {
        0 => row.fill(value),
        1 => row.clear(),
        2 => row.truncate(place),
        3 => row.resize(row.len() + place + 1, value),
        _ => {}
    }
    if let Some(logit) = row.get_mut(place) {
        *logit = value;
    }
    Ok(row)
}

/// splitmix64's finalizer.
fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// A number in [−4, 4).
fn level(x: u64) -> f32 {
    (x >> 40) as f32 / (1 << 21) as f32 - 4.0
}
