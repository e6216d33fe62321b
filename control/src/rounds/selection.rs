//! AS² (Zheng & Yang, Algorithm 2) with measured times: the choice of who writes next, both models or the target alone.
//!
//! The comparison needs both times, and only the one in use can be measured. So each looks at the other now and then:
//!
//! - While the models draft and verify, the target writes [`LESSON`] tokens alone after the first few rounds, and again
//!   every [`LESSON_INTERVAL`] rounds. That gives the time that it takes for a token.
//! - While the target writes alone, each stream ends in [`PROBE`] rounds of drafting. If drafting still does not pay,
//!   the next stream is twice as long, to [`LONGEST_STREAM`]; where rounds are slow, it is longer still, so that
//!   the rounds lose no more than [`PROBE_SHARE`] of the time. If it pays, drafting goes on, and the next stream will
//!   be short again.
//!
//! A stream's first token waits for a round trip too; its time does not count. Of the other gaps the longest counts as
//! four times the mean of the rest at most, and each stream at least as much as all before it: so a stall within one
//! stream decides little, and is forgotten.

use core::time::Duration;

use crate::measure::{Ratio, seconds};

/// Tokens that the target writes to show how long it takes.
const LESSON: u32 = 6;
/// Rounds before the first lesson, and between two.
const FIRST_LESSON: u32 = 4;
const LESSON_INTERVAL: u32 = 64;

/// Rounds of a probe; and the most, where the cost of a round was not known after these because it had just changed.
const PROBE: u32 = 2;
const LONGEST_PROBE: u32 = 4;

/// Tokens of the first stream, of the longest where probes are cheap, and of the longest where they are not.
const SHORTEST_STREAM: u32 = 8;
const LONGEST_STREAM: u32 = 64;
const LONGEST_STREAM_OF_ALL: u32 = 1024;
/// The share of the time that probes may lose, once streams have grown.
const PROBE_SHARE: f64 = 0.1;

/// The weight that a stream leaves to those before it.
const STREAM_MEMORY: f64 = 0.5;
/// Number of gaps from which on the longest is bounded.
const GAPS_TO_BOUND: u32 = 4;
/// Bound of the longest gap, as a multiple of the mean of the others.
const LONGEST_GAP: f64 = 4.0;

/// The end that writes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Move {
    /// The draft model, for a round.
    Draft,
    /// The target alone, for a number of tokens.
    Stream {
        /// Number of tokens that it writes, at least 1.
        tokens: u32,
    },
}

/// State of drafting when the choice is made.
#[derive(Debug, Clone, Copy)]
pub(super) struct Prospect {
    /// Tokens per unit of time as a multiple of the target alone; `None` while unknown.
    pub(super) speedup: Option<f64>,
    /// Time of a round, in seconds.
    pub(super) round: Option<f64>,
    /// True if more rounds would improve the estimate of drafting's cost.
    pub(super) unsettled: bool,
}

#[derive(Debug, Clone)]
pub(super) struct Selection {
    /// Number of rounds of the current probe of drafting; `None` while drafting is the choice.
    probed: Option<u32>,
    /// Tokens of the next stream.
    next_stream: u32,
    rounds_since_lesson: u32,
    stream: Stream,
    /// Seconds per gap between streamed tokens.
    gaps: Ratio,
}

/// The stream under way.
#[derive(Debug, Clone, Copy, Default)]
struct Stream {
    /// Tokens that are still to come.
    left: u32,
    /// The generation ended within it; what is left belongs to the next.
    interrupted: bool,
    gaps: u32,
    seconds: f64,
    longest: f64,
}

impl Selection {
    pub(super) fn new() -> Self {
        Self {
            probed: None,
            next_stream: SHORTEST_STREAM,
            rounds_since_lesson: 0,
            stream: Stream::default(),
            gaps: Ratio::default(),
        }
    }

    /// Seconds that the target alone takes for a token; `None` before any lesson.
    pub(super) fn seconds_alone(&self) -> Option<f64> {
        self.gaps.get()
    }

    pub(super) fn round_done(&mut self) {
        self.rounds_since_lesson = self.rounds_since_lesson.saturating_add(1);
        if let Some(rounds) = &mut self.probed {
            *rounds += 1;
        }
    }

    pub(super) fn token_streamed(&mut self, since_last: Option<Duration>) {
        self.stream.left = self.stream.left.saturating_sub(1);
        if let Some(gap) = since_last.map(seconds) {
            self.stream.gaps = self.stream.gaps.saturating_add(1);
            self.stream.seconds += gap;
            self.stream.longest = self.stream.longest.max(gap);
        }
    }

    pub(super) fn next_generation(&mut self) {
        self.end_stream();
        // A lesson is over; what a probe found to be better goes on.
        self.stream.interrupted = self.probed == Some(0) && self.stream.left > 0;
    }

    /// Takes the gaps of the stream so far to those before.
    pub(super) fn end_stream(&mut self) {
        let Stream { left, gaps, seconds, longest, .. } = self.stream;
        self.stream = Stream { left, ..Stream::default() };
        if gaps == 0 {
            return;
        }
        let rest = seconds - longest;
        let bound = if gaps < GAPS_TO_BOUND { longest } else { LONGEST_GAP * rest / f64::from(gaps - 1) };
        self.gaps.observe(STREAM_MEMORY, rest + longest.min(bound), f64::from(gaps));
    }

