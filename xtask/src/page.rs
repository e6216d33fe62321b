//! The npm packages in web/ (the package and the page) and docs/ (the documentation site): dependencies and scripts.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use semver::Version;

use crate::process;
use crate::wasm::{self, Build};
use crate::workspace::Workspace;

/// The oldest Node that the page's tools run on; `engines` in web/package.json names the same.
const NODE: Version = Version::new(20, 19, 0);

/// Name of npm's program. On Windows npm is a script, which is started by its full name only.
const NPM: &str = if cfg!(windows) { "npm.cmd" } else { "npm" };

/// A package with its dependencies installed: every npm script can run.
#[derive(Debug)]
pub struct Page<'a> {
    workspace: &'a Workspace,
    folder: PathBuf,
    node: PathBuf,
}

impl<'a> Page<'a> {
    /// Finds Node and npm, and installs what web/ needs if its package-lock.json has changed since the last time.
    pub fn install(workspace: &'a Workspace) -> Result<Self> {
        Self::install_in(workspace, workspace.web())
    }

    /// Does the same for the documentation site in docs/.
    pub fn install_site(workspace: &'a Workspace) -> Result<Self> {
        Self::install_in(workspace, workspace.root().join("docs"))
    }

    fn install_in(workspace: &'a Workspace, folder: PathBuf) -> Result<Self> {
        let page = Self { workspace, folder, node: find_node()? };
        let lock_path = page.folder.join("package-lock.json");
        let lock = fs::read(&lock_path).with_context(|| format!("{} cannot be read", lock_path.display()))?;
        // A copy of the lock file marks a finished install, so that deleting node_modules starts afresh.
        let modules = page.folder.join("node_modules");
        let mark = modules.join(".xtask-lock.json");
        if fs::read(&mark).is_ok_and(|installed| installed == lock) {
            return Ok(page);
        }
        // Install scripts would download browsers and binaries that nothing here uses.
        process::run(page.npm()?.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]))?;
        fs::create_dir_all(&modules)
            .and_then(|()| fs::write(&mark, lock))
            .with_context(|| format!("{} cannot be written", mark.display()))?;
        Ok(page)
    }

    /// `npm run <script>`; the caller may add to its environment before running it.
    pub fn script(&self, script: &str) -> Result<Command> {
        let mut command = self.npm()?;
        command.args(["run", script]);
        Ok(command)
    }

    /// `node <file>` with the package's folder as working folder.
    pub fn node(&self, file: &str) -> Command {
        let mut command = self.workspace.command(&self.node);
        command.current_dir(&self.folder).arg(file);
        command
    }

    /// Builds web/dist, for which the edge has to be built already.
    pub fn build(&self) -> Result<()> {
        process::run(&mut self.script("build")?)
    }

    /// Installs a package of npm, `wanted` is its name and version, in a folder of its own, unless it is there. Gives
    /// its path.
    pub fn add(&self, folder: &Path, wanted: &str, package: &str) -> Result<PathBuf> {
        let package = folder.join("node_modules").join(package);
        if !package.is_dir() {
            fs::create_dir_all(folder).with_context(|| format!("{} cannot be created", folder.display()))?;
            let mut npm = self.npm()?;
            npm.current_dir(folder).args(["install", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", "."]);
            process::run(npm.arg(wanted))?;
        }
        Ok(package)
    }

    /// npm with the package's folder as working folder.
    pub fn npm(&self) -> Result<Command> {
        let mut command = self.workspace.command(NPM);
        command.current_dir(&self.folder);
        if let Some(folder) = self.node.parent() {
            process::prepend_path(&mut command, folder)?;
        }
        Ok(command)
    }
}

/// Makes the npm package for `npm install`, in the build folder, with these builds of the engine.
pub fn pack(workspace: &Workspace, builds: &[Build]) -> Result<()> {
    let page = Page::install(workspace)?;
    wasm::build_edge(workspace, builds)?;
    process::run(
        page.npm()?.args(["pack", "--pack-destination"]).arg(workspace.target()).env("OUTRIDER_SOME_BUILDS", "1"),
    )?;
    println!("the package is in {}: npm install it in your app", workspace.target().display());
    Ok(())
}

fn find_node() -> Result<PathBuf> {
    let node = process::find_on_path("node").with_context(|| {
        format!("Node {NODE} or newer, with npm, is needed to build the page, and there is no `node` in PATH")
    })?;
    let version = process::version(&node)?;
    ensure!(version >= NODE, "Node {NODE} or newer is needed to build the page, and `node` in PATH is {version}");
    process::capture(Command::new(NPM).arg("--version"))
        .context("npm is needed to build the page; it comes with Node or in a package of its own")?;
    Ok(node)
}
