//! Models of real shapes with random weights: what a decoder costs depends on the shape alone.
//!
//! Files go to a folder of their own and stay there. Weights are drawn so that activations keep their size: blocks of
//! uniform integers whose scale gives elements of standard deviation `0.5 / √inputs`.

use std::{
    fs::{self, File},
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

use outrider_models::{ElementType, RandomWeights};
use outrider_testing::gguf::{Gguf, Tensor};

/// Tokens of every model's context.
pub const CONTEXT: u32 = 2048;
/// Unknown, beginning and end of text, before the 256 bytes.
const SPECIAL_TOKENS: [&str; 3] = ["<unk>", "<s>", "</s>"];
/// Bytes that are drawn at a time, at most.
const DRAW: usize = 2 << 20;

/// Element types of the matrices of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Storage {
    /// The same type for all matrices.
    All(ElementType),
    /// llama.cpp's mixture of this name: Q4_K, with Q6_K for the head and where it matters most; rows that are no whole
    /// blocks of 256 in Q5_0 and Q8_0.
    Q4KM,
    /// llama.cpp's mixture of this name: like Q4_K_M with Q5_K for Q4_K and Q5_1 for Q5_0.
    Q5KM,
}

impl Storage {
    /// Name of the type in files and tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::All(element) => element.name(),
            Self::Q4KM => "Q4_K_M",
            Self::Q5KM => "Q5_K_M",
        }
    }

    /// The type of a matrix with rows of `inputs`. `matters` says where a mixture takes six bits.
    pub fn element(self, inputs: u64, matters: bool) -> ElementType {
        let whole = inputs.is_multiple_of(256);
        match self {
            Self::All(element) => element,
            Self::Q4KM | Self::Q5KM if matters && whole => ElementType::Q6_K,
            Self::Q4KM | Self::Q5KM if matters => ElementType::Q8_0,
            Self::Q4KM if whole => ElementType::Q4_K,
            Self::Q4KM => ElementType::Q5_0,
            Self::Q5KM if whole => ElementType::Q5_K,
            Self::Q5KM => ElementType::Q5_1,
        }
    }
}

/// Returns true if a mixture takes six bits in this layer for values and for the feed-forward part's output.
fn takes_more_bits(layer: u64, layers: u64) -> bool {
    let eighth = layers / 8;
    layer < eighth || layer >= 7 * layers / 8 || (layer - eighth) % 3 == 2
}

/// Parts that a model's layers have beside the matrices that all have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Architecture {
    /// No parts beside those.
    Llama,
    /// Biases of queries, keys and values.
    Qwen2,
    /// Norms of queries and keys, and after both parts of a layer.
    Gemma3,
}

impl Architecture {
    /// Name of the architecture in GGUF.
    pub fn name(self) -> &'static str {
        match self {
            Self::Llama => "llama",
            Self::Qwen2 => "qwen2",
            Self::Gemma3 => "gemma3",
        }
    }
}

/// The shape of a model.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Name in tables and file names.
    pub name: &'static str,
    pub architecture: Architecture,
    pub hidden: u64,
    pub layers: u64,
    pub heads: u64,
    pub kv_heads: u64,
    /// Number of elements of a head.
    pub head_dim: u64,
    pub feed_forward: u64,
    pub vocabulary: u64,
    /// True if the output head is the embedding table.
    pub tied: bool,
}

/// A small story model.
pub const STORIES: Shape = shape("15M", 288, 6, (6, 6), 768, (32_000, true));
/// Llama-68M, the usual draft for Llama.
pub const LLAMA_68M: Shape = shape("68M", 768, 2, (12, 12), 3072, (32_000, false));
/// Shape of SmolLM2-135M.
pub const SMOLLM2: Shape = shape("135M", 576, 30, (9, 3), 1536, (49_152, true));
/// Shape of Qwen2.5-0.5B.
pub const QWEN: Shape =
    Shape { architecture: Architecture::Qwen2, ..shape("0.5B", 896, 24, (14, 2), 4864, (151_936, true)) };
/// Shape of Qwen2.5-1.5B.
pub const LARGER_QWEN: Shape =
    Shape { architecture: Architecture::Qwen2, ..shape("1.5B", 1536, 28, (12, 2), 8960, (151_936, true)) };
/// Shape of Gemma 3 270M.
pub const GEMMA: Shape = Shape {
    architecture: Architecture::Gemma3,
    head_dim: 256,
    ..shape("270M", 640, 18, (4, 1), 2048, (262_144, true))
};
/// Shape of TinyLlama-1.1B.
pub const TINYLLAMA: Shape = shape("1.1B", 2048, 22, (32, 4), 5632, (32_000, false));
/// Every shape, the smallest first.
pub const SHAPES: [Shape; 7] = [STORIES, LLAMA_68M, SMOLLM2, GEMMA, QWEN, TINYLLAMA, LARGER_QWEN];

