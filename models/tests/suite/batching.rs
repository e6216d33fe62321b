//! Logits do not depend on how tokens are grouped into calls: equality of bits, no tolerance.

use outrider_models::{Chunk, KvCache, Model};
use outrider_testing::logits::{assert_same_bits, logits_at_all};
#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use crate::{
    fixture::{self, TARGET, gguf, tokens},
    grouping::Reader,
};

/// Every kind of weight, the pair, and rows wide enough for every kernel.
fn models() -> impl Iterator<Item = Model> {
    fixture::models().into_iter().chain([gguf(TARGET)])
}

/// Calls `check` with each model.
fn each(check: impl Fn(Reader<'_>)) {
    for model in models() {
        let forward = |cache: &mut KvCache, tokens: &[u32], positions: &[usize]| -> Vec<Vec<f32>> {
            let logits = model.forward(&mut [Chunk { cache, tokens, positions }]).unwrap();
            assert_eq!((logits[0].len(), logits[0].is_empty()), (positions.len(), positions.is_empty()));
            logits[0].iter().map(<[f32]>::to_vec).collect()
        };
        check(Reader { fresh: &|| model.new_cache(), forward: &forward });
    }
}

#[test]
fn prefill_equals_token_by_token() {
    each(|reader| reader.assert_pieces_equal_the_whole(&tokens(47, 1)));
}

#[test]
fn rollback_and_refill_equal_a_fresh_cache() {
    each(|reader| reader.assert_rollback_leaves_no_trace(&tokens(40, 3), 60, 30));
}

#[test]
fn wanted_positions_are_rows_of_the_whole() {
    each(|reader| reader.assert_wanted_positions_are_rows_of_the_whole(&tokens(20, 2)));
}

#[test]
fn ragged_batch_equals_one_by_one() {
    for model in models() {
        let pasts = [0, 1, 13, 30];
        let news = [9, 0, 1, 5];
        let mut alone: Vec<KvCache> = pasts.iter().map(|_| model.new_cache()).collect();
        for (seed, (cache, past)) in alone.iter_mut().zip(pasts).enumerate() {
            logits_at_all(&model, cache, &tokens(past, seed as u32));
        }
        let mut together = alone.clone();
        let new: Vec<Vec<u32>> = news.iter().map(|&count| tokens(count, 9 + count as u32)).collect();
        let positions: Vec<Vec<usize>> = news.iter().map(|&count| (0..count).collect()).collect();
        let expected: Vec<Vec<Vec<f32>>> =
            alone.iter_mut().zip(&new).map(|(cache, new)| logits_at_all(&model, cache, new)).collect();
        let mut batch: Vec<Chunk<'_>> = together
            .iter_mut()
            .zip(new.iter().zip(&positions))
            .map(|(cache, (tokens, positions))| Chunk { cache, tokens, positions })
            .collect();
        let logits = model.forward(&mut batch).unwrap();
        for (logits, expected) in logits.iter().zip(&expected) {
            let rows: Vec<Vec<f32>> = logits.iter().map(<[f32]>::to_vec).collect();
            assert_same_bits(&rows, expected);
        }
        for ((cache, past), new) in together.iter().zip(pasts).zip(news) {
            assert_eq!(cache.len(), past + new);
        }
        // And so is what follows.
        for (a, b) in alone.iter_mut().zip(&mut together) {
            assert_same_bits(&logits_at_all(&model, a, &[3, 4]), &logits_at_all(&model, b, &[3, 4]));
        }
    }
}
