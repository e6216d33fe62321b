//! Options that limit the resources of a client.

use std::{num::ParseIntError, str::FromStr, time::Duration};

use clap::Args;

use crate::app::Caps;

/// Options that limit the resources of one client, or of any request.
#[derive(Debug, Args)]
pub(super) struct CapsArgs {
    /// Most tokens of a text, prompt included; as many as the target's context if not given
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u32).range(2..))]
    pub max_context: Option<u32>,
    /// Sessions (also those without a connection) and API requests at a time from one address (IPv6: from one /64
    /// network); 0 is no limit
    #[arg(long, value_name = "COUNT", default_value_t = Caps::default().sessions_per_address)]
    max_sessions_per_address: usize,
    /// Connections at a time from one address that have not become sessions; trusted proxies have no limit. 0 is no
    /// limit
    #[arg(long, value_name = "COUNT", default_value_t = Caps::default().connections_per_address)]
    max_connections_per_address: usize,
    /// Frames per second that are taken from a session, and frames in a burst; faster ones have to wait. 0 is no limit
    #[arg(long, value_name = "COUNT", default_value_t = Caps::default().frames_per_second)]
    max_rounds_per_second: u32,
    /// Seconds that a connection may take to say Hello
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = seconds)]
    pub hello_timeout: u64,
    /// Seconds that the head of a request may take, and a pause in its body; all of the body may take six times as long
    #[arg(long, value_name = "SECONDS", default_value_t = Caps::default().header_read.as_secs(), value_parser = seconds)]
    request_timeout: u64,
    /// Bytes in the body of a request to the API; a session's frames have at most 2 MiB in any case
    #[arg(long, value_name = "BYTES", default_value_t = Caps::default().body_bytes, value_parser = positive::<usize>)]
    max_body: usize,
}

impl CapsArgs {
    pub(super) fn caps(&self) -> Caps {
        let timeout = Duration::from_secs(self.request_timeout);
        Caps {
            sessions_per_address: self.max_sessions_per_address,
            connections_per_address: self.max_connections_per_address,
            frames_per_second: self.max_rounds_per_second,
            body_bytes: self.max_body,
            header_read: timeout,
            body_read: timeout,
        }
    }
}

/// Parses a time limit in whole seconds. Times beyond a century would overflow the clock.
pub(super) fn seconds(text: &str) -> Result<u64, String> {
    match positive::<u64>(text)? {
        seconds if seconds > u32::MAX.into() => Err(format!("{} seconds are the most", u32::MAX)),
        seconds => Ok(seconds),
    }
}

/// Parses a number for a setting with which the server could serve no client if it were 0.
pub(super) fn positive<T>(text: &str) -> Result<T, String>
where
    T: FromStr<Err = ParseIntError> + PartialEq + From<u8>,
{
    match text.parse::<T>() {
        Ok(number) if number == T::from(0) => {
            Err("with 0 no client could be served; set 1 or more, or leave the setting out for its default".to_owned())
        }
        parsed => parsed.map_err(|error: ParseIntError| error.to_string()),
    }
}
