//! Datagrams: what a client sends goes to one endpoint, and what that answers comes back.
//!
//! There are no connections to follow, so each client has a socket of its own towards its endpoint, until it is silent for a while,
//! its endpoint goes, or somebody else needs the room.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pilothouse_runtime::OnExit;
use tokio::net::UdpSocket;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::{debug, warn};

use super::backends::Backends;
use super::listener::Proxy;
use super::plan::Target;

/// A client is forgotten after this much silence from both sides.
const SILENCE: Duration = Duration::from_secs(60);
/// The largest datagram there is.
const LARGEST: usize = 65_535;
/// How long receiving rests when the system is out of something.
const EXHAUSTED: Duration = Duration::from_millis(100);

/// One address for datagrams.
#[derive(Debug)]
pub(super) struct Datagrams {
    socket: Arc<UdpSocket>,
    address: SocketAddr,
    /// Whose clients are let in.
    namespace: String,
    backends: Backends,
    flows: Arc<Mutex<HashMap<SocketAddr, Flow>>>,
    proxy: Proxy,
}

/// One client and its endpoint. Ends when dropped.
#[derive(Debug)]
struct Flow {
    socket: Arc<UdpSocket>,
    backend: SocketAddr,
    /// When either side was last heard.
    heard: Arc<Mutex<Instant>>,
    _answering: DropGuard,
    _place: OwnedSemaphorePermit,
}

// === impl Datagrams ===

impl Datagrams {
    pub(super) fn new(
        socket: UdpSocket,
        address: SocketAddr,
        backends: Backends,
        namespace: &str,
        proxy: Proxy,
    ) -> Self {
        let namespace = namespace.to_owned();
        Self { socket: Arc::new(socket), address, namespace, backends, flows: Arc::default(), proxy }
    }

    /// From now on datagrams go there, also those of clients that were led elsewhere.
    pub(super) fn lead_to(&self, target: Target) {
        self.backends.set(target);
        self.flows().retain(|_, flow| self.backends.contains(flow.backend));
    }

    pub(super) fn end(&self) {
        self.flows().clear();
    }

    /// Takes what clients send, until dropped.
    pub(super) async fn receive(&self) {
        let mut buffer = vec![0; LARGEST];
        loop {
            match self.socket.recv_from(&mut buffer).await {
                Ok((length, client)) => {
                    if let Err(error) = self.pass_on(&buffer[..length], client).await {
                        debug!(address = %self.address, %client, %error, "a datagram was lost");
                    }
                }
                Err(error) => {
                    warn!(address = %self.address, %error, "cannot receive datagrams for a moment");
                    sleep(EXHAUSTED).await;
                }
            }
        }
    }

    async fn pass_on(&self, datagram: &[u8], client: SocketAddr) -> io::Result<()> {
        let known = self.flows().get(&client).map(|flow| {
            *lock(&flow.heard) = Instant::now();
            (flow.socket.clone(), flow.backend)
        });
        let failed = match known {
            None => None,
            Some((socket, backend)) => match socket.send(datagram).await {
                Ok(_) => return Ok(()),
                // Nobody was there for an earlier one; this one has another try.
                Err(_) => Some(backend),
            },
        };
        match self.begin(client, failed).await? {
            Some(socket) => socket.send(datagram).await.map(|_| ()),
            None => Ok(()),
        }
    }

    /// Leads a client to an endpoint, if it may come and there is one, and not to the one that failed it.
    async fn begin(
        &self,
        client: SocketAddr,
        failed: Option<SocketAddr>,
    ) -> io::Result<Option<Arc<UdpSocket>>> {
        let shared = &*self.proxy.inner;
        self.flows().remove(&client);
        let admitted = shared.network.admits(client.ip(), &self.namespace);
        let choose = || match failed {
            None => self.backends.choose(client.ip()),
            Some(failed) => self.backends.choose_other(client.ip(), failed).or(Some(failed)),
        };
        let Some(backend) = admitted.then(choose).flatten() else {
            shared.metrics.unserved.inc();
            return Ok(None);
        };
        let Some(place) = self.place() else {
            debug!(address = %self.address, %client, "too many clients send datagrams");
            return Ok(None);
        };
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).await?;
        socket.connect(backend).await?;
        shared.metrics.proxied.inc();
        let (socket, heard) = (Arc::new(socket), Arc::new(Mutex::new(Instant::now())));
        let token = CancellationToken::new();
        let answers = Answers {
            client,
            socket: socket.clone(),
            heard: heard.clone(),
            front: self.socket.clone(),
            flows: self.flows.clone(),
        };
        let (ended, gone) = (token.clone(), shared.network.gone(backend.ip()));
        shared.tasks.spawn("datagrams", OnExit::Expendable, async move {
            tokio::select! {
                () = ended.cancelled() => {}
                () = gone.cancelled() => answers.forget(),
                () = answers.pass_back() => answers.forget(),
            }
            Ok(())
        });
        let flow =
            Flow { socket: socket.clone(), backend, heard, _answering: token.drop_guard(), _place: place };
        self.flows().insert(client, flow);
        Ok(Some(socket))
    }

    /// Room for one more client; where there is none, that of the one which was silent for longest.
    fn place(&self) -> Option<OwnedSemaphorePermit> {
        let places = &self.proxy.inner.flows;
        if let Ok(place) = places.clone().try_acquire_owned() {
            return Some(place);
        }
        let mut flows = self.flows();
        let silent = flows.iter().min_by_key(|(_, flow)| *lock(&flow.heard)).map(|(client, _)| *client)?;
        flows.remove(&silent);
        places.clone().try_acquire_owned().ok()
    }

    fn flows(&self) -> MutexGuard<'_, HashMap<SocketAddr, Flow>> {
        lock(&self.flows)
    }
}

/// The way back to one client.
struct Answers {
    client: SocketAddr,
    socket: Arc<UdpSocket>,
    heard: Arc<Mutex<Instant>>,
    front: Arc<UdpSocket>,
    flows: Arc<Mutex<HashMap<SocketAddr, Flow>>>,
}

// === impl Answers ===

impl Answers {
    /// Until both sides are silent, or the endpoint refuses.
    async fn pass_back(&self) {
        loop {
            let until = *lock(&self.heard) + SILENCE;
            match timeout_at(until, self.socket.readable()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return,
                Err(_elapsed) if Instant::now() < *lock(&self.heard) + SILENCE => continue,
                Err(_elapsed) => return,
            }
            // Not before: there may be thousands of clients.
            let mut buffer = Vec::with_capacity(LARGEST);
            match self.socket.try_recv_buf(&mut buffer) {
                Ok(_) => {
                    *lock(&self.heard) = Instant::now();
                    // The client may be gone.
                    let _ = self.front.send_to(&buffer, self.client).await;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // Nobody is there: the client's next datagram goes to another endpoint.
                Err(_) => return,
            }
        }
    }

    fn forget(&self) {
        let mut flows = lock(&self.flows);
        if flows.get(&self.client).is_some_and(|flow| Arc::ptr_eq(&flow.socket, &self.socket)) {
            flows.remove(&self.client);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
