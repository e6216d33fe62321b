//! Building and testing for the browser: each crate, in each build, with wasm-bindgen.

mod build;
mod compiler;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

pub use build::Build;
pub use compiler::{Compiler, TARGET};

use crate::chromium;
use crate::process;
use crate::tools::{self, Tool};
use crate::workspace::Workspace;

/// A crate that has to work in a browser.
#[derive(Clone, Copy, Debug)]
pub struct BrowserCrate {
    folder: &'static str,
    package: &'static str,
}

/// The crate whose code depends on the build's instructions.
const KERNELS: BrowserCrate = BrowserCrate { folder: "models", package: "outrider-models" };

/// Every crate that has to work in a browser; clippy and the browser tests go through this list.
pub const BROWSER_CRATES: [BrowserCrate; 5] = [
    BrowserCrate { folder: "shared-codec", package: "outrider-codec" },
    BrowserCrate { folder: "speculation", package: "outrider-speculation" },
    KERNELS,
    BrowserCrate { folder: "webgpu", package: "outrider-webgpu" },
    BrowserCrate { folder: "wasm-edge", package: "outrider-edge" },
];

/// Builds the edge: for each of `builds` web/src/wasm/NAME/outrider_edge.js with its .wasm and .d.ts beside it.
///
/// Where the builds with threads cannot be made they are left out, and the page does without.
pub fn build_edge(workspace: &Workspace, builds: &[Build]) -> Result<()> {
    let compiler = Compiler::find_or_install(workspace)?;
    let bindgen = tools::wasm_bindgen(workspace)?;
    let folder = workspace.web().join("src").join("wasm");
    // The page takes every build that it finds, so none may be left over from an older version.
    if folder.is_dir() {
        fs::remove_dir_all(&folder).with_context(|| format!("{} cannot be removed", folder.display()))?;
    }
    for build in possible(builds, &compiler, workspace) {
        let mut cargo = build.cargo(&compiler, workspace, "build");
        process::run(cargo.args(["--release", "--package", "outrider-edge"]))?;
        let module = build.target(workspace).join(TARGET).join("release").join("outrider_edge.wasm");
        let mut bindgen = workspace.command(&bindgen);
        // Names of functions are a tenth of what a page would fetch; the module in target/ keeps them.
        bindgen.args(["--target", "web", "--remove-name-section", "--out-name", "outrider_edge", "--out-dir"]);
        process::run(bindgen.arg(folder.join(build.name)).arg(module))?;
    }
    Ok(())
}

/// Those of `builds` that can be made here.
fn possible(builds: &[Build], compiler: &Compiler, workspace: &Workspace) -> Vec<Build> {
    let needs_threads = builds.iter().any(|build| build.has_threads());
    let with_threads = needs_threads && build::can_build_threads(compiler, workspace);
    builds.iter().copied().filter(|build| with_threads || !build.has_threads()).collect()
}

/// Builds the browser's half of `bench NAME`, as the edge is built: NAME_bench.js and its .wasm in `folder`, for
/// wasm-bindgen's `target`.
pub fn build_bench(workspace: &Workspace, name: &str, target: &str, folder: &Path) -> Result<()> {
    let example = format!("{name}_bench");
    let compiler = Compiler::find_or_install(workspace)?;
    let bindgen = tools::wasm_bindgen(workspace)?;
    let mut build = compiler.cargo(workspace, "build");
    process::run(build.args(["--release", "--package", "outrider-edge", "--example", &example]))?;
    let module = workspace.target().join(TARGET).join("release").join("examples").join(format!("{example}.wasm"));
    process::run(workspace.command(bindgen).args(["--target", target, "--out-dir"]).arg(folder).arg(module))
}

/// Builds the browser's half of `bench edge`, as the edge is built: NAME/edge_bench.js and its .wasm in `folder` for
/// each build. Those whose name ends with `-threads` share their memory among workers.
pub fn build_edge_bench(workspace: &Workspace, folder: &Path) -> Result<()> {
    let compiler = Compiler::find_or_install(workspace)?;
    let bindgen = tools::wasm_bindgen(workspace)?;
    // None may be left over that is not built any more.
    if folder.is_dir() {
        fs::remove_dir_all(folder).with_context(|| format!("{} cannot be removed", folder.display()))?;
    }
    for build in possible(&Build::ALL, &compiler, workspace) {
        let mut cargo = build.cargo(&compiler, workspace, "build");
        process::run(cargo.args(["--release", "--package", "outrider-edge", "--example", "edge_bench"]))?;
        let examples = build.target(workspace).join(TARGET).join("release").join("examples");
        let mut bindgen = workspace.command(&bindgen);
        bindgen.args(["--target", "web", "--out-dir"]).arg(folder.join(build.name));
        process::run(bindgen.arg(examples.join("edge_bench.wasm")))?;
    }
    Ok(())
}

/// Runs clippy on what only the browser compiles.
pub fn lint(workspace: &Workspace) -> Result<()> {
    let compiler = Compiler::find_or_install(workspace)?;
    let mut command = match compiler {
        Compiler::Installed => compiler.cargo(workspace, "clippy"),
        Compiler::Debian { .. } => {
            println!("Clippy needs rustup's wasm32 target; Debian's compiler checks that the code compiles.");
            compiler.cargo(workspace, "check")
        }
    };
    command.args(["--release", "--lib", "--tests"]);
    for browser_crate in BROWSER_CRATES {
        command.args(["--package", browser_crate.package]);
    }
    if matches!(compiler, Compiler::Installed) {
        command.args(["--", "--deny", "warnings"]);
    }
    process::run(&mut command)
}

