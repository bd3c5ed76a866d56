//! The way out, for clusters that have no other: HTTP's CONNECT.
//!
//! Who asks is known before a word is said: by the listener, which only one cluster can reach, or by the number that a private
//! link puts into its PROXY header. Where they may go is on a list, by name. The name is not enough: everybody who answers for it
//! must have an address of the internet, or one that is listed as well, and it is that very address that is connected to, so
//! that no second answer can be another.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::{Method, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::{TokioIo, TokioTimer};
use pilothouse_runtime::Chain;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout, timeout_at};
use tracing::debug;

use crate::config;
use crate::metrics::Outcome;
use crate::proxy_header;

mod grant;
mod lookup;
mod permission;
mod reserved;

pub(crate) use grant::Grant;
pub use permission::{NoPermission, Permission};

/// How many addresses of a host are tried.
const ATTEMPTS: usize = 3;
/// The longest request line with its headers: the least that the library takes.
const LONGEST_REQUEST: usize = 8 * 1024;

/// Where one cluster may go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Permissions<'a> {
    everybody: &'a [Permission],
    own: &'a [Permission],
    kept: Kept,
}

/// Where a cluster's own list is.
#[derive(Clone, Copy, Debug)]
enum Kept {
    Configuration,
    Route,
}

/// A request that was granted: the client, once it has been told so, and whom it asked for.
pub(crate) struct Granted {
    pub(crate) client: TcpStream,
    /// What the client has said already.
    pub(crate) first: Vec<u8>,
    pub(crate) server: TcpStream,
    pub(crate) host: String,
}

/// Why a request was not granted.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error("{0} is not served here; use CONNECT")]
    Method(Method),
    #[error("`{0}` is no host with a port; ask for one such as example.com:443")]
    Target(String),
    #[error(
        "{host}:{port} is not on the list of cluster {cluster}; have it added to {}",
        .kept.of(.cluster)
    )]
    NotListed { cluster: String, host: String, port: u16, kept: Kept },
    #[error(
        "{host} is {address}, which is no address of the internet; have that listed as well, if it is meant"
    )]
    Reserved { host: String, address: IpAddr },
    #[error("{host} cannot be resolved: {why}; is the name right?")]
    Unresolved { host: String, why: String },
    #[error("{host} cannot be reached; try again later")]
    Unreachable { host: String },
}

// === impl Permissions ===

impl<'a> Permissions<'a> {
    /// Those of a cluster of the configuration, if it may ask at all.
    pub(crate) fn of(egress: &'a config::Egress, cluster: &str) -> Option<Self> {
        let own = &egress.clusters.get(cluster)?.allow;
        Some(Self { everybody: &egress.allow, own, kept: Kept::Configuration })
    }

    /// Those of a cluster that has routes.
    pub(crate) fn granted(egress: &'a config::Egress, grant: &'a Grant) -> Self {
        Self { everybody: &egress.allow, own: &grant.allow, kept: Kept::Route }
    }

    fn any(&self, matches: impl Fn(&Permission) -> bool) -> bool {
        self.everybody.iter().chain(self.own).any(matches)
    }

    fn check_host(&self, cluster: &str, host: &str, port: u16) -> Result<(), Refusal> {
        if self.any(|permission| permission.names(host, port)) {
            return Ok(());
        }
        Err(Refusal::NotListed { cluster: cluster.to_owned(), host: host.to_owned(), port, kept: self.kept })
    }

    fn check_address(&self, host: &str, address: SocketAddr) -> Result<(), Refusal> {
        let (ip, port) = (address.ip().to_canonical(), address.port());
        if !reserved::is_reserved(ip) || self.any(|permission| permission.lists(ip, port)) {
            return Ok(());
        }
        Err(Refusal::Reserved { host: host.to_owned(), address: ip })
    }
}

// === impl Kept ===

impl Kept {
    fn of(self, cluster: &str) -> String {
        match self {
            Self::Configuration => format!("`egress.clusters.{cluster}.allow`"),
            Self::Route => "the annotation `pilothouse.dev/egress-allow` of its HostedCluster".to_owned(),
        }
    }
}

// === impl Refusal ===

impl Refusal {
    fn status(&self) -> StatusCode {
        match self {
            Self::Method(_) => StatusCode::METHOD_NOT_ALLOWED,
            Self::Target(_) => StatusCode::BAD_REQUEST,
            Self::NotListed { .. } | Self::Reserved { .. } => StatusCode::FORBIDDEN,
            Self::Unresolved { .. } | Self::Unreachable { .. } => StatusCode::BAD_GATEWAY,
        }
    }

    fn outcome(&self) -> Outcome {
        match self {
            Self::Method(_) | Self::Target(_) => Outcome::BadRequest,
            Self::NotListed { .. } => Outcome::NotListed,
            Self::Reserved { .. } => Outcome::ReservedAddress,
            Self::Unresolved { .. } => Outcome::UnknownName,
            Self::Unreachable { .. } => Outcome::Unreachable,
        }
    }

    fn response(&self) -> Response<String> {
        let mut response = Response::new(format!("{self}\n"));
        *response.status_mut() = self.status();
        if matches!(self, Self::Method(_)) {
            response.headers_mut().insert(header::ALLOW, header::HeaderValue::from_static("CONNECT"));
        }
        response
    }
}

