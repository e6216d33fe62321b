//! Every family on candle's CPU device, container by container, against transformers.
#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

use outrider_device::{Device, DeviceCache, DeviceModel};
use outrider_models::{Chunk, StoredModel};
use outrider_testing::{
    families::{assert_greedy_texts_of_transformers, assert_logits_of_transformers},
    golden::Golden,
};

/// Largest |a − b| / max |b| of a row: sums of f32 in another order, through a few layers.
const TOLERANCE: f32 = 1e-4;

/// Both containers of a model, as far as there are two.
fn containers(golden: &Golden) -> Vec<(&'static str, DeviceModel)> {
    let (config, weights) = golden.checkpoint();
    let gguf = golden.gguf().map(|bytes| ("GGUF", StoredModel::from_gguf(&mut &*bytes).unwrap()));
    let stored = [("safetensors", StoredModel::from_safetensors(&config, &weights).unwrap())].into_iter().chain(gguf);
    stored.map(|(container, stored)| (container, DeviceModel::new(stored, &Device::Cpu, 16 << 20).unwrap())).collect()
}

/// Logits of the last `count` of `tokens`.
fn rows(model: &DeviceModel, cache: &mut DeviceCache, tokens: &[u32], count: usize) -> Vec<Vec<f32>> {
    let positions: Vec<usize> = (tokens.len() - count..tokens.len()).collect();
    model.forward(&mut [Chunk { cache, tokens, positions: &positions }]).unwrap().rows(0).unwrap()
}

/// `cargo test -p outrider-device --test families -- --nocapture` prints the table of the greatest errors.
#[test]
fn every_family_has_the_logits_of_transformers() {
    assert_logits_of_transformers(&containers, TOLERANCE, |model, tokens| {
        rows(model, &mut model.new_cache(), tokens, tokens.len())
    });
}

/// In pieces, with only the last row wanted, and greedily: windows and positions go on where they were.
#[test]
fn greedy_texts_are_those_of_transformers() {
    assert_greedy_texts_of_transformers(&containers, DeviceModel::new_cache, |model, cache, tokens| {
        rows(model, cache, tokens, 1).remove(0)
    });
}
