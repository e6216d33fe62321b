//! `cargo xtask demo`: the page and the server on this machine, to try or to check.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::interrupt::Interrupt;
use crate::page::Page;
use crate::pair;
use crate::process::{self, Running};
use crate::server;
use crate::system::Program;
use crate::tools;
use crate::wasm::{self, Build};
use crate::workspace::Workspace;

/// Options of the command `demo`.
#[derive(Debug, PartialEq, Eq, clap::Args)]
pub struct DemoOptions {
    /// Open the page in Chromium, generate a text, and exit with 0 if it worked
    #[arg(long)]
    pub check: bool,
    /// Port on 127.0.0.1; 0 takes a free one
    #[arg(long, value_name = "N", default_value_t = 8787)]
    pub port: u16,
    /// With --check: leave pictures of the three views in a folder, as page-*.png
    #[arg(long, value_name = "FOLDER", requires = "check")]
    pub screenshots: Option<PathBuf>,
    /// Serve the built-in models, which need no network, instead of SmolLM2-135M-Instruct
    #[arg(long)]
    pub built_in: bool,
}

/// The parts of the demo, all of them built.
#[derive(Debug)]
pub struct Demo<'a> {
    /// The page, whose build lies in web/dist.
    pub page: Page<'a>,
    /// The server's executable.
    pub server: PathBuf,
}

impl<'a> Demo<'a> {
    /// Builds the edge in these builds, the page and the server, and prints each step.
    pub fn build(workspace: &'a Workspace, builds: &[Build]) -> Result<Self> {
        // Dependencies first: without Node there is no need to compile for minutes.
        step(1, "the page's npm packages");
        let page = Page::install(workspace)?;
        step(2, "wasm-bindgen, which joins Rust and JavaScript");
        tools::wasm_bindgen(workspace)?;
        let names = builds.iter().map(|build| build.name).collect::<Vec<_>>().join(", ");
        step(3, &format!("the edge for the browser ({names})"));
        wasm::build_edge(workspace, builds)?;
        step(4, "the page");
        page.build()?;
        step(5, "the server");
        let server = server::build(workspace)?;
        Ok(Self { page, server })
    }
}

/// Short name of the demo's model.
const PUBLISHED: &str = "smollm2";

/// Returns true once the demo's model is in the cache; prints why the built-in one is served otherwise.
fn has_published(workspace: &Workspace, server: &Path) -> bool {
    println!("SmolLM2-135M-Instruct, a published chat model: 98 MB the first time");
    let fetched = process::run(workspace.command(server).args(["fetch", "--model", PUBLISHED]));
    if fetched.is_err() {
        println!("Without it the built-in models are served, which write fairy tales and know no conversations.");
    }
    fetched.is_ok()
}

/// Options of a server that makes no drafts of its own.
const OWN_DRAFTS_OFF: [&str; 2] = ["--own-draft", "off"];

/// Size whose cost the built-in target has in the demo; as it is, it answers before a draft can arrive.
const COST: &str = "135M";

/// Steps of [`Demo::build`].
const STEPS: usize = 5;

fn step(number: usize, what: &str) {
    println!("[{number}/{STEPS}] {what}");
}

/// Builds the demo, then serves it until Ctrl-C or checks it.
pub fn run(workspace: &Workspace, options: &DemoOptions) -> Result<()> {
    // Before the build, which takes minutes; the port is free again right away.
    let address = server::free_address(options.port)?;
    let browser = options.check.then(|| Program::CHROMIUM.find_or_install()).transpose()?;
    // One build that every browser runs.
    let demo = Demo::build(workspace, &[Build::SIMD128])?;

    let interrupt = Interrupt::listen()?;
    let serve = |address| server::command(workspace, &demo.server, address, &workspace.web().join("dist"));
    let mut large = serve(address);
    let _small = if !options.built_in && has_published(workspace, &demo.server) {
        large.args(["--model", PUBLISHED]);
        None
    } else {
        // The toy is to show what the page gains: the server's own drafts would help both sides.
        large.args(OWN_DRAFTS_OFF);
        println!("The built-in target grows to the cost of {COST} parameters: a few seconds the first time");
        large.arg("--target").arg(pair::grow(workspace, "target", COST)?);
        large.args(["--model-name", &format!("outrider-target-at-the-cost-of-{COST}")]);
        // The pair as it is has a server of its own, and each page a way to the other.
        let other = server::free_address(0)?;
        large.args(["--elsewhere", &format!("the built-in model itself=http://{other}/")]);
        let mut small = serve(other);
        small
            .args(OWN_DRAFTS_OFF)
            .args(["--elsewhere", &format!("a model at the cost of {COST} parameters=http://{address}/")]);
        Some(server::start(&mut small, other, &interrupt)?)
    };
    let mut server = server::start(&mut large, address, &interrupt)?;
    let url = format!("http://{address}/");
    let Some(browser) = browser else {
        println!("\nThe demo is at {url} and ends with Ctrl-C.");
        return server.wait(&interrupt).context("the server failed");
    };
    let mut check = check_command(&demo.page, &browser, &url, options)?;
    Running::start(&mut check)?.wait(&interrupt).context("the page in Chromium did not do what it should")?;
    interrupt.ensure_not_raised()?;
    println!("The demo works.");
    Ok(())
}

/// `node e2e/check.mjs URL [--screenshots DIR]`, which exits with 0 if the page at `url` works.
fn check_command(page: &Page<'_>, browser: &Path, url: &str, options: &DemoOptions) -> Result<Command> {
    let mut command = page.node("e2e/check.mjs");
    command.arg(url).env("CHROMIUM_PATH", browser);
    if let Some(folder) = &options.screenshots {
        // Relative to the caller's working folder, not to web/.
        let folder =
            std::path::absolute(folder).with_context(|| format!("{} is no usable folder name", folder.display()))?;
        command.arg("--screenshots").arg(folder);
    }
    Ok(command)
}
