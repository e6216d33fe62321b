//! Time that a server may be silent while it reads a prompt.

use core::time::Duration;

use outrider_codec::frame::{PASS_ROWS, Welcome};

/// Margin of [`reading_time`]: other sessions share the server.
const SHARED: u32 = 4;

/// Time that a server may take to read a prompt of `tokens`, by the passes in its Welcome; zero where it has none.
pub(super) fn reading_time(server: Option<&Welcome>, tokens: usize) -> Duration {
    let [.., micros] = server.map_or([0; PASS_ROWS.len()], |server| server.pass_micros);
    let [.., rows] = PASS_ROWS;
    let passes = u32::try_from(tokens.div_ceil(rows.into())).unwrap_or(u32::MAX);
    Duration::from_micros(micros.into()).saturating_mul(passes).saturating_mul(SHARED)
}
