//! `cargo xtask pair`: the built-in pair and SmolLM2-135M-Instruct at the cost of models of real sizes.
//!
//! ```text
//! grow FOLDER target|draft|smollm2 SIZE ELEMENT      writes FOLDER/SIZE-ROLE-ELEMENT.gguf and FOLDER/tokenizer.json
//! grow FOLDER check target|draft|smollm2 SIZE ELEMENT
//! ```
//!
//! A grown model computes what the small one does (Chen, Goodfellow & Shlens, "Net2Net", 2016: function-preserving), in
//! more dimensions, heads, units and layers:
//!
//! - The residual stream has more dimensions, all zero: no matrix writes to them. RMSNorm divides by the mean over all,
//!   so its weights are scaled by √(H/H′) and its ε by H/H′.
//! - Added heads, units and layers have matrices as drawn at random, but for those that write to the residual stream,
//!   which are zero. As many query heads share the keys of one as before.
//!
//! The vocabulary stays, since the text does; layers are added until there are as many parameters as the size says.
//! What it costs is a real model's. What it writes is the small model's, and so is the acceptance rate: say so where a
//! figure of it stands.

use std::{
    fs::{self, File},
    io::{self, BufWriter, Cursor, Write},
    path::{Path, PathBuf},
    time::Instant,
};

use candle_core::{
    Device, Tensor as Matrix,
    quantized::{GgmlDType, QTensor, gguf_file::Content},
};
use outrider_cloud::{both_ends, pair::PairPaths};
use outrider_codec::frame::SamplingParameters;
use outrider_models::{Chunk, ElementType, Model};
use outrider_speculation::sample::{Distribution, SharedNoise};
use outrider_testing::gguf::{Gguf, Tensor};

use crate::{
    chat::{QUESTIONS, Template},
    decoder::Decoder,
    passes::{self, Failure},
};

/// A size that a model can grow to.
struct Size {
    name: &'static str,
    hidden: usize,
    feed_forward: usize,
    /// The least number of parameters.
    parameters: usize,
}

/// Sizes in the widths of SmolLM2-135M and TinyLlama-1.1B, and a thirtieth of the latter.
const SIZES: [Size; 3] = [
    Size { name: "37M", hidden: 384, feed_forward: 1024, parameters: 37_000_000 },
    Size { name: "135M", hidden: 576, feed_forward: 1536, parameters: 135_000_000 },
    Size { name: "1.1B", hidden: 2048, feed_forward: 5632, parameters: 1_100_000_000 },
];

/// Sizes of SmolLM2-135M-Instruct three times as wide, since its thirty layers stay.
const CHAT_SIZES: [Size; 1] = [Size { name: "1.1B", hidden: 1728, feed_forward: 4608, parameters: 1_100_000_000 }];
/// Code of a truth value's type in GGUF files.
const GGUF_BOOL: u32 = 7;
/// Role of SmolLM2-135M-Instruct: a target with a vocabulary of its own.
const CHAT: &str = "smollm2";

/// Texts that are compared, and tokens of each.
const TEXTS: usize = 20;
const TOKENS: usize = 128;
/// Below this gap of the two largest logits a difference is one of rounding.
const NEAR_TIE: f32 = 1e-3;

/// Runs the program with the arguments that follow its name.
pub fn run(arguments: &[&str]) -> Result<(), Failure> {
    match *arguments {
        [folder, role, size, element] => {
            let path = write(Path::new(folder), role, size, element, Filling::Grown)?;
            println!("{}", path.display());
            Ok(())
        }
        [folder, "check", role, size, element] => check(Path::new(folder), role, size, element),
        _ => Err("a folder, `target`, `draft` or `smollm2`, a size and an element type are expected".into()),
    }
}

/// The file of a grown model, written unless it is there.
pub fn grown(folder: &Path, role: &str, size: &str, element: &str) -> Result<PathBuf, Failure> {
    write(folder, role, size, element, Filling::Grown)
}

