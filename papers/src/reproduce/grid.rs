//! Any settings on any prompts, with the models loaded once: `outrider sweep`.
//!
//! Each setting writes a text for each prompt and seed; the target alone writes them once more at each sampling. Mean
//! accepted length is tokens per pass of the target, as Spec-Bench counts it: accepted drafts of a step and the token
//! that follows them. Seconds are those of the virtual clock, a round after the other.
//!
//! Intervals are of the bootstrap over prompts. The best of m settings is found better than it is. So its interval and
//! those of its differences to the others have the level 1 − 0.05/m (Bonferroni): all m hold at once at 95 %.

mod categories;
mod rows;

use outrider_codec::frame::SamplingParameters;
use outrider_models::Message;
use outrider_speculation::session::edge::{Mode, Settings};
use serde_json::json;
use tokio::task;

pub use self::rows::Setting;
use self::{
    categories::Category,
    rows::{Best, LEVEL, Measured, Row, SPEED_UP, picture},
};
use super::{
    clock::Clock,
    data::{Ask, Data},
    laboratory::Laboratory,
    metric::Metric,
    records::Record,
    sessions::{Failure, Session},
    table::{markdown, row},
};
use crate::report::{
    bootstrap::{interval, values},
    files::Report,
};

/// Settings to measure, and the length of texts.
#[derive(Debug)]
pub struct Grid {
    /// The settings in the order of the table.
    pub settings: Vec<Setting>,
    /// Tokens of a text at most.
    pub tokens: u32,
    /// Quality of the texts, if it is measured.
    pub metric: Option<Metric>,
}

/// Number of fixed summands of a prompt's texts; the counts of the metric follow.
const SUMMANDS: usize = 6;
/// Columns of the table after the setting, but for quality.
const COLUMNS: [&str; 5] = ["mean accepted length", "acceptance rate", "uplink bits a token", "ms a token", "speed-up"];

/// A prompt with its place in the user's file.
struct Question<'a> {
    number: usize,
    tokens: Vec<u32>,
    /// The conversation so far, and later messages of the user.
    messages: Vec<Message>,
    later_turns: &'a [String],
    reference: Option<&'a str>,
    category: Option<&'a str>,
}

/// Sums over the texts of each prompt: tokens, passes, judged and accepted drafts, bits up, seconds; counts of the
/// metric.
type Sums = Vec<Vec<f64>>;

impl Grid {
    /// Measures all settings on the laboratory's prompts.
    ///
    /// # Errors
    /// If fewer than two prompts fit the models, a session fails, or a prompt has no reference and the metric needs
    /// one.
    pub fn run(&self, laboratory: &mut Laboratory) -> Result<Report, Failure> {
        laboratory.time_own_pair()?;
        let clock = laboratory.clock(None)?;
        let own = laboratory.data.clone();
        let (questions, left_out) = self.questions(laboratory, own.as_ref())?;
        self.check(laboratory, &questions)?;
        let mut alone: Vec<(SamplingParameters, Sums)> = Vec::new();
        let categories =
            categories::categories(&questions.iter().map(|question| question.category).collect::<Vec<_>>());
        let (mut rows, mut by_category) = (Vec::new(), Vec::new());
        for (setting, number) in self.settings.iter().zip(1..) {
            let sampling = setting.sampling;
            if !alone.iter().any(|(known, _)| *known == sampling) {
                let options = setting.options.iter().map(|(name, _)| (name.clone(), String::new())).collect();
                let name = format!("target alone{}", said(sampling));
                let target = Setting { name, options, mode: Mode::CloudOnly, sampling };
                alone.push((sampling, self.sums(laboratory, own.as_ref(), &questions, &target, &clock)?));
            }
            laboratory.say(&format!("[{number}/{}] {}", self.settings.len(), setting.name));
            let sums = self.sums(laboratory, own.as_ref(), &questions, setting, &clock)?;
            let beside = alone.iter().find(|(known, _)| *known == sampling).map(|(_, sums)| sums);
            let beside = beside.unwrap_or(&sums);
            rows.push(self.row(setting, &sums, beside));
            let of = |category: &Category<'_>| self.row(setting, &category.of(&sums), &category.of(beside));
            by_category.push(categories.iter().map(of).collect::<Vec<_>>());
        }
        let targets =
            alone.iter().map(|(sampling, sums)| (format!("target alone{}", said(*sampling)), self.quality(sums)));
        let mut report =
            self.report(laboratory, &clock, (questions.len(), left_out), &rows, &targets.collect::<Vec<_>>());
        if !categories.is_empty() {
            report.text.push_str(&categories::told(&categories, &by_category));
            report.numbers["categories"] = categories::numbers(&categories, &by_category);
        }
        Ok(report)
    }

