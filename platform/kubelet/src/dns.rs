//! Cluster DNS, answered by the node itself.
//!
//! Every node knows all Services already, so every node answers for all of them, at the same address of the Service range. An answer is
//! a look into a [directory](directory::Directory) that the watches keep, and costs as much however many Services there are. There is no way
//! out of a node, so of other names nothing is known.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use hickory_proto::op::ResponseCode;
use k8s_openapi::api::core::v1::Service;
use pilothouse_informer::{Informer, ObjectKey};
use pilothouse_runtime::{OnExit, Tasks};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tracing::{debug, warn};

use crate::config::Config;
use crate::network::{Network, Range};
use crate::services::Slices;

mod directory;
mod message;
mod zone;

use directory::Directory;
use message::{Answer, OVER_TCP, Query};
use zone::Zone;

/// The port of DNS.
pub(crate) const PORT: u16 = 53;
/// How many clients may ask over connections at once, and how long one may take for a question.
const CONNECTIONS: usize = 256;
const SILENCE: Duration = Duration::from_secs(10);
/// How long to rest when the system is out of something.
const EXHAUSTED: Duration = Duration::from_millis(100);
/// The largest question.
const LARGEST: usize = 4096;

/// Sockets that nobody answers on yet.
pub(crate) struct Bound {
    datagrams: UdpSocket,
    connections: TcpListener,
}

/// The server. A cheap handle.
#[derive(Clone)]
pub(crate) struct Dns {
    shared: Arc<Shared>,
}

struct Shared {
    services: Informer<Service>,
    slices: Slices,
    directory: RwLock<Directory>,
    zone: Zone,
    network: Network,
    turn: AtomicUsize,
    /// Whether all that was there at the beginning is in the directory.
    complete: AtomicBool,
}

// === impl Bound ===

impl Bound {
    pub(crate) async fn bind(address: IpAddr) -> io::Result<Self> {
        let address = SocketAddr::new(address, PORT);
        Ok(Self {
            datagrams: UdpSocket::bind(address).await?,
            connections: TcpListener::bind(address).await?,
        })
    }
}

// === impl Dns ===

impl Dns {
    pub(crate) fn new(
        services: Informer<Service>,
        slices: Slices,
        config: &Config,
        ranges: Vec<Range>,
        network: Network,
    ) -> Self {
        let zone = Zone::new(&config.cluster_domain, ranges, config.outside_names);
        let turn = AtomicUsize::new(0);
        let (directory, complete) = (RwLock::default(), AtomicBool::new(false));
        let shared = Shared { services, slices, directory, zone, network, turn, complete };
        Self { shared: Arc::new(shared) }
    }

    /// Something about a Service or its endpoints has changed.
    pub(crate) fn update(&self, key: &ObjectKey) {
        let shared = &*self.shared;
        // Looked up inside, so that of two changes at once the later one is the last written.
        let mut directory = shared.directory.write().unwrap_or_else(PoisonError::into_inner);
        let found = shared.services.get(key).map(|service| (service, shared.slices.of(key)));
        directory.put(key, found);
    }

    /// Whether everything is known. The first lists are announced object by object, and nobody should be told meanwhile that
    /// there is no such name; so who comes first takes them in at once.
    fn is_complete(&self) -> bool {
        let shared = &*self.shared;
        if !shared.complete.load(Ordering::Acquire) {
            if !shared.services.is_synced() || !shared.slices.is_synced() {
                return false;
            }
            shared.slices.take_all();
            for key in shared.services.keys() {
                self.update(&key);
            }
            shared.complete.store(true, Ordering::Release);
        }
        true
    }