    /// Decides which end writes next. The stream before has [ended](Self::end_stream), so that the prospect knows of
    /// it.
    pub(super) fn next_move(&mut self, prospect: Prospect) -> Move {
        if self.stream.interrupted {
            self.stream.interrupted = false;
            return Move::Stream { tokens: self.stream.left };
        }
        let pays = prospect.speedup.is_none_or(|speedup| speedup > 1.0);
        match self.probed {
            Some(rounds) if rounds < PROBE || (rounds < LONGEST_PROBE && prospect.unsettled) => Move::Draft,
            Some(_) if pays => {
                self.probed = None;
                self.next_stream = SHORTEST_STREAM;
                Move::Draft
            }
            None if pays => self.lesson().unwrap_or(Move::Draft),
            _ => {
                let tokens = self.next_stream;
                self.next_stream = tokens.saturating_mul(2).min(self.longest_stream(prospect));
                self.probed = Some(0);
                self.stream(tokens)
            }
        }
    }

    fn lesson(&mut self) -> Option<Move> {
        let due = if self.seconds_alone().is_none() { FIRST_LESSON } else { LESSON_INTERVAL };
        (self.rounds_since_lesson >= due).then(|| self.stream(LESSON))
    }

    fn stream(&mut self, tokens: u32) -> Move {
        self.rounds_since_lesson = 0;
        self.stream.left = tokens;
        Move::Stream { tokens }
    }

    /// The tokens over which what a probe loses is no more than its share of the time.
    fn longest_stream(&self, prospect: Prospect) -> u32 {
        let (Some(alone), Some(round), Some(speedup)) = (self.seconds_alone(), prospect.round, prospect.speedup) else {
            return LONGEST_STREAM;
        };
        let lost = f64::from(PROBE) * round * (1.0 - speedup);
        ((lost / (PROBE_SHARE * alone)).round() as u32).clamp(LONGEST_STREAM, LONGEST_STREAM_OF_ALL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    const ALONE: Duration = Duration::from_millis(50);
    const LOSES: Prospect = Prospect { speedup: Some(0.5), round: Some(0.1), unsettled: false };
    const PAYS: Prospect = Prospect { speedup: Some(2.0), ..LOSES };
    const UNKNOWN: Prospect = Prospect { speedup: None, round: None, unsettled: true };

    fn streams(selection: &mut Selection, tokens: u32) {
        for token in 0..tokens {
            selection.token_streamed((token > 0).then_some(ALONE));
        }
        selection.end_stream();
    }

    /// Moves as numbers: 0 drafts, anything else streams.
    fn moves(selection: &mut Selection, prospect: Prospect, count: usize) -> Vec<u32> {
        let one = |_| match selection.next_move(prospect) {
            Move::Draft => {
                selection.round_done();
                0
            }
            Move::Stream { tokens } => {
                streams(selection, tokens);
                tokens
            }
        };
        (0..count).map(one).collect()
    }

    #[test]
    fn lessons_come_early_once_and_then_seldom() {
        let mut selection = Selection::new();
        assert_eq!(moves(&mut selection, UNKNOWN, 5), [0, 0, 0, 0, LESSON]);
        assert_eq!(selection.seconds_alone(), Some(0.05));
        let mut expected = vec![0; 64];
        expected.push(LESSON);
        assert_eq!(moves(&mut selection, PAYS, 65), expected);
    }

    #[test]
    fn streams_grow_while_probes_lose_and_start_again_after_one_that_pays() {
        let mut selection = Selection::new();
        assert_eq!(moves(&mut selection, LOSES, 13), [8, 0, 0, 16, 0, 0, 32, 0, 0, 64, 0, 0, 64]);
        assert_eq!(moves(&mut selection, PAYS, 4), [0, 0, 0, 0]);
        assert_eq!(moves(&mut selection, LOSES, 4), [8, 0, 0, 16]);
        // Two rounds of 3 s lose 3 s: a tenth of 600 tokens' time.
        let slow = Prospect { round: Some(3.0), ..LOSES };
        assert_eq!(
            moves(&mut selection, slow, 18).into_iter().filter(|&n| n > 0).collect::<Vec<_>>(),
            [32, 64, 128, 256, 512, 600]
        );
        // A probe goes on where it has not seen enough.
        assert_eq!(moves(&mut selection, Prospect { unsettled: true, ..LOSES }, 5), [0, 0, 0, 0, 600]);
    }

    #[test]
    fn the_next_generation_takes_up_a_stream() {
        let mut selection = Selection::new();
        assert_eq!(selection.next_move(LOSES), Move::Stream { tokens: 8 });
        streams(&mut selection, 3);
        selection.next_generation();
        assert_eq!(selection.next_move(LOSES), Move::Stream { tokens: 5 });
        streams(&mut selection, 5);
        assert_eq!(moves(&mut selection, LOSES, 3), [0, 0, 16]);
    }

    #[test]
    fn a_stall_in_a_stream_counts_little() {
        let mut selection = Selection::new();
        for gap in [None, Some(50), Some(50), Some(60_000), Some(50), Some(50)] {
            selection.token_streamed(gap.map(Duration::from_millis));
        }
        selection.end_stream();
        // Four gaps of 50 ms and one of 200.
        assert!((selection.seconds_alone().unwrap() - 0.08).abs() < 1e-9);
        streams(&mut selection, LESSON);
        assert!((selection.seconds_alone().unwrap() - 0.06).abs() < 1e-9);
    }
}
