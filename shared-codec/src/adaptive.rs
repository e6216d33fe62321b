//! Entropy-coded SQS: the tokens of a round in one range-coder word, under a model that learns from the committed text.
//!
//! The papers' code gives each of its objects the same number of bits. Here, first, ids without mass do not travel; and
//! then nothing is equally likely. The model is the same on both ends, is fixed within a round and learns only in
//! [`AdaptiveCode::commit`], from what the verdict committed. So a rejected draft leaves no trace, there is nothing to
//! undo, and all decisions are made in integers.
//!
//! # A token
//!
//! A distribution has m ids with positive counts that add up to ℓ. In descending order of counts they form groups of
//! equal counts; ids ascend within a group.
//!
//! | what | how | ideal bits |
//! |---|---|---|
//! | m | adaptive binary decisions | −log2 P(m) |
//! | counts, descending | adaptive binary decisions, each count between ⌈rest/left⌉ and the one before it | −log2 P(partition of ℓ) |
//! | ids, group by group | weights of the vocabulary (below), without replacement | Σ −log2 (weight/rest) − Σ log2 (group size)! |
//! | drafted id | the counts are its frequencies | log2 (ℓ/count) |
//!
//! # Groups
//!
//! The order within a group says nothing, and costs nothing: with n ids of it left, the smallest of n draws exceeds x
//! with probability S(x)ⁿ, where S(x) is the share of weight beyond x. So the next id is coded with the cumulative
//! frequencies 1 − S(x)ⁿ: the sizes' factorials are saved, 28 of 180 bits a token in the default pair.
//!
//! Example, n = 2 and four ids of equal weight: the smaller of two is 0, 1, 2, 3 with 7/16, 5/16, 3/16, 1/16. After 1,
//! the other is 2 or 3 with 1/2. (3 cannot be the smaller: its 1/16 is lost, nothing where V is in the thousands.)
//!
//! # Weights of ids
//!
//! weight = prior + occurrences of the id in the session + what *neighbours* add. The prior falls with the id, as
//! byte-pair encodings number their merges by frequency. Occurrences are those in the prompt, in committed supports and
//! text. Neighbours are the committed distributions most like the one that is being coded: they share ids that are
//! already coded or followed the same token, and add to the weights of their ids. They are looked up before the
//! first id and whenever the number of coded ids has doubled.
//!
//! # Guarantee
//!
//! A round may instead be coded with the papers' enumerative codes at K = m (m itself with probability proportional to
//! the number of distributions of m ids, then uniformly the distribution and the draft). Its first symbol says which of
//! the two; the encoder takes the shorter word, to within a byte. As each distribution of at most K ids is one of the
//! papers' objects, a round never exceeds n·(⌈log2 C(V,K)⌉ + ⌈log2 C(ℓ+K−1,K−1)⌉ + ⌈log2 K⌉) by more than the first
//! symbol's 6 bits, the coder's end of at most 9, and roundings below 1/100 bit a token, whatever the model has been
//! taught.
//!
//! # Cost
//!
//! O(m·log V) steps a token beyond those for neighbours, at most 8·64 ids. Memory: 4 bytes an id of the vocabulary, and
//! 128 distributions of at most 64 ids.

mod ids;
mod numbers;

use std::sync::Arc;

use num_bigint::BigUint;

use self::{
    ids::{Context, Memory, Place, Weights},
    numbers::{CodesNumbers, Learner, NumberDecoder, NumberEncoder, Numbers},
};
use crate::{
    distribution::{DraftDist, DraftToken},
    enumerative::{SubsetCode, binomial},
    error::{DecodeError, ParameterError},
    lattice::{MAX_LATTICE_RESOLUTION, check_vocabulary},
    range_coder::{RangeDecoder, RangeEncoder},
};

/// Frequencies of the first symbol: the model's word, the enumerative word.
const MODE_TOTAL: u64 = 64;
/// The most steps that coding a token may take; two for each id with mass.
pub const MAX_STEPS: u32 = 4096;

/// The adaptive code of one session. Equal parameters, prompts and commits make equal codes.
#[derive(Debug, Clone)]
pub struct AdaptiveCode {
    vocab_size: u32,
    lattice_resolution: u32,
    sizes: Arc<Sizes>,
    weights: Weights,
    numbers: Numbers,
    memory: Memory,
    /// The last committed token.
    last: Option<u32>,
}

