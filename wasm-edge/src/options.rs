//! Plain objects exchanged with JavaScript; `web/src/outrider/edge.ts` declares them there.

use outrider_codec::frame::{Limits, SamplingParameters, Ticket, Welcome};
use outrider_models::{Conversation, Message, StopStrings, TemplateVariables, Tool};
use outrider_speculation::{
    draft::Heads,
    session::{
        edge::{Mode, SavedSession, Settings},
        options::DraftingOptions,
    },
    study::{self, Report, RoundRecord},
};
use serde::{Deserialize, Serialize};
use wasm_bindgen::JsValue;

use crate::error::Failure;

/// Parameters of a generation.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GenerateRequest {
    prompt: Prompt,
    /// Tools that the assistant may call in a conversation.
    #[serde(default)]
    tools: Vec<Tool>,
    /// Further variables of the chat template.
    #[serde(default)]
    chat_template_kwargs: TemplateVariables,
    /// True if the text goes on from the last message instead of answering it.
    #[serde(default)]
    continue_final_message: bool,
    mode: RequestMode,
    max_new_tokens: u32,
    temperature: f32,
    /// Top-k limit; 0 turns it off.
    top_k: u32,
    top_p: f32,
    seed: u64,
    /// Strings that end the text.
    #[serde(default)]
    stop: Vec<String>,
    /// Options that change the target's logits, as JSON in the terms of OpenAI's API.
    #[serde(default)]
    pub shaping: Option<String>,
    /// True to report both models' probabilities for each token.
    #[serde(default)]
    pub evidence: bool,
    /// True to compute the cost of other schemes.
    compare_schemes: bool,
    #[serde(flatten)]
    drafting: DraftingOptions,
}

/// Prompt in the form of the JavaScript request.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum Prompt {
    Text(String),
    Messages(Vec<Message>),
}

/// Start of a generation.
#[derive(Debug)]
pub enum Start {
    Text(String),
    /// Conversation whose next message is the assistant's.
    Conversation(Conversation),
}

impl Start {
    fn new(prompt: Prompt, tools: Vec<Tool>, variables: TemplateVariables, continues: bool) -> Self {
        match prompt {
            Prompt::Text(text) => Self::Text(text),
            Prompt::Messages(messages) => Self::Conversation(Conversation { messages, tools, variables, continues }),
        }
    }

    /// Parses a text or messages, of which the last may be continued, a list of tools, and further variables of the
    /// chat template.
    pub fn from_js(prompt: JsValue, tools: JsValue, variables: JsValue, continues: bool) -> Result<Self, Failure> {
        let unreadable = |error| Failure::new("invalid-parameters", format!("the prompt cannot be read: {error}"));
        let prompt: Prompt = serde_wasm_bindgen::from_value(prompt).map_err(unreadable)?;
        let tools: Vec<Tool> = serde_wasm_bindgen::from_value(tools).map_err(unreadable)?;
        let variables: TemplateVariables = serde_wasm_bindgen::from_value(variables).map_err(unreadable)?;
        Ok(Self::new(prompt, tools, variables, continues))
    }
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum RequestMode {
    Speculative,
    CloudOnly,
}

impl GenerateRequest {
    pub fn from_js(value: JsValue) -> Result<Self, Failure> {
        serde_wasm_bindgen::from_value(value)
            .map_err(|error| Failure::new("invalid-parameters", format!("the request cannot be read: {error}")))
    }

    pub fn start(&self) -> Start {
        let (prompt, tools) = (self.prompt.clone(), self.tools.clone());
        Start::new(prompt, tools, self.chat_template_kwargs.clone(), self.continue_final_message)
    }

    /// Tools that the assistant may call; `None` if there are none.
    pub fn tools(&self) -> Option<&[Tool]> {
        (!self.tools.is_empty()).then_some(&self.tools)
    }

    pub fn stop_strings(&self) -> StopStrings {
        StopStrings::new(self.stop.clone())
    }

