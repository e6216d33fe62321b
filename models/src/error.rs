//! What can go wrong while loading a model and while running it.
//!
//! Every variant is one cause and carries the values that explain it. Nothing here is a
//! sentence to parse: callers match on variants.

/// Why a model or a tokenizer could not be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The operating system could not give us the bytes.
    #[error("reading failed: {0}")]
    Io(#[from] std::io::Error),
    /// The path names neither a `.gguf` nor a `.safetensors` file nor a folder that holds one.
    #[error("{path}: not a .gguf or .safetensors file, nor a folder with model.safetensors and config.json")]
    UnknownFormat {
        /// The path as it was given.
        path: String,
    },
    /// A folder without a whole checkpoint.
    #[error("{path}: no model.safetensors with a config.json; {found}")]
    IncompleteFolder {
        /// The folder.
        path: String,
        /// What is there.
        found: String,
    },
    /// A safetensors file alone, which was not made of a whole checkpoint.
    #[error("a safetensors file that does not say what its model is: it needs its config.json")]
    NoSettings,
    /// The index of a checkpoint names a file that is not beside it.
    #[error("model.safetensors.index.json names {name}, which is not beside it")]
    MissingShard {
        /// The file.
        name: String,
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
        /// The version found.
        found: u32,
    },
    /// A GGUF file for processors of the other byte order.
    #[error("a big-endian GGUF file; little-endian ones are read")]
    BigEndian,
    /// One of the files that a model is split into, under a name that does not tell the others'.
    #[error(
        "a part of a GGUF file that is split into {parts}; named NAME-00001-of-{parts:05}.gguf and so on they are read together, and `gguf-split --merge` makes one of them"
    )]
    SplitGguf {
        /// How many there are.
        parts: u64,
    },
    /// One of the files that a GGUF model is split into is not there.
    #[error("{name}, a part of this model, is not beside it")]
    MissingPart {
        /// The file.
        name: String,
    },
    /// Bytes between two tensors, or behind the last, that belong to none: what is stored is not what is declared.
    #[error("{bytes} bytes behind tensor {name} belong to no tensor: its type or shape is not as declared")]
    Gap {
        /// The tensor before them.
        name: String,
        /// How many they are.
        bytes: u64,
    },
    /// The file ends before what it announces.
    #[error("{what} at byte {offset} needs {needed} bytes, {remaining} remain")]
    Truncated {
        /// What was being read.
        what: String,
        /// Where it starts, in bytes from the beginning.
        offset: u64,
        /// How many bytes it claims.
        needed: u64,
        /// How many bytes the file still has.
        remaining: u64,
    },
    /// Two tensors claim the same bytes.
    #[error("tensor {name} begins at byte {offset}, before the one ahead of it has ended at {end}")]
    Overlap {
        /// The tensor that begins too early.
        name: String,
        /// Where it begins, in bytes from the beginning.
        offset: u64,
        /// Where the tensor before it ends.
        end: u64,
    },
    /// The weights do not fit into the memory that is left.
    #[error("no memory for {what} of {needed} bytes")]
    OutOfMemory {
        /// What was to be stored.
        what: String,
        /// Its size in bytes.
        needed: u64,
    },
    /// A loader that has already failed was used again.
    #[error("loading has already failed")]
    AfterFailure,
    /// A count, length or size beyond what any real file holds.
    #[error("{what} is {found}, more than the limit of {limit}")]
    OverLimit {
        /// What was counted.
        what: String,
        /// The value found.
        found: u64,
        /// The largest value accepted.
        limit: u64,
    },
    /// A byte sequence that should be UTF-8 is not.
    #[error("{what} at byte {offset} is not UTF-8")]
    NotUtf8 {
        /// What was being read.
        what: String,
        /// Where it starts, in bytes from the beginning.
        offset: u64,
    },
    /// A GGUF metadata value of an unknown type.
    #[error("metadata {key}: unknown value type {code}")]
    MetadataTypeCode {
        /// The metadata key.
        key: String,
        /// The type code found.
        code: u32,
    },
    /// The same metadata key or tensor name occurs twice.
    #[error("{name} is defined twice")]
    Duplicate {
        /// The repeated name.
        name: String,
    },
    /// A required setting is absent.
    #[error("setting {key} is missing")]
    MissingSetting {
        /// GGUF metadata key or name of the field in `config.json`.
        key: String,
    },
    /// A setting has a value that makes no sense (wrong type, zero, not finite, …).
    #[error("setting {key} is {found}, expected {expected}")]
    InvalidSetting {
        /// GGUF metadata key or name of the field in `config.json`.
        key: String,
        /// The value found.
        found: String,
        /// What would have been accepted.
        expected: &'static str,
    },
    /// A setting asks for something that this crate does not compute. Refused rather than ignored:
    /// ignoring it would give wrong logits.
    #[error("{what} {found} is not supported")]
    Unsupported {
        /// The feature.
        what: &'static str,
        /// The value found.
        found: String,
    },
    /// A model with an encoder, which is no [`Model`](crate::Model).
    #[error(
        "{found} is an encoder-decoder: EncoderDecoder::open loads it, Model::open loads models without an encoder"
    )]
    EncoderDecoder {
        /// Its `model_type` or `general.architecture`.
        found: String,
    },
    /// A setting that nobody here knows. Refused rather than ignored: it may change what is to be computed.
    #[error("setting {key} = {found} is not known here; ignoring it could give wrong logits")]
    UnknownSetting {
        /// GGUF metadata key or name of the field in `config.json`.
        key: String,
        /// Its value.
        found: String,
    },
    /// `config.json` is not JSON, or not of the expected form.
    #[error("config.json: {0}")]
    Config(#[from] serde_json::Error),
    /// The safetensors container itself is malformed.
    #[error("safetensors: {0}")]
    Safetensors(#[from] safetensors::SafeTensorError),
    /// A weight is absent.
    #[error("tensor {name} is missing")]
    MissingTensor {
        /// The name looked for.
        name: String,
    },
    /// A weight has another shape than the settings imply.
    #[error("tensor {name} has shape {found:?}, expected {expected:?}")]
    TensorShape {
        /// The tensor.
        name: String,
        /// Shape expected, outermost dimension first.
        expected: Vec<usize>,
        /// Shape found, outermost dimension first.
        found: Vec<u64>,
    },
    /// A weight is stored in a type that this crate cannot compute with.
    #[error("tensor {name} has element type {dtype}, which is not supported")]
    TensorType {
        /// The tensor.
        name: String,
        /// The element type, by name or by its GGUF code.
        dtype: String,
    },
    /// Rows of a quantized weight do not consist of whole blocks.
    #[error("tensor {name}: rows of {columns} elements are not whole blocks of {block}")]
    PartialBlock {
        /// The tensor.
        name: String,
        /// Elements per row.
        columns: usize,
        /// Elements per block of its type.
        block: usize,
    },
    /// The file holds a weight that the architecture, as implemented, has no use for. Refused,
    /// because leaving it out would give wrong logits.
    #[error("tensor {name} is not part of the architecture as implemented")]
    UnexpectedTensor {
        /// The tensor.
        name: String,
    },
    /// A vocabulary from which no tokenizer is made here.
    #[error("{found} is not known here: its tokenizer.json is needed")]
    NoTokenizer {
        /// What is there.
        found: String,
    },
    /// `tokenizer.json` could not be understood.
    #[error("tokenizer.json: {0}")]
    Tokenizer(String),
}

/// Why a forward pass was refused. No cache has changed when one is returned.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// A token id outside the vocabulary.
    #[error("chunk {chunk}: token {token} at index {index} is outside the vocabulary of {vocab_size}")]
    TokenOutOfRange {
        /// Which chunk of the batch.
        chunk: usize,
        /// Which of its tokens.
        index: usize,
        /// The id.
        token: u32,
        /// Ids are below this.
        vocab_size: usize,
    },
    /// The tokens do not fit behind what the cache already holds.
    #[error("chunk {chunk}: {cached} cached and {added} new tokens exceed the context of {context_length}")]
    ContextExceeded {
        /// Which chunk of the batch.
        chunk: usize,
        /// Tokens in the cache.
        cached: usize,
        /// Tokens to be added.
        added: usize,
        /// Tokens the model was made for.
        context_length: usize,
    },
    /// Wanted positions must be strictly ascending indices into the chunk's tokens.
    #[error("chunk {chunk}: position {position} is out of order or not below {tokens}")]
    Position {
        /// Which chunk of the batch.
        chunk: usize,
        /// The offending position.
        position: usize,
        /// Number of tokens in the chunk.
        tokens: usize,
    },
    /// A branch that leaves no line there, has no tokens, or belongs to a model that reads none.
    #[error("chunk {chunk}: branch {branch} leaves no line of the text that can be read")]
    Branch {
        /// Which chunk of the batch.
        chunk: usize,
        /// Which of the branches of its cache, counted from 1.
        branch: usize,
    },
    /// There is no memory for the KV cache. What was there stays.
    #[error("there is no memory for {needed} bytes of a KV cache")]
    OutOfMemory {
        /// Bytes that were asked for.
        needed: usize,
    },
    /// A source without a token: nothing to attend to.
    #[error("source {source_index} has no tokens")]
    EmptySource {
        /// Which of the sources.
        source_index: usize,
    },
    /// The source was encoded by a model of another shape.
    #[error("chunk {chunk}: the source belongs to a model of another shape")]
    SourceMismatch {
        /// Which chunk of the batch.
        chunk: usize,
    },
    /// The cache was made by a model of another shape.
    #[error("chunk {chunk}: the cache belongs to a model of another shape")]
    CacheMismatch {
        /// Which chunk of the batch.
        chunk: usize,
    },
}

/// Why text could not be turned into tokens.
#[derive(Debug, thiserror::Error)]
#[error("encoding failed: {0}")]
pub struct EncodeError(pub(crate) String);

/// A setting that makes no sense.
pub(crate) fn invalid(key: &str, found: impl ToString, expected: &'static str) -> LoadError {
    LoadError::InvalidSetting { key: key.to_owned(), found: found.to_string(), expected }
}
