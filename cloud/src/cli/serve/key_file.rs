//! File of keys, which is read again when it changes.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use tokio::time;

use crate::{cli::output::CommandError, keys::Keys};

/// Time between two looks at the file.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// Reads a file of keys.
pub(super) fn load(path: &Path) -> Result<Keys, CommandError> {
    let text =
        fs::read_to_string(path).map_err(|error| format!("the keys {} cannot be read: {error}", path.display()))?;
    Keys::parse(&text).map_err(|error| format!("the keys {} cannot be used: {error}", path.display()).into())
}

/// Reads the file again whenever its time or length changes. A file that cannot be used is logged, and the keys stay as
/// they are.
pub(super) async fn watch(path: PathBuf, keys: Keys) {
    let mut seen = state(&path);
    loop {
        time::sleep(LOOK_AGAIN).await;
        let now = state(&path);
        if now == seen {
            continue;
        }
        seen = now;
        let replaced = match fs::read_to_string(&path) {
            Ok(text) => keys.replace(&text).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        match replaced {
            Ok(keys) => tracing::info!(file = %path.display(), keys, "read the keys again"),
            Err(error) => {
                tracing::error!(file = %path.display(), error, "the keys cannot be used; the earlier ones stay");
            }
        }
    }
}

/// Time of the file's last change and its length; `None` if there is no file.
fn state(path: &Path) -> Option<(SystemTime, u64)> {
    let file = fs::metadata(path).ok()?;
    Some((file.modified().ok()?, file.len()))
}
