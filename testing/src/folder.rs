//! Temporary folders for tests.

use std::{
    env, fs,
    ops::Deref,
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicUsize, Ordering},
};

/// A folder of its own, which is deleted when it is dropped.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// Creates a folder with these files.
    pub fn with<N: AsRef<Path>, B: AsRef<[u8]>>(files: impl IntoIterator<Item = (N, B)>) -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("outrider-{}-{}", process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        for (name, bytes) in files {
            fs::write(path.join(name), bytes).unwrap();
        }
        Self(path)
    }

    /// Creates an empty folder.
    pub fn empty() -> Self {
        Self::with([("", ""); 0])
    }
}

impl Deref for Folder {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
