//! `cargo xtask bench`: measurements that anyone can repeat. They are not tests; nothing fails for being slow.

mod pairs;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;

use self::pairs::{Models, Pairs};
use crate::choice;
use crate::demo::Demo;
use crate::interrupt::Interrupt;
use crate::page::Page;
use crate::pair;
use crate::peers::Peers;
use crate::process::{self, Running};
use crate::server;
use crate::system::Program;
use crate::wasm::{self, Build};
use crate::workspace::Workspace;

/// Variable that names vLLM's executable.
const VLLM: &str = "OUTRIDER_VLLM";

/// Targets of the page's races: the published one, and the built-in one at the cost of 135 million parameters.
const RACES: [(&str, Models); 2] = [
    ("SmolLM2-135M-Instruct", Models::Published { target: None }),
    ("135M", Models::BuiltIn { target: Some("135M"), draft: None }),
];

/// Options of the command `bench`.
#[derive(Debug, PartialEq, Eq, clap::Args)]
pub struct BenchOptions {
    /// The measurement to run
    #[arg(value_enum, value_name = "WHAT")]
    bench: Bench,
    /// The shorter form, with fewer models and rounds, to see that it works
    #[arg(value_enum)]
    form: Option<Form>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Form {
    Quick,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Bench {
    /// Sessions that one core serves, alone, drafting itself and with guesses: targets of 1.1B, and SmolLM2; ninety
    /// minutes, quick fifteen
    Capacity,
    /// Time per round of the codes, by criterion; minutes
    Codec,
    /// Guesses that are looked up in the text and in the page's own texts, with SmolLM2; ten minutes, and it has no
    /// shorter form
    Context,
    /// Decoding in Chromium beside wllama's, candle's and ONNX Runtime Web's, on random weights in the shapes of
    /// drafts, which take 1.5 GB of disk; an hour, and the first time ten minutes to build the others
    Edge,
    /// Guesses for vLLM beside vLLM alone, with the vLLM that OUTRIDER_VLLM names; an hour
    Fleet,
    /// Text that is visible before the server confirms it, by round trip, with a native edge; it has no shorter form
    Guesses,
    /// A server attacked from one address, beside a session of another; five minutes
    Hostile,
    /// The page against the server alone in Chromium, over emulated rates and round trips, with targets of three sizes
    /// and SmolLM2: two hours, quick half of one; 2.6 GB of disk
    Link,
    /// The server's passes on this processor beside llama.cpp's and candle's, on random weights in real shapes, which
    /// take 2 GB of disk; twenty minutes, and the first time as many to build the others from PyPI and crates.io
    Native,
    /// Visits to the page in Chromium, first and second, over emulated links: bytes, and time until the page is ready
    /// and has its first token; then its race, ten times with two targets; a quarter of an hour
    Page,
    /// Speeds that `outrider check` predicts beside those of sessions, for six pairs; half an hour, quick ten minutes
    Predictions,
    /// Time per round from logits to coded bytes and to verdicts, by criterion; minutes
    Sampling,
    /// Every uplink scheme on the default pair: acceptance, bits, passes; it has no shorter form
    Schemes,
    /// One server with up to 256 sessions at a time, then with 1000 of which 50 are active; then SmolLM2; ten minutes
    Serve,
    /// The server's memory under fifty mixed clients; ten minutes, quick half of one
    Soak,
    /// One, two and four texts at a time on one page: their speed and its memory; a minute
    Texts,
}

/// Measures, prints tables and leaves them in target/bench.
pub fn run(workspace: &Workspace, &BenchOptions { bench, form }: &BenchOptions) -> Result<()> {
    let has_one_form = matches!(bench, Bench::Context | Bench::Guesses | Bench::Schemes);
    ensure!(form.is_none() || !has_one_form, "this measurement has no shorter form; leave out `quick`");
    let folder = workspace.target().join("bench");
    fs::create_dir_all(&folder).with_context(|| format!("{} cannot be created", folder.display()))?;
    let run = Run { workspace, bench, form: form.map(|_| "quick"), folder };
    match bench {
        Bench::Capacity => run.capacity(),
        Bench::Codec | Bench::Sampling => run.rounds(),
        Bench::Edge => run.edge(),
        Bench::Fleet => run.fleet(),
        Bench::Link => run.link(),
        Bench::Native => run.native(),
        Bench::Page => run.visits(),
        Bench::Texts => run.texts(),
        Bench::Serve => run.serve(),
        Bench::Hostile | Bench::Soak => run.serving(),
        Bench::Context => run.context(),
        Bench::Predictions => run.predictions(),
        Bench::Guesses | Bench::Schemes => run.program(&[]),
    }
}

/// A measurement that is under way.
struct Run<'a> {
    workspace: &'a Workspace,
    bench: Bench,
    /// The argument `quick`, if the shorter form is wanted.
    form: Option<&'static str>,
    /// The folder for results.
    folder: PathBuf,
}

impl Run<'_> {
    /// Models are written and tables made natively, everything is timed in the browser.
    fn edge(&self) -> Result<()> {
        let browser = Program::CHROMIUM.find_or_install()?;
        let page = Page::install(self.workspace)?;
        let peers = Peers::new(self.workspace)?;
        let built = self.folder.join("edge");
        wasm::build_bench(self.workspace, "edge_bench", &Build::ALL, &built.join("builds"))?;
        wasm::build_bench(self.workspace, "gpu_bench", &[Build::SIMD128], &built.join("gpu"))?;
        peers.candle_browser(&built.join("candle"))?;
        let (wllama, onnx) = (peers.wllama(&page)?, peers.onnx_runtime_web(&page)?);
        process::run(self.command()?.arg("prepare").arg(&self.folder).args(self.form))?;
        peers.write_onnx_models(&self.folder)?;
        let mut measure = page.node("e2e/edge/bench.mjs");
        measure.arg(&self.folder).arg(wllama.join("esm")).arg(onnx.join("dist")).args(self.form);
        process::run(measure.env("CHROMIUM_PATH", browser))?;
        self.program(&["report"])
    }

