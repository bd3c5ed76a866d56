//! One client's connection, from its first byte to its end.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arc_swap::ArcSwap;
use pilothouse_runtime::{Chain, Shutdown};
use tokio::io::AsyncWriteExt;
use tokio::time::{Instant, timeout, timeout_at};
use tracing::{debug, info};

use crate::access::Denied;
use crate::client_hello::{self, ClientHello, HelloError};
use crate::cluster::{ClusterName, ClusterPlace, Clusters};
use crate::config::{Config, Reach};
use crate::egress::{self, Granted, Permissions};
use crate::metrics::{Direction, Metrics, Outcome};
use crate::proxy_header::{self, Announced, HeaderError};
use crate::range::Range;
use crate::resolve::{Answering, Destination, Nobody, Resolver};
use crate::splice::{self, Carried, Ended, Patience};
use crate::stream::Stream;

/// How many endpoints of a service are tried for one client.
const ATTEMPTS: usize = 3;

/// What every connection needs.
#[derive(Debug)]
pub(crate) struct Connections {
    pub(crate) config: Arc<ArcSwap<Config>>,
    pub(crate) resolver: Resolver,
    pub(crate) clusters: Arc<Clusters>,
    pub(crate) metrics: Metrics,
    pub(crate) shutdown: Shutdown,
}

/// What a listener is there for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Door {
    /// The way to hosted clusters.
    In(Reach),
    /// The way out, of this cluster or of whom a private link names.
    Out(Option<String>),
}

/// Who is connected with whom.
struct Pair<'a> {
    client: Stream,
    endpoint: Stream,
    host: &'a str,
    from: SocketAddr,
    place: ClusterPlace,
    /// How many bytes the endpoint was told already.
    told: usize,
}

