//! Limits per client address: how many sessions or connections one address may hold at a time.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv6Addr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Counts of permits by address, with one limit for all addresses. Clones share the counts.
#[derive(Debug, Clone)]
pub(crate) struct AddressLimits {
    limit: usize,
    held: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

/// One of the permits of an address, returned when dropped.
#[derive(Debug)]
pub(crate) struct AddressPermit {
    limits: AddressLimits,
    address: IpAddr,
}

impl AddressLimits {
    /// Limits with no permits taken; a limit of 0 is no limit.
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, held: Arc::default() }
    }

    /// The most permits that an address may hold; 0 is no limit.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// Takes a permit, unless the address holds as many as it may.
    pub(crate) fn take(&self, address: IpAddr) -> Option<AddressPermit> {
        let address = subnet(address);
        let mut held = self.lock();
        let count = held.entry(address).or_default();
        if self.limit > 0 && *count >= self.limit {
            return None;
        }
        *count += 1;
        drop(held);
        Some(AddressPermit { limits: self.clone(), address })
    }

    /// Locks the counts, which are valid at every moment, also after a panic.
    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AddressPermit {
    /// The address that holds the permit, as [`subnet`] gives it.
    pub(crate) fn address(&self) -> IpAddr {
        self.address
    }
}

impl Drop for AddressPermit {
    fn drop(&mut self) {
        let mut held = self.limits.lock();
        if let Some(count) = held.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                held.remove(&self.address);
            }
        }
    }
}

/// The address by which a client is counted: an IPv4 address, or the /64 network of an IPv6 address, which one client
/// has to itself.
pub(crate) fn subnet(address: IpAddr) -> IpAddr {
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
    fn permits_are_counted_by_address_and_returned() {
        let limits = AddressLimits::new(2);
        let take = |address: &str| limits.take(address.parse().unwrap());
        let first = take("192.0.2.1").unwrap();
        let _second = take("::ffff:192.0.2.1").unwrap();
        assert!(take("192.0.2.1").is_none());
        let _other = take("192.0.2.2").unwrap();
        drop(first);
        let _third = take("192.0.2.1").unwrap();
        let _v6 = [take("2001:db8::1").unwrap(), take("2001:db8::ffff:1").unwrap()];
        assert!(take("2001:db8::2").is_none() && take("2001:db8:0:1::2").is_some());
        assert_eq!(limits.lock().len(), 3);
        let all: Vec<_> = (0..1000).map(|_| AddressLimits::new(0).take("192.0.2.1".parse().unwrap())).collect();
        assert!(all.iter().all(Option::is_some));
    }
}
