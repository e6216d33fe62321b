//! The builds of the edge: one for each set of instructions that browsers may have.
//!
//! Relaxed SIMD changes what our own crates are compiled to and nothing else, so that a build with it shares every
//! dependency with the one without: cargo lets a wrapper around rustc have its say for the workspace's crates alone,
//! and xtask is that wrapper ([`stand_in_for_rustc`]). Builds with threads need a standard library with atomics, which
//! nobody distributes; cargo compiles it from its sources (`-Z build-std`, unlocked on stable by RUSTC_BOOTSTRAP).
//! Build scripts ask for that variable, so these builds have a folder of their own.
//!
//! Each needs vectors of 128 bits, which browsers have had since Chrome 91, Firefox 89 and Safari 16.4 (March 2023).

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};

use super::compiler::{Compiler, TARGET};
use crate::process;
use crate::workspace::Workspace;

/// One build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Build {
    /// The name of its folder in web/src/wasm, and what the npm package calls it.
    pub name: &'static str,
    /// Whether our own crates are compiled with relaxed SIMD.
    relaxed: bool,
    /// Whether it shares its memory among workers.
    threads: bool,
}

/// Tells xtask, started in place of rustc, what to switch on in the crate that it compiles.
const FEATURES_VARIABLE: &str = "XTASK_RUSTC_TARGET_FEATURES";

/// What makes memory shared among workers. Cargo's own flags say the linker nothing of it.
const ATOMICS: &str = ",+atomics,+bulk-memory,+mutable-globals";

/// The largest memory that wasm32 can address, 4 GiB: shared memory has to name a bound, and takes nothing for it but
/// addresses.
const LINK_SHARED: [&str; 7] = [
    "--shared-memory",
    "--import-memory",
    "--max-memory=4294967296",
    // wasm-bindgen gives each thread its stack and its thread-local variables by these.
    "--export=__wasm_init_tls",
    "--export=__tls_size",
    "--export=__tls_align",
    "--export=__tls_base",
];

impl Build {
    /// Vectors of 128 bits. Its flags are those of .cargo/config.toml.
    pub const SIMD128: Self = Self { name: "simd128", relaxed: false, threads: false };
    /// And dot products of bytes, whose rounding is the processor's.
    pub const RELAXED: Self = Self { name: "relaxed", relaxed: true, threads: false };
    /// [`SIMD128`](Self::SIMD128) over memory that workers share.
    pub const SIMD128_THREADS: Self = Self { name: "simd128-threads", relaxed: false, threads: true };
    /// [`RELAXED`](Self::RELAXED) over memory that workers share.
    pub const RELAXED_THREADS: Self = Self { name: "relaxed-threads", relaxed: true, threads: true };

    /// Every build.
    pub const ALL: [Self; 4] = [Self::SIMD128, Self::RELAXED, Self::SIMD128_THREADS, Self::RELAXED_THREADS];

    /// Whether it shares its memory among workers.
    pub fn has_threads(self) -> bool {
        self.threads
    }

    /// Where cargo builds it.
    pub fn target(self, workspace: &Workspace) -> PathBuf {
        match self.threads {
            false => workspace.target().to_path_buf(),
            true => workspace.target().join("wasm-threads"),
        }
    }

    /// `cargo <subcommand> --target wasm32-unknown-unknown` for this build.
    pub fn cargo(self, compiler: &Compiler, workspace: &Workspace, subcommand: &str) -> Result<Command> {
        let mut command = compiler.cargo(workspace, subcommand);
        self.set_environment(workspace, &mut command)?;
        if self.threads {
            command.env("RUSTC_BOOTSTRAP", "1").env("CARGO_UNSTABLE_BUILD_STD", "std,panic_abort");
        }
        Ok(command)
    }

    /// Makes the cargo in `command`, or one that `command` starts, build with this build's flags in its folder.
    pub fn set_environment(self, workspace: &Workspace, command: &mut Command) -> Result<()> {
        if self.relaxed {
            let xtask = std::env::current_exe().context("xtask does not know where it lies")?;
            command.env("RUSTC_WORKSPACE_WRAPPER", xtask).env(FEATURES_VARIABLE, "+relaxed-simd");
        }
        if self.threads {
            command
                .env("CARGO_TARGET_DIR", self.target(workspace))
                .env("CARGO_ENCODED_RUSTFLAGS", self.rustflags().join("\u{1f}"));
        }
        Ok(())
    }

