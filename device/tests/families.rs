//! Every family on candle's CPU device, container by container, against transformers.
#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

use std::collections::BTreeMap;

use outrider_device::{Device, DeviceCache, DeviceModel};
use outrider_models::{Chunk, StoredModel};
use outrider_testing::{
    families::goldens,
    golden::Golden,
    logits::{argmax, compare},
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

/// Logits after every one of `tokens`.
fn rows(model: &DeviceModel, cache: &mut DeviceCache, tokens: &[u32]) -> Vec<Vec<f32>> {
    let positions: Vec<usize> = (0..tokens.len()).collect();
    model.forward(&mut [Chunk { cache, tokens, positions: &positions }]).unwrap().rows(0).unwrap()
}

/// The table of the greatest errors; `cargo test -p outrider-device --test families -- --nocapture` prints it.
#[test]
fn every_family_has_the_logits_of_transformers() {
    let mut table: BTreeMap<(String, &str), f32> = BTreeMap::new();
    for (index, golden) in goldens().iter().enumerate() {
        for (container, model) in containers(golden) {
            let actual = rows(&model, &mut model.new_cache(), &golden.tokens);
            for (row, expected) in golden.rows.iter().zip(&golden.logits) {
                let error = compare(&actual[*row], expected, TOLERANCE);
                let error = error.unwrap_or_else(|e| panic!("{} {index} {container} row {row}: {e}", golden.family));
                let greatest = table.entry((golden.family.clone(), container)).or_default();
                *greatest = greatest.max(error);
            }
        }
    }
    println!("| family | container | greatest relative error |\n|---|---|--:|");
    for ((family, container), error) in &table {
        println!("| {family} | {container} | {error:.1e} |");
    }
}

/// In pieces, with only the last row wanted, and greedily: windows and positions go on where they were.
#[test]
fn greedy_texts_are_those_of_transformers() {
    for (index, golden) in goldens().iter().enumerate() {
        for (container, model) in containers(golden) {
            let mut cache = model.new_cache();
            let mut next = golden.tokens.clone();
            for expected in &golden.greedy {
                let last = [next.len() - 1];
                let chunk = Chunk { cache: &mut cache, tokens: &next, positions: &last };
                let row = model.forward(&mut [chunk]).unwrap().rows(0).unwrap().remove(0);
                let best = argmax(&row) as u32;
                assert_eq!(best, *expected, "{} {index} {container} after {}", golden.family, cache.len());
                next = vec![best];
            }
        }
    }
}
