//! Options of an engine elsewhere, and the checks when connecting to it.

use std::{
    env, fs,
    path::PathBuf,
    str::FromStr,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize},
    },
    time::Duration,
};

use outrider_codec::frame::Limits;
use outrider_models::Tokenizer;
use outrider_speculation::session::cloud::TargetInfo;

use super::{
    client::{Client, Served},
    completion::{Encoding, Prompt, Question},
    error::GatewayError,
    guesses::{WorkerAddress, Workers},
    handle::Gateway,
    shared::{Shared, Streaming},
    stream,
};
use crate::{
    metrics::{EngineLimits, Metrics},
    target::engine::EngineSettings,
};

/// Environment variable that may have the key instead of a file.
const KEY_VARIABLE: &str = "OUTRIDER_TARGET_KEY";
/// Longest token for guesses, in bytes.
const MAX_TOKEN_BYTES: usize = 1024;
/// A text that different tokenizers encode differently: words, case, spaces, digits, marks, other scripts, code.
const PROBE: &str =
    "Once upon a time, in 1789:  “l'œuvre” of Jürgen Müller — 東京\n\tif (x != 0) { return foo_bar[42]; }";

/// Use of an engine elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// The engine is asked for a few numbers a round (--target openai:URL).
    Asked,
    /// The engine streams texts, and receives guesses at them (--target vllm:URL).
    Streamed,
}

/// An engine as the target (--target openai:URL or vllm:URL).
#[derive(Debug, Clone, clap::Args)]
pub struct EngineArgs {
    /// Model to verify with, if the engine serves several (--target openai:URL or vllm:URL)
    #[arg(long, value_name = "NAME")]
    pub target_model: Option<String>,
    /// File with the engine's API key; OUTRIDER_TARGET_KEY may have it instead (--target openai:URL or
    /// vllm:URL)
    #[arg(long, value_name = "FILE")]
    pub target_key_file: Option<PathBuf>,
    /// Longest wait for an answer of the engine, or for the next token of one that streams (--target openai:URL or
    /// vllm:URL)
    #[arg(long, value_name = "SECONDS", default_value_t = Self::default().target_timeout)]
    pub target_timeout: u64,
    /// Tokens the engine lists at a position, vLLM's --max-logprobs; 0 asks for none (--target openai:URL or vllm:URL)
    ///
    /// At temperature 0 and with top-k up to this, all drafts are verified by probabilities, and at temperature 1
    /// without top-k and top-p; with other settings by the engine's own samples, which is as exact but accepts fewer.
    /// 0 does the latter always, for engines without prompt log-probabilities. Lossy rules need the whole
    /// distribution, which no engine serves, and are refused; so is --explain, except at temperature 0 or with top-k
    /// up to this. With --target vllm: this is only for rounds of the papers' schemes: guesses ahead, coupled drafts,
    /// and texts that the target writes alone are judged by the streamed text.
    #[arg(long, value_name = "COUNT", default_value_t = Self::default().target_logprobs)]
    pub target_logprobs: u32,
    /// Address at which a worker of the engine takes guesses, unix:PATH or tcp:HOST:PORT; if HOST is a name, all its
    /// addresses are used. May be given more than once (--target vllm:URL)
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',', value_parser = WorkerAddress::from_str)]
    pub guesses_to: Vec<WorkerAddress>,
    /// File with the token that workers require from senders of guesses over TCP (--target vllm:URL)
    #[arg(long, value_name = "FILE")]
    pub guesses_token_file: Option<PathBuf>,
}

impl Default for EngineArgs {
    fn default() -> Self {
        Self {
            target_model: None,
            target_key_file: None,
            target_timeout: 60,
            target_logprobs: 20,
            guesses_to: Vec::new(),
            guesses_token_file: None,
        }
    }
}

impl EngineArgs {
    /// Connects to the engine at an address and checks it, for one way of use. `tokenizer` has to be that of its model.
    /// `info` describes the target to sessions; the engine provides the context length.
    ///
    /// # Errors
    /// If the engine cannot be the target, for any reason that shows before the first session.
    pub async fn connect(
        &self,
        (way, address): (Way, &str),
        tokenizer: &Tokenizer,
        info: TargetInfo,
        slots: usize,
    ) -> Result<(Gateway, TargetInfo), GatewayError> {
        let token = self.guesses_token(way)?;
        let mut client = Client::new(address, self.key()?, Duration::from_secs(self.target_timeout))?;
        let (model, context_length) = self.choose(&client.models().await?)?;
        client.model = model;
        if way == Way::Streamed {
            check_ids(tokenizer, Encoding::Ids(stream::ids_of(&client, PROBE).await?))?;
        }
        if self.target_logprobs > 0 {
            probe(&client, tokenizer, self.target_logprobs).await?;
        } else if way == Way::Asked {
            check_ids(tokenizer, client.encoding(PROBE).await?)?;
        }
        tracing::info!(address, ?way, model = client.model, context_length, "the target is an engine");
        // An engine elsewhere makes draws of its own. An engine of [`Way::Asked`] cannot use guesses.
        let limits = match way {
            Way::Asked => Limits { context_length, max_guesses: 0, max_branches: 0, ..info.limits },
            Way::Streamed => Limits { context_length, own_draws: true, ..info.limits },
        };
        let info = TargetInfo { limits, ..info };
        let limits = EngineLimits { sessions: slots, kv_bytes: 0, ..EngineSettings::default().limits() };
        let metrics = Metrics::new(limits, outrider_models::instruction_set(), "approximate");
        let streaming = (way == Way::Streamed).then(|| Streaming {
            eos_ids: info.eos_ids.clone(),
            workers: Workers::connect(&self.guesses_to, token, info.vocab_size, &metrics.gateway),
        });
        if way == Way::Streamed && self.guesses_to.is_empty() {
            tracing::warn!("without --guesses-to no guesses are sent: the engine writes alone");
        }
        let shared = Shared {
            client,
            vocab_size: info.vocab_size,
            context_length: context_length as usize,
            listed: self.target_logprobs,
            streaming,
            slots,
            taken: AtomicUsize::new(0),
            next_slot: AtomicU64::new(0),
            metrics,
        };
        Ok((Gateway(Arc::new(shared)), info))
    }

