//! What commands give back, and how they print.

use std::{
    io::{Write, stdout},
    sync::mpsc,
    thread,
    time::Duration,
};

/// The time for which the end of the process waits for standard error.
const PATIENCE: Duration = Duration::from_secs(2);

/// What a command ends with when it fails; shown to the user as one sentence.
pub(crate) type CommandError = Box<dyn std::error::Error + Send + Sync>;

/// Prints at once; a reader that has gone away is not an error of ours.
pub(crate) fn print(text: &str) {
    let mut out = stdout();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Does what may block for ever, such as writing to a pipe that nothing reads, on another thread. Returns when it is
/// done, or after two seconds.
pub(super) fn within_patience(work: impl FnOnce() + Send + 'static) {
    let (done, is_done) = mpsc::channel::<()>();
    // Without a thread it is not done. The sender is dropped then, as it is after a panic, and ends the wait.
    let _ = thread::Builder::new().spawn(move || {
        work();
        drop(done);
    });
    let _ = is_done.recv_timeout(PATIENCE);
}
