//! Time of rounds over a link on a virtual clock, from the times of their parts: the papers' accounting.

use core::time::Duration;

use outrider_speculation::{control::link::Link, study::RoundRecord};

use super::sessions::Session;

/// Times of an edge's and a target's passes, and the link between them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Clock {
    /// Time of a draft, in seconds.
    pub draft: f64,
    /// Time of a pass of the target that judges nothing, in seconds.
    pub pass: f64,
    /// Time that each judged draft adds to a pass, in seconds.
    pub row: f64,
    /// Rate of the link in either direction, in bits per second; `None`: no transmission time.
    pub bits_per_second: Option<f64>,
    /// Propagation delay between the ends, in seconds.
    pub delay: f64,
}

/// Payloads of a round, which are the quantity that the papers count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    /// Number of drafted tokens.
    pub drafts: usize,
    /// Uplink payload, in bits.
    pub up: usize,
    /// Downlink payload, in bits.
    pub down: usize,
}

/// Time of rounds by its parts, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Spent {
    /// Time of the draft model's passes.
    pub drafting: f64,
    /// Transmission and propagation time.
    pub link: f64,
    /// Time of the target's passes.
    pub judging: f64,
}

impl Spent {
    /// Sum of the three parts.
    pub fn total(&self) -> f64 {
        self.drafting + self.link + self.judging
    }
}

impl From<&RoundRecord> for Sent {
    fn from(round: &RoundRecord) -> Self {
        Self { drafts: round.drafted.len(), up: round.payload_bits, down: round.downlink_bits }
    }
}

impl Clock {
    /// Seconds of rounds that follow each other, each end waiting for the other.
    pub fn spend(&self, rounds: impl IntoIterator<Item = Sent>) -> Spent {
        let mut spent = Spent::default();
        for Sent { drafts, up, down } in rounds {
            spent.drafting += self.draft * drafts as f64;
            spent.link += self.crossing(up) + self.crossing(down);
            spent.judging += self.pass + self.row * drafts as f64;
        }
        spent
    }

    /// Time of a session in seconds, whatever its gate and rule: tokens that passed are drafts that a later pass reads.
    pub fn seconds(&self, session: &Session) -> f64 {
        let statistics = &session.statistics;
        let drafts = session.rounds.iter().map(|round| round.drafted.len()).sum::<usize>() + statistics.passed;
        let drafting = self.draft * statistics.draft_passes as f64;
        let judging = self.row * drafts as f64 + self.pass * statistics.server_passes as f64;
        drafting + judging + self.crossings(session)
    }

    /// Time of a session's frames on the link, in seconds. Rounds wait for each other; a text of the target alone
    /// streams and takes one round trip.
    pub fn crossings(&self, session: &Session) -> f64 {
        match session.rounds.is_empty() {
            true if session.statistics.server_passes == 0 => 0.0,
            true => 2.0 * self.delay,
            false => {
                let bits = session.rounds.iter().map(|round| [round.uplink_bits, round.downlink_bits]);
                bits.flatten().map(|bits| self.crossing(bits)).sum()
            }
        }
    }

    /// Time of `tokens` tokens that the target writes alone, in seconds.
    pub fn alone(&self, tokens: usize) -> f64 {
        self.pass * tokens as f64
    }

    /// Rate and round-trip time of the link, as a phrase.
    pub fn link_speed(&self) -> String {
        let rate = self.bits_per_second.map_or("no limit".to_owned(), |rate| format!("{} Mbit/s", rate / 1e6));
        if self.delay > 0.0 { format!("{rate} and a round-trip time of {} ms", 2e3 * self.delay) } else { rate }
    }

    /// The link, in either direction.
    pub fn link(&self) -> Link {
        let mut link = Link::unlimited();
        link.configure(self.bits_per_second, Duration::from_secs_f64(self.delay));
        link
    }

    /// Returns the clock with a link that takes twice the time.
    pub fn with_twice_the_link(&self) -> Self {
        Self { bits_per_second: self.bits_per_second.map(|rate| rate / 2.0), delay: 2.0 * self.delay, ..*self }
    }

    fn crossing(&self, bits: usize) -> f64 {
        self.link().arrival(Duration::ZERO, bits.div_ceil(8)).as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use outrider_speculation::study::Statistics;

    use super::*;

    /// DSSD, §4.1, by hand: 61 269 bytes a round at 100 Mbit/s and 50 ms each way, eight drafts of 1 ms, a pass of 20.
    #[test]
    fn a_round_takes_what_its_parts_take() {
        let clock = Clock { draft: 0.001, pass: 0.02, row: 0.0005, bits_per_second: Some(1e8), delay: 0.025 };
        let round = Sent { drafts: 8, up: 61_269 * 8, down: 0 };
        let spent = clock.spend([round, round]);
        assert!((spent.link - 2.0 * (61_269.0 * 8.0 / 1e8 + 0.05)).abs() < 1e-9, "{spent:?}");
        assert!((spent.drafting - 0.016).abs() < 1e-12 && (spent.judging - 0.048).abs() < 1e-12);
        let twice = clock.with_twice_the_link().spend([round, round]);
        assert!((twice.link - 2.0 * spent.link).abs() < 1e-9 && twice.drafting == spent.drafting, "{twice:?}");
        assert!((clock.alone(100) - 2.0).abs() < 1e-12);
    }

    /// By hand: two rounds of three drafts, each round 1 Mbit up and none down at 10 Mbit/s and 20 ms a round trip; the
    /// target alone takes a pass a token and one round trip.
    #[test]
    fn a_session_takes_its_passes_and_its_frames() {
        let clock = Clock { draft: 0.001, pass: 0.02, row: 0.0005, bits_per_second: Some(1e7), delay: 0.01 };
        let round = RoundRecord {
            round: 0,
            drafted: vec![1; 3],
            accepted: 3,
            token: Some(1),
            payload_bits: 0,
            uplink_bits: 1_000_000,
            downlink_bits: 0,
            draft_ms: 0.0,
            round_trip_ms: 0.0,
            threshold: None,
            other_bits: std::collections::BTreeMap::new(),
        };
        let session = |rounds: Vec<RoundRecord>, server_passes, draft_passes| Session {
            prompt: vec![0],
            tokens: vec![1; 8],
            origins: Vec::new(),
            rounds,
            statistics: Statistics { server_passes, draft_passes, ..Statistics::default() },
        };
        let rounds = clock.seconds(&session(vec![round.clone(), round], 2, 6));
        assert!((rounds - (6.0 * 0.0015 + 2.0 * 0.02 + 2.0 * (0.1 + 0.02))).abs() < 1e-9, "{rounds}");
        let alone = clock.seconds(&session(Vec::new(), 8, 0));
        assert!((alone - (8.0 * 0.02 + 0.02)).abs() < 1e-9, "{alone}");
        // A cascade that asks the target for every token, after a pass of the draft model for each.
        let asked = clock.seconds(&session(Vec::new(), 8, 8));
        assert!((asked - alone - 8.0 * 0.001).abs() < 1e-9, "{asked}");
    }
}
