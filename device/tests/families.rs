//! Every family on candle's CPU device, container by container, against transformers.
#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

use std::collections::BTreeMap;

use families::{Golden, goldens};
use outrider_device::{Device, DeviceCache, DeviceModel};
use outrider_models::{Chunk, StoredModel};

#[path = "../../models/tests/container/mod.rs"]
#[allow(dead_code, reason = "the crate of the models uses the rest")]
mod container;
#[path = "../../models/tests/families/mod.rs"]
mod families;

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

fn error(actual: &[f32], expected: &[f32]) -> f32 {
    assert!(actual.len() == expected.len() && actual.iter().all(|x| x.is_finite()));
    let scale = expected.iter().fold(0f32, |scale, x| scale.max(x.abs()));
    actual.iter().zip(expected).fold(0f32, |most, (a, b)| most.max((a - b).abs())) / scale
}

/// The table of the greatest errors; `cargo test -p outrider-device --test families -- --nocapture` prints it.
#[test]
fn every_family_has_the_logits_of_transformers() {
    let mut table: BTreeMap<(String, &str), f32> = BTreeMap::new();
    for (index, golden) in goldens().iter().enumerate() {
        for (container, model) in containers(golden) {
            let actual = rows(&model, &mut model.new_cache(), &golden.tokens);
            for (row, expected) in golden.rows.iter().zip(&golden.logits) {
                let error = error(&actual[*row], expected);
                assert!(error <= TOLERANCE, "{} {index} {container} row {row}: {error}", golden.family);
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
                let best = (0..row.len()).max_by(|&a, &b| row[a].total_cmp(&row[b])).unwrap();
                assert_eq!(best as u32, *expected, "{} {index} {container} after {}", golden.family, cache.len());
                next = vec![best as u32];
            }
        }
    }
}
