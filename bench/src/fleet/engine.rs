//! A vLLM server as a child process.

use std::{
    cell::Cell,
    fs::{self, File},
    net::{Ipv4Addr, TcpListener},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
    time,
};

use crate::{
    passes::Failure,
    serve::process::{Scrape, on_core},
};

/// Name of the model for clients.
pub const MODEL: &str = "target";
/// Drafts that a step may judge.
const DRAFTS: u32 = 8;
/// Drafts of a draft model in the worker, which writes each by a pass of its own.
const DRAFTS_OF_MODEL: u32 = 3;
/// Room for 64 texts of the largest target, so that five engines fit into one machine.
const KV_CACHE_BYTES: &str = "536870912";
/// Time limit for an engine to start, which takes half a minute on a core of its own.
const PATIENCE: Duration = Duration::from_secs(300);
/// Time limit for an engine to end after SIGTERM.
const FAREWELL: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(250);
/// Capacity of a proposer, in messages of [`MESSAGE_GUESSES`] guesses; and a position that no text has.
const MESSAGE_GUESSES: u8 = 32;
const MESSAGES_KEPT: u32 = 65_536 / 32;
const FORGETS_FROM: u32 = 1 << 20;

/// Source of the drafts of an engine.
#[derive(Debug, Clone)]
pub enum Drafting {
    Nobody,
    /// vLLM's own: what followed the same tokens before.
    Ngrams,
    /// vLLM's own: a draft model, the checkpoint in this folder, in the same worker.
    Model(PathBuf),
    /// Guesses of edges, which come over this Unix socket.
    Guesses(PathBuf),
}

impl Drafting {
    fn configuration(&self) -> Option<Value> {
        match self {
            Self::Nobody => None,
            Self::Model(folder) => Some(json!({
                "method": "draft_model",
                "model": folder,
                "num_speculative_tokens": DRAFTS_OF_MODEL,
            })),
            Self::Ngrams => Some(json!({
                "method": "ngram",
                "num_speculative_tokens": DRAFTS,
                "prompt_lookup_min": 2,
                "prompt_lookup_max": 4,
            })),
            Self::Guesses(_) => Some(json!({
                "method": "custom_class",
                "model": "outrider_vllm.Proposer",
                "num_speculative_tokens": DRAFTS,
            })),
        }
    }
}

/// Element type that engines compute in: bfloat16 where the processor has it, and float32 where a product in it would
/// be converted number by number, so that each row costs as much as a pass.
pub fn dtype() -> &'static str {
    let flags = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    if flags.contains("avx512_bf16") || flags.contains("amx_bf16") { "bfloat16" } else { "float32" }
}

/// Settings that all engines of a target have in common.
pub struct Launch<'a> {
    pub vllm: &'a Path,
    pub package: &'a Path,
    pub model: &'a Path,
    pub logs: &'a Path,
}

impl Launch<'_> {
    /// Starts an engine on core 0 and waits until it serves.
    pub async fn start(&self, drafting: &Drafting) -> Result<Engine, Failure> {
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let port = address.port().to_string();
        let log = self.logs.join(format!("fleet-vllm-{port}.log"));
        let mut command = on_core(0, self.vllm);
        command.arg("serve").arg(self.model);
        command.args(["--host", "127.0.0.1", "--port", &port, "--served-model-name", MODEL]);
        command.args(["--dtype", dtype(), "--max-model-len", "512", "--max-num-seqs", "64", "--enforce-eager"]);
        if let Some(configuration) = drafting.configuration() {
            command.arg("--speculative-config").arg(configuration.to_string());
        }
        command.args(["--kv-cache-memory-bytes", KV_CACHE_BYTES]);
        command.env("HF_HUB_OFFLINE", "1").env("OMP_NUM_THREADS", "1");
        command.env("VLLM_NO_USAGE_STATS", "1").env("PYTHONPATH", self.package);
        if let Drafting::Guesses(socket) = drafting {
            command.args(["--distributed-executor-backend", "outrider_vllm.executor.MultiprocExecutor"]);
            command.env("OUTRIDER_GUESSES", format!("unix:{}", text(socket)?));
        }
        command.stdin(Stdio::null()).stdout(File::create(&log)?).stderr(File::options().append(true).open(&log)?);
        let child = command.spawn().map_err(|error| format!("{} cannot be started: {error}", self.vllm.display()))?;
        let guesses = if let Drafting::Guesses(socket) = drafting { Some(socket.clone()) } else { None };
        let (address, http) = (address.to_string(), reqwest::Client::new());
        let mut engine = Engine { child, address, http, guesses, forgets_from: Cell::new(FORGETS_FROM) };
        let began = Instant::now();
        while engine.get("/health").await.is_err() {
            if let Some(status) = engine.child.try_wait()? {
                return Err(format!("vLLM ended ({status}); {} says why", log.display()).into());
            }
            if began.elapsed() > PATIENCE {
                return Err(format!("vLLM does not answer; {} may say why", log.display()).into());
            }
            time::sleep(PAUSE).await;
        }
        Ok(engine)
    }
}

