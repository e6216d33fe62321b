//! The plain objects that cross to JavaScript; `web/src/outrider/edge.ts` declares them there.

use outrider_codec::frame::{SamplingParameters, Ticket, Welcome};
use outrider_models::{Conversation, Message, StopStrings, Tool};
use outrider_speculation::{
    draft::heads::Heads,
    session::{
        edge::{Mode, SavedSession, Settings},
        options::DraftingOptions,
    },
    study::{
        evidence,
        statistics::{Report, RoundRecord},
    },
};
use serde::{Deserialize, Serialize};
use wasm_bindgen::JsValue;

use crate::error::Failure;

/// What a generation is asked for.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GenerateRequest {
    prompt: Prompt,
    /// What the assistant may call in a conversation.
    #[serde(default)]
    tools: Vec<Tool>,
    mode: RequestMode,
    max_new_tokens: u32,
    temperature: f32,
    /// 0: off.
    top_k: u32,
    top_p: f32,
    seed: u64,
    /// Ends the text.
    #[serde(default)]
    stop: Vec<String>,
    /// Whether to tell what both models thought of each token.
    #[serde(default)]
    pub evidence: bool,
    /// Whether to compute what other schemes would cost.
    compare_schemes: bool,
    #[serde(flatten)]
    drafting: DraftingOptions,
}

/// What is gone on from, as it comes.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum Prompt {
    Text(String),
    Messages(Vec<Message>),
}

/// What is gone on from.
#[derive(Debug)]
pub enum Start {
    Text(String),
    /// The assistant's next message is wanted.
    Conversation(Conversation),
}

impl Start {
    fn new(prompt: Prompt, tools: &[Tool]) -> Self {
        match prompt {
            Prompt::Text(text) => Self::Text(text),
            Prompt::Messages(messages) => Self::Conversation(Conversation { messages, tools: tools.to_vec() }),
        }
    }

    /// From a text or messages, and a list of tools.
    pub fn from_js(prompt: JsValue, tools: JsValue) -> Result<Self, Failure> {
        let unreadable = |error| Failure::new("invalid-parameters", format!("the prompt cannot be read: {error}"));
        let prompt: Prompt = serde_wasm_bindgen::from_value(prompt).map_err(unreadable)?;
        let tools: Vec<Tool> = serde_wasm_bindgen::from_value(tools).map_err(unreadable)?;
        Ok(Self::new(prompt, &tools))
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
        Start::new(self.prompt.clone(), &self.tools)
    }

    /// What the assistant may call; none where it calls nothing.
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

/// How a generation holds on to its session.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Continuation {
    /// Attempts to connect again, one after the other without success, before a lost connection is given up.
    pub attempts: u32,
    /// Tokens of the text that were committed before a reload; they follow the prompt.
    pub committed: Vec<u32>,
}

impl Continuation {
    pub fn from_js(value: JsValue) -> Result<Self, Failure> {
        serde_wasm_bindgen::from_value(value)
            .map_err(|error| Failure::new("invalid-parameters", format!("the continuation cannot be read: {error}")))
    }
}

/// What a session can be resumed with after a reload. The secret is in it.
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
    /// The claim, if there is one: `undefined` and `null` are none.
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

/// What happens to the connection of a generation.
#[derive(Debug, Serialize)]
#[serde(tag = "state", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum ConnectionEvent {
    /// The generation has begun.
    Begun { claim: Option<SavedObject> },
    /// The connection is lost; the next attempt comes after a pause.
    Reconnecting { attempt: u32, delay_ms: u32 },
    /// The session was resumed; `anew`: in another session, as the server has forgotten the one before.
    Resumed { anew: bool, claim: Option<SavedObject> },
}

/// The emulated link.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LinkOptions {
    /// `null`: not limited.
    pub uplink_bits_per_second: Option<f64>,
    /// `null`: not limited.
    pub downlink_bits_per_second: Option<f64>,
    pub round_trip_ms: f64,
}

