//! Files with weights in them, none of which is trusted.
//!
//! Containers are read as a stream that is seen once: what comes before the tensors says where each of them is, the
//! model says which it wants, and their bytes go straight to where they stay.
//!
//! | file | what it has |
//! |---|---|
//! | `element` | how elements of weights are stored |
//! | `gguf`, `gguf_fields` | what a GGUF file says before its tensors |
//! | `gguf_parts` | GGUF models in several files |
//! | `gguf_vocabulary` | the vocabulary of a GGUF file, and the tokenizer that it makes |
//! | `safetensors` | what a Hugging Face checkpoint says before its tensors |
//! | `checkpoint` | the files of one, and how they become one file |
//! | `file` | a file of which only its bytes say what it is |
//! | `plan` | which bytes become which weight |
//! | `parts` | weights on their way: what takes the bytes, what has been loaded |
//! | `filling` | bytes to where they stay |
//! | `stream` | from the first byte to the last |
//! | `read` | whole files, from a reader or a path |
//! | `stored` | weights as they stand in their file |
//! | `random` | random weights, for measurements |
//! | `heads` | the file of linear heads on a draft's hidden state |

#[cfg(not(target_arch = "wasm32"))]
pub(crate) mod checkpoint;
pub(crate) mod element;
pub(crate) mod file;
mod filling;
pub(crate) mod gguf;
mod gguf_fields;
#[cfg(not(target_arch = "wasm32"))]
pub(crate) mod gguf_parts;
pub(crate) mod gguf_vocabulary;
pub(crate) mod heads;
pub(crate) mod parts;
mod plan;
pub(crate) mod random;
pub(crate) mod read;
pub(crate) mod safetensors;
pub(crate) mod stored;
pub(crate) mod stream;