    /// Prompts that fit both models with a text, and how many do not.
    fn questions<'a>(
        &self,
        laboratory: &Laboratory,
        data: Option<&'a Data>,
    ) -> Result<(Vec<Question<'a>>, usize), Failure> {
        let plain = |(number, tokens)| Question {
            number,
            tokens,
            messages: Vec::new(),
            later_turns: &[],
            reference: None,
            category: None,
        };
        let mut questions: Vec<Question<'a>> = match data {
            None => laboratory.prompts()?.into_iter().enumerate().map(plain).collect(),
            Some(data) => {
                let asked = |(prompt, line): (Question<'a>, &'a super::data::Line)| Question {
                    messages: if let Ask::Messages(messages) = &line.ask { messages.clone() } else { Vec::new() },
                    later_turns: &line.later_turns,
                    reference: line.reference.as_deref(),
                    category: line.category.as_deref(),
                    ..prompt
                };
                let prompts = laboratory.prompts()?.into_iter().enumerate().map(plain);
                prompts.zip(&data.lines).map(asked).collect()
            }
        };
        let context = [laboratory.pair.draft.config(), laboratory.target.config()].map(|config| config.context_length);
        let context = context[0].min(context[1]);
        let all = questions.len();
        // Each later turn comes after an answer and may itself be as long as the answer.
        let needed = |question: &Question<'_>| {
            let later: usize = question.later_turns.iter().map(String::len).sum();
            question.tokens.len() + later + self.tokens as usize * (1 + question.later_turns.len())
        };
        questions.retain(|question| needed(question) <= context);
        if questions.len() < 2 {
            return Err(format!(
                "{} of {all} prompts fit the context of {context} tokens together with texts of {}: give shorter \
                 prompts, a smaller --max-tokens, or models with a longer context",
                questions.len(),
                self.tokens
            )
            .into());
        }
        let left_out = all - questions.len();
        Ok((questions, left_out))
    }

    /// Checks that all settings can be measured on all questions, before hours are spent on some.
    fn check(&self, laboratory: &Laboratory, questions: &[Question<'_>]) -> Result<(), Failure> {
        if let Some(metric) = self.metric.as_ref().filter(|metric| metric.needs_reference())
            && let Some(question) = questions.iter().find(|question| question.reference.is_none())
        {
            let (number, metric) = (question.number + 1, metric.name());
            let advice = "give every prompt a reference, or use --metric log-likelihood";
            return Err(format!("prompt {number} has no reference, which {metric} needs: {advice}").into());
        }
        let Some(shortest) = questions.iter().min_by_key(|question| question.tokens.len()) else { return Ok(()) };
        for Setting { name, mode, sampling, .. } in &self.settings {
            let settings = Settings { mode: mode.clone(), sampling: *sampling, seed: 1, max_new_tokens: 1 };
            let session = laboratory.pair.generate_over(None, &shortest.tokens, &settings);
            let session = task::block_in_place(|| laboratory.runtime.block_on(session));
            session.map_err(|error| format!("{name}: {error}"))?;
        }
        Ok(())
    }

    /// Texts of a setting for each question, as sums by question.
    fn sums(
        &self,
        laboratory: &Laboratory,
        data: Option<&Data>,
        questions: &[Question<'_>],
        setting: &Setting,
        clock: &Clock,
    ) -> Result<Sums, Failure> {
        let mut sums = Vec::new();
        for question in questions {
            let mut sum: Vec<f64> = Vec::new();
            for index in 0..laboratory.seeds {
                let seed = (question.number * laboratory.seeds + index) as u64 + 1;
                let sessions = self.converse(laboratory, data, question, setting, seed)?;
                let counts = self.add(laboratory, question, setting, seed, &sessions, clock)?;
                sum.resize(counts.len(), 0.0);
                sum.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
            }
            sums.push(sum);
        }
        Ok(sums)
    }

    /// The turns of a conversation, one session each.
    fn converse(
        &self,
        laboratory: &Laboratory,
        data: Option<&Data>,
        question: &Question<'_>,
        setting: &Setting,
        seed: u64,
    ) -> Result<Vec<Session>, Failure> {
        let Setting { mode, sampling, .. } = setting;
        let settings = Settings { mode: mode.clone(), sampling: *sampling, seed, max_new_tokens: self.tokens };
        let write = |prompt: &[u32]| {
            let session = laboratory.pair.generate_over(None, prompt, &settings);
            task::block_in_place(|| laboratory.runtime.block_on(session))
        };
        let mut sessions = vec![write(&question.tokens)?];
        let mut messages = question.messages.clone();
        for turn in question.later_turns {
            let Some(data) = data else { continue };
            let answer = sessions.last().map(|session| laboratory.pair.tokenizer.decode(&session.tokens));
            messages.push(Message::new("assistant", &answer.unwrap_or_default()));
            messages.push(Message::new("user", turn));
            sessions.push(write(&data.encode(messages.clone())?)?);
        }
        Ok(sessions)
    }

    /// Records the texts of a question and seed, and gives their summands.
    fn add(
        &self,
        laboratory: &Laboratory,
        question: &Question<'_>,
        setting: &Setting,
        seed: u64,
        sessions: &[Session],
        clock: &Clock,
    ) -> Result<Vec<f64>, Failure> {
        let turn = |session| Record {
            options: setting.options.clone(),
            seconds: Some(clock.seconds(session)),
            ..Record::of(&setting.name, question.number, seed, session)
        };
        let mut turns = sessions.iter().map(turn);
        let mut record = turns.next().ok_or("a conversation has no turn")?;
        turns.for_each(|turn| record += turn);
        let counts = match &self.metric {
            None => Vec::new(),
            Some(metric) => {
                metric.counts(sessions, question.reference, &laboratory.pair.tokenizer, &laboratory.target)?
            }
        };
        record.score = self.metric.as_ref().map(|metric| metric.answer_score(&counts));
        let integers = [record.tokens, record.server_passes, record.judged, record.accepted, record.uplink_bits];
        let summands = integers.map(|count| count as f64).into_iter().chain(record.seconds).chain(counts).collect();
        laboratory.records.add(record);
        Ok(summands)
    }

    /// The cells of a setting with their intervals, beside the texts of the target `alone`.
    fn row<'a>(&self, setting: &'a Setting, sums: &Sums, alone: &Sums) -> Row<'a> {
        let width = sums.first().map_or(0, Vec::len);
        let both: Sums = sums.iter().zip(alone).map(|(own, alone)| [&own[..], alone].concat()).collect();
        let of = |sums: &[f64]| {
            let (own, alone) = sums.split_at(width);
            let [tokens, passes, judged, accepted, bits, seconds] = [0, 1, 2, 3, 4, 5].map(|index| own[index]);
            let speed_up = (alone[5] / alone[0]) / (seconds / tokens);
            let [quality, other] = [own, alone].map(|sums| self.score(sums));
            [
                tokens / passes,
                accepted / judged,
                bits / tokens,
                1e3 * seconds / tokens,
                speed_up,
                quality,
                quality - other,
            ]
        };
        let drawn = values(&both, of);
        let total = (0..2 * width).map(|index| both.iter().map(|sums| sums[index]).sum()).collect::<Vec<f64>>();
        // One prompt has no spread.
        let of_cell = |index: usize| interval(drawn.iter().map(|drawn| drawn[index]), LEVEL).filter(|_| sums.len() > 1);
        let cell = |(index, value)| Measured { value, interval: of_cell(index) };
        let cells = of(&total).into_iter().enumerate().map(cell).collect();
        Row { setting, cells, drawn: drawn.iter().map(|drawn| [drawn[SPEED_UP], drawn[SPEED_UP + 1]]).collect() }
    }

    fn score(&self, sums: &[f64]) -> f64 {
        self.metric.as_ref().map_or(f64::NAN, |metric| metric.score(&sums[SUMMANDS..]))
    }

    /// Quality of all texts.
    fn quality(&self, sums: &Sums) -> Measured {
        let drawn = values(sums, |sums| [self.score(sums)]);
        let width = sums.first().map_or(0, Vec::len);
        let total: Vec<f64> = (0..width).map(|index| sums.iter().map(|sums| sums[index]).sum()).collect();
        Measured { value: self.score(&total), interval: interval(drawn.iter().map(|[score]| *score), LEVEL) }
    }

    fn report(
        &self,
        laboratory: &Laboratory,
        clock: &Clock,
        (prompts, left_out): (usize, usize),
        rows: &[Row<'_>],
        targets: &[(String, Measured)],
    ) -> Report {
        let name = self.metric.as_ref().map(Metric::name);
        let columns: Vec<&str> =
            COLUMNS.into_iter().chain(name.into_iter().flat_map(|name| [name, "less the target's"])).collect();
        let told = |row: &Row<'_>| -> Vec<String> {
            let cells = row.cells.iter().zip([2, 3, 1, 2, 2, 3, 3]).take(columns.len());
            cells.map(|(cell, digits)| cell.told(digits)).collect()
        };
        let mut table: Vec<Vec<String>> = targets
            .iter()
            .map(|(target, quality)| {
                let cells = columns.iter().enumerate().map(|(index, _)| match index {
                    0 | 4 => "1".to_owned(),
                    5 => quality.told(3),
                    _ => "–".to_owned(),
                });
                row(target, cells)
            })
            .collect();
        table.extend(rows.iter().map(|found| row(&found.setting.name, told(found))));
        let link = clock.bits_per_second.map_or("no link".to_owned(), |_| format!("a link of {}", clock.link_speed()));
        let seeds = laboratory.seeds;
        let mut text = format!(
            "{prompts} prompts, {seeds} {} each, texts of at most {} tokens.{} Mean accepted length: tokens a pass of \
             the target, as Spec-Bench counts it. Seconds are those of a virtual clock: a draft takes {:.2} ms and a \
             pass {:.2} ms + {:.2} ms a draft, and {link}; speed-up is over the target alone. Brackets are 95 % \
             intervals of the bootstrap over prompts.\n\n{}",
            if seeds == 1 { "seed" } else { "seeds" },
            self.tokens,
            match left_out {
                0 => String::new(),
                _ => format!(" {left_out} more prompts are left out: they do not fit the models' context."),
            },
            1e3 * clock.draft,
            1e3 * clock.pass,
            1e3 * clock.row,
            markdown(&row("setting", &columns), &table),
        );
        let mut best = Vec::new();
        if rows.len() > 1 {
            best.push(Best::of(rows, 0, "speed-up"));
            best.extend(name.map(|name| Best::of(rows, 1, name)));
            best.iter().flatten().for_each(|best| text.push_str(&best.told(rows)));
        }
        let names = ["acceptedLength", "acceptanceRate", "uplinkBits", "milliseconds", "speedup", "quality", "gain"];
        let settings = rows.iter().map(|found| {
            let cells = names.iter().zip(&found.cells).map(|(name, cell)| ((*name).to_owned(), json!(cell)));
            let cells: serde_json::Map<_, _> = cells.collect();
            let options: serde_json::Map<_, _> =
                found.setting.options.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
            json!({ "setting": found.setting.name, "options": options, "measured": cells })
        });
        let numbers = json!({
            "settings": settings.collect::<Vec<_>>(), "prompts": prompts, "leftOut": left_out, "seeds": seeds,
            "metric": name, "best": best.iter().flatten().map(|best| best.numbers(rows)).collect::<Vec<_>>(),
            "target": targets.iter().map(|(name, quality)| json!({ "setting": name, "quality": quality })).collect::<Vec<_>>(),
        });
        Report { text, numbers, svg: Some(picture(rows)) }
    }
}

