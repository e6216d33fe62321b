//! The policy by which a lost connection is opened again; the edge driver's `reconnect` follows it.

use core::time::Duration;

/// The attempts to connect again when a connection is lost, and the pauses between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    /// Attempts one after the other without a token; 0 gives up at once.
    pub attempts: u32,
    /// The pause before the second; it doubles with each, and up to half of it is left to chance. The first comes at
    /// once.
    pub pause: Duration,
    /// The longest of the pauses.
    pub longest: Duration,
    /// Longest silence of the server while text is due. After it the connection counts as lost. It doubles each time
    /// that the server answers the next connection and still writes nothing.
    pub stall: Duration,
}

impl Default for Retry {
    fn default() -> Self {
        let [longest, stall] = [Duration::from_secs(5); 2];
        Self { attempts: 12, pause: Duration::from_millis(100), longest, stall }
    }
}

impl Retry {
    /// Settings that never connect again, and bear any silence.
    pub(crate) const NEVER: Self =
        Self { attempts: 0, pause: Duration::ZERO, longest: Duration::ZERO, stall: Duration::MAX };

    /// The pause after `failed` attempts. `chance`, from 0 to 255, spreads those that have lost the same server.
    pub fn pause_after(&self, failed: u32, chance: u8) -> Duration {
        if failed == 0 {
            return Duration::ZERO;
        }
        let pause = self.pause.saturating_mul(1 << (failed - 1).min(20)).min(self.longest);
        pause / 2 + pause / 2 * u32::from(chance) / 255
    }
}
