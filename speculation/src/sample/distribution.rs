//! The sampling transform S(·): logits to the distribution that is sampled.
//!
//! Both ends apply it: the edge to the draft's logits, the cloud to the target's. "The target's own text" in the
//! exactness contract means samples from S(target).
//!
//! A vocabulary has 151936 tokens, say, and few of them matter. So a [`Distribution`] is not a list of V numbers: it is
//! what two passes over the logits find, and gives any token's probability from the token's logit. The first pass finds
//! the largest logit (of every piece), the second the sum of the weights; top-k and top-p look at the tokens above a
//! bound that no token they keep is below. Nothing sorts V numbers, and nothing keeps them.
//!
//! Probabilities are those of softmax within a relative error of 10⁻¹³, for V up to 2²⁴ and logits within 200·T of the
//! largest, and 0 from 2⁻¹⁰²² on; they add up to 1 within V·2⁻⁵². The same token always gets the same number.

use core::cell::OnceCell;

use outrider_codec::frame::SamplingParameters;

use super::{
    error::LogitsError,
    exponential, order,
    random::Randomness,
    scan::{PIECE, Scan},
    softmax::Softmax,
};

/// S(softmax(logits)): probabilities of all V tokens, summing to 1 up to rounding.
///
/// Order: temperature, then top-k, then top-p (the order of the Hugging Face generators). Ties at the edge of
/// top-k, within top-p and at temperature 0 go to the smaller id. Temperature 0 gives one token probability 1.
///
/// [`Distribution`] has the same numbers without a list of them.
pub fn transform(logits: &[f32], parameters: &SamplingParameters) -> Result<Vec<f64>, LogitsError> {
    Ok(Distribution::new(logits, parameters)?.dense())
}

/// The distribution that [`transform`] gives, as a function of the row of logits that it borrows.
#[derive(Debug, Clone)]
pub struct Distribution<'a> {
    logits: &'a [f32],
    scan: Scan,
    /// log2(e)/T; 0 at T = 0, where one token is kept.
    rate: f64,
    kept: Kept,
    /// The sum of the weights of each [`PIECE`] of the kept tokens.
    masses: Vec<f64>,
    /// The sum of the masses of all pieces.
    partition: f64,
    unscaled: OnceCell<Softmax>,
}

/// The tokens that top-k, top-p and temperature 0 keep. Tokens without weight may be among them.
#[derive(Debug, Clone)]
enum Kept {
    /// All tokens of the vocabulary.
    All,
    /// The tokens up to a place in the [order].
    First {
        /// The key of the last one.
        last: u64,
        /// All tokens kept, ascending.
        ids: Vec<u32>,
    },
}

impl<'a> Distribution<'a> {
    /// Makes the distribution of a row of V logits.
    ///
    /// # Errors
    /// If a logit is NaN or +∞, or all are −∞, or there is none.
    pub fn new(logits: &'a [f32], parameters: &SamplingParameters) -> Result<Self, LogitsError> {
        let scan = Scan::of(logits)?;
        let unscaled = OnceCell::new();
        if parameters.temperature == 0.0 {
            let id = scan.best(logits);
            let kept = Kept::First { last: order::key(logits[id as usize], id), ids: vec![id] };
            return Ok(Self { logits, scan, rate: 0.0, kept, masses: vec![1.0], partition: 1.0, unscaled });
        }
        let rate = core::f64::consts::LOG2_E / f64::from(parameters.temperature);
        let mut distribution =
            Self { logits, scan, rate, kept: Kept::All, masses: Vec::new(), partition: 0.0, unscaled };
        let k = parameters.top_k as usize;
        let cut_by_k = k > 0 && k < logits.len();
        if !cut_by_k {
            distribution.add_up();
        }
        if cut_by_k || parameters.top_p < 1.0 {
            distribution.cut(cut_by_k.then_some(k), parameters.top_p.into());
            distribution.add_up();
        }
        Ok(distribution)
    }

