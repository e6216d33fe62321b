//! Linear heads on a draft model's last hidden state, as a small safetensors file.
//!
//! | tensor | shape, F32 | meaning |
//! |---|---|---|
//! | `gate.weight`, `gate.bias` | `[hidden_size]`, `[1]` | SPRINTER's gate: may a token pass unverified? |
//! | `stop.weight`, `stop.bias` | `[hidden_size]`, `[1]` | SpecDec++'s head: will a token be accepted? |
//! | `gate.token`, `stop.token` | `[3]` | optional weights of features of the drawn token x: ln q(x), H(q), max q |
//!
//! A file has one or both heads. Metadata values are strings, as safetensors requires. They state the draft model
//! (`hidden_size`, `vocab_size`, and `tokenizer`, the hexadecimal fingerprint), the sampling of the labels
//! (`temperature`, `top_k`, `top_p`), `lambda`, `tau`, and the gate's quality on held-out texts (`auc`, `eta_tp`,
//! `eta_fp`). Other keys are notes. `outrider-speculation` applies the heads; here they are only numbers.

use std::{
    collections::{BTreeMap, HashMap},
    fmt::Write,
    str::FromStr,
};

use safetensors::{Dtype, SafeTensorError, SafeTensors};

#[cfg(feature = "tokenizers")]
use crate::{family::config::ModelConfig, tokenizer::Tokenizer};

/// Parameters of a linear classifier σ(w·h + b).
#[derive(Debug, Clone, PartialEq)]
pub struct LinearHead {
    /// Weights w, one per element of the hidden state.
    pub weights: Vec<f32>,
    /// Bias b of the classifier.
    pub bias: f32,
    /// Weights of features of the drawn token: ln q(x), H(q) in nats and max q, with q = S(draft). Empty if the head
    /// does not use them.
    pub token: Vec<f32>,
}

/// Contents of a heads file.
#[derive(Debug, Clone, PartialEq)]
pub struct HeadsFile {
    /// Gate of SPRINTER, if present.
    pub gate: Option<LinearHead>,
    /// Stop head of SpecDec++, if present.
    pub stop: Option<LinearHead>,
    /// Draft model of the heads, and their training.
    pub metadata: HeadsMetadata,
}

/// Draft model of the heads, and their training.
#[derive(Debug, Clone, PartialEq)]
pub struct HeadsMetadata {
    /// Width of the draft's hidden state.
    pub hidden_size: usize,
    /// Vocabulary size of the draft.
    pub vocab_size: usize,
    /// Tokenizer of the draft and target, by [`Tokenizer::fingerprint`].
    pub tokenizer: [u8; 32],
    /// Temperature at which the labels were sampled.
    pub temperature: f32,
    /// Top-k at which the labels were sampled; 0 keeps all tokens.
    pub top_k: u32,
    /// Top-p at which the labels were sampled.
    pub top_p: f32,
    /// Threshold λ: a token counts as acceptable if q ≤ λ·p.
    pub lambda: f64,
    /// Threshold τ: the gate passes a token if its score is at least τ.
    pub tau: f64,
    /// Area under the gate's ROC curve, on held-out texts.
    pub auc: f64,
    /// True-positive rate η_TP at τ: fraction of acceptable tokens that the gate passes.
    pub eta_tp: f64,
    /// False-positive rate η_FP at τ: fraction of other tokens that the gate passes.
    pub eta_fp: f64,
    /// Other metadata of the file, by key.
    pub notes: BTreeMap<String, String>,
}

/// Errors from reading a heads file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HeadsError {
    /// The safetensors container is malformed.
    #[error("safetensors: {0}")]
    Container(#[from] SafeTensorError),
    /// The file holds no head.
    #[error("the file holds neither a gate nor a stop head")]
    Empty,
    /// A head lacks its weight or its bias.
    #[error("tensor {name} is missing")]
    MissingTensor {
        /// Name of the missing tensor.
        name: String,
    },
    /// The file has a tensor that is not part of a head.
    #[error("tensor {name} is no part of a head")]
    UnexpectedTensor {
        /// Name of the unexpected tensor.
        name: String,
    },
    /// A tensor's shape differs from the one that the metadata imply.
    #[error("tensor {name} has shape {found:?}, expected [{expected}]")]
    TensorShape {
        /// Name of the mismatched tensor.
        name: String,
        /// Expected size of its only dimension.
        expected: usize,
        /// Shape found in the file.
        found: Vec<usize>,
    },
    /// A tensor's element type is not F32.
    #[error("tensor {name} has element type {dtype}, expected F32")]
    TensorType {
        /// Name of the mismatched tensor.
        name: String,
        /// Element type in the file.
        dtype: String,
    },
    /// A weight is NaN or infinite.
    #[error("tensor {name} is not finite at {index}")]
    NotFinite {
        /// Name of the invalid tensor.
        name: String,
        /// Index of the first such element.
        index: usize,
    },
    /// A required metadata key is missing.
    #[error("metadata {key} is missing")]
    MissingKey {
        /// Name of the missing key.
        key: &'static str,
    },
    /// A metadata key has an invalid value.
    #[error("metadata {key} is {found:?}, expected {expected}")]
    InvalidKey {
        /// Name of the metadata key.
        key: &'static str,
        /// Value found in the file.
        found: String,
        /// Description of accepted values.
        expected: &'static str,
    },
    /// The heads were trained for another draft model.
    #[error("the heads belong to a draft with {what} {heads}, this one has {draft}")]
    OtherDraft {
        /// Property that differs.
        what: &'static str,
        /// Value in the heads file.
        heads: String,
        /// Value of the draft model.
        draft: String,
    },
}

