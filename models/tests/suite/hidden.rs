//! The last hidden state is what the head makes the logits from, bit for bit the same however it was computed.

use outrider_models::{Chunk, Model};
use outrider_testing::logits::bits;
use safetensors::SafeTensors;
#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use crate::fixture::models;

const TOKENS: [u32; 12] = [0, 5, 9, 33, 2, 41, 7, 7, 60, 1, 18, 3];

/// The hidden state after every token, fed in pieces of `step`.
fn hidden_states(model: &Model, step: usize) -> Vec<Vec<u32>> {
    let mut cache = model.new_cache();
    let mut rows = Vec::new();
    for piece in TOKENS.chunks(step) {
        let positions: Vec<usize> = (0..piece.len()).collect();
        let chunk = Chunk { cache: &mut cache, tokens: piece, positions: &positions };
        let logits = model.forward(&mut [chunk]).unwrap().remove(0);
        rows.extend(bits((0..logits.len()).map(|index| logits.hidden(index))));
    }
    rows
}

#[test]
fn hidden_states_do_not_depend_on_grouping() {
    for model in models() {
        let whole = hidden_states(&model, TOKENS.len());
        assert!(whole.iter().all(|row| row.len() == model.config().hidden_size));
        assert_ne!(whole[0], whole[1]);
        for step in [1, 2, 5] {
            assert_eq!(hidden_states(&model, step), whole);
        }
        // In a ragged batch, with some positions wanted of some sequences.
        let wanted: [&[usize]; 4] = [&[2, 11], &[], &[0], &[11]];
        let mut caches: Vec<_> = wanted.iter().map(|_| model.new_cache()).collect();
        let mut batch: Vec<Chunk<'_>> = caches
            .iter_mut()
            .zip(wanted)
            .map(|(cache, positions)| Chunk { cache, tokens: &TOKENS, positions })
            .collect();
        let logits = model.forward(&mut batch).unwrap();
        for (logits, wanted) in logits.iter().zip(wanted) {
            assert_eq!(logits.len(), wanted.len());
            for (index, &position) in wanted.iter().enumerate() {
                assert_eq!(bits([logits.hidden(index)]), [whole[position].clone()]);
            }
        }
    }
}

/// With a checkpoint whose head is at hand as plain numbers.
#[test]
fn the_head_makes_the_logits_of_the_hidden_state() {
    let bytes = include_bytes!("../golden/grouped.safetensors");
    let model = Model::from_safetensors(include_bytes!("../golden/grouped.config.json"), bytes).unwrap();
    let tensors = SafeTensors::deserialize(bytes).unwrap();
    let name = if model.config().tied_embeddings { "model.embed_tokens.weight" } else { "lm_head.weight" };
    let head = tensors.tensor(name).unwrap();
    assert_eq!(head.dtype(), safetensors::Dtype::F32);
    let (words, _) = head.data().as_chunks();
    let head: Vec<f64> = words.iter().map(|&word| f64::from(f32::from_le_bytes(word))).collect();
    let mut cache = model.new_cache();
    let tokens = [1, 4, 2];
    let logits = model.forward(&mut [Chunk { cache: &mut cache, tokens: &tokens, positions: &[0, 2] }]).unwrap();
    let mut largest = 0f64;
    for index in 0..2 {
        let hidden: Vec<f64> = logits[0].hidden(index).iter().copied().map(f64::from).collect();
        for (weights, &logit) in head.chunks_exact(hidden.len()).zip(logits[0].row(index)) {
            let expected: f64 = weights.iter().zip(&hidden).map(|(w, h)| w * h).sum();
            assert!((expected - f64::from(logit)).abs() < 1e-5, "{expected} and {logit}");
            largest = largest.max(expected.abs());
        }
    }
    assert!(largest > 1e-2, "the comparison can fail");
}