/// The weights that a model is filled with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Filling {
    /// The small model unchanged, in another element type.
    Small,
    /// The small model and the weights that it grows by.
    Grown,
    /// Random weights everywhere, in the shape of the grown one: for comparing times.
    Random,
}

/// The model that grows, and its shape before and after.
struct Growth {
    source: Content,
    file: Cursor<Vec<u8>>,
    element: ElementType,
    filling: Filling,
    head_dim: usize,
    old: Shape,
    new: Shape,
    random: u64,
}

#[derive(Debug, Clone, Copy)]
struct Shape {
    hidden: usize,
    feed_forward: usize,
    heads: usize,
    kv_heads: usize,
    layers: usize,
}

/// Paths of the pair that a role's model belongs to; a published one is downloaded.
fn paths(role: &str) -> Result<PairPaths, Failure> {
    if role != CHAT {
        return Ok(PairPaths::default());
    }
    let mut paths = PairPaths { model: vec![CHAT.parse()?], ..PairPaths::default() };
    tokio::runtime::Runtime::new()?.block_on(paths.fetch())?;
    Ok(paths)
}

/// Writes a model unless it is there. Gives its path.
fn write(folder: &Path, role: &str, size: &str, element: &str, filling: Filling) -> Result<PathBuf, Failure> {
    let sizes: &[Size] = if role == CHAT { &CHAT_SIZES } else { &SIZES };
    let size = sizes.iter().find(|known| known.name == size).ok_or_else(|| {
        let known: Vec<&str> = sizes.iter().map(|known| known.name).collect();
        format!("the model {role} can grow to {}, not to {size}", known.join(", "))
    })?;
    let element = [ElementType::F16, ElementType::Q8_0, ElementType::Q4_0]
        .into_iter()
        .find(|known| known.name().eq_ignore_ascii_case(element))
        .ok_or_else(|| format!("there are f16, q8_0 and q4_0, not {element}"))?;
    let what = match filling {
        Filling::Small => "small",
        Filling::Grown => size.name,
        Filling::Random => "random",
    };
    let path = folder.join(format!("{what}-{role}-{}.gguf", element.name().to_lowercase()));
    fs::create_dir_all(folder)?;
    let pair = paths(role)?;
    // A server of the file finds its tokenizer beside it.
    fs::write(folder.join("tokenizer.json"), pair.tokenizer_with_json()?.1)?;
    if path.exists() && filling != Filling::Random {
        return Ok(path);
    }
    let mut growth = Growth::new(&pair, role, size, element, filling)?;
    // Under its name only when it is whole.
    let unfinished = path.with_extension("part");
    let mut out = BufWriter::new(File::create(&unfinished)?);
    let (metadata, tensors) = (growth.metadata()?, growth.tensors());
    metadata.stream(&mut out, &tensors, |tensor, out| growth.fill(tensor, out).map_err(io::Error::other))?;
    out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
    fs::rename(unfinished, &path)?;
    Ok(path)
}

