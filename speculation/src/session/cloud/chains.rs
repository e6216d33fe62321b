//! The chains of guesses that an edge has begun: where each ends, and where it was wrong.
//!
//! A guess that is compared with what was written, in a pass or because it came late, and differs breaks its chain:
//! what follows in it was guessed after a wrong token, and is dropped.

use outrider_codec::frame::Guesses;

use super::{
    super::tree::{Key, Tree},
    failure::Failure,
};

/// Limits on an edge's guesses.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// The most guesses ahead of the text.
    pub(super) guesses: usize,
    /// The most chains alive besides one.
    pub(super) branches: usize,
}

/// Broken chains that are remembered besides: a branch of one may be under way that leaves it before it was wrong.
const REMEMBERED: usize = 32;

/// The living chains of guesses, and the last of those that are broken.
#[derive(Debug, Default)]
pub(super) struct Chains {
    /// Chains by ascending numbers.
    known: Vec<Chain>,
    /// Number of the last one; 0 before the first.
    last: u32,
}

#[derive(Debug, Clone, Copy)]
struct Chain {
    number: u32,
    /// Position after its last guess.
    end: usize,
    /// Its last guess, if that is ahead of the text.
    tip: Option<Key>,
    /// Position of its first guess that was wrong.
    broken_at: Option<usize>,
}

impl Chains {
    /// Looks at a frame of guesses after a text of `written` tokens: begins its chain if it is a new one, which drops
    /// the `ahead` unless it is a branch. Returns true if the frame is of use: not if it comes again, or is of a chain
    /// that was dropped.
    pub(super) fn begin(
        &mut self,
        guesses: &Guesses,
        written: usize,
        ahead: &mut Tree<()>,
        limits: Limits,
    ) -> Result<bool, Failure> {
        let Guesses { chain: number, parent, .. } = *guesses;
        let position = guesses.position as usize;
        let is_gap = |end: usize| {
            if position <= end {
                return Ok(());
            }
            // Positions after what the edge has from us, or after its own last guess, leave no gap.
            Err(Failure::out_of_order("there is a guess missing before these"))
        };
        if number <= self.last {
            let Some(chain) = self.get(number) else { return Ok(false) };
            is_gap(chain.end)?;
            return Ok(position == chain.end && parent == 0);
        }
        let chain = if parent == 0 {
            is_gap(written)?;
            self.known.clear();
            ahead.clear();
            Chain { number, end: position, tip: None, broken_at: None }
        } else {
            if limits.branches == 0 {
                return Err(Failure::invalid_draft("no branches are taken here"));
            }
            if parent > self.last {
                return Err(Failure::out_of_order("a chain leaves one that has not begun"));
            }
            match self.get(parent) {
                // Whatever it was, it is dropped.
                None => Chain { number, end: position, tip: None, broken_at: Some(0) },
                Some(&left) => {
                    is_gap(left.end)?;
                    let broken_at = left.broken_at.filter(|&at| at < position);
                    let is_ahead = position > written && broken_at.is_none();
                    let tip = left.tip.filter(|_| is_ahead).and_then(|tip| ahead.ancestor(tip, left.end - position));
                    Chain { number, end: position, tip, broken_at }
                }
            }
        };
        self.last = number;
        self.known.push(chain);
        if self.alive() > limits.branches + 1 {
            let (alive, most) = (self.alive() - 1, limits.branches);
            return Err(Failure::invalid_draft(&format!("{alive} branches are more than {most}")));
        }
        if self.known.len() > limits.branches + 1 + REMEMBERED
            && let Some(oldest) = self.known.iter().position(|chain| chain.broken_at.is_some())
        {
            self.known.remove(oldest);
        }
        Ok(true)
    }

    /// Adds guesses that are next in a chain. Returns the number of those at tokens that were written already.
    pub(super) fn extend(&mut self, number: u32, ids: &[u32], written: &[u32], ahead: &mut Tree<()>) -> usize {
        let Some(chain) = self.known.iter_mut().find(|chain| chain.number == number) else { return 0 };
        let mut late = 0;
        for (&id, position) in ids.iter().zip(chain.end..) {
            match written.get(position) {
                Some(&token) => {
                    late += 1;
                    if token != id && chain.broken_at.is_none() {
                        chain.broken_at = Some(position);
                    }
                }
                None if chain.broken_at.is_none() => chain.tip = Some(ahead.add(chain.tip, id, ())),
                None => {}
            }
        }
        chain.end += ids.len();
        late
    }

    /// The token at a position was written; `right` was the guess at it that was right, and is no longer `ahead`.
    pub(super) fn written(&mut self, position: usize, right: Option<Key>, ahead: &Tree<()>) {
        for chain in &mut self.known {
            let Some(tip) = chain.tip else { continue };
            if Some(tip) == right {
                chain.tip = None;
            } else if ahead.get(tip).is_none() {
                (chain.tip, chain.broken_at) = (None, Some(position));
            }
        }
    }

    /// The last guess of a chain that has not been wrong, if it is ahead of the text.
    pub(super) fn tip(&self, number: u32) -> Option<Key> {
        self.get(number).filter(|chain| chain.broken_at.is_none())?.tip
    }

    fn get(&self, number: u32) -> Option<&Chain> {
        self.known.iter().find(|chain| chain.number == number)
    }

    fn alive(&self) -> usize {
        self.known.iter().filter(|chain| chain.broken_at.is_none()).count()
    }
}
