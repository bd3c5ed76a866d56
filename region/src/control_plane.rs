//! An API server, the controllers and the scheduler in one process: the management cluster's control plane, and the `light`
//! payload of hosted clusters.
//!
//! The controllers are clients like any other, over TLS on the loopback. Their certificate comes from an authority that
//! exists only in the memory of this process and that only its own API server trusts.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, LocalBoxFuture};
use kube::Client;
use pilothouse_http::{CertificateError, CertificateSource, TlsFiles};
use pilothouse_kubeapi::{
    Anonymous, NodeDialer, StaticTokens, StaticTokensError, TokenIssuers, TokenIssuersError,
};
use pilothouse_pki::{Authority, AuthorityRequest, Bundle, Identity, LeafRequest, PrivateKey, Subject};
use pilothouse_runtime::{Clock, Shutdown};
use pilothouse_store::{Keyring, Location, Options, Store};
use prometheus_client::registry::Registry;
use serde::{Deserialize, Serialize};
use tokio::net::TcpStream;

use crate::kubernetes::{self, ClientError};

/// The name in every serving certificate of an API server.
const SERVER_NAME: &str = "kubernetes";
/// The partition of the store that holds the objects.
const SPACE: &str = "cluster";
/// Longer than a process lives.
const LIFETIME: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// What a control plane is told about itself. Everything that is a path is a file in PEM, unless said otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Where the API server listens.
    pub listen: SocketAddr,
    /// Where its objects are kept: a database file or a PostgreSQL URL.
    pub store: String,
    /// The key file of the store, whose last key seals. Without it, one beside the database.
    pub key_file: Option<PathBuf>,
    /// The Kubernetes version it speaks.
    pub version: String,
    /// The range Services get their addresses from.
    pub service_cidr: String,
    /// The range nodes get their pod ranges from. Without it nodes look after that themselves.
    pub cluster_cidr: Option<String>,
    /// The address pods inside the cluster reach it under.
    pub advertise: Option<SocketAddr>,
    /// The certificate it serves with.
    pub tls_certificate: PathBuf,
    /// Its key.
    pub tls_key: PathBuf,
    /// Whose client certificates are believed.
    pub client_authorities: PathBuf,
    /// The key that signs service account tokens.
    pub service_account_key: PathBuf,
    /// Who signs them, as a URL.
    pub issuer: String,
    /// The authority that pods are to trust.
    pub root_authority: PathBuf,
    /// What is shown to kubelets.
    pub kubelet_client_certificate: PathBuf,
    /// Its key.
    pub kubelet_client_key: PathBuf,
    /// The authority that signs certificates on request, such as those of nodes that join. Without it nobody does.
    pub signing_certificate: Option<PathBuf>,
    /// Its key.
    pub signing_key: Option<PathBuf>,
    /// Where joining nodes are told that the API server is. Without it, where it listens.
    pub public_server: Option<String>,
    /// The folder for volumes of claims, as nodes see it. Without it claims stay unbound.
    pub volume_root: Option<PathBuf>,
    /// Tokens of users, one line each: `token,user,uid,"group,group"`.
    pub token_file: Option<PathBuf>,
    /// Issuers whose tokens are believed: an `AuthenticationConfiguration` as kube-apiserver reads it, in YAML or JSON.
    pub authentication_config: Option<PathBuf>,
    /// Who may come without a certificate and without a token: `off`, `public-pages` or `on`.
    #[serde(default)]
    pub anonymous: Anonymous,
    /// Whether controllers and scheduler run beside the API server.
    #[serde(default = "on")]
    pub controllers: bool,
}

fn on() -> bool {
    true
}

/// A control plane that is bound and loaded, and not yet running.
#[derive(Debug)]
pub struct ControlPlane {
    api: pilothouse_kubeapi::Service,
    address: SocketAddr,
    controllers: Option<ControllersToBe>,
    store: Store,
    registry: Registry,
}

/// What the controllers are built from once the API server answers.
#[derive(Debug)]
struct ControllersToBe {
    config: pilothouse_controllers::Config,
    clock: Clock,
    identity: Identity,
    authorities: Bundle,
    signing_authority: Option<Authority>,
    public_server: Option<String>,
    volume_root: Option<PathBuf>,
}

/// Kubelets in the network that we are in ourselves.
#[derive(Clone, Copy, Debug)]
pub struct Direct;

