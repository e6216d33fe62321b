//! Models of files, for tests.

use std::io::Cursor;

use outrider_models::{ElementType, Model};
use outrider_testing::{elements::files, gguf::TYPES};

pub const DRAFT: &[u8] = include_bytes!("../../../pair/draft/draft-q8_0.gguf");
pub const TARGET: &[u8] = include_bytes!("../../../pair/target/target-f16.gguf");
pub const TOKENIZER: &[u8] = include_bytes!("../../../pair/tokenizer.json");

/// A random model, in four element types.
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
    let blocks = TYPES.into_iter().filter(|&(element, ..)| element != ElementType::F32);
    blocks.map(|(element, ..)| files(element)[0].clone()).collect()
}

/// Models of every kind of weight, of small and of wide rows, and the draft.
pub fn models() -> Vec<Model> {
    let small = BLOCKS.iter().map(|(_, bytes)| gguf(bytes));
    small.chain([gguf(DRAFT)]).chain(wide_files().iter().map(|bytes| gguf(bytes))).collect()
}

/// Tokens without meaning of a vocabulary of 61.
pub fn tokens(count: usize, seed: u32) -> Vec<u32> {
    (0..count as u32).map(|i| (i * 17 + seed * 29 + i * i * 3) % 61).collect()
}
