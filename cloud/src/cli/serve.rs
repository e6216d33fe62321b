//! Command `outrider serve`, which runs the server.
//!
//! Every field with a flag is a setting; `config` gives each its variable in the environment and its key in a file.

use std::{
    fs,
    net::{SocketAddr, TcpListener},
    path::PathBuf,
    pin::pin,
    str::FromStr,
    time::Duration,
};

use bytesize::ByteSize;
use clap::Args;
use outrider_codec::{choice::Choice, frame::MAX_DRAFT_TOKENS};
use outrider_speculation::control::ahead::Goal;
use tokio::{sync::watch, time};
use tracing_subscriber::filter::LevelFilter;

use self::{
    access::AccessArgs,
    caps::CapsArgs,
    reload::Reloadable,
    signals::{Signal, Signals},
};
use super::{
    log::LogFormat,
    output::{CommandError, print},
};
use crate::{
    api_drafting::ApiMode,
    app::{self, AppState, Connections, tls::Tls},
    http::Elsewhere,
    pair::{self, PairPaths},
    session::Limits,
    sessions::Sessions,
    target::{
        device_name::DeviceName,
        engine::{EngineSettings, GuessPolicy, LEAST_BATCH_ROWS, OwnDraftPolicy},
        gateway::EngineArgs,
    },
};

mod access;
mod caps;
mod key_file;
mod loading;
mod reload;
mod signals;
mod supervisor;

/// Function that reads the process's settings again.
pub(super) type ReadAgain = fn() -> Result<Box<Serve>, CommandError>;

