//! State that the experiments share: a pair, its prompts, and times of passes of models of the papers' shapes.

use std::{
    any::{Any, TypeId},
    collections::HashMap,
    sync::Arc,
};

use outrider_codec::frame::SamplingParameters;
use outrider_models::{
    Chunk, Model,
    shapes::{SMOLLM_135M, Shape, TINYLLAMA},
};
use outrider_speculation::{
    sample,
    session::{
        edge::{Mode, Settings},
        options::DraftingOptions,
    },
    study::RoundRecord,
};
use serde_json::{Value, json};
use tokio::{runtime::Handle, task};

use super::{
    clock::{Clock, Sent},
    data::Data,
    metric::Metric,
    records::{Record, Records},
    sessions::{Failure, Pair, Session, Start},
    timing::{random, steady, time},
};
use crate::report::estimate::Estimate;

pub use super::timing::{PassTimes, Times};

/// Texts that are written in real time.
const REAL_TEXTS: usize = 4;
/// Repetitions of each of these texts.
const REAL_TURNS: usize = 3;

/// Rate and round-trip time of a link.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LinkSpeed {
    /// Rate in either direction, in bits per second.
    pub bits_per_second: f64,
    /// Round-trip time of an empty message, in seconds.
    pub round_trip: f64,
}

/// A pair of models with the experiments' measurements of it, and a place to report progress.
pub struct Laboratory {
    pub(super) pair: Pair,
    pub(super) target: Arc<Model>,
    pub(super) runtime: Handle,
    /// Number of prompts of each setting.
    pub(super) prompts: usize,
    pub(super) say: fn(&str),
    /// Sessions of each prompt at each setting.
    pub(super) seeds: usize,
    /// Texts of the user's own, in place of the built-in ones.
    pub(super) data: Option<Data>,
    /// Link of the virtual clock, in place of each experiment's own.
    link: Option<LinkSpeed>,
    /// Quality of answers to prompts that have references.
    pub(super) metric: Metric,
    /// Every text that was written, for a CSV file.
    pub records: Records,
    times: Option<Times>,
    /// Starts sessions of other pairs.
    pub(super) start: Start,
    /// True if the pair is the one that comes with the program. Another pair is also used for the tasks.
    pub(super) is_built_in: bool,
    /// Measurements that several items show, by their types.
    kept: HashMap<TypeId, Box<dyn Any>>,
}

impl std::fmt::Debug for Laboratory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Laboratory").field("prompts", &self.prompts).finish_non_exhaustive()
    }
}

/// q and p of a position of a text, before temperature.
#[derive(Debug)]
pub struct Rows {
    /// Logits of the draft model.
    pub draft: Vec<f32>,
    /// Logits of the target.
    pub target: Vec<f32>,
}

impl Laboratory {
    /// A laboratory for a pair and its target once more, within a runtime of several threads. `prompts` is their number
    /// for each setting.
    pub fn new((pair, target): (Pair, Model), is_built_in: bool, start: Start, prompts: usize, say: fn(&str)) -> Self {
        Self {
            pair,
            target: Arc::new(target),
            runtime: Handle::current(),
            prompts,
            say,
            seeds: 1,
            data: None,
            link: None,
            metric: Metric::default(),
            records: Records::default(),
            times: None,
            start,
            is_built_in,
            kept: HashMap::new(),
        }
    }

    /// The laboratory with prompts and references of the user's own.
    #[must_use]
    pub fn with_data(self, data: Data) -> Self {
        Self { data: Some(data), ..self }
    }

    /// The laboratory with another metric than exact matches.
    #[must_use]
    pub fn with_metric(self, metric: Metric) -> Self {
        Self { metric, ..self }
    }

    /// The laboratory with `seeds` sessions of each prompt at each setting, at least one.
    #[must_use]
    pub fn with_seeds(self, seeds: usize) -> Self {
        Self { seeds: seeds.max(1), ..self }
    }

