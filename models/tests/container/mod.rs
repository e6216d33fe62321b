//! Writers of GGUF and safetensors files, from the specifications alone: what is read is not what wrote it.

/// A GGUF file in the making.
pub struct Gguf {
    metadata: Vec<u8>,
    metadata_count: u64,
    directory: Vec<Vec<u8>>,
    data: Vec<u8>,
}

impl Gguf {
    pub fn new() -> Self {
        Self { metadata: Vec::new(), metadata_count: 0, directory: Vec::new(), data: Vec::new() }
    }

    /// A metadata entry: its type's code and its value's bytes.
    pub fn entry(&mut self, key: &str, code: u32, value: &[u8]) -> &mut Self {
        self.metadata.extend([&text(key), code.to_le_bytes().as_slice(), value].concat());
        self.metadata_count += 1;
        self
    }

    pub fn u32(&mut self, key: &str, value: u32) -> &mut Self {
        self.entry(key, 4, &value.to_le_bytes())
    }

    pub fn f32(&mut self, key: &str, value: f32) -> &mut Self {
        self.entry(key, 6, &value.to_le_bytes())
    }

    pub fn text(&mut self, key: &str, value: &str) -> &mut Self {
        self.entry(key, 8, &text(value))
    }

    /// A tensor of this type code; `shape` is outermost dimension first. Its data goes to the next multiple of 32.
    pub fn tensor(&mut self, name: &str, shape: &[u64], code: u32, data: &[u8]) -> &mut Self {
        let offset = self.data.len() as u64;
        self.placed(name, shape, code, offset);
        self.data.extend(data);
        self.data.resize(self.data.len().next_multiple_of(32), 0);
        self
    }

    /// An entry of the directory, without data.
    pub fn placed(&mut self, name: &str, shape: &[u64], code: u32, offset: u64) -> &mut Self {
        let dimensions = shape.iter().rev().flat_map(|n| n.to_le_bytes()).collect::<Vec<u8>>();
        let count = (shape.len() as u32).to_le_bytes();
        self.directory.push(
            [text(name), count.to_vec(), dimensions, code.to_le_bytes().to_vec(), offset.to_le_bytes().to_vec()]
                .concat(),
        );
        self
    }

    /// Data that no tensor has.
    pub fn gap(&mut self, bytes: usize) -> &mut Self {
        self.data.resize(self.data.len() + bytes, 0xff);
        self
    }

    /// The same tensors in so many files; all metadata in the first.
    pub fn split(self, parts: usize) -> Vec<Self> {
        let each = self.directory.len().div_ceil(parts);
        let offset = |entry: &[u8]| u64::from_le_bytes(entry[entry.len() - 8..].try_into().unwrap()) as usize;
        let mut starts: Vec<usize> = self.directory.iter().map(|entry| offset(entry)).collect();
        starts.push(self.data.len());
        let mut files = Vec::new();
        for first in (0..self.directory.len()).step_by(each) {
            let end = self.directory.len().min(first + each);
            let mut file = Self::new();
            file.data = self.data[starts[first]..starts[end]].to_vec();
            for entry in &self.directory[first..end] {
                let moved = (offset(entry) - starts[first]) as u64;
                file.directory.push([&entry[..entry.len() - 8], &moved.to_le_bytes()].concat());
            }
            files.push(file);
        }
        files[0].metadata = self.metadata;
        files[0].metadata_count = self.metadata_count;
        files
    }

    /// The file. Its directory is in the reverse order of the data.
    pub fn finish(&self) -> Vec<u8> {
        let directory = self.directory.iter().rev().flatten().copied().collect::<Vec<u8>>();
        let counts = [(self.directory.len() as u64).to_le_bytes(), self.metadata_count.to_le_bytes()].concat();
        let mut file = [b"GGUF\x03\0\0\0", &counts[..], &self.metadata, &directory].concat();
        file.resize(file.len().next_multiple_of(32), 0);
        // The file may be large: no second copy of its data beside `self`.
        file.reserve_exact(self.data.len());
        file.extend(&self.data);
        file
    }
}

/// A string as GGUF writes it.
pub fn text(value: &str) -> Vec<u8> {
    [&(value.len() as u64).to_le_bytes(), value.as_bytes()].concat()
}

/// Shape of a model with arbitrary weights. Every matrix has rows of whole blocks if the widths are multiples of 256.
#[derive(Clone, Copy)]
pub struct Shape {
    pub vocab: u64,
    pub hidden: u64,
    pub inner: u64,
    pub layers: u64,
    /// Query heads; there are half as many key heads.
    pub heads: u64,
}

/// The type of a file's elements: its GGUF code, and elements and bytes of a block.
pub type Element = (u32, u64, u64);

pub const F32: Element = (0, 1, 4);

