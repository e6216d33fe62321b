//! All workers that guesses are told to.

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

/// Messages that wait for a worker; of more the oldest are dropped for it.
const WAITING: usize = 256;
/// How often names are looked up again: workers come and go behind them.
const LOOK_UP_AGAIN: Duration = Duration::from_secs(10);

/// How many workers take guesses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkerCounts {
    /// Those that are told.
    pub connected: i64,
    /// Those that cannot be reached, or not yet.
    pub connecting: i64,
    /// Those that refuse: the log says why.
    pub refused: i64,
}

/// The connections to all workers, as long as this is held.
#[derive(Debug)]
pub(in crate::target::gateway) struct Workers {
    channel: Channel,
    // They end with it.
    _tasks: JoinSet<()>,
}

impl Workers {
    /// Connects to workers, and goes on trying.
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

    /// Tells guesses to all workers. Waits for none.
    pub(in crate::target::gateway) fn offer(&self, offer: &Offer) {
        let messages = &self.channel.messages;
        if messages.receiver_count() > 0 {
            // Without anybody left nobody is told.
            let _ = messages.send(Arc::from(message::guesses(offer)));
        }
    }

    /// How many there are.
    pub(in crate::target::gateway) fn counts(&self) -> WorkerCounts {
        let count = |state| self.channel.metrics.workers_in(state).get();
        WorkerCounts { connected: count("connected"), connecting: count("connecting"), refused: count("refused") }
    }
}

/// Keeps all addresses of a name told. Never ends.
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
                    tracing::warn!(name, %error, "workers are not found by their name");
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

    /// A worker that reads nothing costs those who guess no time, and memory for the messages that wait.
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
        // It reads on: what comes last is the last that was offered, and the rest was dropped.
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