    /// The laboratory with these times of passes, which are then not measured.
    #[must_use]
    pub fn with_times(self, times: Times) -> Self {
        Self { times: Some(times), ..self }
    }

    /// The laboratory with this link of the virtual clock, in place of the experiments' own.
    #[must_use]
    pub fn with_link(self, link: LinkSpeed) -> Self {
        Self { link: Some(link), ..self }
    }

    /// Times of passes, if they are known.
    pub fn known_times(&self) -> Option<Times> {
        self.times
    }

    /// The virtual clock of a small draft model and a large target. Its link has the rate `bits_per_second`, unless
    /// the laboratory has a link.
    ///
    /// # Errors
    /// If passes cannot be timed.
    pub fn clock(&mut self, bits_per_second: Option<f64>) -> Result<Clock, Failure> {
        let Times { small, large } = self.times()?;
        let (bits_per_second, delay) = match self.link {
            Some(link) => (Some(link.bits_per_second), link.round_trip / 2.0),
            None => (bits_per_second, 0.0),
        };
        Ok(Clock { draft: small.pass, pass: large.pass, row: large.row, bits_per_second, delay })
    }

    /// Token ids of the prompts: the user's, or beginnings of sentences of a tale.
    ///
    /// # Errors
    /// If the tokenizer refuses them.
    pub fn prompts(&self) -> Result<Vec<Vec<u32>>, Failure> {
        match &self.data {
            Some(data) => Ok(data.prompts.iter().take(self.prompts).cloned().collect()),
            None => self.pair.prompts(self.prompts),
        }
    }

    /// Reports a line of progress.
    pub fn say(&self, text: &str) {
        (self.say)(text);
    }

    /// Size of the vocabulary, V.
    pub fn vocabulary(&self) -> usize {
        self.target.config().vocab_size
    }

    /// Sessions for each prompt, one after the other those of one prompt with their seeds; `setting` names them.
    ///
    /// # Errors
    /// If options are out of range, or a session fails.
    pub fn sessions(
        &self,
        setting: &str,
        options: &DraftingOptions,
        sampling: SamplingParameters,
        tokens: u32,
    ) -> Result<Vec<Session>, Failure> {
        self.say(setting);
        let prompts = self.prompts()?;
        let prompts: Vec<_> =
            prompts.iter().flat_map(|prompt| std::iter::repeat_n(prompt.clone(), self.seeds)).collect();
        let sessions = self.generate(&prompts, &Mode::Speculative(options.speculation()?), sampling, tokens)?;
        for (session, index) in sessions.iter().zip(0..) {
            self.records.add(Record::of(setting, index / self.seeds, index as u64 + 1, session));
        }
        Ok(sessions)
    }

    /// A session for each of these prompts, seeded by its position among them.
    ///
    /// # Errors
    /// If a session fails.
    pub fn generate(
        &self,
        prompts: &[Vec<u32>],
        mode: &Mode,
        sampling: SamplingParameters,
        tokens: u32,
    ) -> Result<Vec<Session>, Failure> {
        let sessions = self.pair.generate_at(prompts, mode, sampling, tokens);
        task::block_in_place(|| self.runtime.block_on(sessions))
    }