    pub fn settings(&self) -> Result<Settings, Failure> {
        let mode = match self.mode {
            RequestMode::CloudOnly => Mode::CloudOnly,
            RequestMode::Speculative => {
                let speculation = if self.compare_schemes {
                    self.drafting.compared_speculation()
                } else {
                    self.drafting.speculation()
                };
                let speculation = speculation.map_err(|error| Failure::new("invalid-parameters", error.to_string()))?;
                self.drafting.mode(speculation)
            }
        };
        Ok(Settings {
            mode: if self.evidence { mode.with_evidence() } else { mode },
            sampling: SamplingParameters { temperature: self.temperature, top_k: self.top_k, top_p: self.top_p },
            seed: self.seed,
            max_new_tokens: self.max_new_tokens,
        })
    }
}

/// Options for the connection and for continued texts.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Continuation {
    /// Maximum number of consecutive failed attempts to reconnect before a generation fails.
    pub attempts: u32,
    /// Longest silence of the server while text is due, in milliseconds.
    pub stall_ms: f64,
    /// Tokens of the text that were committed before a reload; they follow the prompt.
    pub committed: Vec<u32>,
    /// Least chance of guesses that are shown before they are confirmed; 1 shows none.
    pub guesses_from: f64,
    /// Maximum number of tokens guessed after the committed text while the connection is lost.
    pub offline_tokens: usize,
}

impl Continuation {
    pub fn from_js(value: JsValue) -> Result<Self, Failure> {
        serde_wasm_bindgen::from_value(value)
            .map_err(|error| Failure::new("invalid-parameters", format!("the continuation cannot be read: {error}")))
    }
}

/// Data to resume a session after a reload, including its secret.
#[derive(Debug, Serialize, Deserialize)]
pub struct SavedObject {
    session: String,
    secret: String,
    attempts: u32,
    generation: u32,
}

impl From<SavedSession> for SavedObject {
    fn from(saved: SavedSession) -> Self {
        let hex = |bytes| format!("{:032x}", u128::from_be_bytes(bytes));
        let SavedSession { ticket, attempts, generation } = saved;
        Self { session: hex(ticket.id), secret: hex(ticket.secret), attempts, generation }
    }
}

impl SavedObject {
    /// Parses a claim; `undefined` and `null` mean that there is none.
    pub fn from_js(value: JsValue) -> Result<Option<SavedSession>, Failure> {
        let unreadable = |why: String| Failure::new("invalid-parameters", format!("the claim cannot be read: {why}"));
        if value.is_undefined() || value.is_null() {
            return Ok(None);
        }
        let claim: Self = serde_wasm_bindgen::from_value(value).map_err(|error| unreadable(error.to_string()))?;
        let bytes = |hex: &str| u128::from_str_radix(hex, 16).map(u128::to_be_bytes);
        let (id, secret) = (bytes(&claim.session), bytes(&claim.secret));
        let (Ok(id), Ok(secret)) = (id, secret) else { return Err(unreadable("it is not hexadecimal".to_owned())) };
        let Self { attempts, generation, .. } = claim;
        Ok(Some(SavedSession { ticket: Ticket { id, secret }, attempts, generation }))
    }
}

/// Event about the connection of a generation.
#[derive(Debug, Serialize)]
#[serde(tag = "state", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum ConnectionEvent {
    /// Start of the generation.
    Begun { claim: Option<SavedObject> },
    /// Loss of the connection; the next attempt follows after a pause.
    Reconnecting { attempt: u32, delay_ms: u32 },
    /// Resumption of the session. The flag is set if it continues in a new session, because the server discarded the
    /// old one.
    Resumed { anew: bool, claim: Option<SavedObject> },
}

/// Parameters of the emulated link.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LinkOptions {
    /// Uplink rate; `null`: unlimited.
    pub uplink_bits_per_second: Option<f64>,
    /// Downlink rate; `null`: unlimited.
    pub downlink_bits_per_second: Option<f64>,
    pub round_trip_ms: f64,
    /// True if no connection holds and none opens.
    #[serde(default)]
    pub is_cut: bool,
}

