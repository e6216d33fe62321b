//! Writer of the log to standard error: a queue of lines, and a thread that writes them.
//!
//! Code that logs never waits for the reader of the log. A line is dropped, and counted, if the queue is full because
//! nothing reads the log, or if it cannot be written because the disk is full or the reader has gone.

use std::{
    io::{self, Write, stderr},
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

use tracing_appender::non_blocking::{ErrorCounter, NonBlocking, NonBlockingBuilder, WorkerGuard};

/// Capacity of the queue, in lines. Most have some 200 bytes, and all have less than a few thousand.
const QUEUED_LINES: usize = 4096;

/// Counts the lines for which the queue had no room.
static WITHOUT_ROOM: OnceLock<ErrorCounter> = OnceLock::new();
/// Counts the lines that could not be written.
static FAILED: AtomicU64 = AtomicU64::new(0);

/// Starts the writing thread. Dropping the guard writes the queued lines, which takes 1.1 s at most.
pub(crate) fn start() -> (NonBlocking, WorkerGuard) {
    let queue = NonBlockingBuilder::default().lossy(true).buffered_lines_limit(QUEUED_LINES).thread_name("log");
    let (writer, guard) = queue.finish(StandardError);
    WITHOUT_ROOM.get_or_init(|| writer.error_counter());
    (writer, guard)
}

/// Lines of the log that were dropped since the process began.
pub(crate) fn dropped_lines() -> u64 {
    let without_room = WITHOUT_ROOM.get().map_or(0, ErrorCounter::dropped_lines);
    without_room as u64 + FAILED.load(Ordering::Relaxed)
}

/// Standard error, with a count of lines that fail.
struct StandardError;

impl Write for StandardError {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        stderr().write(bytes)
    }

    fn write_all(&mut self, line: &[u8]) -> io::Result<()> {
        stderr().write_all(line).inspect_err(|_| {
            FAILED.fetch_add(1, Ordering::Relaxed);
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        stderr().flush()
    }
}
