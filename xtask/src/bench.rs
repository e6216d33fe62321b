//! `cargo xtask bench`: measurements that anyone can repeat. They are not tests; nothing fails for being slow.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::chromium;
use crate::demo::Demo;
use crate::interrupt::Interrupt;
use crate::page::Page;
use crate::pair;
use crate::peers::Peers;
use crate::process::{self, Running};
use crate::server;
use crate::wasm::{self, Build};
use crate::workspace::Workspace;

/// Where vLLM's executable is.
const VLLM: &str = "OUTRIDER_VLLM";

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bench {
    /// How many sessions one core of a large target serves.
    Capacity,
    /// Bits and time of the codes.
    Codec,
    /// DSSD's Tables 2 and 3 with a browser at the edge.
    Dssd,
    /// Decoding in the browser beside wllama's, candle's and ONNX Runtime Web's.
    Edge,
    /// Guesses for vLLM, beside vLLM alone.
    Fleet,
    /// A server under attack, beside a session that behaves.
    Hostile,
    /// The page against the server alone, over emulated links.
    Link,
    /// The server's passes beside llama.cpp's and candle's.
    Native,
    /// A visit to the page, from its address to text, over emulated links.
    Page,
    /// Quality against rejections, for every acceptance rule.
    Rules,
    /// Time from logits to coded bytes, and from logits to a verdict.
    Sampling,
    /// Every uplink scheme on the default pair.
    Schemes,
    /// One server with many sessions.
    Serve,
}

impl Bench {
    /// Every measurement.
    pub const ALL: [Self; 13] = [
        Self::Capacity,
        Self::Codec,
        Self::Dssd,
        Self::Edge,
        Self::Fleet,
        Self::Hostile,
        Self::Link,
        Self::Native,
        Self::Page,
        Self::Rules,
        Self::Sampling,
        Self::Schemes,
        Self::Serve,
    ];

    /// What it is called on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Capacity => "capacity",
            Self::Codec => "codec",
            Self::Dssd => "dssd",
            Self::Edge => "edge",
            Self::Fleet => "fleet",
            Self::Hostile => "hostile",
            Self::Link => "link",
            Self::Native => "native",
            Self::Page => "page",
            Self::Rules => "rules",
            Self::Sampling => "sampling",
            Self::Schemes => "schemes",
            Self::Serve => "serve",
        }
    }

    /// The measurement called `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|bench| bench.name() == name)
    }

    /// Whether there is a shorter form, with fewer models and rounds, to see that it works.
    pub const fn has_quick_form(self) -> bool {
        use Bench::{Capacity, Dssd, Edge, Fleet, Hostile, Link, Native, Page, Serve};
        matches!(self, Capacity | Dssd | Edge | Fleet | Hostile | Link | Native | Page | Serve)
    }

    /// Measures, prints tables and leaves them in target/bench.
    pub fn run(self, workspace: &Workspace, quick: bool) -> Result<()> {
        let folder = workspace.target().join("bench");
        fs::create_dir_all(&folder).with_context(|| format!("{} cannot be created", folder.display()))?;
        match self {
            Self::Capacity => capacity(workspace, &folder, quick),
            Self::Codec => codec(workspace, &folder),
            Self::Dssd => dssd(workspace, &folder, quick),
            Self::Edge => edge(workspace, &folder, quick),
            Self::Fleet => fleet(workspace, &folder, quick),
            Self::Link => link(workspace, &folder, quick),
            Self::Native => native(workspace, &folder, quick),
            Self::Page => visits(workspace, &folder, quick),
            Self::Sampling => sampling(workspace, &folder),
            Self::Hostile | Self::Serve => serving(workspace, self, &folder, quick),
            Self::Rules | Self::Schemes => program(workspace, self, &[], &folder),
        }
    }
}

