use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use axum::Router;
use futures::future::BoxFuture;
use pilothouse_http::{CertificateSource, Exposure, Limits, Listener, Stack};
use pilothouse_pki::{Bundle, Identity, PrivateKey};
use pilothouse_runtime::{Clock, OnExit, Shutdown, Tasks};
use pilothouse_store::Store;
use prometheus_client::registry::Registry;

use crate::authorization::Authorizer;
use crate::catalogue::Catalogue;
use crate::config::Config;
use crate::error::Error;
use crate::metrics::Metrics;
use crate::pods::{Kubelets, NodeDialer};
use crate::server::{self, Server};
use crate::services::Allocator;
use crate::static_tokens::StaticTokens;
use crate::storage::Storage;
use crate::token_issuers::{TokenIssuers, TokenIssuersError};
use crate::tokens::Tokens;
use crate::{admission, aggregation, authorization, bootstrap, crds};

/// How long a request without a stream may take.
const TIME_LIMIT: Duration = Duration::from_secs(60);
/// Beyond the limit this server enforces itself, so that it is this server that answers.
const BODY_LIMIT: u64 = 16 << 20;
/// How long what was accepted may take to finish at the end. Watches end at once.
const DRAIN: Duration = Duration::from_secs(10);

/// What a server needs from outside.
pub struct Deps<'a> {
    /// Opened with [`catalog`](crate::catalog) and a keyring. May hold other servers' spaces as well.
    pub store: Store,
    /// The partition of the store that is this server's.
    pub space: String,
    /// The certificate it serves with.
    pub serving: CertificateSource,
    /// Whose client certificates are believed: the common name is the user, the organizations are the groups.
    pub client_authorities: Bundle,
    /// Signs and checks service account tokens.
    pub service_account_key: PrivateKey,
    /// Who tokens are issued by, and for.
    pub issuer: String,
    /// What time it is.
    pub clock: Clock,
    /// The way to the kubelets.
    pub nodes: Arc<dyn NodeDialer>,
    /// What is shown to kubelets, if they are to be called at all.
    pub kubelet_client: Option<Identity>,
    /// Who signs the kubelets' serving certificates.
    pub kubelet_authorities: Bundle,
    /// Where the numbers go.
    pub registry: &'a mut Registry,
}

/// A Kubernetes API server, bound and loaded, not yet answering.
#[derive(Debug)]
pub struct Service {
    listener: Listener,
    parts: Parts,
    http: pilothouse_http::Metrics,
}

#[derive(Debug)]
struct Parts {
    config: Config,
    clock: Clock,
    storage: Storage,
    built_in: Catalogue,
    tokens: Tokens,
    static_tokens: StaticTokens,
    token_issuers: TokenIssuers,
    kubelets: Kubelets,
    /// What they are shown, if that is to be read again.
    kubelet_client: Option<CertificateSource>,
    allocator: Allocator,
    metrics: Metrics,
}

impl Service {
    /// Takes the port and reads all objects.
    pub fn build(config: Config, deps: Deps<'_>) -> BoxFuture<'_, Result<Self, Error>> {
        Box::pin(Self::assemble(config, deps))
    }

    async fn assemble(config: Config, deps: Deps<'_>) -> Result<Self, Error> {
        let minor = minor(&config.version)?;
        let allocator = Allocator::new(&config.service_cidr)?;
        let tokens = Tokens::new(&deps.service_account_key, deps.issuer)?;
        let kubelets = Kubelets::new(deps.nodes, deps.kubelet_client, deps.kubelet_authorities)?;
        let registry = deps.registry.sub_registry_with_prefix("kubeapi");
        let http = pilothouse_http::Metrics::new(registry);
        let metrics = Metrics::new(registry);
        let certificates = deps.serving.inviting(deps.client_authorities)?;
        let name = "the Kubernetes API server";
        let listener =
            Listener::bind_with(name, config.listen, Exposure::Authenticated, certificates).await?;
        let listener = listener.with_limits(Limits { drain: DRAIN, ..Limits::default() });
        let storage = Storage::load(deps.store, &deps.space, metrics.clone()).await?;
        let built_in = Catalogue::built_in(minor);
        let clock = deps.clock;
        let static_tokens = StaticTokens::default();
        let parts = Parts {
            config,
            clock,
            storage,
            built_in,
            tokens,
            static_tokens,
            token_issuers: TokenIssuers::default(),
            kubelets,
            kubelet_client: None,
            allocator,
            metrics,
        };
        Ok(Self { listener, parts, http })
    }

    /// The same, and whoever shows one of these tokens is let in as its user.
    #[must_use]
    pub fn with_static_tokens(mut self, tokens: StaticTokens) -> Self {
        self.parts.static_tokens = tokens;
        self
    }

    /// The same, and whoever shows a token of one of these issuers is let in as the user it speaks of.
    ///
    /// # Errors
    ///
    /// If one of them is the issuer of the cluster's own tokens.
    pub fn with_token_issuers(mut self, issuers: TokenIssuers) -> Result<Self, TokenIssuersError> {
        issuers.check_against(self.parts.tokens.issuer())?;
        self.parts.token_issuers = issuers;
        Ok(self)
    }

    /// The same, and what kubelets are shown is read again when it is replaced, as what clients are shown is.
    ///
    /// # Errors
    ///
    /// If TLS cannot be set up with it.
    pub fn with_kubelet_client(mut self, client: CertificateSource) -> Result<Self, Error> {
        self.parts.kubelets = self.parts.kubelets.showing(client.clone())?;
        self.parts.kubelet_client = Some(client);
        Ok(self)
    }

    /// Where it listens; with the real port if port 0 was asked for.
    pub fn local_address(&self) -> SocketAddr {
        self.listener.local_address()
    }

    /// Answers until shutdown; returns when drained.
    pub fn run(self, shutdown: Shutdown) -> BoxFuture<'static, Result<(), Error>> {
        Box::pin(self.work(shutdown))
    }

