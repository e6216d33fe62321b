//! The surface that JavaScript sees, in a browser: what loads, and what is thrown with which code.
#![cfg(target_arch = "wasm32")]
#![expect(clippy::expect_used, reason = "a failed step is a failed test")]

use std::iter;

use outrider_edge::{Edge, EdgeLoader};
use outrider_models::{Chunk, HeadsFile, HeadsMetadata, LinearHead, Model, ModelLoader, Tokenizer};
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_test::{wasm_bindgen_test, wasm_bindgen_test_configure};

wasm_bindgen_test_configure!(run_in_dedicated_worker);

const DRAFT: &[u8] = include_bytes!("../../pair/draft/draft-q8_0.gguf");
const TOKENIZER: &[u8] = include_bytes!("../../pair/tokenizer.json");

/// Pushes a draft as a download would.
async fn load(draft: &[u8], tokenizer: &[u8], heads: Option<Vec<u8>>) -> Result<Edge, JsValue> {
    let mut loader = EdgeLoader::new(Some(draft.len() as f64));
    for chunk in draft.chunks(30_001) {
        loader.push(chunk)?;
    }
    loader.finish(tokenizer.to_vec(), heads, None).await
}

async fn edge() -> Edge {
    load(DRAFT, TOKENIZER, None).await.expect("the pair loads")
}

fn property(object: &JsValue, name: &str) -> JsValue {
    js_sys::Reflect::get(object, &name.into()).expect("it is an object")
}

/// The code of a thrown error; it must be an `Error` with a message as well.
fn code<T>(result: Result<T, JsValue>) -> String {
    let error = result.err().expect("it throws");
    assert!(!String::from(error.unchecked_ref::<js_sys::Error>().message()).is_empty());
    property(&error, "code").as_string().expect("the code is a string")
}

#[wasm_bindgen_test]
async fn the_pair_loads_and_says_what_it_is() {
    let info = edge().await.info().expect("it is plain");
    assert_eq!(property(&info, "vocabSize"), 4096.0);
    assert_eq!(property(&info, "contextLength"), 512.0);
    assert_eq!(property(&info, "weightBytes"), DRAFT.len() as f64);
    let memory = property(&info, "memoryBytes").as_f64().expect("it is a number");
    // The file is in this test's memory as well.
    assert!(memory > 2.0 * DRAFT.len() as f64 && memory % 65_536.0 == 0.0, "{memory} bytes");
}

#[wasm_bindgen_test]
async fn corrupt_files_are_told_apart() {
    assert_eq!(code(load(&DRAFT[..DRAFT.len() / 2], TOKENIZER, None).await), "corrupt-model");
    assert_eq!(code(load(b"<!doctype html>", TOKENIZER, None).await), "corrupt-model");
    assert_eq!(code(load(b"", TOKENIZER, None).await), "corrupt-model");
    assert_eq!(code(load(DRAFT, b"{}", None).await), "corrupt-tokenizer");
    for chat in [&b"<!doctype html>"[..], br#"{"template": "{% if %}"}"#] {
        let mut loader = EdgeLoader::new(None);
        loader.push(DRAFT).expect("it is a model");
        assert_eq!(code(loader.finish(TOKENIZER.to_vec(), None, Some(chat.to_vec())).await), "corrupt-chat");
    }
}

#[wasm_bindgen_test]
fn a_page_in_place_of_a_model_is_refused_by_its_first_bytes() {
    let mut loader = EdgeLoader::new(None);
    loader.push(b"<!").expect("nothing is known yet");
    assert_eq!(code(loader.push(b"doctype html>")), "corrupt-model");
    assert_eq!(code(loader.push(DRAFT)), "corrupt-model");
}

