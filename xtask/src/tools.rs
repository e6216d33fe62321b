//! The Rust programs that building and checking need: found where they are, else installed under target/tools.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use semver::Version;

use crate::process;
use crate::workspace::Workspace;

/// Gives the path of the program that adds JavaScript to a module of rustc for wasm32: the `wasm-bindgen` in PATH if it
/// is of the crate's version, else src/bin/bindgen.rs, built if need be.
pub fn wasm_bindgen(workspace: &Workspace) -> Result<PathBuf> {
    let known = Tool::new("wasm-bindgen-cli", "wasm-bindgen", workspace.locked_version("wasm-bindgen")?);
    if let Some(path) = process::find_on_path(known.binary).filter(|path| known.is_at(path)) {
        return Ok(path);
    }
    // Not --release: it runs for seconds.
    let mut build = workspace.cargo("build");
    process::run(build.args(["--quiet", "--package", "xtask", "--bin", "bindgen", "--features", "bindgen"]))?;
    Ok(workspace.target().join("debug").join(format!("bindgen{}", std::env::consts::EXE_SUFFIX)))
}

/// A program that `cargo install` can make, at the one version that we have seen working.
#[derive(Debug)]
pub struct Tool {
    package: &'static str,
    binary: &'static str,
    version: Version,
    /// Options of `cargo install`, beyond the package's name.
    options: &'static [&'static str],
}

impl Tool {
    /// Checks licences, duplicate crates and where crates come from.
    pub const CARGO_DENY: Self = Self::new("cargo-deny", "cargo-deny", Version::new(0, 20, 2));
    /// Builds fuzz targets with the compiler's coverage instrumentation.
    pub const CARGO_FUZZ: Self = Self::new("cargo-fuzz", "cargo-fuzz", Version::new(0, 13, 2));
    /// Builds and tests crates for wasm; only its tests of our crates are run here.
    pub const WASM_PACK: Self = Self::new("wasm-pack", "wasm-pack", Version::new(0, 15, 1));

    const fn new(package: &'static str, binary: &'static str, version: Version) -> Self {
        Self { package, binary, version, options: &[] }
    }

    /// Runs test binaries for wasm in Node or a browser. Its version has to be that of the wasm-bindgen crate to the
    /// last digit, so it is read from Cargo.lock and stands nowhere else.
    pub fn wasm_bindgen_test_runner(workspace: &Workspace) -> Result<Self> {
        Self::of_wasm_bindgen(workspace, "wasm-bindgen-test-runner")
    }

    /// wasm-bindgen's command line, by which wasm-pack finds the test runner in the same folder.
    pub fn wasm_bindgen_cli(workspace: &Workspace) -> Result<Self> {
        Self::of_wasm_bindgen(workspace, "wasm-bindgen")
    }

    fn of_wasm_bindgen(workspace: &Workspace, binary: &'static str) -> Result<Self> {
        let version = workspace.locked_version("wasm-bindgen")?;
        // The runner talks to a driver on this machine, without TLS.
        let options = &["--no-default-features", "--bin", "wasm-bindgen-test-runner", "--bin", "wasm-bindgen"];
        Ok(Self { options, ..Self::new("wasm-bindgen-cli", binary, version) })
    }

    /// The program's path: from PATH if the version is right there, else from target/tools, installed if need be.
    pub fn find_or_install(&self, workspace: &Workspace) -> Result<PathBuf> {
        let file = format!("{}{}", self.binary, std::env::consts::EXE_SUFFIX);
        let installed = workspace.target().join("tools").join("bin").join(file);
        let known =
            process::find_on_path(self.binary).into_iter().chain([installed.clone()]).find(|path| self.is_at(path));
        if let Some(path) = known {
            return Ok(path);
        }
        self.install(workspace)
            .with_context(|| format!("{} {} is needed and could not be installed", self.package, self.version))?;
        ensure!(
            self.is_at(&installed),
            "{} was installed as {}, but does not answer as version {}",
            self.package,
            installed.display(),
            self.version
        );
        Ok(installed)
    }

    fn is_at(&self, path: &Path) -> bool {
        path.is_file() && process::version(path).is_ok_and(|version| version == self.version)
    }

    fn install(&self, workspace: &Workspace) -> Result<()> {
        println!(
            "Installing {} {} under {}: a few minutes, once.",
            self.package,
            self.version,
            workspace.target().join("tools").display()
        );
        let locked = process::run(self.install_command(workspace).arg("--locked"));
        // A lock file may name a version that has been withdrawn since; then newer dependencies have to do.
        locked.or_else(|error| {
            println!("{error}; trying once more with the newest versions of its dependencies.");
            process::run(&mut self.install_command(workspace))
        })
    }

    fn install_command(&self, workspace: &Workspace) -> Command {
        let mut command = workspace.cargo("install");
        command
            // Its warnings are about other people's code, and about a folder that need not be in PATH.
            .arg("--quiet")
            .arg(self.package)
            .args(self.options)
            .arg("--version")
            .arg(self.version.to_string())
            .arg("--root")
            .arg(workspace.target().join("tools"))
            .arg("--target-dir")
            .arg(workspace.target().join("tools-build"))
            // These programs run for seconds and compile for minutes: spare the optimizer.
            .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0")
            .env("CARGO_PROFILE_RELEASE_DEBUG", "false")
            .env("CARGO_PROFILE_RELEASE_LTO", "off")
            .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16");
        command
    }
}
