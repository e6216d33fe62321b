//! Models to test with.

use std::io::Cursor;

use outrider_models::{Chunk, ElementType, KvCache, Model};

use crate::blocks;

pub const DRAFT: &[u8] = include_bytes!("../../../pair/draft/draft-q8_0.gguf");
pub const TARGET: &[u8] = include_bytes!("../../../pair/target/target-f16.gguf");
pub const TOKENIZER: &[u8] = include_bytes!("../../../pair/tokenizer.json");

/// One random model in four element types.
pub const BLOCKS: [(&str, &[u8]); 4] = [
    ("f32", include_bytes!("../golden/blocks-f32.gguf")),
    ("f16", include_bytes!("../golden/blocks-f16.gguf")),
    ("q8_0", include_bytes!("../golden/blocks-q8_0.gguf")),
    ("q4_0", include_bytes!("../golden/blocks-q4_0.gguf")),
];

pub fn gguf(bytes: &[u8]) -> Model {
    Model::from_gguf(&mut Cursor::new(bytes)).unwrap()
}

/// Files of models whose rows are wide enough for every block type and kernel.
pub fn wide_files() -> Vec<Vec<u8>> {
    let blocks = blocks::TYPES.into_iter().filter(|&(element, ..)| element != ElementType::F32);
    blocks.map(|(element, ..)| blocks::files(element)[0].clone()).collect()
}

pub fn wide_models() -> Vec<Model> {
    wide_files().iter().map(|bytes| gguf(bytes)).collect()
}

/// Logits after every one of `tokens`, which follow those in `cache`.
pub fn logits_at_all(model: &Model, cache: &mut KvCache, tokens: &[u32]) -> Vec<Vec<f32>> {
    let positions: Vec<usize> = (0..tokens.len()).collect();
    let chunk = Chunk { cache, tokens, positions: &positions };
    let logits = model.forward(&mut [chunk]).unwrap();
    assert_eq!(logits.len(), 1);
    logits[0].iter().map(<[f32]>::to_vec).collect()
}