    /// Keeps the `k` most likely tokens, and then of those the first whose mass is `top_p` of theirs.
    fn cut(&mut self, k: Option<usize>, top_p: f64) {
        let bound = match k {
            Some(k) => self.scan.bound_of(k),
            // All tokens lighter than this have together less than top-p leaves out.
            None => self.logit_of(((1.0 - top_p) * self.partition / self.logits.len() as f64).min(1.0)),
        };
        let mut keys = self.keys_from(bound);
        let weight = |key| self.weight(self.logits[order::id(key) as usize]);
        let mut kept = keys.len();
        let mut mass = self.partition;
        if let Some(k) = k {
            kept = order::first(&mut keys, k);
            mass = keys[..kept].iter().map(|&key| weight(key)).sum();
        }
        if top_p < 1.0 {
            kept = order::first_of_mass(&mut keys[..kept], weight, top_p * mass);
        }
        keys.truncate(kept);
        let last = keys.iter().copied().max().unwrap_or(u64::MAX);
        let mut ids: Vec<u32> = keys.into_iter().map(order::id).collect();
        ids.sort_unstable();
        self.kept = Kept::First { last, ids };
    }

    /// Makes the second pass, which adds up the weights.
    fn add_up(&mut self) {
        let (max, rate) = (f64::from(self.scan.max), self.rate);
        self.masses = match &self.kept {
            Kept::All => self.logits.chunks(PIECE).map(|piece| exponential::mass(piece, max, rate)).collect(),
            Kept::First { ids, .. } => {
                let mass = |piece: &[u32]| piece.iter().map(|&id| self.weight(self.logits[id as usize])).sum();
                ids.chunks(PIECE).map(mass).collect()
            }
        };
        self.partition = self.masses.iter().sum();
    }