/// Q8_0 files of real sizes, pushed as they are made: 143 and 525 MB. Whatever the heap held before, it grows by little
/// more than the file; and what a model had is there for the next.
#[wasm_bindgen_test]
async fn memory_grows_by_little_more_than_the_file() {
    // Memory never shrinks: what it has grown by is the most that was needed.
    let before = memory();
    for shape in [large::SMOLLM2_135M, large::QWEN2_5_HALF_B] {
        let (header, data) = shape.header();
        let total = header.len() + data;
        let grown = || (memory() - before) as f64 / total as f64;
        // Chunks of a download, and what becomes of the pushed bytes.
        let chunk = vec![0; 1 << 16];
        let chunks =
            || iter::once(&header[..]).chain((0..data).step_by(1 << 16).map(|at| &chunk[..(data - at).min(1 << 16)]));

        let mut loader = EdgeLoader::new(Some(total as f64));
        chunks().for_each(|chunk| loader.push(chunk).expect("the file is well formed"));
        let info = loader.finish(TOKENIZER.to_vec(), None, None).await;
        let info = info.expect("it is a model").info().expect("it is plain");
        assert_eq!(property(&info, "weightBytes"), total as f64);
        assert!(grown() < 1.3, "{:.3} × the file's size", grown());

        let mut loader = ModelLoader::new(None);
        chunks().for_each(|chunk| loader.push(chunk).expect("the file is well formed"));
        let model = loader.finish().expect("it is a model");
        let mut cache = model.new_cache();
        let logits = model
            .forward(&mut [Chunk { cache: &mut cache, tokens: &[1, 2, 3], positions: &[2] }])
            .expect("the tokens are in the vocabulary");
        assert!(logits[0].row(0).iter().all(|logit| *logit == 0.0));
        assert!(grown() < 1.3, "{:.3} × the file's size, of unknown length", grown());
    }
}

/// Bytes of this module's memory.
fn memory() -> usize {
    core::arch::wasm32::memory_size::<0>() << 16
}

/// GGUF files of zeros.
mod large {
    /// A model with a tied head.
    pub struct Shape {
        vocab: usize,
        hidden: usize,
        inner: usize,
        heads: usize,
        kv_heads: usize,
        pub layers: usize,
    }

    pub const SMOLLM2_135M: Shape =
        Shape { vocab: 49_152, hidden: 576, inner: 1536, heads: 9, kv_heads: 3, layers: 30 };
    pub const QWEN2_5_HALF_B: Shape =
        Shape { vocab: 151_936, hidden: 896, inner: 4864, heads: 14, kv_heads: 2, layers: 24 };

