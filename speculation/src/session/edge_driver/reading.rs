//! Time that a server may be silent while it reads a prompt.

use core::time::Duration;

use outrider_codec::frame::{PASS_ROWS, Welcome};

/// Margin of the time: other sessions share the server.
const SHARED: u32 = 4;

/// Time for the prompt of a generation, by the passes in the server's Welcome; zero where that has none.
#[derive(Debug, Default)]
pub(super) struct Reading {
    /// The last prompt, which the server need not read again.
    prompt: Vec<u32>,
    time: Duration,
}

impl Reading {
    /// A generation begins with a prompt.
    pub(super) fn begin(&mut self, prompt: &[u32], server: Option<&Welcome>) {
        let known = self.prompt.iter().zip(prompt).take_while(|(known, id)| known == id).count();
        let [.., micros] = server.map_or([0; PASS_ROWS.len()], |server| server.pass_micros);
        let [.., rows] = PASS_ROWS;
        let passes = u32::try_from((prompt.len() - known).div_ceil(rows.into())).unwrap_or(u32::MAX);
        self.time = Duration::from_micros(micros.into()).saturating_mul(passes).saturating_mul(SHARED);
        self.prompt = prompt.to_vec();
    }

    /// The prompt is read: its first token has come.
    pub(super) fn end(&mut self) {
        self.time = Duration::ZERO;
    }

    /// Time that is left to the server beyond that of other tokens.
    pub(super) fn time(&self) -> Duration {
        self.time
    }
}

#[cfg(test)]
mod tests {
    use outrider_codec::frame::{Limits, Ticket};
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    use super::*;

    /// 100 tokens are seven passes of 16 rows. A conversation that goes on is read from its new part on.
    #[test]
    fn what_the_server_knows_takes_no_time() {
        let server = Welcome {
            vocab_size: 4,
            limits: Limits::rounds(16, 4),
            eos_ids: Vec::new(),
            ticket: Ticket::default(),
            detached_seconds: 120,
            pass_micros: [8, 10, 14, 22, 1000],
        };
        let mut reading = Reading::default();
        let mut time = |prompt: &[u32], server| {
            reading.begin(prompt, server);
            reading.time().as_millis()
        };
        assert_eq!(time(&[1; 100], Some(&server)), 28);
        assert_eq!(time(&[1; 116], Some(&server)), 4);
        assert_eq!((time(&[1; 116], Some(&server)), time(&[2; 16], Some(&server)), time(&[1; 100], None)), (0, 4, 0));
    }
}
