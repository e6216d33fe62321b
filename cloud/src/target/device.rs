//! The target on a device, which judges most rounds where its logits are.

use outrider_device::{DeviceCache, DeviceModel, DevicePages};
use outrider_models::{Chunk, ModelConfig};
use outrider_speculation::judge::Round;

use crate::target::engine::{Answer, Backend};

impl Backend for DeviceModel {
    type Pages = DevicePages;

    fn config(&self) -> &ModelConfig {
        self.config()
    }

    fn name(&self) -> &'static str {
        if self.device().is_cpu() { "candle" } else { "cuda" }
    }

    fn batching(&self) -> &'static str {
        "approximate"
    }

    fn gives_rows(&self) -> bool {
        false
    }

    fn are_rows_cheap(&self) -> bool {
        !self.device().is_cpu()
    }

    fn new_cache(&self) -> DeviceCache {
        self.new_cache()
    }

    fn run(&mut self, chunks: &mut [Chunk<'_, DevicePages>], rounds: &[Option<&Round>]) -> Result<Vec<Answer>, String> {
        let answers = self.forward(chunks).and_then(|rows| {
            let answer = |(chunk, judgement)| match judgement {
                Some(judgement) => Ok(Answer::Judged(judgement)),
                None => rows.rows(chunk).map(Answer::Rows),
            };
            rows.judge(rounds)?.into_iter().enumerate().map(answer).collect()
        });
        answers.map_err(|error| error.to_string())
    }
}
