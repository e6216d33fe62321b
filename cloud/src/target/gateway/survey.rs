//! Figures of an engine for `outrider check`: its probabilities of a text, and its time for a token.

use std::time::Instant;

use outrider_codec::frame::SamplingParameters;

use super::{
    completion::{Probabilities, Question, lacks},
    error::GatewayError,
    handle::Gateway,
};

/// Tokens of the longer of two timed texts.
const TIMED_TOKENS: usize = 33;
/// Number of timed pairs of texts, of which the median counts.
const REPEATS: usize = 5;

/// Figures of an engine.
#[derive(Debug)]
pub struct Survey {
    /// For each token of the text but the first, the most likely tokens there with their probabilities p.
    pub likely: Vec<Probabilities>,
    /// Seconds of a token that the engine writes alone.
    pub token_seconds: f64,
}

impl Gateway {
    /// Surveys the engine with a text of at least two tokens.
    ///
    /// # Errors
    /// If the engine does not list its probabilities, or is not asked to, or ends a text at once.
    pub async fn survey(&self, text: &[u32]) -> Result<Survey, GatewayError> {
        let Self(shared) = self;
        if shared.listed == 0 {
            return Err(GatewayError::NothingToCheck);
        }
        let question = Question { prompt_listed: Some(shared.listed), ..Question::after(text) };
        let mut choices = shared.client.ask(&question).await?;
        let likely = choices.pop().map(|choice| choice.prompt).filter(|prompt| prompt.len() == text.len());
        let mut likely = likely.ok_or(GatewayError::NoPromptLogprobs)?;
        likely.remove(0);
        let mut seconds = Vec::new();
        for _ in 0..REPEATS {
            let (one, _) = self.timed(text, 1).await?;
            let (many, written) = self.timed(text, TIMED_TOKENS).await?;
            let further = written.checked_sub(1).filter(|&further| further > 0);
            let further = further.ok_or_else(|| lacks("the engine ends the text after one token".to_owned()))?;
            seconds.push((many - one).max(0.0) / further as f64);
        }
        seconds.sort_by(f64::total_cmp);
        Ok(Survey { likely, token_seconds: seconds[REPEATS / 2] })
    }

    /// Seconds of a request for at most `tokens` tokens, and the number of tokens that it gave.
    async fn timed(&self, text: &[u32], tokens: usize) -> Result<(f64, usize), GatewayError> {
        let began = Instant::now();
        let sampling = SamplingParameters { temperature: 0.0, top_k: 0, top_p: 1.0 };
        let choices = self.0.client.ask(&Question { max_tokens: tokens, sampling, ..Question::after(text) }).await?;
        let written = choices.first().map_or(0, |choice| choice.tokens.len());
        Ok((began.elapsed().as_secs_f64(), written))
    }
}
