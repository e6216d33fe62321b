//! Notices to a supervisor that speaks systemd's protocol (`sd_notify`). Without one, they do nothing.

use std::{process, time::Duration};

use sd_notify::NotifyState;
use tokio::time;

/// Reports that the server accepts connections, and begins to feed the watchdog if the supervisor has one.
///
/// The watchdog is fed by a task of the runtime: a runtime whose threads are all blocked is restarted.
pub(super) fn ready() {
    notify(NotifyState::Ready);
    if let Some(limit) = watchdog() {
        tokio::spawn(async move {
            let mut pace = time::interval(limit / 2);
            loop {
                pace.tick().await;
                notify(NotifyState::Watchdog);
            }
        });
    }
}

/// Reports that the server stops.
pub(super) fn stopping() {
    notify(NotifyState::Stopping);
}

fn notify(state: NotifyState<'_>) {
    // The variables in the environment stay: removing them is unsound beside other threads.
    if let Err(error) = sd_notify::notify(false, &[state]) {
        tracing::warn!(%error, "the supervisor at NOTIFY_SOCKET cannot be notified");
    }
}

/// Time limit of the supervisor's watchdog, if it has one for this process.
fn watchdog() -> Option<Duration> {
    let number = |name| std::env::var(name).ok()?.parse::<u64>().ok();
    let is_meant = number("WATCHDOG_PID").is_none_or(|id| id == u64::from(process::id()));
    number("WATCHDOG_USEC").filter(|&limit| is_meant && limit > 1).map(Duration::from_micros)
}
