//! Models by their names on Hugging Face's hub: `hf:OWNER/NAME[@REVISION][:FILE]`.
//!
//! Files are kept in the cache that Hugging Face's own tools use, so that every file is downloaded once for all of
//! them. An interrupted download is resumed. The environment variables of those tools apply: `HF_TOKEN`,
//! `HF_TOKEN_PATH`, `HF_HOME`, `HF_HUB_CACHE`, `HF_ENDPOINT`, `HF_HUB_OFFLINE`.

use std::{
    env,
    path::{Path, PathBuf},
    str::FromStr,
};

use reqwest::{Response, StatusCode};
use serde::Deserialize;

use self::{
    cache::{Cache, Repository, is_inside},
    download::Remote,
    endpoint::Endpoint,
};

mod cache;
mod download;
mod endpoint;
pub(crate) mod wheel;

pub use self::{endpoint::RequestError, wheel::WheelError};

/// Prefix of a path that is a name on the hub.
pub const PREFIX: &str = "hf:";

/// Files of a checkpoint that are downloaded with its weights, if the repository has them.
const BESIDE: [&str; 8] = [
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
    "additional_chat_templates/tool_use.jinja",
    "special_tokens_map.json",
    "model.safetensors.index.json",
];

/// A model's name on the hub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HubName {
    /// Name of the repository, `owner/name`.
    repository: String,
    /// Branch, tag or commit; without it, the branch `main`.
    revision: Option<String>,
    /// One of its files; without it, the checkpoint or the only GGUF file.
    file: Option<String>,
}

/// Reason why a model of the hub cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum HubError {
    /// The name is malformed.
    #[error(
        "{name:?} is not the name of a model on the hub: write hf:OWNER/NAME, with @REVISION for a branch, tag or commit, and :FILE for one of its files"
    )]
    Name {
        /// Name that was given, with its prefix.
        name: String,
    },
    /// The repository does not exist, or this token may not see it.
    #[error("there is no model {repository} at {endpoint}; if it is private, set HF_TOKEN to a token that may read it")]
    NoRepository {
        /// Name of the repository.
        repository: String,
        /// Base URL of the hub.
        endpoint: String,
    },
    /// The repository has no such branch, tag or commit.
    #[error("the model {repository} has no revision {revision} at {endpoint}: name a branch, a tag or a whole commit")]
    NoRevision {
        /// Name of the repository.
        repository: String,
        /// Revision that was given.
        revision: String,
        /// Base URL of the hub.
        endpoint: String,
    },
    /// The repository is gated: its owner grants access.
    #[error(
        "the model {repository} is gated: accept its terms at {endpoint}/{repository}, then set HF_TOKEN to your token"
    )]
    Gated {
        /// Name of the repository.
        repository: String,
        /// Base URL of the hub.
        endpoint: String,
    },
    /// The repository has several models and the name selects none.
    #[error("the model {repository} has several GGUF files: name one, as hf:{repository}:{}", .files.join(", or :"))]
    Choice {
        /// Name of the repository.
        repository: String,
        /// GGUF files to choose from.
        files: Vec<String>,
    },
    /// The repository has no file that can be read.
    #[error(
        "the model {repository} has {} that can be read: wanted is model.safetensors, in one file or several, or GGUF",
        what(.file.as_deref())
    )]
    NoFile {
        /// Name of the repository.
        repository: String,
        /// The file that was asked for.
        file: Option<String>,
    },
    /// The model is not in the cache, and `HF_HUB_OFFLINE` forbids downloads.
    #[error("the model {repository} is not in the cache {cache}, and HF_HUB_OFFLINE forbids downloads")]
    Offline {
        /// Name of the repository.
        repository: String,
        /// Folder of the cache.
        cache: String,
    },
    /// A request to the hub failed.
    #[error("the model {repository} cannot be downloaded from {endpoint}: {error}")]
    Failed {
        /// Name of the repository.
        repository: String,
        /// Base URL of the hub.
        endpoint: String,
        /// Error of the request.
        error: Box<RequestError>,
    },
}

/// Response of the hub about a repository.
#[derive(Deserialize)]
struct Listing {
    /// Latest commit of the revision.
    sha: String,
    siblings: Vec<Sibling>,
}

#[derive(Deserialize)]
struct Sibling {
    rfilename: String,
}

fn what(file: Option<&str>) -> String {
    file.map_or_else(|| "no file".to_owned(), |file| format!("no file {file}"))
}

impl FromStr for HubName {
    type Err = HubError;

