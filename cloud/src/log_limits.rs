//! Limits on the lines of the log that one client can cause.
//!
//! In each time window an address may cause a limited number of lines of one kind, which is their message. Further
//! lines are left out and counted. When the next line comes after the window, one line for each kind reports the count.

use std::{
    collections::{BTreeMap, HashMap},
    mem,
    net::{IpAddr, Ipv6Addr},
    sync::{LazyLock, Mutex, PoisonError},
    time::{Duration, Instant},
};

use tracing::Level;

use crate::address_limits::subnet;

/// Length of the window in which lines of an address are counted.
const WINDOW: Duration = Duration::from_secs(10);
/// Lines at level INFO, about ordinary sessions, that an address may cause of one kind in a window.
const ORDINARY_LINES: u64 = 100;
/// Lines at any other level, mostly refusals, that an address may cause of one kind in a window.
const OTHER_LINES: u64 = 10;
/// Pairs of an address and a kind that are counted separately. Further addresses share one count for each kind.
const MOST_COUNTS: usize = 4096;
/// The address that stands for those beyond [`MOST_COUNTS`].
const SHARED: IpAddr = IpAddr::V6(Ipv6Addr::UNSPECIFIED);

/// Counts of this process, which has one log.
static COUNTS: LazyLock<Mutex<Counts>> = LazyLock::new(|| Mutex::new(Counts::new(Instant::now())));

/// Writes an event that a client causes, unless its address has caused too many with this message.
macro_rules! client_event {
    ($level:ident, $address:expr, $message:literal $(, $($field:tt)+)?) => {
        if tracing::enabled!(tracing::Level::$level)
            && $crate::log_limits::admit($address, tracing::Level::$level, $message)
        {
            tracing::event!(tracing::Level::$level, $($($field)+,)? $message);
        }
    };
}
pub(crate) use client_event;

/// Counts a line of this kind and returns true if it is to be written. Reports the lines left out of a window that is
/// over.
pub(crate) fn admit(address: IpAddr, level: Level, kind: &'static str) -> bool {
    let most = if level == Level::INFO { ORDINARY_LINES } else { OTHER_LINES };
    let (is_written, left_out) = {
        // The counts are consistent after a panic, too.
        let mut counts = COUNTS.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let left_out = counts.end_window(now);
        (counts.admit(subnet(address), most, kind), left_out)
    };
    for (kind, LeftOut { lines, addresses, loudest: (_, address) }) in left_out {
        tracing::warn!(kind, lines, addresses, %address, "left out lines of clients that caused too many");
    }
    is_written
}

/// Lines in the current window.
struct Counts {
    began: Instant,
    counts: HashMap<(IpAddr, &'static str), Count>,
}

/// Lines of one kind from one address.
#[derive(Default)]
struct Count {
    written: u64,
    left_out: u64,
}

/// Lines of one kind that were left out of a window.
#[derive(Debug, PartialEq, Eq)]
struct LeftOut {
    lines: u64,
    addresses: usize,
    /// The largest number of lines from one address, and that address.
    loudest: (u64, IpAddr),
}

impl Counts {
    fn new(now: Instant) -> Self {
        Self { began: now, counts: HashMap::new() }
    }

    /// Counts a line; returns true if it is among the first `most` of its address and kind in the window.
    fn admit(&mut self, address: IpAddr, most: u64, kind: &'static str) -> bool {
        let is_known = self.counts.len() < MOST_COUNTS || self.counts.contains_key(&(address, kind));
        let count = self.counts.entry((if is_known { address } else { SHARED }, kind)).or_default();
        let is_written = count.written < most;
        *(if is_written { &mut count.written } else { &mut count.left_out }) += 1;
        is_written
    }

    /// Begins another window if this one is over. Returns the lines that were left out of it, by kind.
    fn end_window(&mut self, now: Instant) -> BTreeMap<&'static str, LeftOut> {
        let mut all = BTreeMap::new();
        if now.duration_since(self.began) < WINDOW {
            return all;
        }
        self.began = now;
        for ((address, kind), Count { left_out, .. }) in mem::take(&mut self.counts) {
            if left_out > 0 {
                let none = LeftOut { lines: 0, addresses: 0, loudest: (0, address) };
                let sum: &mut LeftOut = all.entry(kind).or_insert(none);
                sum.lines += left_out;
                sum.addresses += 1;
                sum.loudest = sum.loudest.max((left_out, address));
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    /// An address by its number.
    fn address(number: usize) -> IpAddr {
        Ipv4Addr::from(u32::try_from(number).unwrap()).into()
    }

    #[test]
    fn each_address_has_so_many_lines_of_each_kind_in_a_window() {
        let start = Instant::now();
        let mut counts = Counts::new(start);
        let mut written = |client, kind, lines: usize| (0..lines).filter(|_| counts.admit(client, 3, kind)).count();
        assert_eq!(written(address(1), "refused", 2), 2);
        assert_eq!(written(address(1), "refused", 6), 1);
        assert_eq!(written(address(1), "closed", 3), 3);
        assert_eq!(written(address(2), "refused", 4), 3);
        assert!(counts.end_window(start + WINDOW - Duration::from_millis(1)).is_empty());
        assert!(!counts.admit(address(1), 3, "refused"));
        let left_out = counts.end_window(start + WINDOW);
        let refused = LeftOut { lines: 7, addresses: 2, loudest: (6, address(1)) };
        assert_eq!(left_out, BTreeMap::from([("refused", refused)]));
        assert!(counts.admit(address(1), 3, "refused"));
        assert!(counts.end_window(start + 3 * WINDOW).is_empty());
    }

    #[test]
    fn memory_is_bounded_whatever_the_number_of_addresses() {
        let start = Instant::now();
        let mut counts = Counts::new(start);
        let written = (0..3 * MOST_COUNTS).filter(|&number| counts.admit(address(number), 2, "refused")).count();
        assert_eq!(written, MOST_COUNTS + 2);
        assert_eq!(counts.counts.len(), MOST_COUNTS + 1);
        assert!(counts.admit(address(0), 2, "refused"), "whoever is counted apart still is");
        let left_out = &counts.end_window(start + WINDOW)["refused"];
        assert_eq!((left_out.lines, left_out.loudest.1), (2 * MOST_COUNTS as u64 - 2, SHARED));
        assert!(counts.counts.is_empty());
    }
}
