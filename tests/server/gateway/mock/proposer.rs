//! A proposer, as the engine's worker has one: it listens, and keeps the guesses that it receives for the engine.

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, UnixListener},
    task::JoinHandle,
};

const TAIL: usize = 16;

/// Behaviour of a proposer.
#[derive(Debug, Clone, Copy)]
pub struct Manner {
    /// The version that it speaks.
    pub version: u16,
    /// Size of its vocabulary.
    pub vocab_size: u32,
    /// Messages after which it closes each connection.
    pub closes_after: usize,
    /// True if it reads what comes after the handshake.
    pub reads: bool,
}

impl Default for Manner {
    fn default() -> Self {
        Self { version: 1, vocab_size: 0, closes_after: usize::MAX, reads: true }
    }
}

/// A text's number of tokens, and its last ones.
type Follows = (usize, Vec<u32>);

/// Guesses received, by the text that they follow.
#[derive(Debug, Default)]
pub struct Store {
    guesses: Mutex<HashMap<Follows, Vec<u32>>>,
    /// Messages of guesses.
    pub messages: AtomicUsize,
    /// Connections that were closed after their number of messages.
    pub closed: AtomicUsize,
}

impl Store {
    /// The guesses after a text, at most `most`.
    pub fn propose(&self, text: &[u32], most: usize) -> Vec<u32> {
        let guesses = self.guesses.lock().unwrap();
        let mut known = text.to_vec();
        while known.len() < text.len() + most {
            let key = (known.len(), known[known.len().saturating_sub(TAIL)..].to_vec());
            let Some(ids) = guesses.get(&key) else { break };
            known.extend(ids);
        }
        known.truncate(text.len() + most);
        known.split_off(text.len())
    }

    fn keep(&self, body: &[u8]) {
        let mut at = 0;
        let mut take = |count: usize| {
            let bytes = body[at..at + count].to_vec();
            at += count;
            bytes
        };
        let number = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().unwrap());
        assert_eq!(take(1), [1], "guesses are all that comes");
        let position = number(&take(4)) as usize;
        let mut list = || -> Vec<u32> {
            let count = usize::from(take(1)[0]);
            take(4 * count).chunks(4).map(number).collect()
        };
        let (tail, ids) = (list(), list());
        assert_eq!((tail.len(), at), (position.min(TAIL), body.len()));
        assert!((1..=32).contains(&ids.len()));
        let known = [tail, ids].concat();
        let first = position.min(TAIL);
        let mut guesses = self.guesses.lock().unwrap();
        for index in first..known.len() {
            let key = (position + index - first, known[index.saturating_sub(TAIL)..index].to_vec());
            let rest = &known[index..];
            let kept = guesses.entry(key).or_insert_with(|| rest.to_vec());
            if rest.starts_with(kept) {
                *kept = rest.to_vec();
            }
        }
        self.messages.fetch_add(1, Ordering::Relaxed);
    }
}

/// A proposer that listens, until dropped.
pub struct Proposer {
    /// Address of the proposer, in the form of `--guesses-to`.
    pub address: String,
    /// Guesses that it has received.
    pub store: Arc<Store>,
    listening: JoinHandle<()>,
}

impl Drop for Proposer {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

impl Proposer {
    /// Starts one on a Unix socket.
    pub fn on_socket(path: PathBuf, manner: Manner) -> Self {
        let _ = std::fs::remove_file(&path);
        let (listener, store) = (UnixListener::bind(&path).unwrap(), Arc::new(Store::default()));
        let (address, kept) = (format!("unix:{}", path.display()), Arc::clone(&store));
        let listening = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&kept), manner, b""));
            }
        });
        Self { address, store, listening }
    }

    /// Starts one on a port, for clients that know the token.
    pub async fn on_port(token: &'static [u8], manner: Manner) -> Self {
        let (listener, store) = (TcpListener::bind("127.0.0.1:0").await.unwrap(), Arc::new(Store::default()));
        let (address, kept) = (format!("tcp:{}", listener.local_addr().unwrap()), Arc::clone(&store));
        let listening = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&kept), manner, token));
            }
        });
        Self { address, store, listening }
    }
}

async fn serve<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S, store: Arc<Store>, manner: Manner, token: &[u8]) {
    let Some(greeting) = message(&mut stream).await else { return };
    assert_eq!(&greeting[..8], b"OUTRIDER");
    let status = if greeting[8..10] != manner.version.to_le_bytes() {
        1u8
    } else if greeting[12..] != *token {
        2
    } else {
        0
    };
    assert_eq!(greeting[10..12], ((greeting.len() - 12) as u16).to_le_bytes());
    let mut answer = vec![9, 0, 0, 0, status];
    answer.extend(manner.version.to_le_bytes());
    answer.extend(8u16.to_le_bytes());
    answer.extend(manner.vocab_size.to_le_bytes());
    if stream.write_all(&answer).await.is_err() || status != 0 {
        return;
    }
    if !manner.reads {
        std::future::pending::<()>().await;
    }
    for _ in 0..manner.closes_after {
        let Some(body) = message(&mut stream).await else { return };
        store.keep(&body);
    }
    store.closed.fetch_add(1, Ordering::Relaxed);
}

async fn message<S: AsyncRead + Unpin>(stream: &mut S) -> Option<Vec<u8>> {
    let length = stream.read_u32_le().await.ok()?;
    assert!(length <= 4096, "no message is that long");
    let mut body = vec![0; length as usize];
    stream.read_exact(&mut body).await.ok()?;
    Some(body)
}
