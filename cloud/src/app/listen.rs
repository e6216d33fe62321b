//! Connections: limits per address, time limits, and graceful shutdown.
//!
//! This is hyper's HTTP/1.1 connection, without detection of the version. A session has a connection of its own anyway,
//! and hyper's detection has no time limit for a silent peer.

use std::{
    convert::Infallible,
    future::Future,
    io,
    net::SocketAddr,
    pin::pin,
    time::{Duration, Instant},
};

use axum::{Router, body::Body, extract::ConnectInfo, http::Request};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::{mpsc, watch},
    time,
};
use tokio_rustls::TlsAcceptor;
use tower_service::Service;

use super::tls::Tls;
use crate::{
    address_limits::{AddressLimits, AddressPermit},
    http::Proxies,
    log_limits::client_event,
};

/// Settings of all connections.
#[derive(Debug, Clone)]
pub struct Connections {
    /// TLS configuration; connections are encrypted if it is given.
    pub tls: Option<Tls>,
    /// Time limit for the TLS handshake, and then for the head of each request.
    pub head: Duration,
    /// Connections of one address at a time, without those that have become sessions; 0 is no limit.
    pub per_address: usize,
    /// Proxies, which may have any number of connections.
    pub proxies: Proxies,
}

/// Limit on the head of a request, in bytes with its first line. A longer head is answered with 431.
const LONGEST_HEAD: usize = 32 << 10;
/// Pause after an error that may pass, such as too many open files.
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);
/// Least time between two lines of the log about such errors.
const COMPLAIN_AGAIN: Duration = Duration::from_secs(10);

/// Serves the routes on a non-blocking listener until `closing` is true. The future completes when the requests under
/// way are finished.
///
/// # Errors
/// If the listener cannot be registered with the runtime.
pub fn serve(
    listener: std::net::TcpListener,
    app: Router,
    connections: Connections,
    mut closing: watch::Receiver<bool>,
) -> io::Result<impl Future<Output = ()> + Send> {
    let listener = TcpListener::from_std(listener)?;
    let limits = AddressLimits::new(connections.per_address);
    let tls = connections.tls;
    Ok(async move {
        let (under_way, mut all_over) = mpsc::channel::<Infallible>(1);
        let mut complained: Option<Instant> = None;
        loop {
            let (stream, peer) = tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok(accepted) => accepted,
                    // The peer has closed the connection again.
                    Err(error) if is_the_peers(&error) => continue,
                    Err(error) => {
                        if complained.is_none_or(|last| last.elapsed() > COMPLAIN_AGAIN) {
                            tracing::error!(%error, "no connection can be accepted for now");
                            complained = Some(Instant::now());
                        }
                        time::sleep(ACCEPT_AGAIN).await;
                        continue;
                    }
                },
                () = closed(&mut closing) => break,
            };
            let permit = if connections.proxies.include(peer.ip()) {
                None
            } else if let Some(permit) = limits.take(peer.ip()) {
                Some(permit)
            } else {
                client_event!(DEBUG, peer.ip(), "refused a connection: its address has enough", %peer);
                continue;
            };
            let (app, tls, under_way) = (app.clone(), tls.as_ref().map(Tls::acceptor), under_way.clone());
            let connection = Connection { peer, head: connections.head, closing: closing.clone(), _permit: permit };
            tokio::spawn(async move {
                connection.begin(stream, app, tls).await;
                drop(under_way);
            });
        }
        // Later clients are refused at once, and another server may listen here.
        drop(listener);
        drop(under_way);
        all_over.recv().await;
    })
}

fn is_the_peers(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// Waits until the server is to end, or the sender of that signal is gone.
async fn closed(closing: &mut watch::Receiver<bool>) {
    let _ = closing.wait_for(|closing| *closing).await;
}

/// State of one connection.
struct Connection {
    peer: SocketAddr,
    head: Duration,
    closing: watch::Receiver<bool>,
    _permit: Option<AddressPermit>,
}

impl Connection {
    async fn begin(self, stream: TcpStream, app: Router, tls: Option<TlsAcceptor>) {
        // Disables Nagle's algorithm: both ends wait for every frame, so a frame must not wait for the acknowledgement
        // of the one before (40 ms a round with delayed acknowledgements). If this fails, the connection is served more
        // slowly.
        let _ = stream.set_nodelay(true);
        let Some(tls) = tls else { return self.serve(stream, app).await };
        match time::timeout(self.head, tls.accept(stream)).await {
            Ok(Ok(stream)) => self.serve(stream, app).await,
            Ok(Err(error)) => client_event!(DEBUG, self.peer.ip(), "no TLS", peer = %self.peer, %error),
            Err(_) => client_event!(DEBUG, self.peer.ip(), "no TLS in time", peer = %self.peer),
        }
    }

    async fn serve(mut self, stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static, app: Router) {
        let peer = self.peer;
        let service = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(ConnectInfo(peer));
            app.clone().call(request.map(Body::new))
        });
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(self.head).max_header_size(LONGEST_HEAD);
        let mut connection = pin!(http.serve_connection(TokioIo::new(stream), service).with_upgrades());
        tokio::select! {
            // An error here is the peer's, and needs no action.
            _ = connection.as_mut() => return,
            () = closed(&mut self.closing) => {}
        }
        connection.as_mut().graceful_shutdown();
        let _ = connection.await;
    }
}
