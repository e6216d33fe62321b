//! Guesses that a user sees after the committed text, before the target has confirmed them.
//!
//! A preview shows the longest run of guesses whose chance of all being right is high enough. A guess that was shown is
//! withdrawn only where the text contradicts it: a chance that falls later does not make text flicker. Nothing here
//! changes the committed text.

/// Guesses at the tokens after a text, each after the one before.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GuessLine {
    /// Token ids of the guesses, in order.
    pub ids: Vec<u32>,
    /// For each guess, the chance that it and all before it are the target's tokens. Never increases.
    pub chances: Vec<f64>,
    /// True while there is no connection that could confirm them.
    pub offline: bool,
}

/// Guesses shown after a committed text.
#[derive(Debug, Clone)]
pub struct Preview {
    /// Least chance of the guesses that are shown; above 1 for none.
    from: f64,
    ids: Vec<u32>,
    chance: f64,
    offline: bool,
}

impl Preview {
    /// A preview that shows guesses from the chance `from` on; 1 or more shows none but those made offline.
    pub fn new(from: f64) -> Self {
        Self { from, ids: Vec::new(), chance: 1.0, offline: false }
    }

    /// Ids of the guesses shown.
    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// Chance that all guesses shown are right, as it was estimated last.
    pub fn chance(&self) -> f64 {
        self.chance
    }

    /// True if the guesses shown were made without a connection.
    pub fn is_offline(&self) -> bool {
        self.offline
    }

    /// Settles guesses by a token that is committed. Returns the number of guesses that are withdrawn.
    pub fn commit(&mut self, id: u32) -> usize {
        if self.ids.first() == Some(&id) {
            self.ids.remove(0);
            return 0;
        }
        let withdrawn = self.ids.len();
        self.ids.clear();
        (self.chance, self.offline) = (1.0, false);
        withdrawn
    }

    /// Takes the guesses there are now. Returns true if others are shown.
    pub fn update(&mut self, line: &GuessLine) -> bool {
        let likely = line.chances.iter().take_while(|chance| self.from < 1.0 && **chance >= self.from).count();
        let count = if line.offline { line.ids.len() } else { likely.max(self.ids.len()).min(line.ids.len()) };
        let ids = &line.ids[..count];
        // A line that is being drafted again may be shorter; what is shown stays.
        if ids.len() <= self.ids.len() && self.ids.starts_with(ids) {
            return false;
        }
        self.ids = ids.to_vec();
        self.chance = ids.len().checked_sub(1).map_or(1.0, |last| line.chances[last]);
        self.offline = line.offline;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    fn line(ids: &[u32], chances: &[f64]) -> GuessLine {
        GuessLine { ids: ids.to_vec(), chances: chances.to_vec(), offline: false }
    }

    #[test]
    fn guesses_are_shown_from_their_chance_on() {
        let mut preview = Preview::new(0.8);
        assert!(!preview.update(&line(&[4], &[0.79])));
        assert!(preview.update(&line(&[4, 5, 6], &[0.95, 0.8, 0.7])));
        assert_eq!((preview.ids(), preview.chance()), (&[4, 5][..], 0.8));
        assert!(!Preview::new(1.0).update(&line(&[4], &[1.0])), "1 shows none");
    }

    #[test]
    fn shown_guesses_are_withdrawn_by_the_text_alone() {
        let mut preview = Preview::new(0.8);
        assert!(preview.update(&line(&[4, 5, 6], &[0.95, 0.9, 0.85])));
        assert!(!preview.update(&line(&[4, 5, 6], &[0.9, 0.6, 0.5])), "less likely now, and still shown");
        assert!(!preview.update(&line(&[4], &[0.9])), "drafted again");
        assert_eq!(preview.commit(4), 0);
        assert_eq!(preview.ids(), [5, 6]);
        assert_eq!(preview.commit(9), 2);
        assert!(preview.ids().is_empty());
    }

    #[test]
    fn without_a_connection_all_guesses_are_shown() {
        let mut preview = Preview::new(1.0);
        assert!(preview.update(&GuessLine { offline: true, ..line(&[4, 5], &[0.3, 0.1]) }));
        assert!(preview.is_offline());
        assert_eq!(preview.ids(), [4, 5]);
    }
}
