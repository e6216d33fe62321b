//! Programs that the benchmarks compare with: llama.cpp, candle's own models, wllama and ONNX Runtime Web, each at one
//! version, under target/bench/peers. Nothing of it is a dependency of the project.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::page::Page;
use crate::process;
use crate::python;
use crate::system::Program;
use crate::tools;
use crate::wasm::{self, Compiler};
use crate::workspace::Workspace;

/// The release of llama-cpp-python on PyPI whose llama.cpp is built.
const LLAMA_CPP_PYTHON: &str = "0.3.36";
/// Tools that build llama.cpp, from PyPI too.
const BUILD_TOOLS: [&str; 2] = ["cmake==4.1.2", "ninja==1.13.0"];
/// llama.cpp in WebAssembly, on npm.
const WLLAMA: &str = "@wllama/wllama@3.8.1";
/// ONNX Runtime in WebAssembly and on WebGPU, which transformers.js computes with, on npm.
const ONNX_RUNTIME_WEB: &str = "onnxruntime-web@1.30.0";
/// Packages that write models for ONNX Runtime, from PyPI.
const ONNX_TOOLS: [&str; 3] = ["gguf==0.19.0", "numpy==2.4.6", "onnx==1.23.2"];

/// The library alone, with every instruction that this processor has.
const LLAMA_CPP_OPTIONS: [&str; 9] = [
    "-DCMAKE_BUILD_TYPE=Release",
    "-DBUILD_SHARED_LIBS=OFF",
    "-DGGML_NATIVE=ON",
    "-DLLAMA_CURL=OFF",
    "-DLLAMA_BUILD_COMMON=OFF",
    "-DLLAMA_BUILD_TESTS=OFF",
    "-DLLAMA_BUILD_TOOLS=OFF",
    "-DLLAMA_BUILD_EXAMPLES=OFF",
    "-DLLAMA_BUILD_SERVER=OFF",
];

/// The folder of the other engines.
pub struct Peers<'a> {
    workspace: &'a Workspace,
    folder: PathBuf,
}

impl<'a> Peers<'a> {
    /// Peers of which no program is built yet.
    pub fn new(workspace: &'a Workspace) -> Result<Self> {
        let folder = workspace.target().join("bench").join("peers");
        fs::create_dir_all(&folder).with_context(|| format!("{} cannot be created", folder.display()))?;
        Ok(Self { workspace, folder })
    }

    /// Our program around llama.cpp, built for this processor. Ten minutes the first time.
    pub fn llama_cpp(&self) -> Result<PathBuf> {
        let cxx = Program::CXX.find_or_install()?;
        let python = python::environment(self.workspace, "llama-cpp", &BUILD_TOOLS)?;
        let tools = python.parent().context("Python lies in a folder")?;
        let source = self.folder.join(format!("llama_cpp_python-{LLAMA_CPP_PYTHON}"));
        if !source.is_dir() {
            let package = format!("llama-cpp-python=={LLAMA_CPP_PYTHON}");
            let mut pip = self.workspace.command(&python);
            pip.args(["-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", "llama-cpp-python", "--dest"]);
            process::run(pip.arg(&self.folder).arg(package))?;
            let mut tar = self.workspace.command("tar");
            tar.arg("-xzf").arg(source.with_added_extension("tar.gz")).arg("-C").arg(&self.folder);
            process::run(&mut tar)?;
        }
        let source = source.join("vendor").join("llama.cpp");
        let ours = self.workspace.root().join("bench/peers");
        let build = self.folder.join("llama.cpp");
        let mut configure = self.workspace.command(tools.join("cmake"));
        process::prepend_path(&mut configure, tools)?;
        configure.arg("-S").arg(&source).arg("-B").arg(&build).args(["-G", "Ninja"]).args(LLAMA_CPP_OPTIONS);
        let barrier = ours.join("amx_barrier.h");
        configure.arg(format!("-DCMAKE_CXX_FLAGS=-include {}", barrier.display()));
        process::capture(&mut configure)?;
        println!("Building llama.cpp for this processor: ten minutes the first time.");
        process::run(self.workspace.command(tools.join("ninja")).arg("-C").arg(&build).args(["--quiet", "llama"]))?;

        let program = self.folder.join("llama_cpp");
        let mut compile = self.workspace.command(cxx);
        compile.args(["-O2", "-x", "c"]).arg(ours.join("llama_cpp.c")).args(["-x", "none", "-o"]).arg(&program);
        for folder in ["include", "ggml/include"] {
            compile.arg("-I").arg(source.join(folder));
        }
        // Each library before what it needs.
        for library in ["src/libllama.a", "ggml/src/libggml.a", "ggml/src/libggml-cpu.a", "ggml/src/libggml-base.a"] {
            compile.arg(build.join(library));
        }
        process::run(compile.args(["-fopenmp", "-ldl", "-lpthread", "-lm"]))?;
        Ok(program)
    }

    /// Our program around candle's quantized models, built for this processor.
    pub fn candle_native(&self) -> Result<PathBuf> {
        let target = self.folder.join("candle");
        let mut command = self.workspace.cargo("build");
        command.args(["--quiet", "--release", "--locked", "--bin", "candle_native", "--manifest-path"]);
        command.arg(self.manifest()).env("CARGO_TARGET_DIR", &target).env("RUSTFLAGS", "-C target-cpu=native");
        println!("Building candle for this processor: five minutes the first time.");
        process::run(&mut command)?;
        Ok(target.join("release").join("candle_native"))
    }

    /// candle's quantized models for the browser, as candle_browser.js and candle_browser_bg.wasm in `folder`.
    pub fn candle_browser(&self, folder: &Path) -> Result<()> {
        let compiler = Compiler::find_or_install(self.workspace)?;
        let bindgen = tools::wasm_bindgen(self.workspace)?;
        let target = self.folder.join("candle");
        let mut command = compiler.cargo(self.workspace, "build");
        command.args(["--quiet", "--release", "--locked", "--lib", "--manifest-path"]);
        println!("Building candle for the browser: five minutes the first time.");
        process::run(command.arg(self.manifest()).env("CARGO_TARGET_DIR", &target))?;
        let module = target.join(wasm::TARGET).join("release").join("candle_browser.wasm");
        process::run(self.workspace.command(bindgen).args(["--target", "web", "--out-dir"]).arg(folder).arg(module))
    }

    /// The folder of wllama's package.
    pub fn wllama(&self, page: &Page<'_>) -> Result<PathBuf> {
        page.add(&self.folder.join("wllama"), WLLAMA, "@wllama/wllama")
    }

    /// The folder of ONNX Runtime Web's package.
    pub fn onnx_runtime_web(&self, page: &Page<'_>) -> Result<PathBuf> {
        page.add(&self.folder.join("onnxruntime-web"), ONNX_RUNTIME_WEB, "onnxruntime-web")
    }

    /// Writes the models of `bench edge` in `folder` for it.
    pub fn write_onnx_models(&self, folder: &Path) -> Result<()> {
        let python = python::environment(self.workspace, "onnx", &ONNX_TOOLS)?;
        let script = self.workspace.root().join("bench/peers/onnx_models.py");
        process::run(self.workspace.command(python).arg(script).arg(folder))
    }

    fn manifest(&self) -> PathBuf {
        self.workspace.root().join("bench/peers/Cargo.toml")
    }
}
