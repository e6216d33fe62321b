//! Frames of guesses under way, and what the server's answers to them say of the link.

use core::time::Duration;
use std::collections::VecDeque;

use crate::control::observation::Answer;

/// Frames that were sent and that the server has not yet said to have, with their times.
#[derive(Debug, Default)]
pub(super) struct FramesUnheard {
    sent: VecDeque<Sent>,
    /// Position at which the guesses end that the server had, while all of them were right.
    reach: usize,
    /// Number of frames that the server had when it last answered, modulo 256; `None` while that is not known.
    heard: Option<u8>,
    /// Time at which that answer came, and the time of the pass that gave it.
    spoke: Option<(Duration, Duration)>,
}

/// A frame of guesses that was sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sent {
    pub(super) at: Duration,
    /// The position after its last guess; 0 once an earlier guess was wrong.
    pub(super) end: usize,
}

impl FramesUnheard {
    /// The state of a new generation: the server has had no frame.
    pub(super) fn none() -> Self {
        Self { heard: Some(0), ..Self::default() }
    }

    /// Takes a frame that is sent.
    pub(super) fn send(&mut self, frame: Sent) {
        self.sent.push_back(frame);
    }

    /// Position at which the guesses end that the server had, while all of them were right.
    pub(super) fn reach(&self) -> usize {
        self.reach
    }

    /// Takes the number of frames, modulo 256, that the server had when it began the pass whose tokens come now, and
    /// the time of that pass. Returns what they say of the link, if they say more than was known.
    pub(super) fn hear(&mut self, heard: u8, now: Duration, pass: Duration) -> Option<Answer> {
        let spoke = self.spoke.replace((now, pass));
        let Some(before) = self.heard.replace(heard) else {
            self.sent.clear();
            return None;
        };
        let new = usize::from(heard.wrapping_sub(before)).min(self.sent.len());
        let mut had = self.sent.drain(..new);
        let first = had.next()?;
        let last = had.next_back().unwrap_or(first);
        self.reach = self.reach.max(first.end).max(last.end);
        let (first, last) = (first.at, last.at);
        // Tokens of a pass that began when the server had a frame come one trip and the pass's time after the frame was
        // sent, or later; those of a pass that began before come sooner. One of no time says nothing of when it began.
        let least = spoke.filter(|(_, pass)| !pass.is_zero()).map(|(at, pass)| at.saturating_sub(pass + first));
        Some(Answer {
            least: least.unwrap_or_default(),
            most: now.saturating_sub(pass + last),
            awaited: spoke.is_some_and(|(at, _)| last >= at),
        })
    }

    /// Marks everything that was sent as guessed after a wrong guess.
    pub(super) fn forget_guesses(&mut self) {
        self.reach = 0;
        self.sent.iter_mut().for_each(|frame| frame.end = 0);
    }
}

#[cfg(test)]
mod tests {
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    use super::*;

    /// By hand, over a link of 30 ms and with passes of 60: words that come at 216 ms are of a pass that began at the
    /// server at 141, as soon as it had what was sent at 126.
    #[test]
    fn words_tell_between_what_the_links_round_trip_is() {
        const MS: Duration = Duration::from_millis(1);
        let mut frames = FramesUnheard { heard: Some(255), ..FramesUnheard::default() };
        let mut hear = |sent: &[u32], heard, at: u32, pass: u32| {
            frames.sent.extend(sent.iter().map(|at| Sent { at: *at * MS, end: 0 }));
            frames.hear(heard, at * MS, pass * MS)
        };
        let answer = |least: u32, most: u32, awaited| Some(Answer { least: least * MS, most: most * MS, awaited });
        assert_eq!(hear(&[10, 20], 1, 120, 60), answer(0, 40, false), "nothing was said before, the last came last");
        assert_eq!(hear(&[], 1, 125, 60), None);
        assert_eq!(hear(&[126], 2, 216, 60), answer(0, 30, true), "it was waited for");
        assert_eq!(hear(&[220, 260], 2, 310, 60), None, "a pass that began without");
        assert_eq!(hear(&[300], 4, 370, 60), answer(30, 50, false), "the first came after 250, the second before 310");
        assert_eq!(hear(&[], 5, 430, 0), answer(10, 130, false), "the one before began at 310");
        assert_eq!(hear(&[431], 6, 500, 60), answer(0, 9, true), "of no time is no beginning known");
    }

    /// Guesses to 4 and to 6 are at hand once their frames are; after a wrong one none is, whether it has come or not,
    /// until others come.
    #[test]
    fn guesses_are_at_hand_until_one_is_wrong() {
        let mut frames = FramesUnheard::none();
        let mut reach = |sent: &[usize], heard, is_right: bool| {
            frames.sent.extend(sent.iter().map(|end| Sent { at: Duration::ZERO, end: *end }));
            frames.hear(heard, Duration::ZERO, Duration::ZERO);
            let reach = frames.reach;
            if !is_right {
                frames.forget_guesses();
            }
            reach
        };
        assert_eq!(reach(&[4, 6, 7], 2, true), 6);
        assert_eq!(reach(&[], 2, false), 6, "the pass had them, and found one wrong");
        assert_eq!(reach(&[8], 3, true), 0, "to 7, behind the wrong one");
        assert_eq!(reach(&[], 4, true), 8);
    }
}