    /// Parses the part of a name that follows `hf:`.
    fn from_str(name: &str) -> Result<Self, HubError> {
        let (repository, file) = match name.split_once(':') {
            Some((repository, file)) => (repository, Some(file)),
            None => (name, None),
        };
        let (repository, revision) = match repository.split_once('@') {
            Some((repository, revision)) => (repository, Some(revision)),
            None => (repository, None),
        };
        let is_plain = |part: &str| {
            let is_known = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
            !part.is_empty() && !part.starts_with('.') && part.bytes().all(is_known)
        };
        let is_sound = repository.split('/').count() == 2
            && repository.split('/').all(is_plain)
            && [revision, file].into_iter().flatten().all(|path| path.split('/').all(is_plain));
        match is_sound {
            true => Ok(Self {
                repository: repository.to_owned(),
                revision: revision.map(str::to_owned),
                file: file.map(str::to_owned),
            }),
            false => Err(HubError::Name { name: format!("{PREFIX}{name}") }),
        }
    }
}

impl HubName {
    /// Reads a path as a name on the hub; `None` if it does not begin with [`PREFIX`].
    ///
    /// # Errors
    /// [`HubError::Name`] if it begins with the prefix and is malformed.
    pub fn of(path: &Path) -> Result<Option<Self>, HubError> {
        path.to_str().and_then(|path| path.strip_prefix(PREFIX)).map(str::parse).transpose()
    }

    /// Returns the path of the model in the cache, a folder or a file. Downloads missing files.
    ///
    /// # Errors
    /// If the model is not in the cache and cannot be downloaded.
    pub async fn fetch(&self) -> Result<PathBuf, HubError> {
        let cache = Cache::from_env();
        let folder = cache.repository(&self.repository);
        let cached = self.cached(&folder);
        if is_offline() {
            let cache = cache.path().display().to_string();
            return cached.ok_or(HubError::Offline { repository: self.repository.clone(), cache });
        }
        // A named file that is in the cache needs no request.
        if let Some(path) = &cached
            && self.file.as_deref().is_some_and(is_gguf)
        {
            return Ok(path.clone());
        }
        let address = endpoint::address();
        let endpoint = Endpoint::new(&address, cache.token().as_deref()).map_err(|error| self.failed(error))?;
        let (commit, names) = match self.listed(&endpoint).await {
            Ok(listed) => listed,
            Err(HubError::Failed { error, .. }) if cached.is_some() => {
                tracing::warn!(repository = self.repository, %error, "the hub does not answer; using the cache");
                return cached.ok_or_else(|| self.failed(*error));
            }
            Err(error) => return Err(error),
        };
        let mut last = PathBuf::new();
        for name in &self.wanted(&names)? {
            let remote =
                Remote { endpoint: &endpoint, cache: &folder, repository: &self.repository, commit: &commit, name };
            last = remote.fetch().await.map_err(|error| self.refused(error))?;
        }
        // A complete cache may be read-only, so it is written only if the commit differs.
        if folder.commit(self.revision()).as_ref() != Some(&commit) {
            folder.set_commit(self.revision(), &commit).map_err(|error| self.failed(error))?;
        }
        Ok(self.opened(last))
    }

    /// Branch, tag or commit whose files are wanted.
    fn revision(&self) -> &str {
        self.revision.as_deref().unwrap_or("main")
    }

    /// Path of the model in the cache, if all files of the last known commit are there.
    fn cached(&self, folder: &Repository) -> Option<PathBuf> {
        let commit = folder.commit(self.revision())?;
        let snapshot = folder.snapshot(&commit);
        let wanted = self.wanted(&folder.files(&commit)).ok()?;
        let is_whole = wanted.iter().all(|file| snapshot.join(file).exists());
        wanted.last().filter(|_| is_whole).map(|last| self.opened(snapshot.join(last)))
    }

