//! Vocabularies of drafts whose head has rows for some of the target's tokens only.

use crate::error::{LoadError, invalid};

/// Tokens of a draft's output head, where it has fewer rows than the target (FR-Spec, VocabTrim, EAGLE-3).
///
/// Tokens without a row have the logit −∞, which is probability 0. In files, `draft_vocab_size` is the number of rows
/// and the tensor `d2t` holds the difference between each row's token and the row.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DraftVocabulary {
    /// Number of rows of the head.
    pub rows: usize,
    /// Token of each row, ascending; empty until the file's `d2t` has been read.
    pub tokens: Vec<u32>,
}

impl DraftVocabulary {
    /// Creates the vocabulary of a head with `rows` rows before its tokens are known.
    pub(crate) fn of_rows(rows: usize) -> Self {
        Self { rows, tokens: Vec::new() }
    }

    /// Creates the vocabulary of these tokens, which ascend.
    ///
    /// # Errors
    /// [`LoadError::InvalidSetting`] if there are none, or if they do not ascend.
    pub fn of_tokens(tokens: Vec<u32>) -> Result<Self, LoadError> {
        let vocabulary = Self { rows: tokens.len(), tokens };
        vocabulary.validate(u32::MAX as usize)?;
        Ok(vocabulary)
    }

    /// Sets the tokens by the differences that a file stores.
    pub(crate) fn take_d2t(&mut self, d2t: &[f32]) -> Result<(), LoadError> {
        let token = |(row, &difference): (usize, &f32)| {
            let token = row as f32 + difference;
            let is_token = (0.0..16_777_216.0).contains(&token) && token.fract() == 0.0;
            is_token.then_some(token as u32).ok_or_else(|| invalid("d2t", difference, "the token less its row"))
        };
        self.tokens = d2t.iter().enumerate().map(token).collect::<Result<_, _>>()?;
        Ok(())
    }

    /// Checks the vocabulary against that of the target, as far as it is known.
    pub(crate) fn validate(&self, vocab_size: usize) -> Result<(), LoadError> {
        if self.rows == 0 || self.rows > vocab_size {
            return Err(invalid("draft_vocab_size", self.rows, "between 1 and vocab_size"));
        }
        if let Some(pair) = self.tokens.windows(2).find(|pair| pair[0] >= pair[1]) {
            return Err(invalid("d2t", pair[1], "tokens in ascending order"));
        }
        match self.tokens.last() {
            Some(&last) if last as usize >= vocab_size => Err(invalid("d2t", last, "tokens below vocab_size")),
            _ => Ok(()),
        }
    }

    /// Row of a token; the number of rows for tokens without one.
    pub fn row_of(&self, token: u32) -> u32 {
        self.tokens.binary_search(&token).unwrap_or(self.rows) as u32
    }

    /// Writes the logits of a head, `[count, width]` with at least [`rows`](Self::rows) columns, to their tokens'
    /// places in `out`, `[count, vocab_size]`.
    pub fn spread(&self, logits: &[f32], width: usize, vocab_size: usize, out: &mut Vec<f32>) {
        out.clear();
        out.resize(logits.len() / width * vocab_size, f32::NEG_INFINITY);
        for (row, out) in logits.chunks_exact(width).zip(out.chunks_exact_mut(vocab_size)) {
            for (&token, &logit) in self.tokens.iter().zip(row) {
                out[token as usize] = logit;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    use super::*;

    #[test]
    fn rows_go_to_the_tokens_that_d2t_names() {
        let mut vocabulary = DraftVocabulary::of_rows(3);
        vocabulary.take_d2t(&[1.0, 1.0, 3.0]).unwrap();
        assert_eq!(vocabulary.tokens, [1, 2, 5]);
        assert_eq!([0, 1, 2, 3, 5, 6].map(|token| vocabulary.row_of(token)), [3, 0, 1, 3, 2, 3]);
        let mut out = Vec::new();
        vocabulary.spread(&[0.5, 1.5, 2.5, 9.0, -0.5, -1.5, -2.5, 9.0], 4, 6, &mut out);
        const NONE: f32 = f32::NEG_INFINITY;
        assert_eq!(out, [NONE, 0.5, 1.5, NONE, NONE, 2.5, NONE, -0.5, -1.5, NONE, NONE, -2.5]);
    }

    #[test]
    fn invalid_vocabularies_are_refused() {
        let error = |d2t: &[f32], rows| {
            let mut vocabulary = DraftVocabulary::of_rows(rows);
            vocabulary.take_d2t(d2t).and_then(|()| vocabulary.validate(6)).unwrap_err().to_string()
        };
        assert!(error(&[-1.0, 0.0], 2).contains("d2t"));
        assert!(error(&[0.5], 1).contains("the token less its row"));
        assert!(error(&[2.0, 1.0], 2).contains("ascending"));
        assert!(error(&[0.0, 5.0], 2).contains("below vocab_size"));
        assert!(error(&[], 0).contains("draft_vocab_size"));
        assert!(error(&[f32::NAN], 1).contains("d2t"));
        assert!(error(&[], 7).contains("draft_vocab_size"));
    }
}
