//! Every type of weights on a GPU beside the same weights as F32 on the processor, and memory that is given back.
#![cfg(not(target_arch = "wasm32"))]
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a failed step is a failed test")]

use std::convert::Infallible;

use beside::gpu;
use outrider_models::{
    ElementType, Layers, ModelConfig, ModelWeights, RandomWeights, StoredMatrix, StoredModel, Window,
};
use outrider_testing::{
    elements,
    logits::{assert_within, on_cpu, text},
};
use outrider_webgpu::GpuDraft;

mod beside;

const PAIR: &[u8] = include_bytes!("../../pair/target/target-f16.gguf");
/// Largest |a − b| / max |b| of a row: other tokens' keys and values are f16 on a GPU.
const TOLERANCE: f32 = 1e-3;
/// The same of a token before which there is none: sums of f32 in another order, through a few layers.
const ALONE: f32 = 1e-4;

/// The same weights as F32.
fn widened(matrix: &StoredMatrix) -> StoredMatrix {
    let StoredMatrix { element, outputs, inputs, ref bytes } = *matrix;
    let bytes = elements::widened(element, bytes).into_iter().flat_map(f32::to_le_bytes).collect();
    StoredMatrix { element: ElementType::F32, outputs, inputs, bytes }
}

/// Blocks of 256 in every row, and rows that begin at odd words.
fn config() -> ModelConfig {
    let mut config = StoredModel::from_gguf(&mut &PAIR[..]).unwrap().config;
    (config.hidden_size, config.intermediate_size, config.layers) = (256, 768, 2);
    (config.heads, config.kv_heads, config.head_dim, config.vocab_size) = (4, 2, 64, 515);
    (config.eos_token_ids, config.bos_token_id) = (Vec::new(), None);
    config
}

fn random(config: &ModelConfig, element: ElementType) -> ModelWeights<StoredMatrix> {
    ModelWeights::gather(config, &mut RandomWeights::new(element, 7).unwrap()).unwrap()
}

async fn assert_same_as_widened(
    config: &ModelConfig,
    weights: impl Fn() -> ModelWeights<StoredMatrix>,
    len: usize,
    what: &str,
) {
    let wide = weights().map(|matrix| Ok::<_, Infallible>(widened(&matrix))).unwrap();
    let cpu = StoredModel { config: config.clone(), weights: wide }.into_model().unwrap();
    let stored = StoredModel { config: config.clone(), weights: weights() };
    let mut draft = GpuDraft::new(gpu().await.unwrap(), &stored).await.unwrap();
    let tokens = text(config.vocab_size, 0, len);
    let alone = draft.forward(&tokens[..1], 1).await.unwrap();
    assert_within(ALONE, alone.iter().next().unwrap().0, &on_cpu(&cpu, &tokens[..1], 1)[0], what);
    draft.truncate(0);
    let rows = draft.forward(&tokens, 7).await.unwrap();
    assert_eq!(rows.len(), 7);
    for ((actual, _), expected) in rows.iter().zip(on_cpu(&cpu, &tokens, 7)) {
        assert_within(TOLERANCE, actual, &expected, what);
    }
    // One row is another kernel.
    draft.truncate(len - 1);
    let row = draft.forward(&tokens[len - 1..], 1).await.unwrap();
    assert_within(TOLERANCE, row.iter().next().unwrap().0, rows.iter().nth(6).unwrap().0, what);
}

#[tokio::test]
async fn every_type_of_weights_has_the_logits_of_the_same_weights_widened() {
    if gpu().await.is_none() {
        return;
    }
    let config = config();
    for element in RandomWeights::ELEMENTS {
        assert_same_as_widened(&config, || random(&config, element), 45, element.name()).await;
    }
}

/// Layers as in files of type Q4_K_M, where what could be one product is two or three.
#[tokio::test]
async fn matrices_of_a_layer_have_types_of_their_own() {
    if gpu().await.is_none() {
        return;
    }
    let config = config();
    let weights = || {
        let mut weights = random(&config, ElementType::Q4_K);
        let [mut large, mut small] =
            [ElementType::Q6_K, ElementType::Q8_0].map(|element| random(&config, element).layers);
        let [first, second] = &mut weights.layers[..] else { panic!("two layers") };
        std::mem::swap(&mut first.value, &mut large[0].value);
        std::mem::swap(&mut first.up, &mut large[0].up);
        std::mem::swap(&mut second.key, &mut small[1].key);
        std::mem::swap(&mut second.gate, &mut large[1].gate);
        weights
    };
    assert_same_as_widened(&config, weights, 45, "of several types").await;
}

/// More elements of a head than a workgroup has threads, or such that some have nothing to do; texts and windows of
/// several tiles of keys.
#[tokio::test]
async fn heads_and_windows_have_any_size() {
    if gpu().await.is_none() {
        return;
    }
    for (head_dim, window) in [(80, None), (128, Some(130)), (256, Some(150)), (256, None)] {
        let mut config = config();
        (config.head_dim, config.heads, config.kv_heads) = (head_dim, 3, 1);
        config.block.window = window.map(|tokens| Window { tokens, layers: Layers::All });
        let what = format!("heads of {head_dim}, {window:?}");
        assert_same_as_widened(&config, || random(&config, ElementType::F16), 300, &what).await;
    }
}

/// Rows of types without blocks may end anywhere: also in the middle of what is brought to shared memory at a time.
#[tokio::test]
async fn rows_without_blocks_have_any_width() {
    if gpu().await.is_none() {
        return;
    }
    let mut config = config();
    (config.hidden_size, config.intermediate_size, config.vocab_size) = (68, 100, 77);
    (config.head_dim, config.heads, config.kv_heads) = (20, 3, 1);
    for element in [ElementType::F16, ElementType::BF16] {
        assert_same_as_widened(&config, || random(&config, element), 45, element.name()).await;
    }
}

/// A hundred models one after the other, of which each would fill a good part of a small GPU if none were given back.
#[tokio::test]
async fn memory_is_given_back() {
    if gpu().await.is_none() {
        return;
    }
    let stored = StoredModel::from_gguf(&mut &PAIR[..]).unwrap();
    let resident = || {
        let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
        text.split_whitespace().nth(1).and_then(|pages| pages.parse::<usize>().ok()).unwrap_or(0) * 4096
    };
    let mut first = 0;
    for load in 0..100 {
        let mut draft = GpuDraft::new(gpu().await.unwrap(), &stored).await.unwrap();
        draft.forward(&[1, 2, 3], 1).await.unwrap();
        drop(draft);
        if load == 9 {
            first = resident();
        }
    }
    let grown = resident().saturating_sub(first);
    assert!(grown < 90 << 20, "{} MiB more after ninety loads", grown >> 20);
}