impl Shape {
    /// Name and shape of every tensor, as GGUF files have them; a tied head.
    fn tensors(&self) -> Vec<(String, Vec<u64>)> {
        let Self { vocab, hidden, inner, .. } = *self;
        let mut tensors = vec![("token_embd".to_owned(), vec![vocab, hidden])];
        for layer in 0..self.layers {
            let parts: [(&str, &[u64]); 9] = [
                ("attn_norm", &[hidden]),
                ("attn_q", &[hidden, hidden]),
                ("attn_k", &[hidden / 2, hidden]),
                ("attn_v", &[hidden / 2, hidden]),
                ("attn_output", &[hidden, hidden]),
                ("ffn_norm", &[hidden]),
                ("ffn_gate", &[inner, hidden]),
                ("ffn_up", &[inner, hidden]),
                ("ffn_down", &[hidden, inner]),
            ];
            tensors.extend(parts.map(|(part, shape)| (format!("blk.{layer}.{part}"), shape.to_vec())));
        }
        tensors.push(("output_norm".to_owned(), vec![hidden]));
        tensors
    }

    /// A GGUF file whose matrices are of this type: arbitrary bytes, but f32 elements are small numbers.
    pub fn gguf(&self, element: Element) -> Gguf {
        let mut file = Gguf::new();
        file.text("general.architecture", "llama")
            .u32("llama.embedding_length", self.hidden as u32)
            .u32("llama.feed_forward_length", self.inner as u32)
            .u32("llama.block_count", self.layers as u32)
            .u32("llama.attention.head_count", self.heads as u32)
            .u32("llama.attention.head_count_kv", self.heads as u32 / 2)
            .u32("llama.context_length", 64)
            .f32("llama.attention.layer_norm_rms_epsilon", 1e-5);
        let mut seed = 1;
        for (name, shape) in self.tensors() {
            let (code, block_len, block_bytes) = if shape.len() == 1 { F32 } else { element };
            let count = shape.iter().product::<u64>() / block_len * block_bytes;
            let data = if code == F32.0 { small_numbers(count / 4, &mut seed) } else { noise(count, &mut seed) };
            file.tensor(&format!("{name}.weight"), &shape, code, &data);
        }
        file
    }

    /// `config.json` and `model.safetensors` with f32, f16 or bf16 matrices.
    pub fn safetensors(&self, dtype: &str) -> (Vec<u8>, Vec<u8>) {
        let config = format!(
            r#"{{"model_type": "llama", "hidden_act": "silu", "vocab_size": {}, "hidden_size": {},
                "intermediate_size": {}, "num_hidden_layers": {}, "num_attention_heads": {},
                "num_key_value_heads": {}, "max_position_embeddings": 64, "rms_norm_eps": 1e-5,
                "tie_word_embeddings": true}}"#,
            self.vocab,
            self.hidden,
            self.inner,
            self.layers,
            self.heads,
            self.heads / 2,
        );
        let size = if dtype == "F32" { 4 } else { 2 };
        let (mut header, mut data, mut seed) = (Vec::new(), Vec::new(), 1);
        for (name, shape) in self.tensors() {
            let start = data.len();
            let count = shape.iter().product::<u64>();
            data.extend(if size == 4 { small_numbers(count, &mut seed) } else { noise(2 * count, &mut seed) });
            header.push(format!(
                r#""{}.weight": {{"dtype": "{dtype}", "shape": {shape:?}, "data_offsets": [{start}, {}]}}"#,
                hugging_face(&name),
                data.len(),
            ));
        }
        let header = format!("{{{}}}", header.join(", "));
        (config.into_bytes(), [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &data].concat())
    }
}

/// The name that Hugging Face gives a tensor, by the one that GGUF gives it.
fn hugging_face(name: &str) -> String {
    let parts = [
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
    parts.iter().fold(name.to_owned(), |name, (from, to)| name.replace(from, to))
}

/// Pseudo-random bits.
pub fn random(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *seed >> 33
}

fn noise(bytes: u64, seed: &mut u64) -> Vec<u8> {
    (0..bytes.div_ceil(3)).flat_map(|_| random(seed).to_le_bytes()[..3].to_vec()).take(bytes as usize).collect()
}

fn small_numbers(count: u64, seed: &mut u64) -> Vec<u8> {
    (0..count).flat_map(|_| (random(seed) as f32 / 1e10 - 0.1).to_le_bytes()).collect()
}

/// A safetensors file with a `config.json` among its header's texts.
pub fn with_settings(config: &[u8], file: &[u8]) -> Vec<u8> {
    let (length, rest) = file.split_first_chunk().unwrap();
    let (header, data) = rest.split_at(u64::from_le_bytes(*length) as usize);
    let mut header: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(header).unwrap();
    let config = str::from_utf8(config).unwrap();
    header.insert("__metadata__".to_owned(), serde_json::json!({ "config.json": config }));
    let header = serde_json::to_vec(&header).unwrap();
    [&(header.len() as u64).to_le_bytes()[..], &header, data].concat()
}