    /// The npm package, served by the server that it talks to; server and browser have a core each for the first part.
    fn link(&self) -> Result<()> {
        ensure_taskset()?;
        let page = self.package(&Build::ALL)?;
        let binary = server::build(self.workspace)?;
        let interrupt = Interrupt::listen()?;
        let chosen = Pairs::chosen()?;
        for &pairs in chosen.as_deref().unwrap_or(Pairs::value_variants()) {
            self.ahead(&binary, &page, pairs, &interrupt)?;
        }
        let mut report = self.command()?;
        report.arg("ahead").arg(&self.folder).args(chosen.iter().flatten().map(|pairs| choice::name(*pairs)));
        process::run(&mut report)?;
        if chosen.is_some() {
            return Ok(());
        }
        let address = server::free_address(0)?;
        let mut serve = server::command(self.workspace, &binary, address, &self.workspace.web().join("npm"));
        let _server = server::start(serve.args(["--own-draft", "off"]), address, &interrupt)?;
        self.measure(page.node("e2e/link/bench.mjs"), &format!("http://{address}"), "link-measured.json", &interrupt)?;
        self.program(&["report"])
    }

    /// Makes the npm package with these builds of the engine.
    fn package(&self, builds: &[Build]) -> Result<Page<'_>> {
        let page = Page::install(self.workspace)?;
        wasm::build_edge(self.workspace, builds)?;
        process::run(page.script("package")?.env("OUTRIDER_SOME_BUILDS", "1"))?;
        Ok(page)
    }

    /// The npm package, which shares one draft model among its texts.
    fn texts(&self) -> Result<()> {
        let page = self.package(&[Build::SIMD128, Build::RELAXED])?;
        let binary = server::build(self.workspace)?;
        let interrupt = Interrupt::listen()?;
        let address = server::free_address(0)?;
        let mut serve = server::command(self.workspace, &binary, address, &self.workspace.web().join("npm"));
        let _server = server::start(&mut serve, address, &interrupt)?;
        self.measure(page.node("e2e/link/texts.mjs"), &format!("http://{address}"), "texts.json", &interrupt)
    }

    /// The demo page with all its builds, as visitors get it.
    fn visits(&self) -> Result<()> {
        let demo = Demo::build(self.workspace, &Build::ALL)?;
        let interrupt = Interrupt::listen()?;
        let address = server::free_address(0)?;
        let web = self.workspace.web().join("dist");
        let mut serve = server::command(self.workspace, &demo.server, address, &web);
        let server = server::start(&mut serve, address, &interrupt)?;
        let script = demo.page.node("e2e/page/bench.mjs");
        self.measure(script, &format!("http://{address}"), "page-measured.json", &interrupt)?;
        drop(server);
        let (mut servers, mut races) = (Vec::new(), demo.page.node("e2e/page/races.mjs"));
        races.arg(self.folder.join("page-races.json"));
        for (name, models) in RACES {
            let address = server::free_address(0)?;
            let mut serve = server::command(self.workspace, &demo.server, address, &web);
            serve.args(models.arguments(self.workspace, &demo.server)?);
            // As in the demo.
            if matches!(models, Models::BuiltIn { .. }) {
                serve.args(["--own-draft", "off"]);
            }
            servers.push(server::start(&mut serve, address, &interrupt)?);
            races.arg(format!("{name}=http://{address}"));
        }
        races.args(self.form);
        in_chromium(races, &interrupt)?;
        self.program(&[])
    }

    /// Runs a script in Node with the server's URL, the file for its results and the form.
    fn measure(&self, mut script: Command, url: &str, file: &str, interrupt: &Interrupt) -> Result<()> {
        script.arg(url).arg(self.folder.join(file)).args(self.form);
        in_chromium(script, interrupt)
    }

    /// Drafting ahead against the server alone.
    fn ahead(&self, binary: &Path, page: &Page<'_>, pairs: Pairs, interrupt: &Interrupt) -> Result<()> {
        let (mut servers, mut names) = (Vec::new(), Vec::new());
        for (name, models) in pairs.models() {
            let models = models.arguments(self.workspace, binary)?;
            let mut urls = Vec::new();
            for own_draft in ["off", "auto"] {
                let address = server::free_address(0)?;
                let mut serve = server::command(self.workspace, binary, address, &self.workspace.web().join("npm"));
                serve.args(["--own-draft", own_draft]).args(&models);
                if pairs.has_core_each() {
                    serve.args(["--threads", "1"]);
                }
                servers.push(server::start(&mut pairs.hold(serve, 0), address, interrupt)?);
                urls.push(format!("http://{address}"));
            }
            names.push(format!("{name}={}", urls.join(",")));
        }
        let mut measure = page.node("e2e/link/ahead.mjs");
        measure.arg(self.folder.join(pairs.file())).args(names).args(pairs.forms(self.form));
        in_chromium(pairs.hold(measure, 1), interrupt)
    }

    fn native(&self) -> Result<()> {
        let peers = Peers::new(self.workspace)?;
        let engines = [peers.llama_cpp()?, peers.candle_native()?];
        process::run(self.command()?.arg(&self.folder).args(engines).args(self.form))
    }

    /// The built-in target at the cost of 1.1 billion parameters, with drafts of a thirtieth and an eighth of that;
    /// then SmolLM2 with the draft made for it, and the same at that cost.
    fn capacity(&self) -> Result<()> {
        let binary = server::build(self.workspace)?;
        let target = pair::grow(self.workspace, "target", "1.1B")?;
        let drafts = ["37M", "135M"].map(|size| pair::grow(self.workspace, "draft", size));
        let mut measure = self.command()?;
        measure.arg(&self.folder).arg(&binary).arg(target);
        for draft in drafts {
            measure.arg(draft?);
        }
        process::run(measure.args(self.form))?;
        for (name, size) in [("smollm2", None), ("smollm2-1.1B", Some("1.1B"))] {
            let [target, draft] = pair::smollm2(self.workspace, &binary, size)?;
            let mut measure = self.command()?;
            measure.arg(&self.folder).arg(&binary).args(["chat", name]).arg(target).arg(draft);
            process::run(measure.args(self.form))?;
        }
        Ok(())
    }

    /// Engines on one core; gateways, edges and clients on another.
    fn fleet(&self) -> Result<()> {
        let vllm = vllm().with_context(|| {
            format!(
                "this measurement needs vLLM 0.32: install it as docs/gateway.md says, and set {VLLM} to its `vllm`"
            )
        })?;
        ensure_taskset()?;
        let binary = server::build(self.workspace)?;
        let mut measure = self.command()?;
        // vLLM warns about variables that begin with its name and are not its own.
        measure.env_remove(VLLM).arg(&self.folder).arg(binary).arg(vllm).arg(self.proposer()).args(self.form);
        process::run(&mut process::hold(measure, 1))
    }

    /// Folder of our package for vLLM.
    fn proposer(&self) -> PathBuf {
        self.workspace.root().join("integrations/vllm/src")
    }

    /// With vLLM's own n-grams, where vLLM is installed.
    fn context(&self) -> Result<()> {
        let mut measure = self.command()?;
        measure.env_remove(VLLM).arg(&self.folder);
        if let Some(vllm) = vllm() {
            measure.arg(vllm).arg(self.proposer());
        }
        process::run(&mut measure)
    }

    /// The check and the server on one core, the edge on another.
    fn predictions(&self) -> Result<()> {
        ensure_taskset()?;
        let binary = server::build(self.workspace)?;
        let mut measure = self.command()?;
        measure.arg(&self.folder).arg(binary).arg(pair::folder(self.workspace)).args(self.form);
        process::run(&mut process::hold(measure, 1))
    }

    /// The server is a process of its own.
    fn serving(&self) -> Result<()> {
        let binary = server::build(self.workspace)?;
        process::run(self.command()?.arg(&self.folder).arg(binary).args(self.form))
    }

    /// The built-in target, then SmolLM2 with the draft made for it.
    fn serve(&self) -> Result<()> {
        self.serving()?;
        let binary = server::build(self.workspace)?;
        let models = pair::smollm2(self.workspace, &binary, None)?;
        let mut measure = self.command()?;
        process::run(measure.arg(&self.folder).arg(&binary).arg("chat").args(models).args(self.form))
    }

    /// Criterion's group of the measurement's name.
    fn rounds(&self) -> Result<()> {
        let mut cargo = self.workspace.cargo("bench");
        cargo.args(["--workspace", "--bench", "rounds", "--", &choice::name(self.bench)]);
        process::run(cargo.args(self.form.map(|_| "--quick")))
    }

    /// The measuring program with these arguments and the folder for its results.
    fn program(&self, arguments: &[&str]) -> Result<()> {
        process::run(self.command()?.args(arguments).arg(&self.folder))
    }

    /// The measuring program with the measurement's name.
    fn command(&self) -> Result<Command> {
        let mut command = self.workspace.command(pair::program(self.workspace)?);
        command.arg(choice::name(self.bench));
        Ok(command)
    }
}

/// vLLM's executable, where the variable names one.
fn vllm() -> Option<PathBuf> {
    std::env::var_os(VLLM).map(PathBuf::from).filter(|path| path.is_file())
}

/// Runs a script that drives Chromium.
fn in_chromium(mut script: Command, interrupt: &Interrupt) -> Result<()> {
    script.env("CHROMIUM_PATH", Program::CHROMIUM.find_or_install()?);
    Running::start(&mut script)?.wait(interrupt).context("measuring in Chromium failed")?;
    interrupt.ensure_not_raised()
}

fn ensure_taskset() -> Result<()> {
    ensure!(
        process::find_on_path("taskset").is_some(),
        "this measurement gives its two ends a core each with `taskset`: install util-linux"
    );
    Ok(())
}
