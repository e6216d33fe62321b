//! Client address of a request.
//!
//! With a proxy in between, it is not the address of the connection. Proxies append the address that they see to
//! `X-Forwarded-For`, and a client can send any list of its own. Therefore the list is read from its end, and only past
//! addresses of trusted proxies.

use std::net::{IpAddr, SocketAddr};

use axum::http::{HeaderMap, HeaderName};
use ipnet::IpNet;

static FORWARDED: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Networks of trusted proxies.
#[derive(Debug, Clone, Default)]
pub struct Proxies(Vec<IpNet>);

impl Proxies {
    /// Trusts proxies with an address in one of these networks.
    pub fn new(networks: Vec<IpNet>) -> Self {
        Self(networks)
    }

    /// Returns true if an address is that of a trusted proxy.
    pub(crate) fn include(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(&address))
    }

    /// Address of the client that sent a request with these headers through `peer`.
    pub(crate) fn client(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let mut client = peer.to_canonical();
        let lists: Vec<&str> = headers.get_all(&FORWARDED).iter().filter_map(|list| list.to_str().ok()).collect();
        for address in lists.iter().rev().flat_map(|list| list.rsplit(',')) {
            if !self.include(client) {
                break;
            }
            let Some(address) = read(address.trim()) else { break };
            client = address.to_canonical();
        }
        client
    }
}

/// Address in a list; some proxies add the port.
fn read(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    bare.parse().or_else(|_| text.parse::<SocketAddr>().map(|address| address.ip())).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_proxies_are_believed_and_only_about_whom_they_have_seen() {
        let proxies = Proxies::new(vec!["10.0.0.0/8".parse().unwrap(), "::1/128".parse().unwrap()]);
        let client = |peer: &str, forwarded: &[&str]| {
            let mut headers = HeaderMap::new();
            for list in forwarded {
                headers.append(&FORWARDED, list.parse().unwrap());
            }
            proxies.client(peer.parse().unwrap(), &headers).to_string()
        };
        assert_eq!(client("192.0.2.1", &[]), "192.0.2.1");
        assert_eq!(client("192.0.2.1", &["198.51.100.7"]), "192.0.2.1", "nobody is believed about himself");
        assert_eq!(client("10.1.2.3", &["198.51.100.7"]), "198.51.100.7");
        assert_eq!(client("::ffff:10.1.2.3", &["::ffff:198.51.100.7"]), "198.51.100.7");
        assert_eq!(client("10.1.2.3", &["1.1.1.1, 198.51.100.7, 10.9.9.9"]), "198.51.100.7");
        assert_eq!(client("10.1.2.3", &["1.1.1.1", "198.51.100.7"]), "198.51.100.7");
        assert_eq!(client("10.1.2.3", &["1.1.1.1:80, 198.51.100.7:5678, 10.9.9.9:1"]), "198.51.100.7");
        assert_eq!(client("10.1.2.3", &["[2001:db8::7]:80"]), "2001:db8::7");
        assert_eq!(client("10.1.2.3", &["[2001:db8::7]"]), "2001:db8::7");
        assert_eq!(client("10.1.2.3", &["nonsense"]), "10.1.2.3");
        assert_eq!(client("::1", &["2001:db8::7"]), "2001:db8::7");
    }
}