/// A refusal: how it is counted, and what the client is told.
type Refusal = (Outcome, &'static [u8]);

impl Connections {
    /// Serves one client to the end.
    pub(crate) async fn serve(&self, mut client: Stream, peer: SocketAddr, door: &Door) {
        let _open = self.metrics.opened();
        // As it is now: a change is for connections that come after it.
        let config = self.config.load_full();
        let deadline = Instant::now() + config.hello_timeout.0;
        let announced = match door {
            // Where nobody is asked, nobody need say.
            Door::In(Reach::Internal) => Announced::default(),
            Door::In(_) | Door::Out(_) => match self.announced(&mut client, peer, &config, deadline).await {
                Ok(announced) => announced,
                Err(outcome) => return self.metrics.ended(outcome),
            },
        };
        let from = announced.client.unwrap_or_else(|| proxy_header::canonical(peer));
        match door {
            Door::In(reach) => self.lead_in(client, from, *reach, &config, deadline).await,
            Door::Out(cluster) => {
                let linked = || announced.link.and_then(|link| cluster_of_link(&config, link));
                match cluster.as_deref().or_else(linked) {
                    // Apart, for it is large, and every connection would have room for it.
                    Some(cluster) => Box::pin(self.lead_out(client, from, cluster, &config)).await,
                    None => {
                        info!(%peer, %from, link = announced.link, "nobody's private link");
                        self.metrics.ended(Outcome::UnknownLink);
                    }
                }
            }
        }
    }

    /// What a balancer says about the client, if this is one.
    async fn announced(
        &self,
        client: &mut Stream,
        peer: SocketAddr,
        config: &Config,
        deadline: Instant,
    ) -> Result<Announced, Outcome> {
        if !Range::any(&config.proxy_peers, peer.ip()) {
            return Ok(Announced::default());
        }
        let read = tokio::select! {
            // First: what is there already is read, also at shutdown.
            biased;
            read = timeout_at(deadline, proxy_header::read(client)) => read,
            () = self.shutdown.requested() => return Err(Outcome::Drained),
        };
        match read {
            Ok(Ok(announced)) => Ok(announced),
            Err(_elapsed) => Err(Outcome::SlowHello),
            // Balancers look whether somebody is there, and leave.
            Ok(Err(HeaderError::Left(_))) => Err(Outcome::Left),
            Ok(Err(error)) => {
                info!(%peer, error = %Chain(&error), "balancer is not understood");
                Err(Outcome::BadProxy)
            }
        }
    }

    async fn lead_in(
        &self,
        mut client: Stream,
        from: SocketAddr,
        reach: Reach,
        config: &Config,
        deadline: Instant,
    ) {
        let hello = match self.hello(&mut client, config, deadline).await {
            Ok(hello) => hello,
            Err((outcome, alert)) => return self.refuse(client, outcome, &alert).await,
        };
        let Some(host) = hello.host.as_deref() else {
            debug!(%from, "client names no host");
            return self.refuse(client, Outcome::NoName, &client_hello::UNRECOGNIZED_NAME).await;
        };
        let Some(destination) = self.resolver.find(host) else {
            info!(%from, host, "nobody has this host");
            return self.refuse(client, Outcome::UnknownName, &client_hello::UNRECOGNIZED_NAME).await;
        };
        let exists = || self.resolver.find(host).is_some_and(|found| found.cluster == destination.cluster);
        let refused = match self.enter(&destination, from, reach, config, exists) {
            Ok(place) => {
                let first = first_words(&client, from, host, &destination, hello.bytes);
                match self.endpoint(host, &destination, &first, config).await {
                    Ok(endpoint) => {
                        let pair = Pair { client, endpoint, host, from, place, told: first.len() };
                        return self.carry(pair, &[], config).await;
                    }
                    Err(refused) => refused,
                }
            }
            Err(refused) => refused,
        };
        let (outcome, alert) = refused;
        info!(%from, host, ?outcome, "connection refused");
        self.clusters.numbers(&destination.cluster, config.cluster_labels, exists).ended(false);
        self.refuse(client, outcome, alert).await;
    }

    async fn lead_out(&self, client: Stream, from: SocketAddr, cluster: &str, config: &Config) {
        let Some(permissions) = Permissions::of(&config.egress, cluster) else {
            info!(%from, cluster, "cluster may not ask for the way out any more");
            return self.metrics.ended(Outcome::UnknownLink);
        };
        let name = ClusterName::configured(cluster);
        // Not in the configuration that this connection goes by, but in the one that there is.
        let exists = || self.config.load().egress.clusters.contains_key(cluster);
        let place = match self.place(&name, config, exists) {
            Ok(place) => place,
            Err(outcome) => {
                self.clusters.numbers(&name, config.cluster_labels, exists).ended(false);
                return self.metrics.ended(outcome);
            }
        };
        let patience = egress::Patience { request: config.hello_timeout.0, dial: config.dial_timeout.0 };
        let Ok(client) = client.into_watched() else { return self.metrics.ended(Outcome::Left) };
        let granted = tokio::select! {
            granted = egress::negotiate(client, cluster, permissions, patience, &place.lookups) => granted,
            () = self.shutdown.requested() => Err(Outcome::Drained),
        };
        match granted {
            Ok(Granted { client, first, server, host }) => {
                let (client, endpoint) = (client.into(), server.into());
                let pair = Pair { client, endpoint, host: &host, from, place, told: 0 };
                self.carry(pair, &first, config).await;
            }
            Err(outcome) => {
                place.numbers.ended(false);
                self.metrics.ended(outcome);
            }
        }
    }

    async fn hello(
        &self,
        client: &mut Stream,
        config: &Config,
        deadline: Instant,
    ) -> Result<ClientHello, (Outcome, Vec<u8>)> {
        let limit = usize::try_from(config.hello_limit.0).unwrap_or(usize::MAX);
        let read = tokio::select! {
            // First: whoever has said all of it believes to be connected.
            biased;
            read = timeout_at(deadline, client_hello::read(client, limit)) => read,
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
                    HelloError::Announced => (Outcome::UntrustedProxy, Vec::new()),
                    HelloError::Left | HelloError::Broken(_) => (Outcome::Left, Vec::new()),
                })
            }
        }
    }

    /// Whether the client may come, and whether there is room.
    fn enter(
        &self,
        destination: &Destination,
        from: SocketAddr,
        reach: Reach,
        config: &Config,
        exists: impl FnOnce() -> bool,
    ) -> Result<ClusterPlace, Refusal> {
        destination.access.admit(from.ip(), reach, &config.private_ranges).map_err(
            |denied| match denied {
                // Who cannot reach it need not know that it is there.
                Denied::NotPublic => (Outcome::NotPublic, &client_hello::UNRECOGNIZED_NAME[..]),
                Denied::NotAllowed => (Outcome::NotAllowed, &client_hello::ACCESS_DENIED[..]),
            },
        )?;
        self.place(&destination.cluster, config, exists)
            .map_err(|outcome| (outcome, &client_hello::INTERNAL_ERROR[..]))
    }

    fn place(
        &self,
        cluster: &ClusterName,
        config: &Config,
        exists: impl FnOnce() -> bool,
    ) -> Result<ClusterPlace, Outcome> {
        let (most, labels) = (config.max_connections_per_cluster, config.cluster_labels);
        let place = self.clusters.enter_cluster(cluster, most, labels, exists);
        place.map_err(|_| Outcome::ClusterLimit)
    }

    /// A connection to an endpoint, which has been told the first words.
    async fn endpoint(
        &self,
        host: &str,
        destination: &Destination,
        first: &[u8],
        config: &Config,
    ) -> Result<Stream, Refusal> {
        let answering = self.resolver.answering(destination).map_err(|nobody| match nobody {
            Nobody::UnknownHost => (Outcome::UnknownName, &client_hello::UNRECOGNIZED_NAME[..]),
            Nobody::NoEndpoint(service) => {
                debug!(host, %service, "no ready endpoint");
                (Outcome::NoEndpoint, &client_hello::INTERNAL_ERROR[..])
            }
        })?;
        let Answering { addresses, dialer } = answering;
        for address in addresses.into_iter().take(ATTEMPTS) {
            let told = async {
                let mut stream = dialer.dial(address).await?;
                stream.write_all(first).await?;
                io::Result::Ok(stream)
            };
            match timeout(config.dial_timeout.0, told).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => info!(host, %address, error = %Chain(&error), "endpoint cannot be reached"),
                Err(_elapsed) => info!(host, %address, "endpoint takes too long to be reached"),
            }
        }
        Err((Outcome::Unreachable, &client_hello::INTERNAL_ERROR))
    }

    async fn carry(&self, pair: Pair<'_>, first: &[u8], config: &Config) {
        let Pair { client, mut endpoint, host, from, place, told } = pair;
        let start = Instant::now();
        let carried = Carried::default();
        carried.from_client.fetch_add((told + first.len()) as u64, Ordering::Relaxed);
        let patience = Patience { idle: config.idle_timeout.0, quiet: config.quiet.0 };
        debug!(%from, host, "connected");
        let ended = match endpoint.write_all(first).await {
            Ok(()) => splice::splice(client, endpoint, &carried, patience, &self.shutdown).await,
            Err(error) => Ended::Broken(error),
        };
        let outcome = match &ended {
            Ended::Closed => Outcome::Served,
            Ended::Broken(error) => {
                debug!(%from, host, %error, "connection broke");
                Outcome::Broken
            }
            Ended::Idle => Outcome::Idle,
            Ended::Drained => Outcome::Drained,
        };
        let (from_client, to_client) =
            (carried.from_client.load(Ordering::Relaxed), carried.to_client.load(Ordering::Relaxed));
        self.metrics.carried(Direction::FromClient, from_client);
        self.metrics.carried(Direction::ToClient, to_client);
        place.numbers.carried(from_client, to_client);
        place.numbers.ended(true);
        self.metrics.ended(outcome);
        let seconds = start.elapsed().as_secs_f64();
        info!(%from, host, ?outcome, from_client, to_client, seconds, "connection ended");
    }

    async fn refuse(&self, mut client: Stream, outcome: Outcome, alert: &[u8]) {
        self.metrics.ended(outcome);
        // The client may be gone already; it was refused either way.
        let _ = client.write_all(alert).await;
        let _ = client.shutdown().await;
    }
}

/// What the endpoint hears first: who the client is, if it wants to know, and what the client said.
fn first_words(
    client: &Stream,
    from: SocketAddr,
    host: &str,
    destination: &Destination,
    hello: Vec<u8>,
) -> Vec<u8> {
    if !destination.access.announce {
        return hello;
    }
    // Without an address of ours the client is the whole truth that we know.
    let here = client.local_addr().unwrap_or(from);
    match proxy_header::announce(from, here, host) {
        Ok(mut words) => {
            words.extend_from_slice(&hello);
            words
        }
        // A host name has at most 255 bytes, so there is room; an endpoint that waits for a header says so itself.
        Err(_) => hello,
    }
}

fn cluster_of_link(config: &Config, link: u32) -> Option<&str> {
    let clusters = config.egress.clusters.iter();
    clusters.filter(|(_, cluster)| cluster.link == Some(link)).map(|(name, _)| name.as_str()).next()
}
