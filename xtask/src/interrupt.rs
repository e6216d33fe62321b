//! Requests to end while a server of ours is running.
//!
//! Ctrl-C reaches the server too, but `kill` reaches only us, and the server would go on holding its port. So while it
//! runs, both merely raise a flag. Waiting code sees the flag and returns, and the server ends with its guard.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, ensure};

/// A flag that Ctrl-C and `kill` raise.
#[derive(Debug)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Makes the signals raise the flag and do nothing else, from now on.
    #[cfg(unix)]
    pub fn listen() -> Result<Self> {
        use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
        let flag = Arc::new(AtomicBool::new(false));
        for signal in [SIGHUP, SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&flag)).context("signals cannot be listened for")?;
        }
        Ok(Self(flag))
    }

    /// Elsewhere Ctrl-C ends us and the server together, and the flag stays down.
    #[cfg(not(unix))]
    pub fn listen() -> Result<Self> {
        Ok(Self(Arc::default()))
    }

    /// Returns true if we were asked to end.
    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Fails if we were asked to end.
    pub fn ensure_not_raised(&self) -> Result<()> {
        ensure!(!self.is_raised(), "interrupted");
        Ok(())
    }
}
