//! Checks of verdicts on a round, and their meaning.

use outrider_codec::frame::{Finish, Next, TargetDist, Verdict};

use super::error::EdgeError;

/// Facts about a round that are known when its verdict comes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Expected {
    /// The number of its drafts.
    pub(super) drafted: usize,
    /// True if a bonus token follows where all of them are accepted.
    pub(super) has_bonus: bool,
    /// True if the edge resamples (DSSD).
    pub(super) resamples: bool,
    /// V, the size of the vocabulary.
    pub(super) vocab_size: u32,
    /// Tokens that may still be committed.
    pub(super) left: usize,
}

/// Meaning of a verdict for its round.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Ruling {
    /// The round is settled.
    Settled(Settlement),
    /// The edge resamples after the accepted drafts, from samples of the target's distribution if one survives.
    Samples { accepted: usize, samples: Vec<(u32, f32)> },
    /// The edge resamples after the accepted drafts, from the target's distribution.
    Target { accepted: usize, target: TargetDist },
}

/// The tokens that a round commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Settlement {
    /// The number of accepted drafts.
    pub(super) accepted: usize,
    /// The token that follows them, if any.
    pub(super) token: Option<u32>,
    /// The reason why the text is over, if it is.
    pub(super) finish: Option<Finish>,
}

/// Reads a verdict on a round of which `expected` is known.
///
/// # Errors
/// [`EdgeError::ImpossibleVerdict`] if no honest server gives it.
pub(super) fn check(verdict: Verdict, expected: &Expected) -> Result<Ruling, EdgeError> {
    let Verdict { accepted, next, finish, .. } = verdict;
    let Expected { drafted, has_bonus, resamples, vocab_size, left } = *expected;
    let accepted = usize::from(accepted);
    let impossible = |what| Err(EdgeError::ImpossibleVerdict { what });
    if accepted > drafted {
        return impossible("it accepts more than was drafted");
    }
    let rejects = accepted < drafted;
    let token = match next {
        Next::Nothing if accepted == 0 => return impossible("it commits nothing"),
        Next::Nothing if finish.is_none() && rejects => {
            return impossible("it rejects a draft and puts nothing in its place");
        }
        Next::Nothing if finish.is_none() && has_bonus => return impossible("its bonus token is missing"),
        Next::Nothing => None,
        Next::Token(_) if !has_bonus && !rejects => return impossible("no bonus token follows the round"),
        // Under DSSD a rejection is the edge's to resample from.
        Next::Token(_) if resamples && rejects => return impossible("it resamples in the edge's place"),
        Next::Token(token) if token >= vocab_size => return impossible("its token is outside the vocabulary"),
        Next::Token(token) => Some(token),
        Next::Samples(_) | Next::Distribution(_) if !(resamples && rejects) => {
            return impossible("there is nothing to resample");
        }
        Next::Samples(samples) if samples.iter().any(|sample| sample.0 >= vocab_size) => {
            return impossible("its sample is outside the vocabulary");
        }
        Next::Samples(samples) => return Ok(Ruling::Samples { accepted, samples }),
        Next::Distribution(target) => return Ok(Ruling::Target { accepted, target }),
    };
    let committed = accepted + usize::from(token.is_some());
    if committed > left {
        return impossible("it commits more than was asked for");
    }
    if finish.is_none() && committed == left {
        return impossible("it goes on past the end");
    }
    Ok(Ruling::Settled(Settlement { accepted, token, finish }))
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    const ROUND: Expected = Expected { drafted: 2, has_bonus: true, resamples: false, vocab_size: 8, left: 9 };
    const DSSD: Expected = Expected { resamples: true, ..ROUND };
    const CONTINUED: Expected = Expected { has_bonus: false, ..ROUND };

    fn read(expected: Expected, accepted: u8, next: Next, finish: Option<Finish>) -> Result<Ruling, &'static str> {
        check(Verdict { generation: 1, round: 0, accepted, next, finish }, &expected).map_err(|error| match error {
            EdgeError::ImpossibleVerdict { what } => what,
            other => panic!("{other}"),
        })
    }

    fn settled(accepted: usize, token: Option<u32>, finish: Option<Finish>) -> Result<Ruling, &'static str> {
        Ok(Ruling::Settled(Settlement { accepted, token, finish }))
    }

    #[test]
    fn a_sound_verdict_settles_its_round() {
        assert_eq!(read(ROUND, 2, Next::Token(7), None), settled(2, Some(7), None));
        assert_eq!(read(ROUND, 0, Next::Token(0), None), settled(0, Some(0), None));
        assert_eq!(read(ROUND, 1, Next::Nothing, Some(Finish::Eos)), settled(1, None, Some(Finish::Eos)));
        assert_eq!(read(CONTINUED, 2, Next::Nothing, None), settled(2, None, None));
        assert_eq!(read(DSSD, 2, Next::Token(7), None), settled(2, Some(7), None));
        let last = Expected { left: 3, ..ROUND };
        assert_eq!(read(last, 2, Next::Token(7), Some(Finish::Length)), settled(2, Some(7), Some(Finish::Length)));
    }

    #[test]
    fn under_dssd_the_edge_resamples() {
        let (samples, target) = (vec![(3, 0.5)], TargetDist(vec![(3, 1.0)]));
        let sampled = read(DSSD, 1, Next::Samples(samples.clone()), None);
        assert_eq!(sampled, Ok(Ruling::Samples { accepted: 1, samples: samples.clone() }));
        let told = read(DSSD, 0, Next::Distribution(target.clone()), None);
        assert_eq!(told, Ok(Ruling::Target { accepted: 0, target }));
        assert_eq!(read(DSSD, 2, Next::Samples(samples.clone()), None), Err("there is nothing to resample"));
        assert_eq!(read(ROUND, 1, Next::Samples(samples), None), Err("there is nothing to resample"));
        let outside = read(DSSD, 1, Next::Samples(vec![(8, 0.5)]), None);
        assert_eq!(outside, Err("its sample is outside the vocabulary"));
        assert_eq!(read(DSSD, 1, Next::Token(3), None), Err("it resamples in the edge's place"));
    }

    #[test]
    fn what_no_honest_server_says_is_an_error() {
        let (eos, token) = (Some(Finish::Eos), Next::Token(3));
        for (expected, accepted, next, finish, what) in [
            (ROUND, 3, token.clone(), None, "it accepts more than was drafted"),
            (ROUND, 0, Next::Nothing, eos, "it commits nothing"),
            (ROUND, 1, Next::Nothing, None, "it rejects a draft and puts nothing in its place"),
            (ROUND, 2, Next::Nothing, None, "its bonus token is missing"),
            (CONTINUED, 2, token.clone(), None, "no bonus token follows the round"),
            (ROUND, 2, Next::Token(8), None, "its token is outside the vocabulary"),
            (Expected { left: 2, ..ROUND }, 2, token.clone(), eos, "it commits more than was asked for"),
            (Expected { left: 3, ..ROUND }, 2, token, None, "it goes on past the end"),
        ] {
            assert_eq!(read(expected, accepted, next, finish), Err(what));
        }
    }
}
