//! Building and testing for the browser: each crate, in each build, with wasm-bindgen.

mod build;
mod compiler;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

pub use build::Build;
pub use compiler::{Compiler, TARGET};

use crate::binaries::{self, TestBinary, tests_passed};
use crate::chromium;
use crate::process;
use crate::system::Program;
use crate::tools::{self, Tool};
use crate::workspace::Workspace;

/// A crate that has to work in a browser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BrowserCrate {
    folder: &'static str,
    package: &'static str,
    host: Host,
}

/// The program that runs a crate's wasm tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Host {
    /// Node, for crates that use nothing of a browser but its wasm engine.
    Node,
    /// Headless Chromium, for everything else.
    Chromium,
}

/// The crate whose code depends on the build's instructions.
const KERNELS: BrowserCrate = BrowserCrate { folder: "models", package: "outrider-models", host: Host::Node };

/// Every crate that has to work in a browser; clippy and the wasm tests go through this list.
pub const BROWSER_CRATES: [BrowserCrate; 6] = [
    BrowserCrate { folder: "shared-codec", package: "outrider-codec", host: Host::Node },
    BrowserCrate { folder: "control", package: "outrider-control", host: Host::Node },
    BrowserCrate { folder: "speculation", package: "outrider-speculation", host: Host::Node },
    KERNELS,
    BrowserCrate { folder: "webgpu", package: "outrider-webgpu", host: Host::Chromium },
    BrowserCrate { folder: "wasm-edge", package: "outrider-edge", host: Host::Chromium },
];

/// Names of the test binaries that take longest.
const LONGEST: &[&str] = &["logits", "suite"];

/// Builds the edge: for each of `builds` web/src/wasm/NAME/outrider_edge.js with its .wasm and .d.ts beside it.
///
/// Where the builds with threads cannot be made they are left out, and the page does without.
pub fn build_edge(workspace: &Workspace, builds: &[Build]) -> Result<()> {
    // Names of functions are a tenth of what a page would fetch; the module in target/ keeps them.
    let options = ["--remove-name-section", "--out-name", "outrider_edge"];
    build_modules(workspace, builds, &[], "outrider_edge.wasm", &options, &workspace.web().join("src").join("wasm"))
}

/// Builds an example of the edge in each of `builds`: NAME/EXAMPLE.js and its .wasm in `folder`. Builds whose name ends
/// with `-threads` share their memory among workers.
pub fn build_bench(workspace: &Workspace, example: &str, builds: &[Build], folder: &Path) -> Result<()> {
    build_modules(workspace, builds, &["--example", example], &format!("examples/{example}.wasm"), &[], folder)
}

/// Builds a target of the edge and its JavaScript in each of `builds`; `folder` then holds a folder for each.
fn build_modules(
    workspace: &Workspace,
    builds: &[Build],
    target: &[&str],
    module: &str,
    options: &[&str],
    folder: &Path,
) -> Result<()> {
    let compiler = Compiler::find_or_install(workspace)?;
    let bindgen = tools::wasm_bindgen(workspace)?;
    // Pages take every build that they find, so none may be left over from an older version.
    if folder.is_dir() {
        fs::remove_dir_all(folder).with_context(|| format!("{} cannot be removed", folder.display()))?;
    }
    for build in possible(builds, &compiler, workspace) {
        let mut cargo = build.cargo(&compiler, workspace, "build");
        process::run(cargo.args(["--release", "--package", "outrider-edge"]).args(target))?;
        let mut bindgen = workspace.command(&bindgen);
        bindgen.args(["--target", "web"]).args(options).arg("--out-dir").arg(folder.join(build.name));
        process::run(bindgen.arg(build.target(workspace).join(TARGET).join("release").join(module)))?;
    }
    Ok(())
}

/// Returns those of `builds` that can be made here.
fn possible(builds: &[Build], compiler: &Compiler, workspace: &Workspace) -> Vec<Build> {
    let needs_threads = builds.iter().any(|build| build.has_threads());
    let with_threads = needs_threads && build::can_build_threads(compiler, workspace);
    builds.iter().copied().filter(|build| with_threads || !build.has_threads()).collect()
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

/// Runs the wasm tests of [`BROWSER_CRATES`], each crate on its host.
///
/// With `full` the kernels' crate runs once more in Chromium with relaxed SIMD, which Node 20 lacks, and every shader
/// is compiled for every shape.
pub fn test(workspace: &Workspace, full: bool) -> Result<()> {
    let runner = Runner {
        workspace,
        compiler: Compiler::find_or_install(workspace)?,
        test_runner: Tool::wasm_bindgen_test_runner(workspace)?.find_or_install(workspace)?,
        webdriver_json: chromium::write_webdriver_json(workspace, &Program::CHROMIUM.find_or_install()?)?,
        driver: Program::CHROMEDRIVER.find_or_install()?,
        full,
    };
    runner.run(&BROWSER_CRATES, Build::SIMD128)?;
    if full {
        runner.run(&[BrowserCrate { host: Host::Chromium, ..KERNELS }], Build::RELAXED)?;
    }
    Ok(())
}

/// Runs the commands for wasm-pack that CONTRIBUTING.md gives, and fails where one of them runs no test.
pub fn test_with_wasm_pack(workspace: &Workspace) -> Result<()> {
    let wasm_pack = Tool::WASM_PACK.find_or_install(workspace)?;
    let wasm_bindgen = Tool::wasm_bindgen_cli(workspace)?.find_or_install(workspace)?;
    let driver = Program::CHROMEDRIVER.find_or_install()?;
    for browser_crate in BROWSER_CRATES {
        let mut command = workspace.command(&wasm_pack);
        let arguments = browser_crate.wasm_pack_arguments();
        // The runner is beside wasm-bindgen, at the version of the crate. What follows the folder goes to cargo.
        command.args(&arguments[..1]).args(["--mode", "no-install"]).args(&arguments[1..]);
        command.env("CHROMEDRIVER", &driver).env("WASM_BINDGEN_TEST_TIMEOUT", "900");
        if let Some(folder) = wasm_bindgen.parent() {
            process::prepend_path(&mut command, folder)?;
        }
        let mut passed = 0;
        process::run_watched(&mut command, |line| passed += tests_passed(line))?;
        ensure!(passed > 0, "wasm-pack ran no test of {}", browser_crate.package);
        println!("{}: {passed} passed by wasm-pack", browser_crate.package);
    }
    Ok(())
}

impl BrowserCrate {
    /// `test`, the host and the folder, as they are typed after `wasm-pack`.
    fn wasm_pack_arguments(&self) -> Vec<&'static str> {
        let host: &[_] = match self.host {
            Host::Node => &["--node"],
            Host::Chromium => &["--headless", "--chrome"],
        };
        // The examples of models read files, which wasm cannot.
        let targets: &[_] = if *self == KERNELS { &["--lib", "--test", "suite"] } else { &[] };
        [&["test"], host, &["--release", self.folder], targets].concat()
    }
}