/// Models are written and tables made here, everything is timed in the browser.
fn edge(workspace: &Workspace, folder: &Path, quick: bool) -> Result<()> {
    let browser = chromium::browser()?;
    let page = Page::install(workspace)?;
    let peers = Peers::new(workspace)?;
    let built = folder.join("edge");
    wasm::build_edge_bench(workspace, &built.join("builds"))?;
    wasm::build_bench(workspace, "gpu", "web", &built.join("gpu"))?;
    peers.candle_browser(&built.join("candle"))?;
    let (wllama, onnx) = (peers.wllama(&page)?, peers.onnx_runtime_web(&page)?);
    let form = quick.then_some("quick");
    process::run(bench_program(workspace, Bench::Edge)?.arg("prepare").arg(folder).args(form))?;
    peers.write_onnx_models(folder)?;
    let mut measure = page.node("e2e/edge/bench.mjs");
    process::run(
        measure.arg(folder).arg(wllama.join("esm")).arg(onnx.join("dist")).args(form).env("CHROMIUM_PATH", browser),
    )?;
    program(workspace, Bench::Edge, &["report"], folder)
}

/// The npm package, served by the server that it talks to.
fn link(workspace: &Workspace, folder: &Path, quick: bool) -> Result<()> {
    let browser = chromium::browser()?;
    let address = server::free_address(0)?;
    let (page, binary) = packaged(workspace)?;
    let interrupt = Interrupt::listen()?;
    let package = workspace.web().join("npm");
    for pairs in [Pairs::SmallDraft { quick }, Pairs::RealDraft, Pairs::OneMachine] {
        ahead(workspace, &binary, &page, folder, pairs, &interrupt)?;
    }
    program(workspace, Bench::Link, &["ahead"], folder)?;
    let mut serve = server::command(workspace, &binary, address, &package);
    let mut server = Running::start(serve.args(["--own-draft", "off"]))?;
    server::wait_until_healthy(&mut server, address, &interrupt)?;
    let mut measure = page.node("e2e/link/bench.mjs");
    measure.arg(format!("http://{address}")).arg(folder.join("link-measured.json")).args(quick.then_some("quick"));
    Running::start(measure.env("CHROMIUM_PATH", browser))?.wait(&interrupt).context("measuring in Chromium failed")?;
    interrupt.ensure_not_raised()?;
    program(workspace, Bench::Link, &["report"], folder)
}

/// The demo page with all its builds, as visitors get it.
fn visits(workspace: &Workspace, folder: &Path, quick: bool) -> Result<()> {
    let browser = chromium::browser()?;
    let demo = Demo::build(workspace, &Build::ALL)?;
    let interrupt = Interrupt::listen()?;
    let address = server::free_address(0)?;
    let mut serve = server::command(workspace, &demo.server, address, &workspace.web().join("dist"));
    let mut server = Running::start(&mut serve)?;
    server::wait_until_healthy(&mut server, address, &interrupt)?;
    let mut measure = demo.page.node("e2e/page/bench.mjs");
    measure.arg(format!("http://{address}")).arg(folder.join("page-measured.json")).args(quick.then_some("quick"));
    Running::start(measure.env("CHROMIUM_PATH", browser))?.wait(&interrupt).context("measuring in Chromium failed")?;
    interrupt.ensure_not_raised()?;
    program(workspace, Bench::Page, &[], folder)
}

/// The npm package in a browser on a core, a server on another.
fn packaged(workspace: &Workspace) -> Result<(Page<'_>, PathBuf)> {
    ensure!(
        process::find_on_path("taskset").is_some(),
        "this measurement gives server and browser a core each with `taskset`: install util-linux"
    );
    let page = Page::install(workspace)?;
    wasm::build_edge(workspace, &Build::ALL)?;
    process::run(&mut page.script("package")?)?;
    Ok((page, server::build(workspace)?))
}

/// A draft that costs what 135M parameters do, in the browser, and a target of 1.1B.
fn dssd(workspace: &Workspace, folder: &Path, quick: bool) -> Result<()> {
    let browser = chromium::browser()?;
    let (page, binary) = packaged(workspace)?;
    let interrupt = Interrupt::listen()?;
    let address = server::free_address(0)?;
    let mut serve = server::command(workspace, &binary, address, &workspace.web().join("npm"));
    serve.args(["--own-draft", "off", "--threads", "1"]);
    serve.arg("--target").arg(pair::grow(workspace, "target", "1.1B")?);
    serve.arg("--draft").arg(pair::grow(workspace, "draft", "135M")?);
    let mut server = Running::start(&mut hold(serve, 0))?;
    server::wait_until_healthy(&mut server, address, &interrupt)?;
    let mut measure = page.node("e2e/link/dssd.mjs");
    measure.arg(folder.join("dssd-measured.json")).arg(format!("http://{address}")).args(quick.then_some("quick"));
    measure.env("CHROMIUM_PATH", browser);
    Running::start(&mut hold(measure, 1))?.wait(&interrupt).context("measuring in Chromium failed")?;
    interrupt.ensure_not_raised()?;
    program(workspace, Bench::Dssd, &[], folder)
}

