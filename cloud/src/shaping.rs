//! Changes of the target's logits that requests ask for, before S(·).
//!
//! | step | parameters | effect on a logit |
//! |---|---|---|
//! | bias | `logit_bias` | plus the token's bias |
//! | penalties | `repetition_penalty` | divided by θ, or multiplied if negative, for tokens of the text (Keskar et al. 2019) |
//! | | `frequency_penalty`, `presence_penalty` | less a part for each occurrence in the answer, and for the first (OpenAI) |
//! | [grammar] | `response_format`, `tool_choice` | −∞ for tokens that the answer cannot go on with |
//! | min-p | `min_p` | −∞ for tokens less likely than this share of the likeliest (Nguyen et al. 2024) |

pub mod grammar;

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use outrider_speculation::session::cloud::Shaping;

use self::grammar::Grammar;

/// Changes of logits without a grammar.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Penalties {
    /// Bias of each token that has one.
    pub(crate) bias: Vec<(u32, f32)>,
    pub(crate) repetition: f32,
    pub(crate) frequency: f32,
    pub(crate) presence: f32,
    pub(crate) min_p: f32,
}

impl Default for Penalties {
    fn default() -> Self {
        Self { bias: Vec::new(), repetition: 1.0, frequency: 0.0, presence: 0.0, min_p: 0.0 }
    }
}

/// Change of the logits of one answer.
#[derive(Debug)]
pub(crate) struct AnswerShaping {
    penalties: Penalties,
    /// The temperature of S(·), of which min-p is a part.
    temperature: f32,
    /// Number of tokens of the prompt.
    prompt: usize,
    grammar: Option<Mutex<Grammar>>,
}

impl AnswerShaping {
    pub(crate) fn new(penalties: Penalties, temperature: f32, prompt: usize, grammar: Option<Grammar>) -> Self {
        Self { penalties, temperature, prompt, grammar: grammar.map(Mutex::new) }
    }
}

impl Shaping for AnswerShaping {
    fn shape(&self, text: &[u32], logits: &mut [f32]) -> Result<bool, String> {
        let Penalties { bias, repetition, frequency, presence, min_p } = &self.penalties;
        for &(id, bias) in bias {
            logits[id as usize] += bias;
        }
        let answer = text.get(self.prompt..).unwrap_or_default();
        if *repetition != 1.0 {
            for &id in counts(text).keys() {
                let logit = &mut logits[id as usize];
                *logit = if *logit > 0.0 { *logit / repetition } else { *logit * repetition };
            }
        }
        if (*frequency, *presence) != (0.0, 0.0) {
            for (&id, &count) in &counts(answer) {
                logits[id as usize] -= presence + frequency * count as f32;
            }
        }
        if let Some(grammar) = &self.grammar
            && !grammar.lock().unwrap_or_else(PoisonError::into_inner).exclude(answer, logits)?
        {
            return Ok(false);
        }
        if *min_p > 0.0 && self.temperature > 0.0 {
            let highest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let least = highest + self.temperature * min_p.ln();
            logits.iter_mut().filter(|logit| **logit < least).for_each(|logit| *logit = f32::NEG_INFINITY);
        }
        Ok(true)
    }
}

/// Number of occurrences of each token.
fn counts(ids: &[u32]) -> HashMap<u32, u32> {
    let mut counts = HashMap::new();
    ids.iter().for_each(|&id| *counts.entry(id).or_default() += 1);
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shaped(penalties: Penalties, temperature: f32, text: &[u32], logits: [f32; 4]) -> [f32; 4] {
        let mut row = logits;
        assert!(AnswerShaping::new(penalties, temperature, 2, None).shape(text, &mut row).unwrap());
        row
    }

    /// OpenAI's formula: μ[j] − c[j]·α_frequency − (c[j] > 0)·α_presence, over the answer.
    #[test]
    fn frequency_and_presence_count_the_answer() {
        let penalties = Penalties { frequency: 0.5, presence: 1.0, ..Penalties::default() };
        assert_eq!(shaped(penalties, 1.0, &[3, 3, 0, 1, 0], [5.0, 5.0, 5.0, 5.0]), [3.0, 3.5, 5.0, 5.0]);
    }

    /// The generators of transformers: over prompt and answer, a negative logit is multiplied.
    #[test]
    fn repetition_counts_the_prompt_too() {
        let penalties = Penalties { repetition: 2.0, ..Penalties::default() };
        assert_eq!(shaped(penalties, 1.0, &[3, 3, 0], [4.0, 4.0, -4.0, -4.0]), [2.0, 4.0, -4.0, -8.0]);
    }

    /// By hand: at T = 2 the weights are 8, 4, 2, 1; a third of the likeliest is 8/3.
    #[test]
    fn min_p_is_a_share_of_the_likeliest_at_the_temperature() {
        let logits = [8f32, 4.0, 2.0, 1.0].map(|weight| 2.0 * weight.ln());
        let penalties = Penalties { min_p: 1.0 / 3.0, ..Penalties::default() };
        let row = shaped(penalties.clone(), 2.0, &[0, 0], logits);
        assert_eq!(row, [logits[0], logits[1], f32::NEG_INFINITY, f32::NEG_INFINITY]);
        assert_eq!(shaped(penalties, 0.0, &[0, 0], logits), logits);
    }

    #[test]
    fn a_bias_is_added() {
        let penalties = Penalties { bias: vec![(1, -100.0), (2, 3.0)], ..Penalties::default() };
        assert_eq!(shaped(penalties, 1.0, &[0, 0], [1.0; 4]), [1.0, -99.0, 4.0, 1.0]);
    }
}
