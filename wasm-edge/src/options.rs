//! The plain objects that cross to JavaScript; `web/src/outrider/edge.ts` declares them there.

use outrider_codec::frame::{SamplingParameters, Welcome};
use outrider_speculation::{
    edge::{Mode, Settings},
    options::DraftingOptions,
    statistics::{Report, RoundRecord},
};
use serde::{Deserialize, Serialize};
use wasm_bindgen::JsValue;

use crate::{error::Failure, policies::HeadsInfo};

/// What a generation is asked for.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GenerateRequest {
    pub prompt: String,
    mode: RequestMode,
    max_new_tokens: u32,
    temperature: f32,
    /// 0: off.
    top_k: u32,
    top_p: f32,
    seed: u64,
    /// Whether to compute what other schemes would cost.
    compare_schemes: bool,
    #[serde(flatten)]
    drafting: DraftingOptions,
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

    pub fn settings(&self) -> Result<Settings, Failure> {
        let mode = match self.mode {
            RequestMode::CloudOnly => Mode::CloudOnly,
            RequestMode::Speculative => {
                let speculation = if self.compare_schemes {
                    self.drafting.compared_speculation()
                } else {
                    self.drafting.speculation()
                };
                Mode::Speculative(speculation.map_err(|error| Failure::new("invalid-parameters", error.to_string()))?)
            }
        };
        Ok(Settings {
            mode,
            sampling: SamplingParameters { temperature: self.temperature, top_k: self.top_k, top_p: self.top_p },
            seed: self.seed,
            max_new_tokens: self.max_new_tokens,
        })
    }
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
    pub vocab_size: u32,
    pub context_length: u32,
    /// Bytes of the weights' file.
    pub weight_bytes: usize,
    /// Bytes of WebAssembly memory at present, for the weights and all else.
    pub memory_bytes: u64,
    /// The trained heads that it has.
    pub heads: HeadsInfo,
}

/// What the server said of itself.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerInfo {
    vocab_size: u32,
    context_length: u32,
    max_draft_tokens: u8,
}

impl From<&Welcome> for ServerInfo {
    fn from(welcome: &Welcome) -> Self {
        Self {
            vocab_size: welcome.vocab_size,
            context_length: welcome.context_length,
            max_draft_tokens: welcome.max_draft_tokens,
        }
    }
}

/// One committed token.
#[derive(Debug, Serialize)]
pub struct TokenEvent {
    pub id: u32,
    pub text: String,
    pub origin: &'static str,
}

/// Tokens that one verdict committed.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GenerateEvent {
    pub tokens: Vec<TokenEvent>,
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