    /// Requests the latest commit of the revision and the names of its files.
    async fn listed(&self, endpoint: &Endpoint) -> Result<(String, Vec<String>), HubError> {
        let repository = self.repository.split('/');
        let url = endpoint.at(["api", "models"].into_iter().chain(repository).chain(["revision", self.revision()]));
        let response = endpoint.get(&url, 0).await.map_err(|error| self.failed(error))?;
        match response.status() {
            StatusCode::FORBIDDEN => return Err(self.gated()),
            StatusCode::NOT_FOUND if self.revision.is_some() && is_about_revision(&response) => {
                let (repository, revision) = (self.repository.clone(), self.revision().to_owned());
                return Err(HubError::NoRevision { repository, revision, endpoint: endpoint.to_string() });
            }
            // The hub answers alike for a repository that is absent and one that this token may not see.
            StatusCode::UNAUTHORIZED | StatusCode::NOT_FOUND => {
                let (repository, endpoint) = (self.repository.clone(), endpoint.to_string());
                return Err(HubError::NoRepository { repository, endpoint });
            }
            StatusCode::OK => {}
            _ => return Err(self.failed(RequestError::of_status(&response))),
        }
        let url = response.url().clone();
        let read = response.json().await;
        let Listing { sha, siblings } = read.map_err(|error| self.failed(RequestError::of_connection(&url, &error)))?;
        if !is_inside(&sha) || sha.contains('/') {
            return Err(self.failed(RequestError::Commit { given: sha }));
        }
        // Names become paths in the cache, so names that leave its folder are dropped.
        Ok((sha, siblings.into_iter().map(|file| file.rfilename).filter(|name| is_inside(name)).collect()))
    }

    /// Selects the files of a repository that make up the model. The last one identifies its path.
    fn wanted(&self, names: &[String]) -> Result<Vec<String>, HubError> {
        let repository = || self.repository.clone();
        let has = |name: &str| names.iter().any(|found| found == name);
        let ending = |end: &'static str| names.iter().filter(move |name| name.ends_with(end)).cloned();
        let weights: Vec<String> = match &self.file {
            Some(file) if has(file) => parts(file),
            Some(file) => return Err(HubError::NoFile { repository: repository(), file: Some(file.clone()) }),
            None if has("model.safetensors") => vec!["model.safetensors".to_owned()],
            None => {
                let shards = ending(".safetensors").filter(|name| name.starts_with("model-"));
                shards.collect()
            }
        };
        if weights.is_empty() {
            let mut files: Vec<String> = ending(".gguf").collect();
            files.sort();
            return match files.len() {
                0 => Err(HubError::NoFile { repository: repository(), file: None }),
                1 => Ok(files),
                _ if parts(&files[0]).iter().rev().eq(&files) => Ok(parts(&files[0])),
                _ => Err(HubError::Choice { repository: repository(), files }),
            };
        }
        if weights.iter().all(|file| is_gguf(file)) {
            return Ok(weights);
        }
        let beside = BESIDE.iter().filter(|&&name| has(name)).map(|&name| name.to_owned());
        Ok(beside.chain(weights).collect())
    }

    /// Path to open for a model whose last file is `last`: that file, or the folder of its checkpoint.
    fn opened(&self, last: PathBuf) -> PathBuf {
        let is_whole = self.file.is_some() || last.extension().is_some_and(|extension| extension == "gguf");
        if is_whole { last } else { last.parent().map(Path::to_owned).unwrap_or(last) }
    }