/// Reads one request and answers it; gives back what was granted.
pub(crate) async fn negotiate(
    client: TcpStream,
    cluster: &str,
    permissions: Permissions<'_>,
    patience: Patience,
    lookups: &Arc<Semaphore>,
) -> Result<Granted, Outcome> {
    let mut beginning = [0; 12];
    let peeked = timeout_at(patience.request, client.peek(&mut beginning)).await;
    match peeked {
        Err(_elapsed) => return Err(Outcome::SlowHello),
        Ok(Err(_)) | Ok(Ok(0)) => return Err(Outcome::Left),
        // It comes from somebody who is not believed, or is not the first one.
        Ok(Ok(read)) if proxy_header::begins(&beginning[..read]) => return Err(Outcome::UntrustedProxy),
        Ok(Ok(_)) => {}
    }
    let granted = Mutex::new(None);
    let refused = Mutex::new(Outcome::Left);
    let answer = service_fn(|mut request: Request<Incoming>| {
        let (granted, refused) = (&granted, &refused);
        async move {
            let response = match connect(&request, cluster, permissions, patience.dial, lookups).await {
                Ok((server, host)) => {
                    let upgrade = hyper::upgrade::on(&mut request);
                    *granted.lock().unwrap_or_else(PoisonError::into_inner) = Some((upgrade, server, host));
                    Response::new(String::new())
                }
                Err(refusal) => {
                    debug!(cluster, %refusal, "way out refused");
                    *refused.lock().unwrap_or_else(PoisonError::into_inner) = refusal.outcome();
                    refusal.response()
                }
            };
            Ok::<_, std::convert::Infallible>(response)
        }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        // What is left of it.
        .header_read_timeout(patience.request.saturating_duration_since(Instant::now()))
        .max_buf_size(LONGEST_REQUEST)
        .keep_alive(false)
        .serve_connection(TokioIo::new(client), answer)
        .with_upgrades()
        .await;
    let granted: Option<(OnUpgrade, TcpStream, String)> =
        granted.lock().unwrap_or_else(PoisonError::into_inner).take();
    match (granted, served) {
        (Some((upgrade, server, host)), Ok(())) => {
            let upgraded = upgrade.await.map_err(|_| Outcome::Left)?;
            // It is what was put in, a few lines above.
            let parts = upgraded.downcast::<TokioIo<TcpStream>>().map_err(|_| Outcome::Broken)?;
            Ok(Granted { client: parts.io.into_inner(), first: parts.read_buf.to_vec(), server, host })
        }
        (_, Err(error)) => {
            debug!(cluster, error = %Chain(&error), "no usable request");
            Err(if error.is_timeout() {
                Outcome::SlowHello
            } else if error.is_parse() {
                Outcome::BadRequest
            } else {
                Outcome::Left
            })
        }
        (None, Ok(())) => Err(*refused.lock().unwrap_or_else(PoisonError::into_inner)),
    }
}

/// How long things may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// When a client must have said whom it wants.
    pub(crate) request: Instant,
    pub(crate) dial: Duration,
}

/// Checks a request and connects to whom it asks for.
async fn connect<B>(
    request: &Request<B>,
    cluster: &str,
    permissions: Permissions<'_>,
    patience: Duration,
    lookups: &Arc<Semaphore>,
) -> Result<(TcpStream, String), Refusal> {
    if request.method() != Method::CONNECT {
        return Err(Refusal::Method(request.method().clone()));
    }
    let bad_target = || Refusal::Target(request.uri().to_string());
    let authority = request.uri().authority().ok_or_else(bad_target)?;
    let port = authority.port_u16().filter(|port| *port != 0).ok_or_else(bad_target)?;
    let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
    permissions.check_host(cluster, &host, port)?;
    let unresolved = |why: String| Refusal::Unresolved { host: host.clone(), why };
    let found = lookup::find(&host, port, lookups, patience).await;
    let found = found.map_err(|error| unresolved(error.to_string()))?;
    if found.is_empty() {
        return Err(unresolved("it has no address".to_owned()));
    }
    // All of them before any: a name that leads home with one of its answers does so with the next.
    found.iter().try_for_each(|address| permissions.check_address(&host, *address))?;
    for address in found.into_iter().take(ATTEMPTS) {
        match timeout(patience, TcpStream::connect(address)).await {
            Ok(Ok(server)) => return Ok((server, host)),
            Ok(Err(error)) => debug!(cluster, host, %address, %error, "server cannot be reached"),
            Err(_elapsed) => debug!(cluster, host, %address, "server takes too long to be reached"),
        }
    }
    Err(Refusal::Unreachable { host })
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;

    use super::*;

    /// Whoever has taken all the time for a header before this has none for a request.
    #[tokio::test]
    async fn time_for_a_request_does_not_begin_anew() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let patience = Patience { request: Instant::now(), dial: Duration::from_secs(5) };
        let egress = config::Egress {
            clusters: [("first".to_owned(), config::EgressCluster::default())].into(),
            ..config::Egress::default()
        };
        for said in [&b""[..], b"CONNECT example.com:443 HTTP/1.1\r\nhost:"] {
            let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            client.write_all(said).await.unwrap();
            let (server, _) = listener.accept().await.unwrap();
            let permissions = Permissions::of(&egress, "first").unwrap();
            let lookups = Arc::new(Semaphore::new(1));
            let refused = negotiate(server, "first", permissions, patience, &lookups);
            let refused = timeout(Duration::from_secs(20), refused).await.unwrap();
            assert_eq!(refused.err(), Some(Outcome::SlowHello));
        }
    }
}
