//! `outrider serve`.

use std::{net::SocketAddr, num::NonZeroUsize, path::PathBuf, time::Duration};

use bytesize::ByteSize;
use clap::Args;
use outrider_codec::frame::MAX_DRAFT_TOKENS;
use tokio::{net::TcpListener, signal, sync::watch, time};

use super::{CommandError, log::LogFormat};
use crate::{
    app::{self, AppState},
    engine::{Engine, EngineSettings, LEAST_BATCH_ROWS},
    pair::{self, PairPaths},
    session::Limits,
    sessions::Sessions,
};

/// Serve the page, the draft model and verification sessions
#[derive(Debug, Args)]
pub struct Serve {
    /// Address to listen on; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8787")]
    listen: SocketAddr,
    /// Folder of the built page
    #[arg(long, value_name = "FOLDER", default_value = "web/dist")]
    web: PathBuf,
    #[command(flatten)]
    pair: PairPaths,
    /// Sessions at a time; an idle one costs some 20 KiB
    #[arg(long, value_name = "COUNT", default_value_t = 1024)]
    max_sessions: usize,
    /// Memory for keys and values of all sessions, such as 512MiB or 2GiB, 8 bytes x layers x key-value width a token.
    /// Where it is short, idle sessions lose theirs, least recently used first, and are read again on their return
    #[arg(long, value_name = "BYTES", default_value = "1GiB")]
    kv_memory: ByteSize,
    /// Most tokens in one run of the target, of all sessions together. Who shares a run never changes a session's text. Fewer
    /// rows answer sooner beside long prompts and many sessions, more rows get more done
    #[arg(long, value_name = "COUNT", default_value_t = EngineSettings::default().batch_rows as u64, value_parser = clap::value_parser!(u64).range(LEAST_BATCH_ROWS as u64..=65536))]
    batch_rows: u64,
    /// Most drafted tokens in a round
    #[arg(long, value_name = "COUNT", default_value_t = 16, value_parser = clap::value_parser!(u8).range(1..=i64::from(MAX_DRAFT_TOKENS)))]
    max_draft_tokens: u8,
    /// Threads that verify; one per processor if not given, or OUTRIDER_THREADS
    #[arg(long, value_name = "COUNT")]
    threads: Option<NonZeroUsize>,
    /// Seconds after which a silent session is closed
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    idle_timeout: u64,
    /// Seconds that a session waits, with its place, for a client that has lost the connection
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    detached_lifetime: u32,
    /// Seconds after which a session ends whatever it does; its client begins another by itself
    #[arg(long, value_name = "SECONDS", default_value_t = 12 * 3600)]
    session_lifetime: u32,
    /// How lines of the log look
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    log_format: LogFormat,
}

/// How long sessions may take to say goodbye when the server stops.
const FAREWELL: Duration = Duration::from_secs(5);

impl Serve {
    pub(super) fn log_format(&self) -> LogFormat {
        self.log_format
    }

    pub(super) async fn run(self) -> Result<(), CommandError> {
        if let Some(count) = self.threads {
            outrider_models::threads::set(count.get());
        }
        let tokenizer = self.pair.tokenizer()?;
        let target = self.pair.target()?;
        let mut info = pair::target_info(&target, &tokenizer, self.max_draft_tokens)?;
        let engine = Engine::start_with(
            target,
            EngineSettings {
                sessions: self.max_sessions,
                batch_rows: self.batch_rows as usize,
                kv_memory: self.kv_memory,
            },
        )?;
        let (context, longest) = (info.context_length, engine.longest_text() as u32);
        if longest < context {
            tracing::warn!(context, longest, "--kv-memory does not hold one text as long as the target's context");
            info.context_length = longest;
        }
        let (stop, stopping) = watch::channel(false);
        let state = AppState {
            engine,
            target: info,
            sessions: Sessions::default(),
            limits: Limits {
                idle: Duration::from_secs(self.idle_timeout),
                detached: Duration::from_secs(self.detached_lifetime.into()),
                lifetime: Duration::from_secs(self.session_lifetime.into()),
                ..Limits::default()
            },
            draft_gguf: self.pair.draft_gguf()?.into_owned().into(),
            tokenizer_json: self.pair.tokenizer_json()?.into_owned().into(),
            heads_safetensors: self.pair.heads_safetensors()?.map(|bytes| bytes.into_owned().into()),
            stopping: stopping.clone(),
        };
        let listener = TcpListener::bind(self.listen)
            .await
            .map_err(|error| format!("cannot listen on {}: {error}", self.listen))?;
        announce(listener.local_addr()?);
        let mut told = stopping.clone();
        let serving = app::serve(listener, app::app(state, self.web)).with_graceful_shutdown(async move {
            let _ = told.wait_for(|stopping| *stopping).await;
        });
        let serving = tokio::spawn(serving.into_future());
        asked_to_stop().await;
        tracing::info!("stopping");
        let _ = stop.send(true);
        match time::timeout(FAREWELL, serving).await {
            Ok(result) => Ok(result??),
            Err(_) => Ok(()),
        }
    }
}

#[expect(clippy::print_stdout, reason = "the address is what the command is run for")]
fn announce(address: SocketAddr) {
    println!("Outrider listens on http://{address}");
}

/// Resolves at Ctrl-C or, on Unix, SIGTERM.
async fn asked_to_stop() {
    let interrupted = async {
        // Without a handler for it the process just ends, which is what was asked for.
        let _ = signal::ctrl_c().await;
    };
    #[cfg(unix)]
    let terminated = async {
        match signal::unix::signal(signal::unix::SignalKind::terminate()) {
            Ok(mut terminate) => {
                terminate.recv().await;
            }
            Err(_) => std::future::pending().await,
        }
    };
    #[cfg(not(unix))]
    let terminated = std::future::pending::<()>();
    tokio::select! {
        () = interrupted => {}
        () = terminated => {}
    }
}
