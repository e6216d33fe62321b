//! How much of something each address has.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv6Addr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// What is counted by address, and how many each may have. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Places {
    limit: usize,
    taken: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

/// One of an address's places. Given up when dropped.
#[derive(Debug)]
pub(crate) struct Place {
    places: Places,
    address: IpAddr,
}

impl Places {
    /// 0 is no limit.
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, taken: Arc::default() }
    }

    /// How many an address may have; 0 is no limit.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// One more, unless the address has as many as it may.
    pub(crate) fn take(&self, address: IpAddr) -> Option<Place> {
        let address = household(address);
        let mut taken = self.lock();
        let count = taken.entry(address).or_default();
        if self.limit > 0 && *count >= self.limit {
            return None;
        }
        *count += 1;
        drop(taken);
        Some(Place { places: self.clone(), address })
    }

    /// Whoever has panicked has left whole numbers behind.
    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Whose it is.
    pub(crate) fn address(&self) -> IpAddr {
        self.address
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.lock();
        if let Some(count) = taken.get_mut(&self.address) {
            *count -= 1;
            // Nobody is remembered who has gone.
            if *count == 0 {
                taken.remove(&self.address);
            }
        }
    }
}

/// Of IPv6 everybody has a network of 2^64 addresses; it counts as one.
pub(crate) fn household(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let mut segments = address.segments();
            segments[4..].fill(0);
            IpAddr::V6(Ipv6Addr::from(segments))
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_by_address_and_given_up() {
        let places = Places::new(2);
        let take = |address: &str| places.take(address.parse().unwrap());
        let first = take("192.0.2.1").unwrap();
        let _second = take("::ffff:192.0.2.1").unwrap();
        assert!(take("192.0.2.1").is_none());
        let _other = take("192.0.2.2").unwrap();
        drop(first);
        let _third = take("192.0.2.1").unwrap();
        let _v6 = [take("2001:db8::1").unwrap(), take("2001:db8::ffff:1").unwrap()];
        assert!(take("2001:db8::2").is_none() && take("2001:db8:0:1::2").is_some());
        assert_eq!(places.lock().len(), 3);
        let all: Vec<_> = (0..1000).map(|_| Places::new(0).take("192.0.2.1".parse().unwrap())).collect();
        assert!(all.iter().all(Option::is_some));
    }
}
