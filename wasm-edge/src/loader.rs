//! Loading of an edge from the chunks of a download, without keeping the file in memory.

use outrider_models::{
    ChatSource, ChatTemplate, LoadError, Model, ModelConfig, ModelLoader, StoredLoader, StoredModel, Tokenizer,
};
use outrider_webgpu::Gpu;
use wasm_bindgen::prelude::*;

use crate::{
    draft::{Draft, GpuHandle},
    edge::Edge,
    error::Failure,
    heads,
};

/// Loader for a draft model from a stream: one file, GGUF or a checkpoint with embedded settings.
///
/// Weights are copied to their final place in this module's memory. JavaScript never holds the file, and additional
/// memory is one chunk and 16 rows of a matrix. Create a new loader to start over.
#[wasm_bindgen]
pub struct EdgeLoader {
    draft: DraftLoader,
    bytes: usize,
}

/// Destination of the model.
enum DraftLoader {
    Processor(ModelLoader),
    /// Model in the form of its file, for a GPU that uses it `always`, or if it is faster.
    Gpu {
        stored: StoredLoader,
        gpu: Gpu,
        always: bool,
    },
}

impl DraftLoader {
    fn push(&mut self, bytes: &[u8]) -> Result<(), LoadError> {
        match self {
            Self::Processor(loader) => loader.push(bytes),
            Self::Gpu { stored, .. } => stored.push(bytes),
        }
    }

    fn finish(self) -> Result<Loaded, LoadError> {
        match self {
            Self::Processor(loader) => Ok(Loaded::Processor(loader.finish()?)),
            Self::Gpu { stored, gpu, always } => Ok(Loaded::Gpu { stored: stored.finish()?, gpu, always }),
        }
    }
}

/// Loaded model before its transfer to a GPU.
enum Loaded {
    Processor(Model),
    Gpu { stored: StoredModel, gpu: Gpu, always: bool },
}

impl Loaded {
    fn config(&self) -> &ModelConfig {
        match self {
            Self::Processor(model) => model.config(),
            Self::Gpu { stored, .. } => &stored.config,
        }
    }

    fn cut_vocabulary(&mut self, tokens: usize) -> Result<(), LoadError> {
        match self {
            Self::Processor(model) => model.cut_vocabulary(tokens),
            Self::Gpu { stored, .. } => stored.config.cut_vocabulary(tokens),
        }
    }

    async fn into_draft(self) -> Result<Draft, Failure> {
        match self {
            Self::Processor(model) => Ok(Draft::on_processor(model)),
            Self::Gpu { stored, gpu, always } => Draft::on_gpu(stored, gpu, always).await,
        }
    }
}

#[wasm_bindgen]
impl EdgeLoader {
    /// Creates a loader for the CPU. `total_bytes` is the length of the file, if known.
    #[wasm_bindgen(constructor)]
    #[must_use]
    pub fn new(total_bytes: Option<f64>) -> Self {
        console_error_panic_hook::set_once();
        Self { draft: DraftLoader::Processor(ModelLoader::new(total_bytes.map(|bytes| bytes as u64))), bytes: 0 }
    }

    /// Creates a loader for a GPU, which drafts if it is faster than the CPU, or `always`.
    #[must_use]
    pub fn on_gpu(total_bytes: Option<f64>, gpu: GpuHandle, always: bool) -> Self {
        let loader = Self::new(total_bytes);
        let Some(gpu) = gpu.into_gpu() else { return loader };
        let stored = StoredLoader::new(total_bytes.map(|bytes| bytes as u64));
        Self { draft: DraftLoader::Gpu { stored, gpu, always }, ..loader }
    }

    /// Ignores settings of these names in the models of this worker, although they are not known. To be called before
    /// the first bytes are pushed.
    pub fn ignore_settings(&self, keys: Vec<String>) {
        outrider_models::ignore_settings(&keys);
    }

    /// Takes the next bytes of the file, any number of them.
    ///
    /// Throws an `Error` whose `code` is `corrupt-model`, `unsupported-model` or `out-of-memory` as soon as the bytes
    /// show it. The loader cannot be used afterwards.
    pub fn push(&mut self, chunk: &[u8]) -> Result<(), JsValue> {
        self.draft.push(chunk).map_err(Failure::from)?;
        self.bytes += chunk.len();
        Ok(())
    }

    /// Creates the edge once all bytes of the model have been pushed. Needs the tokenizer (`tokenizer.json`). Optional
    /// are heads trained on the model's hidden states (`heads.safetensors`) and the chat template (`chat.json`).
    ///
    /// Throws an `Error` whose `code` is `corrupt-model`, `corrupt-tokenizer`, `tokenizer-mismatch`, `corrupt-heads`,
    /// `heads-mismatch`, `corrupt-chat`, or `gpu-failed` if the GPU is required but cannot draft.
    pub async fn finish(
        self,
        tokenizer_json: Vec<u8>,
        heads_safetensors: Option<Vec<u8>>,
        chat_json: Option<Vec<u8>>,
    ) -> Result<Edge, JsValue> {
        let mut loaded = self.draft.finish().map_err(Failure::from)?;
        let tokenizer = Tokenizer::from_bytes(&tokenizer_json).map_err(|error| Failure::tokenizer(&error))?;
        if tokenizer.vocab_size() > loaded.config().vocab_size {
            return Err(Failure::new(
                "tokenizer-mismatch",
                format!(
                    "the tokenizer has {} tokens, the draft model {}",
                    tokenizer.vocab_size(),
                    loaded.config().vocab_size
                ),
            )
            .into());
        }
        // The model's table may have more rows than the target's.
        loaded.cut_vocabulary(tokenizer.vocab_size()).map_err(Failure::from)?;
        let heads = heads_safetensors.map(|bytes| heads::read(&bytes, loaded.config(), &tokenizer)).transpose()?;
        Ok(Edge::assemble(Some(loaded.into_draft().await?), tokenizer, self.bytes, heads, template(chat_json)?))
    }

    /// Creates an edge without a draft model, which looks guesses up in the text and in texts of the page. Takes and
    /// throws as [`finish`](Self::finish).
    pub fn lookup(tokenizer_json: Vec<u8>, chat_json: Option<Vec<u8>>) -> Result<Edge, JsValue> {
        console_error_panic_hook::set_once();
        let tokenizer = Tokenizer::from_bytes(&tokenizer_json).map_err(|error| Failure::tokenizer(&error))?;
        Ok(Edge::assemble(None, tokenizer, 0, None, template(chat_json)?))
    }
}

fn template(chat_json: Option<Vec<u8>>) -> Result<ChatTemplate, Failure> {
    let chat = match chat_json {
        Some(json) => ChatTemplate::from_json(&json),
        None => ChatTemplate::new(ChatSource::default()),
    };
    chat.map_err(|error| Failure::new("corrupt-chat", error.to_string()))
}
