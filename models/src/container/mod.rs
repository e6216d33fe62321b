//! Untrusted files of weights.
//!
//! Containers are read as a stream, in one pass: the header states the position of each tensor, the model selects those
//! that it needs, and their bytes are copied to their final place.
//!
//! | file | contents |
//! |---|---|
//! | `element` | element types of weights |
//! | `gguf`, `gguf_fields` | header of a GGUF file |
//! | `gguf_parts` | GGUF models in several files |
//! | `gguf_pre_tokenizer` | pre-tokenizers that GGUF files name |
//! | `gguf_vocabulary` | vocabulary of a GGUF file, and its conversion to a tokenizer |
//! | `safetensors` | header of a Hugging Face checkpoint |
//! | `checkpoint` | files of a checkpoint, and their combination into one |
//! | `file` | detection of a file's format |
//! | `other_kind` | recognition of files that are no model |
//! | `plan` | assignment of bytes to weights |
//! | `parts` | interface of matrix builders, and loaded weights |
//! | `filling` | transfer of bytes to their final place |
//! | `mxfp4` | experts of gpt-oss in one tensor |
//! | `stream` | container as a stream, from first byte to last |
//! | `read` | whole files, from a reader or a path |
//! | `stored` | weights in the form of their file |
//! | `random` | random weights, for benchmarks |
//! | `heads` | file of linear heads on a draft's hidden state |

#[cfg(not(target_arch = "wasm32"))]
pub(crate) mod checkpoint;
pub(crate) mod element;
pub(crate) mod file;
mod filling;
pub(crate) mod gguf;
mod gguf_fields;
#[cfg(not(target_arch = "wasm32"))]
pub(crate) mod gguf_parts;
mod gguf_pre_tokenizer;
pub(crate) mod gguf_vocabulary;
pub(crate) mod heads;
mod mxfp4;
mod other_kind;
pub(crate) mod parts;
mod plan;
pub(crate) mod random;
pub(crate) mod read;
pub(crate) mod safetensors;
pub(crate) mod stored;
pub(crate) mod stream;
