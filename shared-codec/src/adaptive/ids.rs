//! The weights of ids, and a group's next id under them.

use std::collections::BTreeMap;

/// Prior weight of the whole vocabulary / this = weight of one occurrence in the session.
pub(super) const OCCURRENCES: u32 = 512;
/// Number of the last committed distributions that are remembered.
pub(super) const REMEMBERED: usize = 128;
/// Ids that are remembered of each, those with the largest counts.
pub(super) const REMEMBERED_IDS: usize = 64;
/// Remembered distributions that add to the weights.
pub(super) const NEIGHBOURS: usize = 8;

/// Fixed-point one of shares of weight.
pub(super) const ONE: u64 = 1 << 31;
/// The most weight all ids have together, neighbours aside.
pub(super) const MAX_WEIGHT: u64 = 1 << 31;

/// Likeness of a distribution that followed the same token, without a shared id.
pub(super) const SAME_TOKEN: u16 = 3;
/// Occurrences that a neighbour adds, times likeness² / (coded ids + 1).
pub(super) const NEIGHBOUR_WEIGHT: u64 = 8;

/// The weights of all ids without neighbours, in a Fenwick tree.
#[derive(Debug, Clone)]
pub(super) struct Weights {
    /// Node i, from 1, holds the weights of ids i − (lowest bit of i) .. i.
    pub(super) tree: Vec<u32>,
    /// Sum of all; at most [`MAX_WEIGHT`].
    pub(super) total: u64,
    /// Weight of one occurrence.
    pub(super) occurrence: u32,
}

impl Weights {
    pub(super) fn new(vocab_size: u32) -> Self {
        let mut weights = Self { tree: Vec::new(), total: 0, occurrence: 0 };
        weights.fill((0..vocab_size).map(|id| prior(vocab_size, id)));
        weights.occurrence = (weights.total / u64::from(OCCURRENCES)).max(1) as u32;
        weights
    }

    pub(super) fn vocab_size(&self) -> u32 {
        self.tree.len() as u32 - 1
    }

    pub(super) fn fill(&mut self, weights: impl Iterator<Item = u32>) {
        self.tree.clear();
        self.tree.push(0);
        self.tree.extend(weights);
        self.total = self.tree.iter().map(|&weight| u64::from(weight)).sum();
        for i in 1..self.tree.len() {
            let parent = i + (i & i.wrapping_neg());
            if parent < self.tree.len() {
                self.tree[parent] += self.tree[i];
            }
        }
    }

    /// Sum of the weights of ids below `end`.
    pub(super) fn below(&self, end: u32) -> u64 {
        let mut i = end as usize;
        let mut sum = 0;
        while i > 0 {
            sum += u64::from(self.tree[i]);
            i &= i - 1;
        }
        sum
    }

    pub(super) fn of(&self, id: u32) -> u64 {
        self.below(id + 1) - self.below(id)
    }

    pub(super) fn occurred(&mut self, id: u32) {
        if self.total + u64::from(self.occurrence) > MAX_WEIGHT {
            self.halve();
        }
        let mut i = id as usize + 1;
        while i < self.tree.len() {
            self.tree[i] += self.occurrence;
            i += i & i.wrapping_neg();
        }
        self.total += u64::from(self.occurrence);
    }

    /// Halves the weights that the session has added.
    pub(super) fn halve(&mut self) {
        let vocab_size = self.vocab_size();
        let halved: Vec<u32> = (0..vocab_size)
            .map(|id| {
                let prior = prior(vocab_size, id);
                prior + (self.of(id) as u32 - prior) / 2
            })
            .collect();
        self.fill(halved.into_iter());
    }
}

/// Prior weight of an id: a part that is equal for all ids, and one that falls like 1/id from the end of the bytes on.
/// The sum over all ids fits 32 bits.
pub(super) fn prior(vocab_size: u32, id: u32) -> u32 {
    4 + 6 * vocab_size / (300 + id.saturating_sub(256))
}

/// The last committed distributions.
#[derive(Debug, Clone, Default)]
pub(super) struct Memory {
    /// A ring: slot i mod [`REMEMBERED`] holds the i-th.
    pub(super) slots: Vec<Slot>,
    /// Number of distributions remembered so far, those since overwritten included.
    pub(super) count: usize,
    /// The slots each id is in, bit i for slot i.
    pub(super) places: BTreeMap<u32, u128>,
}