/// The command, held to a core of its own.
fn hold(command: Command, core: usize) -> Command {
    let mut held = Command::new("taskset");
    held.args(["--cpu-list", &core.to_string()]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => held.env(name, value),
            None => held.env_remove(name),
        };
    }
    command.get_current_dir().map(|folder| held.current_dir(folder));
    held
}

/// What is measured of drafting ahead.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Pairs {
    /// The built-in draft before targets of three sizes, over all links; server and browser have a core each, as two
    /// machines have theirs.
    SmallDraft { quick: bool },
    /// A draft of a real size, over all round trips.
    RealDraft,
    /// Server and browser share their cores, as on the machine of someone who tries it; over the nearest link.
    OneMachine,
}

impl Pairs {
    /// What each is called, its target and its draft: sizes of grown models, `None` of built-in ones.
    fn models(self) -> &'static [(&'static str, Option<&'static str>, Option<&'static str>)] {
        match self {
            Self::RealDraft => &[("1.1B, draft 135M", Some("1.1B"), Some("135M"))],
            _ => &[("built-in", None, None), ("135M", Some("135M"), None), ("1.1B", Some("1.1B"), None)],
        }
    }

    /// Where the measurements go, and how `ahead.mjs` is told what to measure.
    fn file_and_form(self) -> (&'static str, Option<&'static str>) {
        match self {
            Self::SmallDraft { quick } => ("ahead-measured.json", quick.then_some("quick")),
            Self::RealDraft => ("ahead-real-draft-measured.json", Some("trips")),
            Self::OneMachine => ("ahead-shared-measured.json", Some("near")),
        }
    }

    fn has_core_each(self) -> bool {
        self != Self::OneMachine
    }

    /// The command, held to a core of its own where each end has one.
    fn hold(self, command: Command, core: usize) -> Command {
        if self.has_core_each() { hold(command, core) } else { command }
    }
}

/// Never waiting against the server alone.
fn ahead(
    workspace: &Workspace,
    binary: &Path,
    page: &Page<'_>,
    folder: &Path,
    pairs: Pairs,
    interrupt: &Interrupt,
) -> Result<()> {
    let (mut servers, mut names) = (Vec::new(), Vec::new());
    for &(name, target, draft) in pairs.models() {
        let mut models = Vec::new();
        for (role, flag, size) in [("target", "--target", target), ("draft", "--draft", draft)] {
            if let Some(size) = size {
                models.push((flag, pair::grow(workspace, role, size)?));
            }
        }
        let mut urls = Vec::new();
        for own_draft in ["off", "auto"] {
            let address = server::free_address(0)?;
            let mut serve = server::command(workspace, binary, address, &workspace.web().join("npm"));
            serve.args(["--own-draft", own_draft]);
            for (flag, file) in &models {
                serve.arg(flag).arg(file);
            }
            if pairs.has_core_each() {
                serve.args(["--threads", "1"]);
            }
            let mut server = Running::start(&mut pairs.hold(serve, 0))?;
            server::wait_until_healthy(&mut server, address, interrupt)?;
            servers.push(server);
            urls.push(format!("http://{address}"));
        }
        names.push(format!("{name}={}", urls.join(",")));
    }
    let mut measure = page.node("e2e/link/ahead.mjs");
    let (file, form) = pairs.file_and_form();
    measure.arg(folder.join(file)).args(names).args(form).env("CHROMIUM_PATH", chromium::browser()?);
    Running::start(&mut pairs.hold(measure, 1))?.wait(interrupt).context("measuring in Chromium failed")?;
    interrupt.ensure_not_raised()
}

