//! The pair that comes with the source, for tests.

use std::path::{Path, PathBuf};

use outrider_models::{Model, Tokenizer};

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../pair").join(name)
}

pub(crate) fn draft() -> Model {
    Model::open(&path("draft/draft-q8_0.gguf")).unwrap()
}

pub(crate) fn target() -> Model {
    Model::open(&path("target/target-f16.gguf")).unwrap()
}

pub(crate) fn tokenizer() -> Tokenizer {
    Tokenizer::from_bytes(&std::fs::read(path("tokenizer.json")).unwrap()).unwrap()
}
