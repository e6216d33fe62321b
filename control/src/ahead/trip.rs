//! The link's round trip, by handshakes, first tokens and answers to guesses.
//!
//! A guess that the target does not wait for is answered by the pass after the one under way, whose rest it waits for
//! as well: a trip shorter than a pass may look as long as one, and may be none.

use core::time::Duration;

use crate::{measure::Recent, observation::Answer};

/// A round trip is another link's if it is this many times as long, and this many seconds longer.
const OTHER_LINK: (f64, f64) = (2.0, 0.005);
/// Answers of a text that show another link before a segment is over.
const ANSWERS: usize = 3;
/// Lateness of a first token, in passes, that is no sign of a long link: others may have had the target.
const HIDDEN: f64 = 1.25;

/// Observations of the link's round trip. `pass` is the time of a pass that judges nothing, in seconds.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct RoundTrip {
    /// The round trip of the link on which the modes were tried.
    link: Option<f64>,
    /// The round trip by the first token of this text.
    first: Option<f64>,
    answers: Recent<Answer>,
}

/// Bounds on the round trip, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Bounds {
    least: f64,
    most: f64,
}

impl RoundTrip {
    /// Begins another text.
    pub(super) fn next_generation(&mut self) {
        (self.first, self.answers) = (None, Recent::default());
    }

    /// Counts a handshake of a connection. Returns true if the link is another.
    pub(super) fn connected(&mut self, took: Duration) -> bool {
        let trip = took.as_secs_f64();
        let before = self.link.replace(trip);
        before.is_some_and(|link| is_longer(trip, link) || is_longer(link, trip))
    }

    /// Counts the first token, without the time of its pass.
    pub(super) fn began(&mut self, trip: Duration) {
        self.first = Some(trip.as_secs_f64());
    }

    /// Counts an answer to guesses.
    pub(super) fn answered(&mut self, answer: Answer) {
        if self.answers.is_full() {
            // The link was another perhaps.
            self.first = None;
        }
        self.answers.observe(answer);
    }

    /// True if there are enough answers to show another link.
    pub(super) fn may_say(&self) -> bool {
        self.answers.len() >= ANSWERS
    }

    /// Decides whether the modes were tried on another link. Keeps this one's round trip, as far as it is known.
    pub(super) fn is_other_link(&mut self, pass: f64) -> bool {
        let Some(trip) = self.bounds(pass) else { return false };
        let Some(link) = self.link else {
            self.link = self.seen(pass);
            return false;
        };
        let is_other = is_longer(trip.least, link) || is_longer(link, trip.most);
        if is_other {
            self.answers.keep(ANSWERS);
            self.first = self.first.filter(|first| *first >= trip.least);
            // What the other was says nothing of this one.
            self.link = None;
            self.link = self.seen(pass);
        }
        is_other
    }

    /// Estimated round-trip time, in seconds: what is awaited shows it, and so does at first what comes late; else what
    /// it was when it was seen last, within what it can be now. Passes hide a short one from an edge that does not
    /// wait.
    pub(super) fn get(&self, pass: f64) -> Option<f64> {
        let Bounds { least, most } = self.bounds(pass)?;
        let is_seen = self.any_awaited() || self.link.is_none() && least > 0.0;
        let known = if is_seen { most } else { self.link.unwrap_or(0.0) }.min(most);
        // What is not awaited may be late for other reasons than the link.
        Some(if self.link.is_none() || is_longer(least, known) { known.max(least) } else { known })
    }

    /// The round trip, where anything shows it.
    fn seen(&self, pass: f64) -> Option<f64> {
        let Bounds { least, .. } = self.bounds(pass)?;
        if self.any_awaited() || least > 0.0 { self.get(pass) } else { None }
    }

    fn any_awaited(&self) -> bool {
        self.answers.iter().any(|answer| answer.awaited)
    }

    fn bounds(&self, pass: f64) -> Option<Bounds> {
        let most = self.answers.iter().map(|answer| answer.most.as_secs_f64());
        let most = most.chain(self.first).reduce(f64::min)?;
        // A first token that came that late waited for no pass, unless for those of others.
        let first = self.first.filter(|first| *first > HIDDEN * pass && *first <= most);
        Some(Bounds { least: self.least().max(first.unwrap_or(0.0)), most })
    }

    /// Lower bound by several answers: one or two may be late by anything. What was awaited took all of its time.
    fn least(&self) -> f64 {
        let least = |answer: &Answer| if answer.awaited { answer.most } else { answer.least }.as_secs_f64();
        let mut all: Vec<f64> = self.answers.iter().map(least).collect();
        all.sort_by(|a, b| b.total_cmp(a));
        all.get(ANSWERS - 1).copied().unwrap_or(0.0)
    }
}

/// A round trip is another link's than one that took `than` seconds.
fn is_longer(trip: f64, than: f64) -> bool {
    trip > OTHER_LINK.0 * than && trip > than + OTHER_LINK.1
}
