//! File of keys, which is read again when it changes.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
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

/// Reads the file at once, since it may have changed while the server started, and again every [`LOOK_AGAIN`]. Replaces
/// the keys if its contents are others. A file that cannot be used is logged, and the keys stay as they are.
pub(super) async fn watch(path: PathBuf, keys: Keys) {
    let mut seen = None;
    loop {
        let text = fs::read_to_string(&path).map_err(|error| error.to_string());
        if seen.as_ref() != Some(&text) {
            match text.as_ref().map_err(String::clone).and_then(|text| keys.replace(text).map_err(|e| e.to_string())) {
                Ok(keys) => tracing::info!(file = %path.display(), keys, "read the keys"),
                Err(error) => {
                    tracing::error!(file = %path.display(), error, "the keys cannot be used; the earlier ones stay");
                }
            }
            seen = Some(text);
        }
        time::sleep(LOOK_AGAIN).await;
    }
}

#[cfg(test)]
mod tests {
    use std::{env, time::SystemTime};

    use super::*;

    /// Time and length stay the same, as with some network drives and with files that are swapped.
    #[tokio::test]
    async fn a_change_is_seen_during_the_start_and_after_it() {
        let path = env::temp_dir().join(format!("outrider-{}-watched-keys.toml", std::process::id()));
        let write = |secret: &str| {
            fs::write(&path, format!("[[key]]\nname = \"web\"\nsecret = \"{secret}\"\n")).unwrap();
            fs::File::open(&path).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
        };
        write("AAAAAAAAAAAAAAAA");
        let keys = load(&path).unwrap();
        write("BBBBBBBBBBBBBBBB");
        let watching = tokio::spawn(watch(path.clone(), keys.clone()));
        for secret in ["BBBBBBBBBBBBBBBB", "CCCCCCCCCCCCCCCC"] {
            let found = async {
                while keys.find(secret).is_none() {
                    time::sleep(Duration::from_millis(10)).await;
                }
            };
            time::timeout(5 * LOOK_AGAIN, found).await.unwrap();
            write("CCCCCCCCCCCCCCCC");
        }
        watching.abort();
        fs::remove_file(&path).unwrap();
    }
}
