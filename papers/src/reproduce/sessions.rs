//! A pair with both ends in this process: real models and real sessions, no socket.
//!
//! The program that runs the experiments brings the ends: its engine and its driver of sessions, as [`Ends`].

use std::{pin::Pin, rc::Rc, sync::Arc};

use outrider_codec::frame::SamplingParameters;
use outrider_models::{Model, Tokenizer};
use outrider_speculation::{
    control::link::Link,
    draft::Heads,
    session::edge::{Mode, Origin, Settings, Speculation},
    study::{RoundRecord, Statistics},
};

use crate::report::estimate::Estimate;

/// Reason why a session or an experiment failed.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// A short tale, written for this.
const TALE: &str = include_str!("../../../pair/tale.txt");

/// Sampling parameters that users have by default.
pub const DEFAULT_SAMPLING: SamplingParameters = SamplingParameters { temperature: 0.7, top_k: 0, top_p: 0.95 };
/// Tokens of a session.
const TOKENS: u32 = 128;
/// Words of a sentence of the tale that make a prompt.
const PROMPT_WORDS: usize = 6;

/// Both ends of sessions with one target, as the program runs them.
pub trait Ends {
    /// Runs one session of the draft of `pair` with the target, over an emulated link in real time if there is one,
    /// and in it a generation for each prompt with its settings.
    ///
    /// # Errors
    /// If the session fails.
    fn session<'a>(
        &'a self,
        pair: &'a Pair,
        link: Option<&'a Link>,
        texts: &'a [(&'a [u32], Settings)],
    ) -> Running<'a, Vec<Session>>;
}

/// Work of a program that ends with a value or a failure.
pub type Running<'a, T> = Pin<Box<dyn Future<Output = Result<T, Failure>> + 'a>>;

/// Starts the ends of sessions with a target, for texts of a tokenizer.
pub type Start = fn(Model, &Tokenizer) -> Result<Rc<dyn Ends>, Failure>;

/// A draft, and sessions of it with a target.
#[derive(Clone)]
pub struct Pair {
    /// Draft model of the pair.
    pub draft: Arc<Model>,
    /// The tokenizer of both models.
    pub tokenizer: Arc<Tokenizer>,
    /// The draft model's trained heads, if it has any.
    pub heads: Option<Arc<Heads>>,
    /// Both ends of sessions with the target.
    pub ends: Rc<dyn Ends>,
}

/// Record of one generation.
#[derive(Debug)]
pub struct Session {
    /// Token ids of the prompt.
    pub prompt: Vec<u32>,
    /// Token ids after the prompt.
    pub tokens: Vec<u32>,
    /// Origin of each token.
    pub origins: Vec<Origin>,
    /// Rounds in their order.
    pub rounds: Vec<RoundRecord>,
    /// Statistics of the whole generation.
    pub statistics: Statistics,
}

/// Σ a / Σ b over sessions, with its error over prompts: sessions of one prompt, which stand together, are one sample.
pub fn estimate(sessions: &[Session], of: impl Fn(&Session) -> (f64, f64)) -> Estimate {
    let add = |sum: (f64, f64), pair: (f64, f64)| (sum.0 + pair.0, sum.1 + pair.1);
    let sum = |sessions: &[Session]| sessions.iter().map(&of).fold((0.0, 0.0), add);
    Estimate::of(&sessions.chunk_by(|a, b| a.prompt == b.prompt).map(sum).collect::<Vec<_>>())
}

impl Pair {
    /// Ids of each paragraph of the tale.
    ///
    /// # Errors
    /// If the tokenizer refuses them.
    pub fn paragraphs(&self) -> Result<Vec<Vec<u32>>, Failure> {
        TALE.split("\n\n").map(|text| self.encode(text)).collect()
    }

    /// The first words of each of `count` sentences of the tale, spread evenly over it.
    ///
    /// # Errors
    /// If the tokenizer refuses them.
    pub fn prompts(&self, count: usize) -> Result<Vec<Vec<u32>>, Failure> {
        let mut beginnings = beginnings(PROMPT_WORDS);
        beginnings.retain(|text| text.split(' ').count() == PROMPT_WORDS);
        (0..count).map(|i| self.encode(&beginnings[i * beginnings.len() / count])).collect()
    }

    /// A session for each prompt, at default sampling.
    ///
    /// # Errors
    /// If a session fails.
    pub async fn generate(&self, prompts: &[Vec<u32>], speculation: &Speculation) -> Result<Vec<Session>, Failure> {
        self.generate_at(prompts, &Mode::Speculative(speculation.clone()), DEFAULT_SAMPLING, TOKENS).await
    }

    /// A session of at most `max_new_tokens` for each prompt.
    ///
    /// # Errors
    /// If a session fails.
    pub async fn generate_at(
        &self,
        prompts: &[Vec<u32>],
        mode: &Mode,
        sampling: SamplingParameters,
        max_new_tokens: u32,
    ) -> Result<Vec<Session>, Failure> {
        let mut sessions = Vec::new();
        for (prompt, seed) in prompts.iter().zip(1..) {
            let settings = Settings { mode: mode.clone(), sampling, seed, max_new_tokens };
            sessions.push(self.generate_over(None, prompt, &settings).await?);
        }
        Ok(sessions)
    }

    /// A session over an emulated link of its own, in real time, if there is one.
    ///
    /// # Errors
    /// If it fails.
    pub async fn generate_over(
        &self,
        link: Option<&Link>,
        prompt: &[u32],
        settings: &Settings,
    ) -> Result<Session, Failure> {
        let mut sessions = self.ends.session(self, link, &[(prompt, settings.clone())]).await?;
        sessions.pop().ok_or_else(|| "a session of one text gave none".into())
    }

    /// Runs a generation for each prompt at default sampling, all in one session, so that each goes on from the state
    /// that the earlier ones left.
    pub async fn generate_in_one(
        &self,
        prompts: &[Vec<u32>],
        speculation: &Speculation,
    ) -> Result<Vec<Session>, Failure> {
        let settings = |seed| Settings {
            mode: Mode::Speculative(speculation.clone()),
            sampling: DEFAULT_SAMPLING,
            seed,
            max_new_tokens: TOKENS,
        };
        let texts: Vec<_> = prompts.iter().zip(1..).map(|(prompt, seed)| (prompt.as_slice(), settings(seed))).collect();
        self.ends.session(self, None, &texts).await
    }

    /// Token ids of a text, after the token that begins every text.
    ///
    /// # Errors
    /// If the tokenizer refuses it.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, Failure> {
        Ok(self.tokenizer.encode_prompt(self.draft.config().first_token(), text)?)
    }
}

/// Excerpts of `words` words, one from each word of the tale on.
pub fn excerpts(words: usize) -> Vec<String> {
    let all: Vec<&str> = TALE.split_whitespace().collect();
    all.windows(words).map(|words| words.join(" ")).collect()
}

/// The first words of every sentence of the tale.
pub fn beginnings(words: usize) -> Vec<String> {
    let text = TALE.replace('\n', " ");
    text.split(". ").map(|text| text.split_whitespace().take(words).collect::<Vec<_>>().join(" ")).collect()
}
