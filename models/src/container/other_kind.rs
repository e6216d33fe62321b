//! Files that stand where a model is expected: recognition by first bytes, name or type, and advice.

use crate::error::LoadError;

/// Kind of file, and the way to the model itself.
pub(super) type Kind = (&'static str, &'static str);

const LFS: Kind = ("a pointer of Git LFS", "`git lfs pull` fetches the file that it points to");
const HTML: Kind = ("a page of HTML", "a sign-in or error page was saved; download the file itself");
const ONNX: Kind = ("an ONNX model", OTHER_FILES);
const OTHER_FILES: &str = "use the safetensors or a GGUF file of the same model";
const ADAPTER: Kind = (
    "a LoRA adapter",
    "merge it into its base model (`merge_and_unload` of PEFT, or llama-export-lora) and name the merged model",
);

/// Kinds by first bytes.
const BEGINNINGS: [(&[u8], Kind); 6] = [
    (b"version https://git-lfs", LFS),
    (b"<!doctype html", HTML),
    (b"<html", HTML),
    (b"\x80\x02", ("a PyTorch checkpoint (pickle)", "convert it to safetensors or GGUF")),
    (b"PK\x03\x04", ("a ZIP archive or a PyTorch checkpoint", "convert it to safetensors or GGUF")),
    (b"{", ("a JSON file", "name the folder, or the .gguf or .safetensors file beside it")),
];

/// Kinds by `general.type` of a GGUF file, as llama.cpp's converters write it.
const GGUF_TYPES: [(&str, Kind); 3] = [
    ("adapter", ADAPTER),
    ("mmproj", ("the image encoder of a model (mmproj)", "name the GGUF file of the language model")),
    ("imatrix", ("an importance matrix", "name the GGUF file of the model")),
];

/// Kinds by the ending of a name in a folder.
#[cfg(not(target_arch = "wasm32"))]
const ENDINGS: [(&str, Kind); 4] = [
    ("onnx", ONNX),
    (".onnx_data", ONNX),
    (".h5", ("a TensorFlow model", OTHER_FILES)),
    (".msgpack", ("a Flax model", OTHER_FILES)),
];

/// Refuses a file whose first bytes are those of another kind. A kind with more bytes than `start` is known by those
/// that are there, at least four.
///
/// # Errors
/// [`LoadError::OtherKind`].
pub(super) fn refuse(start: &[u8]) -> Result<(), LoadError> {
    let is = |first: &[u8]| {
        let length = first.len().min(start.len());
        length >= first.len().min(4) && start[..length].eq_ignore_ascii_case(&first[..length])
    };
    // ONNX is a protobuf: field 1 is the format's version, and field 2 is the name of the program that wrote it.
    let onnx = matches!(start, [0x08, 1..=31, 0x12, ..]).then_some(ONNX);
    let kind = BEGINNINGS.iter().find(|(first, _)| is(first)).map(|&(_, kind)| kind);
    refused(kind.or(onnx))
}

/// Refuses a GGUF file of another type than a model.
///
/// # Errors
/// [`LoadError::OtherKind`].
pub(super) fn refuse_gguf_type(name: &str) -> Result<(), LoadError> {
    refused(GGUF_TYPES.iter().find(|(known, _)| *known == name).map(|&(_, kind)| kind))
}

/// Refuses the tensors of an adapter, which PEFT names after the weights that they change.
///
/// # Errors
/// [`LoadError::OtherKind`].
pub(super) fn refuse_adapter<'n>(mut tensors: impl Iterator<Item = &'n String>) -> Result<(), LoadError> {
    refused(tensors.any(|name| name.contains(".lora_A.")).then_some(ADAPTER))
}

/// Kind of a file or folder by its name, if it is known and not a model's.
#[cfg(not(target_arch = "wasm32"))]
pub(super) fn of_name(name: &str) -> Option<Kind> {
    let is_adapter = name == "adapter_config.json" || name.starts_with("adapter_model.");
    let ending = || ENDINGS.iter().find(|(ending, _)| name.ends_with(ending)).map(|&(_, kind)| kind);
    is_adapter.then_some(ADAPTER).or_else(ending)
}

fn refused(kind: Option<Kind>) -> Result<(), LoadError> {
    kind.map_or(Ok(()), |(kind, advice)| Err(LoadError::OtherKind { kind, advice }))
}