#[derive(Debug, Clone)]
pub(super) struct Slot {
    pub(super) ids: Vec<u32>,
    /// The token that precedes the distribution's position.
    pub(super) last: Option<u32>,
}

impl Memory {
    pub(super) fn remember(&mut self, ids: &[u32], last: Option<u32>) {
        let ids = ids[..ids.len().min(REMEMBERED_IDS)].to_vec();
        let at = self.count % REMEMBERED;
        self.count += 1;
        for &id in &ids {
            *self.places.entry(id).or_default() |= 1 << at;
        }
        let slot = Slot { ids, last };
        if self.slots.len() < REMEMBERED {
            self.slots.push(slot);
            return;
        }
        let old = std::mem::replace(&mut self.slots[at], slot);
        for id in old.ids {
            // Unless the new one has it too.
            if !self.slots[at].ids.contains(&id)
                && let Some(places) = self.places.get_mut(&id)
            {
                *places &= !(1 << at);
                if *places == 0 {
                    self.places.remove(&id);
                }
            }
        }
    }

    /// Number of distributions that were remembered after the one in a slot.
    pub(super) fn age(&self, at: usize) -> usize {
        (self.count - 1 - at) % REMEMBERED
    }
}

/// State that the weights depend on within a token: the ids that are coded and the neighbours.
pub(super) struct Context<'a> {
    pub(super) weights: &'a Weights,
    pub(super) memory: &'a Memory,
    /// Likeness of each remembered distribution: [`SAME_TOKEN`] if it followed the same token, and one for each coded
    /// id that it has.
    pub(super) likeness: [u16; REMEMBERED],
    /// Ids whose groups are complete, ascending, with their weights in the tree.
    pub(super) coded: Vec<(u32, u64)>,
    /// Number of them when the neighbours are next looked up.
    pub(super) next_lookup: usize,
    /// Weights that the neighbours add, ids ascending.
    pub(super) added: Vec<(u32, u64)>,
    /// Ids whose weight differs from the tree's, ascending; with the sum of differences up to and including each.
    pub(super) changes: Vec<(u32, i64)>,
    /// Sum of the weights of all ids.
    pub(super) all: u64,
}

impl<'a> Context<'a> {
    pub(super) fn new(weights: &'a Weights, memory: &'a Memory, last: Option<u32>) -> Self {
        let mut likeness = [0; REMEMBERED];
        for (likeness, slot) in likeness.iter_mut().zip(&memory.slots) {
            *likeness = if slot.last == last { SAME_TOKEN } else { 0 };
        }
        let all = weights.total;
        Self {
            weights,
            memory,
            likeness,
            coded: Vec::new(),
            next_lookup: 0,
            added: Vec::new(),
            changes: Vec::new(),
            all,
        }
    }

    /// Updates the weights before a group of ids is coded, where a new look-up of neighbours is due.
    pub(super) fn prepare(&mut self) {
        if self.coded.len() >= self.next_lookup {
            self.next_lookup = (2 * self.coded.len()).max(1);
            self.look_up();
        }
        self.changes.clear();
        let mut sum = 0i64;
        let mut excluded = self.coded.iter().peekable();
        for &(id, added) in &self.added {
            while let Some(&(gone, weight)) = excluded.next_if(|&&(gone, _)| gone < id) {
                sum -= weight as i64;
                self.changes.push((gone, sum));
            }
            sum += match excluded.next_if(|&&(gone, _)| gone == id) {
                Some(&(_, weight)) => -(weight as i64),
                None => added as i64,
            };
            self.changes.push((id, sum));
        }
        for &(gone, weight) in excluded {
            sum -= weight as i64;
            self.changes.push((gone, sum));
        }
        self.all = self.weights.total.wrapping_add_signed(sum);
    }

    /// Notes the ids of a group that was just coded.
    pub(super) fn coded(&mut self, ids: &[u32]) {
        for id in ids {
            let mut places = self.memory.places.get(id).copied().unwrap_or(0);
            while places != 0 {
                self.likeness[places.trailing_zeros() as usize] += 1;
                places &= places - 1;
            }
        }
        self.coded.extend(ids.iter().map(|&id| (id, self.weights.of(id))));
        self.coded.sort_unstable();
    }