impl HeadsFile {
    /// Parses the bytes of a heads file.
    ///
    /// # Errors
    /// Any bytes give heads or a [`HeadsError`], never a panic; allocations are bounded by the input.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, HeadsError> {
        let (_, header) = SafeTensors::read_metadata(bytes)?;
        let tensors = SafeTensors::deserialize(bytes)?;
        let metadata = HeadsMetadata::parse(header.metadata().clone().unwrap_or_default())?;
        let expected = [GATE, STOP].map(|head| [weight(head), bias(head), token(head)]).concat();
        if let Some(name) = tensors.names().into_iter().find(|name| !expected.iter().any(|n| n == name)) {
            return Err(HeadsError::UnexpectedTensor { name: name.to_owned() });
        }
        let (gate, stop) = (head(&tensors, GATE, &metadata)?, head(&tensors, STOP, &metadata)?);
        if gate.is_none() && stop.is_none() {
            return Err(HeadsError::Empty);
        }
        Ok(Self { gate, stop, metadata })
    }

    /// Serializes the file. Equal heads and metadata give equal bytes. The safetensors crate would write the metadata
    /// in varying order, so the container (length, JSON header, numbers) is written here.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut header = serde_json::Map::new();
        header.insert("__metadata__".to_owned(), serde_json::json!(self.metadata.strings()));
        let mut data: Vec<u8> = Vec::new();
        for (name, head) in [(GATE, &self.gate), (STOP, &self.stop)] {
            let Some(head) = head else { continue };
            let tensors =
                [(weight(name), &head.weights[..]), (bias(name), &[head.bias]), (token(name), &head.token[..])];
            for (name, numbers) in tensors.into_iter().filter(|(_, numbers)| !numbers.is_empty()) {
                let begin = data.len();
                data.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
                let tensor =
                    serde_json::json!({"dtype": "F32", "shape": [numbers.len()], "data_offsets": [begin, data.len()]});
                header.insert(name, tensor);
            }
        }
        let mut header = serde_json::Value::Object(header).to_string().into_bytes();
        header.resize(header.len().next_multiple_of(8), b' ');
        [&(header.len() as u64).to_le_bytes()[..], &header, &data].concat()
    }

    /// Checks that the heads were trained for a draft of this shape and vocabulary.
    ///
    /// # Errors
    /// [`HeadsError::OtherDraft`] names the difference. Drafts that differ only in their weights are not distinguished.
    #[cfg(feature = "tokenizers")]
    pub fn check_draft(&self, config: &ModelConfig, tokenizer: &Tokenizer) -> Result<(), HeadsError> {
        let metadata = &self.metadata;
        let differs = |what, heads: &dyn std::fmt::Display, draft: &dyn std::fmt::Display| {
            Err(HeadsError::OtherDraft { what, heads: heads.to_string(), draft: draft.to_string() })
        };
        if metadata.hidden_size != config.hidden_size {
            return differs("hidden size", &metadata.hidden_size, &config.hidden_size);
        }
        if metadata.vocab_size != config.vocab_size {
            return differs("vocabulary size", &metadata.vocab_size, &config.vocab_size);
        }
        if metadata.tokenizer != tokenizer.fingerprint() {
            return differs("tokenizer", &hexadecimal(&metadata.tokenizer), &hexadecimal(&tokenizer.fingerprint()));
        }
        Ok(())
    }
}

