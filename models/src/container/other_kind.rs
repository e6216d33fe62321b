//! Files that stand where a model is expected, by their first bytes.

use crate::error::LoadError;

/// First bytes, kind and advice.
const KINDS: [(&[u8], &str, &str); 6] = [
    (b"version https://git-lfs", LFS, "`git lfs pull` fetches the file that it points to"),
    (b"<!doctype html", HTML, "a sign-in or error page was saved; download the file itself"),
    (b"<html", HTML, "a sign-in or error page was saved; download the file itself"),
    (b"\x80\x02", "a PyTorch checkpoint (pickle)", "convert it to safetensors or GGUF"),
    (b"PK\x03\x04", "a ZIP archive or a PyTorch checkpoint", "convert it to safetensors or GGUF"),
    (b"{", "a JSON file", "name the folder, or the .gguf or .safetensors file beside it"),
];
const LFS: &str = "a pointer of Git LFS";
const HTML: &str = "a page of HTML";

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
    match KINDS.iter().find(|(first, ..)| is(first)) {
        Some(&(_, kind, advice)) => Err(LoadError::OtherKind { kind, advice }),
        None => Ok(()),
    }
}