/// Serve the page, the draft model, verification sessions and an OpenAI-compatible API
///
/// Every flag but --rules can also be set in the environment, as OUTRIDER_ and its name, and in a file (--config).
#[derive(Debug, Args)]
pub struct Serve {
    /// TOML file that sets what no flag and no variable sets; docs/outrider.toml is an example
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print all settings as such a file, as they would be used, and end
    #[arg(long)]
    print_config: bool,
    /// Settings as `--print-config` prints them.
    #[arg(skip)]
    pub(super) configuration: String,
    /// Variables of the environment that look like settings and are not.
    #[arg(skip)]
    pub(super) unknown_variables: Vec<String>,
    /// Reads the settings again, for SIGHUP.
    #[arg(skip)]
    pub(super) read_again: Option<ReadAgain>,
    /// Address to listen on; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8787", value_parser = address)]
    listen: SocketAddr,
    /// Address of a port for /metrics, /healthz, /readyz and /log-level alone, without tokens or TLS. Without it, the
    /// first three are on the public port
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = address)]
    admin: Option<SocketAddr>,
    /// Folder of the built page
    #[arg(long, value_name = "FOLDER", default_value = "web/dist")]
    web: PathBuf,
    #[command(flatten)]
    pair: PairPaths,
    #[command(flatten)]
    engine: EngineArgs,
    /// Device of the target: cpu; or, in a build with CUDA, cuda or cuda:N
    ///
    /// On a GPU, rounds are judged where the logits are, with the distribution they have on the CPU. Rounds with top-k
    /// or top-p (above temperature 0), lossy rules, coupled drafting or --explain bring all their logits back to the
    /// CPU. On a GPU, batching may change the last digits of logits, so that near-ties may fall either way: only the
    /// CPU promises the same text whichever sessions share a run. /metrics then says batching="approximate". The KV
    /// cache takes half the bytes or less, all of them at the start.
    #[arg(long, value_name = "DEVICE", default_value = "cpu")]
    device: DeviceName,
    /// Drafts of the server's own, where no client has guessed in time, and for texts of the API: off; on, as if
    /// drafting cost nothing; auto, where measured times promise more tokens per second; lookup, what followed the same
    /// tokens earlier in the text, for work that copies, and needs no --draft. The text is the same. For on and auto
    /// the server drafts with the draft model on the CPU, whose KV caches may take as much as --kv-memory again
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = OwnDraftPolicy::Auto)]
    own_draft: OwnDraftPolicy,
    /// Drafts for texts of the API by the draft model, in sessions as browsers have them: a JSON object of drafting
    /// options for requests that have no field `outrider` of their own, such as '{"scheme": "k-sqs"}'; or null to draft
    /// for those alone that have one. For measurements by clients of the API. Without it the field is refused
    #[arg(long, value_name = "JSON")]
    api_drafting: Option<ApiMode>,
    /// Guesses at a text that a pass judges: paid, those that by measured times raise the tokens per second of all
    /// sessions together; all, as if judging cost nothing
    #[arg(long, value_name = "WHICH", value_enum, default_value_t = GuessPolicy::Paid)]
    guesses: GuessPolicy,
    /// Goal for clients that guess ahead of its texts: speed, the most tokens per second; or passes, the fewest forward
    /// passes among the modes that are no slower than the server alone
    #[arg(long, value_name = "GOAL", default_value = Goal::default().name(), value_parser = Goal::from_str)]
    goal: Goal,
    /// Name of the only model in the API; if not given, the name in --model, or that of the target's file or folder
    #[arg(long, value_name = "NAME")]
    model_name: Option<String>,
    /// Another server that the page offers to go to, with other models; may be given more than once
    #[arg(long, value_name = "NAME=URL")]
    elsewhere: Vec<Elsewhere>,
    /// Jinja template that turns a conversation into a prompt; the target's own if not given, or else a plain form
    #[arg(long, value_name = "FILE")]
    chat_template: Option<PathBuf>,
    /// Sessions at a time, of all models together; an idle one costs some 20 KiB
    #[arg(long, value_name = "COUNT", default_value_t = 1024, value_parser = caps::positive::<usize>)]
    max_sessions: usize,
    /// Memory for the KV caches of all sessions, such as 512MiB or 2GiB, 8 bytes x layers x key-value width a token.
    /// Where it is short, idle sessions lose theirs, least recently used first, and are read again on their return.
    /// Several models get equal parts of it
    #[arg(long, value_name = "BYTES", default_value = "1GiB")]
    kv_memory: ByteSize,
    /// Most tokens in one run of the target, of all sessions together. On the CPU, sharing a run never changes a
    /// session's text. With fewer rows, sessions beside long prompts are answered sooner; more rows give a higher
    /// throughput
    #[arg(long, value_name = "COUNT", default_value_t = EngineSettings::default().batch_rows as u64, value_parser = clap::value_parser!(u64).range(LEAST_BATCH_ROWS as u64..=65536))]
    batch_rows: u64,
    /// Most drafted tokens in a round. A round takes one row of the target for each; the SQS paper's 5000 bits have
    /// room for 42 at K = 8
    #[arg(long, value_name = "COUNT", default_value_t = 16, value_parser = clap::value_parser!(u8).range(1..=i64::from(MAX_DRAFT_TOKENS)))]
    max_draft_tokens: u8,
    /// Most rounds of a session that may await their verdict at a time. A waiting round takes the bytes of its frame,
    /// at most 2 MiB; most are below 1 KiB
    #[arg(long, value_name = "COUNT", default_value_t = pair::MAX_IN_FLIGHT, value_parser = clap::value_parser!(u8).range(1..))]
    max_in_flight: u8,
    /// Threads that verify; one per processor if not given
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Seconds after which a silent session is closed
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = caps::seconds)]
    idle_timeout: u64,
    /// Seconds that a session keeps its slot for a client that has lost the connection
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    detached_lifetime: u32,
    /// Seconds after which a session ends in any case; its client begins another automatically
    #[arg(long, value_name = "SECONDS", default_value_t = 12 * 3600, value_parser = caps::positive::<u32>)]
    session_lifetime: u32,
    /// Seconds for which the server goes on serving after SIGTERM while /readyz answers 503, so that balancers send new
    /// clients elsewhere. Ctrl-C and a second signal end the wait; 0 is no wait
    #[arg(long, value_name = "SECONDS", default_value_t = 5)]
    drain: u64,
    /// Seconds that responses of the API and downloads may take to end when the server is asked to stop; sessions are
    /// notified at once, since their clients reconnect here or elsewhere
    #[arg(long, value_name = "SECONDS", default_value_t = 5)]
    grace: u64,
    /// Format of the log's lines
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub(super) log_format: LogFormat,
    /// Least level of events in the log: error, warn, info, debug, trace, or off. RUST_LOG, if set, chooses by module
    /// instead. At SIGHUP the server reads this setting, --tokens-file, --tls-cert and --tls-key again
    #[arg(long, value_name = "LEVEL", default_value_t = LevelFilter::INFO)]
    pub(super) log_level: LevelFilter,
    #[command(flatten)]
    caps: CapsArgs,
    #[command(flatten)]
    access: AccessArgs,
}

/// Parses an address to listen on.
fn address(text: &str) -> Result<SocketAddr, &'static str> {
    text.parse().map_err(|_| "it must be an IP address and a port, as 127.0.0.1:8787 or [::]:8787")
}

/// Time for responses that are cut at shutdown to send their error.
const LAST_WORDS: Duration = Duration::from_secs(1);

