//! CUDA's compiler and headers from PyPI, in a Python environment under target/tools, and the checks that use them. No
//! GPU is needed to build for one.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::process;
use crate::python;
use crate::workspace::Workspace;

/// The release of CUDA: its compiler, its headers, and the libraries that candle links.
const RELEASE: &str = "13.0";
/// The packages that carry them.
const PACKAGES: [&str; 8] = [
    "nvidia-cuda-nvcc",
    "nvidia-cuda-crt",
    "nvidia-nvvm",
    "nvidia-cuda-runtime",
    "nvidia-cuda-cccl",
    "nvidia-cuda-nvrtc",
    "nvidia-cublas",
    "nvidia-curand",
];
/// Compute capability of the GPUs that kernels are built for by default: Hopper (H100, H200).
const COMPUTE_CAPABILITY: &str = "90";

/// Runs clippy on the server with the feature `cuda`, which compiles the kernels too; then builds its program, to be
/// carried to a GPU.
pub fn check(workspace: &Workspace) -> Result<()> {
    let toolkit = Toolkit::install(workspace)?;
    println!("Compiling candle's kernels for CUDA: half an hour on two cores the first time.");
    // A folder of its own: what the toolkit's variables change is not compiled again for everything else.
    let target = workspace.target().join("cuda");
    let cargo = |subcommand| -> Result<Command> {
        let mut cargo = workspace.cargo(subcommand);
        cargo.args(["--release", "--package", "outrider-cloud", "--features", "cuda"]);
        cargo.env("CARGO_TARGET_DIR", &target);
        toolkit.provide(&mut cargo)?;
        Ok(cargo)
    };
    process::run(cargo("clippy")?.args(["--", "--deny", "warnings"]))?;
    let driver = toolkit.stand_in_for_the_driver(workspace)?;
    process::run(cargo("rustc")?.args(["--bin", "outrider", "--", "-L"]).arg(driver))?;
    println!(
        "Built {}: it runs where a driver and CUDA's libraries are.",
        target.join("release").join("outrider").display()
    );
    Ok(())
}

/// A folder as `/usr/local/cuda` would be.
struct Toolkit(PathBuf);

impl Toolkit {
    fn install(workspace: &Workspace) -> Result<Self> {
        let packages = PACKAGES.map(|package| match package {
            // These count by themselves.
            "nvidia-cublas" | "nvidia-curand" => package.to_owned(),
            _ => format!("{package}=={RELEASE}.*"),
        });
        let packages: Vec<&str> = packages.iter().map(String::as_str).collect();
        let python = python::environment(workspace, &format!("cuda-{RELEASE}"), &packages)?;
        let environment = python.ancestors().nth(2).unwrap_or(&python);
        let toolkit = Self(found(environment)?);
        toolkit.link_libraries()?;
        Ok(toolkit)
    }

    /// Gives each library the name without a version that linkers look for; the packages have only the other.
    fn link_libraries(&self) -> Result<()> {
        let libraries = self.0.join("lib");
        for entry in fs::read_dir(&libraries).with_context(|| format!("{} cannot be read", libraries.display()))? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let Some((stem, _)) = name.split_once(".so.") else { continue };
            let link = libraries.join(format!("{stem}.so"));
            if !link.exists() {
                #[cfg(unix)]
                std::os::unix::fs::symlink(&name, &link)
                    .with_context(|| format!("{} cannot be made", link.display()))?;
            }
        }
        // Where build scripts look as well.
        let other = self.0.join("lib64");
        if !other.exists() {
            #[cfg(unix)]
            std::os::unix::fs::symlink("lib", &other).with_context(|| format!("{} cannot be made", other.display()))?;
        }
        Ok(())
    }

    /// A folder with a `libcuda.so` to link with. The real one comes with a GPU's driver; this has its names, from the
    /// header, and does nothing.
    fn stand_in_for_the_driver(&self, workspace: &Workspace) -> Result<PathBuf> {
        let header = self.0.join("include").join("cuda.h");
        let text = fs::read_to_string(&header).with_context(|| format!("{} cannot be read", header.display()))?;
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let is_name = |word: &&str| {
            word.strip_prefix("cu").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase()))
        };
        let names: BTreeSet<&str> = words.filter(is_name).collect();
        let folder = self.0.join("lib").join("stubs");
        fs::create_dir_all(&folder).with_context(|| format!("{} cannot be created", folder.display()))?;
        let source = folder.join("cuda.c");
        let functions: String = names.iter().map(|name| format!("void {name}(void) {{}}\n")).collect();
        fs::write(&source, functions).with_context(|| format!("{} cannot be written", source.display()))?;
        let mut cc = workspace.command("cc");
        cc.args(["-shared", "-fPIC", "-w", "-fno-builtin", "-Wl,-soname,libcuda.so.1", "-o"]);
        process::run(cc.arg(folder.join("libcuda.so")).arg(&source))?;
        Ok(folder)
    }

    /// Sets the variables that build scripts read to find the toolkit.
    fn provide(&self, command: &mut Command) -> Result<()> {
        process::prepend_path(command, &self.0.join("bin"))?;
        for name in ["CUDA_HOME", "CUDA_PATH", "CUDA_ROOT", "CUDA_TOOLKIT_ROOT_DIR"] {
            command.env(name, &self.0);
        }
        if std::env::var_os("CUDA_COMPUTE_CAP").is_none() {
            command.env("CUDA_COMPUTE_CAP", COMPUTE_CAPABILITY);
        }
        Ok(())
    }
}

/// The folder with `bin/nvcc` below an environment.
fn found(environment: &Path) -> Result<PathBuf> {
    let mut folders = vec![environment.join("lib")];
    while let Some(folder) = folders.pop() {
        if folder.join("bin").join("nvcc").is_file() {
            return Ok(folder);
        }
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        let below = entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir());
        // python3.x, site-packages, nvidia, cu13.
        folders.extend(below.filter(|path| path.components().count() <= environment.components().count() + 5));
    }
    bail!("PyPI's CUDA is installed under {}, but there is no bin/nvcc in it", environment.display())
}
