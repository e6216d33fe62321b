//! What commands give back, and how they print.

use std::io::{Write, stdout};

/// What a command ends with when it fails; shown to the user as one sentence.
pub(crate) type CommandError = Box<dyn std::error::Error + Send + Sync>;

/// Prints at once; a reader that has gone away is not an error of ours.
pub(crate) fn print(text: &str) {
    let mut out = stdout();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
