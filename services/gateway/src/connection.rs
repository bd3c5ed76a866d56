//! One client's connection, from its first byte to its end.

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arc_swap::ArcSwap;
use futures::future::poll_immediate;
use pilothouse_runtime::{Chain, Shutdown};
use tokio::io::AsyncWriteExt;
use tokio::time::{Instant, timeout, timeout_at};
use tracing::{debug, info};

use crate::access::{Access, Denied};
use crate::address::Addresses;
use crate::client_hello::{self, ClientHello, HelloError};
use crate::cluster::{ClusterName, ClusterPlace, Clusters};
use crate::config::{Config, Reach};
use crate::doors::Door;
use crate::egress::{self, Granted, Permissions};
use crate::metrics::{Direction, Metrics, Outcome};
use crate::proxy_header::{self, Announced, HeaderError};
use crate::range::Range;
use crate::resolve::{Answering, Destination, Nobody, Resolver};
use crate::route::Owner;
use crate::splice::{self, Carried, Ended, Patience};
use crate::stream::Stream;
use crate::waiting::WaitingRoom;

/// How many endpoints of a service are tried for one client.
const ATTEMPTS: usize = 3;

/// What every connection needs.
#[derive(Debug)]
pub(crate) struct Connections {
    pub(crate) config: Arc<ArcSwap<Config>>,
    pub(crate) resolver: Resolver,
    pub(crate) clusters: Arc<Clusters>,
    pub(crate) addresses: Addresses,
    pub(crate) waiting: WaitingRoom,
    pub(crate) metrics: Metrics,
    pub(crate) shutdown: Shutdown,
}

