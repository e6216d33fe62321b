//! Limits that a server sets for its sessions.

use serde::Serialize;

use super::fields::{draft_count, take_window};
use crate::{error::DecodeError, wire::ByteReader};

const OWN_DRAWS: u8 = 0x01;
const FEWEST_PASSES: u8 = 0x02;

/// Limits that a server sets for its sessions, and its two wishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(all(test, not(target_arch = "wasm32")), derive(ts_rs::TS))]
pub struct Limits {
    /// The most tokens of a generation, prompt included.
    pub context_length: u32,
    /// The most drafts of a round, at most 64.
    pub max_draft_tokens: u8,
    /// The most rounds that may await their verdict at a time, at least 1.
    pub max_in_flight: u8,
    /// The most guesses that may lie ahead of a text; 0 where the server takes none.
    pub max_guesses: u8,
    /// The most branches of guesses: chains that are alive besides one. 0 where guesses form one chain.
    pub max_branches: u8,
    /// True if the server chooses tokens by draws of its own and not by the noise that both ends share: a seed does not
    /// repeat a text then, and the best guess is the likeliest token.
    pub own_draws: bool,
    /// True if the server's operator asks for the fewest forward passes that cost no speed.
    pub fewest_passes: bool,
}

impl Limits {
    /// Limits of a server that takes rounds of drafts one at a time, and no guesses.
    pub const fn rounds(context_length: u32, max_draft_tokens: u8) -> Self {
        Self {
            context_length,
            max_draft_tokens,
            max_in_flight: 1,
            max_guesses: 0,
            max_branches: 0,
            own_draws: false,
            fewest_passes: false,
        }
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend(self.context_length.to_le_bytes());
        out.extend([self.max_draft_tokens, self.max_in_flight, self.max_guesses, self.max_branches]);
        let own_draws = if self.own_draws { OWN_DRAWS } else { 0 };
        out.push(own_draws | if self.fewest_passes { FEWEST_PASSES } else { 0 });
    }

    pub(super) fn decode(input: &mut ByteReader<'_>) -> Result<Self, DecodeError> {
        let context_length = input.u32("context length")?;
        let max_draft_tokens = draft_count(input.u8("maximum draft tokens")?, "maximum draft tokens")?;
        let max_in_flight = take_window(input)?;
        let (max_guesses, max_branches) = (input.u8("maximum guesses")?, input.u8("maximum branches")?);
        let flags = input.u8("welcome flags")?;
        if flags & !(OWN_DRAWS | FEWEST_PASSES) != 0 {
            return Err(DecodeError::Value { field: "welcome flags", value: flags.into() });
        }
        let (own_draws, fewest_passes) = (flags & OWN_DRAWS != 0, flags & FEWEST_PASSES != 0);
        Ok(Self {
            context_length,
            max_draft_tokens,
            max_in_flight,
            max_guesses,
            max_branches,
            own_draws,
            fewest_passes,
        })
    }
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    use std::{env, fs, path::Path};

    use ts_rs::{Config, TS};

    use super::Limits;

    const FILE: &str = "../web/src/outrider/limits.ts";

    /// `OUTRIDER_WRITE_TABLES=1 cargo test --release -p outrider-codec typescript` writes the file; without the
    /// variable the test fails where the file is not what the type gives.
    #[test]
    fn the_package_has_the_typescript_of_limits() {
        let text = Limits::export_to_string(&Config::default()).unwrap();
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(FILE);
        if env::var_os("OUTRIDER_WRITE_TABLES").is_some() {
            fs::write(&path, &text).unwrap();
        }
        assert_eq!(fs::read_to_string(path).unwrap_or_default(), text, "{FILE} is not what the type gives");
    }
}
