//! Programs of the system: found by a variable or on PATH, installed where that can be done without asking, which is
//! on Debian as root.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::process;

/// A program that comes with the system.
#[derive(Debug)]
pub struct Program {
    /// An environment variable that names the executable.
    variable: &'static str,
    /// Names that the executable goes by, the usual one first.
    names: &'static [&'static str],
    /// The Debian packages that bring it.
    packages: &'static [&'static str],
    /// The sentence for a user on whose system it cannot be installed.
    needed: &'static str,
}

impl Program {
    /// The browser of our tests.
    pub const CHROMIUM: Self = Self {
        variable: "CHROMIUM_PATH",
        names: &["chromium", "chromium-browser", "google-chrome"],
        packages: &["chromium", "chromium-driver"],
        needed: "Chromium is needed to test the page: install it (Debian: apt-get install chromium chromium-driver) or set CHROMIUM_PATH to the executable",
    };
    /// The browser's driver, installed with it because they have to be of one version.
    pub const CHROMEDRIVER: Self = Self {
        variable: "CHROMEDRIVER_PATH",
        names: &["chromedriver"],
        needed: "chromedriver, of the browser's own version, is needed to test wasm: install it (Debian: apt-get install chromium-driver) or set CHROMEDRIVER_PATH to the executable",
        ..Self::CHROMIUM
    };
    /// A compiler for libFuzzer and llama.cpp.
    pub const CXX: Self = Self {
        variable: "CXX",
        names: &["c++", "g++"],
        packages: &["g++"],
        needed: "a C++ compiler is needed: install one (Debian: apt-get install g++) or set CXX to it",
    };

    /// Gives the executable's path, and installs it if need be.
    pub fn find_or_install(&self) -> Result<PathBuf> {
        if let Some(named) = std::env::var_os(self.variable) {
            let path = PathBuf::from(&named);
            // Arguments may follow the program, as in `clang++ -stdlib=libc++`.
            let program = || named.to_str()?.split(' ').next().and_then(process::find_on_path);
            let found = if path.is_file() { Some(path) } else { program() };
            return found.with_context(|| format!("{} names {named:?}, which is no program", self.variable));
        }
        let on_path = || self.names.iter().find_map(|name| process::find_on_path(name));
        if let Some(path) = on_path() {
            return Ok(path);
        }
        install(self.packages, self.needed)?;
        on_path().context(self.needed)
    }
}

/// Installs Debian's packages, or fails with the sentence `needed`.
pub fn install(packages: &[&str], needed: &'static str) -> Result<()> {
    let is_root = || process::capture(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0");
    let can_install = Path::new("/etc/debian_version").exists() && process::find_on_path("apt-get").is_some();
    ensure!(can_install && is_root(), needed);
    println!("Installing {} with apt-get.", packages.join(", "));
    let apt_get = |arguments: &[&str]| {
        process::run(Command::new("apt-get").env("DEBIAN_FRONTEND", "noninteractive").args(arguments))
    };
    apt_get(&["update", "-qq"])
        .and_then(|()| apt_get(&[&["install", "-y", "-qq", "--no-install-recommends"], packages].concat()))
        .context(needed)
}