/// The shapes that `BENCH_MODELS` names, as in `15M,135M`, or else `usual`.
pub fn chosen(usual: &[Shape]) -> Result<Vec<Shape>, String> {
    let Ok(names) = std::env::var("BENCH_MODELS") else {
        return Ok(usual.to_vec());
    };
    let named = |name: &str| SHAPES.into_iter().find(|shape| shape.name == name);
    let all = SHAPES.map(|shape| shape.name).join(", ");
    names
        .split(',')
        .map(|name| named(name).ok_or_else(|| format!("BENCH_MODELS names {name:?}, and there are {all}")))
        .collect()
}

const fn shape(
    name: &'static str,
    hidden: u64,
    layers: u64,
    (heads, kv_heads): (u64, u64),
    feed_forward: u64,
    (vocabulary, tied): (u64, bool),
) -> Shape {
    let (architecture, head_dim) = (Architecture::Llama, hidden / heads);
    Shape { name, architecture, hidden, layers, heads, kv_heads, head_dim, feed_forward, vocabulary, tied }
}

impl Shape {
    /// The file of this shape in `folder`, written if it is not there.
    pub fn write(&self, storage: Storage, folder: &Path) -> io::Result<PathBuf> {
        let path = folder.join(format!("{}-{}.gguf", self.name, storage.name()));
        let (metadata, tensors) = (self.metadata(), self.tensors(storage));
        let size = metadata.streamed_bytes(&tensors);
        if fs::metadata(&path).is_ok_and(|found| found.len() == size) {
            return Ok(path);
        }
        fs::create_dir_all(folder)?;
        // Under its name only when it is whole.
        let unfinished = path.with_extension("part");
        let mut out = BufWriter::new(File::create(&unfinished)?);
        write(&mut out, &metadata, &tensors, size)?;
        out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
        fs::rename(unfinished, &path)?;
        Ok(path)
    }

    /// Bytes of weights that a pass reads at least: all but an embedding table that is not the head, of which a pass
    /// reads a few rows.
    pub fn streamed(&self, storage: Storage) -> u64 {
        self.read(storage).iter().map(Tensor::bytes).sum()
    }

    /// Multiplications for one token, attention apart.
    pub fn multiplications(&self) -> u64 {
        self.read(Storage::All(ElementType::F32)).iter().map(|tensor| tensor.shape.iter().product::<u64>()).sum()
    }

    fn read(&self, storage: Storage) -> Vec<Tensor> {
        let mut tensors = self.tensors(storage);
        tensors.retain(|tensor| self.tied || tensor.name != "token_embd.weight");
        tensors
    }

    /// Size of the file, in bytes.
    pub fn file_bytes(&self, storage: Storage) -> u64 {
        self.metadata().streamed_bytes(&self.tensors(storage))
    }

    /// Every tensor, under GGUF's names.
    pub fn tensors(&self, storage: Storage) -> Vec<Tensor> {
        let typed = |name: String, outputs, inputs, matters| {
            let element = storage.element(inputs, matters);
            Tensor { name, shape: vec![outputs, inputs], element }
        };
        let matrix = |name: String, outputs, inputs| typed(name, outputs, inputs, false);
        let vector = |name: String, len| Tensor { name, shape: vec![len], element: ElementType::F32 };
        let norm = |name: String| vector(name, self.hidden);
        let (queries, kv) = (self.heads * self.head_dim, self.kv_heads * self.head_dim);
        let mut tensors = vec![typed("token_embd.weight".to_owned(), self.vocabulary, self.hidden, self.tied)];
        for layer in 0..self.layers {
            let name = |part: &str| format!("blk.{layer}.{part}.weight");
            let more = takes_more_bits(layer, self.layers);
            match self.architecture {
                Architecture::Llama => {}
                Architecture::Qwen2 => tensors.extend(
                    [("q", queries), ("k", kv), ("v", kv)]
                        .map(|(part, len)| vector(format!("blk.{layer}.attn_{part}.bias"), len)),
                ),
                Architecture::Gemma3 => tensors.extend([
                    vector(name("attn_q_norm"), self.head_dim),
                    vector(name("attn_k_norm"), self.head_dim),
                    norm(name("post_attention_norm")),
                    norm(name("post_ffw_norm")),
                ]),
            }
            tensors.extend([
                norm(name("attn_norm")),
                matrix(name("attn_q"), queries, self.hidden),
                matrix(name("attn_k"), kv, self.hidden),
                typed(name("attn_v"), kv, self.hidden, more),
                matrix(name("attn_output"), self.hidden, queries),
                norm(name("ffn_norm")),
                matrix(name("ffn_gate"), self.feed_forward, self.hidden),
                matrix(name("ffn_up"), self.feed_forward, self.hidden),
                typed(name("ffn_down"), self.hidden, self.feed_forward, more),
            ]);
        }
        tensors.push(norm("output_norm.weight".to_owned()));
        if !self.tied {
            tensors.push(typed("output.weight".to_owned(), self.vocabulary, self.hidden, true));
        }
        tensors
    }