/// Runs the tests of [`BROWSER_CRATES`] in Chromium, those of the kernels' crate in each build without threads.
pub fn test(workspace: &Workspace) -> Result<()> {
    let runner = Runner {
        workspace,
        compiler: Compiler::find_or_install(workspace)?,
        test_runner: Tool::wasm_bindgen_test_runner(workspace)?.find_or_install(workspace)?,
        webdriver_json: chromium::write_webdriver_json(workspace, &chromium::browser()?)?,
        driver: chromium::driver()?,
    };
    for browser_crate in BROWSER_CRATES {
        runner.run(browser_crate, Build::SIMD128)?;
    }
    runner.run(KERNELS, Build::RELAXED)
}

/// What runs a crate's tests in Chromium.
struct Runner<'a> {
    workspace: &'a Workspace,
    compiler: Compiler,
    test_runner: PathBuf,
    webdriver_json: PathBuf,
    driver: PathBuf,
}

impl Runner<'_> {
    fn run(&self, BrowserCrate { folder, package }: BrowserCrate, build: Build) -> Result<()> {
        println!("\n-- {package} in Chromium, build {}", build.name);
        let folder = self.workspace.root().join(folder);
        let mut command = build.cargo(&self.compiler, self.workspace, "test");
        self.compiler.let_unwind(&mut command);
        command
            // As `wasm-pack test --headless --chrome` does. Doc tests run natively: naming the targets leaves them out.
            .args(["--release", "--package", package, "--lib"])
            .args(integration_tests(&folder.join("tests"))?)
            .env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUNNER", &self.test_runner)
            .env("CHROMEDRIVER", &self.driver)
            .env("WASM_BINDGEN_TEST_WEBDRIVER_JSON", &self.webdriver_json)
            .env("WASM_BINDGEN_TEST_ONLY_WEB", "1")
            // Test files that do not say where they run would be skipped without this.
            .env("WASM_BINDGEN_USE_BROWSER", "1")
            // Seconds. A language model on one slow core needs more than the runner's 20.
            .env("WASM_BINDGEN_TEST_TIMEOUT", "900")
            .env("WASM_BINDGEN_TEST_DRIVER_TIMEOUT", "60");
        let mut passed = 0;
        process::run_watched(&mut command, |line| passed += tests_passed(line))?;
        // The runner is content with a crate that has no test for it; a step that names the crate must not be.
        ensure!(passed > 0, "{package} ran no test in Chromium; its tests for the browser carry #[wasm_bindgen_test]");
        println!("{package}, build {}: {passed} passed in Chromium", build.name);
        Ok(())
    }
}

/// `--test=NAME` for each integration test, tests/NAME.rs or tests/NAME/main.rs, that has tests for the browser.
fn integration_tests(tests: &Path) -> Result<Vec<String>> {
    let mut arguments = Vec::new();
    for path in entries(tests)? {
        let files = if path.join("main.rs").is_file() { entries(&path)? } else { vec![path.clone()] };
        let mut sources = files
            .iter()
            .filter(|file| file.extension().is_some_and(|extension| extension == "rs"))
            .map(|file| fs::read_to_string(file).with_context(|| format!("{} cannot be read", file.display())));
        let for_browser =
            sources.try_fold(false, |found, source| anyhow::Ok(found || source?.contains("wasm_bindgen_test")))?;
        if let Some(name) = path.file_stem().and_then(|stem| stem.to_str())
            && for_browser
        {
            arguments.push(format!("--test={name}"));
        }
    }
    arguments.sort();
    Ok(arguments)
}

/// What lies in `folder`; nothing if it is not there.
fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    fs::read_dir(folder)
        .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect())
        .with_context(|| format!("{} cannot be read", folder.display()))
}

/// The number in `test result: ok. 12 passed; …`, else 0.
fn tests_passed(line: &str) -> u64 {
    line.trim()
        .strip_prefix("test result: ok. ")
        .and_then(|counts| counts.split_once(" passed"))
        .and_then(|(count, _)| count.parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_only_successful_results() {
        let line = "test result: ok. 12 passed; 0 failed; 0 ignored; 0 filtered out";
        assert_eq!(tests_passed(line), 12);
        assert_eq!(tests_passed("    test result: ok. 3 passed; 0 failed\n"), 3);
        for line in ["", "no tests to run!", "test result: FAILED. 1 passed; 1 failed", "test a::b ... ok"] {
            assert_eq!(tests_passed(line), 0, "{line:?}");
        }
    }

    #[test]
    fn integration_tests_for_the_browser_are_told_from_others() {
        let folder = std::env::temp_dir().join(format!("xtask-tests-{}", std::process::id()));
        fs::create_dir_all(folder.join("suite")).unwrap();
        fs::create_dir_all(folder.join("golden")).unwrap();
        for (name, source) in [
            ("web.rs", "use wasm_bindgen_test::wasm_bindgen_test as test;"),
            ("native.rs", "#[test] fn reads_files() {}"),
            ("suite/main.rs", "mod rollback;"),
            ("suite/rollback.rs", "#[wasm_bindgen_test] fn cuts() {}"),
            ("golden/README.md", "made for wasm_bindgen_test"),
        ] {
            fs::write(folder.join(name), source).unwrap();
        }
        let found = integration_tests(&folder);
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(found.unwrap(), ["--test=suite", "--test=web"]);
        assert!(integration_tests(&folder).unwrap().is_empty(), "no folder, no tests");
    }

    #[test]
    fn browser_crates_are_where_the_list_says() {
        let workspace = Workspace::find().unwrap();
        for BrowserCrate { folder, package } in BROWSER_CRATES {
            let manifest = workspace.root().join(folder).join("Cargo.toml");
            let text = fs::read_to_string(manifest).unwrap();
            assert!(text.contains(&format!("name = \"{package}\"")), "{folder}");
        }
    }
}