    async fn work(self, shutdown: Shutdown) -> Result<(), Error> {
        let Self { listener, parts, http } = self;
        let Parts {
            mut config,
            clock,
            storage,
            built_in,
            tokens,
            static_tokens,
            token_issuers,
            kubelets,
            kubelet_client,
            allocator,
            metrics,
        } = parts;
        config.advertise = config.advertise.or_else(|| Some(listener.local_address()));
        let tasks = Tasks::new("kubeapi", shutdown.clone());
        if let Some(client) = kubelet_client {
            client.look_regularly(&tasks);
        }
        token_issuers.watch(&tasks);
        let server = Arc::new(Server {
            config,
            clock,
            shutdown: shutdown.clone(),
            tasks: tasks.clone(),
            storage: storage.clone(),
            catalogue: ArcSwap::from_pointee(built_in.clone()),
            built_in,
            tokens,
            static_tokens,
            token_issuers,
            authorizer: Authorizer::default(),
            kubelets,
            allocator,
            quotas: admission::Quotas::default(),
            metrics,
        });
        // The cache follows for as long as anything may still be answered, that is, until the listener has drained.
        let drained = Shutdown::new();
        let following = drained.clone();
        tasks.spawn("objects", OnExit::StopProcess, async move { storage.follow(following).await });
        if let Some(certificates) = listener.certificates() {
            certificates.look_regularly(&tasks);
        }
        let served = async {
            crds::refresh(&server);
            bootstrap::ensure(&server).await?;
            let definitions = Arc::clone(&server);
            tasks.spawn("definitions", OnExit::StopProcess, async move { crds::run(definitions).await });
            let roles = Arc::clone(&server);
            tasks.spawn("aggregation", OnExit::StopProcess, async move { aggregation::run(roles).await });
            let quotas = Arc::clone(&server);
            tasks.spawn("quotas", OnExit::StopProcess, async move { admission::run(quotas).await });
            let nodes = Arc::clone(&server);
            tasks.spawn("nodes", OnExit::StopProcess, async move { authorization::run(nodes).await });
            let app = Router::new().fallback(server::handle).with_state(Arc::clone(&server));
            let stack = Stack::new(http.clone()).with_time_limit(TIME_LIMIT).with_body_limit(BODY_LIMIT);
            listener.serve(stack.around(app), http, &tasks).await.map_err(Error::Serve)
        };
        let served = served.await;
        drained.request(pilothouse_runtime::Reason::Asked("the listener has drained".to_owned()));
        if served.is_err() {
            shutdown.request(pilothouse_runtime::Reason::Asked("the API server failed".to_owned()));
        }
        if let Err(stuck) = tasks.drain(DRAIN).await {
            tracing::error!(error = %stuck, "the API server did not end in time");
        }
        served
    }
}

/// The minor version, which decides what is served.
fn minor(version: &str) -> Result<u16, Error> {
    let mut parts = version.trim_start_matches('v').split('.');
    match (parts.next(), parts.next().map(str::parse)) {
        (Some("1"), Some(Ok(minor))) => Ok(minor),
        _ => Err(Error::Config {
            option: "version",
            problem: format!("`{version}` is no Kubernetes version; use one such as `1.33.4`"),
        }),
    }
}

impl fmt::Debug for Deps<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Deps")
            .field("space", &self.space)
            .field("issuer", &self.issuer)
            .finish_non_exhaustive()
    }
}