/// The draft model.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DraftModel {
    /// What drafts: `wasm` or `webgpu`.
    pub engine: &'static str,
    /// Why the GPU does not draft, if it was to.
    pub declined: Option<String>,
    pub vocab_size: u32,
    pub context_length: u32,
    /// Bytes of the weights' file.
    pub weight_bytes: usize,
    /// Bytes of WebAssembly memory at present, for the weights and all else.
    pub memory_bytes: u64,
    /// The trained heads that it has.
    pub heads: HeadsInfo,
}

/// Which heads a draft model has.
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

/// What the server said of itself.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerInfo {
    vocab_size: u32,
    context_length: u32,
    max_draft_tokens: u8,
    max_in_flight: u8,
    max_guesses: u8,
    max_branches: u8,
    own_draws: bool,
    fewest_passes: bool,
}

impl From<&Welcome> for ServerInfo {
    fn from(welcome: &Welcome) -> Self {
        Self {
            vocab_size: welcome.vocab_size,
            context_length: welcome.context_length,
            max_draft_tokens: welcome.max_draft_tokens,
            max_in_flight: welcome.max_in_flight,
            max_guesses: welcome.max_guesses,
            max_branches: welcome.max_branches,
            own_draws: welcome.own_draws,
            fewest_passes: welcome.fewest_passes,
        }
    }
}

/// One committed token.
#[derive(Debug, Serialize)]
pub struct TokenEvent {
    pub id: u32,
    pub text: String,
    pub origin: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evidence: Option<TokenEvidence>,
}

/// What both models thought of a token.
#[derive(Debug, Serialize)]
pub struct TokenEvidence {
    /// `null`: the server told none.
    logprob: Option<f64>,
    /// Payload bits of a draft; `null` where nothing was drafted.
    bits: Option<f64>,
    candidates: Vec<Candidate>,
}

/// A token that could have stood there.
#[derive(Debug, Serialize)]
struct Candidate {
    id: u32,
    text: String,
    q: Option<f64>,
    p: Option<f64>,
}

impl TokenEvidence {
    /// What is known, if anything; with the texts of ids.
    pub fn new(known: Option<&evidence::TokenEvidence>, text: impl Fn(u32) -> String) -> Self {
        let Some(known) = known else { return Self { logprob: None, bits: None, candidates: Vec::new() } };
        let candidate =
            |&evidence::Candidate { id, draft, target }: &_| Candidate { id, text: text(id), q: draft, p: target };
        let candidates = known.candidates.iter().map(candidate).collect();
        Self { logprob: known.log_probability, bits: known.bits, candidates }
    }
}

/// A piece of an answer that may call tools.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum PieceEvent {
    Text {
        text: String,
    },
    /// `arguments` is JSON.
    Call {
        name: String,
        arguments: String,
    },
}

/// Tokens that one verdict committed.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GenerateEvent {
    pub tokens: Vec<TokenEvent>,
    /// Text and calls that these tokens have made certain, where there are tools to call.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pieces: Vec<PieceEvent>,
    /// `null`: cloud-only.
    pub round: Option<RoundRecord>,
    pub statistics: Report,
}

/// The end of a generation.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    #[serde(flatten)]
    pub statistics: Report,
    pub text: String,
    /// All of the text, as text and calls; nothing where there were no tools to call.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pieces: Vec<PieceEvent>,
    pub prompt_tokens: usize,
    pub finish: &'static str,
    pub prompt_token_ids: Vec<u32>,
    pub token_ids: Vec<u32>,
}

/// A value as a plain JavaScript object.
pub fn to_js(value: &impl Serialize) -> Result<JsValue, Failure> {
    let serializer = serde_wasm_bindgen::Serializer::json_compatible();
    value.serialize(&serializer).map_err(|error| Failure::new("internal", error.to_string()))
}