impl AdaptiveCode {
    /// The code for distributions of at most `max_support` ids of a vocabulary of `vocab_size` = V, with counts that
    /// add up to `lattice_resolution` = ℓ.
    ///
    /// # Errors
    /// If a parameter is out of its range, or min(`max_support`, ℓ) is above [`MAX_STEPS`] / 2.
    pub fn new(vocab_size: u32, max_support: u32, lattice_resolution: u32) -> Result<Self, ParameterError> {
        check_vocabulary(vocab_size)?;
        if !(1..=vocab_size).contains(&max_support) {
            return Err(ParameterError::SupportSize { support_size: max_support, vocab_size });
        }
        if !(1..=MAX_LATTICE_RESOLUTION).contains(&lattice_resolution) {
            return Err(ParameterError::LatticeResolution {
                resolution: lattice_resolution,
                limit: MAX_LATTICE_RESOLUTION,
            });
        }
        // Before any binomial is computed. Every positive count takes at least one of ℓ.
        let largest = max_support.min(lattice_resolution);
        if 2 * largest > MAX_STEPS {
            return Err(ParameterError::TooMuchWork { work: (2 * largest).into(), limit: MAX_STEPS.into() });
        }
        Ok(Self {
            vocab_size,
            lattice_resolution,
            sizes: Arc::new(Sizes::new(vocab_size, largest, lattice_resolution)),
            weights: Weights::new(vocab_size),
            numbers: Numbers::new(),
            memory: Memory::default(),
            last: None,
        })
    }

    /// Learns the prompt, which both ends know. Ids outside the vocabulary are passed over.
    pub fn prime(&mut self, ids: &[u32]) {
        for &id in ids {
            self.learn_text(id);
        }
    }

    /// Starts the payload of a round of drafts.
    pub fn round(&self) -> RoundEncoder {
        let model = RangeEncoder::new();
        RoundEncoder { model, last: self.last, tokens: Vec::new(), least: 0, ranks: None }
    }

    /// Reads the payload of a round of `count` tokens; a token's `support_size` is the number of its ids. Round and
    /// verdict can then be [committed](Self::commit).
    ///
    /// # Errors
    /// Every byte string that is not the code word of `count` tokens, the model's or the enumerative one, is refused.
    pub fn decode_round(&self, payload: &[u8], count: u8) -> Result<Vec<DraftToken>, DecodeError> {
        let mut decoder = RangeDecoder::new(payload);
        if count == 0 {
            decoder.finish()?;
            return Ok(Vec::new());
        }
        let by_model = decoder.peek(MODE_TOTAL, "mode")? < MODE_TOTAL - 1;
        if by_model {
            decoder.take(0, MODE_TOTAL - 1, MODE_TOTAL);
        } else {
            decoder.take(MODE_TOTAL - 1, 1, MODE_TOTAL);
        }
        let mut last = self.last;
        let mut tokens = Vec::new();
        for _ in 0..count {
            let token =
                if by_model { self.decode_token(&mut decoder, last)? } else { self.decode_ranks(&mut decoder)? };
            last = Some(token.id);
            tokens.push(token);
        }
        decoder.finish()?;
        Ok(tokens)
    }

    /// Learns the tokens that a verdict committed: the first drafts of the round, and the token after them if there is
    /// one.
    pub fn commit(&mut self, accepted: &[DraftToken], token: Option<u32>) {
        let mut last = self.last;
        for draft in accepted {
            self.learn_distribution(&draft.dist, last);
            last = Some(draft.id);
        }
        for draft in accepted {
            self.learn_text(draft.id);
        }
        if let Some(id) = token {
            self.learn_text(id);
        }
    }

    fn learn_text(&mut self, id: u32) {
        if id < self.vocab_size {
            self.weights.occurred(id);
            self.last = Some(id);
        }
    }

    fn learn_distribution(&mut self, dist: &DraftDist, last: Option<u32>) {
        let sorted = Sorted::new(dist);
        let mut learner = Learner(&mut self.numbers);
        let walked = self.sizes.walk(&mut learner, self.lattice_resolution, &sorted.counts);
        debug_assert!(walked.is_ok(), "a learner refuses nothing");
        for &id in &sorted.ids {
            self.weights.occurred(id);
        }
        self.memory.remember(&sorted.ids, last);
    }

    /// Checks that a distribution's ids lie in the vocabulary and that its support has at most K of them.
    fn check(&self, dist: &DraftDist) -> Result<(), ParameterError> {
        if dist.ids().len() > self.sizes.largest as usize {
            return Err(ParameterError::DoesNotFit { what: "its support is larger than K" });
        }
        if dist.ids().last().is_some_and(|&last| last >= self.vocab_size) {
            return Err(ParameterError::DoesNotFit { what: "an id is outside the vocabulary" });
        }
        if dist.total() != self.lattice_resolution {
            return Err(ParameterError::DoesNotFit { what: "its counts do not add up to the lattice resolution" });
        }
        Ok(())
    }

