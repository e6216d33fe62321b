//! Report of `outrider check`, as text and as JSON.

use std::fmt;

use bytesize::ByteSize;
use outrider_models::{Model, PAGE_TOKENS};
use serde::Serialize;

/// Smallest speed-up that is worth a download.
pub(super) const WORTH: f64 = 1.1;
/// Longest round trip considered, in milliseconds.
pub(super) const LONGEST: u16 = 1000;
/// Memory that a browser's tab can address (wasm32), in bytes.
const TAB_BYTES: u64 = 4 << 30;
/// Bound on the memory of a model, while it loads and after, as a multiple of its file (`outrider-models` guarantees
/// it).
const MEMORY_OF_FILE: f64 = 1.3;

/// All results of the check.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    pub draft: End,
    pub target: End,
    /// Number of the tokenizer's tokens, whose distributions are compared.
    pub tokens: usize,
    pub tab: Tab,
    pub measured: Measured,
    /// Time of a draft in milliseconds that predictions use, measured or given.
    pub draft_ms: f64,
    pub pass_ms: f64,
    pub predictions: Vec<Prediction>,
    /// Longest round trip, in milliseconds, up to which drafting gains at least a tenth; `None` if there is none.
    pub worth_up_to_ms: Option<u16>,
}

/// Size and shape of one model.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct End {
    pub name: String,
    pub layers: usize,
    pub hidden_size: usize,
    pub context_length: usize,
    /// Rows of its tables, which may be more than there are tokens.
    pub rows: usize,
    pub weight_bytes: u64,
    pub cache_bytes_per_thousand_tokens: u64,
}

/// Facts about drafting in a browser's tab.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Tab {
    /// True if the file is GGUF, which browsers load.
    pub is_gguf: bool,
    /// Bound on the memory of the model, in bytes.
    pub model_bytes: u64,
    /// Longest text whose KV cache fits beside the model, in tokens; 0 if the model does not fit.
    pub longest_text: u64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Measured {
    pub threads: usize,
    pub instruction_set: &'static str,
    pub draft_ms: f64,
    pub pass_ms: f64,
    pub acceptance_rate: f64,
    /// Number of tokens over which the acceptance rate is the mean.
    pub tokens: usize,
    pub temperature: f32,
    pub top_p: f32,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Prediction {
    pub round_trip_ms: u16,
    pub tokens_per_second: f64,
    /// Speed as a multiple of the server's alone.
    pub speedup: f64,
    pub way: String,
}

impl End {
    /// Describes a model as its file has it.
    pub(super) fn new(name: String, model: &Model, weight_bytes: u64) -> Self {
        let config = model.config();
        // Rounded to whole pages.
        let thousands = PAGE_TOKENS;
        Self {
            name,
            layers: config.layers,
            hidden_size: config.hidden_size,
            context_length: config.context_length,
            rows: config.vocab_size,
            weight_bytes,
            cache_bytes_per_thousand_tokens: (model.new_cache().bytes_for(1000 * thousands) / thousands) as u64,
        }
    }
}

impl Tab {
    /// Computes the memory of a tab for texts of at most `context` tokens.
    pub(super) fn new(draft: &End, context: usize, is_gguf: bool) -> Self {
        let model_bytes = (draft.weight_bytes as f64 * MEMORY_OF_FILE) as u64;
        let room = TAB_BYTES.saturating_sub(model_bytes);
        let longest_text = (room * 1000 / draft.cache_bytes_per_thousand_tokens.max(1)).min(context as u64);
        Self { is_gguf, model_bytes, longest_text }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { draft, target, tokens, tab, measured, .. } = self;
        for (end, what) in [(draft, "draft"), (target, "target")] {
            let End { name, layers, hidden_size, context_length, rows, .. } = end;
            let shape = format!("{layers} layers of {hidden_size}, context {context_length}, {rows} rows");
            writeln!(f, "{what:<30} {name}: {shape}")?;
        }
        writeln!(f, "{:<30} yes: one tokenizer of {tokens} tokens", "they pair")?;
        let bytes = |bytes: u64| ByteSize(bytes).to_string();
        let both = |f: &mut fmt::Formatter<'_>, what: &str, values: [u64; 2]| {
            writeln!(f, "{what:<30} draft {}, target {}", bytes(values[0]), bytes(values[1]))
        };
        both(f, "weights", [draft.weight_bytes, target.weight_bytes])?;
        let caches = [draft.cache_bytes_per_thousand_tokens, target.cache_bytes_per_thousand_tokens];
        both(f, "KV cache of 1000 tokens", caches)?;
        let most = bytes(tab.model_bytes);
        let verdict = match (tab.is_gguf, tab.longest_text) {
            (false, _) => "no: browsers load GGUF files".to_owned(),
            (true, 0) => format!("no: it takes up to {most} of the 4 GiB that a tab has"),
            (true, longest) => format!("yes, in at most {most}, with texts of up to {longest} tokens"),
        };
        writeln!(f, "{:<30} {verdict}", "a tab can hold the draft")?;
        let Measured { threads, instruction_set, draft_ms, pass_ms, .. } = measured;
        let here = format!("({instruction_set}, threads: {threads})");
        writeln!(f, "{:<30} {pass_ms:.2} ms here {here}", "a pass of the target")?;
        writeln!(f, "{:<30} {draft_ms:.2} ms here; a browser is slower, see --draft-ms", "a draft")?;
        let Measured { acceptance_rate, tokens, temperature, top_p, .. } = measured;
        writeln!(
            f,
            "{:<30} {acceptance_rate:.3} over {tokens} tokens of text, at temperature {temperature} and top-p {top_p}",
            "acceptance rate"
        )?;
        writeln!(
            f,
            "\nWith passes of {:.2} ms and drafts of {:.2} ms, the server alone writes {:.1} tokens/s; with drafts:",
            self.pass_ms,
            self.draft_ms,
            1e3 / self.pass_ms
        )?;
        writeln!(f, "{:>10}{:>10}{:>9}  how", "round trip", "tokens/s", "x alone")?;
        for Prediction { round_trip_ms, tokens_per_second, speedup, way } in &self.predictions {
            writeln!(f, "{round_trip_ms:>7} ms{tokens_per_second:>10.1}{speedup:>9.2}  {way}")?;
        }
        let gain = format!("at least {WORTH} times as fast as the server alone");
        match self.worth_up_to_ms {
            None => writeln!(f, "\nnot worth it: at no round trip {gain}"),
            Some(0) => writeln!(f, "\nworth it on one machine alone: {gain} without a round trip"),
            Some(LONGEST) => writeln!(f, "\nworth it up to {LONGEST} ms and beyond: {gain}"),
            Some(longest) => writeln!(f, "\nworth it up to {longest} ms: {gain}"),
        }
    }
}