impl HeadsMetadata {
    fn parse(strings: HashMap<String, String>) -> Result<Self, HeadsError> {
        let mut strings: BTreeMap<String, String> = strings.into_iter().collect();
        let mut take = |key| strings.remove(key).ok_or(HeadsError::MissingKey { key });
        let size = |&n: &usize| n > 0;
        let finite = |&x: &f64| x.is_finite() && x >= 0.0;
        let rate = |x: &f64| (0.0..=1.0).contains(x);
        let tokenizer = take("tokenizer")?;
        let tokenizer = bytes_of(&tokenizer).ok_or(HeadsError::InvalidKey {
            key: "tokenizer",
            found: tokenizer,
            expected: "64 hexadecimal digits",
        })?;
        Ok(Self {
            hidden_size: number("hidden_size", take("hidden_size")?, "a positive integer", size)?,
            vocab_size: number("vocab_size", take("vocab_size")?, "a positive integer", size)?,
            tokenizer,
            temperature: number("temperature", take("temperature")?, "finite, not negative", |x: &f32| {
                x.is_finite() && *x >= 0.0
            })?,
            top_k: number("top_k", take("top_k")?, "an integer", |_| true)?,
            top_p: number("top_p", take("top_p")?, "in (0, 1]", |&x: &f32| x > 0.0 && x <= 1.0)?,
            lambda: number("lambda", take("lambda")?, "finite, not negative", finite)?,
            tau: number("tau", take("tau")?, "in [0, 1]", rate)?,
            auc: number("auc", take("auc")?, "in [0, 1]", rate)?,
            eta_tp: number("eta_tp", take("eta_tp")?, "in [0, 1]", rate)?,
            eta_fp: number("eta_fp", take("eta_fp")?, "in [0, 1]", rate)?,
            notes: strings,
        })
    }

    /// Formats the metadata. Rust prints the shortest decimals that parse to the same number.
    fn strings(&self) -> BTreeMap<String, String> {
        let mut strings = self.notes.clone();
        let named: [(&str, String); 11] = [
            ("hidden_size", self.hidden_size.to_string()),
            ("vocab_size", self.vocab_size.to_string()),
            ("tokenizer", hexadecimal(&self.tokenizer)),
            ("temperature", self.temperature.to_string()),
            ("top_k", self.top_k.to_string()),
            ("top_p", self.top_p.to_string()),
            ("lambda", self.lambda.to_string()),
            ("tau", self.tau.to_string()),
            ("auc", self.auc.to_string()),
            ("eta_tp", self.eta_tp.to_string()),
            ("eta_fp", self.eta_fp.to_string()),
        ];
        strings.extend(named.map(|(key, value)| (key.to_owned(), value)));
        strings
    }
}

const GATE: &str = "gate";
const STOP: &str = "stop";
/// Number of features of the drawn token.
const TOKEN_FEATURES: usize = 3;

fn weight(head: &str) -> String {
    format!("{head}.weight")
}

fn bias(head: &str) -> String {
    format!("{head}.bias")
}

fn token(head: &str) -> String {
    format!("{head}.token")
}

/// Reads a head, if any of its tensors is present.
fn head(tensors: &SafeTensors<'_>, name: &str, metadata: &HeadsMetadata) -> Result<Option<LinearHead>, HeadsError> {
    let has = |name: &str| tensors.names().contains(&name);
    let sees = has(&token(name));
    if !has(&weight(name)) && !has(&bias(name)) && !sees {
        return Ok(None);
    }
    let weights = vector(tensors, weight(name), metadata.hidden_size)?;
    let bias = vector(tensors, bias(name), 1)?[0];
    let token = if sees { vector(tensors, token(name), TOKEN_FEATURES)? } else { Vec::new() };
    Ok(Some(LinearHead { weights, bias, token }))
}

fn vector(tensors: &SafeTensors<'_>, name: String, expected: usize) -> Result<Vec<f32>, HeadsError> {
    let Ok(tensor) = tensors.tensor(&name) else {
        return Err(HeadsError::MissingTensor { name });
    };
    if tensor.dtype() != Dtype::F32 {
        return Err(HeadsError::TensorType { name, dtype: format!("{:?}", tensor.dtype()) });
    }
    if tensor.shape() != [expected] {
        return Err(HeadsError::TensorShape { name, expected, found: tensor.shape().to_vec() });
    }
    let (words, _) = tensor.data().as_chunks();
    let numbers: Vec<f32> = words.iter().map(|&word| f32::from_le_bytes(word)).collect();
    match numbers.iter().position(|number| !number.is_finite()) {
        Some(index) => Err(HeadsError::NotFinite { name, index }),
        None => Ok(numbers),
    }
}

fn number<T: FromStr>(
    key: &'static str,
    found: String,
    expected: &'static str,
    accepted: impl FnOnce(&T) -> bool,
) -> Result<T, HeadsError> {
    match found.parse() {
        Ok(number) if accepted(&number) => Ok(number),
        _ => Err(HeadsError::InvalidKey { key, found, expected }),
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Decodes 64 hexadecimal digits.
fn bytes_of(text: &str) -> Option<[u8; 32]> {
    let digits: Vec<u8> = text.chars().map(|c| c.to_digit(16).map(|digit| digit as u8)).collect::<Option<_>>()?;
    let (pairs, rest) = digits.as_chunks::<2>();
    let bytes: Vec<u8> = pairs.iter().map(|[high, low]| high << 4 | low).collect();
    if rest.is_empty() { bytes.try_into().ok() } else { None }
}
