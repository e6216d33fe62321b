//! Paths of the workspace, and the cargo that builds it.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use semver::Version;

use crate::process;

/// Variables that make cargo drop the flags in .cargo/config.toml or move its outputs.
const OVERRIDES: [&str; 3] = ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CARGO_BUILD_TARGET"];

/// Prefixes of the variables that cargo sets for the one crate whose program it runs.
const OURS: [&str; 2] = ["CARGO_MANIFEST_", "CARGO_PKG_"];

/// Packages that link candle, which takes minutes to compile and whose features would be those of all.
pub const WITH_CANDLE: [&str; 2] = ["outrider-device", "outrider-bench"];

/// The repository and its build folder.
#[derive(Debug)]
pub struct Workspace {
    /// Absolute path of the folder with the workspace's Cargo.toml.
    root: PathBuf,
    /// Absolute path of the folder that cargo builds in.
    target: PathBuf,
}

impl Workspace {
    /// Finds the repository from this crate's own place and warns of environment variables that are not followed.
    pub fn find() -> Result<Self> {
        // `cargo run` passes the crate's present path; the one at compile time may have been moved since.
        let manifest = std::env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        let root = manifest.parent().context("xtask has to lie in a folder of the repository")?.to_path_buf();
        let target = ["CARGO_TARGET_DIR", "CARGO_BUILD_TARGET_DIR"]
            .into_iter()
            .find_map(std::env::var_os)
            .map_or_else(|| root.join("target"), PathBuf::from);
        let target =
            std::path::absolute(&target).with_context(|| format!("{} is no usable folder", target.display()))?;
        for name in OVERRIDES {
            if std::env::var_os(name).is_some() {
                eprintln!(
                    "warning: {name} is not followed, because it would replace what .cargo/config.toml sets for each target"
                );
            }
        }
        Ok(Self { root, target })
    }

    /// The folder with the workspace's Cargo.toml.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The folder that cargo builds in.
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// The folder of the npm package.
    pub fn web(&self) -> PathBuf {
        self.root.join("web")
    }

    /// A folder for what xtask itself writes, created if need be.
    pub fn scratch(&self) -> Result<PathBuf> {
        let folder = self.target.join("xtask");
        fs::create_dir_all(&folder).with_context(|| format!("{} cannot be created", folder.display()))?;
        Ok(folder)
    }

    /// `program` with the repository root as working folder and an environment in which cargo behaves as documented.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.root).env("CARGO_TARGET_DIR", &self.target);
        for name in OVERRIDES {
            command.env_remove(name);
        }
        // What cargo says of xtask to xtask: build scripts that look at such a variable would run once more, and what
        // depends on them be compiled again, whenever `cargo xtask` and `cargo` take turns.
        for (name, _) in std::env::vars_os() {
            if name.to_str().is_some_and(|name| OURS.iter().any(|start| name.starts_with(start))) {
                command.env_remove(name);
            }
        }
        command
    }

    /// The cargo that runs us, from the variable that cargo sets for its children.
    pub fn cargo(&self, subcommand: &str) -> Command {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = self.command(cargo);
        command.arg(subcommand);
        command
    }

    /// `cargo <subcommand> --release` on every package that does not link candle. Whatever is built this way shares its
    /// dependencies, as cargo chooses their features by the packages that are selected.
    pub fn cargo_without_candle(&self, subcommand: &str) -> Command {
        let mut command = self.cargo(subcommand);
        command.args(["--release", "--workspace"]);
        command.args(WITH_CANDLE.iter().flat_map(|package| ["--exclude", package]));
        command
    }

    /// The version of `package` that Cargo.lock holds; two of them are an error.
    pub fn locked_version(&self, package: &str) -> Result<Version> {
        let id = process::capture(self.cargo("pkgid").arg(package))?;
        process::version_in(&id.replace(['@', '#'], " ")).with_context(|| format!("there is no version in {id:?}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_repository_is_found_and_its_lock_file_read() {
        let workspace = Workspace::find().unwrap();
        assert!(workspace.root().join("xtask/Cargo.toml").is_file());
        assert!(workspace.target().is_absolute());
        let bindgen = workspace.locked_version("wasm-bindgen").unwrap();
        assert_eq!((bindgen.major, bindgen.minor), (0, 2));
    }
}
