//! State that the experiments share: a pair, its prompts, and times of passes of models of the papers' shapes.

use std::{
    any::{Any, TypeId},
    collections::HashMap,
    hint::black_box,
    time::Instant,
};

use outrider_codec::frame::SamplingParameters;
use outrider_models::{
    Chunk, ElementType, Model,
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
    records::{Record, Records},
    sessions::{Failure, Pair, Session, Start},
};
use crate::report::estimate::Estimate;

/// Tokens before a timed pass, and passes of which the median counts.
const CACHED: usize = 128;
const REPEATS: usize = 9;
/// Rows of a timed pass that judges.
const ROWS: usize = 9;
/// Texts that are written in real time.
const REAL_TEXTS: usize = 4;
/// Repetitions of each of these texts.
const REAL_TURNS: usize = 3;

/// Time of a model's passes, in seconds.
#[derive(Debug, Clone, Copy)]
pub struct PassTimes {
    /// Time of a pass with one row.
    pub pass: f64,
    /// Time that each further row adds.
    pub row: f64,
}

/// Times of passes of models of the papers' sizes on this processor: random weights in Q8_0, since time depends on the
/// shape alone.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    /// A model of 135 million weights, as the papers' drafts.
    pub small: PassTimes,
    /// A model of 1.1 billion weights, as their smaller targets.
    pub large: PassTimes,
}

impl Times {
    /// The clock of a small draft model and a large target, with a link of this rate if there is one.
    pub fn clock(&self, bits_per_second: Option<f64>) -> Clock {
        let Self { small, large } = self;
        Clock { draft: small.pass, pass: large.pass, row: large.row, bits_per_second, delay: 0.0 }
    }
}

/// A pair of models with the experiments' measurements of it, and a place to report progress.
pub struct Laboratory {
    pub(super) pair: Pair,
    pub(super) target: Model,
    pub(super) runtime: Handle,
    /// Number of prompts of each setting.
    pub(super) prompts: usize,
    pub(super) say: fn(&str),
    /// Sessions of each prompt at each setting.
    pub(super) seeds: usize,
    /// Texts of the user's own, in place of the built-in ones.
    pub(super) data: Option<Data>,
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
            target,
            runtime: Handle::current(),
            prompts,
            say,
            seeds: 1,
            data: None,
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

    /// Times of passes, measured once.
    ///
    /// # Errors
    /// If there is no memory for the models.
    pub fn times(&mut self) -> Result<Times, Failure> {
        if let Some(times) = self.times {
            return Ok(times);
        }
        self.say("timing passes of 135M and 1.1B weights");
        let times = Times { small: time(&random(&SMOLLM_135M)?)?, large: time(&random(&TINYLLAMA)?)? };
        self.times = Some(times);
        Ok(times)
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
            "\nIn real time over the emulated link, {setting}, {texts} texts ({REAL_TEXTS}, {REAL_TURNS} times \
             each): {seconds:.2} s. Over twice the link they take {link:.3} of that and what the clock says of a \
             link. Without a link they take {computing:.2} of what the clock says of this pair's own passes (a \
             draft {:.2} ms, a pass {:.2} ms + {:.2} ms a draft), which leaves out sampling, coding and waking \
             the other end. With one, a round takes {:.1} ± {:.1} ms more than that and the link, since whoever \
             has waited is slow at first. Both are little beside passes of the papers' models.\n",
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

fn random(shape: &Shape) -> Result<Model, Failure> {
    let stored = shape.model(ElementType::Q8_0).ok_or("there are no random weights in Q8_0")?;
    Ok(stored.into_model()?)
}

fn time(model: &Model) -> Result<PassTimes, Failure> {
    let vocabulary = model.config().vocab_size as u32;
    let text: Vec<u32> = (0..(CACHED + ROWS) as u32).map(|index| index * 37 % vocabulary).collect();
    let mut cache = model.new_cache();
    model.forward(&mut [Chunk { cache: &mut cache, tokens: &text[..CACHED], positions: &[] }])?;
    let mut median = |rows: usize| -> Result<f64, Failure> {
        let positions: Vec<usize> = (0..rows).collect();
        let mut times = Vec::with_capacity(REPEATS);
        for _ in 0..REPEATS {
            cache.truncate(CACHED);
            let tokens = &text[CACHED..CACHED + rows];
            let began = Instant::now();
            black_box(model.forward(&mut [Chunk { cache: &mut cache, tokens, positions: &positions }])?);
            times.push(began.elapsed().as_secs_f64());
        }
        times.sort_by(f64::total_cmp);
        Ok(times[REPEATS / 2])
    };
    let (pass, judging) = (median(1)?, median(ROWS)?);
    Ok(PassTimes { pass, row: ((judging - pass) / (ROWS - 1) as f64).max(0.0) })
}