/// Sampling as the end of a name.
fn said(sampling: SamplingParameters) -> String {
    let SamplingParameters { temperature, top_k, top_p } = sampling;
    let top_k = if top_k > 0 { format!(", top-k = {top_k}") } else { String::new() };
    let top_p = if top_p < 1.0 { format!(", top-p = {top_p}") } else { String::new() };
    format!(", T = {temperature}{top_k}{top_p}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::bootstrap::Interval;

    fn grid() -> Grid {
        Grid { settings: Vec::new(), tokens: 8, metric: Some(Metric::ExactMatch) }
    }

    fn setting(name: &str) -> Setting {
        let sampling = SamplingParameters { temperature: 0.0, top_k: 0, top_p: 1.0 };
        Setting { name: name.to_owned(), options: Vec::new(), mode: Mode::CloudOnly, sampling }
    }

    /// Two prompts by hand. Spec-Bench's mean of accept_lengths [3, 2] and [4, 1, 2] is 12/5; drafts 7 of 9 accepted.
    #[test]
    fn cells_are_ratios_of_sums() {
        let (grid, setting) = (grid(), setting("K = 8"));
        let sums = vec![vec![5.0, 2.0, 4.0, 3.0, 100.0, 1.0, 1.0, 1.0], vec![7.0, 3.0, 5.0, 4.0, 140.0, 2.0, 0.0, 1.0]];
        let alone = vec![vec![5.0, 5.0, 0.0, 0.0, 0.0, 5.0, 1.0, 1.0], vec![7.0, 7.0, 0.0, 0.0, 0.0, 7.0, 1.0, 1.0]];
        let row = grid.row(&setting, &sums, &alone);
        let found: Vec<f64> = row.cells.iter().map(|cell| cell.value).collect();
        for (found, expected) in found.iter().zip([12.0 / 5.0, 7.0 / 9.0, 20.0, 250.0, 4.0, 0.5, -0.5]) {
            assert!((found - expected).abs() < 1e-9, "{found} and {expected}");
        }
        let Interval { low, high } = row.cells[0].interval.unwrap();
        assert!((low - 7.0 / 3.0).abs() < 1e-9 && (high - 2.5).abs() < 1e-9, "of two prompts, the ratio of either");
    }
}