    /// Runs some of the sessions in real time, over the link of a clock, over one that takes twice the time and over
    /// none, and compares them with the clock's times for passes of this pair.
    ///
    /// # Errors
    /// If options are out of range, or a session fails.
    pub fn for_real(
        &self,
        options: &DraftingOptions,
        sampling: SamplingParameters,
        tokens: u32,
        clock: Clock,
    ) -> Result<ForReal, Failure> {
        self.say("in real time over the emulated link");
        let (draft, target) = (time(&self.pair.draft)?, time(&self.target)?);
        let clock = Clock { draft: draft.pass, pass: target.pass, row: target.row, ..clock };
        let prompts = self.prompts()?;
        let prompts = &prompts[..prompts.len().min(REAL_TEXTS)];
        let mode = Mode::Speculative(options.speculation()?);
        let (once, twice) = (clock.link(), clock.with_twice_the_link().link());
        let (mut near, mut far, mut farther) = (Vec::new(), Vec::new(), Vec::new());
        // Taking turns, so that a processor that is slower for a while is so for all; the first turn warms caches.
        for turn in 0..=REAL_TURNS {
            for (prompt, seed) in prompts.iter().zip(1..) {
                let settings = Settings { mode: mode.clone(), sampling, seed, max_new_tokens: tokens };
                let write = |link| {
                    let session = self.pair.generate_over(link, prompt, &settings);
                    task::block_in_place(|| self.runtime.block_on(session))
                };
                let sessions = [write(None)?, write(Some(&once))?, write(Some(&twice))?];
                if turn > 0 {
                    let [first, second, third] = sessions;
                    near.push(first);
                    far.push(second);
                    farther.push(third);
                }
            }
        }
        ForReal::of(&near, &far, &farther, clock)
    }

    /// Times passes of a model of this shape with random weights in Q8_0.
    ///
    /// # Errors
    /// If there is no memory for the model.
    pub fn time(&self, shape: &Shape) -> Result<PassTimes, Failure> {
        time(&random(shape)?)
    }

    /// Logits of both models at each position of each paragraph of a text that neither wrote.
    ///
    /// # Errors
    /// If a model fails.
    pub fn held_out(&self) -> Result<Vec<Vec<Rows>>, Failure> {
        let paragraphs = match &self.data {
            Some(data) => data.texts(&self.pair.tokenizer)?,
            None => self.pair.paragraphs()?,
        };
        paragraphs.iter().take(self.prompts).map(|text| self.rows(text)).collect()
    }

    fn rows(&self, text: &[u32]) -> Result<Vec<Rows>, Failure> {
        let longest = self.pair.draft.config().context_length.min(self.target.config().context_length);
        let text = &text[..text.len().min(longest)];
        let read = |model: &Model| -> Result<Vec<Vec<f32>>, Failure> {
            let (mut cache, positions) = (model.new_cache(), (0..text.len()).collect::<Vec<_>>());
            let logits = model.forward(&mut [Chunk { cache: &mut cache, tokens: text, positions: &positions }])?;
            Ok(logits[0].iter().map(<[f32]>::to_vec).collect())
        };
        let both = read(&self.pair.draft)?.into_iter().zip(read(&self.target)?);
        Ok(both.map(|(draft, target)| Rows { draft, target }).collect())
    }

    /// Measurements of one type, which experiments share; empty at first.
    ///
    /// # Errors
    /// Never: each type has a place of its own.
    pub fn kept<T: Default + 'static>(&mut self) -> Result<&mut T, Failure> {
        let place = self.kept.entry(TypeId::of::<T>()).or_insert_with(|| Box::new(T::default()));
        place.downcast_mut().ok_or_else(|| "another type is kept in its place".into())
    }

    /// Times of passes of models of the papers' sizes, measured once.
    ///
    /// # Errors
    /// If there is no memory for the models, or the machine is too busy.
    pub fn times(&mut self) -> Result<Times, Failure> {
        if let Some(times) = self.times {
            return Ok(times);
        }
        self.say("timing passes of 135M and 1.1B weights");
        let times = Times { small: steady(&random(&SMOLLM_135M)?)?, large: steady(&random(&TINYLLAMA)?)? };
        self.times = Some(times);
        Ok(times)
    }

    /// Takes the times of the laboratory's own models for those of the clock, unless they are known.
    ///
    /// # Errors
    /// If the machine is too busy, or a model fails.
    pub fn time_own_pair(&mut self) -> Result<(), Failure> {
        if self.times.is_none() {
            self.say("timing passes of the pair");
            self.times = Some(Times { small: steady(&self.pair.draft)?, large: steady(&self.target)? });
        }
        Ok(())
    }
}