/// Who asks for the way out.
#[derive(Clone, Debug)]
enum Asking {
    /// A cluster that the configuration names.
    Configured(String),
    /// One that comes through this link, as its routes say.
    Hosted { cluster: ClusterName, link: u32, access: Arc<Access> },
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

/// What there is to say of a connection at its end.
struct Journey<'a> {
    host: &'a str,
    from: SocketAddr,
    carried: Carried,
    start: Instant,
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
            Door::In(reach) => {
                let enter = || self.addresses.enter(from.ip(), config.max_connections_per_address);
                let place = (*reach != Reach::Internal).then(enter);
                if matches!(place, Some(None)) {
                    debug!(%from, "too many connections from there");
                    return self.metrics.ended(Outcome::AddressLimit);
                }
                self.lead_in(client, from, *reach, &config, deadline).await;
                drop(place);
            }
            Door::Out(cluster) => {
                let configured = cluster.clone().map(Asking::Configured);
                match configured.or_else(|| self.linked(announced.link?, &config)) {
                    // Apart, for it is large, and every connection would have room for it.
                    Some(asking) => {
                        Box::pin(self.lead_out(client, from, &asking, &config, deadline)).await;
                    }
                    None => {
                        debug!(%peer, %from, link = announced.link, "nobody's private link");
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
        match self.first_word(proxy_header::read(client), config, deadline).await? {
            Ok(announced) => Ok(announced),
            // Balancers look whether somebody is there, and leave.
            Err(HeaderError::Left(_)) => Err(Outcome::Left),
            Err(error) => {
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
            debug!(%from, host, "nobody has this host");
            return self.refuse(client, Outcome::UnknownName, &client_hello::UNRECOGNIZED_NAME).await;
        };
        let exists = || self.resolver.find(host).is_some_and(|found| found.cluster == destination.cluster);
        let refused = match self.enter(&destination, from, reach, config, exists) {
            Ok(place) => {
                let first = first_words(&client, from, host, &destination, hello.bytes);
                match self.endpoint(host, &destination, &first, config).await {
                    Ok(endpoint) => {
                        let pair = Pair { client, endpoint, host, from, place, told: first.len() };
                        return self.carry(pair, config).await;
                    }
                    Err(refused) => refused,
                }
            }
            Err(refused) => refused,
        };
        let (outcome, alert) = refused;
        debug!(%from, host, ?outcome, "connection refused");
        self.clusters.numbers(&destination.cluster, config.cluster_labels, exists).ended(false);
        self.refuse(client, outcome, alert).await;
    }

    /// Whose private link this is: a cluster's of the configuration, or one's that has routes.
    fn linked(&self, link: u32, config: &Config) -> Option<Asking> {
        if let Some((name, _)) = config.egress.clusters.iter().find(|(_, cluster)| cluster.link == Some(link))
        {
            return Some(Asking::Configured(name.clone()));
        }
        let Owner { key, access, .. } = self.resolver.hosts.linked(link)?;
        Some(Asking::Hosted { cluster: key.cluster(), link, access })
    }

    async fn lead_out(
        &self,
        client: Stream,
        from: SocketAddr,
        asking: &Asking,
        config: &Config,
        deadline: Instant,
    ) {
        let Some(permissions) = asking.permissions(config) else {
            debug!(%from, cluster = asking.shown(), "cluster may not ask for the way out any more");
            return self.metrics.ended(Outcome::UnknownLink);
        };
        let (cluster, name) = (asking.shown(), asking.name());
        // Not in the configuration that this connection goes by, but in the one that there is.
        let exists = || match asking {
            Asking::Configured(cluster) => self.config.load().egress.clusters.contains_key(cluster),
            Asking::Hosted { cluster, link, .. } => {
                self.resolver.hosts.linked(*link).is_some_and(|owner| owner.key.cluster() == *cluster)
            }
        };
        let (most, labels) = (config.max_connections_per_cluster, config.cluster_labels);
        let (place, mut presence) = match self.clusters.enter_way_out(&name, most, labels, exists) {
            Ok(entered) => entered,
            Err(numbers) => {
                numbers.ended(false);
                return self.metrics.ended(Outcome::ClusterLimit);
            }
        };
        let patience = egress::Patience { request: deadline, dial: config.dial_timeout.0 };
        let Ok(client) = client.into_watched() else { return self.metrics.ended(Outcome::Left) };
        let granted = tokio::select! {
            granted = egress::negotiate(client, cluster, permissions, patience, &place.lookups) => granted,
            () = self.shutdown.requested() => Err(Outcome::Drained),
            () = presence.ended() => Err(Outcome::UnknownLink),
        };
        match granted {
            Ok(Granted { client, first, server, host }) => {
                let (client, endpoint) = (client.into(), server.into());
                let pair = Pair { client, endpoint, host: &host, from, place, told: 0 };
                let journey = Journey::begin(&pair, first.len());
                let Pair { client, endpoint, place, .. } = pair;
                let ended = tokio::select! {
                    ended = self.splice(client, endpoint, &first, &journey.carried, config) => ended,
                    () = presence.ended() => Ended::Gone,
                };
                self.end(journey, &place, ended);
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
        let read = self.first_word(client_hello::read(client, limit), config, deadline).await;
        match read.map_err(|outcome| (outcome, Vec::new()))? {
            Ok(hello) => Ok(hello),
            Err(error) => {
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

    /// Reads what a client says before it is known whom it wants. Mostly that is there already, and nobody waits.
    async fn first_word<T>(
        &self,
        said: impl Future<Output = T>,
        config: &Config,
        deadline: Instant,
    ) -> Result<T, Outcome> {
        let mut said = pin!(said);
        if let Some(said) = poll_immediate(said.as_mut()).await {
            return Ok(said);
        }
        let mut seat = self.waiting.enter(config.max_connections_unnamed);
        tokio::select! {
            // First: what is there already is read, also at shutdown. Whoever has said all of it believes to be connected.
            biased;
            said = timeout_at(deadline, said) => said.map_err(|_elapsed| Outcome::SlowHello),
            // Nothing has begun that could be finished.
            () = self.shutdown.requested() => Err(Outcome::Drained),
            () = seat.lost() => Err(Outcome::Overtaken),
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
                Ok(Err(error)) => {
                    debug!(host, %address, error = %Chain(&error), "endpoint cannot be reached")
                }
                Err(_elapsed) => debug!(host, %address, "endpoint takes too long to be reached"),
            }
        }
        Err((Outcome::Unreachable, &client_hello::INTERNAL_ERROR))
    }

    async fn carry(&self, pair: Pair<'_>, config: &Config) {
        let journey = Journey::begin(&pair, 0);
        let Pair { client, endpoint, place, .. } = pair;
        let ended = self.splice(client, endpoint, &[], &journey.carried, config).await;
        self.end(journey, &place, ended);
    }

    /// Carries bytes, after those that the client has said already.
    async fn splice(
        &self,
        client: Stream,
        mut endpoint: Stream,
        first: &[u8],
        carried: &Carried,
        config: &Config,
    ) -> Ended {
        let patience = Patience { idle: config.idle_timeout.0, quiet: config.quiet.0 };
        match endpoint.write_all(first).await {
            Ok(()) => splice::splice(client, endpoint, carried, patience, &self.shutdown).await,
            Err(error) => Ended::Broken(error),
        }
    }

    fn end(&self, journey: Journey<'_>, place: &ClusterPlace, ended: Ended) {
        let Journey { host, from, carried, start } = journey;
        let outcome = match &ended {
            Ended::Closed => Outcome::Served,
            Ended::Broken(error) => {
                debug!(%from, host, %error, "connection broke");
                Outcome::Broken
            }
            Ended::Idle => Outcome::Idle,
            Ended::Drained => Outcome::Drained,
            Ended::Gone => Outcome::Gone,
        };
        let (from_client, to_client) =
            (carried.from_client.load(Ordering::Relaxed), carried.to_client.load(Ordering::Relaxed));
        self.metrics.carried(Direction::FromClient, from_client);
        self.metrics.carried(Direction::ToClient, to_client);
        place.numbers.carried(from_client, to_client);
        place.numbers.ended(true);
        self.metrics.ended(outcome);
        let seconds = start.elapsed().as_secs_f64();
        debug!(%from, host, ?outcome, from_client, to_client, seconds, "connection ended");
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

// === impl Journey ===

impl<'a> Journey<'a> {
    /// Of two that are connected, where the client has said so much already.
    fn begin(pair: &Pair<'a>, said: usize) -> Self {
        let Pair { host, from, told, .. } = *pair;
        debug!(%from, host, "connected");
        let carried = Carried::default();
        carried.from_client.fetch_add((told + said) as u64, Ordering::Relaxed);
        Self { host, from, carried, start: Instant::now() }
    }
}

// === impl Asking ===

impl Asking {
    /// What people know it by.
    fn shown(&self) -> &str {
        match self {
            Self::Configured(cluster) => cluster,
            Self::Hosted { cluster, .. } => &cluster.cluster,
        }
    }

    fn name(&self) -> ClusterName {
        match self {
            Self::Configured(cluster) => ClusterName::configured(cluster),
            Self::Hosted { cluster, .. } => cluster.clone(),
        }
    }

    /// Where it may go, if it may ask at all.
    fn permissions<'a>(&'a self, config: &'a Config) -> Option<Permissions<'a>> {
        match self {
            Self::Configured(cluster) => Permissions::of(&config.egress, cluster),
            Self::Hosted { access, .. } => {
                let grant = access.way_out.as_ref().ok()?.as_ref()?;
                Some(Permissions::granted(&config.egress, grant))
            }
        }
    }
}
