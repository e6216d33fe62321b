//! Models in the form in which their file stores them.

use std::io::Cursor;

use outrider_models::{LoadError, StoredModel};
use outrider_testing::logits::logits_at_all;
#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use crate::fixture::{BLOCKS, DRAFT, TARGET, gguf, wide_files};

const TOKENS: [u32; 5] = [1, 60, 7, 7, 23];

#[test]
fn the_bytes_of_a_file_make_the_model_that_the_file_makes() {
    let wide = wide_files();
    let files = BLOCKS.iter().map(|(_, bytes)| *bytes).chain([DRAFT, TARGET]).chain(wide.iter().map(Vec::as_slice));
    for file in files {
        let stored = StoredModel::from_gguf(&mut Cursor::new(file)).unwrap();
        let matrices = [&stored.weights.embedding, stored.weights.layers[0].down.as_ref().unwrap()];
        for matrix in matrices {
            assert_eq!(matrix.bytes.len(), matrix.outputs * matrix.element.row_bytes(matrix.inputs));
            // As they stand in the file, wherever that is.
            let start = &matrix.bytes[..64];
            assert!(file.windows(64).any(|window| window == start));
        }
        let (direct, model) = (gguf(file), stored.into_model().unwrap());
        assert_eq!(model.config(), direct.config());
        let logits = |model| logits_at_all(model, &mut model.new_cache(), &TOKENS);
        assert_eq!(logits(&model), logits(&direct));
    }
}

#[test]
fn a_checkpoint_is_read_as_well() {
    let config = include_bytes!("../golden/grouped.config.json");
    let weights = include_bytes!("../golden/grouped.safetensors");
    let stored = StoredModel::from_safetensors(config, weights).unwrap();
    let direct = outrider_models::Model::from_safetensors(config, weights).unwrap();
    let logits = |model| logits_at_all(model, &mut model.new_cache(), &TOKENS[..3]);
    assert_eq!(logits(&stored.into_model().unwrap()), logits(&direct));
    assert!(StoredModel::from_safetensors(config, &weights[..weights.len() - 1]).is_err());
    let error = StoredModel::from_gguf(&mut Cursor::new(&TARGET[..TARGET.len() - 64])).unwrap_err();
    assert!(matches!(error, LoadError::Truncated { .. }), "{error}");
}
