//! Models that cost nothing: logits and a hidden state from a hash of the last two tokens. `outrider-testing` has such
//! models too, but more dependencies.

use arbitrary::{Result, Unstructured};
use outrider_speculation::{
    Choice, Chosen, Forward, TopK,
    draft::{Head, Heads},
    sample::{Distribution, SharedNoise},
};

/// Logits after any prefix.
#[derive(Debug, Clone, Copy)]
pub struct Toy {
    /// Size of the vocabulary, V.
    pub vocab_size: u32,
    /// Seed of the model; models of different seeds are independent.
    pub seed: u8,
    /// Distance of a draft from the target of the same seed, in sixteenths.
    pub difference: u8,
}

impl Toy {
    /// The logits after a prefix.
    pub fn logits(&self, prefix: &[u32]) -> Vec<f32> {
        let state = self.state(prefix);
        (0..u64::from(self.vocab_size))
            .map(|id| {
                let base = level(mix(state ^ id << 32));
                base + f32::from(self.difference) / 16.0 * level(mix(state ^ id << 40))
            })
            .collect()
    }

    /// The hidden state after a prefix: a number for each head of [`heads`].
    pub fn hidden(&self, prefix: &[u32]) -> [f32; 2] {
        let state = self.state(prefix);
        [level(mix(state ^ 1)), level(mix(state ^ 2))]
    }

    fn state(&self, prefix: &[u32]) -> u64 {
        prefix.iter().rev().take(2).fold(self.seed.into(), |state, &id| mix(state ^ u64::from(id) << 8))
    }

    /// max q after a prefix, q without temperature.
    pub fn peak(&self, prefix: &[u32]) -> f64 {
        let weights: Vec<f64> = self.logits(prefix).into_iter().map(|logit| f64::from(logit).exp()).collect();
        weights.iter().copied().fold(0.0, f64::max) / weights.iter().sum::<f64>()
    }

    /// The most likely token after a prefix; of equals the smallest.
    pub fn greedy(&self, prefix: &[u32]) -> u32 {
        let logits = self.logits(prefix);
        (0..self.vocab_size).rev().max_by(|&a, &b| logits[a as usize].total_cmp(&logits[b as usize])).unwrap_or(0)
    }
}

/// τ of the toy's heads.
pub const TAU: f64 = 0.5;

/// A gate that reads the first number of the hidden state and a stop head that reads the second, or one of them, or
/// none.
pub fn heads(input: &mut Unstructured<'_>) -> Result<Option<Heads>> {
    let head = |weights: [f32; 2], bias| Some(Head::new(weights.into(), bias, Vec::new()).expect("they are finite"));
    let (gate, stop) = (head([1.0, 0.0], 0.0), head([0.0, 1.0], 2.0));
    Ok(match input.int_in_range(0..=7u8)? {
        5 => None,
        6 => Some(Heads { gate: None, stop, threshold: TAU }),
        7 => Some(Heads { gate, stop: None, threshold: TAU }),
        _ => Some(Heads { gate, stop, threshold: TAU }),
    })
}

/// Score that the gate of [`heads`] gives a hidden state.
pub fn gate_score(hidden: [f32; 2]) -> f64 {
    1.0 / (1.0 + (-f64::from(hidden[0])).exp())
}

/// Output of a pass for one token.
#[derive(Debug, Clone)]
pub struct Row {
    /// Logits of the vocabulary.
    pub logits: Vec<f32>,
    /// The hidden state that the logits belong to.
    pub hidden: [f32; 2],
}

/// Tokens in a KV cache.
#[derive(Debug, Clone, Default)]
pub struct Cache(pub Vec<u32>);

impl Cache {
    /// Runs a pass of `model` and gives the rows it asks for.
    pub fn forward(&mut self, forward: &Forward, model: &Toy) -> Vec<Row> {
        assert!(forward.keep <= self.0.len(), "keeps {} of {}", forward.keep, self.0.len());
        assert!(!forward.tokens.is_empty() && forward.rows <= forward.tokens.len(), "{forward:?}");
        assert!(forward.tokens.iter().all(|&id| id < model.vocab_size), "{forward:?}");
        self.0.truncate(forward.keep);
        self.0.extend(&forward.tokens);
        (self.0.len() - forward.rows..self.0.len())
            .map(|last| &self.0[..=last])
            .map(|prefix| Row { logits: model.logits(prefix), hidden: model.hidden(prefix) })
            .collect()
    }

    /// Chooses as an engine with choices of its own does: as many guesses as are of use, by its own rows.
    pub fn choose(&mut self, mut forward: Forward, model: &Toy, choice: Choice) -> Vec<Chosen> {
        let mut chosen = Vec::new();
        loop {
            let row = self.forward(&forward, model).pop().expect("a row is asked for");
            let q = Distribution::new(&row.logits, &choice.sampling).expect("the draft's logits are sound");
            let read = forward.keep + forward.tokens.len();
            let noise = SharedNoise::new(choice.seed.unwrap_or_default());
            let first = noise.choose_from(read, &q);
            chosen.push(Chosen { first, second: noise.choose_two(read, &q).second });
            if chosen.len() == choice.most {
                return chosen;
            }
            forward = Forward::new(read, vec![first], 1);
        }
    }
}

/// A row with its largest logits and the mass of the others, for callers that need no more.
pub fn cut(logits: &mut [f32], TopK { k, temperature }: TopK) {
    let mut order: Vec<usize> = (0..logits.len()).collect();
    order.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]));
    let others = order.split_off(order.len().min(k as usize));
    let weight = |&id: &usize| f64::from((logits[id] - logits[order[0]]) / temperature).exp();
    let share = others.iter().map(weight).sum::<f64>() / others.len() as f64;
    let other = if temperature > 0.0 { logits[order[0]] + temperature * share.ln() as f32 } else { f32::NEG_INFINITY };
    // No share is more than what the least of the largest has, but for rounding.
    let least = order.iter().map(|&id| logits[id]).fold(f32::INFINITY, f32::min);
    others.into_iter().for_each(|id| logits[id] = other.min(least));
}

/// A row of logits that no model should give: not finite, flat, or of another length.
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

/// A hidden state of any width and any numbers.
pub fn odd_hidden(input: &mut Unstructured<'_>) -> Result<Vec<f32>> {
    let width = if input.int_in_range(0..=3u8)? == 3 { input.int_in_range(0..=3)? } else { 2 };
    (0..width).map(|_| Ok(if input.arbitrary()? { f32::NAN } else { f32::from(input.arbitrary::<i8>()?) })).collect()
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
