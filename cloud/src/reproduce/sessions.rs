//! A pair with both ends in this process: real models, the engine and the sessions of the server, no socket.

use std::sync::Arc;

use outrider_codec::frame::{MAX_DRAFT_TOKENS, SamplingParameters};
use outrider_models::{Model, Tokenizer};
use outrider_speculation::{
    draft::heads::Heads,
    session::{
        cloud::TargetInfo,
        edge::{DraftInfo, Mode, Origin, Settings, Speculation},
    },
    study::{
        link::Link,
        statistics::{RoundRecord, Statistics},
    },
};

use crate::{
    edge::{NativeEdge, Transport},
    pair::{self, PairPaths, draft_info, target_info},
    target::engine::Engine,
};

/// Why there is no session.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// A short tale, written for this.
const TALE: &str = include_str!("tale.txt");

/// What users have if they change nothing.
pub const DEFAULT_SAMPLING: SamplingParameters = SamplingParameters { temperature: 0.7, top_k: 0, top_p: 0.95 };
/// Tokens of a session.
const TOKENS: u32 = 128;
/// Words of a sentence of the tale that make a prompt.
const PROMPT_WORDS: usize = 6;

/// Draft, target and their tokenizer.
pub struct Pair {
    /// The draft model.
    pub draft: Model,
    /// Of both.
    pub tokenizer: Tokenizer,
    /// The draft model's trained heads, if it has any.
    pub heads: Option<Arc<Heads>>,
    engine: Engine,
    target: TargetInfo,
}

/// One generation.
#[derive(Debug)]
pub struct Session {
    /// Ids.
    pub prompt: Vec<u32>,
    /// Ids behind the prompt.
    pub tokens: Vec<u32>,
    /// Where each token came from.
    pub origins: Vec<Origin>,
    /// In their order.
    pub rounds: Vec<RoundRecord>,
    /// Of the whole generation.
    pub statistics: Statistics,
}

impl Pair {
    /// Loads the pair and starts its engine.
    ///
    /// # Errors
    /// If a file is not what it should be, or the two do not belong together.
    pub fn open(paths: &PairPaths) -> Result<Self, Failure> {
        let tokenizer = paths.tokenizer()?;
        let (draft, target) = (paths.draft_with(&tokenizer)?, paths.target_with(&tokenizer)?);
        let heads = paths.heads(&draft, &tokenizer)?.as_ref().map(pair::heads).transpose()?;
        Ok(Self { heads, ..Self::of(draft, target, tokenizer)? })
    }

    /// The same of models that are loaded, without heads.
    ///
    /// # Errors
    /// If they do not belong together.
    pub fn of(draft: Model, target: Model, tokenizer: Tokenizer) -> Result<Self, Failure> {
        let info = target_info(&target, &tokenizer, MAX_DRAFT_TOKENS)?;
        Ok(Self { draft, tokenizer, heads: None, engine: Engine::start(target, 1)?, target: info })
    }

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
        let mut edge = self.greet(link).await?;
        let session = generation(&mut edge, prompt, settings).await?;
        edge.close().await;
        Ok(session)
    }

    /// The same, at default sampling and all in one session: what a generation learns the next goes on from.
    pub async fn generate_in_one(
        &self,
        prompts: &[Vec<u32>],
        speculation: &Speculation,
    ) -> Result<Vec<Session>, Failure> {
        let mut generations = Vec::new();
        let mut edge = self.greet(None).await?;
        for (prompt, seed) in prompts.iter().zip(1..) {
            let mode = Mode::Speculative(speculation.clone());
            let settings = Settings { mode, sampling: DEFAULT_SAMPLING, seed, max_new_tokens: TOKENS };
            generations.push(generation(&mut edge, prompt, &settings).await?);
        }
        edge.close().await;
        Ok(generations)
    }

    /// A session that is about to begin.
    async fn greet(&self, link: Option<&Link>) -> Result<NativeEdge<'_>, Failure> {
        // A closed session gives its slot back a little later.
        let transport = loop {
            match Transport::local(&self.engine, self.target.clone()) {
                Some(transport) => break transport,
                None => tokio::task::yield_now().await,
            }
        };
        let transport = match link {
            Some(link) => transport.over(link.clone(), link.clone()),
            None => transport,
        };
        let draft = DraftInfo { heads: self.heads.clone(), ..draft_info(&self.draft, &self.tokenizer)? };
        Ok(NativeEdge::greet(&self.draft, draft, transport).await?)
    }

    /// Ids of a text, behind the token that begins every text.
    ///
    /// # Errors
    /// If the tokenizer refuses it.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, Failure> {
        Ok(self.tokenizer.encode_prompt(self.draft.config().first_token(), text)?)
    }
}

async fn generation(edge: &mut NativeEdge<'_>, prompt: &[u32], settings: &Settings) -> Result<Session, Failure> {
    let (mut tokens, mut origins, mut rounds) = (Vec::new(), Vec::new(), Vec::new());
    let generated = edge
        .generate(prompt.to_vec(), settings, |committed| {
            for &(id, origin) in &committed.tokens {
                tokens.push(id);
                origins.push(origin);
            }
            rounds.extend(committed.round.clone());
        })
        .await?;
    Ok(Session { prompt: prompt.to_vec(), tokens, origins, rounds, statistics: generated.statistics })
}

/// So many words from each word of the tale on.
pub fn excerpts(words: usize) -> Vec<String> {
    let all: Vec<&str> = TALE.split_whitespace().collect();
    all.windows(words).map(|words| words.join(" ")).collect()
}

/// The first words of every sentence of the tale.
pub fn beginnings(words: usize) -> Vec<String> {
    let text = TALE.replace('\n', " ");
    text.split(". ").map(|text| text.split_whitespace().take(words).collect::<Vec<_>>().join(" ")).collect()
}