/// Information about the draft model.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DraftModel {
    /// Processor that drafts: `wasm` or `webgpu`.
    pub engine: &'static str,
    /// Reason why the GPU does not draft, if it was requested.
    pub declined: Option<String>,
    pub vocab_size: u32,
    pub context_length: u32,
    /// Size of the weights' file in bytes.
    pub weight_bytes: usize,
    /// Current size of WebAssembly memory in bytes, including the weights.
    pub memory_bytes: u64,
    /// Trained heads of the draft model.
    pub heads: HeadsInfo,
}

/// Flags for the heads of a draft model.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct HeadsInfo {
    gate: bool,
    stop: bool,
}

impl From<&Heads> for HeadsInfo {
    fn from(heads: &Heads) -> Self {
        Self { gate: heads.gate.is_some(), stop: heads.stop.is_some() }
    }
}

/// Information about the server.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerInfo {
    vocab_size: u32,
    #[serde(flatten)]
    limits: Limits,
}

impl From<&Welcome> for ServerInfo {
    fn from(welcome: &Welcome) -> Self {
        Self { vocab_size: welcome.vocab_size, limits: welcome.limits }
    }
}

/// Committed token of a text.
#[derive(Debug, Serialize)]
pub struct TokenEvent {
    pub id: u32,
    pub text: String,
    pub origin: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evidence: Option<TokenEvidence>,
}

/// Probabilities of a token in both models.
#[derive(Debug, Serialize)]
pub struct TokenEvidence {
    /// Log-probability in the target; `null` if the server did not send it.
    logprob: Option<f64>,
    /// Payload bits of a draft; `null` if nothing was drafted.
    bits: Option<f64>,
    candidates: Vec<Candidate>,
}

/// Alternative token at the same position.
#[derive(Debug, Serialize)]
struct Candidate {
    id: u32,
    text: String,
    q: Option<f64>,
    p: Option<f64>,
}

impl TokenEvidence {
    /// Converts the known values, if any; `text` returns the text of an id.
    pub fn new(known: Option<&study::TokenEvidence>, text: impl Fn(u32) -> String) -> Self {
        let Some(known) = known else { return Self { logprob: None, bits: None, candidates: Vec::new() } };
        let candidate =
            |&study::Candidate { id, draft, target }: &_| Candidate { id, text: text(id), q: draft, p: target };
        let candidates = known.candidates.iter().map(candidate).collect();
        Self { logprob: known.log_probability, bits: known.bits, candidates }
    }
}

/// Piece of an answer that may contain tool calls.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum PieceEvent {
    Text {
        text: String,
    },
    /// Tool call; `arguments` is JSON.
    Call {
        name: String,
        arguments: String,
    },
}

/// Tokens committed by one verdict.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GenerateEvent {
    pub tokens: Vec<TokenEvent>,
    /// Text and tool calls that have become certain with these tokens, if there are tools.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pieces: Vec<PieceEvent>,
    /// Record of the round; `null` in cloud-only mode.
    pub round: Option<RoundRecord>,
    pub statistics: Report,
    /// Guesses that are shown after these tokens, if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guess: Option<GuessEvent>,
    /// Number of shown guesses that these tokens contradict.
    #[serde(skip_serializing_if = "is_zero")]
    pub withdrawn: usize,
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// Guesses shown after the committed text, which the server has not confirmed.
#[derive(Debug, Clone, Serialize)]
pub struct GuessEvent {
    pub ids: Vec<u32>,
    /// Text that follows the texts of all reported tokens.
    pub text: String,
    /// Chance that all of them are right.
    pub chance: f64,
    /// True if they were made without a connection.
    pub offline: bool,
}

/// Result of a generation.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    #[serde(flatten)]
    pub statistics: Report,
    pub text: String,
    /// Complete output as text and tool calls; empty if there are no tools.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pieces: Vec<PieceEvent>,
    pub prompt_tokens: usize,
    pub finish: &'static str,
    pub prompt_token_ids: Vec<u32>,
    pub token_ids: Vec<u32>,
}

/// Converts a value to a plain JavaScript object.
pub fn to_js(value: &impl Serialize) -> Result<JsValue, Failure> {
    let serializer = serde_wasm_bindgen::Serializer::json_compatible();
    value.serialize(&serializer).map_err(|error| Failure::new("internal", error.to_string()))
}