    fn key(&self) -> Result<Option<String>, GatewayError> {
        match &self.target_key_file {
            None => Ok(env::var(KEY_VARIABLE).ok()),
            Some(path) => {
                let failed = |error: std::io::Error| GatewayError::Key {
                    path: path.display().to_string(),
                    error: error.to_string(),
                };
                Ok(Some(fs::read_to_string(path).map_err(failed)?.trim().to_owned()))
            }
        }
    }

    /// Token that workers require, if any of them is reached over TCP.
    fn guesses_token(&self, way: Way) -> Result<Vec<u8>, GatewayError> {
        if way != Way::Streamed && !self.guesses_to.is_empty() {
            return Err(GatewayError::GuessesWithoutStream);
        }
        let Some(path) = &self.guesses_token_file else {
            let wants_one = self.guesses_to.iter().any(WorkerAddress::is_remote);
            return if wants_one { Err(GatewayError::NoGuessesToken) } else { Ok(Vec::new()) };
        };
        let failed = |error: String| GatewayError::GuessesToken { path: path.display().to_string(), error };
        let token = fs::read(path).map_err(|error| failed(error.to_string()))?.trim_ascii().to_vec();
        match token.len() {
            0 => Err(failed("it is empty".to_owned())),
            length if length > MAX_TOKEN_BYTES => Err(failed(format!("it has more than {MAX_TOKEN_BYTES} bytes"))),
            _ => Ok(token),
        }
    }

    /// Chooses among the models that the engine serves. Returns its name and context length.
    fn choose(&self, served: &[Served]) -> Result<(String, u32), GatewayError> {
        let mut wanted = served.iter().filter(|card| self.target_model.as_ref().is_none_or(|name| *name == card.id));
        let (Some(model), None) = (wanted.next(), wanted.next()) else {
            let models = served.iter().map(|card| card.id.as_str()).collect::<Vec<_>>().join(", ");
            return Err(GatewayError::Model { models });
        };
        let is_named = |card: &&Served, name: &String| card.id == *name || card.root.as_ref() == Some(name);
        let parent = model.parent.as_ref().and_then(|name| served.iter().find(|card| is_named(card, name)));
        let context_length = model.max_model_len.or(parent.and_then(|parent| parent.max_model_len));
        Ok((model.id.clone(), context_length.ok_or(GatewayError::NoContextLength)?))
    }
}

fn own_ids(tokenizer: &Tokenizer) -> Result<Vec<u32>, GatewayError> {
    tokenizer.encode(PROBE).map_err(|error| GatewayError::Answer { what: error.to_string() })
}

/// Checks that the engine encodes a text as the tokenizer does, as far as it reports that.
fn check_ids(tokenizer: &Tokenizer, engine: Encoding) -> Result<(), GatewayError> {
    let own = own_ids(tokenizer)?;
    let engine = match engine {
        Encoding::Ids(ids) if ids != own => format!("{ids:?}"),
        // An engine that does not know `add_special_tokens` may put a token before the text.
        Encoding::Count(count) if !(own.len()..=own.len() + 1).contains(&count) => format!("{count} tokens"),
        Encoding::Unknown => {
            tracing::warn!("the engine does not report how it encodes a text: --tokenizer could not be checked");
            return Ok(());
        }
        Encoding::Ids(_) | Encoding::Count(_) => return Ok(()),
    };
    Err(GatewayError::Tokenizer { text: PROBE.to_owned(), engine, own })
}

/// Checks that the engine returns log-probabilities of a prompt's tokens, with `listed` tokens at each position, and
/// that it encodes a text as the tokenizer does.
async fn probe(client: &Client, tokenizer: &Tokenizer, listed: u32) -> Result<(), GatewayError> {
    let own = own_ids(tokenizer)?;
    let ask =
        |prompt, prompt_listed| Question { prompt, listed, prompt_listed: Some(prompt_listed), ..Question::after(&[]) };
    let by_ids = client.ask(&ask(Prompt::Tokens(&own), listed)).await?;
    let [by_ids] = &by_ids[..] else { return Err(GatewayError::NoPromptLogprobs) };
    if by_ids.prompt.len() != own.len() {
        return Err(GatewayError::NoPromptLogprobs);
    }
    // With 0, only the token itself is listed.
    let by_text = client.ask(&ask(Prompt::Text(PROBE), 0)).await?;
    let positions = by_text.iter().flat_map(|choice| choice.prompt.iter().skip(1));
    let engine: Vec<u32> = positions.flatten().map(|&(id, _)| id).collect();
    if engine != own[1..] {
        return Err(GatewayError::Tokenizer { text: PROBE.to_owned(), engine: format!("{engine:?}"), own });
    }
    Ok(())
}
