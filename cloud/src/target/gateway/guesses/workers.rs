//! Connections to all workers that take guesses.

use std::{
    collections::{HashMap, HashSet},
    net::SocketAddr,
    sync::Arc,
    time::Duration,
};

use outrider_speculation::session::cloud::Offer;
use tokio::{
    net::lookup_host,
    sync::broadcast,
    task::{AbortHandle, JoinSet},
    time,
};

use super::{
    address::WorkerAddress,
    message,
    worker::{Channel, Place, keep},
};
use crate::metrics::GatewayMetrics;

/// Capacity of a worker's queue, in messages. When it is full the oldest are dropped.
const WAITING: usize = 256;
/// Interval between look-ups of a name, whose workers come and go.
const LOOK_UP_AGAIN: Duration = Duration::from_secs(10);

/// Number of workers in each state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkerCounts {
    /// Workers that receive guesses.
    pub connected: i64,
    /// Workers that cannot be reached, or not yet.
    pub connecting: i64,
    /// Workers that refuse guesses; the log has the reasons.
    pub refused: i64,
}

/// Connections to all workers, which last as long as this value.
#[derive(Debug)]
pub(in crate::target::gateway) struct Workers {
    channel: Channel,
    // Dropping the set aborts its tasks.
    _tasks: JoinSet<()>,
}

impl Workers {
    /// Connects to workers, and reconnects whenever a connection is lost.
    pub(in crate::target::gateway) fn connect(
        addresses: &[WorkerAddress],
        token: Vec<u8>,
        vocab_size: u32,
        metrics: &GatewayMetrics,
    ) -> Self {
        let (messages, _) = broadcast::channel(WAITING);
        let channel = Channel { messages, token: Arc::from([]), vocab_size, metrics: metrics.clone() };
        let remote = Channel { token: token.into(), ..channel.clone() };
        let mut tasks = JoinSet::new();
        for address in addresses {
            match address {
                WorkerAddress::Unix(path) => tasks.spawn(keep(Place::Unix(path.clone()), channel.clone())),
                WorkerAddress::Tcp(name) => tasks.spawn(follow(name.clone(), remote.clone())),
            };
        }
        Self { channel, _tasks: tasks }
    }

    /// Sends guesses to all workers, without waiting for any.
    pub(in crate::target::gateway) fn offer(&self, offer: &Offer) {
        let messages = &self.channel.messages;
        if messages.receiver_count() > 0 {
            // Sending fails only if the last receiver has gone meanwhile.
            let _ = messages.send(Arc::from(message::guesses(offer)));
        }
    }

    /// Number of workers in each state, now.
    pub(in crate::target::gateway) fn counts(&self) -> WorkerCounts {
        let count = |state| self.channel.metrics.workers_in(state).get();
        WorkerCounts { connected: count("connected"), connecting: count("connecting"), refused: count("refused") }
    }
}

/// Keeps a connection to every address of a name. Never returns.
async fn follow(name: String, channel: Channel) {
    let mut tasks = JoinSet::new();
    let mut known: HashMap<SocketAddr, AbortHandle> = HashMap::new();
    let mut is_found = true;
    loop {
        match lookup_host(&name).await {
            Ok(found) => {
                let found: HashSet<SocketAddr> = found.collect();
                known.retain(|address, task| {
                    let stays = found.contains(address);
                    if !stays {
                        task.abort();
                    }
                    stays
                });
                for address in found {
                    let task = || tasks.spawn(keep(Place::Tcp(address), channel.clone()));
                    known.entry(address).or_insert_with(task);
                }
                is_found = true;
            }
            Err(error) => {
                if is_found {
                    tracing::warn!(name, %error, "the workers' name cannot be resolved");
                }
                is_found = false;
            }
        }
        while tasks.try_join_next().is_some() {}
        time::sleep(LOOK_UP_AGAIN).await;
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::time::Instant;

    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::UnixListener,
    };

    use super::*;
    use crate::metrics::{EngineLimits, Metrics};

    /// A worker that reads nothing delays no session, and costs the memory of the queued messages.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_worker_that_does_not_read_is_told_the_latest_and_nobody_waits() {
        let path = std::env::temp_dir().join(format!("outrider-{}-unread.sock", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path).unwrap();
        let metrics = Metrics::new(EngineLimits::default(), "none", "none");
        let address = format!("unix:{}", path.display()).parse().unwrap();
        let workers = Workers::connect(&[address], b"unused".to_vec(), 100, &metrics.gateway);
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut greeting = [0; 16];
        stream.read_exact(&mut greeting).await.unwrap();
        assert_eq!(&greeting, b"\x0c\0\0\0OUTRIDER\x01\0\0\0");
        stream.write_all(b"\x09\0\0\0\0\x01\0\x08\0\0\0\0\0").await.unwrap();
        while workers.channel.messages.receiver_count() == 0 {
            time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(workers.counts(), WorkerCounts { connected: 1, connecting: 0, refused: 0 });
        let offer = |position| Offer { position, tail: vec![1; 16], ids: vec![2; 32] };
        let began = Instant::now();
        (16..20_016).for_each(|position| workers.offer(&offer(position)));
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
        // When it reads on, it gets the latest message last; earlier ones were dropped.
        let message = message::guesses(&offer(20_015));
        let mut all = Vec::new();
        while !all.ends_with(&message) {
            stream.read_buf(&mut all).await.unwrap();
        }
        let came = all.len() / message.len();
        let dropped = metrics.gateway.guesses_dropped.get();
        assert_eq!((all.len() % message.len(), came as u64 + dropped), (0, 20_000));
        assert!(dropped > 10_000, "{dropped}");
        drop(workers);
        assert_eq!(stream.read(&mut greeting).await.unwrap(), 0, "the connection ends with who held it");
    }
}
