//! Addresses at which the engine's workers take guesses.

use std::{fmt, path::PathBuf, str::FromStr};

/// Address of one proposer, or of several that share a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkerAddress {
    /// Path of a Unix socket.
    Unix(PathBuf),
    /// Host and port, as in `HOST:PORT`. If the host is a name, all its addresses are used.
    Tcp(String),
}

impl FromStr for WorkerAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let address = match text.split_once(':') {
            Some(("unix", path)) if !path.is_empty() => Some(Self::Unix(path.into())),
            Some(("tcp", place)) => {
                let parts = place.rsplit_once(':');
                let is_place =
                    |(host, port): (&str, &str)| !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0);
                parts.is_some_and(is_place).then(|| Self::Tcp(place.to_owned()))
            }
            _ => None,
        };
        address.ok_or_else(|| "it must be unix:PATH or tcp:HOST:PORT".to_owned())
    }
}

impl fmt::Display for WorkerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(place) => write!(f, "tcp:{place}"),
        }
    }
}

impl WorkerAddress {
    /// Returns true if other machines may reach the address, so that a token is required.
    pub fn is_remote(&self) -> bool {
        matches!(self, Self::Tcp(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_shown() {
        for text in ["unix:/run/outrider/guesses-0.sock", "tcp:10.0.0.2:8790", "tcp:[::1]:8790", "tcp:vllm.example:1"] {
            let address: WorkerAddress = text.parse().unwrap();
            assert_eq!((address.to_string(), address.is_remote()), (text.to_owned(), text.starts_with("tcp")));
        }
        for text in
            ["", "unix:", "/run/guesses.sock", "tcp:8790", "tcp::8790", "tcp:host:0", "tcp:host:65536", "udp:a:1"]
        {
            assert!(text.parse::<WorkerAddress>().is_err(), "{text}");
        }
    }
}
