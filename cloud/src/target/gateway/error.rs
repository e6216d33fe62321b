//! What can be wrong with an engine elsewhere, and what those at either end are told.

use std::time::Duration;

use outrider_codec::frame::ErrorCode;

/// Why an engine cannot be used, or not for this.
///
/// As text these are for the operator. An edge is told what [`told`](Self::told) gives.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GatewayError {
    /// The address is none.
    #[error(
        "{address:?} is no address of an engine: give --target openai:http://HOST:PORT or vllm:http://HOST:PORT, or \
         https"
    )]
    Address {
        /// As it was given.
        address: String,
    },
    /// The tokenizer is not named.
    #[error(
        "a --target elsewhere needs --tokenizer, the tokenizer.json of the engine's model: the engine does not say what \
         its token ids mean, and drafts must use the same"
    )]
    NoTokenizer,
    /// The key cannot be read.
    #[error("the engine's key cannot be read from {path}: {error}")]
    Key {
        /// Where from.
        path: String,
        /// Why not.
        error: String,
    },
    /// Nothing answers there.
    #[error("the engine at {address} cannot be reached ({error}): is it running?")]
    Unreachable {
        /// Where.
        address: String,
        /// What happened.
        error: String,
    },
    /// The answer takes too long.
    #[error("the engine at {address} took longer than {} s (--target-timeout)", limit.as_secs_f64())]
    Slow {
        /// Where.
        address: String,
        /// The limit.
        limit: Duration,
    },
    /// It wants a key, or another.
    #[error("the engine at {address} wants a key: give it with --target-key-file or in OUTRIDER_TARGET_KEY")]
    Forbidden {
        /// Where.
        address: String,
    },
    /// It says no.
    #[error("the engine at {address} answers {status}: {message}")]
    Status {
        /// Where.
        address: String,
        /// HTTP's number.
        status: u16,
        /// The beginning of what it says.
        message: String,
    },
    /// The answer is not what was asked for.
    #[error("the engine's answer cannot be used: {what}")]
    Answer {
        /// What it lacks.
        what: String,
    },
    /// It has other models.
    #[error("the engine serves {}: name one with --target-model", if models.is_empty() { "no model" } else { models })]
    Model {
        /// Their names.
        models: String,
    },
    /// It does not say how long a text may be.
    #[error(
        "the engine does not say how long a text may be (max_model_len in /v1/models): it is not vLLM, or an old one"
    )]
    NoContextLength,
    /// It tells nothing of a prompt's tokens.
    #[error(
        "the engine does not serve prompt log-probabilities (prompt_logprobs of vLLM's /v1/completions): take vLLM, or give \
         --target-logprobs 0 to verify by the engine's own samples, which accepts fewer drafts"
    )]
    NoPromptLogprobs,
    /// It does not stream ids.
    #[error(
        "the engine does not stream token ids ({what}), as vLLM does (return_token_ids of /v1/completions): give \
         --target openai:URL, which asks for less"
    )]
    NoStream {
        /// What it lacks.
        what: String,
    },
    /// There is nobody to tell guesses.
    #[error("--guesses-to needs --target vllm:URL: only an engine that streams can use guesses")]
    GuessesWithoutStream,
    /// Anybody could tell guesses there.
    #[error("--guesses-to tcp:… needs --guesses-token-file, with the token that the engine's workers want")]
    NoGuessesToken,
    /// The token cannot be used.
    #[error("the token for guesses cannot be read from {path}: {error}")]
    GuessesToken {
        /// Where from.
        path: String,
        /// Why not.
        error: String,
    },
    /// The same text has other ids there.
    #[error(
        "the engine's tokenizer is not the one given with --tokenizer: it reads {text:?} as {engine:?}, the file as {own:?}"
    )]
    Tokenizer {
        /// What was asked.
        text: String,
        /// The engine's ids.
        engine: Vec<u32>,
        /// Those of the file.
        own: Vec<u32>,
    },
    /// The rule needs all of p.
    #[error(
        "the acceptance rule {rule} needs the target's whole distribution, which the engine behind this server does not \
         serve; use the exact rule"
    )]
    Rule {
        /// Its name.
        rule: &'static str,
    },
    /// Evidence needs all of S(p).
    #[error(
        "evidence (--explain) needs the target's whole distribution, which the engine behind this server does not serve at \
         these settings; use temperature 0{}", if *listed > 0 { format!(" or top-k from 1 to {listed}") } else { String::new() }
    )]
    Evidence {
        /// K.
        listed: u32,
    },
}

impl GatewayError {
    /// What an edge is told. Where the engine is and what it says of itself is not the edge's business.
    pub fn told(&self) -> (ErrorCode, String) {
        let what = match self {
            Self::Rule { .. } | Self::Evidence { .. } => {
                let text = self.to_string();
                let (first, rest) = text.split_at(1);
                return (ErrorCode::InvalidParameters, format!("{}{rest}.", first.to_uppercase()));
            }
            Self::Unreachable { .. } => "the engine behind it cannot be reached",
            Self::Slow { .. } => "the engine behind it takes too long",
            Self::Status { .. } | Self::Forbidden { .. } => "the engine behind it refuses",
            _ => "the engine behind it does not answer what it was asked",
        };
        (ErrorCode::Internal, format!("The server failed: {what}. Try again later."))
    }
}