    /// The row of logits, of length V.
    pub(crate) fn logits(&self) -> &'a [f32] {
        self.logits
    }

    /// V, the size of the vocabulary.
    pub(crate) fn vocab_size(&self) -> u32 {
        self.logits.len() as u32
    }

    /// A token's probability; 0 for an id outside of the vocabulary.
    pub fn probability(&self, id: u32) -> f64 {
        self.kept_weight(id) / self.partition
    }

    /// softmax of the logits at T = 1, without top-k and top-p; computed once.
    pub(crate) fn unscaled(&self) -> &Softmax {
        self.unscaled.get_or_init(|| Softmax::of(self.logits, self.scan.max))
    }

    /// All V probabilities.
    pub fn dense(&self) -> Vec<f64> {
        let mut probabilities = vec![0.0; self.logits.len()];
        match &self.kept {
            Kept::All => self.weights(0, &mut probabilities),
            Kept::First { ids, .. } => {
                for &id in ids {
                    probabilities[id as usize] = self.weight(self.logits[id as usize]);
                }
            }
        }
        for probability in &mut probabilities {
            *probability /= self.partition;
        }
        probabilities
    }

    /// The entropy in nats.
    pub(crate) fn entropy(&self) -> f64 {
        self.at_least(0.0).map(|(_, probability)| -probability * probability.ln()).sum()
    }

    /// The tokens whose probability is at least `least` and above zero, ascending, with their probabilities.
    pub(crate) fn at_least(&self, least: f64) -> impl Iterator<Item = (u32, f64)> {
        let bound = self.logit_of(least * self.partition);
        let ids = self.kept_from(bound).map(|id| (id, self.probability(id)));
        ids.filter(move |&(_, probability)| probability >= least && probability > 0.0)
    }

    /// The `k` most likely tokens, fewer if fewer have any mass, ascending. Ties go to the smaller id.
    pub(crate) fn most_likely(&self, k: u32) -> Vec<u32> {
        let k = k as usize;
        let mut keys: Vec<u64> = match &self.kept {
            Kept::All => self.keys_from(self.scan.bound_of(k)),
            Kept::First { ids, .. } => ids.iter().map(|&id| order::key(self.logits[id as usize], id)).collect(),
        };
        let first = order::first(&mut keys, k);
        keys.truncate(first);
        let mut ids: Vec<u32> = keys.into_iter().map(order::id).filter(|&id| self.kept_weight(id) > 0.0).collect();
        ids.sort_unstable();
        ids
    }

    /// The most likely token; of several the smallest.
    pub(crate) fn likeliest(&self) -> u32 {
        // Every distribution has a token.
        self.most_likely(1).first().copied().unwrap_or_default()
    }

    /// The most likely token but for the likeliest, `first`. At temperature 0, which leaves no other token, the next
    /// likeliest before that. `None` if there is none.
    pub(crate) fn second_likeliest(&self, first: u32) -> Option<u32> {
        if self.is_greedy() {
            return self.next_likeliest(first);
        }
        self.most_likely(2).into_iter().find(|id| *id != first)
    }

    /// True if temperature 0 leaves one token.
    pub(crate) fn is_greedy(&self) -> bool {
        self.rate == 0.0
    }

    /// The most likely token but for one, before anything is cut; `None` if no other can follow.
    pub(crate) fn next_likeliest(&self, best: u32) -> Option<u32> {
        let others = self.logits.iter().zip(0u32..).filter(|&(logit, id)| id != best && logit.is_finite());
        others.map(|(&logit, id)| order::key(logit, id)).min().map(order::id)
    }

    /// The sum of the weights that [`weigh`](Self::weigh) gives.
    pub(crate) fn partition(&self) -> f64 {
        self.partition
    }

    /// Gives the kept tokens in proportion to their probabilities, by ascending id.
    pub(crate) fn weigh(&self, mut give: impl FnMut(Weighed<'_>)) {
        match &self.kept {
            Kept::All => {
                for (piece, largest) in self.scan.pieces() {
                    let first = piece * PIECE;
                    let weights = || {
                        let mut weights = [0.0; PIECE];
                        self.weights(first, &mut weights);
                        weights
                    };
                    give(Weighed::Piece { first: first as u32, largest: self.weight(largest), weights: &weights });
                }
            }
            Kept::First { ids, .. } => {
                let tokens: Vec<(u32, f64)> =
                    ids.iter().map(|&id| (id, self.weight(self.logits[id as usize]))).collect();
                give(Weighed::Few(&tokens));
            }
        }
    }

    /// Draws a token at random.
    pub fn draw(&self, randomness: &mut Randomness) -> u32 {
        self.without(&[]).at(randomness.unit())
    }

    /// The distribution without a few tokens, `ids`, ascending.
    pub(crate) fn without<'b>(&'b self, ids: &'b [u32]) -> Rest<'b> {
        let mut masses = self.masses.clone();
        let mut from = 0;
        for (piece, mass) in masses.iter_mut().enumerate() {
            let end = self.piece_end(piece);
            let to = from + ids[from..].iter().take_while(|&&id| id < end).count();
            if from < to {
                *mass = self.piece(piece).map(|id| self.weight_without(id, ids)).sum();
            }
            from = to;
        }
        let mass = masses.iter().sum();
        Rest { of: self, ids, masses, mass }
    }

    /// One above the ids that belong to a piece.
    fn piece_end(&self, piece: usize) -> u32 {
        let after = (piece + 1) * PIECE;
        match &self.kept {
            Kept::All => after as u32,
            Kept::First { ids, .. } => ids.get(after).copied().unwrap_or(u32::MAX),
        }
    }

    /// The tokens of a piece, ascending.
    fn piece(&self, piece: usize) -> impl Iterator<Item = u32> {
        let start = piece * PIECE;
        let (ids, count): (&[u32], usize) = match &self.kept {
            Kept::All => (&[], self.logits.len()),
            Kept::First { ids, .. } => (ids, ids.len()),
        };
        (start..count.min(start + PIECE)).map(move |place| ids.get(place).copied().unwrap_or(place as u32))
    }

    fn weight_without(&self, id: u32, ids: &[u32]) -> f64 {
        if ids.binary_search(&id).is_ok() { 0.0 } else { self.weight(self.logits[id as usize]) }
    }

    /// The weights of the tokens from `first` on, of which nothing is cut.
    fn weights(&self, first: usize, out: &mut [f64]) {
        exponential::weights(&self.logits[first..], self.scan.max.into(), self.rate, out);
    }

    /// 2^y: what a kept token with this logit has of the partition; at most 1.
    fn weight(&self, logit: f32) -> f64 {
        exponential::exp2(exponential::octaves(logit, self.scan.max.into(), self.rate))
    }

    fn kept_weight(&self, id: u32) -> f64 {
        match (self.logits.get(id as usize), &self.kept) {
            (None, _) => 0.0,
            (Some(&logit), Kept::First { last, .. }) if order::key(logit, id) > *last => 0.0,
            (Some(&logit), _) => self.weight(logit),
        }
    }

    /// A logit below which no token has so large a weight; −∞ for a weight that is not above zero.
    fn logit_of(&self, weight: f64) -> f32 {
        if weight > 0.0 && self.rate > 0.0 {
            let logit = f64::from(self.scan.max) + weight.log2() / self.rate;
            // Below by more than all that was rounded.
            (logit - 1e-6 * (1.0 + logit.abs() + f64::from(self.scan.max).abs())) as f32
        } else {
            f32::NEG_INFINITY
        }
    }

    fn keys_from(&self, bound: f32) -> Vec<u64> {
        let mut keys = Vec::new();
        self.scan.from(self.logits, bound).for_each(|id| keys.push(order::key(self.logits[id as usize], id)));
        keys
    }

    /// The kept tokens whose logits are at least `bound`, ascending.
    fn kept_from(&self, bound: f32) -> impl Iterator<Item = u32> {
        let (all, ids) = match &self.kept {
            Kept::All => (Some(self.scan.from(self.logits, bound)), &[][..]),
            Kept::First { ids, .. } => (None, &ids[..]),
        };
        all.into_iter().flatten().chain(ids.iter().copied().filter(move |&id| self.logits[id as usize] >= bound))
    }
}

