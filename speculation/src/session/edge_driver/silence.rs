//! Silence of the server, after which its connection counts as lost.

use core::time::Duration;

use super::{DraftModel, Driver, Platform, Socket, received_within};

impl<P: Platform, D: DraftModel> Driver<P, D> {
    /// The next message; `None` when the connection is gone, or has been silent for too long.
    pub(super) async fn receive(&mut self) -> Option<Vec<u8>> {
        loop {
            let Some(rest) = self.rest_of_silence() else { return self.socket.receive().await };
            if let Some(received) = received_within(&mut self.socket, &mut self.platform, rest).await {
                return received;
            }
            // A change of the network ends a wait early, but not the time for the prompt.
            let reading = self.reading.time().saturating_sub(self.silence());
            if let Some(received) = received_within(&mut self.socket, &mut self.platform, reading).await {
                return received;
            }
            if !self.socket.holds_bytes() {
                self.stalls += u32::from(self.failed == 0);
                return None;
            }
            self.silent_since = self.platform.now();
        }
    }

    /// The time for which the server may still be silent; `None` without a limit. A server that has answered a new
    /// connection is given more time to write: it may be slow.
    fn rest_of_silence(&self) -> Option<Duration> {
        let doublings = if self.failed == 0 { self.stalls.min(10) } else { 0 };
        let longest = self.retry.stall.checked_mul(1 << doublings)?;
        Some(longest.saturating_add(self.reading.time()).saturating_sub(self.silence()))
    }

    fn silence(&self) -> Duration {
        self.platform.now().saturating_sub(self.silent_since)
    }
}
