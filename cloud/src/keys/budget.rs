//! Requests and tokens that a key has left, which fill up steadily: token buckets of one minute's length.

use std::{
    num::NonZeroU32,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use serde::Serialize;

/// Limits of a key; `None` is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub(crate) struct KeyLimits {
    pub(crate) requests_per_minute: Option<NonZeroU32>,
    pub(crate) tokens_per_minute: Option<NonZeroU32>,
    pub(crate) sessions: Option<NonZeroU32>,
}

/// Limit that a key has reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Exceeded {
    #[error("This key may send {limit} requests per minute; try again in {} s.", seconds(*wait))]
    Requests { limit: NonZeroU32, wait: Duration },
    #[error("This key may use {limit} tokens per minute; try again in {} s.", seconds(*wait))]
    Tokens { limit: NonZeroU32, wait: Duration },
    #[error("This key has {0} sessions, as many as it may; end one, or try again later.")]
    Sessions(NonZeroU32),
}

impl Exceeded {
    /// Time after which another attempt may succeed.
    pub(crate) fn wait(self) -> Duration {
        match self {
            Self::Requests { wait, .. } | Self::Tokens { wait, .. } => wait,
            Self::Sessions(_) => Duration::from_secs(5),
        }
    }
}

/// Whole seconds, rounded up, of which there is at least one.
pub(crate) fn seconds(wait: Duration) -> u64 {
    (wait.as_secs_f64().ceil() as u64).max(1)
}

/// Remaining requests and tokens of a key in this minute.
#[derive(Debug)]
pub(super) struct Budget(Mutex<Buckets>);

#[derive(Debug)]
struct Buckets {
    requests: Option<Bucket>,
    tokens: Option<Bucket>,
}

/// Remaining amount of one limit.
#[derive(Debug)]
struct Bucket {
    limit: NonZeroU32,
    /// At most the limit, which it has gained a minute after it was 0; negative if more was used.
    left: f64,
    at: Instant,
}

/// State of a limit per minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rate {
    pub(crate) limit: u32,
    pub(crate) remaining: u32,
    /// Time until all of the limit is there again.
    pub(crate) reset: Duration,
}

/// State of both limits per minute; `None` for one that is not set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rates {
    pub(crate) requests: Option<Rate>,
    pub(crate) tokens: Option<Rate>,
}

impl Budget {
    pub(super) fn new(limits: KeyLimits, now: Instant) -> Self {
        let bucket = |limit: NonZeroU32| Bucket { limit, left: limit.get().into(), at: now };
        let (requests, tokens) = (limits.requests_per_minute.map(bucket), limits.tokens_per_minute.map(bucket));
        Self(Mutex::new(Buckets { requests, tokens }))
    }

    pub(super) fn take_request(&self, now: Instant) -> Result<(), Exceeded> {
        let mut buckets = self.at(now);
        if let Some(tokens) = buckets.tokens.as_ref().filter(|tokens| tokens.left < 1.0) {
            return Err(Exceeded::Tokens { limit: tokens.limit, wait: tokens.time_to(1.0) });
        }
        let Some(requests) = &mut buckets.requests else { return Ok(()) };
        if requests.left < 1.0 {
            return Err(Exceeded::Requests { limit: requests.limit, wait: requests.time_to(1.0) });
        }
        requests.left -= 1.0;
        Ok(())
    }

    pub(super) fn spend(&self, tokens: u64, now: Instant) {
        if let Some(bucket) = &mut self.at(now).tokens {
            bucket.left -= tokens as f64;
        }
    }

    pub(super) fn token_wait(&self, now: Instant) -> Duration {
        self.at(now).tokens.as_ref().map_or(Duration::ZERO, |tokens| tokens.time_to(1.0))
    }

    pub(super) fn rates(&self, now: Instant) -> Rates {
        let buckets = self.at(now);
        let rate = |bucket: &Bucket| {
            let limit = bucket.limit.get();
            Rate { limit, remaining: bucket.left.max(0.0) as u32, reset: bucket.time_to(limit.into()) }
        };
        Rates { requests: buckets.requests.as_ref().map(rate), tokens: buckets.tokens.as_ref().map(rate) }
    }

    /// The buckets as they are now. Every state of them is valid, also after a panic.
    fn at(&self, now: Instant) -> MutexGuard<'_, Buckets> {
        let mut buckets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Buckets { requests, tokens } = &mut *buckets;
        for bucket in requests.iter_mut().chain(tokens) {
            let gained = now.saturating_duration_since(bucket.at).as_secs_f64() * bucket.per_second();
            bucket.left = (bucket.left + gained).min(bucket.limit.get().into());
            bucket.at = bucket.at.max(now);
        }
        buckets
    }
}

impl Bucket {
    fn per_second(&self) -> f64 {
        f64::from(self.limit.get()) / 60.0
    }

    /// Time until this much is left.
    fn time_to(&self, amount: f64) -> Duration {
        Duration::from_secs_f64(((amount - self.left) / self.per_second()).max(0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minute_fills_what_was_used() {
        let limits = KeyLimits {
            requests_per_minute: NonZeroU32::new(2),
            tokens_per_minute: NonZeroU32::new(600),
            sessions: None,
        };
        let start = Instant::now();
        let budget = Budget::new(limits, start);
        assert_eq!(budget.take_request(start), Ok(()));
        assert_eq!(budget.take_request(start), Ok(()));
        let wait = Duration::from_secs(30);
        let limit = limits.requests_per_minute.unwrap();
        assert_eq!(budget.take_request(start), Err(Exceeded::Requests { limit, wait }));
        assert_eq!(budget.take_request(start + wait), Ok(()));
        // A text of 700 tokens goes on beyond the limit; the next begins when 101 tokens have been gained.
        budget.spend(700, start + wait);
        let limit = limits.tokens_per_minute.unwrap();
        let wait = Duration::from_millis(10_100);
        let later = start + Duration::from_secs(30);
        assert_eq!(budget.take_request(later), Err(Exceeded::Tokens { limit, wait }));
        assert_eq!(budget.token_wait(later), wait);
        let tokens = Rate { limit: 600, remaining: 0, reset: Duration::from_secs(70) };
        assert_eq!(budget.rates(later).tokens, Some(tokens));
        assert_eq!(budget.rates(later + Duration::from_secs(3600)).tokens.unwrap().remaining, 600);
    }
}