    /// Error of a failed download: gated, or the request's own.
    fn refused(&self, error: RequestError) -> HubError {
        match error.status() {
            Some(StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => self.gated(),
            _ => self.failed(error),
        }
    }

    fn gated(&self) -> HubError {
        HubError::Gated { repository: self.repository.clone(), endpoint: endpoint::address() }
    }

    fn failed(&self, error: RequestError) -> HubError {
        HubError::Failed { repository: self.repository.clone(), endpoint: endpoint::address(), error: error.into() }
    }
}

/// Returns true unless the hub says that the whole repository is absent.
fn is_about_revision(response: &Response) -> bool {
    response.headers().get("x-error-code").is_none_or(|code| code != "RepoNotFound")
}

/// Name of a model in the cache, which is that of its repository. `None` for folders elsewhere.
pub fn name_of_snapshot(folder: &Path) -> Option<String> {
    let snapshots = folder.parent()?;
    let repository = snapshots.parent()?.file_name()?.to_str()?.strip_prefix("models--")?;
    let name = repository.rsplit("--").next()?;
    (snapshots.file_name()? == "snapshots").then(|| name.to_owned())
}

/// All parts of a GGUF model of which `file` is one part or the whole. The first part, by which the model is opened, is
/// last.
fn parts(file: &str) -> Vec<String> {
    let folder = file.rfind('/').map_or("", |slash| &file[..=slash]);
    let names = outrider_models::gguf_part_names(Path::new(file)).unwrap_or_default();
    match names.is_empty() {
        true => vec![file.to_owned()],
        false => names.iter().rev().map(|name| format!("{folder}{name}")).collect(),
    }
}

fn is_gguf(file: &str) -> bool {
    file.ends_with(".gguf")
}

/// Returns true if `HF_HUB_OFFLINE` (or the older `TRANSFORMERS_OFFLINE`) forbids requests, by the values that Hugging
/// Face's tools accept.
pub(crate) fn is_offline() -> bool {
    let set = ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"].map(|name| env::var(name).unwrap_or_default());
    let set = set.into_iter().find(|value| !value.is_empty()).unwrap_or_default().to_ascii_uppercase();
    ["1", "ON", "YES", "TRUE"].contains(&&*set)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(name: &str, files: &[&str]) -> Result<Vec<String>, HubError> {
        let files: Vec<String> = files.iter().map(|&file| file.to_owned()).collect();
        name.parse::<HubName>().unwrap().wanted(&files)
    }

    #[test]
    fn names_are_an_owner_a_name_and_perhaps_a_file() {
        let name = HubName::of(Path::new("hf:Qwen/Qwen2.5-0.5B:folder/a_b-c.gguf")).unwrap().unwrap();
        assert_eq!((&*name.repository, name.file.as_deref()), ("Qwen/Qwen2.5-0.5B", Some("folder/a_b-c.gguf")));
        assert_eq!(name.revision(), "main");
        for (given, revision, file) in [
            ("hf:a/b@v1.0", "v1.0", None),
            ("hf:a/b@refs/pr/1:q4/c.gguf", "refs/pr/1", Some("q4/c.gguf")),
            ("hf:a/b@0123456789012345678901234567890123456789", "0123456789012345678901234567890123456789", None),
        ] {
            let name = HubName::of(Path::new(given)).unwrap().unwrap();
            assert_eq!((&*name.repository, name.revision(), name.file.as_deref()), ("a/b", revision, file));
        }
        assert_eq!(HubName::of(Path::new("models/draft.gguf")).unwrap(), None);
        for wrong in [
            "",
            "gpt2",
            "a/b/c",
            "a/..",
            "../b",
            "a/b:",
            "a/b:../c",
            "a/b:/etc/passwd",
            "a /b",
            "a/b?c",
            "a/b@",
            "a/b@../c",
            "a@c/b",
            "a/b:c@d",
        ] {
            let error = HubName::of(Path::new(&format!("hf:{wrong}"))).unwrap_err();
            assert!(error.to_string().contains("hf:OWNER/NAME"), "{wrong}: {error}");
        }
    }

    #[test]
    fn a_repository_gives_its_checkpoint_or_its_only_file() {
        let beside = ["README.md", "config.json", "tokenizer.json", "model.safetensors.index.json"];
        let files = |more: &[&'static str]| [&beside[..], more].concat();
        let of = |more: &[&'static str]| wanted("a/b", &files(more)).unwrap();
        let known = &beside[1..];
        assert_eq!(of(&["model.safetensors", "b.gguf"]), [known, &["model.safetensors"]].concat());
        let shards = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"];
        assert_eq!(of(&[shards[0], shards[1], "consolidated.safetensors"]), [known, &shards].concat());
        assert_eq!(of(&["b-q8_0.gguf", "pytorch_model.bin"]), ["b-q8_0.gguf"]);
        assert_eq!(wanted("a/b:y.gguf", &["x.gguf", "y.gguf"]).unwrap(), ["y.gguf"]);
        let split = ["q/c-00001-of-00002.gguf", "q/c-00002-of-00002.gguf"];
        let both = [split[1], split[0]];
        assert_eq!(wanted("a/b:q/c-00002-of-00002.gguf", &split).unwrap(), both);
        assert_eq!(wanted("a/b", &["c-00001-of-00002.gguf", "c-00002-of-00002.gguf"]).unwrap().len(), 2);
        let error = wanted("a/b", &["y.gguf", "x.gguf"]).unwrap_err().to_string();
        assert!(error.ends_with("name one, as hf:a/b:x.gguf, or :y.gguf"), "{error}");
        let error = wanted("a/b:z.gguf", &["x.gguf"]).unwrap_err().to_string();
        assert!(error.contains("a/b has no file z.gguf that can be read"), "{error}");
        let error = wanted("a/b", &["pytorch_model.bin"]).unwrap_err().to_string();
        assert!(error.contains("a/b has no file that can be read"), "{error}");
    }

    #[test]
    fn a_snapshot_is_called_as_its_repository() {
        let of = |path: &str| name_of_snapshot(Path::new(path));
        assert_eq!(of("/hub/models--Qwen--Qwen2.5-0.5B/snapshots/0123abcd").as_deref(), Some("Qwen2.5-0.5B"));
        assert_eq!(of("/models/Qwen2.5-0.5B"), None);
        assert_eq!(of("model"), None);
    }
}