/// The tools that running wasm tests needs.
struct Runner<'a> {
    workspace: &'a Workspace,
    compiler: Compiler,
    test_runner: PathBuf,
    webdriver_json: PathBuf,
    driver: PathBuf,
    full: bool,
}

impl Runner<'_> {
    /// Builds the tests of `crates` in one go, so that they share their dependencies, then runs them.
    fn run(&self, crates: &[BrowserCrate], build: Build) -> Result<()> {
        println!("\n-- build {}", build.name);
        let of = |module: &TestBinary| crates.iter().find(|of| module.folder.ends_with(of.folder));
        let modules = self.build(crates, build)?.into_iter().filter(|module| of(module).is_some()).collect();
        let passed = binaries::run_in_lanes(modules, LONGEST, |module| {
            let mut command = self.workspace.command(&self.test_runner);
            command.arg(&module.path);
            self.set_host(of(module).map_or(Host::Chromium, |of| of.host), &mut command);
            command
        })?;
        for browser_crate in crates {
            let modules = passed.iter().filter(|(module, _)| of(module) == Some(browser_crate));
            let passed: u64 = modules.map(|(_, passed)| passed).sum();
            // The runner is content with a crate that has no test for it; a step that names the crate must not be.
            ensure!(passed > 0, "{} ran no test; its wasm tests carry #[wasm_bindgen_test]", browser_crate.package);
        }
        Ok(())
    }

    fn build(&self, crates: &[BrowserCrate], build: Build) -> Result<Vec<TestBinary>> {
        let mut command = build.cargo(&self.compiler, self.workspace, "test");
        self.compiler.let_unwind(&mut command);
        // Doc tests run natively: naming the targets leaves them out.
        command.args(["--release", "--lib"]);
        for BrowserCrate { folder, package, .. } in crates {
            command.args(["--package", package]);
            command.args(integration_tests(&self.workspace.root().join(folder).join("tests"))?);
        }
        if self.full {
            command.env("OUTRIDER_FULL", "1");
        }
        TestBinary::build(&mut command)
    }

    fn set_host(&self, host: Host, command: &mut Command) {
        match host {
            Host::Node => {
                command.env("WASM_BINDGEN_TEST_ONLY_NODE", "1");
            }
            Host::Chromium => {
                command
                    .env("CHROMEDRIVER", &self.driver)
                    .env("WASM_BINDGEN_TEST_WEBDRIVER_JSON", &self.webdriver_json)
                    .env("WASM_BINDGEN_TEST_ONLY_WEB", "1")
                    // Test files that do not say where they run would be skipped without this.
                    .env("WASM_BINDGEN_USE_BROWSER", "1")
                    // Seconds. A language model on one slow core needs more than the runner's 20.
                    .env("WASM_BINDGEN_TEST_TIMEOUT", "900")
                    .env("WASM_BINDGEN_TEST_DRIVER_TIMEOUT", "60");
            }
        }
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

/// Paths of the entries of `folder`; none if there is no such folder.
fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    fs::read_dir(folder)
        .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect())
        .with_context(|| format!("{} cannot be read", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn every_command_for_wasm_pack_is_documented() {
        let document = include_str!("../../CONTRIBUTING.md");
        for browser_crate in BROWSER_CRATES {
            let command = format!("wasm-pack {}", browser_crate.wasm_pack_arguments().join(" "));
            assert!(document.contains(&command), "{command}");
        }
    }

    #[test]
    fn browser_crates_are_where_the_list_says() {
        let workspace = Workspace::find().unwrap();
        for BrowserCrate { folder, package, .. } in BROWSER_CRATES {
            let manifest = workspace.root().join(folder).join("Cargo.toml");
            let text = fs::read_to_string(manifest).unwrap();
            assert!(text.contains(&format!("name = \"{package}\"")), "{folder}");
        }
    }
}
