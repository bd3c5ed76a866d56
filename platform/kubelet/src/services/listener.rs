//! One port of one Service.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use pilothouse_runtime::{OnExit, Tasks};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::{debug, warn};

use crate::metrics::Metrics;

/// How long one endpoint may take to accept before the next is tried.
const CONNECTING: Duration = Duration::from_secs(3);
/// How long accepting rests when the system is out of descriptors.
const EXHAUSTED: Duration = Duration::from_millis(100);

/// Listens until dropped.
#[derive(Debug)]
pub(super) struct Listener {
    backends: Arc<Backends>,
    _listening: DropGuard,
}

/// Endpoints, taken in turn.
#[derive(Debug)]
struct Backends {
    addresses: RwLock<Vec<SocketAddr>>,
    turn: AtomicUsize,
}

impl Listener {
    pub(super) async fn start(
        address: SocketAddr,
        backends: Vec<SocketAddr>,
        tasks: &Tasks,
        metrics: &Metrics,
    ) -> io::Result<Self> {
        let socket = TcpListener::bind(address)
            .await
            .map_err(|error| io::Error::new(error.kind(), format!("listening on {address}: {error}")))?;
        let backends = Arc::new(Backends { addresses: RwLock::new(backends), turn: AtomicUsize::new(0) });
        let token = CancellationToken::new();
        let (serving, serving_backends) = (token.clone(), backends.clone());
        let (tasks_inside, metrics) = (tasks.clone(), metrics.clone());
        tasks.spawn("service", OnExit::Expendable, async move {
            loop {
                let accepted = tokio::select! {
                    () = serving.cancelled() => return Ok(()),
                    accepted = socket.accept() => accepted,
                };
                match accepted {
                    Ok((stream, _)) => {
                        let (backends, metrics) = (serving_backends.clone(), metrics.clone());
                        tasks_inside.spawn("proxied", OnExit::Expendable, async move {
                            pass_on(stream, address, &backends, &metrics).await;
                            Ok(())
                        });
                    }
                    Err(error) => {
                        warn!(%address, %error, "cannot accept connections for a moment");
                        sleep(EXHAUSTED).await;
                    }
                }
            }
        });
        Ok(Self { backends, _listening: token.drop_guard() })
    }

    pub(super) fn set_backends(&self, backends: Vec<SocketAddr>) {
        *self.backends.addresses.write().unwrap_or_else(PoisonError::into_inner) = backends;
    }
}

impl Backends {
    /// All of them, beginning with the one whose turn it is.
    fn in_turn(&self) -> Vec<SocketAddr> {
        let mut addresses = self.addresses.read().unwrap_or_else(PoisonError::into_inner).clone();
        if !addresses.is_empty() {
            let turn = self.turn.fetch_add(1, Ordering::Relaxed) % addresses.len();
            addresses.rotate_left(turn);
        }
        addresses
    }
}

async fn pass_on(mut client: TcpStream, service: SocketAddr, backends: &Backends, metrics: &Metrics) {
    for backend in backends.in_turn() {
        match timeout(CONNECTING, TcpStream::connect(backend)).await {
            Ok(Ok(mut server)) => {
                metrics.proxied.inc();
                let _ = client.set_nodelay(true);
                let _ = server.set_nodelay(true);
                if let Err(error) = tokio::io::copy_bidirectional(&mut client, &mut server).await {
                    debug!(%service, %backend, %error, "a connection broke");
                }
                return;
            }
            Ok(Err(error)) => debug!(%service, %backend, %error, "an endpoint refuses"),
            Err(_elapsed) => debug!(%service, %backend, "an endpoint does not answer"),
        }
    }
    metrics.unserved.inc();
    // A reset, not an orderly end: whoever connected should know that nobody was there.
    let _ = client.set_zero_linger();
}
