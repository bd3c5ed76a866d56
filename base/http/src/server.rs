//! Serving a bound port: the accept loop, one task per connection, and the drain.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use http::{Request, StatusCode};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use pilothouse_pki::Certificate;
use pilothouse_runtime::{Clock, OnExit, TaskError, Tasks, accept_failed};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, BufReader};
use tokio::net::TcpStream;
use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;
use tracing::{debug, info, warn};

use crate::callers::{Peer, PeerIdentity};
use crate::exposure::Exposure;
use crate::listener::{Limits, Listener};
use crate::metrics::{Metrics, RefusedReason};
use crate::problem::Problem;

/// How much of a connection is read to see that there is something. Little, so that what follows is read directly.
const FIRST_WORD: usize = 64;

/// What connections share.
struct Shared {
    name: String,
    app: Router,
    exposure: Exposure,
    tls: bool,
    /// By which peers' certificates end; nobody has any without TLS.
    clock: Option<Clock>,
    limits: Limits,
    metrics: Metrics,
    tasks: Tasks,
    builder: Builder<TokioExecutor>,
    /// Cancelled when the time to drain is over.
    cut: CancellationToken,
}

impl Listener {
    /// Answers connections with `app` until shutdown, then drains and returns. Run it as a task that stops the process.
    ///
    /// At shutdown nothing more is accepted, but what already waits in the kernel's queue is: those peers believe they are
    /// connected. Connections that are idle are closed, others after their present request; one that has not said anything
    /// yet may still do so within [`Limits::silence`]. After [`Limits::drain`] the rest is cut.
    ///
    /// # Errors
    ///
    /// When the socket itself fails. Failures of single connections are theirs alone.
    pub async fn serve(self, app: Router, metrics: Metrics, tasks: &Tasks) -> Result<(), TaskError> {
        let Self { name, socket, local_address, exposure, certificates, limits } = self;
        let capacity = Arc::new(Semaphore::new(limits.connections as usize));
        let shared = Arc::new(Shared {
            name,
            app,
            exposure,
            tls: certificates.is_some(),
            clock: certificates.as_ref().map(|source| source.clock().clone()),
            limits,
            metrics,
            tasks: tasks.clone(),
            builder: builder(limits),
            cut: CancellationToken::new(),
        });
        info!(listener = shared.name, address = %local_address, tls = certificates.is_some(), "listening");
        let start = |stream, peer, permit| {
            let acceptor = certificates.as_ref().map(|source| TlsAcceptor::from(source.server_config()));
            let shared = Arc::clone(&shared);
            tasks.spawn("connection", OnExit::LogError, async move {
                let open = OpenConnection::new(&shared.metrics);
                shared.connection(stream, peer, acceptor).await;
                drop((open, permit));
                Ok(())
            });
        };

        let accept = async {
            loop {
                // The permit first: a connection that cannot be served stays in the kernel's queue.
                let permit = Arc::clone(&capacity).acquire_owned().await?;
                match socket.accept().await {
                    Ok((stream, peer)) => start(stream, peer, permit),
                    Err(error) => accept_failed(&shared.name, error).await?,
                }
            }
        };
        tokio::select! {
            ended = accept => return ended,
            () = tasks.shutdown().requested() => {}
        }

        // Asked of the kernel directly: Tokio knows only of connections its reactor has already heard about.
        let socket = socket.into_std()?;
        while let Ok(permit) = Arc::clone(&capacity).try_acquire_owned()
            && let Ok((stream, peer)) = socket.accept()
            && stream.set_nonblocking(true).is_ok()
            && let Ok(stream) = TcpStream::from_std(stream)
        {
            start(stream, peer, permit);
        }
        drop(socket);
        drain(&shared, &capacity).await;
        Ok(())
    }
}

async fn drain(shared: &Shared, capacity: &Semaphore) {
    let Limits { connections, drain, .. } = shared.limits;
    // Every connection holds a permit: with all of them in hand, none is left.
    let all = capacity.acquire_many(connections);
    match tokio::time::timeout(drain, all).await {
        Ok(_) => info!(listener = shared.name, "drained"),
        Err(_) => {
            let left = connections as usize - capacity.available_permits();
            warn!(listener = shared.name, left, "cut connections that did not end in time");
            shared.metrics.cut.inc_by(left as u64);
            shared.cut.cancel();
            let _ = capacity.acquire_many(connections).await;
        }
    }
}

fn builder(limits: Limits) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(limits.headers);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(250)
        // Finds peers that vanished without a word; they would hold a permit for ever.
        .keep_alive_interval(Duration::from_secs(20))
        .keep_alive_timeout(Duration::from_secs(20));
    builder
}

impl Shared {
    async fn connection(&self, stream: TcpStream, address: SocketAddr, acceptor: Option<TlsAcceptor>) {
        let begun = Instant::now();
        // Small answers should not wait for more to send.
        let _ = stream.set_nodelay(true);
        let Some(acceptor) = acceptor else {
            return self.http(stream, Peer::new(address, None), begun).await;
        };
        let handshake = tokio::time::timeout(self.limits.headers, acceptor.accept(stream));
        let handshake = tokio::select! {
            biased;
            handshake = handshake => handshake,
            () = self.silence_ends(begun) => return,
        };
        match handshake {
            Ok(Ok(stream)) => {
                let identity = stream
                    .get_ref()
                    .1
                    .peer_certificates()
                    .and_then(|chain| Certificate::from_der(chain.first()?.clone().into_owned()).ok())
                    .map(|certificate| PeerIdentity::of(&certificate));
                self.http(stream, Peer::new(address, identity), begun).await;
            }
            Ok(Err(error)) => {
                self.metrics.refuse(RefusedReason::Handshake);
                // The peer's mistake, and port scanners make it all day.
                debug!(listener = self.name, peer = %address, %error, "handshake failed");
            }
            Err(_) => {
                self.metrics.refuse(RefusedReason::Handshake);
                debug!(listener = self.name, peer = %address, "handshake took too long");
            }
        }
    }