    fn metadata(&self) -> Gguf {
        let mut metadata = self.settings(CONTEXT);
        self.add_tokenizer(&mut metadata);
        metadata
    }

    /// Settings of a file of the model with `context` tokens of context, all but its tokenizer.
    pub fn settings(&self, context: u32) -> Gguf {
        let mut metadata = Gguf::default();
        let architecture = self.architecture.name();
        metadata.text("general.architecture", architecture);
        metadata.text("general.name", self.name);
        for (key, value) in [
            ("context_length", u64::from(context)),
            ("embedding_length", self.hidden),
            ("block_count", self.layers),
            ("feed_forward_length", self.feed_forward),
            ("rope.dimension_count", self.head_dim),
            ("attention.head_count", self.heads),
            ("attention.head_count_kv", self.kv_heads),
            ("attention.key_length", self.head_dim),
            ("attention.value_length", self.head_dim),
            ("vocab_size", self.vocabulary),
        ] {
            metadata.u32(&format!("{architecture}.{key}"), value as u32);
        }
        let (theta, epsilon) = match self.architecture {
            Architecture::Llama => (10_000.0, 1e-5),
            Architecture::Qwen2 | Architecture::Gemma3 => (1_000_000.0, 1e-6),
        };
        metadata.f32(&format!("{architecture}.rope.freq_base"), theta);
        metadata.f32(&format!("{architecture}.attention.layer_norm_rms_epsilon"), epsilon);
        if self.architecture == Architecture::Gemma3 {
            metadata.u32("gemma3.attention.sliding_window", 512);
        }
        metadata
    }

    /// A SentencePiece vocabulary of the right size: special tokens, all bytes, made-up words.
    fn add_tokenizer(&self, metadata: &mut Gguf) {
        let mut tokens: Vec<String> = SPECIAL_TOKENS.map(str::to_owned).to_vec();
        tokens.extend((0..=u8::MAX).map(|byte| format!("<0x{byte:02X}>")));
        let words = tokens.len() as u64;
        tokens.extend((words..self.vocabulary).map(word));
        // Normal 1, unknown 2, control 3, byte 6.
        let kind = |index: usize| match index {
            0 => 2,
            1 | 2 => 3,
            _ if (index as u64) < words => 6,
            _ => 1,
        };
        let kinds: Vec<i32> = (0..tokens.len()).map(kind).collect();
        let scores: Vec<f32> = (0..tokens.len()).map(|index| -(index as f32)).collect();
        metadata.text("tokenizer.ggml.model", "llama");
        metadata.texts("tokenizer.ggml.tokens", &tokens);
        metadata.floats("tokenizer.ggml.scores", &scores);
        metadata.integers("tokenizer.ggml.token_type", &kinds);
        for (key, id) in [("unknown", 0), ("bos", 1), ("eos", 2)] {
            metadata.u32(&format!("tokenizer.ggml.{key}_token_id"), id);
        }
    }
}

/// `▁` and the letters that spell `number` in base 26.
fn word(mut number: u64) -> String {
    let mut word = String::from('▁');
    while number > 0 {
        word.push(char::from(b'a' + (number % 26) as u8));
        number /= 26;
    }
    word
}

/// Writes a file whose matrices are drawn by `seed`.
pub fn write<W: Write>(out: &mut W, metadata: &Gguf, tensors: &[Tensor], mut seed: u64) -> io::Result<()> {
    metadata.stream(out, tensors, |tensor, out| {
        seed += 1;
        fill(seed, tensor, out)
    })
}

/// Writes a tensor's data: ones for norms, zeros for biases, random blocks for matrices.
pub fn fill(seed: u64, tensor: &Tensor, out: &mut impl Write) -> io::Result<()> {
    let mut left = tensor.bytes() as usize;
    let &[_, inputs] = tensor.shape.as_slice() else {
        let value = if tensor.name.ends_with("bias") { 0.0 } else { 1f32 };
        // The upper half of an f32 is a BF16.
        let bytes = value.to_le_bytes();
        let bytes = &bytes[bytes.len() - tensor.element.block_bytes()..];
        return out.write_all(&bytes.repeat(left / bytes.len()));
    };
    let mut random = RandomWeights::new(tensor.element, seed).ok_or(io::ErrorKind::Unsupported)?;
    let mut bytes = vec![0; DRAW / tensor.element.block_bytes() * tensor.element.block_bytes()];
    while left > 0 {
        let count = left.min(bytes.len());
        let piece = &mut bytes[..count];
        random.fill(inputs as usize, piece);
        out.write_all(piece)?;
        left -= piece.len();
    }
    Ok(())
}