/// Texts that were written in real time, compared with the virtual clock.
#[derive(Debug, Clone, Copy)]
pub struct ForReal {
    texts: usize,
    /// Seconds of all rounds but the first, in which both models read the prompt.
    seconds: f64,
    /// Time over twice the link, as a multiple of the time over the link plus the clock's time of a second link. Both
    /// include waiting, after which idle processors and cold caches cost time that is no part of a link.
    link: Estimate,
    /// Time of a round beyond one without a link and the clock's time of the link, in seconds.
    waking: Estimate,
    /// Time without a link over the clock's time of passes: the rest is sampling, coding, and waking the other
    /// end.
    computing: Estimate,
    clock: Clock,
}

impl ForReal {
    /// Compares the same texts without the link, with it, and with twice the link.
    fn of(near: &[Session], far: &[Session], farther: &[Session], clock: Clock) -> Result<Self, Failure> {
        let rounds = |session: &Session| session.rounds.get(1..).unwrap_or_default().to_vec();
        let seconds = |rounds: &[RoundRecord]| -> f64 {
            rounds.iter().map(|round| (round.draft_ms + round.round_trip_ms) / 1e3).sum()
        };
        // What crosses the link are frames.
        let sent = |round: &RoundRecord| Sent {
            drafts: round.drafted.len(),
            up: round.uplink_bits,
            down: round.downlink_bits,
        };
        let (mut total, mut link, mut waking, mut computing) = (0.0, Vec::new(), Vec::new(), Vec::new());
        for ((near, far), farther) in near.iter().zip(far).zip(farther) {
            if near.tokens != far.tokens || near.tokens != farther.tokens {
                return Err("a text is another over a link".into());
            }
            let [near, far, farther] = [near, far, farther].map(rounds);
            let spent = clock.spend(far.iter().map(sent));
            total += seconds(&far);
            link.push((seconds(&farther), seconds(&far) + spent.link));
            waking.push((seconds(&far) - seconds(&near) - spent.link, far.len() as f64));
            computing.push((seconds(&near), spent.drafting + spent.judging));
        }
        let [link, waking, computing] = [link, waking, computing].map(|pairs| Estimate::of(&pairs));
        Ok(Self { texts: far.len(), seconds: total, link, waking, computing, clock })
    }

    /// The comparison in a few sentences.
    pub fn told(&self, setting: &str) -> String {
        let Self { texts, seconds, link, waking, computing, clock } = self;
        format!(
            "\nIn real time over the emulated link, {setting}, {texts} texts ({}, {REAL_TURNS} times \
             each): {seconds:.2} s. Over twice the link they take {link:.3} of that and what the clock says of a \
             link. Without a link they take {computing:.2} of what the clock says of this pair's own passes (a \
             draft {:.2} ms, a pass {:.2} ms + {:.2} ms a draft), which leaves out sampling, coding and waking \
             the other end. With one, a round takes {:.1} ± {:.1} ms more than that and the link, since whoever \
             has waited is slow at first. Both are little beside passes of the papers' models.\n",
            texts / REAL_TURNS,
            1e3 * clock.draft,
            1e3 * clock.pass,
            1e3 * clock.row,
            1e3 * waking.value,
            1e3 * waking.error,
        )
    }

    /// The comparison as numbers.
    pub fn numbers(&self) -> Value {
        let Self { texts, seconds, link, waking, computing, .. } = self;
        json!({
            "texts": texts,
            "seconds": seconds,
            "ofTheClocksLink": link,
            "secondsOfWakingARound": waking,
            "ofTheClocksPasses": computing,
        })
    }
}

/// S of a row of logits.
///
/// # Errors
/// If they are no numbers.
pub fn probabilities(logits: &[f32], temperature: f32) -> Result<Vec<f64>, Failure> {
    Ok(sample::transform(logits, &SamplingParameters { temperature, top_k: 0, top_p: 1.0 })?)
}