/// Why a control plane does not run.
#[derive(Debug, thiserror::Error)]
pub enum ControlPlaneError {
    /// A certificate or key cannot be read or made.
    #[error("the credentials of the control plane cannot be used")]
    Credentials(#[from] pilothouse_pki::Error),
    /// A name does not belong into a certificate.
    #[error("the credentials of the control plane cannot be made")]
    Name(#[from] pilothouse_pki::InvalidName),
    /// The serving certificate cannot be used.
    #[error(transparent)]
    Serving(#[from] CertificateError),
    /// A file cannot be read.
    #[error("`{path}` cannot be read")]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The file of tokens cannot be used.
    #[error("the tokens of the control plane cannot be used")]
    Tokens(#[from] StaticTokensError),
    /// The file about issuers of tokens cannot be used.
    #[error("the issuers of tokens that the control plane is to believe cannot be used")]
    Issuers(#[from] TokenIssuersError),
    /// The store's place is none.
    #[error("`{0}` is not a place for a store")]
    Location(String),
    /// The store cannot be opened.
    #[error("the store of the control plane cannot be opened")]
    Store(#[from] pilothouse_store::Error),
    /// The API server failed.
    #[error("the API server failed")]
    Api(#[from] pilothouse_kubeapi::Error),
    /// The controllers failed.
    #[error("the controllers failed")]
    Controllers(#[from] pilothouse_controllers::Error),
    /// The controllers have no way to the API server.
    #[error("the controllers cannot reach the API server")]
    Client(#[from] ClientError),
}

// === impl ControlPlane ===

impl ControlPlane {
    /// Opens the store, takes the port and reads all objects. Kubelets are reached directly.
    ///
    /// # Errors
    ///
    /// If anything that the configuration names is missing or taken.
    pub fn build(
        config: Config,
        clock: Clock,
        shutdown: &Shutdown,
    ) -> LocalBoxFuture<'_, Result<Self, ControlPlaneError>> {
        Self::build_with(config, clock, shutdown, Arc::new(Direct))
    }

    /// The same, where kubelets are reached in another way.
    ///
    /// # Errors
    ///
    /// As for [`build`](Self::build).
    pub fn build_with(
        config: Config,
        clock: Clock,
        shutdown: &Shutdown,
        nodes: Arc<dyn NodeDialer>,
    ) -> LocalBoxFuture<'_, Result<Self, ControlPlaneError>> {
        Box::pin(Self::assemble(config, clock, shutdown, nodes))
    }

    async fn assemble(
        config: Config,
        clock: Clock,
        shutdown: &Shutdown,
        nodes: Arc<dyn NodeDialer>,
    ) -> Result<Self, ControlPlaneError> {
        let mut registry = Registry::default();
        let authorities = Bundle::load(&config.root_authority)?;
        let (identity, own_authority) = controllers_identity(&clock)?;
        let mut client_authorities = Bundle::load(&config.client_authorities)?;
        client_authorities.add(own_authority)?;
        let signing_authority = match (&config.signing_certificate, &config.signing_key) {
            (Some(certificate), Some(key)) => Some(Authority::from_pem(&read(certificate)?, &read(key)?)?),
            _ => None,
        };
        let mut kubelet_authorities = authorities.clone();
        if let Some(authority) = &signing_authority {
            // Whoever was given a certificate is let in with it, and nodes serve with theirs.
            client_authorities.add(authority.certificate().clone())?;
            kubelet_authorities.add(authority.certificate().clone())?;
        }
        let serving =
            TlsFiles { certificate: config.tls_certificate, key: config.tls_key, client_authorities: None };
        let kubelet_client = TlsFiles {
            certificate: config.kubelet_client_certificate,
            key: config.kubelet_client_key,
            client_authorities: None,
        };
        let kubelet_client = CertificateSource::load(kubelet_client, clock.clone())?;
        let tokens = match &config.token_file {
            Some(path) => StaticTokens::parse(&String::from_utf8_lossy(&read(path)?))?,
            None => StaticTokens::default(),
        };
        let issuers = match &config.authentication_config {
            Some(path) => TokenIssuers::parse(&String::from_utf8_lossy(&read(path)?))?,
            None => TokenIssuers::default(),
        };
        let store = open_store(&config.store, config.key_file, &clock, shutdown).await?;
        let deps = pilothouse_kubeapi::Deps {
            store: store.clone(),
            space: SPACE.to_owned(),
            serving: CertificateSource::load(serving, clock.clone())?,
            client_authorities,
            service_account_key: PrivateKey::from_pem(&read(&config.service_account_key)?)?,
            issuer: config.issuer,
            clock: clock.clone(),
            nodes,
            kubelet_client: None,
            kubelet_authorities,
            registry: &mut registry,
        };
        let api_config = pilothouse_kubeapi::Config {
            listen: config.listen,
            version: config.version,
            service_cidr: config.service_cidr,
            advertise: config.advertise,
            anonymous: config.anonymous,
            // Workers of hosted clusters say at registration what they are for.
            node_label_domains: vec!["node-role.kubernetes.io".to_owned()],
            nodes_are_neighbours: true,
            ..pilothouse_kubeapi::Config::default()
        };
        let api = pilothouse_kubeapi::Service::build(api_config, deps)
            .await?
            .with_static_tokens(tokens)
            .with_token_issuers(issuers)?
            .with_kubelet_client(kubelet_client)?;
        let address = api.local_address();
        let controllers = config.controllers.then(|| ControllersToBe {
            config: pilothouse_controllers::Config {
                cluster_cidr: config.cluster_cidr,
                ..pilothouse_controllers::Config::default()
            },
            clock,
            identity,
            authorities,
            signing_authority,
            public_server: config.public_server,
            volume_root: config.volume_root,
        });
        Ok(Self { api, address, controllers, store, registry })
    }

    /// Where the API server listens.
    pub fn local_address(&self) -> SocketAddr {
        self.address
    }

    /// The store below, to be closed when everything has ended.
    pub fn store(&self) -> Store {
        self.store.clone()
    }

    /// Serves and controls until shutdown; returns when drained.
    ///
    /// # Errors
    ///
    /// If a part fails.
    pub fn run(self, shutdown: Shutdown) -> BoxFuture<'static, Result<(), ControlPlaneError>> {
        Box::pin(self.work(shutdown))
    }

    async fn work(self, shutdown: Shutdown) -> Result<(), ControlPlaneError> {
        let Self { api, address, controllers, mut registry, .. } = self;
        let api = async { api.run(shutdown.clone()).await.map_err(ControlPlaneError::from) };
        let controllers = async {
            let Some(controllers) = controllers else { return Ok(()) };
            let client = controllers.client(address).await?;
            // A cluster that signs nothing has nobody to introduce itself to.
            let listening = controllers.signing_authority.is_some().then(|| format!("https://{address}"));
            let deps = pilothouse_controllers::Deps {
                client,
                clock: controllers.clock,
                signing_authority: controllers.signing_authority,
                server: controllers.public_server.or(listening),
                root_authority_pem: controllers.authorities.to_pem(),
                volume_root: controllers.volume_root,
                registry: &mut registry,
            };
            let controllers = pilothouse_controllers::Service::build(controllers.config, deps).await?;
            controllers.run(shutdown.clone()).await.map_err(ControlPlaneError::from)
        };
        futures::try_join!(api, controllers)?;
        Ok(())
    }
}

// === impl ControllersToBe ===

impl ControllersToBe {
    async fn client(&self, address: SocketAddr) -> Result<Client, ClientError> {
        let host = if address.ip().is_unspecified() { Ipv4Addr::LOCALHOST.into() } else { address.ip() };
        let address = SocketAddr::new(host, address.port());
        let target = kubernetes::Target {
            server: format!("https://{address}"),
            server_name: Some(SERVER_NAME),
            authorities: &self.authorities,
        };
        kubernetes::client(&target, "controllers", &self.identity).await
    }
}

// === impl Direct ===

impl NodeDialer for Direct {
    fn dial(&self, address: SocketAddr) -> BoxFuture<'_, io::Result<TcpStream>> {
        TcpStream::connect(address).boxed()
    }
}

/// A certificate that may do everything, and the authority that signed it, neither of which leaves this process.
fn controllers_identity(clock: &Clock) -> Result<(Identity, pilothouse_pki::Certificate), ControlPlaneError> {
    let request = AuthorityRequest::new(Subject::try_new("this process")?).with_lifetime(LIFETIME);
    let authority = Authority::self_signed(&request, clock)?;
    let subject =
        Subject::try_new("system:kube-controller-manager")?.with_organizations(["system:masters"])?;
    let identity = authority.issue(&LeafRequest::client(subject).with_lifetime(LIFETIME), clock)?;
    Ok((identity, authority.certificate().clone()))
}

async fn open_store(
    place: &str,
    key_file: Option<PathBuf>,
    clock: &Clock,
    shutdown: &Shutdown,
) -> Result<Store, ControlPlaneError> {
    let location: Location = place.parse().map_err(|_| ControlPlaneError::Location(place.to_owned()))?;
    let beside = format!("{place}.keys");
    let given = key_file.is_some();
    let keyring = match key_file {
        // A database that is older than the file may have been sealed with a key of its own.
        Some(file) if Path::new(&beside).exists() => {
            Keyring::open(file.to_string_lossy().into_owned())?.and_open_with(beside)?
        }
        Some(file) => Keyring::open_or_create(file.to_string_lossy().into_owned())?,
        None => Keyring::open_or_create(beside)?,
    };
    let options = Options::new(location, pilothouse_kubeapi::catalog(), shutdown.clone());
    let store = Store::open(Options { keyring: Some(keyring), clock: clock.clone(), ..options }).await?;
    if given {
        // Whoever changed the file may forget the former keys as soon as we answer.
        store.seal_with_last_key().await?;
    }
    Ok(store)
}

fn read(path: &Path) -> Result<Vec<u8>, ControlPlaneError> {
    std::fs::read(path).map_err(|source| ControlPlaneError::File { path: path.to_owned(), source })
}