    /// rustc's flags for every crate: all of them, because the variable replaces those of .cargo/config.toml.
    fn rustflags(self) -> Vec<String> {
        let features = format!("target-feature=+simd128{}", if self.threads { ATOMICS } else { "" });
        let mut flags = vec!["-C".to_owned(), features, "--cfg".to_owned(), "getrandom_backend=\"wasm_js\"".to_owned()];
        if self.threads {
            for argument in LINK_SHARED {
                flags.extend(["-C".to_owned(), format!("link-arg={argument}")]);
            }
            // That atomics are unstable is a warning about every crate; our own have been checked without them.
            flags.extend(["-A".to_owned(), "warnings".to_owned()]);
        }
        flags
    }
}

/// Does rustc's work if cargo has started xtask in its place: runs the rustc that the arguments begin with, on this
/// crate with what [`Build`] switches on for our own.
pub fn stand_in_for_rustc() -> Option<ExitCode> {
    let features = std::env::var_os(FEATURES_VARIABLE)?;
    let mut arguments = std::env::args_os().skip(1);
    let mut rustc = Command::new(arguments.next()?);
    let arguments: Vec<OsString> = arguments.collect();
    rustc.args(&arguments).env_remove(FEATURES_VARIABLE);
    if is_compiled_for_browser(&arguments) {
        let mut flag = OsString::from("target-feature=");
        flag.push(features);
        rustc.arg("-C").arg(flag);
    }
    let status = rustc.status().ok()?;
    Some(status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from))
}

/// Whether rustc's arguments compile a crate for the browser, and do not ask what the target is like.
fn is_compiled_for_browser(arguments: &[OsString]) -> bool {
    let follows = |name: &str, value: &str| arguments.windows(2).any(|pair| pair[0] == name && pair[1] == value);
    follows("--target", TARGET) && !follows("--crate-name", "___")
}

/// Whether builds with threads can be made here; gets the standard library's sources where that is possible.
pub fn can_build_threads(compiler: &Compiler, workspace: &Workspace) -> bool {
    // Debian's compiler comes with them.
    if matches!(compiler, Compiler::Debian { .. }) || has_std_sources(workspace) {
        return true;
    }
    if process::find_on_path("rustup").is_some() {
        println!("Adding the standard library's sources to the Rust toolchain, for the builds with threads.");
        let added = process::run(workspace.command("rustup").args(["component", "add", "rust-src"]));
        if added.is_ok() && has_std_sources(workspace) {
            return true;
        }
    }
    println!(
        "The edge is built without threads: the standard library's sources are not here and cannot be had with `rustup component add rust-src`."
    );
    false
}

fn has_std_sources(workspace: &Workspace) -> bool {
    let sysroot: Result<String> = process::capture(workspace.command("rustc").args(["--print", "sysroot"]));
    sysroot.is_ok_and(|sysroot| Path::new(sysroot.trim()).join("lib/rustlib/src/rust/library/std/Cargo.toml").is_file())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_default_flags_are_those_of_simd128() {
        let workspace = Workspace::find().unwrap();
        let config = fs::read_to_string(workspace.root().join(".cargo/config.toml")).unwrap();
        let (_, section) = config.split_once(&format!("[target.{TARGET}]\n")).unwrap();
        let flags = Build::SIMD128.rustflags();
        for pair in flags.chunks(2) {
            let pair = format!("{:?}, {:?}", pair[0], pair[1]);
            assert!(section.contains(&pair), "{pair}");
        }
        assert_eq!(section.matches('"').count(), 2 * flags.len() + 2, "no others; two quotes are inside of one");
    }

    #[test]
    fn builds_have_names_of_their_own() {
        for (index, build) in Build::ALL.into_iter().enumerate() {
            for other in &Build::ALL[..index] {
                assert_ne!(build.name, other.name);
                assert_ne!((build.relaxed, build.threads), (other.relaxed, other.threads));
            }
            assert_eq!(build.threads, build.name.ends_with("-threads"));
            assert_eq!(build.relaxed, build.name.starts_with("relaxed"));
            assert_eq!(build.rustflags().iter().any(|flag| flag.contains("--shared-memory")), build.threads);
        }
    }

    #[test]
    fn only_crates_for_the_browser_get_the_builds_features() {
        let compiled = |words: &str| {
            let arguments: Vec<OsString> = words.split(' ').map(OsString::from).collect();
            is_compiled_for_browser(&arguments)
        };
        assert!(compiled("--crate-name outrider_models --crate-type lib --target wasm32-unknown-unknown"));
        assert!(!compiled("--crate-name outrider_models --crate-type lib"));
        assert!(!compiled("- --crate-name ___ --print=cfg --target wasm32-unknown-unknown"));
        assert!(!compiled("-vV"));
    }
}
