//! Logits do not depend on how tokens are grouped into calls: equality of bits, no tolerance.

use outrider_models::{Chunk, KvCache, Model};
use outrider_testing::logits::{assert_same_bits, logits_at_all};
#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use crate::fixture::{self, TARGET, gguf, tokens};

/// Every kind of weight, the pair, and rows wide enough for every kernel.
fn models() -> impl Iterator<Item = Model> {
    fixture::models().into_iter().chain([gguf(TARGET)])
}

#[test]
fn prefill_equals_token_by_token() {
    for model in models() {
        let tokens = tokens(47, 1);
        let whole = logits_at_all(&model, &mut model.new_cache(), &tokens);
        for step in [1, 2, 3, 9, 32, 40] {
            let mut cache = model.new_cache();
            let mut rows = Vec::new();
            for piece in tokens.chunks(step) {
                rows.extend(logits_at_all(&model, &mut cache, piece));
            }
            assert_eq!(cache.len(), tokens.len());
            assert_same_bits(&rows, &whole);
        }
    }
}

#[test]
fn wanted_positions_are_rows_of_the_whole() {
    for model in models() {
        let tokens = tokens(20, 2);
        let whole = logits_at_all(&model, &mut model.new_cache(), &tokens);
        for wanted in [vec![], vec![19], vec![0], vec![3, 4, 11], vec![0, 19]] {
            let mut cache = model.new_cache();
            let chunk = Chunk { cache: &mut cache, tokens: &tokens, positions: &wanted };
            let logits = model.forward(&mut [chunk]).unwrap();
            let expected: Vec<Vec<f32>> = wanted.iter().map(|&i| whole[i].clone()).collect();
            let rows: Vec<Vec<f32>> = logits[0].iter().map(<[f32]>::to_vec).collect();
            assert_eq!((logits[0].len(), logits[0].is_empty()), (wanted.len(), wanted.is_empty()));
            assert_same_bits(&rows, &expected);
            // The keys and values are complete, whatever was wanted.
            let next = logits_at_all(&model, &mut cache, &[7]);
            let mut reference = model.new_cache();
            logits_at_all(&model, &mut reference, &tokens);
            assert_same_bits(&next, &logits_at_all(&model, &mut reference, &[7]));
        }
    }
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

#[test]
fn rollback_and_refill_equal_a_fresh_cache() {
    for model in models() {
        let tokens = tokens(40, 3);
        let whole = logits_at_all(&model, &mut model.new_cache(), &tokens);
        let mut cache = model.new_cache();
        logits_at_all(&model, &mut cache, &tokens[..20]);
        for (keep, wrong) in [(20, 9), (20, 17), (7, 1), (0, 30), (25, 3)] {
            let from = keep.min(cache.len());
            cache.truncate(keep);
            assert_eq!(cache.len(), from);
            logits_at_all(&model, &mut cache, &vec![60; wrong]);
            cache.truncate(from);
            let rows = logits_at_all(&model, &mut cache, &tokens[from..]);
            assert_same_bits(&rows, &whole[from..]);
        }
    }
}
