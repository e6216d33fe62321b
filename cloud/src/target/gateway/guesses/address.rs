//! Where the engine's workers take guesses, as an operator says it.

use std::{fmt, path::PathBuf, str::FromStr};

/// Where a proposer listens, or several behind one name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkerAddress {
    /// A Unix socket.
    Unix(PathBuf),
    /// A host and a port. Of a name all addresses are meant.
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
    /// Whether others than this machine may reach it, so that it wants a token.
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
