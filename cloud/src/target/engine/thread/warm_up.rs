//! Passes before the first session. Their times are the first prices of rows, which would otherwise be those of a usual
//! model for some hundred passes.

use std::time::{Duration, Instant};

use outrider_models::Chunk;

use super::Thread;
use crate::target::engine::backend::Backend;

/// Rows of the passes; the first one is not counted.
const SIZES: [usize; 9] = [1, 1, 4, 8, 2, 1, 4, 8, 2];
/// Time after which no other pass is begun.
const LIMIT: Duration = Duration::from_secs(2);
/// Distance of the tokens' ids, so that the rows of a mixture have different experts.
const STRIDE: usize = 7919;

impl<B: Backend> Thread<B> {
    /// Times passes for about two seconds at most.
    pub(super) fn warm_up(&mut self) {
        if !self.backend.warms_up() {
            return;
        }
        let began = Instant::now();
        for (pass, rows) in SIZES.into_iter().enumerate() {
            let Some(took) = self.time(rows) else { return };
            if pass > 0 {
                self.rates.timed(rows, took);
            }
            if began.elapsed() > LIMIT {
                return;
            }
        }
    }

    /// Time of a pass as a session alone would ask for; `None` if it fails.
    fn time(&mut self, rows: usize) -> Option<Duration> {
        let vocab_size = self.backend.config().vocab_size;
        let tokens: Vec<u32> = (0..rows).map(|row| (row * STRIDE % vocab_size) as u32).collect();
        let (mut cache, positions) = (self.backend.new_cache(), (0..rows).collect::<Vec<_>>());
        let began = Instant::now();
        let mut chunks = [Chunk { cache: &mut cache, tokens: &tokens, positions: &positions }];
        self.backend.run(&mut chunks, &[None]).ok()?;
        Some(began.elapsed())
    }
}
