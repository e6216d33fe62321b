//! Block types whose half bytes name the entries of a table, against their definition.

use std::io::Cursor;

use outrider_models::{LoadError, Model};
#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use crate::{
    fixture::{gguf, logits_at_all},
    tables::{Table, WIDTH},
    tolerance::compare,
};

#[test]
fn types_with_tables_agree_with_their_widened_weights() {
    let tokens: Vec<u32> = (0..20).map(|i| i * 31 % 70).collect();
    for table in Table::ALL {
        let [rows, expected] = table.files().map(|file| {
            let model = gguf(&file);
            logits_at_all(&model, &mut model.new_cache(), &tokens)
        });
        for (row, expected) in rows.iter().zip(&expected) {
            let error = compare(row, expected, 6e-2).unwrap_or_else(|error| panic!("{table:?}: {error}"));
            assert!(error > 0.0, "{table:?}: equal to the last bit, although activations are rounded");
        }
    }
}

#[test]
fn corrupt_files_of_types_with_tables_are_errors_or_models() {
    for table in Table::ALL {
        let [file, _] = table.files();
        for step in 0..50 {
            let len = (file.len() - 64) * step / 49;
            let loaded = Model::from_gguf(&mut Cursor::new(&file[..len]));
            assert!(matches!(loaded, Err(LoadError::Truncated { .. })), "{table:?}: loaded {len} bytes");
        }
        // Weights of any bits: NaN, infinities and the largest exponent among their scales.
        for byte in [0x00, 0x01, 0x7f, 0xff] {
            let mut file = file.clone();
            let data = file.len() - 3 * 4 * WIDTH - 70 * WIDTH / 4;
            file[data..][..5000].fill(byte);
            let model = gguf(&file);
            logits_at_all(&model, &mut model.new_cache(), &[1, 69, 3]);
        }
    }
}
