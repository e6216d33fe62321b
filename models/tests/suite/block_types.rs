//! Element types against their definition.

use std::io::Cursor;

use outrider_models::{LoadError, Model};
use outrider_testing::{
    elements::{WIDTH, files},
    gguf::TYPES,
    logits::{compare, logits_at_all},
};
#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use crate::fixture::gguf;

#[test]
fn every_type_agrees_with_its_widened_weights() {
    let tokens: Vec<u32> = (0..20).map(|i| i * 31 % 70).collect();
    for (element, _, block_len, _) in TYPES {
        let [rows, expected] = files(element).map(|file| {
            let model = gguf(&file);
            logits_at_all(&model, &mut model.new_cache(), &tokens)
        });
        // With block types activations are rounded to eight bits.
        let tolerance = if block_len == 1 { 1e-6 } else { 6e-2 };
        for (row, expected) in rows.iter().zip(&expected) {
            let error = compare(row, expected, tolerance).unwrap_or_else(|error| panic!("{element}: {error}"));
            assert!(
                error > 0.0 || block_len == 1,
                "{element}: equal to the last bit, although activations are rounded"
            );
        }
    }
}

#[test]
fn blocks_are_as_long_as_their_definition_has_them() {
    for (element, code, block_len, block_bytes) in TYPES {
        let found = (element.gguf_code(), element.block_len(), element.block_bytes(), element.row_bytes(512));
        assert_eq!(found, (code, block_len, block_bytes, 512 / block_len * block_bytes), "{element}");
    }
}

#[test]
fn corrupt_files_of_block_types_are_errors_or_models() {
    for (element, ..) in TYPES.into_iter().filter(|&(_, _, block_len, _)| block_len > 1) {
        let [file, _] = files(element);
        for step in 0..50 {
            let len = (file.len() - 64) * step / 49;
            let loaded = Model::from_gguf(&mut Cursor::new(&file[..len]));
            assert!(matches!(loaded, Err(LoadError::Truncated { .. })), "{element}: loaded {len} bytes");
        }
        // Weights of any bits: NaN, infinities and the largest exponent among their scales.
        for byte in [0x00, 0x01, 0x7f, 0xff] {
            let mut file = file.clone();
            // The end of the last matrix and the beginning of the last norm.
            let data = file.len() - 4 * WIDTH - 70 * WIDTH / 4;
            file[data..][..5000].fill(byte);
            let model = gguf(&file);
            logits_at_all(&model, &mut model.new_cache(), &[1, 69, 3]);
        }
    }
}
