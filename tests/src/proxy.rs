//! A TCP proxy that cuts its connections, or lets them go silent.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use outrider_speculation::sample::{End, Randomness};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

/// A proxy in front of a server. Each of its connections carries a number of bytes that is drawn from a seed, and then
/// ends, in the middle of a message or not.
#[derive(Debug, Clone)]
pub struct Proxy {
    /// Address of the session, `ws://…/session`.
    pub url: String,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    server: Mutex<SocketAddr>,
    chance: Mutex<Randomness>,
    /// Bytes that a connection bears on average.
    bytes: u32,
    cuts: AtomicUsize,
    opened: AtomicUsize,
    /// Number of the first connection that passes bytes on; those before it swallow them.
    first_open: AtomicUsize,
    /// Bytes to the client that the connections before it still pass on.
    allowance: AtomicUsize,
}

impl Proxy {
    /// Starts a proxy before the server at a `ws://` address.
    pub async fn before(url: &str, bytes: u32, seed: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = Self {
            url: format!("ws://{}/session", listener.local_addr().unwrap()),
            shared: Arc::new(Shared {
                server: Mutex::new(address(url)),
                chance: Mutex::new(Randomness::new(seed, End::Edge)),
                bytes,
                cuts: AtomicUsize::new(0),
                opened: AtomicUsize::new(0),
                first_open: AtomicUsize::new(0),
                allowance: AtomicUsize::new(0),
            }),
        };
        let shared = Arc::clone(&proxy.shared);
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                tokio::spawn(pass_on(near, Arc::clone(&shared)));
            }
        });
        proxy
    }

    /// Connections cut so far.
    pub fn cuts(&self) -> usize {
        self.shared.cuts.load(Ordering::Relaxed)
    }

    /// Swallows all bytes of the connections of now and of `more` later ones once `bytes` more have passed to the
    /// client, and closes none of them.
    pub fn swallow(&self, bytes: usize, more: usize) {
        self.shared.allowance.store(bytes, Ordering::Relaxed);
        let opened = self.shared.opened.load(Ordering::Relaxed);
        self.shared.first_open.store(opened + more, Ordering::Relaxed);
    }

    /// Connects later connections to another server.
    pub fn turn_to(&self, url: &str) {
        *self.shared.server.lock().unwrap() = address(url);
    }
}

fn address(url: &str) -> SocketAddr {
    url.trim_start_matches("ws://").trim_end_matches("/session").parse().unwrap()
}

async fn pass_on(mut near: TcpStream, shared: Arc<Shared>) {
    let number = shared.opened.fetch_add(1, Ordering::Relaxed);
    let server = *shared.server.lock().unwrap();
    let Ok(mut far) = TcpStream::connect(server).await else { return };
    near.set_nodelay(true).unwrap();
    far.set_nodelay(true).unwrap();
    let mut left = 1 + shared.chance.lock().unwrap().below(2 * shared.bytes) as usize;
    let (mut up, mut down) = ([0; 512], [0; 512]);
    let (mut near, mut far) = (near.split(), far.split());
    while left > 0 {
        let (bytes, to, downwards) = tokio::select! {
            read = near.0.read(&mut up) => (&up[..read.unwrap_or(0)], &mut far.1, false),
            read = far.0.read(&mut down) => (&down[..read.unwrap_or(0)], &mut near.1, true),
        };
        let mut borne = bytes.len().min(left);
        if borne > 0 && number < shared.first_open.load(Ordering::Relaxed) {
            let allowance = shared.allowance.load(Ordering::Relaxed);
            borne = borne.min(allowance);
            if downwards {
                shared.allowance.store(allowance - borne, Ordering::Relaxed);
            }
            if borne == 0 {
                continue;
            }
        }
        if borne == 0 || to.write_all(&bytes[..borne]).await.is_err() {
            return;
        }
        left -= borne;
    }
    shared.cuts.fetch_add(1, Ordering::Relaxed);
}