    pub(super) fn look_up(&mut self) {
        let memory = self.memory;
        // The most alike, then the latest; no two are equal in both.
        let mut alike: Vec<usize> = (0..memory.slots.len()).filter(|&at| self.likeness[at] > 0).collect();
        if alike.len() > NEIGHBOURS {
            let order = |&at: &usize| (std::cmp::Reverse(self.likeness[at]), memory.age(at));
            alike.select_nth_unstable_by_key(NEIGHBOURS, order);
            alike.truncate(NEIGHBOURS);
        }
        // The ids of all neighbours in one sort, each with its neighbour's number in the low bits. Ids have 24 bits at
        // most.
        let mut weights = [0; NEIGHBOURS];
        let mut list: Vec<u32> = Vec::new();
        for (i, at) in alike.into_iter().enumerate() {
            let likeness = u64::from(self.likeness[at]);
            let occurrences = NEIGHBOUR_WEIGHT * likeness * likeness / (self.coded.len() as u64 + 1);
            weights[i] = occurrences * u64::from(self.weights.occurrence);
            list.extend(memory.slots[at].ids.iter().map(|&id| id * NEIGHBOURS as u32 + i as u32));
        }
        list.sort_unstable();
        self.added.clear();
        for key in list {
            let (id, weight) = (key / NEIGHBOURS as u32, weights[key as usize % NEIGHBOURS]);
            match self.added.last_mut() {
                Some(last) if last.0 == id => last.1 += weight,
                _ => self.added.push((id, weight)),
            }
        }
    }

    /// Sum of the weights of ids below `end`, with neighbours and without coded ids.
    pub(super) fn below(&self, end: u32) -> u64 {
        self.changed(self.weights.below(end), end)
    }

    pub(super) fn changed(&self, sum: u64, end: u32) -> u64 {
        let i = self.changes.partition_point(|&(id, _)| id < end);
        let change = if i == 0 { 0 } else { self.changes[i - 1].1 };
        sum.wrapping_add_signed(change)
    }
}

/// Code of the next id of a group: cumulative frequencies of ids `start` .. V.
pub(super) struct Place<'a> {
    pub(super) context: &'a Context<'a>,
    pub(super) start: u32,
    /// Ids of the group that are not coded yet.
    pub(super) left: u32,
    /// Sum of the weights of all ids.
    pub(super) all: u64,
    /// Weight of the ids from `start` on, without `shift` low bits so that at most 32 are left. Zero only if all of
    /// them are coded, which a decoder has to refuse.
    pub(super) rest: u64,
    pub(super) shift: u32,
}

impl<'a> Place<'a> {
    pub(super) fn new(context: &'a Context<'a>, start: u32, left: u32) -> Self {
        let all = context.all;
        let rest = all - context.below(start);
        let shift = (u64::BITS - rest.leading_zeros()).saturating_sub(32);
        Self { context, start, left, all, rest: rest >> shift, shift }
    }

    pub(super) fn total(&self) -> u64 {
        ONE + u64::from(self.context.weights.vocab_size() - self.start)
    }

    /// Sum of the frequencies of ids `start` .. `end`.
    pub(super) fn cumulative(&self, end: u32) -> u64 {
        self.at(end, self.context.below(end))
    }

    /// 1 − (share of weight from `end` on)^left, and one for each id so that none has frequency zero. Ascends with
    /// `end`, since every step of the power is monotone.
    pub(super) fn at(&self, end: u32, below: u64) -> u64 {
        let beyond = (self.all - below) >> self.shift;
        ONE - power((beyond << 31) / self.rest, self.left) + u64::from(end - self.start)
    }

    /// The id whose frequencies hold `target`, which is below the total.
    pub(super) fn find(&self, target: u64) -> u32 {
        let tree = &self.context.weights.tree;
        let mut step = tree.len().next_power_of_two() / 2;
        let (mut end, mut sum) = (0, 0);
        // The largest end with cumulative(end) ≤ target, or below start.
        while step > 0 {
            if end + step < tree.len() {
                let (next, with) = ((end + step) as u32, sum + u64::from(tree[end + step]));
                if next <= self.start || self.at(next, self.context.changed(with, next)) <= target {
                    end += step;
                    sum = with;
                }
            }
            step /= 2;
        }
        // The end V has the total, above the target.
        end as u32
    }
}

/// base^exponent in fixed point, base ≤ [`ONE`].
pub(super) fn power(mut base: u64, mut exponent: u32) -> u64 {
    let mut result = ONE;
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = (result * base) >> 31;
        }
        base = (base * base) >> 31;
        exponent >>= 1;
    }
    result
}
