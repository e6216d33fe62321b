//! The cache of Hugging Face's tools, laid out as `huggingface_hub` does it.
//!
//! | path in `$HF_HOME/hub` | what it is |
//! |---|---|
//! | `models--OWNER--NAME/refs/main` | the commit that was last downloaded |
//! | `models--OWNER--NAME/snapshots/COMMIT/FILE` | a link to the file's bytes |
//! | `models--OWNER--NAME/blobs/ETAG` | the bytes of a version of a file |
//! | `models--OWNER--NAME/blobs/ETAG.incomplete` | the first bytes of one, as far as a download came |
//! | `.locks/models--OWNER--NAME/ETAG.lock` | locked by the process that downloads it |

use std::{
    env,
    fs::{self, File, TryLockError},
    io,
    path::{Component, Path, PathBuf},
    time::Duration,
};

use super::endpoint::RequestError;

/// Pause between two attempts to take a lock that another process holds.
const LOCK_PAUSE: Duration = Duration::from_millis(200);

/// All repositories in the cache.
pub(super) struct Cache {
    /// The folder that `HF_HOME` names, or its default.
    home: PathBuf,
}

impl Cache {
    pub(super) fn from_env() -> Self {
        let given = env::var_os("HF_HOME").filter(|home| !home.is_empty());
        let default = || env::home_dir().unwrap_or_default().join(".cache").join("huggingface");
        Self { home: given.map_or_else(default, PathBuf::from) }
    }

    /// The folder of all repositories.
    pub(super) fn path(&self) -> PathBuf {
        self.home.join("hub")
    }

    /// The token in `HF_TOKEN`, or the one that Hugging Face's command line has stored, without white space around it.
    pub(super) fn token(&self) -> Option<String> {
        let trimmed = |token: String| Some(token.trim().to_owned()).filter(|token| !token.is_empty());
        let stored = || fs::read_to_string(self.home.join("token")).ok();
        env::var("HF_TOKEN").ok().and_then(trimmed).or_else(|| stored().and_then(trimmed))
    }

    /// The files of one repository, `OWNER/NAME`.
    pub(super) fn repository(&self, name: &str) -> Repository {
        let folder = format!("models--{}", name.replace('/', "--"));
        Repository { locks: self.path().join(".locks").join(&folder), path: self.path().join(folder) }
    }
}

/// One repository in the cache.
pub(super) struct Repository {
    path: PathBuf,
    locks: PathBuf,
}

impl Repository {
    /// Commit that was last downloaded.
    pub(super) fn commit(&self) -> Option<String> {
        let commit = fs::read_to_string(self.path.join("refs").join("main")).ok()?;
        Some(commit.trim().to_owned()).filter(|commit| is_inside(commit))
    }

    /// Records a commit as the last downloaded one, once all its wanted files are there.
    pub(super) fn set_commit(&self, commit: &str) -> Result<(), RequestError> {
        let path = self.path.join("refs").join("main");
        within_folder(&path, |path| fs::write(path, commit))
    }

    /// The folder of a commit's files.
    pub(super) fn snapshot(&self, commit: &str) -> PathBuf {
        self.path.join("snapshots").join(commit)
    }

    /// Names of a commit's files in the cache, with their folders.
    pub(super) fn files(&self, commit: &str) -> Vec<String> {
        let (mut names, mut folders) = (Vec::new(), vec![(self.snapshot(commit), String::new())]);
        while let Some((folder, prefix)) = folders.pop() {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
                // Links to folders are not followed: the cache has none, and they might form a loop.
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() => folders.push((entry.path(), format!("{name}/"))),
                    _ => names.push(name),
                }
            }
        }
        names
    }

    /// Path of the bytes of a version of a file.
    pub(super) fn blob(&self, etag: &str) -> PathBuf {
        self.path.join("blobs").join(etag)
    }

    /// Waits until no other process downloads this version of a file, and keeps others waiting until the result is
    /// dropped.
    pub(super) async fn lock(&self, etag: &str) -> Result<File, RequestError> {
        let path = self.locks.join(format!("{etag}.lock"));
        let file = within_folder(&path, |path| File::options().create(true).append(true).open(path))?;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::WouldBlock) => tokio::time::sleep(LOCK_PAUSE).await,
                Err(TryLockError::Error(error)) => return Err(unwritable(&path, error)),
            }
        }
    }

    /// Links a version of a file into a commit's folder.
    pub(super) fn link(&self, etag: &str, commit: &str, name: &str) -> Result<PathBuf, RequestError> {
        let path = self.snapshot(commit).join(name);
        within_folder(&path, |path| {
            // An old link whose blob was deleted would make linking fail.
            match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            #[cfg(unix)]
            {
                let up = "../".repeat(name.split('/').count() + 1);
                std::os::unix::fs::symlink(format!("{up}blobs/{etag}"), path)
            }
            #[cfg(not(unix))]
            fs::hard_link(self.blob(etag), path).or_else(|_| fs::copy(self.blob(etag), path).map(|_| ()))
        })?;
        Ok(path)
    }
}

/// Creates the folder of a path, then calls `act` with the path.
pub(super) fn within_folder<T>(path: &Path, act: impl FnOnce(&Path) -> io::Result<T>) -> Result<T, RequestError> {
    let folder = path.parent().unwrap_or(Path::new(""));
    fs::create_dir_all(folder).and_then(|()| act(path)).map_err(|error| unwritable(path, error))
}

pub(super) fn unwritable(path: &Path, error: io::Error) -> RequestError {
    RequestError::Cache { path: path.display().to_string(), error }
}

/// Returns true for names from a server that stay within the folder to which they are joined.
pub(super) fn is_inside(name: &str) -> bool {
    let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_));
    !name.is_empty() && !name.contains('\\') && Path::new(name).components().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_leave_their_folder_are_told_from_others() {
        for inside in ["model.gguf", "q4/model.gguf", "0123abc", "..gguf"] {
            assert!(is_inside(inside), "{inside}");
        }
        for outside in ["", "..", "../x", "a/../../x", "/etc/passwd", ".", "a\\..\\x"] {
            assert!(!is_inside(outside), "{outside}");
        }
    }
}