impl Growth {
    fn new(pair: &PairPaths, role: &str, size: &Size, element: ElementType, filling: Filling) -> Result<Self, Failure> {
        let bytes = match role {
            "target" | CHAT => pair.target_gguf()?.into_owned(),
            "draft" => pair.draft_file()?.into_owned(),
            _ => return Err(format!("a target, a draft or {CHAT} grows, not {role}").into()),
        };
        let mut file = Cursor::new(bytes);
        let source = Content::read(&mut file)?;
        if source.tensor_infos.contains_key("output.weight") {
            return Err(format!("the model {role} has a head of its own: only a tied one can grow").into());
        }
        let stated = |key: &str| source.metadata.get(&format!("llama.{key}"));
        let number = |key: &str| -> Result<usize, Failure> {
            Ok(stated(key).ok_or_else(|| format!("the model does not have llama.{key}"))?.to_u32()? as usize)
        };
        let (hidden, heads) = (number("embedding_length")?, number("attention.head_count")?);
        let optional = |key: &str, usual: usize| if stated(key).is_some() { number(key) } else { Ok(usual) };
        let head_dim = optional("attention.key_length", hidden / heads)?;
        let kv_heads = optional("attention.head_count_kv", heads)?;
        let (feed_forward, layers) = (number("feed_forward_length")?, number("block_count")?);
        let old = Shape { hidden, feed_forward, heads, kv_heads, layers };
        let vocabulary = source.tensor_infos["token_embd.weight"].shape.dims()[0];
        let heads = size.hidden / head_dim;
        let kv_heads = heads * old.kv_heads / old.heads;
        let of_a_layer = size.hidden * (2 * (heads + kv_heads) * head_dim + 3 * size.feed_forward);
        let layers = (size.parameters - vocabulary * size.hidden).div_ceil(of_a_layer).max(old.layers);
        let grown = Shape { hidden: size.hidden, feed_forward: size.feed_forward, heads, kv_heads, layers };
        let new = if filling == Filling::Small { old } else { grown };
        Ok(Self { source, file, element, filling, head_dim, old, new, random: 1 })
    }

    fn metadata(&self) -> Result<Gguf, Failure> {
        let mut metadata = Gguf::default();
        metadata.text("general.architecture", "llama");
        metadata.text("general.name", "Outrider's grown model: the text of the small one at the cost of a large one");
        let Shape { hidden, feed_forward, heads, kv_heads, layers } = self.new;
        for (key, value) in [
            ("embedding_length", hidden),
            ("feed_forward_length", feed_forward),
            ("attention.head_count", heads),
            ("attention.head_count_kv", kv_heads),
            ("block_count", layers),
            ("attention.key_length", self.head_dim),
            ("attention.value_length", self.head_dim),
            ("vocab_size", self.vocabulary()),
        ] {
            metadata.u32(&format!("llama.{key}"), value as u32);
        }
        let kept = ["llama.context_length", "llama.rope.dimension_count"];
        for key in kept.into_iter().chain(["tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id"]) {
            metadata.u32(key, self.value(key)?.to_u32()?);
        }
        if let Ok(adds) = self.value("tokenizer.ggml.add_bos_token") {
            metadata.entry("tokenizer.ggml.add_bos_token", GGUF_BOOL, &[u8::from(adds.to_bool()?)]);
        }
        if let Ok(template) = self.value("tokenizer.chat_template") {
            metadata.text("tokenizer.chat_template", template.to_string()?);
        }
        let epsilon = "llama.attention.layer_norm_rms_epsilon";
        metadata.f32(epsilon, self.value(epsilon)?.to_f32()? * self.old.hidden as f32 / hidden as f32);
        metadata.f32("llama.rope.freq_base", self.value("llama.rope.freq_base")?.to_f32()?);
        Ok(metadata)
    }

    fn value(&self, key: &str) -> Result<&candle_core::quantized::gguf_file::Value, Failure> {
        self.source.metadata.get(key).ok_or_else(|| format!("the model does not say its {key}").into())
    }

    /// Number of tokens, V.
    fn vocabulary(&self) -> usize {
        self.source.tensor_infos["token_embd.weight"].shape.dims()[0]
    }

