//! As few connections as there may be for all that a process asks of an API server.
//!
//! A client of `kube` opens a connection for every watch, and for every request that goes on at the same time. Each costs a
//! handshake when it is opened, and buffers at both ends for as long as it is there. Over HTTP/2 one is enough for most,
//! and whoever watches hundreds of things has a few: servers limit what goes on in one connection, and let the rest wait.

use std::time::Duration;

use http::{Request, Response, Uri};
use hyper::rt::{Read, Write};
use hyper_rustls::{FixedServerNameResolver, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::{Connection, HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::retry::RetryPolicy;
use kube::client::{Body, ClientBuilder, ConfigExt as _};
use rustls::pki_types::{InvalidDnsNameError, ServerName};
use tower::retry::RetryLayer;
use tower::util::BoxCloneSyncService;
use tower::{BoxError, ServiceBuilder};

mod lanes;

use lanes::Lanes;
pub use lanes::Streamed;

/// How long a server may say nothing before it is asked whether it is there, and how long it may take to answer that.
const SILENCE: Duration = Duration::from_secs(30);
const PATIENCE: Duration = Duration::from_secs(20);

/// Sends requests to one server, over connections that are opened when they are needed.
pub type Requests = BoxCloneSyncService<Request<Body>, Response<Streamed>, BoxError>;

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    /// Credentials or authorities cannot be used.
    #[error("the settings of the Kubernetes client cannot be used")]
    Settings(#[source] Box<kube::Error>),
    /// The name that is expected in the server's certificate is none.
    #[error("`{name}` is not a name for a server's certificate")]
    ServerName {
        /// What was given.
        name: String,
        /// What is wrong with it.
        #[source]
        source: InvalidDnsNameError,
    },
}

/// A client by these settings.
///
/// # Errors
///
/// If they cannot be used. Whether the server is there is not looked at.
pub fn client(settings: &kube::Config) -> Result<kube::Client, ConnectionError> {
    let requests = requests(settings, connector(settings))?;
    Ok(ClientBuilder::new(requests, settings.default_namespace.clone()).build())
}

/// Opens connections as these settings say.
pub fn connector(settings: &kube::Config) -> HttpConnector {
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_nodelay(true);
    connector.set_connect_timeout(settings.connect_timeout);
    connector
}

/// What a client by these settings sends its requests with, where `connector` opens the connection.
///
/// # Errors
///
/// As for [`client`].
pub fn requests<C>(settings: &kube::Config, connector: C) -> Result<Requests, ConnectionError>
where
    C: tower::Service<Uri> + Clone + Send + Sync + 'static,
    C::Response: Connection + Read + Write + Unpin + Send + 'static,
    C::Future: Send + 'static,
    C::Error: Into<BoxError>,
{
    // One crypto provider in the whole build; somebody else may have installed it already.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let unusable = |error| ConnectionError::Settings(Box::new(error));
    let tls = settings.rustls_client_config().map_err(unusable)?;
    let mut https = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
    if let Some(name) = &settings.tls_server_name {
        let parsed = ServerName::try_from(name.clone())
            .map_err(|source| ConnectionError::ServerName { name: name.clone(), source })?;
        https = https.with_server_name_resolver(FixedServerNameResolver::new(parsed));
    }
    let https = https.enable_http2().wrap_connector(connector);
    let retries = settings.default_retry.then(|| RetryLayer::new(RetryPolicy::server_retry()));
    // Each of them opens one connection, and another when that one breaks.
    let lanes = Lanes::new(move || {
        Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .http2_only(true)
            .http2_keep_alive_interval(SILENCE)
            .http2_keep_alive_timeout(PATIENCE)
            .build::<_, Body>(https.clone())
    });
    let service = ServiceBuilder::new()
        .layer(settings.base_uri_layer())
        .option_layer(retries)
        .option_layer(settings.auth_layer().map_err(unusable)?)
        .map_err(BoxError::from)
        .service(lanes);
    Ok(BoxCloneSyncService::new(service))
}
