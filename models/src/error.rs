//! Errors from loading and running a model.
//!
//! Each variant is one cause and carries the values that explain it. Callers match on variants instead of parsing
//! messages.

/// Errors from loading a model or a tokenizer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// I/O error from the operating system.
    #[error("reading failed: {0}")]
    Io(#[from] std::io::Error),
    /// The path is neither a `.gguf` nor a `.safetensors` file, nor a folder that holds one.
    #[error("{path}: not a .gguf or .safetensors file, nor a folder with model.safetensors and config.json")]
    UnknownFormat {
        /// Path as given by the caller.
        path: String,
    },
    /// The folder does not hold a complete checkpoint.
    #[error("{path}: no model.safetensors with a config.json; {found}")]
    IncompleteFolder {
        /// Path of the incomplete folder.
        path: String,
        /// Files found in the folder.
        found: String,
    },
    /// A single safetensors file without embedded settings: it is not one of this crate's single-file checkpoints.
    #[error("a safetensors file that does not say what its model is: it needs its config.json")]
    NoSettings,
    /// A file named in the index of a checkpoint is missing from the folder.
    #[error("model.safetensors.index.json names {name}, which is not beside it")]
    MissingShard {
        /// Name of the missing file.
        name: String,
    },
    /// Another kind of file in place of a model.
    #[error("{kind} instead of a model; {advice}")]
    OtherKind {
        /// The kind of file found.
        kind: &'static str,
        /// The way to the model itself.
        advice: &'static str,
    },
    /// The first four bytes are not `GGUF`.
    #[error("not a GGUF file: magic bytes {found:02x?}")]
    NotGguf {
        /// The four bytes found.
        found: [u8; 4],
    },
    /// A GGUF version other than 2 and 3.
    #[error("GGUF version {found} is not supported (2 and 3 are)")]
    GgufVersion {
        /// Version number in the file.
        found: u32,
    },
    /// A big-endian GGUF file.
    #[error("a big-endian GGUF file; little-endian ones are read")]
    BigEndian,
    /// One part of a split GGUF file, under a name from which the other parts' names cannot be derived.
    #[error(
        "a part of a GGUF file that is split into {parts}; named NAME-00001-of-{parts:05}.gguf and so on they are read together, and `gguf-split --merge` makes one of them"
    )]
    SplitGguf {
        /// Number of parts in total.
        parts: u64,
    },
    /// One part of a split GGUF model is missing.
    #[error("{name}, a part of this model, is not beside it")]
    MissingPart {
        /// Name of the missing file.
        name: String,
    },
    /// Bytes between two tensors or after the last one that belong to no tensor: the stored data differs from the
    /// declared types or shapes.
    #[error("{bytes} bytes after tensor {name} belong to no tensor: its type or shape is not as declared")]
    Gap {
        /// Name of the tensor before the gap.
        name: String,
        /// Size of the gap in bytes.
        bytes: u64,
    },
    /// The file ends before the data that it declares.
    #[error("{what} at byte {offset} needs {needed} bytes, {remaining} remain")]
    Truncated {
        /// Item that was being read.
        what: String,
        /// Byte offset of the item from the start of the file.
        offset: u64,
        /// Declared size of the item in bytes.
        needed: u64,
        /// Number of bytes left in the file.
        remaining: u64,
    },
    /// Two tensors occupy the same bytes.
    #[error("tensor {name} begins at byte {offset}, before the one ahead of it has ended at {end}")]
    Overlap {
        /// Name of the tensor that starts too early.
        name: String,
        /// Byte offset of its start in the file.
        offset: u64,
        /// Byte offset of the end of the tensor before it.
        end: u64,
    },
    /// Not enough memory for the weights.
    #[error(
        "no memory for {what} of {needed} bytes; use a smaller quantization of the model, such as Q4_0, a smaller \
         model, or free memory"
    )]
    OutOfMemory {
        /// Item to be allocated.
        what: String,
        /// Size of the item in bytes.
        needed: u64,
    },
    /// Use of a loader that has already failed.
    #[error("loading has already failed")]
    AfterFailure,
    /// A count, length or size beyond that of any real file.
    #[error("{what} is {found}, more than the limit of {limit}")]
    OverLimit {
        /// Name of the quantity.
        what: String,
        /// Value found in the file.
        found: u64,
        /// Largest accepted value.
        limit: u64,
    },
    /// Text in the file is not valid UTF-8.
    #[error("{what} at byte {offset} is not UTF-8")]
    NotUtf8 {
        /// Item that was being read.
        what: String,
        /// Byte offset of the item from the start of the file.
        offset: u64,
    },
    /// Unknown type code of a GGUF metadata value.
    #[error("metadata {key}: unknown value type {code}")]
    MetadataTypeCode {
        /// Key of the metadata entry.
        key: String,
        /// Type code in the file.
        code: u32,
    },
    /// A metadata key or tensor name occurs twice.
    #[error("{name} is defined twice")]
    Duplicate {
        /// Name that is repeated.
        name: String,
    },
    /// A required setting is missing.
    #[error("setting {key} is missing")]
    MissingSetting {
        /// GGUF metadata key or field of `config.json`.
        key: String,
    },
    /// A setting has an invalid value (wrong type, zero, not finite, …).
    #[error("setting {key} is {found}, expected {expected}")]
    InvalidSetting {
        /// GGUF metadata key or field of `config.json`.
        key: String,
        /// Value found in the file.
        found: String,
        /// Description of accepted values.
        expected: &'static str,
    },
    /// A setting requires a feature that this crate does not implement. Ignoring it would give wrong logits.
    #[error("{what} {found} is not supported")]
    Unsupported {
        /// Name of the feature.
        what: &'static str,
        /// Value found in the file.
        found: String,
    },
    /// Weights quantized by a method that this crate does not read.
    #[error(
        "the weights are quantized by {method}, which is not supported; use the unquantized safetensors or a GGUF file \
         of the same model"
    )]
    Quantized {
        /// Name of the method, as in `quant_method`.
        method: String,
    },
    /// A model of no family here.
    #[error(
        "{what} {found} is not supported; supported are {supported}. A target of another family can be served by vLLM: --target vllm:URL"
    )]
    UnknownFamily {
        /// Setting that names the family.
        what: &'static str,
        /// Value found in the file.
        found: String,
        /// Supported values, separated by commas.
        supported: String,
    },
    /// A setting that this crate does not know. It is rejected because it may change the computation.
    #[error(
        "setting {key} = {found} is not known here; ignoring it could give wrong logits: if it is known to change nothing, `--ignore-setting {key}` loads the model without it"
    )]
    UnknownSetting {
        /// GGUF metadata key or field of `config.json`.
        key: String,
        /// Value of the setting.
        found: String,
    },
    /// A JSON file next to `config.json` is not valid, or a field has an unexpected type.
    #[error("{file}: {error}")]
    Beside {
        /// Name of the file next to `config.json`.
        file: &'static str,
        /// Error of the parser.
        error: serde_json::Error,
    },
    /// `config.json` is not valid JSON, or a field has an unexpected type.
    #[error("config.json: {0}")]
    Config(#[from] serde_json::Error),
    /// The safetensors container is malformed.
    #[error("safetensors: {0}")]
    Safetensors(#[from] safetensors::SafeTensorError),
    /// A required weight is missing.
    #[error("tensor {name} is missing")]
    MissingTensor {
        /// Name of the missing tensor.
        name: String,
    },
    /// A weight's shape differs from the one that the settings imply.
    #[error("tensor {name} has shape {found:?}, expected {expected:?}")]
    TensorShape {
        /// Name of the mismatched tensor.
        name: String,
        /// Expected shape, outermost dimension first.
        expected: Vec<usize>,
        /// Shape in the file, outermost dimension first.
        found: Vec<u64>,
    },
    /// A weight has an element type that is not supported.
    #[error("tensor {name} has element type {dtype}, which is not supported")]
    TensorType {
        /// Name of the unsupported tensor.
        name: String,
        /// Element type, by name or by its GGUF code.
        dtype: String,
    },
    /// The rows of a quantized weight are not a whole number of blocks.
    #[error("tensor {name}: rows of {columns} elements are not whole blocks of {block}")]
    PartialBlock {
        /// Name of the quantized tensor.
        name: String,
        /// Number of elements per row.
        columns: usize,
        /// Number of elements per block of the type.
        block: usize,
    },
    /// The file has a weight that the implemented architecture does not use. Ignoring it would give wrong logits.
    #[error("tensor {name} is not part of the architecture as implemented")]
    UnexpectedTensor {
        /// Name of the unexpected tensor.
        name: String,
    },
    /// The file's vocabulary cannot be turned into a tokenizer.
    #[error("{found} is not supported; put the tokenizer.json of this model next to the file")]
    NoTokenizer {
        /// Description of the vocabulary found.
        found: String,
    },
    /// `tokenizer.json` cannot be parsed.
    #[error("tokenizer.json: {0}")]
    Tokenizer(String),
}

/// Errors from a forward pass. When one is returned, no cache has changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// A token id is outside the vocabulary.
    #[error("chunk {chunk}: token {token} at index {index} is outside the vocabulary of {vocab_size}")]
    TokenOutOfRange {
        /// Index of the chunk in the batch.
        chunk: usize,
        /// Index of the token in the chunk.
        index: usize,
        /// Token id that is out of range.
        token: u32,
        /// Vocabulary size; valid ids are below it.
        vocab_size: usize,
    },
    /// The chunk's tokens exceed the context length.
    #[error("chunk {chunk}: {cached} cached and {added} new tokens exceed the context of {context_length}")]
    ContextExceeded {
        /// Index of the chunk in the batch.
        chunk: usize,
        /// Number of tokens in the cache.
        cached: usize,
        /// Number of tokens to be added.
        added: usize,
        /// Context length of the model.
        context_length: usize,
    },
    /// Positions must be strictly ascending indices into the chunk's tokens.
    #[error("chunk {chunk}: position {position} is out of order or not below {tokens}")]
    Position {
        /// Index of the chunk in the batch.
        chunk: usize,
        /// First invalid position.
        position: usize,
        /// Number of tokens in the chunk.
        tokens: usize,
    },
    /// A branch does not start on its parent line, has no tokens, or the model does not support branches.
    #[error("chunk {chunk}: branch {branch} leaves no line of the text that can be read")]
    Branch {
        /// Index of the chunk in the batch.
        chunk: usize,
        /// Number of the branch in its cache, counted from 1.
        branch: usize,
    },
    /// Not enough memory for the KV cache. Its contents are unchanged.
    #[error("there is no memory for {needed} bytes of a KV cache")]
    OutOfMemory {
        /// Requested size in bytes.
        needed: usize,
    },
    /// The cache was created by a model of another shape.
    #[error("chunk {chunk}: the cache belongs to a model of another shape")]
    CacheMismatch {
        /// Index of the chunk in the batch.
        chunk: usize,
    },
}

/// Error from the tokenizer: the text cannot be encoded.
#[derive(Debug, thiserror::Error)]
#[error("encoding failed: {0}")]
pub struct EncodeError(pub(crate) String);

/// Constructs [`LoadError::InvalidSetting`].
pub(crate) fn invalid(key: &str, found: impl ToString, expected: &'static str) -> LoadError {
    LoadError::InvalidSetting { key: key.to_owned(), found: found.to_string(), expected }
}
