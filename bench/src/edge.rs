//! `cargo xtask bench edge`: decoding in the browser, beside wllama's, candle's and ONNX Runtime Web's.
//!
//! ```text
//! edge prepare FOLDER [quick]   writes the models, and FOLDER/edge/models.json for web/e2e/edge/bench.mjs
//! edge report FOLDER            makes tables and bars of FOLDER/edge/measured.json
//! ```
//!
//! `BENCH_MODELS` names other shapes.

mod report;

use std::{fs, path::Path};

use outrider_models::ElementType;
use serde_json::{Value, json};

use crate::{
    passes::Failure,
    shapes::{self, GEMMA, LLAMA_68M, QWEN, SMOLLM2, STORIES, Shape, Storage},
};

/// Models that are in use as drafts.
const DRAFTS: [Shape; 5] = [STORIES, LLAMA_68M, SMOLLM2, GEMMA, QWEN];

/// Tokens of the pair's context.
const PAIR_CONTEXT: u32 = 512;

/// Runs the measurement with the arguments that follow its name.
pub fn run(arguments: &[&str]) -> Result<(), Failure> {
    match *arguments {
        ["prepare", folder] => prepare(Path::new(folder), &DRAFTS),
        ["prepare", folder, "quick"] => prepare(Path::new(folder), &[STORIES]),
        ["report", folder] => report::write(Path::new(folder)),
        _ => Err("`prepare` or `report` with a folder is expected".into()),
    }
}

fn prepare(folder: &Path, shapes: &[Shape]) -> Result<(), Failure> {
    let shapes = shapes::chosen(shapes)?;
    let mut models = vec![pair()?];
    for shape in shapes {
        for format in [Storage::All(ElementType::Q8_0), Storage::All(ElementType::Q4_0), Storage::Q4KM] {
            let path = shape.write(format, &folder.join("models"))?;
            models.push(model(shape.name, format.name(), &path, shape.streamed(format), shapes::CONTEXT)?);
        }
    }
    fs::create_dir_all(folder.join("edge"))?;
    fs::write(folder.join("edge").join("models.json"), serde_json::to_string_pretty(&Value::from(models))?)?;
    Ok(())
}

/// The draft of the default pair. It ties its head, so that a pass reads all of the file.
fn pair() -> Result<Value, Failure> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../pair/draft/draft-q8_0.gguf");
    let bytes = fs::metadata(&path)?.len();
    model("the pair's draft", "Q8_0", &path, bytes, PAIR_CONTEXT)
}

fn model(name: &str, format: &str, path: &Path, streamed: u64, context: u32) -> Result<Value, Failure> {
    let path = fs::canonicalize(path)?;
    let file = path.file_name().and_then(|name| name.to_str()).ok_or("a model has no name")?;
    Ok(json!({
        "name": name,
        "format": format,
        "file": file,
        "path": path,
        "fileBytes": fs::metadata(&path)?.len(),
        "streamedBytes": streamed,
        "context": context,
    }))
}