    /// Codes a distribution under the model.
    fn encode_dist(&self, out: &mut RangeEncoder, dist: &DraftDist, last: Option<u32>) {
        let sorted = Sorted::new(dist);
        let mut coder = NumberEncoder { numbers: &self.numbers, out };
        let walked = self.sizes.walk(&mut coder, self.lattice_resolution, &sorted.counts);
        debug_assert!(walked.is_ok(), "an encoder refuses nothing");
        let mut context = Context::new(&self.weights, &self.memory, last);
        for group in sorted.counts.chunk_by(|a, b| a == b) {
            context.prepare();
            let first = context.coded.len();
            let mut start = 0;
            for (&id, left) in sorted.ids[first..first + group.len()].iter().zip((1..=group.len() as u32).rev()) {
                let place = Place::new(&context, start, left);
                let (low, high) = (place.cumulative(id), place.cumulative(id + 1));
                out.push(low, high - low, place.total());
                start = id + 1;
            }
            context.coded(&sorted.ids[first..first + group.len()]);
        }
    }

    fn decode_token(&self, input: &mut RangeDecoder<'_>, last: Option<u32>) -> Result<DraftToken, DecodeError> {
        let mut coder = NumberDecoder { numbers: &self.numbers, input };
        let counts = self.sizes.walk(&mut coder, self.lattice_resolution, &[])?;
        let mut context = Context::new(&self.weights, &self.memory, last);
        let mut ids = Vec::with_capacity(counts.len());
        for group in counts.chunk_by(|a, b| a == b) {
            context.prepare();
            let (first, mut start) = (ids.len(), 0);
            for left in (1..=group.len() as u32).rev() {
                let place = Place::new(&context, start, left);
                if place.rest == 0 {
                    return Err(DecodeError::Value { field: "id", value: start.into() });
                }
                let id = place.find(input.peek(place.total(), "id")?);
                if context.below(id) == context.below(id + 1) {
                    return Err(DecodeError::Value { field: "id", value: id.into() });
                }
                let (low, high) = (place.cumulative(id), place.cumulative(id + 1));
                input.take(low, high - low, place.total());
                ids.push(id);
                start = id + 1;
            }
            context.coded(&ids[first..]);
        }
        let mut pairs: Vec<(u32, u32)> = ids.into_iter().zip(counts).collect();
        pairs.sort_unstable();
        let dist = distribution(pairs.into_iter())?;
        let ticket = input.peek(dist.total().into(), "draft")?;
        let mut start = 0;
        for (&id, &count) in dist.ids().iter().zip(dist.counts()) {
            let count = u64::from(count);
            if ticket < start + count {
                input.take(start, count, dist.total().into());
                return Ok(DraftToken { id, support_size: dist.ids().len() as u32, dist });
            }
            start += count;
        }
        Err(DecodeError::Value { field: "draft", value: ticket })
    }

    /// Codes a token's distribution and the index of its draft by the papers' codes, at K = m.
    fn encode_ranks(&self, out: &mut RangeEncoder, dist: &DraftDist, index: usize) {
        let size = dist.ids().len();
        let (start, frequency) = (self.sizes.before[size - 1], self.sizes.before[size] - self.sizes.before[size - 1]);
        out.push(start, frequency, self.sizes.total());
        push_rank(out, [self.vocab_size, size as u32], dist.ids());
        // Bars between ℓ stars, at most one in a gap: bar i follows the stars of parts 0..=i.
        let bars: Vec<u32> = dist.counts()[..size - 1]
            .iter()
            .scan(0, |stars, count| {
                *stars += count;
                Some(*stars - 1)
            })
            .collect();
        push_rank(out, [self.lattice_resolution - 1, size as u32 - 1], &bars);
        out.push_uniform(index as u64, size as u64);
    }

    fn decode_ranks(&self, input: &mut RangeDecoder<'_>) -> Result<DraftToken, DecodeError> {
        let place = input.peek(self.sizes.total(), "support size")?;
        let size = self.sizes.before.partition_point(|&before| before <= place);
        let (start, end) = (self.sizes.before[size - 1], self.sizes.before[size]);
        input.take(start, end - start, self.sizes.total());
        let ids = take_rank(input, [self.vocab_size, size as u32], "support")?;
        let bars = take_rank(input, [self.lattice_resolution - 1, size as u32 - 1], "counts")?;
        let ends = bars.into_iter().map(|bar| bar + 1).chain([self.lattice_resolution]);
        let counts = ends.scan(0, |start, end| Some(end - std::mem::replace(start, end)));
        let dist = distribution(ids.into_iter().zip(counts))?;
        let index = input.take_uniform(size as u64, "draft")? as usize;
        Ok(DraftToken { id: dist.ids()[index], support_size: size as u32, dist })
    }
}

