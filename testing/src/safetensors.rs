//! Safetensors files, from the specification alone, and the names that checkpoints give to tensors.
//!
//! ```text
//! length:u64, header as JSON { name: { dtype, shape, data_offsets } }, data without gaps
//! ```

use serde_json::{Map, Value, json};

/// A safetensors file in the making.
#[derive(Debug, Clone, Default)]
pub struct Safetensors {
    /// Entries of the header, by name.
    pub header: Map<String, Value>,
    end: u64,
    data: Vec<u8>,
}

impl Safetensors {
    /// Takes a file apart: its header, and where its data begins.
    pub fn header_of(file: &[u8]) -> (Map<String, Value>, usize) {
        let (length, rest) = file.split_first_chunk().unwrap();
        let length = u64::from_le_bytes(*length) as usize;
        (serde_json::from_slice(&rest[..length]).unwrap(), 8 + length)
    }

    /// Adds a tensor with its data; `shape` is outermost dimension first.
    pub fn tensor(&mut self, name: &str, dtype: &str, shape: &[u64], data: &[u8]) -> &mut Self {
        self.data.extend(data);
        self.entry(name, dtype, shape, data.len() as u64)
    }

    /// Adds a tensor whose data of `bytes` is written after the header.
    pub fn entry(&mut self, name: &str, dtype: &str, shape: &[u64], bytes: u64) -> &mut Self {
        let offsets = [self.end, self.end + bytes];
        self.header.insert(name.to_owned(), json!({ "dtype": dtype, "shape": shape, "data_offsets": offsets }));
        self.end += bytes;
        self
    }

    /// Length and header of the file, filled up with spaces so that the data begins at a multiple of `alignment`.
    pub fn head(&self, alignment: usize) -> Vec<u8> {
        let mut header = serde_json::to_vec(&self.header).unwrap();
        header.resize((8 + header.len()).next_multiple_of(alignment) - 8, b' ');
        [&(header.len() as u64).to_le_bytes()[..], &header].concat()
    }

    /// Bytes of the whole file, unaligned.
    pub fn finish(&self) -> Vec<u8> {
        [&self.head(1)[..], &self.data].concat()
    }
}

/// A safetensors file with a `config.json` among its header's texts.
pub fn with_settings(config: &[u8], file: &[u8]) -> Vec<u8> {
    let (mut header, start) = Safetensors::header_of(file);
    let config = str::from_utf8(config).unwrap();
    header.insert("__metadata__".to_owned(), json!({ "config.json": config }));
    [&Safetensors { header, ..Safetensors::default() }.head(1)[..], &file[start..]].concat()
}

/// Parts of the names of a Llama's tensors in GGUF files and in checkpoints.
const NAMES: [(&str, &str); 12] = [
    ("token_embd", "model.embed_tokens"),
    ("output_norm", "model.norm"),
    ("blk.", "model.layers."),
    ("attn_norm", "input_layernorm"),
    ("attn_q", "self_attn.q_proj"),
    ("attn_k", "self_attn.k_proj"),
    ("attn_v", "self_attn.v_proj"),
    ("attn_output", "self_attn.o_proj"),
    ("ffn_norm", "post_attention_layernorm"),
    ("ffn_gate", "mlp.gate_proj"),
    ("ffn_up", "mlp.up_proj"),
    ("ffn_down", "mlp.down_proj"),
];

/// Name of a Llama's tensor in a checkpoint, from its name in a GGUF file.
pub fn checkpoint_name(gguf: &str) -> String {
    let gguf = if gguf == "output.weight" { "lm_head.weight" } else { gguf };
    NAMES.iter().fold(gguf.to_owned(), |name, (from, to)| name.replace(from, to))
}
