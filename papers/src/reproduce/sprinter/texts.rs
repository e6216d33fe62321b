//! Two kinds of text: tales, as the pair was trained on, and notes of everyday matters, as it was not.

use outrider_models::{EncodeError, Tokenizer};

/// Tokens of a text, of which 30 % are its prefix (§4).
pub const LENGTH: usize = 64;
/// Tokens that a prefix is continued by (§4).
pub const CONTINUATION: usize = 20;

/// A kind of text, by its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Two tales: one to train gates on, the other held out.
    Tales,
    /// Instructions and news: every other paragraph is held out.
    Notes,
}

/// The purpose of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// Gates are trained on them.
    Training,
    /// Nothing is trained on them.
    HeldOut,
}

/// A text as token ids.
#[derive(Debug, Clone, PartialEq)]
pub struct Window {
    /// [`LENGTH`] tokens, the one that begins every text first.
    pub tokens: Vec<u32>,
    /// Number of tokens of the prefix.
    pub prefix: usize,
}

const TRAINING_TALE: &str = include_str!("../../../../pair/tale.txt");
const HELD_OUT_TALE: &str = include_str!("story.txt");
const NOTES: &str = include_str!("notes.txt");

impl Kind {
    /// Both kinds, tales first.
    pub const ALL: [Self; 2] = [Self::Tales, Self::Notes];

    /// Name of the kind, as reports show it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tales => "tales",
            Self::Notes => "notes",
        }
    }

    /// The text as one line.
    fn text(self, used: Use) -> String {
        let notes = |rest: usize| {
            let paragraphs = NOTES.split("\n\n").enumerate().filter(|(index, _)| index % 2 == rest);
            paragraphs.map(|(_, text)| text.trim()).collect::<Vec<_>>().join(" ")
        };
        let text = match (self, used) {
            (Self::Tales, Use::Training) => TRAINING_TALE.to_owned(),
            (Self::Tales, Use::HeldOut) => HELD_OUT_TALE.to_owned(),
            (Self::Notes, Use::Training) => notes(0),
            (Self::Notes, Use::HeldOut) => notes(1),
        };
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// Texts of [`LENGTH`] tokens: one from each sentence on that is so far from the end, or `count` of them at equal
    /// distances. Neighbours overlap; two prefixes do not where they are twenty tokens apart.
    ///
    /// # Errors
    /// If the tokenizer refuses them.
    pub fn windows(
        self,
        used: Use,
        count: Option<usize>,
        tokenizer: &Tokenizer,
        bos: Option<u32>,
    ) -> Result<Vec<Window>, EncodeError> {
        let text = self.text(used);
        let starts = std::iter::once(0).chain(text.match_indices(". ").map(|(index, end)| index + end.len()));
        let mut windows = Vec::new();
        for start in starts {
            let mut tokens = tokenizer.encode_prompt(bos, &text[start..])?;
            if tokens.len() >= LENGTH {
                tokens.truncate(LENGTH);
                windows.push(Window { tokens, prefix: (LENGTH * 3).div_ceil(10) });
            }
        }
        let all = windows.len();
        let spread = |count: usize| (0..count).map(|index| windows[index * all / count].clone()).collect();
        Ok(match count {
            Some(count) if all > 0 => spread(count),
            _ => windows,
        })
    }
}

impl Window {
    /// Continuation of the prefix in the text itself.
    pub fn continuation(&self) -> &[u32] {
        &self.tokens[self.prefix..(self.prefix + CONTINUATION).min(self.tokens.len())]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::built_in;

    #[test]
    fn held_out_texts_are_not_those_for_training() {
        let (tokenizer, bos) = (built_in::tokenizer(), Some(0));
        for kind in Kind::ALL {
            let windows = |used, count| kind.windows(used, count, &tokenizer, bos).unwrap();
            let parts = [Use::Training, Use::HeldOut].map(|used| windows(used, None));
            for part in &parts {
                assert!(part.len() > 24, "{} of {}", part.len(), kind.name());
                assert!(part.iter().all(|window| window.tokens.len() == LENGTH && window.prefix == 20));
                assert!(part.iter().all(|window| window.continuation().len() == CONTINUATION));
            }
            // No eight tokens in a row stand in both.
            let runs = |part: &[Window]| -> BTreeSet<Vec<u32>> {
                part.iter().flat_map(|window| window.tokens[1..].windows(8).map(<[u32]>::to_vec)).collect()
            };
            assert!(runs(&parts[0]).is_disjoint(&runs(&parts[1])), "{}", kind.name());
            let spread = windows(Use::HeldOut, Some(24));
            assert_eq!(spread.len(), 24);
            assert_eq!(spread.iter().map(|window| &window.tokens).collect::<BTreeSet<_>>().len(), 24);
        }
    }
}
