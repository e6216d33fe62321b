//! Trained heads for the draft model: from their file to the session's decisions.

use outrider_models::{HeadsError, HeadsFile, LinearHead, ModelConfig, Tokenizer};
use outrider_speculation::draft::{Head, HeadError, Heads};

use crate::error::Failure;

/// Parses `heads.safetensors` and checks that it belongs to this draft model.
///
/// Fails with the code `corrupt-heads` or `heads-mismatch`.
pub fn read(bytes: &[u8], draft: &ModelConfig, tokenizer: &Tokenizer) -> Result<Heads, Failure> {
    let file = HeadsFile::from_bytes(bytes).map_err(corrupt)?;
    file.check_draft(draft, tokenizer).map_err(|error| match error {
        HeadsError::OtherDraft { .. } => Failure::new("heads-mismatch", error.to_string()),
        _ => corrupt(error),
    })?;
    let head = |head: Option<LinearHead>| head.map(|head| Head::new(head.weights, head.bias, head.token)).transpose();
    let heads = (|| Ok(Heads { gate: head(file.gate)?, stop: head(file.stop)?, threshold: file.metadata.tau }))();
    heads.map_err(|error: HeadError| Failure::new("corrupt-heads", error.to_string()))
}

fn corrupt(error: HeadsError) -> Failure {
    Failure::new("corrupt-heads", error.to_string())
}
