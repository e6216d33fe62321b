//! A number that was measured, with its error.

use std::fmt;

use serde::Serialize;

/// Σ a / Σ b over texts, with its standard error.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    /// The estimated ratio.
    pub value: f64,
    /// Standard error over texts, linearised: texts are independent, tokens of one text are not.
    pub error: f64,
}

impl Estimate {
    /// The same number in another unit: value and error times `count`.
    #[must_use]
    pub fn times(self, count: f64) -> Self {
        Self { value: count * self.value, error: count * self.error }
    }

    /// The ratio of two sums, from (a, b) of each text.
    pub fn of(pairs: &[(f64, f64)]) -> Self {
        let (a, b) = pairs.iter().fold((0.0, 0.0), |(a, b), pair| (a + pair.0, b + pair.1));
        let (value, count) = (a / b, pairs.len() as f64);
        let spread: f64 = pairs.iter().map(|(a, b)| (a - value * b).powi(2)).sum();
        Self { value, error: (spread * count / (count - 1.0)).sqrt() / b }
    }
}

/// Speed-up over the best of some rivals, and its error over texts. The rival of a text is the one that was the
/// fastest over the *other* texts. The fastest over the same ones is known from these alone, and is fast by luck, too.
/// Times by text; rivals that were given up have fewer, and do not count.
#[must_use]
pub fn beside_chosen(own: &[f64], rivals: &[&[f64]]) -> Estimate {
    let texts = own.len();
    let rivals: Vec<_> = rivals.iter().filter(|times| times.len() == texts).collect();
    let chosen = |text: usize| {
        let others = |times: &&&&[f64]| times.iter().sum::<f64>() - times[text];
        rivals.iter().min_by(|a, b| others(a).total_cmp(&others(b))).map_or(f64::NAN, |times| times[text])
    };
    let pairs: Vec<_> = (0..texts).map(chosen).zip(own.iter().copied()).collect();
    Estimate::of(&pairs)
}

/// `value ± error`, both with as many digits as asked for, and with the value's sign if asked for: `{:+.2}`. Of one
/// text there is no error.
impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self { value, error }, digits) = (self, f.precision().unwrap_or(3));
        let sign = if f.sign_plus() && *value >= 0.0 { "+" } else { "" };
        write!(f, "{sign}{value:.digits$}")?;
        if error.is_finite() { write!(f, " ± {error:.digits$}") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With every b at 1 it is the mean with its usual error: of 1, 2, 3, 4 that is √(5/3)/2.
    #[test]
    fn of_equal_texts_it_is_the_mean() {
        let Estimate { value, error } = Estimate::of(&[(1.0, 1.0), (2.0, 1.0), (3.0, 1.0), (4.0, 1.0)]);
        assert_eq!(value, 2.5);
        assert!((error - (5.0f64 / 3.0).sqrt() / 2.0).abs() < 1e-12);
        assert_eq!(format!("{:+.1}", Estimate { value, error }), "+2.5 ± 0.6");
        // Texts of one ratio leave no doubt, however long they are.
        assert_eq!(Estimate::of(&[(1.0, 2.0), (10.0, 20.0), (3.0, 6.0)]), Estimate { value: 0.5, error: 0.0 });
    }

    #[test]
    fn a_rival_is_chosen_by_other_texts() {
        let (own, lucky, steady) = ([2.0, 2.0, 2.0], [1.0, 3.5, 3.0], [2.0, 2.0, 2.5]);
        // By the others the steady one is for the first text and for the last, the lucky one for the second.
        assert_eq!(beside_chosen(&own, &[&lucky, &steady]).value, (2.0 + 3.5 + 2.5) / 6.0);
        let Estimate { value, error } = beside_chosen(&own, &[&[1.0], &[4.0, 4.0, 4.0]]);
        assert!(value == 2.0 && error == 0.0, "one was given up: {value} ± {error}");
    }
}