    /// Answers until shutdown.
    pub(crate) fn start(&self, bound: Bound, tasks: &Tasks) {
        let Bound { datagrams, connections } = bound;
        let (answering, shutdown) = (self.clone(), tasks.shutdown().clone());
        tasks.spawn("dns", OnExit::StopProcess, async move {
            tokio::select! {
                () = shutdown.requested() => {}
                () = answering.answer_datagrams(&datagrams) => {}
            }
            Ok(())
        });
        let (accepting, shutdown, serving) = (self.clone(), tasks.shutdown().clone(), tasks.clone());
        tasks.spawn("dns-connections", OnExit::StopProcess, async move {
            tokio::select! {
                () = shutdown.requested() => {}
                () = accepting.accept(&connections, &serving) => {}
            }
            Ok(())
        });
    }

    async fn answer_datagrams(&self, socket: &UdpSocket) {
        let mut buffer = vec![0; LARGEST];
        loop {
            match socket.recv_from(&mut buffer).await {
                Ok((length, client)) => {
                    if let Some(reply) = self.reply(&buffer[..length], client.ip(), None) {
                        // Whoever asked may be gone.
                        let _ = socket.send_to(&reply, client).await;
                    }
                }
                Err(error) => {
                    warn!(%error, "cannot receive questions about names for a moment");
                    sleep(EXHAUSTED).await;
                }
            }
        }
    }

    async fn accept(&self, listener: &TcpListener, tasks: &Tasks) {
        let places = Arc::new(Semaphore::new(CONNECTIONS));
        loop {
            // Never closed.
            let Ok(place) = places.clone().acquire_owned().await else { return };
            match listener.accept().await {
                Ok((stream, client)) => {
                    let dns = self.clone();
                    tasks.spawn("dns-connection", OnExit::Expendable, async move {
                        if let Err(error) = dns.answer_connection(stream, client.ip()).await {
                            debug!(%client, %error, "somebody stopped asking for names");
                        }
                        drop(place);
                        Ok(())
                    });
                }
                Err(error) => {
                    warn!(%error, "cannot accept questions about names for a moment");
                    sleep(EXHAUSTED).await;
                }
            }
        }
    }

    async fn answer_connection(&self, mut stream: TcpStream, client: IpAddr) -> io::Result<()> {
        let mut question = Vec::new();
        loop {
            let length = timeout(SILENCE, stream.read_u16()).await??;
            question.resize(usize::from(length), 0);
            timeout(SILENCE, stream.read_exact(&mut question)).await??;
            let Some(reply) = self.reply(&question, client, Some(OVER_TCP)) else { return Ok(()) };
            let length = u16::try_from(reply.len()).map_err(io::Error::other)?;
            let framed = [&length.to_be_bytes(), reply.as_slice()].concat();
            timeout(SILENCE, stream.write_all(&framed)).await??;
        }
    }

    /// What is sent back to a message.
    fn reply(&self, message: &[u8], client: IpAddr, limit: Option<usize>) -> Option<Vec<u8>> {
        let reply = match Query::read(message) {
            Ok(query) => {
                let answer = self.answer(&query, client);
                query.reply(&answer, limit.unwrap_or_else(|| query.datagram())).map(Some)
            }
            Err(unreadable) => unreadable.reply(),
        };
        reply.unwrap_or_else(|error| {
            warn!(%client, %error, "cannot write down what is known of a name; please report this");
            None
        })
    }

    fn answer(&self, query: &Query, client: IpAddr) -> Answer {
        let shared = &*self.shared;
        let only = |code| Answer { code, answers: Vec::new(), authority: Vec::new(), additional: Vec::new() };
        if !query.is_of_internet() {
            return only(ResponseCode::Refused);
        }
        if !self.is_complete() {
            // It may be there all the same: the client should ask again.
            return only(ResponseCode::ServFail);
        }
        let view = shared.network.view(client);
        let directory = shared.directory.read().unwrap_or_else(PoisonError::into_inner);
        let turn = shared.turn.fetch_add(1, Ordering::Relaxed);
        let asked = (query.question.name(), query.question.query_type());
        shared.zone.answer(&directory, asked, view.as_deref(), turn)
    }
}
