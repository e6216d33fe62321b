//! Connection to one worker: handshake, sending of guesses, and reconnection when it is lost.

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use prometheus_client::metrics::gauge::Gauge;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
    sync::broadcast::{
        self,
        error::{RecvError, TryRecvError},
    },
    time,
};

use super::{
    message::{self, ANSWER_BYTES},
    refusal::{Lost, Refusal},
};
use crate::metrics::GatewayMetrics;

/// Time limit for connecting, for the worker's answer and for a write.
const LIMIT: Duration = Duration::from_secs(5);
/// First and longest pause before reconnecting. It doubles each time, and is multiplied by a random factor from 0.5 to
/// 1.5 so that gateways do not reconnect all at once.
const PAUSES: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(10)];
/// Limit on the bytes of messages that are written together.
const TOGETHER: usize = 32 * 1024;

/// Sender of the messages for all workers.
pub(super) type Messages = broadcast::Sender<Arc<[u8]>>;

/// Address of one worker.
#[derive(Debug, Clone)]
pub(super) enum Place {
    Unix(PathBuf),
    Tcp(SocketAddr),
}

/// Settings and messages that all connections to workers share.
#[derive(Debug, Clone)]
pub(super) struct Channel {
    pub(super) messages: Messages,
    pub(super) token: Arc<[u8]>,
    pub(super) vocab_size: u32,
    pub(super) metrics: GatewayMetrics,
}

/// Count of one worker in a state, which lasts as long as this value.
struct Standing(Gauge);

impl Standing {
    fn new(metrics: &GatewayMetrics, state: &'static str) -> Self {
        let gauge = metrics.workers_in(state);
        gauge.inc();
        Self(gauge)
    }
}

impl Drop for Standing {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// Keeps a worker connected. Never returns.
pub(super) async fn keep(place: Place, channel: Channel) {
    let mut pause = PAUSES[0];
    // Latest error that was logged for this worker.
    let mut told = String::new();
    let mut standing = Standing::new(&channel.metrics, "connecting");
    loop {
        let lost = connect(&place, &channel, &mut standing, &mut told, &mut pause).await;
        let state = if lost.is_refusal() { "refused" } else { "connecting" };
        standing = Standing::new(&channel.metrics, state);
        let said = lost.to_string();
        if said != told {
            tracing::warn!(?place, error = said, "a worker gets no guesses");
            told = said;
        }
        time::sleep(jittered(pause)).await;
        pause = (2 * pause).min(PAUSES[1]);
    }
}

/// Connects to a worker and sends it messages until the connection is lost.
async fn connect(
    place: &Place,
    channel: &Channel,
    standing: &mut Standing,
    told: &mut String,
    pause: &mut Duration,
) -> Lost {
    let welcomed = |guesses: u16, standing: &mut Standing| {
        tracing::info!(?place, guesses, "a worker takes guesses");
        *standing = Standing::new(&channel.metrics, "connected");
        told.clear();
        *pause = PAUSES[0];
    };
    match place {
        #[cfg(unix)]
        Place::Unix(path) => match within("connecting", tokio::net::UnixStream::connect(path)).await {
            Ok(stream) => tell(stream, channel, standing, welcomed).await,
            Err(lost) => lost,
        },
        #[cfg(not(unix))]
        Place::Unix(_) => Lost::Failed(std::io::ErrorKind::Unsupported.into()),
        Place::Tcp(address) => match within("connecting", TcpStream::connect(address)).await {
            Ok(stream) => match stream.set_nodelay(true) {
                Ok(()) => tell(stream, channel, standing, welcomed).await,
                Err(error) => Lost::Failed(error),
            },
            Err(lost) => lost,
        },
    }
}

/// Performs the handshake over a connection, then sends all messages that come.
async fn tell<S: AsyncRead + AsyncWrite>(
    stream: S,
    channel: &Channel,
    standing: &mut Standing,
    welcomed: impl FnOnce(u16, &mut Standing),
) -> Lost {
    let (mut from, mut to) = tokio::io::split(stream);
    let greeting = async {
        to.write_all(&message::greeting(&channel.token)).await?;
        let mut answer = [0; ANSWER_BYTES];
        from.read_exact(&mut answer).await.map(|_| answer)
    };
    let answer = match within("the handshake", greeting).await {
        Ok(answer) => answer,
        Err(lost) => return lost,
    };
    match message::read_answer(&answer, channel.vocab_size) {
        Ok(guesses) => welcomed(guesses, standing),
        Err(refusal) => return refusal.into(),
    }
    let mut messages = channel.messages.subscribe();
    let mut nothing = [0];
    loop {
        let first = tokio::select! {
            first = messages.recv() => first,
            read = from.read(&mut nothing) => return match read {
                Ok(0) => Lost::Closed,
                // A proposer sends nothing after its answer.
                Ok(_) => Refusal::NoProposer.into(),
                Err(error) => error.into(),
            },
        };
        let (mut together, mut count) = match first {
            Ok(message) => (message.to_vec(), 1),
            Err(RecvError::Lagged(dropped)) => {
                channel.metrics.guesses_dropped.inc_by(dropped);
                continue;
            }
            Err(RecvError::Closed) => return Lost::Closed,
        };
        while together.len() < TOGETHER {
            match messages.try_recv() {
                Ok(message) => {
                    together.extend_from_slice(&message);
                    count += 1;
                }
                Err(TryRecvError::Lagged(dropped)) => {
                    channel.metrics.guesses_dropped.inc_by(dropped);
                }
                Err(TryRecvError::Empty | TryRecvError::Closed) => break,
            }
        }
        if let Err(lost) = within("a write", to.write_all(&together)).await {
            return lost;
        }
        channel.metrics.guesses_sent.inc_by(count);
    }
}

async fn within<T>(what: &'static str, step: impl Future<Output = std::io::Result<T>>) -> Result<T, Lost> {
    Ok(time::timeout(LIMIT, step).await.map_err(|_| Lost::Slow(what))??)
}

fn jittered(pause: Duration) -> Duration {
    // Without randomness there is no jitter.
    let drawn = getrandom::u32().unwrap_or(u32::MAX / 2);
    pause.mul_f64(0.5 + f64::from(drawn) / f64::from(u32::MAX))
}
