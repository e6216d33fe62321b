//! FORMAT.md's table of rules, read a second time: what is allowed, what travels with each draft, and what follows a
//! round.

use outrider_codec::{
    frame::SamplingParameters,
    rule::{RuleParameters, StatisticKind},
    scheme::SchemeParameters,
};

/// The numbers of the table are below this.
pub const COUNT: u8 = 16;

/// Returns true if the table has the rule, with such a parameter.
pub fn is_allowed(rule: RuleParameters) -> bool {
    match rule.number {
        0 | 6..=8 => true,
        4 | 0x0c..=0x0e => rule.parameter >= 0.0,
        1 | 2 => (0.0..1.0).contains(&rule.parameter),
        3 | 9..=0x0b => (0.0..=1.0).contains(&rule.parameter),
        5 | 0x0f => (-1.0..=1.0).contains(&rule.parameter),
        _ => false,
    }
}

/// Returns true if a token follows a round in which all drafts are accepted.
pub fn has_bonus(rule: RuleParameters) -> bool {
    matches!(rule.number, 0 | 0x0d)
}

/// Returns true if at temperature 0 the text is the target's: the exact rule, and by Lemma 6 of Narasimhan et al. the
/// lossy ones.
pub fn is_the_targets_when_greedy(rule: RuleParameters) -> bool {
    matches!(rule.number, 0..=2)
}

/// The statistic at the beginning of the payload.
pub fn statistic(
    rule: RuleParameters,
    sampling: &SamplingParameters,
    scheme: SchemeParameters,
) -> Option<StatisticKind> {
    if (sampling.temperature, sampling.top_k, sampling.top_p) == (1.0, 0, 1.0) && scheme == SchemeParameters::Dense {
        return None;
    }
    match rule.number {
        3..=8 | 0x0f => Some(StatisticKind::Scalar),
        9 | 0x0c | 0x0d => Some(StatisticKind::Support),
        _ => None,
    }
}

/// Returns true if the statistic is q of the whole vocabulary, which only the dense scheme may be asked for.
pub fn is_of_vocabulary(rule: RuleParameters, sampling: &SamplingParameters) -> bool {
    matches!(rule.number, 0x0c | 0x0d) && sampling.temperature > 0.0
}

/// Reads the statistics of `count` drafts at the beginning of a payload. Returns the number of values of each draft and
/// the rest of the payload; `None` if they are missing or are no numbers that a distribution has.
pub fn take(kind: StatisticKind, mut payload: &[u8], count: u8) -> Option<(Vec<usize>, &[u8])> {
    let mut lengths = Vec::new();
    for _ in 0..count {
        let length = match kind {
            StatisticKind::Scalar => 1,
            StatisticKind::Support => {
                // The shortest form does not end with a zero byte, but for zero itself.
                let last = payload.iter().take(5).position(|byte| byte & 0x80 == 0)?;
                let (number, rest) = payload.split_at(last + 1);
                payload = rest;
                if last > 0 && number[last] == 0 {
                    return None;
                }
                number.iter().rev().fold(0u64, |value, byte| value << 7 | u64::from(byte & 0x7f)) as usize
            }
        };
        let (numbers, rest) = payload.split_at_checked(length.checked_mul(2)?)?;
        // The exponent of what is not finite is all ones; the highest bit is the sign.
        if numbers.chunks(2).any(|number| number[1] & 0x80 != 0 || number[1] & 0x7c == 0x7c) {
            return None;
        }
        lengths.push(length);
        payload = rest;
    }
    Some((lengths, payload))
}
