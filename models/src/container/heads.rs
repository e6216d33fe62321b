//! Linear heads on a draft model's last hidden state, as a small safetensors file.
//!
//! | tensor | shape, F32 | what |
//! |---|---|---|
//! | `gate.weight`, `gate.bias` | `[hidden_size]`, `[1]` | SPRINTER's gate: may a token pass unverified? |
//! | `stop.weight`, `stop.bias` | `[hidden_size]`, `[1]` | SpecDec++'s head: will a token be accepted? |
//! | `gate.token`, `stop.token` | `[3]` | weights of the drawn token x, if the head sees it: ln q(x), H(q), max q |
//!
//! A file has one of them or both. Its metadata are strings, as safetensors demands: the draft that the heads belong
//! to (`hidden_size`, `vocab_size`, `tokenizer`: the tokenizer's fingerprint in hexadecimal), the sampling that the
//! labels were drawn at (`temperature`, `top_k`, `top_p`), `lambda`, `tau`, and how the gate did on texts it had not
//! seen (`auc`, `eta_tp`, `eta_fp`). Other keys are notes. The heads are applied where decisions are made, in
//! `outrider-speculation`; here they are numbers.

use std::{
    collections::{BTreeMap, HashMap},
    fmt::Write,
    str::FromStr,
};

use safetensors::{Dtype, SafeTensorError, SafeTensors};

#[cfg(feature = "tokenizers")]
use crate::{family::config::ModelConfig, tokenizer::Tokenizer};

/// The numbers of σ(w·h + b).
#[derive(Debug, Clone, PartialEq)]
pub struct LinearHead {
    /// w, one for each element of the hidden state.
    pub weights: Vec<f32>,
    /// b.
    pub bias: f32,
    /// Weights of what it sees of the drawn token: ln q(x), H(q) in nats and max q, with q = S(draft). Empty if it does
    /// not see the token.
    pub token: Vec<f32>,
}

/// What a file of heads holds.
#[derive(Debug, Clone, PartialEq)]
pub struct HeadsFile {
    /// SPRINTER's gate.
    pub gate: Option<LinearHead>,
    /// SpecDec++'s head.
    pub stop: Option<LinearHead>,
    /// What they belong to, and how they were trained.
    pub metadata: HeadsMetadata,
}

/// What heads belong to, and how they were trained.
#[derive(Debug, Clone, PartialEq)]
pub struct HeadsMetadata {
    /// Width of the draft's hidden state.
    pub hidden_size: usize,
    /// Tokens of the draft's vocabulary.
    pub vocab_size: usize,
    /// [`Tokenizer::fingerprint`] of the pair.
    pub tokenizer: [u8; 32],
    /// Temperature of the sampling that the labels were drawn at.
    pub temperature: f32,
    /// Its top-k; 0 keeps all.
    pub top_k: u32,
    /// Its top-p.
    pub top_p: f32,
    /// λ: a token counts as acceptable if q ≤ λ·p.
    pub lambda: f64,
    /// τ: the gate passes a token at this score and above.
    pub tau: f64,
    /// Area under the gate's ROC curve, on texts that it was not trained on.
    pub auc: f64,
    /// η_TP at τ: how often the gate passes an acceptable token.
    pub eta_tp: f64,
    /// η_FP at τ: how often it passes one that is not.
    pub eta_fp: f64,
    /// Whatever else the file says.
    pub notes: BTreeMap<String, String>,
}

/// Why a file of heads cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HeadsError {
    /// The safetensors container itself is malformed.
    #[error("safetensors: {0}")]
    Container(#[from] SafeTensorError),
    /// The file holds no head.
    #[error("the file holds neither a gate nor a stop head")]
    Empty,
    /// A head has a weight and no bias, or a bias and no weight.
    #[error("tensor {name} is missing")]
    MissingTensor {
        /// The name looked for.
        name: String,
    },
    /// A tensor that is no part of a head.
    #[error("tensor {name} is no part of a head")]
    UnexpectedTensor {
        /// The tensor.
        name: String,
    },
    /// A tensor of another shape than the metadata imply.
    #[error("tensor {name} has shape {found:?}, expected [{expected}]")]
    TensorShape {
        /// The tensor.
        name: String,
        /// Its only dimension, as expected.
        expected: usize,
        /// Its shape.
        found: Vec<usize>,
    },
    /// A tensor that is not F32.
    #[error("tensor {name} has element type {dtype}, expected F32")]
    TensorType {
        /// The tensor.
        name: String,
        /// Its element type.
        dtype: String,
    },
    /// A number that is NaN or infinite.
    #[error("tensor {name} is not finite at {index}")]
    NotFinite {
        /// The tensor.
        name: String,
        /// The first such element.
        index: usize,
    },
    /// A key of the metadata is absent.
    #[error("metadata {key} is missing")]
    MissingKey {
        /// The key.
        key: &'static str,
    },
    /// A key of the metadata has a value that makes no sense.
    #[error("metadata {key} is {found:?}, expected {expected}")]
    InvalidKey {
        /// The key.
        key: &'static str,
        /// Its value.
        found: String,
        /// What would have been accepted.
        expected: &'static str,
    },
    /// The heads were trained for another draft.
    #[error("the heads belong to a draft with {what} {heads}, this one has {draft}")]
    OtherDraft {
        /// What differs.
        what: &'static str,
        /// As the file says.
        heads: String,
        /// As the draft says.
        draft: String,
    },
}

impl HeadsFile {
    /// Reads the bytes of a file of heads.
    ///
    /// # Errors
    /// Any bytes give heads or a [`HeadsError`], never a panic; nothing is allocated that the bytes do not hold.
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

    /// The bytes of the file. The same heads and metadata give the same bytes: the safetensors crate would write the
    /// metadata in another order each time, so the container, which is a length, a JSON header and the numbers, is
    /// written here.
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
    /// [`HeadsError::OtherDraft`] says what differs. Two drafts that differ in their weights only are not told apart.
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

    /// Rust prints the shortest decimals that are read back as the same number.
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
/// Numbers of a token that a head may weigh.
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

/// One of the heads, if any of its tensors is there.
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

/// The bytes that 64 hexadecimal digits stand for.
fn bytes_of(text: &str) -> Option<[u8; 32]> {
    let digits: Vec<u8> = text.chars().map(|c| c.to_digit(16).map(|digit| digit as u8)).collect::<Option<_>>()?;
    let (pairs, rest) = digits.as_chunks::<2>();
    let bytes: Vec<u8> = pairs.iter().map(|[high, low]| high << 4 | low).collect();
    if rest.is_empty() { bytes.try_into().ok() } else { None }
}
