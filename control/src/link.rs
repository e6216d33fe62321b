//! A link of given rate and delay, which says when bytes handed over now arrive.
//!
//! A token bucket that holds no more than the message under way (no bursts: a slow link is slow from its first byte),
//! then a constant delay. The caller keeps the clock and does the waiting.

use core::time::Duration;

/// One direction of a link.
#[derive(Debug, Clone)]
pub struct Link {
    bits_per_second: Option<f64>,
    delay: Duration,
    /// Time at which the last bit handed over so far has left.
    free_at: Duration,
    /// Time at which the last bytes handed over arrive; later bytes do not overtake them.
    last_arrival: Duration,
}

impl Link {
    /// A link that adds nothing.
    pub fn unlimited() -> Self {
        Self { bits_per_second: None, delay: Duration::ZERO, free_at: Duration::ZERO, last_arrival: Duration::ZERO }
    }

    /// Sets rate (`None`: not limited; otherwise above zero) and one-way delay from now on.
    pub fn configure(&mut self, bits_per_second: Option<f64>, delay: Duration) {
        self.bits_per_second = bits_per_second.filter(|rate| rate.is_finite() && *rate > 0.0);
        self.delay = delay;
    }

    /// Time at which `bytes` bytes handed over at `now` have arrived; never before those handed over earlier.
    pub fn arrival(&mut self, now: Duration, bytes: usize) -> Duration {
        let start = self.free_at.max(now);
        let sending = self.bits_per_second.map_or(0.0, |rate| bytes as f64 * 8.0 / rate);
        // A year at most: beyond any session, and it cannot overflow.
        self.free_at = start + Duration::from_secs_f64(sending.min(3.2e7));
        self.last_arrival = self.last_arrival.max(self.free_at + self.delay);
        self.last_arrival
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn rate_and_delay_add_up_and_messages_queue() {
        let mut link = Link::unlimited();
        assert_eq!(link.arrival(ms(5), 1000), ms(5));
        link.configure(Some(8000.0), ms(100));
        assert_eq!(link.arrival(ms(10), 500), ms(10 + 500 + 100));
        assert_eq!(link.arrival(ms(20), 500), ms(10 + 1000 + 100), "waits for the first");
        assert_eq!(link.arrival(ms(5000), 1), ms(5000 + 1 + 100), "an idle link saves nothing up");
        link.configure(None, ms(0));
        assert_eq!(link.arrival(ms(5001), 1), ms(5101), "nothing overtakes");
    }
}
