//! Connections: how many an address may have, how long one may say nothing, and how they end.
//!
//! hyper's own loop over HTTP/1.1 and nothing that is told apart first: a session is a connection of its own anyway,
//! and what waits for the version of a silent peer has no time limit.

use std::{
    convert::Infallible,
    future::Future,
    io,
    net::SocketAddr,
    pin::pin,
    sync::Arc,
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

use crate::{
    address_limits::{AddressLimits, AddressPermit},
    http::Proxies,
    log_limits::client_event,
};

/// Bounds on connections.
#[derive(Debug, Clone)]
pub struct Connections {
    /// Encrypts them, if given.
    pub tls: Option<Arc<rustls::ServerConfig>>,
    /// How long the handshake of TLS may take, and then the head of each request, from when it could have begun.
    pub head: Duration,
    /// From one address at a time, those that have become sessions not counted; 0 is no limit.
    pub per_address: usize,
    /// Who may have any number.
    pub proxies: Proxies,
}

/// Bytes that the head of a request may have, its first line included. A longer one is answered with 431.
const LONGEST_HEAD: usize = 32 << 10;
/// After an error that more time may mend, such as too many open files.
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);
/// Between two lines of the log about them.
const COMPLAIN_AGAIN: Duration = Duration::from_secs(10);

/// Serves the routes on a listener that does not block until `closing` is true, and then what is under way to its end.
///
/// # Errors
/// If the listener is of no use.
pub fn serve(
    listener: std::net::TcpListener,
    app: Router,
    connections: Connections,
    mut closing: watch::Receiver<bool>,
) -> io::Result<impl Future<Output = ()> + Send> {
    let listener = TcpListener::from_std(listener)?;
    let limits = AddressLimits::new(connections.per_address);
    let tls = connections.tls.map(TlsAcceptor::from);
    Ok(async move {
        let (under_way, mut all_over) = mpsc::channel::<Infallible>(1);
        let mut complained: Option<Instant> = None;
        loop {
            let (stream, peer) = tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok(accepted) => accepted,
                    // Of a peer that has gone again.
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
            let (app, tls, under_way) = (app.clone(), tls.clone(), under_way.clone());
            let connection = Connection { peer, head: connections.head, closing: closing.clone(), _permit: permit };
            tokio::spawn(async move {
                connection.begin(stream, app, tls).await;
                drop(under_way);
            });
        }
        drop(under_way);
        all_over.recv().await;
    })
}

fn is_the_peers(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// Until the server is to end; whoever would say so having gone is as good.
async fn closed(closing: &mut watch::Receiver<bool>) {
    let _ = closing.wait_for(|closing| *closing).await;
}

/// One connection.
struct Connection {
    peer: SocketAddr,
    head: Duration,
    closing: watch::Receiver<bool>,
    _permit: Option<AddressPermit>,
}

impl Connection {
    async fn begin(self, stream: TcpStream, app: Router, tls: Option<TlsAcceptor>) {
        // Every frame is waited for at the other end, so none may wait for the acknowledgement of the one before
        // (Nagle's algorithm, 40 ms a round with delayed acknowledgements). Slower, it is served all the same.
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
            // How it ended is the peer's affair.
            _ = connection.as_mut() => return,
            () = closed(&mut self.closing) => {}
        }
        connection.as_mut().graceful_shutdown();
        let _ = connection.await;
    }
}