    fn tensors(&self) -> Vec<Tensor> {
        let Shape { hidden, feed_forward, heads, kv_heads, layers } = self.new;
        let matrix = |name: String, outputs: usize, inputs: usize| {
            let shape = vec![outputs as u64, inputs as u64];
            Tensor { name, shape, element: self.element }
        };
        let norm = |name: String| Tensor { name, shape: vec![hidden as u64], element: ElementType::F32 };
        let mut tensors = vec![matrix("token_embd.weight".to_owned(), self.vocabulary(), hidden)];
        for layer in 0..layers {
            let name = |part: &str| format!("blk.{layer}.{part}.weight");
            let [attention, shared] = [heads, kv_heads].map(|heads| heads * self.head_dim);
            tensors.extend([
                norm(name("attn_norm")),
                matrix(name("attn_q"), attention, hidden),
                matrix(name("attn_k"), shared, hidden),
                matrix(name("attn_v"), shared, hidden),
                matrix(name("attn_output"), hidden, attention),
                norm(name("ffn_norm")),
                matrix(name("ffn_gate"), feed_forward, hidden),
                matrix(name("ffn_up"), feed_forward, hidden),
                matrix(name("ffn_down"), hidden, feed_forward),
            ]);
        }
        tensors.push(norm("output_norm.weight".to_owned()));
        tensors
    }

    /// Writes a tensor's data.
    fn fill(&mut self, tensor: &Tensor, out: &mut impl Write) -> Result<(), Failure> {
        let shape: Vec<usize> = tensor.shape.iter().map(|&size| size as usize).collect();
        let small = match self.filling {
            Filling::Random => None,
            _ if !self.source.tensor_infos.contains_key(&tensor.name) => None,
            _ => Some(self.source.tensor(&mut self.file, &tensor.name, &Device::Cpu)?.dequantize(&Device::Cpu)?),
        };
        let &[outputs, inputs] = shape.as_slice() else {
            let scale = (self.old.hidden as f32 / self.new.hidden as f32).sqrt();
            let mut weights = small.map_or(Ok(Vec::new()), |small| small.to_vec1::<f32>())?;
            weights.iter_mut().for_each(|weight| *weight *= scale);
            weights.resize(shape[0], 1.0);
            return Ok(weights.iter().try_for_each(|weight| out.write_all(&weight.to_le_bytes()))?);
        };
        // What is added writes nothing to the residual stream, and reads nothing that is in it.
        let writes = ["token_embd", "attn_output", "ffn_down"].iter().any(|part| tensor.name.contains(part));
        let is_zero = writes && self.filling != Filling::Random;
        let spread = (3.0 / inputs as f32).sqrt() / 2.0;
        let mut weights: Vec<f32> =
            (0..outputs * inputs).map(|_| if is_zero { 0.0 } else { spread * self.draw() }).collect();
        for (row, old) in small.map_or(Ok(Vec::new()), |small| small.to_vec2::<f32>())?.iter().enumerate() {
            weights[row * inputs..][..old.len()].copy_from_slice(old);
        }
        let kind = match self.element {
            ElementType::F16 => GgmlDType::F16,
            ElementType::Q4_0 => GgmlDType::Q4_0,
            _ => GgmlDType::Q8_0,
        };
        let encoded = QTensor::quantize(&Matrix::from_vec(weights, (outputs, inputs), &Device::Cpu)?, kind)?;
        Ok(out.write_all(&encoded.data()?)?)
    }

    /// A random number, uniform in [−1, 1).
    fn draw(&mut self) -> f32 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 40) as f32 / (1u32 << 23) as f32 - 1.0
    }
}