/// The payload of a round, as it grows.
#[derive(Debug, Clone)]
pub struct RoundEncoder {
    /// The model's word so far, for the whole round.
    model: RangeEncoder,
    /// The token before the next one.
    last: Option<u32>,
    /// Distributions and indices of drafts so far, in case the enumerative word becomes the shorter one.
    tokens: Vec<(DraftDist, usize)>,
    /// Bits that the enumerative word has at least.
    least: usize,
    /// The enumerative word, from the time when it could be the shorter one.
    ranks: Option<RangeEncoder>,
}

impl RoundEncoder {
    /// Upper bound of [`bits`](Self::bits) after a token with this distribution, for any id drawn from it: reached by
    /// the id of the smallest count. Whether a draft still fits a budget has to be decided before it is drawn.
    ///
    /// # Errors
    /// If the distribution does not fit the code.
    pub fn bound(&self, code: &AdaptiveCode, dist: &DraftDist) -> Result<usize, ParameterError> {
        let smallest = (0..dist.counts().len()).min_by_key(|&index| dist.counts()[index]).unwrap_or(0);
        let mut after = self.clone();
        after.push_index(code, dist, smallest)?;
        Ok(after.bits())
    }

    /// Appends a drafted token to the round.
    ///
    /// # Errors
    /// If it does not fit the code; nothing is appended then.
    pub fn push(&mut self, code: &AdaptiveCode, token: &DraftToken) -> Result<(), ParameterError> {
        let Ok(index) = token.dist.ids().binary_search(&token.id) else {
            return Err(ParameterError::DoesNotFit { what: "the drafted token has no mass" });
        };
        self.push_index(code, &token.dist, index)
    }

    /// Bits of the payload so far, to one bit. [`finish`](Self::finish) gives at most ⌈(bits + 1) / 8⌉ bytes.
    pub fn bits(&self) -> usize {
        self.ranks.as_ref().map_or(usize::MAX, RangeEncoder::bits).min(self.model.bits())
    }

    /// Ends the round and returns its payload.
    pub fn finish(self) -> Vec<u8> {
        match self.ranks {
            Some(ranks) if ranks.bits() < self.model.bits() => ranks.finish(),
            _ => self.model.finish(),
        }
    }

    fn push_index(&mut self, code: &AdaptiveCode, dist: &DraftDist, index: usize) -> Result<(), ParameterError> {
        code.check(dist)?;
        if self.tokens.is_empty() {
            self.model.push(0, MODE_TOTAL - 1, MODE_TOTAL);
        }
        code.encode_dist(&mut self.model, dist, self.last);
        let start: u32 = dist.counts()[..index].iter().sum();
        self.model.push(start.into(), dist.counts()[index].into(), dist.total().into());
        self.last = dist.ids().get(index).copied();
        self.least += code.sizes.least_bits[dist.ids().len() - 1] as usize;
        self.tokens.push((dist.clone(), index));
        match &mut self.ranks {
            Some(ranks) => code.encode_ranks(ranks, dist, index),
            None if self.model.bits() > self.least => {
                let mut ranks = RangeEncoder::new();
                ranks.push(MODE_TOTAL - 1, 1, MODE_TOTAL);
                for (dist, index) in &self.tokens {
                    code.encode_ranks(&mut ranks, dist, *index);
                }
                self.ranks = Some(ranks);
            }
            None => {}
        }
        Ok(())
    }
}

/// Ids and counts in the order of the code: counts descend, ids ascend where they are equal.
struct Sorted {
    ids: Vec<u32>,
    counts: Vec<u32>,
}

impl Sorted {
    fn new(dist: &DraftDist) -> Self {
        let mut order: Vec<usize> = (0..dist.ids().len()).collect();
        // Stable: ids ascend already.
        order.sort_by_key(|&i| std::cmp::Reverse(dist.counts()[i]));
        Self {
            ids: order.iter().map(|&i| dist.ids()[i]).collect(),
            counts: order.iter().map(|&i| dist.counts()[i]).collect(),
        }
    }
}

fn distribution(pairs: impl Iterator<Item = (u32, u32)>) -> Result<DraftDist, DecodeError> {
    let (ids, counts): (Vec<u32>, Vec<u32>) = pairs.unzip();
    // Only an id that occurs twice is left to be found.
    DraftDist::new(ids, counts).map_err(|_| DecodeError::Value { field: "id", value: 0 })
}

