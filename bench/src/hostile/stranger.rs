//! Connections from an address of one's choice on this machine.

use std::{
    collections::BTreeMap,
    fmt,
    net::{Ipv4Addr, SocketAddr},
};

use futures_util::{SinkExt, StreamExt};
use outrider_cloud::pair::{PairPaths, draft_info};
use outrider_codec::frame::{Frame, Hello};
use serde::Serialize;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
};
use tokio_tungstenite::{WebSocketStream, tungstenite::Message};

use crate::passes::Failure;

/// Address from which strangers attack.
const ATTACKER: [u8; 4] = [127, 0, 0, 2];

/// Counts of answers and events, by name.
#[derive(Debug, Default, Clone, Serialize)]
pub struct Tally(BTreeMap<String, usize>);

impl Tally {
    pub fn count(&mut self, what: impl Into<String>) {
        *self.0.entry(what.into()).or_default() += 1;
    }

    pub fn add(&mut self, other: Self) {
        for (what, count) in other.0 {
            *self.0.entry(what).or_default() += count;
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seen: Vec<String> = self.0.iter().map(|(what, count)| format!("{count} {what}")).collect();
        f.write_str(&seen.join(", "))
    }
}

/// A client at an address.
#[derive(Debug, Clone)]
pub struct Stranger {
    from: SocketAddr,
    to: SocketAddr,
}

/// A WebSocket of a stranger.
pub type Session = WebSocketStream<TcpStream>;

impl Stranger {
    pub fn new(from: [u8; 4], to: &str) -> Result<Self, Failure> {
        Ok(Self { from: (Ipv4Addr::from(from), 0).into(), to: to.parse()? })
    }

    pub fn attacking(to: &str) -> Result<Self, Failure> {
        Self::new(ATTACKER, to)
    }

    pub async fn connect(&self) -> Result<TcpStream, Failure> {
        let socket = TcpSocket::new_v4()?;
        // Thousands of connections a minute wait for their last packets; each has a port.
        socket.set_reuseaddr(true)?;
        socket.bind(self.from)?;
        let stream = socket.connect(self.to).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    /// Sends a request and returns the status of the answer.
    pub async fn ask(&self, method: &str, path: &str, body: &[u8]) -> Result<String, Failure> {
        self.ask_with(method, path, "", body).await
    }

    /// Sends a request with more header lines and returns the status of the answer.
    pub async fn ask_with(&self, method: &str, path: &str, headers: &str, body: &[u8]) -> Result<String, Failure> {
        let mut stream = self.connect().await?;
        let mut head = self.head(method, path, body.len());
        // Before the empty line that ends the head.
        head.splice(head.len() - 2..head.len() - 2, headers.bytes());
        // Refused before all of it is out: the answer is there all the same.
        let _ = stream.write_all(&head).await;
        let _ = stream.write_all(body).await;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        let status = answer.strip_prefix(b"HTTP/1.1 ").and_then(|rest| rest.get(..3));
        Ok(status.map_or_else(|| "no answer".to_owned(), |status| String::from_utf8_lossy(status).into_owned()))
    }

    /// Head of a request that has a body of `length` bytes.
    pub fn head(&self, method: &str, path: &str, length: usize) -> Vec<u8> {
        let host = self.to;
        format!(
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Type: application/json\r\n\
             Content-Length: {length}\r\n\r\n"
        )
        .into_bytes()
    }

    /// Opens a session with a Hello; returns it and the name of the answer.
    pub async fn greeted(&self) -> Result<(Session, String), Failure> {
        let stream = self.connect().await?;
        let (mut session, _) = tokio_tungstenite::client_async(format!("ws://{}/session", self.to), stream).await?;
        session.send(Message::Binary(hello()?.into())).await?;
        let answer = receive(&mut session).await;
        Ok((session, answer.map_or_else(|| "closed".to_owned(), |frame| name(&frame))))
    }
}

/// The next frame, unless the session has ended.
pub async fn receive(session: &mut Session) -> Option<Frame> {
    loop {
        match session.next().await? {
            Ok(Message::Binary(bytes)) => return Frame::decode(&bytes).ok(),
            Ok(Message::Ping(_) | Message::Pong(_)) => {}
            _ => return None,
        }
    }
}

/// Name of a frame in tallies; of an error, its code.
pub fn name(frame: &Frame) -> String {
    match frame {
        Frame::Error(error) => error.code.name().to_owned(),
        frame => frame.name().to_owned(),
    }
}

fn hello() -> Result<Vec<u8>, Failure> {
    use std::sync::LazyLock;
    static HELLO: LazyLock<Result<Vec<u8>, String>> = LazyLock::new(|| {
        let pair = PairPaths::default();
        let (draft, tokenizer) = (pair.draft().map_err(text)?, pair.tokenizer().map_err(text)?);
        let info = draft_info(&draft, &tokenizer).map_err(text)?;
        Ok(Frame::Hello(Hello { vocab_size: info.vocab_size, tokenizer_hash: info.tokenizer_hash }).encode())
    });
    HELLO.clone().map_err(Into::into)
}

fn text(error: impl ToString) -> String {
    error.to_string()
}