    async fn http<S>(&self, stream: S, peer: Peer, begun: Instant)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let first = Arc::new(FirstRequest::default());
        // One timer for the time before any request: the protocol is not known yet, so hyper's own does not run.
        let mut patience = pin!(async {
            tokio::select! {
                () = first.wait() => std::future::pending().await,
                () = tokio::time::sleep(self.limits.headers) => {}
            }
        });
        let out_of_patience = || {
            self.metrics.refuse(RefusedReason::SlowHeaders);
            debug!(listener = self.name, peer = %peer.address(), "sent no request in time");
        };

        // Hyper takes over at the first word. Before it, it would close the connection at once when told to finish, and
        // after it, it can finish properly, whichever protocol is spoken.
        let mut stream = BufReader::with_capacity(FIRST_WORD, stream);
        tokio::select! {
            biased;
            word = stream.fill_buf() => if !word.is_ok_and(|word| !word.is_empty()) {
                return;
            },
            () = &mut patience => return out_of_patience(),
            () = self.silence_ends(begun) => return,
        }

        let service = self.service(peer.clone(), Arc::clone(&first));
        let connection = self.builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
        let mut connection = pin!(connection);
        let ended = tokio::select! {
            // First, so that it has seen the first word when it is told to finish.
            biased;
            ended = connection.as_mut() => Some(ended),
            () = &mut patience => return out_of_patience(),
            () = self.tasks.shutdown().requested() => None,
            () = self.welcome_ends(&peer) => None,
        };
        let ended = match ended {
            Some(ended) => ended,
            None => {
                connection.as_mut().graceful_shutdown();
                tokio::select! {
                    ended = connection.as_mut() => ended,
                    () = &mut patience => return out_of_patience(),
                    () = self.cut.cancelled() => return,
                }
            }
        };
        if let Err(error) = ended {
            debug!(listener = self.name, peer = %peer.address(), %error, "connection ended early");
        }
    }

    /// Returns when the certificate that a peer has shown is over. Only the handshake looks at it, and connections may last
    /// for days. What is under way may end; whoever has a new certificate asks his next question on a new connection.
    async fn welcome_ends(&self, peer: &Peer) {
        match (&self.clock, peer.identity()) {
            (Some(clock), Some(identity)) => clock.sleep_until(identity.not_after()).await,
            _ => std::future::pending().await,
        }
    }

    /// Returns when a peer that has not said anything need not be waited for any more.
    async fn silence_ends(&self, begun: Instant) {
        self.tasks.shutdown().requested().await;
        tokio::select! {
            () = tokio::time::sleep_until(begun + self.limits.silence) => {}
            () = self.cut.cancelled() => {}
        }
    }

    fn service(
        &self,
        peer: Peer,
        first: Arc<FirstRequest>,
    ) -> impl hyper::service::Service<
        Request<Incoming>,
        Response = Response,
        Error = Infallible,
        Future: Send + 'static,
    > + use<> {
        let refusal = self.refusal(&peer);
        let (app, metrics) = (self.app.clone(), self.metrics.clone());
        hyper::service::service_fn(move |mut request: Request<Incoming>| {
            first.arrived();
            let (app, refusal) = (app.clone(), refusal.clone());
            if refusal.is_some() {
                metrics.refuse(RefusedReason::Caller);
            }
            request.extensions_mut().insert(peer.clone());
            async move {
                match refusal {
                    Some(refusal) => Ok(refusal.into_response()),
                    None => app.oneshot(request.map(Body::new)).await,
                }
            }
        })
    }

    /// What every request of a peer that is not one of the callers is answered with, valid certificate or not.
    fn refusal(&self, peer: &Peer) -> Option<Problem> {
        let Exposure::Callers(callers) = &self.exposure else { return None };
        let refuse = |message| Some(Problem::new(StatusCode::FORBIDDEN, "CallerNotAllowed", message));
        let Some(identity) = peer.identity() else {
            // Plain listeners with callers exist on the loopback only: `Exposure` saw to that. Under TLS every peer has
            // shown a certificate, so this one could not be read.
            return self
                .tls
                .then(|| format!("your certificate names nobody {} knows", self.name))
                .and_then(refuse);
        };
        if callers.admit(identity) {
            return None;
        }
        info!(listener = self.name, peer = %identity, "refused a caller that is not on the list");
        refuse(format!("`{identity}` is not among the allowed callers of {}", self.name))
    }
}

/// Whether the first request has arrived on a connection.
#[derive(Debug, Default)]
struct FirstRequest {
    seen: AtomicBool,
    arrival: Notify,
}

impl FirstRequest {
    fn arrived(&self) {
        if !self.seen.swap(true, Ordering::AcqRel) {
            self.arrival.notify_waiters();
        }
    }

    async fn wait(&self) {
        let mut arrival = pin!(self.arrival.notified());
        // Registered before the look, so that an arrival in between is not missed.
        arrival.as_mut().enable();
        if !self.seen.load(Ordering::Acquire) {
            arrival.await;
        }
    }
}

/// Counts a connection as open until dropped, however it ends.
struct OpenConnection(prometheus_client::metrics::gauge::Gauge);

impl OpenConnection {
    fn new(metrics: &Metrics) -> Self {
        metrics.connections.inc();
        Self(metrics.connections.clone())
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.dec();
    }
}
