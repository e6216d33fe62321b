//! Report of `outrider check`, as text and as JSON.

use std::fmt;

use bytesize::ByteSize;
use outrider_models::{Model, PAGE_TOKENS};
use serde::Serialize;

use super::timing::ROWS;

/// Smallest speed-up that is worth a download.
pub(super) const WORTH: f64 = 1.1;
/// Longest round trip considered, in milliseconds.
pub(super) const LONGEST: u16 = 1000;
/// Memory that a browser's tab can address (wasm32), in bytes.
const TAB_BYTES: u64 = 4 << 30;
/// Bound on the memory of a model, while it loads and after, as a multiple of its file (`outrider-models` guarantees
/// it).
const MEMORY_OF_FILE: f64 = 1.3;

/// Memory of a browser's process for a tab besides model and KV cache, in bytes: the browser itself, the engine's code
/// and threads, and the tokenizer. With a draft of 94 MiB, Chromium's process takes 210 to 300 MiB besides.
const ENGINE_BYTES: u64 = 300 << 20;
/// Length in tokens of the text whose KV cache counts as the tab's memory.
const TEXT: u64 = 1000;

/// All results of the check.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    pub draft: End,
    pub target: Target,
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

/// The target of the check.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Target {
    /// A model on this machine.
    Model(End),
    /// An engine elsewhere, of which no more is known.
    #[serde(rename_all = "camelCase")]
    Engine { name: String, context_length: usize },
}

impl Target {
    pub(super) fn context_length(&self) -> usize {
        match self {
            Self::Model(End { context_length, .. }) | Self::Engine { context_length, .. } => *context_length,
        }
    }
}

/// Time of a pass by its rows.
#[derive(Debug, Serialize)]
pub(super) struct RowPass {
    pub rows: usize,
    pub ms: f64,
}

impl RowPass {
    pub(super) fn all(seconds: &[f64; ROWS.len()]) -> impl Iterator<Item = Self> {
        ROWS.into_iter().zip(*seconds).map(|(rows, seconds)| Self { rows, ms: seconds * 1e3 })
    }
}

/// The text over which acceptance was measured.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Source {
    /// A text that both models read.
    Read,
    /// Answers that the target wrote.
    Answers,
}

