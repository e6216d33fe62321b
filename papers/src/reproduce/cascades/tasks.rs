//! Tasks with answers, the pair that was trained on them, and what its answers are worth.

use std::{io::Cursor, sync::Arc};

use outrider_models::{LoadError, Model, Tokenizer};
use serde::Deserialize;

use crate::reproduce::{
    data::Data,
    laboratory::Laboratory,
    metric::Metric,
    sessions::{Failure, Pair, Session},
};

const DRAFT: &[u8] = include_bytes!("../../../../pair/tasks/draft-q8_0.gguf");
const TARGET: &[u8] = include_bytes!("../../../../pair/tasks/target-f16.gguf");
const TOKENIZER: &[u8] = include_bytes!("../../../../pair/tasks/tokenizer.json");
const HELD_OUT: &str = include_str!("../../../../pair/tasks/held-out.jsonl");

/// The tasks, in the order in which held-out prompts take turns.
pub const TASKS: [&str; 4] = ["say", "mend", "sum", "sort"];
/// Number of questions for each prompt of other papers' settings: a short answer that is right or wrong has little
/// information.
const PROMPTS: usize = 20;
/// Tokens of an answer at most, where no reference is longer: right answers to the tasks have fewer.
pub const LONGEST: u32 = 48;
/// Tokens that an answer to a user's question may have beyond the longest reference.
const SLACK: u32 = 16;

/// A prompt with its answer.
#[derive(Debug, Clone, Deserialize)]
pub struct Question {
    /// Name of the task, one of [`TASKS`].
    pub task: String,
    /// Text that the models continue.
    pub prompt: String,
    /// The right answer to the question; `None` where the metric needs none.
    pub answer: Option<String>,
}

/// A pair and the questions that it is asked.
pub struct Tasks {
    /// Draft model, and sessions with the target.
    pub pair: Pair,
    /// Held out of training, the tasks in turn.
    pub questions: Vec<Question>,
    /// Ids of their prompts.
    pub prompts: Vec<Vec<u32>>,
    /// Tokens of an answer at most.
    pub longest: u32,
    /// Metric by which answers are scored.
    pub metric: Metric,
    /// The target once more, where the metric reads answers with it.
    reader: Arc<Model>,
    /// True if the questions are those that come with the program, of [`TASKS`] in turn; else they are the user's.
    pub are_tasks: bool,
}

/// Quality of an answer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Worth {
    /// Score by the metric: by default 1 if the answer is right to the letter, or else 0.
    pub score: f64,
    /// 1 − edit distance / length of the longer of answer and reference, from 0 to 1; NaN without a reference.
    pub similarity: f64,
}

impl Tasks {
    /// Loads the task pair with `PROMPTS` questions for each of the laboratory's prompts; or takes the laboratory's
    /// pair with the user's questions.
    ///
    /// # Errors
    /// If a file is not what it should be, a question has no reference and the metric needs one, or another pair has no
    /// questions of its own.
    pub fn open(laboratory: &Laboratory) -> Result<Self, Failure> {
        if let Some(data) = &laboratory.data {
            return Self::of(laboratory, data);
        }
        if !laboratory.is_built_in {
            return Err(
                "the built-in questions are those that the task pair was trained on, and another pair does not \
                        know them: give questions with references of your own with --data FILE.jsonl"
                    .into(),
            );
        }
        let [draft, target] = models()?;
        let tokenizer = Tokenizer::from_bytes(TOKENIZER)?;
        let ends = (laboratory.start)(target, &tokenizer)?;
        let [_, reader] = models()?;
        let pair = Pair { draft: Arc::new(draft), tokenizer: Arc::new(tokenizer), heads: None, ends };
        let questions: Vec<Question> = questions()?.into_iter().take(PROMPTS * laboratory.prompts).collect();
        let prompts = questions.iter().map(|question| pair.encode(&question.prompt)).collect::<Result<_, _>>()?;
        let (metric, reader) = (laboratory.metric.clone(), Arc::new(reader));
        Ok(Self { pair, questions, prompts, longest: LONGEST, metric, reader, are_tasks: true })
    }

    /// The user's questions to the laboratory's own pair.
    fn of(laboratory: &Laboratory, data: &Data) -> Result<Self, Failure> {
        let (mut questions, mut longest) = (Vec::new(), None);
        for (line, number) in data.lines.iter().zip(1..).take(laboratory.prompts) {
            // The likelihood needs no right answer, but the length of one is the limit of an answer.
            if line.reference.is_none() && laboratory.metric.needs_reference() {
                let name = laboratory.metric.name();
                let advice = "give references, or use --metric log-likelihood";
                return Err(format!("prompt {number} has no reference, which {name} needs: {advice}").into());
            }
            if let Some(answer) = &line.reference {
                longest = longest.max(Some(laboratory.pair.tokenizer.encode_prompt(None, answer)?.len()));
            }
            questions.push(Question { task: "data".to_owned(), prompt: String::new(), answer: line.reference.clone() });
        }
        let prompts = data.prompts.iter().take(questions.len()).cloned().collect();
        Ok(Self {
            pair: laboratory.pair.clone(),
            questions,
            prompts,
            longest: longest.map_or(LONGEST, |tokens| tokens as u32 + SLACK),
            metric: laboratory.metric.clone(),
            reader: laboratory.target.clone(),
            are_tasks: false,
        })
    }

    /// Quality of a session's answer to a question.
    ///
    /// # Errors
    /// If the metric is the likelihood under the target, and the target fails.
    pub fn worth(&self, question: &Question, session: &Session) -> Result<Worth, Failure> {
        // Answers of the tasks have no white space at their ends.
        let trimmed = if self.are_tasks { |text| text } else { str::trim };
        let said = self.pair.tokenizer.decode(&session.tokens);
        let (said, right) = (trimmed(&said), question.answer.as_deref().map(trimmed));
        let score = match &self.metric {
            Metric::ExactMatch => f64::from(u8::from(Some(said) == right)),
            metric => {
                let turns = std::slice::from_ref(session);
                metric.answer_score(&metric.counts(turns, right, &self.pair.tokenizer, &self.reader)?)
            }
        };
        Ok(Worth { score, similarity: right.map_or(f64::NAN, |right| similarity(said, right)) })
    }
}

/// 1 − edit distance / length of the longer of the two.
fn similarity(said: &str, right: &str) -> f64 {
    let longer = said.chars().count().max(right.chars().count()).max(1);
    1.0 - distance(said, right) as f64 / longer as f64
}

/// Draft and target that were trained on the tasks.
fn models() -> Result<[Model; 2], LoadError> {
    let model = |bytes: &'static [u8]| Model::from_gguf(&mut Cursor::new(bytes));
    Ok([model(DRAFT)?, model(TARGET)?])
}

/// All held-out questions.
fn questions() -> Result<Vec<Question>, serde_json::Error> {
    HELD_OUT.lines().map(serde_json::from_str).collect()
}

/// Levenshtein's distance: letters that are put in, left out or replaced.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, letter) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, other) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != *other);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests;
