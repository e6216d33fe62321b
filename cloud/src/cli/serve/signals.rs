//! Signals of the operating system to the server.

use std::io;

use tokio::signal;

/// Request of an operator or of a supervisor, by a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Signal {
    /// Request of Ctrl-C to stop now.
    Interrupt,
    /// Request of SIGTERM to stop once balancers have noticed.
    Terminate,
    /// Request of SIGHUP to read the settings again.
    Reload,
}

/// Handlers of the signals, installed before the server says that it is ready.
pub(super) struct Signals {
    #[cfg(unix)]
    interrupt: signal::unix::Signal,
    #[cfg(unix)]
    terminate: signal::unix::Signal,
    #[cfg(unix)]
    hangup: signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    pub(super) fn listen() -> io::Result<Self> {
        use signal::unix::{SignalKind, signal};
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for the next signal.
    pub(super) async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.interrupt.recv() => Signal::Interrupt,
            _ = self.terminate.recv() => Signal::Terminate,
            _ = self.hangup.recv() => Signal::Reload,
        }
    }
}

#[cfg(not(unix))]
impl Signals {
    pub(super) fn listen() -> io::Result<Self> {
        Ok(Self {})
    }

    /// Waits for Ctrl-C, the one signal of other systems.
    pub(super) async fn next(&mut self) -> Signal {
        // If the handler cannot be installed, the default action ends the process.
        let _ = signal::ctrl_c().await;
        Signal::Interrupt
    }
}
