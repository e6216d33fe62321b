//! Errors of forward passes, which change nothing; growth of caches.

use outrider_models::{Chunk, ModelError};
use outrider_testing::logits::logits_at_all;
#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use crate::fixture::{BLOCKS, DRAFT, gguf};

#[test]
fn a_refused_pass_leaves_all_caches_as_they_were() {
    let model = gguf(BLOCKS[2].1);
    let past = [5, 6, 7];
    let mut good = model.new_cache();
    let mut bad = model.new_cache();
    logits_at_all(&model, &mut good, &past);
    logits_at_all(&model, &mut bad, &past);
    let long = [1; 46];
    type Check = fn(&ModelError) -> bool;
    let cases: [(&[u32], &[usize], Check); 5] = [
        (&[1, 64], &[], |error| {
            matches!(error, ModelError::TokenOutOfRange { chunk: 1, index: 1, token: 64, vocab_size: 64 })
        }),
        (&long, &[], |error| {
            matches!(error, ModelError::ContextExceeded { chunk: 1, cached: 3, added: 46, context_length: 48 })
        }),
        (&[1, 2], &[2], |error| matches!(error, ModelError::Position { chunk: 1, position: 2, tokens: 2 })),
        (&[1, 2], &[1, 0], |error| matches!(error, ModelError::Position { chunk: 1, position: 0, tokens: 2 })),
        (&[1, 2], &[0, 0], |error| matches!(error, ModelError::Position { chunk: 1, position: 0, tokens: 2 })),
    ];
    for (tokens, positions, expected) in cases {
        let mut batch = [
            Chunk { cache: &mut good, tokens: &[9, 10], positions: &[1] },
            Chunk { cache: &mut bad, tokens, positions },
        ];
        let error = model.forward(&mut batch).unwrap_err();
        assert!(expected(&error), "{error}");
        assert_eq!((good.len(), bad.len()), (3, 3));
    }
    let mut fresh = model.new_cache();
    logits_at_all(&model, &mut fresh, &past);
    let expected = logits_at_all(&model, &mut fresh, &[8]);
    assert_eq!(logits_at_all(&model, &mut good, &[8]), expected);
    assert_eq!(logits_at_all(&model, &mut bad, &[8]), expected);
}

#[test]
fn a_cache_of_another_model_is_refused() {
    let model = gguf(BLOCKS[0].1);
    let mut cache = gguf(DRAFT).new_cache();
    let mut batch = [Chunk { cache: &mut cache, tokens: &[1], positions: &[0] }];
    let error = model.forward(&mut batch).unwrap_err();
    assert!(matches!(error, ModelError::CacheMismatch { chunk: 0 }));
}

#[test]
fn the_context_can_be_filled_to_the_last_token() {
    let model = gguf(BLOCKS[2].1);
    let mut cache = model.new_cache();
    assert_eq!(logits_at_all(&model, &mut cache, &[1; 48]).len(), 48);
    let mut batch = [Chunk { cache: &mut cache, tokens: &[1], positions: &[] }];
    assert!(matches!(model.forward(&mut batch), Err(ModelError::ContextExceeded { .. })));
}

#[test]
fn nothing_to_do_is_not_an_error() {
    let model = gguf(BLOCKS[2].1);
    assert!(model.forward(&mut []).unwrap().is_empty());
    let mut cache = model.new_cache();
    let mut batch = [Chunk { cache: &mut cache, tokens: &[], positions: &[] }];
    let logits = model.forward(&mut batch).unwrap();
    assert!(logits.len() == 1 && logits[0].is_empty());
    assert!(cache.is_empty());
}

#[test]
fn caches_grow_with_their_tokens_and_keep_what_they_have() {
    let model = gguf(DRAFT);
    let config = model.config();
    let per_token = 2 * config.layers * config.kv_heads * config.head_dim * 4;
    let mut cache = model.new_cache();
    assert_eq!(cache.bytes(), 0);
    logits_at_all(&model, &mut cache, &[1]);
    assert!(cache.bytes() <= 64 * per_token, "{} bytes for one token", cache.bytes());
    logits_at_all(&model, &mut cache, &[1; 99]);
    assert!((100 * per_token..=200 * per_token).contains(&cache.bytes()));
    logits_at_all(&model, &mut cache, &[1; 400]);
    assert!(cache.bytes() <= config.context_length * per_token);
    let full = cache.bytes();
    cache.truncate(3);
    assert_eq!((cache.len(), cache.bytes()), (3, full));
    cache.truncate(100);
    assert_eq!(cache.len(), 3);
}
