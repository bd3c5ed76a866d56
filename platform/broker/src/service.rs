use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use pilothouse_http::{CertificateSource, Health, PeerIdentity};
use pilothouse_pki::Certificate;
use pilothouse_runtime::{Clock, OnExit, Shutdown, Tasks};
use prometheus_client::registry::Registry;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tracing::{debug, info, warn};

use crate::access::Authorizer;
use crate::config::{Config, Limits};
use crate::connection::{self, Broker};
use crate::error::Error;
use crate::metrics::Metrics;
use crate::router::Router;

/// How long clients have to take their leave.
const DRAIN: Duration = Duration::from_secs(5);
/// How long accepting rests when the system has no descriptors left.
const EXHAUSTED: Duration = Duration::from_millis(100);

/// What the broker needs from outside.
#[derive(Debug)]
pub struct Deps<'a> {
    /// Dates certificates.
    pub clock: Clock,
    /// Decides who may do what.
    pub authorizer: Authorizer,
    /// Where the numbers go.
    pub registry: &'a mut Registry,
}

/// A broker with its port.
#[derive(Debug)]
pub struct Service {
    socket: TcpListener,
    local_address: SocketAddr,
    certificates: Option<CertificateSource>,
    limits: Limits,
    authorizer: Authorizer,
    metrics: Metrics,
}

impl Service {
    /// Takes the port, after checking that it may be exposed and reading the certificate.
    pub fn build(config: Config, deps: Deps<'_>) -> BoxFuture<'_, Result<Self, Error>> {
        Box::pin(Self::assemble(config, deps))
    }

    async fn assemble(config: Config, deps: Deps<'_>) -> Result<Self, Error> {
        let authenticated = config.authenticates();
        let Config { listen, tls, limits, .. } = config;
        if !listen.ip().to_canonical().is_loopback() && !authenticated {
            return Err(Error::Exposed(listen));
        }
        let certificates = tls.map(|files| CertificateSource::load(files, deps.clock)).transpose()?;
        let refused = |source| Error::Bind { address: listen, source };
        let socket = TcpListener::bind(listen).await.map_err(refused)?;
        let local_address = socket.local_addr().map_err(refused)?;
        let metrics = Metrics::register(deps.registry);
        Ok(Self { socket, local_address, certificates, limits, authorizer: deps.authorizer, metrics })
    }

    /// Says on the readiness page how the certificate is.
    pub fn report(&self, health: &Health) {
        if let Some(certificates) = self.certificates.clone() {
            health.register("certificate", move || certificates.verdict());
        }
    }

    /// Where it listens; with the real port if port 0 was asked for.
    pub fn local_address(&self) -> SocketAddr {
        self.local_address
    }

    /// Serves until shutdown; returns when all clients have been told and are gone.
    pub fn run(self, shutdown: Shutdown) -> BoxFuture<'static, Result<(), Error>> {
        Box::pin(self.work(shutdown))
    }

    async fn work(self, shutdown: Shutdown) -> Result<(), Error> {
        let tasks = Tasks::new("broker", shutdown.clone());
        let Self { socket, local_address, certificates, limits, authorizer, metrics } = self;
        if let Some(certificates) = &certificates {
            certificates.watch(&tasks);
        }
        let router = Router::new(limits, metrics.clone());
        let broker = Arc::new(Broker { router, limits, authorizer, metrics, shutdown: shutdown.clone() });
        let capacity = Arc::new(Semaphore::new(limits.connections as usize));
        info!(address = %local_address, tls = certificates.is_some(), "listening");
        loop {
            let accepted = tokio::select! {
                () = shutdown.requested() => break,
                accepted = accept(&socket, &capacity) => accepted,
            };
            let (stream, address, permit) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    warn!(%error, "cannot accept connections for a moment");
                    tokio::time::sleep(EXHAUSTED).await;
                    continue;
                }
            };
            let (broker, certificates) = (broker.clone(), certificates.clone());
            tasks.spawn("connection", OnExit::LogError, async move {
                connect(&broker, stream, address, certificates).await;
                drop(permit);
                Ok(())
            });
        }
        drop(socket);
        tasks.drain(DRAIN).await?;
        info!("stopped");
        Ok(())
    }
}

async fn accept(
    socket: &TcpListener,
    capacity: &Arc<Semaphore>,
) -> io::Result<(TcpStream, SocketAddr, tokio::sync::OwnedSemaphorePermit)> {
    // The permit first: a connection that cannot be served stays in the kernel's queue.
    let permit = capacity.clone().acquire_owned().await.map_err(io::Error::other)?;
    let (stream, address) = socket.accept().await?;
    Ok((stream, address, permit))
}

async fn connect(
    broker: &Broker,
    stream: TcpStream,
    address: SocketAddr,
    certificates: Option<CertificateSource>,
) {
    // Small packets should not wait for more to send.
    let _ = stream.set_nodelay(true);
    let Some(certificates) = certificates else {
        return connection::serve(broker, stream, address, None).await;
    };
    let mut config = (*certificates.server_config()).clone();
    // Those of HTTP; MQTT has a connection of its own and needs no name for it.
    config.alpn_protocols.clear();
    let handshake = TlsAcceptor::from(Arc::new(config)).accept(stream);
    match tokio::time::timeout(broker.limits.patience(), handshake).await {
        Ok(Ok(stream)) => {
            let identity = stream
                .get_ref()
                .1
                .peer_certificates()
                .and_then(|chain| Certificate::from_der(chain.first()?.clone().into_owned()).ok())
                .map(|certificate| PeerIdentity::of(&certificate));
            connection::serve(broker, stream, address, identity).await;
        }
        Ok(Err(error)) => debug!(peer = %address, %error, "handshake failed"),
        Err(_) => debug!(peer = %address, "handshake took too long"),
    }
}