/// The rank of a subset in digits of 16 bits, the highest of up to 32; the highest has the values it can have.
fn push_rank(out: &mut RangeEncoder, [n, k]: [u32; 2], subset: &[u32]) {
    let (digits, top) = digits(n, k);
    let rank = SubsetCode::new(n, k).rank(subset);
    out.push_uniform(low_u64(&(&rank >> (16 * digits))), top);
    for digit in (0..digits).rev() {
        out.push_uniform(low_u64(&(&rank >> (16 * digit))) & 0xffff, 1 << 16);
    }
}

fn take_rank(input: &mut RangeDecoder<'_>, [n, k]: [u32; 2], field: &'static str) -> Result<Vec<u32>, DecodeError> {
    let (digits, top) = digits(n, k);
    let mut rank = BigUint::from(input.take_uniform(top, field)?);
    for _ in 0..digits {
        rank = (rank << 16u32) + input.take_uniform(1 << 16, field)?;
    }
    let low = low_u64(&rank);
    SubsetCode::new(n, k).unrank(rank).ok_or(DecodeError::Value { field, value: low })
}

/// Digits below the highest, and the number of values of the highest: of 17 to 32 bits if there are others.
fn digits(n: u32, k: u32) -> (u32, u64) {
    let last = binomial(n, k) - 1u32;
    let digits = (last.bits() as u32).saturating_sub(17) / 16;
    (digits, low_u64(&(last >> (16 * digits))) + 1)
}

fn low_u64(value: &BigUint) -> u64 {
    value.iter_u64_digits().next().unwrap_or(0)
}

/// Counts of ids m in 1 ..= `largest` that a distribution can have, with their frequencies.
#[derive(Debug)]
struct Sizes {
    largest: u32,
    /// Frequency of each m in the enumerative word, as cumulative sums from 0: proportional to the number of
    /// distributions of m ids.
    before: Vec<u64>,
    /// Bits that a token of m ids has at least in the enumerative word.
    least_bits: Vec<u32>,
}

impl Sizes {
    fn new(vocab_size: u32, largest: u32, resolution: u32) -> Self {
        // C(V, m)·C(ℓ−1, m−1), each binomial from the one before.
        let (mut supports, mut compositions) = (BigUint::from(vocab_size), BigUint::from(1u32));
        let mut numbers = Vec::with_capacity(largest as usize);
        for m in 1..=largest {
            numbers.push(&supports * &compositions);
            supports = supports * (vocab_size - m) / (m + 1);
            compositions = compositions * (resolution - m) / m;
        }
        let most = numbers.iter().map(BigUint::bits).max().unwrap_or(0);
        let shift = most.saturating_sub(20);
        let mut before = vec![0];
        let mut sum = 0;
        let mut floors = Vec::with_capacity(numbers.len());
        for (number, m) in numbers.into_iter().zip(1u32..) {
            floors.push((number.bits() - 1) as u32 + m.ilog2());
            sum += 1 + low_u64(&(number >> shift));
            before.push(sum);
        }
        let sizes = before.windows(2).map(|pair| (sum / (pair[1] - pair[0])).ilog2());
        let least_bits = floors.iter().zip(sizes).map(|(floor, size)| floor + size).collect();
        Self { largest, before, least_bits }
    }

    fn total(&self) -> u64 {
        self.before[self.largest as usize]
    }

    /// m and the counts in descending order: codes, learns or, ignoring `counts`, decodes them.
    fn walk(&self, coder: &mut impl CodesNumbers, resolution: u32, counts: &[u32]) -> Result<Vec<u32>, DecodeError> {
        let size = 1 + coder.number(Numbers::SIZE, self.largest - 1, (counts.len() as u32).wrapping_sub(1))?;
        let mut walked = Vec::with_capacity(size as usize);
        let (mut rest, mut previous) = (resolution, resolution);
        for (i, left) in (1..=size).rev().enumerate() {
            // left ≤ rest, and previous·left ≥ rest: so the lowest is at most the highest.
            let lowest = rest.div_ceil(left);
            let highest = previous.min(rest - (left - 1));
            let context = Numbers::count_context(i, highest - lowest + 1);
            let above = counts.get(i).map_or(0, |&count| count.wrapping_sub(lowest));
            let count = lowest + coder.number(context, highest - lowest, above)?;
            walked.push(count);
            rest -= count;
            previous = count;
        }
        Ok(walked)
    }
}

#[cfg(test)]
mod tests;
