//! The emulated link: a relay of TCP connections whose bytes arrive later, the same for every kind of client.
//!
//! It has a delay and no limit of rate. A connection is accepted at once: only what is sent over it takes time. The
//! runtime's timers are up to a millisecond late.

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    task::JoinHandle,
    time::{self, Instant},
};

use crate::passes::Failure;

/// Bytes read at a time.
const PIECE: usize = 16 * 1024;

/// A relay in front of servers that take turns, connection by connection; until dropped.
pub struct Link {
    address: String,
    accepting: JoinHandle<()>,
}

impl Link {
    pub async fn start(servers: Vec<String>, one_way: Duration) -> Result<Self, Failure> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?.to_string();
        let accepting = tokio::spawn(async move {
            for server in servers.iter().cycle() {
                let Ok((near, _)) = listener.accept().await else { return };
                let server = server.clone();
                tokio::spawn(async move {
                    // A server that is not there ends the connection.
                    let Ok(far) = TcpStream::connect(server).await else { return };
                    if near.set_nodelay(true).is_err() || far.set_nodelay(true).is_err() {
                        return;
                    }
                    let ((near_from, near_to), (far_from, far_to)) = (near.into_split(), far.into_split());
                    // Whichever end goes first takes the other with it, as a lost connection does.
                    tokio::select! {
                        () = pass_on(near_from, far_to, one_way) => {}
                        () = pass_on(far_from, near_to, one_way) => {}
                    }
                });
            }
        });
        Ok(Self { address, accepting })
    }

    pub fn address(&self) -> &str {
        &self.address
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Passes on one direction, until its source has ended and its last byte has arrived.
async fn pass_on(mut from: tokio::net::tcp::OwnedReadHalf, mut to: tokio::net::tcp::OwnedWriteHalf, one_way: Duration) {
    let (on_link, mut under_way) = mpsc::unbounded_channel::<(Instant, Vec<u8>)>();
    let read = async move {
        let mut piece = vec![0; PIECE];
        while let Ok(count @ 1..) = from.read(&mut piece).await {
            if on_link.send((Instant::now() + one_way, piece[..count].to_vec())).is_err() {
                return;
            }
        }
    };
    let write = async move {
        while let Some((due, bytes)) = under_way.recv().await {
            if !one_way.is_zero() {
                time::sleep_until(due).await;
            }
            if to.write_all(&bytes).await.is_err() {
                return;
            }
        }
    };
    tokio::join!(read, write);
}
