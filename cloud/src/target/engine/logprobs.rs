//! Log-probabilities of the committed tokens under the target, for requests that ask for them.
//!
//! They are those of the model's own softmax, before temperature, top-k and top-p, so they do not depend on how a text
//! is sampled.

use outrider_speculation::judge::{Judgement, NextToken, Round};
use tokio::sync::mpsc::UnboundedSender;

/// Log-probability of a committed token.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenProbability {
    /// Position in the text; the prompt's first token is at 0.
    pub position: usize,
    /// Id of the committed token.
    pub id: u32,
    /// Its log-probability ln p.
    pub log_probability: f64,
    /// Most likely tokens at this position with their ln p, in descending order.
    pub likeliest: Vec<(u32, f64)>,
}

/// Receiver of log-probabilities, and the number of most likely tokens that it gets with each.
#[derive(Debug)]
pub(crate) struct LogprobSink {
    pub(crate) count: usize,
    pub(crate) to: UnboundedSender<TokenProbability>,
}

impl LogprobSink {
    /// Sends the log-probabilities of all tokens that a judgement by these rows of logits commits.
    pub(super) fn send(&self, round: &Round, judgement: &Judgement, rows: &[&[f32]]) {
        let accepted = round.line(judgement.branch).into_iter().take(judgement.accepted);
        let next = match judgement.next {
            NextToken::Token(id) => Some(id),
            NextToken::Nothing | NextToken::Residual { .. } => None,
        };
        for (id, behind) in accepted.chain(next).zip(0..) {
            let (row, position) = (rows[round.row(judgement.branch, behind)], round.position + behind);
            let (log_probability, likeliest) = log_probabilities(row, id, self.count);
            // The session may outlive the receiver.
            let _ = self.to.send(TokenProbability { position, id, log_probability, likeliest });
        }
    }
}

/// ln softmax of a row at a token, and at the `count` most likely ones; among equals the smaller id comes first.
pub(super) fn log_probabilities(row: &[f32], id: u32, count: usize) -> (f64, Vec<(u32, f64)>) {
    let highest = f64::from(row.iter().copied().fold(f32::NEG_INFINITY, f32::max));
    let total: f64 = row.iter().map(|&logit| (f64::from(logit) - highest).exp()).sum();
    let of = |id: u32| f64::from(row[id as usize]) - highest - total.ln();
    let mut ids: Vec<u32> = (0..row.len() as u32).collect();
    let before = |&a: &u32, &b: &u32| row[b as usize].total_cmp(&row[a as usize]).then(a.cmp(&b));
    if (1..ids.len()).contains(&count) {
        ids.select_nth_unstable_by(count - 1, before);
    }
    ids.truncate(count);
    ids.sort_unstable_by(before);
    (of(id), ids.into_iter().map(|id| (id, of(id))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: the weights 1, 4, 3, 2 and 4 have the sum 14.
    #[test]
    fn the_likeliest_come_first_and_the_smaller_id_of_two() {
        let row = [1f32, 4.0, 3.0, 2.0, 4.0].map(f32::ln);
        for (count, ids) in [(0, &[][..]), (1, &[1]), (3, &[1, 4, 2]), (5, &[1, 4, 2, 3, 0]), (9, &[1, 4, 2, 3, 0])] {
            let (own, likeliest) = log_probabilities(&row, 3, count);
            assert!((own - (2f64 / 14.0).ln()).abs() < 1e-6);
            assert_eq!(likeliest.iter().map(|(id, _)| *id).collect::<Vec<_>>(), ids);
            assert!(likeliest.iter().all(|&(id, p)| (p.exp() - f64::from(row[id as usize].exp()) / 14.0).abs() < 1e-6));
        }
    }
}