/// Compares a grown model's greedy texts with those of the small one in the same element type, and its times with those
/// of random weights.
fn check(folder: &Path, role: &str, size: &str, element: &str) -> Result<(), Failure> {
    let open = |filling| -> Result<Model, Failure> { Ok(Model::open(&write(folder, role, size, element, filling)?)?) };
    let (small, grown) = (open(Filling::Small)?, open(Filling::Grown)?);
    let (mut same, mut ties, mut seeded, mut tokens) = (0, 0, 0, 0);
    for prompt in prompts(role)? {
        let mut text = prompt.clone();
        let expected = greedy(&small, &mut text)?;
        // After the same text, so that one near-tie does not decide all that follows.
        let [small, grown] = [&small, &grown].map(|model| rows(model, &text, prompt.len()));
        for (position, ((small, grown), (expected, gap))) in small?.iter().zip(&grown?).zip(expected).enumerate() {
            let found = best(grown).0;
            tokens += 1;
            same += usize::from(found == expected);
            ties += usize::from(found != expected && gap < NEAR_TIE);
            seeded += usize::from(drawn(small, position)? == drawn(grown, position)?);
        }
    }
    println!("{tokens} greedy tokens: {same} the same, {ties} more are near-ties, {} differ", tokens - same - ties);
    println!("{tokens} drawn at T = 0.7 with the shared noise: {seeded} the same");
    let random = open(Filling::Random)?;
    let text = passes::text(4096);
    let mut decoders = [Decoder::new(grown), Decoder::new(random)];
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..7 {
        for (decoder, times) in decoders.iter_mut().zip(&mut times) {
            let (began, pass) = (Instant::now(), passes::Pass { rows: 1, cached: 64, all_logits: true });
            times.extend(passes::time(decoder, pass, 4, &text, || began.elapsed().as_secs_f64() * 1e3)?);
        }
    }
    let [grown, random] = times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    });
    println!("a pass of one row: {grown:.1} ms, of random weights {random:.1} ms: {:.3}", grown / random);
    fs::remove_file(folder.join(format!("random-{role}-{}.gguf", element.to_lowercase())))?;
    Ok(())
}

/// Prompts of a role's model: beginnings of tales, or questions in the form of its chat template.
fn prompts(role: &str) -> Result<Vec<Vec<u32>>, Failure> {
    let paths = paths(role)?;
    if role != CHAT {
        return both_ends::open(&paths)?.prompts(TEXTS);
    }
    let tokenizer = paths.tokenizer()?;
    let template = Template::of(&paths, &paths.target()?, &tokenizer)?;
    QUESTIONS.iter().map(|question| template.ask(&tokenizer, question)).collect()
}

/// Continues a text greedily. Returns each chosen token and its lead over the second.
fn greedy(model: &Model, text: &mut Vec<u32>) -> Result<Vec<(u32, f32)>, Failure> {
    let (mut cache, mut fed, mut chosen) = (model.new_cache(), 0, Vec::new());
    for _ in 0..TOKENS {
        let positions = [text.len() - fed - 1];
        let logits = model.forward(&mut [Chunk { cache: &mut cache, tokens: &text[fed..], positions: &positions }])?;
        let (id, gap) = best(logits[0].iter().next().ok_or("a row was asked for")?);
        fed = text.len();
        text.push(id);
        chosen.push((id, gap));
    }
    Ok(chosen)
}

/// A model's logits at each position of a text after its prompt.
fn rows(model: &Model, text: &[u32], prompt: usize) -> Result<Vec<Vec<f32>>, Failure> {
    let mut cache = model.new_cache();
    let positions: Vec<usize> = (prompt - 1..text.len() - 1).collect();
    let logits = model.forward(&mut [Chunk { cache: &mut cache, tokens: text, positions: &positions }])?;
    Ok(logits[0].iter().map(<[f32]>::to_vec).collect())
}

/// Token that the shared noise draws from a row at T = 0.7.
fn drawn(row: &[f32], position: usize) -> Result<u32, Failure> {
    let sampling = SamplingParameters { temperature: 0.7, top_k: 0, top_p: 1.0 };
    Ok(SharedNoise::new(1).choose_from(position, &Distribution::new(row, &sampling)?))
}

/// The largest logit's id, and how far ahead of the second it is.
fn best(row: &[f32]) -> (u32, f32) {
    let (mut id, mut first, mut second) = (0, f32::NEG_INFINITY, f32::NEG_INFINITY);
    for (index, &logit) in (0..).zip(row) {
        if logit > first {
            (id, first, second) = (index, logit, first);
        } else {
            second = second.max(logit);
        }
    }
    (id, first - second)
}
