//! One client's connection, from its first byte to its end.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use pilothouse_runtime::{Chain, Shutdown};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use tracing::{debug, info};

use crate::client_hello::{self, ClientHello, HelloError};
use crate::config::Config;
use crate::dial::Dial;
use crate::metrics::{Direction, Metrics, Outcome};
use crate::resolve::{Nobody, Resolver};
use crate::splice::{self, Carried, Ended, Patience};

/// How many endpoints of a service are tried for one client.
const ATTEMPTS: usize = 3;

/// What every connection needs. A cheap handle.
#[derive(Clone, Debug)]
pub(crate) struct Connections {
    pub(crate) config: Arc<Config>,
    pub(crate) resolver: Resolver,
    pub(crate) dialer: Arc<dyn Dial>,
    pub(crate) metrics: Metrics,
    pub(crate) shutdown: Shutdown,
}

impl Connections {
    /// Serves one client to the end.
    pub(crate) async fn serve(&self, mut client: TcpStream, peer: SocketAddr) {
        let _open = self.metrics.opened();
        // Small messages must not wait for each other; a socket that cannot be told so works all the same.
        let _ = client.set_nodelay(true);
        let hello = match self.hello(&mut client).await {
            Ok(hello) => hello,
            Err((outcome, alert)) => return self.refuse(client, outcome, &alert).await,
        };
        let Some(host) = hello.host.clone() else {
            debug!(%peer, "client names no host");
            return self.refuse(client, Outcome::NoName, &client_hello::UNRECOGNIZED_NAME).await;
        };
        let endpoint = match self.endpoint(&host).await {
            Ok(endpoint) => endpoint,
            Err((outcome, alert)) => {
                info!(%peer, host, ?outcome, "connection refused");
                return self.refuse(client, outcome, alert).await;
            }
        };
        self.carry(client, endpoint, &hello.bytes, &host, peer).await;
    }

    async fn hello(&self, client: &mut TcpStream) -> Result<ClientHello, (Outcome, Vec<u8>)> {
        let limit = usize::try_from(self.config.hello_limit.0).unwrap_or(usize::MAX);
        let reading = timeout(self.config.hello_timeout.0, client_hello::read(client, limit));
        let read = tokio::select! {
            read = reading => read,
            // Nothing has begun that could be finished.
            () = self.shutdown.requested() => return Err((Outcome::Drained, Vec::new())),
        };
        match read {
            Ok(Ok(hello)) => Ok(hello),
            Err(_elapsed) => Err((Outcome::SlowHello, Vec::new())),
            Ok(Err(error)) => {
                debug!(error = %Chain(&error), "no usable first message");
                Err(match error {
                    HelloError::NotTls { alert, .. } => (Outcome::BadHello, alert),
                    HelloError::TooLong(_) => (Outcome::BadHello, Vec::new()),
                    HelloError::Left | HelloError::Broken(_) => (Outcome::Left, Vec::new()),
                })
            }
        }
    }

    async fn endpoint(&self, host: &str) -> Result<TcpStream, (Outcome, &'static [u8])> {
        let addresses = self.resolver.resolve(host).map_err(|nobody| match nobody {
            Nobody::UnknownHost => (Outcome::UnknownName, &client_hello::UNRECOGNIZED_NAME[..]),
            Nobody::NoEndpoint(service) => {
                debug!(host, %service, "no ready endpoint");
                (Outcome::NoEndpoint, &client_hello::INTERNAL_ERROR[..])
            }
        })?;
        for address in addresses.into_iter().take(ATTEMPTS) {
            match timeout(self.config.dial_timeout.0, self.dialer.dial(address)).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => info!(host, %address, error = %Chain(&error), "endpoint cannot be reached"),
                Err(_elapsed) => info!(host, %address, "endpoint takes too long to be reached"),
            }
        }
        Err((Outcome::Unreachable, &client_hello::INTERNAL_ERROR))
    }

    async fn carry(
        &self,
        client: TcpStream,
        mut endpoint: TcpStream,
        hello: &[u8],
        host: &str,
        peer: SocketAddr,
    ) {
        let start = Instant::now();
        let carried = Carried::default();
        carried.from_client.fetch_add(hello.len() as u64, Ordering::Relaxed);
        let _ = endpoint.set_nodelay(true);
        let patience = Patience { idle: self.config.idle_timeout.0, quiet: self.config.quiet.0 };
        debug!(%peer, host, "connected");
        let ended = match endpoint.write_all(hello).await {
            Ok(()) => splice::splice(client, endpoint, &carried, patience, &self.shutdown).await,
            Err(error) => Ended::Broken(error),
        };
        let outcome = match &ended {
            Ended::Closed => Outcome::Served,
            Ended::Broken(error) => {
                debug!(%peer, host, %error, "connection broke");
                Outcome::Broken
            }
            Ended::Idle => Outcome::Idle,
            Ended::Drained => Outcome::Drained,
        };
        let (from_client, to_client) =
            (carried.from_client.load(Ordering::Relaxed), carried.to_client.load(Ordering::Relaxed));
        self.metrics.carried(Direction::FromClient, from_client);
        self.metrics.carried(Direction::ToClient, to_client);
        self.metrics.ended(outcome);
        let seconds = start.elapsed().as_secs_f64();
        info!(%peer, host, ?outcome, from_client, to_client, seconds, "connection ended");
    }

    async fn refuse(&self, mut client: TcpStream, outcome: Outcome, alert: &[u8]) {
        self.metrics.ended(outcome);
        // The client may be gone already; it was refused either way.
        let _ = client.write_all(alert).await;
        let _ = client.shutdown().await;
    }
}
