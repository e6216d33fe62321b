//! Output and errors of commands.

use std::{
    io::{ErrorKind, Write, stderr, stdout},
    process,
    sync::mpsc,
    thread,
    time::Duration,
};

/// Longest wait for standard error at the end of the process.
const PATIENCE: Duration = Duration::from_secs(2);

/// Error with which a command fails; shown to the user as one sentence.
pub(crate) type CommandError = Box<dyn std::error::Error + Send + Sync>;

/// Prints a text and flushes it. A reader that has gone is no error of the command; text that cannot be written, as on
/// a full disk, ends it with status 1.
pub(crate) fn print(text: &str) {
    is_read(text);
}

/// Prints a text that is being written, and ends the process once its reader has gone; its connection ends with it, and
/// the server stops.
pub(crate) fn print_while_read(text: &str) {
    if !is_read(text) {
        process::exit(0);
    }
}

/// Prints a text and returns false if its reader has gone.
fn is_read(text: &str) -> bool {
    let mut out = stdout();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    match written {
        Ok(()) => true,
        Err(error) if error.kind() == ErrorKind::BrokenPipe => false,
        Err(error) => {
            let _ = writeln!(stderr(), "Error: the output cannot be written: {error}");
            process::exit(1);
        }
    }
}

/// Prints a line about progress to standard error, unless its reader has gone.
pub(super) fn tell(line: &str) {
    let _ = writeln!(stderr(), "{line}");
}

/// Runs work that may block forever, such as writing to a pipe that nothing reads, on another thread. Returns when it
/// is done, or after [`PATIENCE`].
pub(super) fn within_patience(work: impl FnOnce() + Send + 'static) {
    let (done, is_done) = mpsc::channel::<()>();
    // If no thread can be started, the sender is dropped, as it is after a panic, and that ends the wait.
    let _ = thread::Builder::new().spawn(move || {
        work();
        drop(done);
    });
    let _ = is_done.recv_timeout(PATIENCE);
}