/// Tokens, as engines count them.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counts {
    pub written: f64,
    /// Drafts that were judged, and how many of them were accepted.
    pub judged: f64,
    pub accepted: f64,
}

impl Counts {
    /// Adds `times` times the counts of another engine.
    fn add(&mut self, other: Self, times: f64) {
        self.written += times * other.written;
        self.judged += times * other.judged;
        self.accepted += times * other.accepted;
    }

    /// Counts of several engines together, less those of an earlier time.
    pub async fn since(self, engines: &[&Engine]) -> Result<Self, Failure> {
        let mut sum = Self::default();
        sum.add(self, -1.0);
        for engine in engines {
            sum.add(engine.counts().await?, 1.0);
        }
        Ok(sum)
    }
}

/// A vLLM server, until dropped.
pub struct Engine {
    child: Child,
    address: String,
    http: reqwest::Client,
    /// Path of the socket of its proposer, if it has ours.
    guesses: Option<PathBuf>,
    /// Position of the next junk guesses, which displace those that the proposer keeps.
    forgets_from: Cell<u32>,
}

impl Engine {
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns the version that the engine reports.
    pub async fn version(&self) -> Result<String, Failure> {
        let answer: Value = serde_json::from_str(&self.get("/version").await?)?;
        Ok(answer["version"].as_str().ok_or("vLLM does not say its version")?.to_owned())
    }

    /// Returns the engine's counts so far.
    pub async fn counts(&self) -> Result<Counts, Failure> {
        let metrics = Scrape(self.get("/metrics").await?);
        Ok(Counts {
            written: metrics.sum("vllm:generation_tokens_total"),
            judged: metrics.sum("vllm:spec_decode_num_draft_tokens_total"),
            accepted: metrics.sum("vllm:spec_decode_num_accepted_tokens_total"),
        })
    }

    /// Returns the memory of the engine's processes, in MiB: what each has alone, and its share of what several have.
    pub fn memory_mib(&self) -> Result<f64, Failure> {
        let (mut processes, mut kib) = (vec![self.child.id()], 0.0);
        while let Some(process) = processes.pop() {
            let folder = PathBuf::from(format!("/proc/{process}"));
            let memory = fs::read_to_string(folder.join("smaps_rollup"))?;
            let line =
                memory.lines().find_map(|line| line.strip_prefix("Pss:")).ok_or("the kernel counts no memory")?;
            kib += line.trim().trim_end_matches(" kB").parse::<f64>()?;
            for thread in fs::read_dir(folder.join("task"))? {
                let children = fs::read_to_string(thread?.path().join("children"))?;
                processes.extend(children.split_whitespace().filter_map(|id| id.parse::<u32>().ok()));
            }
        }
        Ok(kib / 1024.0)
    }

    /// Fills its proposer with junk guesses of no text, up to its capacity: only the latest are kept, so all others are
    /// forgotten.
    pub async fn forget(&self) -> Result<(), Failure> {
        let Some(socket) = &self.guesses else { return Ok(()) };
        let mut channel = UnixStream::connect(socket).await?;
        let hello = [b"OUTRIDER", &1u16.to_le_bytes()[..], &0u16.to_le_bytes()].concat();
        channel.write_all(&message(&hello)).await?;
        let mut answer = [0; 13];
        channel.read_exact(&mut answer).await?;
        if answer[4] != 0 {
            return Err(format!("vLLM's proposer refuses the benchmark: {}", answer[4]).into());
        }
        let mut junk = Vec::new();
        for _ in 0..MESSAGES_KEPT {
            let position = self.forgets_from.get();
            self.forgets_from.set(position + u32::from(MESSAGE_GUESSES));
            let tail = [16, 0, 0, 0, 0].into_iter().chain([0; 60]);
            let guesses = [MESSAGE_GUESSES].into_iter().chain([0; 4 * MESSAGE_GUESSES as usize]);
            let body: Vec<u8> = [1].into_iter().chain(position.to_le_bytes()).chain(tail).chain(guesses).collect();
            junk.extend(message(&body));
        }
        channel.write_all(&junk).await?;
        // What is still in the socket is read within a tenth of a second.
        time::sleep(PAUSE).await;
        Ok(())
    }

    async fn get(&self, path: &str) -> Result<String, Failure> {
        let answer = self.http.get(format!("http://{}{path}", self.address)).send().await?;
        Ok(answer.error_for_status()?.text().await?)
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // Asked, not killed: it ends its workers, which are processes of their own.
        let _ = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
        let began = Instant::now();
        while began.elapsed() < FAREWELL {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(PAUSE);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A message with its length before it.
fn message(body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).unwrap_or(u32::MAX);
    [&length.to_le_bytes()[..], body].concat()
}

/// The path as text that a command line takes.
fn text(path: &Path) -> Result<&str, Failure> {
    path.to_str().ok_or_else(|| format!("{} is not UTF-8", path.display()).into())
}