/// Some tokens of a [`Distribution`] with weights in proportion to their probabilities, at most 1.
pub(crate) enum Weighed<'a> {
    /// A piece of the vocabulary.
    Piece {
        /// The first token of the piece.
        first: u32,
        /// The largest weight in the piece.
        largest: f64,
        /// The weights of the piece; 0 beyond the vocabulary.
        weights: &'a dyn Fn() -> [f64; PIECE],
    },
    /// A few tokens with their weights, by ascending id.
    Few(&'a [(u32, f64)]),
}

/// A [`Distribution`] without some tokens.
#[derive(Debug, Clone)]
pub(crate) struct Rest<'a> {
    of: &'a Distribution<'a>,
    /// Ids that are left out, ascending.
    ids: &'a [u32],
    /// The weight that each piece has left, and their sum.
    masses: Vec<f64>,
    mass: f64,
}

impl Rest<'_> {
    /// The probability that is left. Added up, not 1 less the rest: exactly 0 if there is none.
    pub(crate) fn mass(&self) -> f64 {
        self.mass / self.of.partition
    }

    /// The token that such a share of what is left falls to, in [0, 1): for a uniform one, each in proportion to its
    /// probability. Some token if none is left.
    pub(crate) fn at(&self, share: f64) -> u32 {
        let mut ticket = share * self.mass;
        // Rounding may leave a ticket beyond the last weight: it then goes to the last token with any.
        let mut chosen = 0;
        for (piece, &mass) in self.masses.iter().enumerate().filter(|&(_, &mass)| mass > 0.0) {
            if ticket >= mass && self.masses[piece + 1..].iter().any(|&mass| mass > 0.0) {
                ticket -= mass;
                continue;
            }
            for id in self.of.piece(piece) {
                let weight = self.of.weight_without(id, self.ids);
                if weight > 0.0 {
                    chosen = id;
                    if ticket < weight {
                        break;
                    }
                    ticket -= weight;
                }
            }
            break;
        }
        chosen
    }
}
