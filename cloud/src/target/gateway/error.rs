//! Errors of an engine elsewhere, and their messages to edges.

use std::time::Duration;

use outrider_codec::frame::ErrorCode;

/// Reason why an engine cannot be used, or not for this round.
///
/// The display text is for the operator. An edge receives a message without details of the engine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GatewayError {
    /// The address is malformed.
    #[error(
        "{address:?} is not an engine's address: give --target openai:http://HOST:PORT or vllm:http://HOST:PORT, or \
         https"
    )]
    Address {
        /// Address that was given.
        address: String,
    },
    /// The option `--tokenizer` is missing.
    #[error(
        "a remote --target needs --tokenizer, the tokenizer.json of the engine's model: the engine does not say what \
         its token ids mean, and drafts must use the same"
    )]
    NoTokenizer,
    /// The file of the engine's key cannot be read.
    #[error("the engine's key cannot be read from {path}: {error}")]
    Key {
        /// Path of the key file.
        path: String,
        /// Error of the operating system, or of the file's contents.
        error: String,
    },
    /// The engine cannot be reached.
    #[error("the engine at {address} cannot be reached ({error}): is it running?")]
    Unreachable {
        /// Host and port of the engine.
        address: String,
        /// Error of the connection.
        error: String,
    },
    /// The response takes too long.
    #[error("the engine at {address} took longer than {} s (--target-timeout)", limit.as_secs_f64())]
    Slow {
        /// Host and port of the engine.
        address: String,
        /// Time limit that has passed.
        limit: Duration,
    },
    /// The engine requires a key, or another one.
    #[error("the engine at {address} requires a key: give it with --target-key-file or in OUTRIDER_TARGET_KEY")]
    Forbidden {
        /// Host and port of the engine.
        address: String,
    },
    /// The engine responds with an error status.
    #[error("the engine at {address} answered {status}: {message}")]
    Status {
        /// Host and port of the engine.
        address: String,
        /// HTTP status of the response.
        status: u16,
        /// Beginning of the error message.
        message: String,
    },
    /// The response cannot be used.
    #[error("the engine's answer cannot be used: {what}")]
    Answer {
        /// Description of the fault.
        what: String,
    },
    /// The engine serves several models or none, or not the named one.
    #[error("the engine serves {}: choose one with --target-model", if models.is_empty() { "no model" } else { models })]
    Model {
        /// Names of the engine's models, separated by commas.
        models: String,
    },
    /// The engine does not report its context length.
    #[error(
        "the engine does not say how long a text may be (max_model_len in /v1/models): it is not vLLM, or an old one"
    )]
    NoContextLength,
    /// The engine returns no log-probabilities of a prompt's tokens.
    #[error(
        "the engine does not serve prompt log-probabilities (prompt_logprobs of vLLM's /v1/completions): use vLLM, or give \
         --target-logprobs 0 to verify by the engine's own samples, which accepts fewer drafts"
    )]
    NoPromptLogprobs,
    /// A check lacks the log-probabilities that it compares the draft with.
    #[error(
        "a check needs prompt log-probabilities of the engine (prompt_logprobs of vLLM's /v1/completions) and \
         --target-logprobs 1 or more (20 is vLLM's default); an engine without them can be served, with \
         --target-logprobs 0, but not checked"
    )]
    NothingToCheck,
    /// The engine does not stream token ids.
    #[error(
        "the engine does not stream token ids ({what}), as vLLM does (return_token_ids of /v1/completions): give \
         --target openai:URL, which asks for less"
    )]
    NoStream {
        /// Description of the fault.
        what: String,
    },
    /// The option `--guesses-to` is given for an engine that does not stream.
    #[error("--guesses-to needs --target vllm:URL: only an engine that streams can use guesses")]
    GuessesWithoutStream,
    /// A worker is reached over TCP, and no token protects the guesses.
    #[error("--guesses-to tcp:… needs --guesses-token-file, with the token that the engine's workers require")]
    NoGuessesToken,
    /// The file of the token for guesses cannot be read or used.
    #[error("the token for guesses cannot be read from {path}: {error}")]
    GuessesToken {
        /// Path of the token file.
        path: String,
        /// Error of the operating system, or of the file's contents.
        error: String,
    },
    /// The engine encodes a text into other ids.
    #[error(
        "the engine's tokenizer is not the one given with --tokenizer: it reads {text:?} as {engine}, the file as {own:?}"
    )]
    Tokenizer {
        /// Text that was encoded.
        text: String,
        /// Ids from the engine, or their number if it reports no more.
        engine: String,
        /// Ids from the tokenizer file.
        own: Vec<u32>,
    },
    /// The acceptance rule needs all of p.
    #[error(
        "the acceptance rule {rule} needs the target's whole distribution, which the engine behind this server does not \
         serve; use the exact rule"
    )]
    Rule {
        /// Name of the acceptance rule.
        rule: &'static str,
    },
    /// Evidence needs all of S(p).
    #[error(
        "evidence (--explain) needs the target's whole distribution, which the engine behind this server does not serve at \
         these settings; use temperature 0{}", if *listed > 0 { format!(" or top-k from 1 to {listed}") } else { String::new() }
    )]
    Evidence {
        /// Number of tokens K that the engine lists at a position.
        listed: u32,
    },
}

impl GatewayError {
    /// Error code and message for an edge. The engine's address and its own messages are left out.
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
