//! Every text of a run as a row of a CSV file: setting, prompt and seed, what it took, and what its answer was worth.

use std::{cell::RefCell, ops::AddAssign, rc::Rc};

use serde::Serialize;

use super::sessions::{Failure, Session};

/// A text that was written.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Record {
    /// Name of the setting: method or scheme with its parameters.
    pub setting: String,
    /// Options of the setting by their names, each a column of its own before the others.
    #[serde(skip)]
    pub options: Vec<(String, String)>,
    /// Index of the prompt among those of the file, from 0.
    pub prompt: usize,
    /// Seed of the session.
    pub seed: u64,
    /// Tokens after the prompt.
    pub tokens: usize,
    /// Number of rounds of drafts.
    pub rounds: usize,
    /// Number of drafted tokens.
    pub drafted: usize,
    /// Drafts that were judged.
    pub judged: usize,
    /// Drafts among these that were accepted.
    pub accepted: usize,
    /// Tokens that passed without verification.
    pub passed: usize,
    /// Forward passes of the target.
    pub server_passes: usize,
    /// Payload bits of the rounds.
    pub payload_bits: usize,
    /// Bits of all frames up.
    pub uplink_bits: usize,
    /// Bits of all frames down.
    pub downlink_bits: usize,
    /// Score of the answer by the metric, where it is measured: 1 or 0 for exact matches.
    pub score: Option<f64>,
    /// Similarity to the reference, from 0 to 1.
    pub similarity: Option<f64>,
    /// Time on the virtual clock, in seconds, where the item has one.
    pub seconds: Option<f64>,
}

impl Record {
    /// Row of a session, without an answer's worth.
    pub fn of(setting: &str, prompt: usize, seed: u64, session: &Session) -> Self {
        let statistics = &session.statistics;
        Self {
            setting: setting.to_owned(),
            options: Vec::new(),
            prompt,
            seed,
            tokens: session.tokens.len(),
            rounds: session.rounds.len(),
            drafted: session.rounds.iter().map(|round| round.drafted.len()).sum(),
            judged: statistics.judged,
            accepted: statistics.accepted,
            passed: statistics.passed,
            server_passes: statistics.server_passes,
            payload_bits: statistics.payload_bits,
            uplink_bits: statistics.uplink_bits,
            downlink_bits: statistics.downlink_bits,
            score: None,
            similarity: None,
            seconds: None,
        }
    }
}

impl AddAssign for Record {
    /// Adds the counts of another turn of the same conversation.
    fn add_assign(&mut self, other: Self) {
        self.tokens += other.tokens;
        self.rounds += other.rounds;
        self.drafted += other.drafted;
        self.judged += other.judged;
        self.accepted += other.accepted;
        self.passed += other.passed;
        self.server_passes += other.server_passes;
        self.payload_bits += other.payload_bits;
        self.uplink_bits += other.uplink_bits;
        self.downlink_bits += other.downlink_bits;
        self.seconds = self.seconds.zip(other.seconds).map(|(own, other)| own + other);
    }
}

/// Rows of a run; clones share them.
#[derive(Debug, Clone, Default)]
pub struct Records(Rc<RefCell<Vec<Record>>>);

impl Records {
    /// Adds the row of a text.
    pub fn add(&self, record: Record) {
        self.0.borrow_mut().push(record);
    }

    /// The rows below their head, as CSV (RFC 4180).
    ///
    /// # Errors
    /// Never, as far as is known: rows of one type are written to memory.
    pub fn csv(&self) -> Result<String, Failure> {
        let (records, mut writer) =
            (self.0.borrow(), csv::WriterBuilder::new().has_headers(false).from_writer(Vec::new()));
        let options = records.first().map(|record| &record.options[..]).unwrap_or_default();
        writer.serialize((options.iter().map(|(name, _)| name).collect::<Vec<_>>(), FIELDS))?;
        for record in records.iter() {
            writer.serialize((record.options.iter().map(|(_, value)| value).collect::<Vec<_>>(), record))?;
        }
        Ok(String::from_utf8(writer.into_inner()?)?)
    }
}

/// Names of the fields, in their order.
const FIELDS: [&str; 16] = [
    "setting",
    "prompt",
    "seed",
    "tokens",
    "rounds",
    "drafted",
    "judged",
    "accepted",
    "passed",
    "server_passes",
    "payload_bits",
    "uplink_bits",
    "downlink_bits",
    "score",
    "similarity",
    "seconds",
];

#[cfg(test)]
mod tests {
    use outrider_speculation::study::Statistics;

    use super::*;

    #[test]
    fn a_text_is_a_row_and_what_is_not_known_is_empty() {
        let statistics = Statistics { judged: 3, accepted: 2, server_passes: 2, ..Statistics::default() };
        let session =
            Session { prompt: vec![0], tokens: vec![1; 5], origins: Vec::new(), rounds: Vec::new(), statistics };
        let (records, shared) = (Records::default(), Records::default());
        let records = [records.clone(), records, shared];
        records[0].add(Record::of("K = 8, T = 0.5", 4, 9, &session));
        records[1].add(Record { score: Some(1.0), ..Record::of("opt at 0.3", 0, 1, &session) });
        let lines: Vec<String> = records[0].csv().unwrap().lines().map(str::to_owned).collect();
        let value = serde_json::to_value(&records[0].0.borrow()[0]).unwrap();
        let names: Vec<_> = value.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(lines[0], names.join(","));
        assert_eq!(lines[1], "\"K = 8, T = 0.5\",4,9,5,0,0,3,2,0,2,0,0,0,,,");
        assert_eq!(lines[2], "opt at 0.3,0,1,5,0,0,3,2,0,2,0,0,0,1.0,,");
        let options = vec![("rule".to_owned(), "lossy".to_owned()), ("gamma".to_owned(), "4".to_owned())];
        let records = Records::default();
        records.add(Record { options, ..Record::of("lossy, 4", 0, 1, &session) });
        let csv = records.csv().unwrap();
        assert!(csv.starts_with("rule,gamma,setting,prompt,"), "{csv}");
        assert!(csv.contains("\nlossy,4,\"lossy, 4\",0,1,5,"), "{csv}");
    }
}