fn native(workspace: &Workspace, folder: &Path, quick: bool) -> Result<()> {
    let peers = Peers::new(workspace)?;
    let engines = [peers.llama_cpp()?, peers.candle_native()?];
    let mut command = bench_program(workspace, Bench::Native)?;
    command.arg(folder).args(engines).args(quick.then_some("quick"));
    process::run(&mut command)
}

/// The target costs what 1.1 billion parameters do.
fn capacity(workspace: &Workspace, folder: &Path, quick: bool) -> Result<()> {
    let binary = server::build(workspace)?;
    let target = pair::grow(workspace, "target", "1.1B")?;
    let form = quick.then_some("quick");
    process::run(bench_program(workspace, Bench::Capacity)?.arg(folder).arg(binary).arg(target).args(form))
}

/// Engines on one core; gateways, edges and clients on another.
fn fleet(workspace: &Workspace, folder: &Path, quick: bool) -> Result<()> {
    let vllm = std::env::var_os(VLLM).map(PathBuf::from).filter(|path| path.is_file());
    let vllm = vllm.with_context(|| {
        format!("this measurement needs vLLM 0.32: install it as docs/gateway.md says, and set {VLLM} to its `vllm`")
    })?;
    ensure!(
        process::find_on_path("taskset").is_some(),
        "this measurement gives engines and gateways a core each with `taskset`: install util-linux"
    );
    let binary = server::build(workspace)?;
    let package = workspace.root().join("integrations/vllm/src");
    let mut measure = bench_program(workspace, Bench::Fleet)?;
    // What it starts would wonder at a variable that is none of theirs.
    measure.env_remove(VLLM).arg(folder).arg(binary).arg(vllm).arg(package).args(quick.then_some("quick"));
    process::run(&mut hold(measure, 1))
}

/// The server is a process of its own.
fn serving(workspace: &Workspace, bench: Bench, folder: &Path, quick: bool) -> Result<()> {
    let binary = server::build(workspace)?;
    process::run(bench_program(workspace, bench)?.arg(folder).arg(binary).args(quick.then_some("quick")))
}

/// The drafts are made here, timed in the browser, and timed here.
fn codec(workspace: &Workspace, folder: &Path) -> Result<()> {
    let (page, browser) = in_browser(workspace, Bench::Codec, folder)?;
    program(workspace, Bench::Codec, &["prepare"], folder)?;
    time_in_browser(Bench::Codec, &page, &browser, folder)?;
    program(workspace, Bench::Codec, &["report"], folder)
}

/// Timed in the browser and here.
fn sampling(workspace: &Workspace, folder: &Path) -> Result<()> {
    let (page, browser) = in_browser(workspace, Bench::Sampling, folder)?;
    time_in_browser(Bench::Sampling, &page, &browser, folder)?;
    program(workspace, Bench::Sampling, &[], folder)
}

/// Builds the browser's half.
fn in_browser<'a>(workspace: &'a Workspace, bench: Bench, folder: &Path) -> Result<(Page<'a>, PathBuf)> {
    let browser = chromium::browser()?;
    let page = Page::install(workspace)?;
    wasm::build_bench(workspace, bench.name(), "no-modules", folder)?;
    Ok((page, browser))
}

/// Runs it, and leaves what it says in NAME-browser.txt.
fn time_in_browser(bench: Bench, page: &Page<'_>, browser: &Path, folder: &Path) -> Result<()> {
    println!("Timing in Chromium: a minute or two.");
    let mut node = page.node("e2e/bench.mjs");
    let times = process::capture(node.arg(folder).arg(bench.name()).env("CHROMIUM_PATH", browser))?;
    let path = folder.join(format!("{}-browser.txt", bench.name()));
    fs::write(&path, times).with_context(|| format!("{} cannot be written", path.display()))
}

/// The measurement with these arguments and the folder for its results.
fn program(workspace: &Workspace, bench: Bench, arguments: &[&str], folder: &Path) -> Result<()> {
    process::run(bench_program(workspace, bench)?.args(arguments).arg(folder))
}

fn bench_program(workspace: &Workspace, bench: Bench) -> Result<Command> {
    let mut command = workspace.command(pair::program(workspace)?);
    command.arg(bench.name());
    Ok(command)
}
