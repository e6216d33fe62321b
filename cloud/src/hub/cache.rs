//! The cache of Hugging Face's tools, laid out as `huggingface_hub` does it.
//!
//! | path in `$HF_HUB_CACHE` | what it is |
//! |---|---|
//! | `models--OWNER--NAME/refs/REVISION` | the commit of this branch or tag that was last downloaded |
//! | `models--OWNER--NAME/snapshots/COMMIT/FILE` | a link to the file's bytes |
//! | `models--OWNER--NAME/blobs/ETAG` | the bytes of a version of a file |
//! | `models--OWNER--NAME/blobs/ETAG.incomplete` | the first bytes of one, as far as a download came |
//! | `.locks/models--OWNER--NAME/ETAG.lock` | locked by the process that downloads it |

use std::{
    env,
    ffi::OsString,
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
    /// Folder of all repositories.
    hub: PathBuf,
    /// Token of the environment, without white space around it.
    token: Option<String>,
    /// File with the token that Hugging Face's command line has stored.
    token_file: PathBuf,
}

impl Cache {
    /// The cache that the environment names.
    ///
    /// | variables, first to last | default |
    /// |---|---|
    /// | `HF_HOME` | `$XDG_CACHE_HOME/huggingface`, or `~/.cache/huggingface` |
    /// | `HF_HUB_CACHE`, `HUGGINGFACE_HUB_CACHE` | `$HF_HOME/hub` |
    /// | `HF_TOKEN`, `HUGGING_FACE_HUB_TOKEN` | the file `HF_TOKEN_PATH`, by default `$HF_HOME/token` |
    pub(super) fn from_env() -> Self {
        Self::of(|name| env::var_os(name), &env::home_dir().unwrap_or_default())
    }

    fn of(variable: impl Fn(&str) -> Option<OsString>, user: &Path) -> Self {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let path = |name: &str| set(name).map(|value| expanded(value.into(), user));
        let home = path("HF_HOME")
            .unwrap_or_else(|| path("XDG_CACHE_HOME").unwrap_or_else(|| user.join(".cache")).join("huggingface"));
        let token = |name: &str| set(name)?.to_str().and_then(trimmed);
        Self {
            hub: path("HF_HUB_CACHE").or_else(|| path("HUGGINGFACE_HUB_CACHE")).unwrap_or_else(|| home.join("hub")),
            token: token("HF_TOKEN").or_else(|| token("HUGGING_FACE_HUB_TOKEN")),
            token_file: path("HF_TOKEN_PATH").unwrap_or_else(|| home.join("token")),
        }
    }

    /// The folder of all repositories.
    pub(super) fn path(&self) -> &Path {
        &self.hub
    }

    /// The token of the environment, or the stored one.
    pub(super) fn token(&self) -> Option<String> {
        let stored = || trimmed(&fs::read_to_string(&self.token_file).ok()?);
        self.token.clone().or_else(stored)
    }

    /// The files of one repository, `OWNER/NAME`.
    pub(super) fn repository(&self, name: &str) -> Repository {
        let folder = format!("models--{}", name.replace('/', "--"));
        Repository { locks: self.path().join(".locks").join(&folder), path: self.path().join(folder) }
    }
}

/// Text without white space around it; `None` if nothing is left.
fn trimmed(text: &str) -> Option<String> {
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// Path with `~` at its beginning replaced by the user's folder.
fn expanded(path: PathBuf, user: &Path) -> PathBuf {
    match path.strip_prefix("~") {
        Ok(rest) if rest.as_os_str().is_empty() => user.to_owned(),
        Ok(rest) => user.join(rest),
        Err(_) => path,
    }
}

/// One repository in the cache.
pub(super) struct Repository {
    path: PathBuf,
    locks: PathBuf,
}

impl Repository {
    /// Commit of a revision that was last downloaded. A revision that is a commit is its own.
    pub(super) fn commit(&self, revision: &str) -> Option<String> {
        if is_commit(revision) {
            return Some(revision.to_owned());
        }
        let commit = fs::read_to_string(self.reference(revision)).ok()?;
        Some(commit.trim().to_owned()).filter(|commit| is_inside(commit))
    }

    /// Records a commit as the last downloaded one of a revision, once all its wanted files are there.
    pub(super) fn set_commit(&self, revision: &str, commit: &str) -> Result<(), RequestError> {
        within_folder(&self.reference(revision), |path| fs::write(path, commit))
    }

    /// File with the commit of a branch or tag.
    fn reference(&self, revision: &str) -> PathBuf {
        self.path.join("refs").join(revision)
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

/// Returns true for the full name of a commit, 40 hexadecimal digits.
fn is_commit(revision: &str) -> bool {
    revision.len() == 40 && revision.bytes().all(|byte| byte.is_ascii_hexdigit())
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

    /// Values that huggingface_hub 1.0 has for these variables (`constants.py`, `utils/_auth.py`).
    #[test]
    fn the_environment_names_the_cache_as_for_huggingface_hub() {
        let of = |variables: &[(&str, &str)]| {
            let get = |name: &str| Some(variables.iter().find(|(found, _)| *found == name)?.1.into());
            let Cache { hub, token, token_file } = Cache::of(get, Path::new("/home/me"));
            let text = |path: PathBuf| path.to_str().unwrap().to_owned();
            (text(hub), token, text(token_file))
        };
        for (variables, hub, token, token_file) in [
            (&[][..], "/home/me/.cache/huggingface/hub", None, "/home/me/.cache/huggingface/token"),
            (&[("XDG_CACHE_HOME", "/c")], "/c/huggingface/hub", None, "/c/huggingface/token"),
            (&[("HF_HOME", "/h"), ("XDG_CACHE_HOME", "/c"), ("HF_TOKEN", "")], "/h/hub", None, "/h/token"),
            (&[("HF_HOME", "~/h")], "/home/me/h/hub", None, "/home/me/h/token"),
            (&[("HF_HOME", "/h"), ("HF_HUB_CACHE", "/models")], "/models", None, "/h/token"),
            (
                &[("HUGGINGFACE_HUB_CACHE", "~"), ("HF_TOKEN_PATH", "/run/secrets/hf")],
                "/home/me",
                None,
                "/run/secrets/hf",
            ),
            (&[("HF_HUB_CACHE", "/a"), ("HUGGINGFACE_HUB_CACHE", "/b"), ("HF_HOME", "/h")], "/a", None, "/h/token"),
            (&[("HF_HOME", "/h"), ("HF_TOKEN", " hf_a\r\n")], "/h/hub", Some("hf_a"), "/h/token"),
            (&[("HF_HOME", "/h"), ("HUGGING_FACE_HUB_TOKEN", "hf_b")], "/h/hub", Some("hf_b"), "/h/token"),
            (
                &[("HF_HOME", "/h"), ("HF_TOKEN", "hf_a"), ("HUGGING_FACE_HUB_TOKEN", "hf_b")],
                "/h/hub",
                Some("hf_a"),
                "/h/token",
            ),
        ] {
            let expected = (hub.to_owned(), token.map(str::to_owned), token_file.to_owned());
            assert_eq!(of(variables), expected, "{variables:?}");
        }
    }

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
