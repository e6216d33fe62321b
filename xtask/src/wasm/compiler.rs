//! A compiler for wasm32-unknown-unknown. It is looked for in this order:
//! 1. the target's standard library is installed: the usual cargo does it all;
//! 2. `rustup target add` installs it;
//! 3. Debian with root packages a compiler together with the sources of the standard library (`rustc-web`), from
//!    which cargo builds it along. That is an unstable cargo feature, so RUSTC_BOOTSTRAP unlocks it; the linker is
//!    the usual toolchain's rust-lld, because Debian's compiler brings none.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::process;
use crate::system;
use crate::workspace::Workspace;

/// Target triple of everything that the browser runs.
pub const TARGET: &str = "wasm32-unknown-unknown";

/// The way in which this machine compiles for wasm32.
#[derive(Debug)]
pub enum Compiler {
    /// The usual toolchain has the target's standard library.
    Installed,
    /// Debian's toolchain builds the standard library along, linking with `linker`.
    Debian {
        /// A wasm linker, such as the usual toolchain's rust-lld.
        linker: PathBuf,
    },
}

impl Compiler {
    /// Finds a compiler, or installs one.
    pub fn find_or_install(workspace: &Workspace) -> Result<Self> {
        if has_std(workspace) {
            return Ok(Self::Installed);
        }
        if process::find_on_path("rustup").is_some() {
            println!("Adding the {TARGET} target to the Rust toolchain.");
            let added = process::run(workspace.command("rustup").args(["target", "add", TARGET]));
            if added.is_ok() && has_std(workspace) {
                return Ok(Self::Installed);
            }
        }
        let sentence = "Rust's wasm32-unknown-unknown target is needed to build the browser's half: install it with `rustup target add wasm32-unknown-unknown`";
        let sources = Path::new("/usr/lib/rustlib/src/rust/library/std");
        if !(sources.is_dir() && debian_tool("cargo").is_file()) {
            system::install(&["rustc-web", "cargo-web", "rust-web-src"], sentence)?;
        }
        let linker = find_linker(workspace).context(sentence)?;
        Ok(Self::Debian { linker })
    }

    /// `cargo <subcommand> --target wasm32-unknown-unknown`.
    pub fn cargo(&self, workspace: &Workspace, subcommand: &str) -> Command {
        let mut command = match self {
            Self::Installed => workspace.cargo(subcommand),
            Self::Debian { .. } => {
                let mut command = workspace.command(debian_tool("cargo"));
                command.arg(subcommand);
                command
            }
        };
        self.set_environment(&mut command, "std,panic_abort");
        command.args(["--target", TARGET]);
        command
    }

    /// Sets up a command like [`cargo`](Self::cargo) for test binaries: they unwind.
    pub fn let_unwind(&self, command: &mut Command) {
        self.set_environment(command, "std,panic_unwind,panic_abort");
    }

    fn set_environment(&self, command: &mut Command, std_crates: &str) {
        if let Self::Debian { linker } = self {
            command
                .env("RUSTC", debian_tool("rustc"))
                .env("RUSTDOC", debian_tool("rustdoc"))
                .env("RUSTC_BOOTSTRAP", "1")
                .env("CARGO_UNSTABLE_BUILD_STD", std_crates)
                .env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER", linker);
        }
    }
}

fn has_std(workspace: &Workspace) -> bool {
    let mut rustc = workspace.command("rustc");
    rustc.args(["--print", "target-libdir", "--target", TARGET]);
    process::capture(&mut rustc).is_ok_and(|folder| Path::new(folder.trim()).is_dir())
}

fn debian_tool(name: &str) -> PathBuf {
    Path::new("/usr/bin").join(name)
}

/// The usual toolchain's rust-lld, or LLVM's wasm-ld.
fn find_linker(workspace: &Workspace) -> Result<PathBuf> {
    let mut rustc = workspace.command("rustc");
    rustc.args(["--print", "target-libdir"]);
    // <sysroot>/lib/rustlib/<host>/lib, beside which lies bin/rust-lld.
    let rust_lld = process::capture(&mut rustc)
        .ok()
        .and_then(|folder| Some(Path::new(folder.trim()).parent()?.join("bin/rust-lld")));
    rust_lld
        .filter(|path| path.is_file())
        .or_else(|| process::find_on_path("wasm-ld"))
        .context("there is no linker for wasm, neither rust-lld nor wasm-ld")
}
