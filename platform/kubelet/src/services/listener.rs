//! One address that is listened on.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use pilothouse_runtime::OnExit;
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::{debug, warn};

use super::backends::Backends;
use super::datagrams::Datagrams;
use super::plan::{Front, Protocol, Target};
use super::relay::{self, Shelf};
use crate::metrics::Metrics;
use crate::network::Network;

/// How long one endpoint may take to accept before another is tried.
const CONNECTING: Duration = Duration::from_secs(3);
/// How long accepting rests when the system is out of descriptors.
const EXHAUSTED: Duration = Duration::from_millis(100);
/// How many clients of datagrams the node remembers at once.
const FLOWS: usize = 4096;

/// What all listeners of a node share. A cheap handle.
#[derive(Clone, Debug)]
pub(crate) struct Proxy {
    pub(super) inner: Arc<Shared>,
}

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) tasks: pilothouse_runtime::Tasks,
    pub(super) metrics: Metrics,
    pub(super) network: Network,
    pub(super) flows: Arc<Semaphore>,
    shelf: Shelf,
}

/// Listens until dropped. What goes through it then goes on.
#[derive(Debug)]
pub(crate) struct Listener {
    behind: Behind,
    _listening: DropGuard,
}

#[derive(Debug)]
enum Behind {
    Connections(Arc<Backends>),
    Datagrams(Arc<Datagrams>),
}

/// What a listener for connections needs to know of itself.
#[derive(Clone)]
struct Entrance {
    address: SocketAddr,
    /// Whose clients are let in.
    namespace: Arc<str>,
    backends: Arc<Backends>,
    proxy: Proxy,
}

// === impl Proxy ===

impl Proxy {
    pub(crate) fn new(tasks: pilothouse_runtime::Tasks, metrics: Metrics, network: Network) -> Self {
        let flows = Arc::new(Semaphore::new(FLOWS));
        Self { inner: Arc::new(Shared { tasks, metrics, network, flows, shelf: Shelf::default() }) }
    }

    /// Listens on an address for clients of a namespace.
    pub(crate) async fn listen(&self, front: Front, target: Target, namespace: &str) -> io::Result<Listener> {
        let Front { protocol, address } = front;
        let explain = |error: io::Error| {
            io::Error::new(error.kind(), format!("listening on {address} ({protocol:?}): {error}"))
        };
        let token = CancellationToken::new();
        let behind = match protocol {
            Protocol::Tcp => {
                let socket = TcpListener::bind(address).await.map_err(explain)?;
                let backends = Arc::new(Backends::new(target));
                let entrance = Entrance {
                    address,
                    namespace: namespace.into(),
                    backends: backends.clone(),
                    proxy: self.clone(),
                };
                let serving = token.clone();
                self.inner.tasks.spawn("service", OnExit::Expendable, async move {
                    tokio::select! {
                        () = serving.cancelled() => {}
                        () = entrance.accept(socket) => {}
                    }
                    Ok(())
                });
                Behind::Connections(backends)
            }
            Protocol::Udp => {
                let socket = UdpSocket::bind(address).await.map_err(explain)?;
                let datagrams =
                    Arc::new(Datagrams::new(socket, address, Backends::new(target), namespace, self.clone()));
                let (serving, receiving) = (token.clone(), datagrams.clone());
                self.inner.tasks.spawn("service", OnExit::Expendable, async move {
                    tokio::select! {
                        () = serving.cancelled() => {}
                        () = receiving.receive() => {}
                    }
                    receiving.end();
                    Ok(())
                });
                Behind::Datagrams(datagrams)
            }
        };
        Ok(Listener { behind, _listening: token.drop_guard() })
    }
}

// === impl Listener ===

impl Listener {
    /// From now on whoever comes goes there.
    pub(crate) fn lead_to(&self, target: Target) {
        match &self.behind {
            Behind::Connections(backends) => backends.set(target),
            Behind::Datagrams(datagrams) => datagrams.lead_to(target),
        }
    }
}

// === impl Entrance ===

impl Entrance {
    async fn accept(&self, socket: TcpListener) {
        loop {
            match socket.accept().await {
                Ok((client, from)) => {
                    let entrance = self.clone();
                    self.proxy.inner.tasks.spawn("proxied", OnExit::Expendable, async move {
                        entrance.pass_on(client, from).await;
                        Ok(())
                    });
                }
                Err(error) => {
                    warn!(address = %self.address, %error, "cannot accept connections for a moment");
                    sleep(EXHAUSTED).await;
                }
            }
        }
    }

    async fn pass_on(&self, client: TcpStream, from: SocketAddr) {
        let Shared { network, metrics, shelf, .. } = &*self.proxy.inner;
        if !network.admits(from.ip(), &self.namespace) {
            debug!(service = %self.address, client = %from, "a client of somebody else is not let in");
            metrics.unserved.inc();
            return relay::reset(&client);
        }
        let Some((server, backend)) = self.connect(from).await else {
            metrics.unserved.inc();
            // A reset, not an orderly end: whoever connected should know that nobody was there.
            return relay::reset(&client);
        };
        metrics.proxied.inc();
        let gone = network.gone(backend.ip());
        let joined = tokio::select! {
            joined = relay::join(&client, &server, shelf) => joined,
            () = gone.cancelled() => {
                relay::reset(&client);
                relay::reset(&server);
                Err(io::Error::new(io::ErrorKind::ConnectionReset, "its pod is gone"))
            }
        };
        if let Err(error) = joined {
            debug!(service = %self.address, %backend, %error, "a connection broke");
        }
    }

    /// A connection to an endpoint; where the first does not answer, another one has a try.
    async fn connect(&self, from: SocketAddr) -> Option<(TcpStream, SocketAddr)> {
        let first = self.backends.choose(from.ip())?;
        if let Some(stream) = self.try_connect(first).await {
            return Some((stream, first));
        }
        let second = self.backends.choose_other(from.ip(), first)?;
        self.try_connect(second).await.map(|stream| (stream, second))
    }

    async fn try_connect(&self, backend: SocketAddr) -> Option<TcpStream> {
        match timeout(CONNECTING, TcpStream::connect(backend)).await {
            Ok(Ok(stream)) => return Some(stream),
            Ok(Err(error)) => debug!(service = %self.address, %backend, %error, "an endpoint refuses"),
            Err(_elapsed) => debug!(service = %self.address, %backend, "an endpoint does not answer"),
        }
        None
    }
}