    impl Shape {
        /// A Q8_0 file up to its tensors' data, and the data's length.
        pub fn header(&self) -> (Vec<u8>, usize) {
            let Self { vocab, hidden, inner, .. } = *self;
            let key = hidden / self.heads * self.kv_heads;
            let mut tensors = vec![("token_embd".to_owned(), vec![vocab, hidden])];
            for layer in 0..self.layers {
                let parts: [(&str, &[usize]); 9] = [
                    ("attn_norm", &[hidden]),
                    ("attn_q", &[hidden, hidden]),
                    ("attn_k", &[key, hidden]),
                    ("attn_v", &[key, hidden]),
                    ("attn_output", &[hidden, hidden]),
                    ("ffn_norm", &[hidden]),
                    ("ffn_gate", &[inner, hidden]),
                    ("ffn_up", &[inner, hidden]),
                    ("ffn_down", &[hidden, inner]),
                ];
                tensors.extend(parts.map(|(part, shape)| (format!("blk.{layer}.{part}"), shape.to_vec())));
            }
            tensors.push(("output_norm".to_owned(), vec![hidden]));

            let text = |text: &str| [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat();
            let mut file =
                [b"GGUF\x03\0\0\0".as_slice(), &(tensors.len() as u64).to_le_bytes(), &8u64.to_le_bytes()].concat();
            let mut entry = |key: &str, code: u32, value: &[u8]| {
                file.extend([&text(key), code.to_le_bytes().as_slice(), value].concat());
            };
            entry("general.architecture", 8, &text("llama"));
            for (key, value) in [
                ("embedding_length", hidden),
                ("feed_forward_length", inner),
                ("block_count", self.layers),
                ("attention.head_count", self.heads),
                ("attention.head_count_kv", self.kv_heads),
                ("context_length", 2048),
            ] {
                entry(&format!("llama.{key}"), 4, &(value as u32).to_le_bytes());
            }
            entry("llama.attention.layer_norm_rms_epsilon", 6, &1e-5f32.to_le_bytes());

            let mut offset = 0;
            for (name, shape) in tensors {
                let elements = shape.iter().product::<usize>();
                // Norms are F32, matrices Q8_0.
                let (code, bytes) = if shape.len() == 1 { (0u32, 4 * elements) } else { (8, elements / 32 * 34) };
                file.extend(text(&format!("{name}.weight")));
                file.extend((shape.len() as u32).to_le_bytes());
                file.extend(shape.iter().rev().flat_map(|&n| (n as u64).to_le_bytes()));
                file.extend(code.to_le_bytes());
                file.extend((offset as u64).to_le_bytes());
                offset += bytes.next_multiple_of(32);
            }
            file.resize(file.len().next_multiple_of(32), 0);
            (file, offset)
        }
    }
}

/// A gate that passes every token of the pair's draft.
fn heads() -> HeadsFile {
    let model = Model::from_gguf(&mut std::io::Cursor::new(DRAFT)).expect("the draft loads");
    let config = model.config();
    HeadsFile {
        gate: Some(LinearHead { weights: vec![0.0; config.hidden_size], bias: 9.0, token: vec![] }),
        stop: None,
        metadata: HeadsMetadata {
            hidden_size: config.hidden_size,
            vocab_size: config.vocab_size,
            tokenizer: Tokenizer::from_bytes(TOKENIZER).expect("the tokenizer loads").fingerprint(),
            temperature: 1.0,
            top_k: 0,
            top_p: 1.0,
            lambda: 1.0,
            tau: 0.5,
            auc: 1.0,
            eta_tp: 1.0,
            eta_fp: 0.0,
            notes: Default::default(),
        },
    }
}

#[wasm_bindgen_test]
async fn heads_are_told_and_those_of_another_draft_refused() {
    let has = |edge: &Edge, head: &str| {
        let info = edge.info().expect("it is plain");
        property(&property(&info, "heads"), head).as_bool().expect("it is a boolean")
    };
    let with = |bytes: Vec<u8>| load(DRAFT, TOKENIZER, Some(bytes));
    let without = edge().await;
    assert!(!has(&without, "gate") && !has(&without, "stop"));
    let mut file = heads();
    let gated = with(file.to_bytes()).await.expect("they belong to it");
    assert!(has(&gated, "gate") && !has(&gated, "stop"));

    file.metadata.tokenizer[0] ^= 1;
    assert_eq!(code(with(file.to_bytes()).await), "heads-mismatch");
    assert_eq!(code(with(b"<!doctype html>".to_vec()).await), "corrupt-heads");
}

#[wasm_bindgen_test]
async fn a_server_that_is_not_there_is_an_error() {
    // The discard port: nothing listens there, and browsers refuse it.
    assert_eq!(code(edge().await.connect("ws://127.0.0.1:9/session", None, JsValue::NULL).await), "connection-failed");
    assert_eq!(code(edge().await.connect("not a url", None, JsValue::NULL).await), "connection-failed");
    let token = Some(js_sys::Function::new_no_args("return Promise.resolve(\"0123456789abcdef\")"));
    assert_eq!(code(edge().await.connect("ws://127.0.0.1:9/session", token, JsValue::NULL).await), "connection-failed");
    let claim = js_sys::JSON::parse(r#"{"session": "x", "secret": "0", "attempts": 0, "generation": 1}"#);
    let claim = claim.expect("it is JSON");
    assert_eq!(code(edge().await.connect("ws://127.0.0.1:9/session", None, claim).await), "invalid-parameters");
    assert_eq!(code(generate(JsValue::NULL).await), "invalid-parameters");
}

#[wasm_bindgen_test]
async fn a_generation_needs_a_connection() {
    let request = js_sys::JSON::parse(
        r#"{"prompt": "Once", "mode": "speculative", "maxNewTokens": 8, "temperature": 0, "topK": 0, "topP": 1, "seed": 1,
            "compareSchemes": false, "supportSize": 8, "latticeResolution": 100, "draftLength": 4, "bitBudget": 0}"#,
    )
    .expect("it is JSON");
    assert_eq!(code(generate(request).await), "not-connected");
}

async fn generate(request: JsValue) -> Result<JsValue, JsValue> {
    let continuation = js_sys::JSON::parse(
        r#"{"attempts": 1, "stallMs": 5000, "committed": [], "guessesFrom": 1, "offlineTokens": 0}"#,
    )
    .expect("it is JSON");
    let nothing = || js_sys::Function::new_no_args("");
    edge().await.generate(request, continuation, nothing(), nothing(), nothing()).await
}
