//! From a download's chunks to a drafting edge, without the file in between.

use outrider_models::{ChatSource, ChatTemplate, ModelLoader, Tokenizer};
use wasm_bindgen::prelude::*;

use crate::{edge::Edge, error::Failure, heads};

/// A draft model whose bytes are being pushed as they come: one file, GGUF or a checkpoint that has its settings
/// within.
///
/// Weights go straight to where they stay in this module's memory: JavaScript never holds the file, and beyond the
/// weights there is one chunk and sixteen rows of a matrix. To start over, make another.
#[wasm_bindgen]
pub struct EdgeLoader {
    draft: ModelLoader,
    bytes: usize,
}

#[wasm_bindgen]
impl EdgeLoader {
    /// Starts with nothing. `total_bytes` is the length of the file, if it is known.
    #[wasm_bindgen(constructor)]
    #[must_use]
    pub fn new(total_bytes: Option<f64>) -> Self {
        console_error_panic_hook::set_once();
        Self { draft: ModelLoader::new(total_bytes.map(|bytes| bytes as u64)), bytes: 0 }
    }

    /// Takes the next bytes of the file.
    ///
    /// Throws an `Error` whose `code` is `corrupt-model`, `unsupported-model` or `out-of-memory` as soon as the bytes
    /// show it; the loader is of no use from then on.
    pub fn push(&mut self, chunk: &[u8]) -> Result<(), JsValue> {
        self.draft.push(chunk).map_err(Failure::from)?;
        self.bytes += chunk.len();
        Ok(())
    }

    /// The edge, if all bytes of the model have been pushed: with its tokenizer (`tokenizer.json`) and, if there are
    /// any, the heads that were trained on its hidden states (`heads.safetensors`) and what makes prompts of
    /// conversations (`chat.json`).
    ///
    /// Throws an `Error` whose `code` is `corrupt-model`, `corrupt-tokenizer`, `tokenizer-mismatch`, `corrupt-heads`,
    /// `heads-mismatch` or `corrupt-chat`.
    pub fn finish(
        self,
        tokenizer_json: &[u8],
        heads_safetensors: Option<Vec<u8>>,
        chat_json: Option<Vec<u8>>,
    ) -> Result<Edge, JsValue> {
        let mut model = self.draft.finish().map_err(Failure::from)?;
        let tokenizer = Tokenizer::from_bytes(tokenizer_json).map_err(|error| Failure::tokenizer(&error))?;
        if tokenizer.vocab_size() > model.config().vocab_size {
            return Err(Failure::new(
                "tokenizer-mismatch",
                format!(
                    "the tokenizer has {} tokens, the draft model {}",
                    tokenizer.vocab_size(),
                    model.config().vocab_size
                ),
            )
            .into());
        }
        // Its table may have more rows than the target's.
        model.cut_vocabulary(tokenizer.vocab_size()).map_err(Failure::from)?;
        let heads = heads_safetensors.map(|bytes| heads::read(&bytes, &model, &tokenizer)).transpose()?;
        let chat = match chat_json {
            Some(json) => ChatTemplate::from_json(&json),
            None => ChatTemplate::new(ChatSource::default()),
        };
        let chat = chat.map_err(|error| Failure::new("corrupt-chat", error.to_string()))?;
        Ok(Edge::assemble(model, tokenizer, self.bytes, heads, chat))
    }
}
