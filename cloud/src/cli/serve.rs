//! `outrider serve`.

use std::{net::SocketAddr, num::NonZeroUsize, path::PathBuf, time::Duration};

use clap::Args;
use outrider_codec::frame::MAX_DRAFT_TOKENS;
use outrider_models::Tokenizer;
use outrider_speculation::cloud::TargetInfo;
use tokio::{net::TcpListener, signal, sync::watch, time};

use super::CommandError;
use crate::{
    app::{self, AppState},
    engine::Engine,
    gateway::{EngineArgs, GatewayError},
    pair::{self, PairPaths},
    session::Limits,
    target::Target,
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
    #[command(flatten)]
    engine: EngineArgs,
    /// Sessions at a time; each holds a cache of up to 8 bytes x layers x key-value width x context
    #[arg(long, value_name = "COUNT", default_value_t = 64)]
    max_sessions: usize,
    /// Most drafted tokens in a round
    #[arg(long, value_name = "COUNT", default_value_t = 16, value_parser = clap::value_parser!(u8).range(1..=i64::from(MAX_DRAFT_TOKENS)))]
    max_draft_tokens: u8,
    /// Threads that verify; one per processor if not given, or OUTRIDER_THREADS
    #[arg(long, value_name = "COUNT")]
    threads: Option<NonZeroUsize>,
    /// Seconds after which a silent session is closed
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    idle_timeout: u64,
}

/// How long sessions may take to say goodbye when the server stops.
const FAREWELL: Duration = Duration::from_secs(5);

impl Serve {
    pub(super) async fn run(self) -> Result<(), CommandError> {
        if let Some(count) = self.threads {
            outrider_models::threads::set(count.get());
        }
        let tokenizer = self.pair.tokenizer()?;
        let (target, info) = self.target(&tokenizer).await?;
        let (stop, stopping) = watch::channel(false);
        let state = AppState {
            engine: target,
            target: info,
            limits: Limits { idle: Duration::from_secs(self.idle_timeout), ..Limits::default() },
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

impl Serve {
    async fn target(&self, tokenizer: &Tokenizer) -> Result<(Target, TargetInfo), CommandError> {
        if let Some(address) = self.pair.engine_address() {
            if self.pair.tokenizer.is_none() {
                return Err(GatewayError::NoTokenizer.into());
            }
            // The draft has the same vocabulary, and the same tokens end a text.
            let info = pair::target_info(&self.pair.draft()?, tokenizer, self.max_draft_tokens)?;
            let (gateway, info) = self.engine.connect(address, tokenizer, info, self.max_sessions).await?;
            return Ok((Target::Gateway(gateway), info));
        }
        let target = self.pair.target()?;
        let info = pair::target_info(&target, tokenizer, self.max_draft_tokens)?;
        Ok((Engine::start(target, self.max_sessions)?.into(), info))
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