impl Serve {
    pub(super) async fn run(mut self) -> Result<(), CommandError> {
        if self.print_config {
            print(&self.configuration);
            return Ok(());
        }
        outrider_models::check_instruction_set()?;
        if let Some(count) = self.threads {
            outrider_models::threads::set(count.into());
        }
        // Quick checks come before slow work.
        self.device.check()?;
        self.check_memory()?;
        let access = self.access.access()?;
        let tls = self.access.tls()?.map(Tls::new);
        let listener = bind(self.listen)?;
        let admin = self.admin.map(bind).transpose()?;
        let caps = self.caps.caps();
        let models = self.load().await?;
        let (drain, draining) = watch::channel(false);
        let (stop, stopping) = watch::channel(false);
        let (close, closing) = watch::channel(false);
        let state = AppState {
            models,
            elsewhere: std::mem::take(&mut self.elsewhere),
            sessions: Sessions::new(self.max_sessions, caps.sessions_per_address),
            limits: Limits {
                hello: Duration::from_secs(self.caps.hello_timeout),
                idle: Duration::from_secs(self.idle_timeout),
                detached: Duration::from_secs(self.detached_lifetime.into()),
                lifetime: Duration::from_secs(self.session_lifetime.into()),
                ..Limits::default()
            },
            caps,
            access,
            draining,
            stopping: stopping.clone(),
            closing,
        };
        // Warnings come after all errors that would end the command.
        for name in &self.unknown_variables {
            tracing::warn!(name, "an environment variable is not a setting");
        }
        if !self.web.join("index.html").is_file() {
            tracing::warn!(folder = %self.web.display(), "there is no page in the folder of --web");
        }
        let connections = Connections {
            tls,
            head: caps.header_read,
            per_address: connections_per_address(caps.connections_per_address, self.max_sessions),
            proxies: state.access.proxies.clone(),
        };
        let mut signals = Signals::listen()?;
        let reloadable = Reloadable { tokens: state.access.tokens.clone(), tls: connections.tls.clone() };
        if let (Some(path), Some(keys)) = (self.access.keys.clone(), state.access.keys.clone()) {
            tokio::spawn(key_file::watch(path, keys));
        }
        announce(listener.local_addr()?, connections.tls.is_some());
        let engine = state.models.first().engine.clone();
        let app = match admin {
            None => app::app(state, self.web),
            Some(admin) => {
                print(&format!("Metrics, health and log level are at http://{}\n", admin.local_addr()?));
                let closing = state.closing.clone();
                let (app, routes) = app::with_admin(state, self.web);
                let connections = Connections { tls: None, per_address: 0, ..connections.clone() };
                // Health is answered until the process ends.
                tokio::spawn(app::serve(admin, routes, connections, closing)?);
                app
            }
        };
        let serving = tokio::spawn(app::serve(listener, app, connections, stopping)?);
        supervisor::ready();
        let reload = || {
            if let Some(read_again) = self.read_again {
                let settings = read_again();
                reloadable.reload(settings.as_ref().map(|settings| (&settings.access, settings.log_level)));
            }
        };
        let stopped_by = end_of_serving(&mut signals, reload).await;
        supervisor::stopping();
        if stopped_by == Signal::Terminate && self.drain > 0 {
            tracing::info!(seconds = self.drain, "draining");
            let _ = drain.send(true);
            let drained = time::sleep(Duration::from_secs(self.drain));
            tokio::select! {
                () = drained => {}
                _ = end_of_serving(&mut signals, || {}) => {}
            }
        }
        tracing::info!("stopping");
        let _ = stop.send(true);
        let mut over = pin!(async {
            let result = serving.await;
            // An upgraded connection is no request any more, so graceful shutdown does not wait for its session; this
            // loop does.
            while engine.load().sessions > 0 {
                time::sleep(Duration::from_millis(10)).await;
            }
            result
        });
        let grace = Duration::from_secs(self.grace);
        if let Ok(result) = time::timeout(grace, &mut over).await {
            return Ok(result?);
        }
        let _ = close.send(true);
        match time::timeout(LAST_WORDS, over).await {
            Ok(result) => Ok(result?),
            Err(_) => Ok(()),
        }
    }
}

fn bind(address: SocketAddr) -> Result<TcpListener, CommandError> {
    let listener = TcpListener::bind(address);
    let listener = listener.and_then(|listener| listener.set_nonblocking(true).map(|()| listener));
    listener.map_err(|error| format!("cannot listen on {address}: {error}").into())
}

/// Limit on the connections of one address: at most `most`, and a fourth of the files that the process may open. Raises
/// that limit of the process as far as possible.
fn connections_per_address(most: usize, sessions: usize) -> usize {
    #[cfg(unix)]
    match rlimit::increase_nofile_limit(u64::MAX) {
        Ok(files) => {
            if files < sessions as u64 {
                tracing::warn!(files, sessions, "the limit on open files is too low for --max-sessions connections");
            }
            let share = usize::try_from(files / 4).unwrap_or(usize::MAX).max(1);
            return most.min(share);
        }
        Err(error) => tracing::warn!(%error, "the limit on open files cannot be raised"),
    }
    most
}

/// Memory of this machine in bytes, if the operating system reports it.
fn memory() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?.trim().strip_suffix("kB")?;
    Some(total.trim().parse::<u64>().ok()? << 10)
}

impl Serve {
    /// Refuses KV caches larger than the machine's memory, since they would end the server with all its sessions.
    fn check_memory(&self) -> Result<(), CommandError> {
        match memory().filter(|&all| self.device == DeviceName::Cpu && self.kv_memory.as_u64() > all) {
            Some(all) => {
                Err(format!("--kv-memory {} is more than the {} that this machine has", self.kv_memory, ByteSize(all))
                    .into())
            }
            None => Ok(()),
        }
    }
}

fn announce(address: SocketAddr, is_encrypted: bool) {
    print(&format!("Outrider listens on http{}://{address}\n", if is_encrypted { "s" } else { "" }));
}

/// Waits for a signal that ends the server; others reload it.
async fn end_of_serving(signals: &mut Signals, reload: impl Fn()) -> Signal {
    loop {
        match signals.next().await {
            Signal::Reload => reload(),
            signal => return signal,
        }
    }
}
