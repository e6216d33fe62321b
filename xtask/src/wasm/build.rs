//! The builds of the edge: one for each set of instructions that browsers may have.
//!
//! Cargo keeps crates with different flags apart, so that builds share a folder, and with it what runs on this machine:
//! build scripts and macros. Builds with threads need a standard library with atomics, which is not distributed; cargo
//! compiles it from its sources (`-Z build-std`, unlocked on stable by RUSTC_BOOTSTRAP). Build scripts ask for that
//! variable, so these builds have a folder of their own.
//!
//! Each needs vectors of 128 bits, which browsers have had since Chrome 91, Firefox 89 and Safari 16.4 (March 2023).

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use super::compiler::Compiler;
use crate::process;
use crate::workspace::Workspace;

/// A build of the edge for one set of instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Build {
    /// The name of its folder in web/src/wasm and in the npm package.
    pub name: &'static str,
    /// Instructions beyond the baseline of wasm32-unknown-unknown.
    features: &'static [&'static str],
}

/// Features that make memory shared among workers. Cargo does not pass them on to the linker.
const ATOMICS: &str = "+atomics,+bulk-memory,+mutable-globals";

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
    pub const SIMD128: Self = Self { name: "simd128", features: &["+simd128"] };
    /// The build with relaxed SIMD: dot products of bytes, whose rounding is the processor's.
    pub const RELAXED: Self = Self { name: "relaxed", features: &["+simd128,+relaxed-simd"] };
    /// [`SIMD128`](Self::SIMD128) over memory that workers share.
    pub const SIMD128_THREADS: Self = Self { name: "simd128-threads", features: &["+simd128", ATOMICS] };
    /// [`RELAXED`](Self::RELAXED) over memory that workers share.
    pub const RELAXED_THREADS: Self = Self { name: "relaxed-threads", features: &["+simd128,+relaxed-simd", ATOMICS] };

    /// Every build of the edge.
    pub const ALL: [Self; 4] = [Self::SIMD128, Self::RELAXED, Self::SIMD128_THREADS, Self::RELAXED_THREADS];

    /// Returns true if the build shares its memory among workers.
    pub fn has_threads(self) -> bool {
        self.features.contains(&ATOMICS)
    }

    /// Cargo's target folder of the build.
    pub fn target(self, workspace: &Workspace) -> PathBuf {
        match self.has_threads() {
            false => workspace.target().to_path_buf(),
            true => workspace.target().join("wasm-threads"),
        }
    }

    /// `cargo <subcommand> --target wasm32-unknown-unknown` for this build.
    pub fn cargo(self, compiler: &Compiler, workspace: &Workspace, subcommand: &str) -> Command {
        let mut command = compiler.cargo(workspace, subcommand);
        self.set_environment(workspace, &mut command);
        if self.has_threads() {
            command.env("RUSTC_BOOTSTRAP", "1").env("CARGO_UNSTABLE_BUILD_STD", "std,panic_abort");
        }
        command
    }

    /// Makes the cargo in `command`, or one that `command` starts, build with this build's flags in its folder.
    pub fn set_environment(self, workspace: &Workspace, command: &mut Command) {
        if self != Self::SIMD128 {
            command
                .env("CARGO_TARGET_DIR", self.target(workspace))
                .env("CARGO_ENCODED_RUSTFLAGS", OsString::from(self.rustflags().join("\u{1f}")));
        }
    }

    /// rustc's flags: all of them, because the variable replaces those of .cargo/config.toml.
    fn rustflags(self) -> Vec<String> {
        let features = format!("target-feature={}", self.features.join(","));
        let mut flags = vec!["--cfg".to_owned(), "getrandom_backend=\"wasm_js\"".to_owned(), "-C".to_owned(), features];
        if self.has_threads() {
            for argument in LINK_SHARED {
                flags.extend(["-C".to_owned(), format!("link-arg={argument}")]);
            }
            // That atomics are unstable is a warning about every crate; our own have been checked without them.
            flags.extend(["-A".to_owned(), "warnings".to_owned()]);
        }
        flags
    }
}

/// Returns true if builds with threads can be made here; gets the standard library's sources if possible.
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

    use super::super::compiler::TARGET;
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
                assert_ne!(build.rustflags(), other.rustflags());
            }
            assert_eq!(build.has_threads(), build.name.ends_with("-threads"));
            assert_eq!(build.rustflags().iter().any(|flag| flag.contains("--shared-memory")), build.has_threads());
        }
    }
}