/// Facts about drafting in a browser's tab.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Tab {
    /// True if the model can be sent as one file, which browsers load.
    pub is_one_file: bool,
    /// Bound on the memory of the model, in bytes.
    pub model_bytes: u64,
    /// Memory of the KV cache for a text of 1,000 tokens, or of the longest text if that is shorter, in bytes.
    pub cache_bytes: u64,
    /// Memory of the browser's process besides these, in bytes.
    pub engine_bytes: u64,
    /// Bound on the memory of the whole process, in bytes: the sum of these.
    pub process_bytes: u64,
    /// Longest text whose KV cache fits beside the model, in tokens; 0 if the model does not fit.
    pub longest_text: u64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Measured {
    pub threads: usize,
    pub instruction_set: &'static str,
    /// Time of a draft with the choice of its token, in milliseconds.
    pub draft_ms: f64,
    /// Time of a pass of one row with the choice of its token, in milliseconds.
    pub pass_ms: f64,
    /// Times of passes of more rows; empty for an engine elsewhere.
    pub row_passes: Vec<RowPass>,
    /// Time to encode and decode the frames of a round, in milliseconds.
    pub frames_ms: f64,
    /// Largest distance between the quartiles of a time, as a share of its median.
    pub spread: f64,
    /// False if the spread stayed large however often was timed: the machine is busy.
    pub is_stable: bool,
    pub acceptance_rate: f64,
    /// True if the acceptance rate is a lower bound, because the engine lists few tokens.
    pub is_least: bool,
    /// The text that the acceptance rate was measured over.
    pub text: Source,
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
    pub(super) fn new(draft: &End, context: usize, is_one_file: bool) -> Self {
        let model_bytes = (draft.weight_bytes as f64 * MEMORY_OF_FILE) as u64;
        let room = TAB_BYTES.saturating_sub(model_bytes);
        let longest_text = (room * 1000 / draft.cache_bytes_per_thousand_tokens.max(1)).min(context as u64);
        let cache_bytes = draft.cache_bytes_per_thousand_tokens * longest_text.min(TEXT) / 1000;
        let process_bytes = model_bytes + cache_bytes + ENGINE_BYTES;
        Self { is_one_file, model_bytes, cache_bytes, engine_bytes: ENGINE_BYTES, process_bytes, longest_text }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { draft, target, tokens, tab, measured, .. } = self;
        let shape = |end: &End| {
            let End { name, layers, hidden_size, context_length, rows, .. } = end;
            format!("{name}: {layers} layers of {hidden_size}, context {context_length}, {rows} rows")
        };
        writeln!(f, "{:<30} {}", "draft", shape(draft))?;
        match target {
            Target::Model(end) => writeln!(f, "{:<30} {}", "target", shape(end))?,
            Target::Engine { name, context_length } => {
                writeln!(f, "{:<30} {name}: an engine elsewhere, context {context_length}", "target")?;
            }
        }
        writeln!(f, "{:<30} yes: one tokenizer of {tokens} tokens", "they pair")?;
        let bytes = |bytes: u64| ByteSize(bytes).to_string();
        let both = |f: &mut fmt::Formatter<'_>, what: &str, value: fn(&End) -> u64| {
            let of_target = match target {
                Target::Model(end) => bytes(value(end)),
                Target::Engine { .. } => "not known here".to_owned(),
            };
            writeln!(f, "{what:<30} draft {}, target {of_target}", bytes(value(draft)))
        };
        both(f, "weights", |end| end.weight_bytes)?;
        both(f, "KV cache of 1000 tokens", |end| end.cache_bytes_per_thousand_tokens)?;
        let most = bytes(tab.model_bytes);
        let verdict = match (tab.is_one_file, tab.longest_text) {
            (false, _) => "no: browsers load one file; `gguf-split --merge` makes it".to_owned(),
            (true, 0) => format!("no: it takes up to {most} of the 4 GiB that a tab has"),
            (true, longest) => format!("yes, with texts of up to {longest} tokens"),
        };
        writeln!(f, "{:<30} {verdict}", "a tab can hold the draft")?;
        let Tab { cache_bytes, engine_bytes, process_bytes, .. } = *tab;
        let [cache, engine, process] = [cache_bytes, engine_bytes, process_bytes].map(bytes);
        writeln!(
            f,
            "{:<30} up to {process}: weights {most}, KV cache {cache}, browser and engine {engine}",
            "memory of the tab's process"
        )?;
        let Measured { threads, instruction_set, draft_ms, pass_ms, .. } = measured;
        let here = format!("({instruction_set}, threads: {threads})");
        let Measured { row_passes, frames_ms, spread, is_stable, is_least, .. } = measured;
        match target {
            Target::Model(_) => {
                let times: Vec<String> = row_passes.iter().map(|pass| format!("{:.2}", pass.ms)).collect();
                let sizes: Vec<String> = row_passes.iter().map(|pass| pass.rows.to_string()).collect();
                let (times, sizes) = (times.join(", "), sizes.join(", "));
                writeln!(f, "{:<30} {times} ms for {sizes} rows here {here}", "a pass of the target")?;
            }
            Target::Engine { .. } => {
                let what = "a token of the engine";
                writeln!(f, "{what:<30} {pass_ms:.2} ms; what judged guesses add cannot be measured from here")?;
            }
        }
        writeln!(f, "{:<30} {draft_ms:.2} ms here; a browser is slower, see --draft-ms", "a draft")?;
        writeln!(f, "{:<30} {frames_ms:.4} ms", "frames of a round")?;
        if !is_stable {
            writeln!(
                f,
                "{:<30} the machine is busy, times differ by {:.0} %: check again when it is idle",
                "not reliable",
                spread * 100.0
            )?;
        }
        let least = if *is_least { "at least " } else { "" };
        let Measured { acceptance_rate, tokens, temperature, top_p, .. } = measured;
        let text = match measured.text {
            Source::Read => "text",
            Source::Answers => "the target's answers",
        };
        writeln!(
            f,
            "{:<30} {least}{acceptance_rate:.3} over {tokens} tokens of {text}, at temperature {temperature} and top-p {top_p}",
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
