use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use pilothouse_access::{Access, Audit, Gate, Through, authorize};
use pilothouse_clusters_service_api as clusters_service;
use pilothouse_http::{Health, Listener, Stack};
use pilothouse_records::Records;
use pilothouse_runtime::{Clock, OnExit, Shutdown, Tasks};
use pilothouse_store::Store;
use prometheus_client::registry::Registry;

use crate::access::{OPEN, SubscriptionTenants};
use crate::config::Config;
use crate::error::Error;
use crate::metrics::Metrics;
use crate::release::Releases;
use crate::{admin, router, sweep};

/// How long connections have to end after the listener has drained.
const DRAIN: Duration = Duration::from_secs(5);

/// What the frontend needs from outside.
#[derive(Debug)]
pub struct Deps<'a> {
    /// Opened with [`pilothouse_records::catalog`].
    pub store: Store,
    /// Asked in advance whether it would refuse.
    pub clusters_service: clusters_service::Client,
    /// Dates operations.
    pub clock: Clock,
    /// Told whether callers can be told apart, and certificates are good.
    pub health: Health,
    /// Where the numbers go; a sub-registry with the service's prefix.
    pub registry: &'a mut Registry,
}

/// The frontend with its ports.
#[derive(Debug)]
pub struct Service {
    listener: Listener,
    admin: Option<Surface>,
    authorization: Option<Listener>,
    access: Access,
    audit: Audit,
    app: App,
}

/// The administrators' surface with its port.
#[derive(Debug)]
struct Surface {
    listener: Listener,
    access: Access,
    gate: Gate,
    metrics: pilothouse_http::Metrics,
}

/// What handlers share. A cheap handle.
#[derive(Clone, Debug)]
pub(crate) struct App {
    pub(crate) records: Records,
    pub(crate) clusters_service: clusters_service::Client,
    pub(crate) clock: Clock,
    pub(crate) metrics: Metrics,
    pub(crate) gate: Gate,
    pub(crate) releases: Releases,
    pub(crate) config: Arc<Config>,
}

impl Service {
    /// Takes the ports.
    ///
    /// # Errors
    ///
    /// When a port is taken, or is off the loopback and nobody is asked for credentials there.
    pub fn build(config: Config, deps: Deps<'_>) -> BoxFuture<'_, Result<Self, Error>> {
        Box::pin(Self::assemble(config, deps))
    }

    async fn assemble(config: Config, deps: Deps<'_>) -> Result<Self, Error> {
        let Deps { store, clusters_service, clock, health, registry } = deps;
        let metrics = Metrics::register(registry);
        let records = Records::new(store);
        let audit = Audit::open(&config.audit, registry)?;
        let access = Access::build(config.access.clone(), clock.clone(), registry)?;
        access.register("frontend-issuer-keys", &health);
        let listener = access.bind("the frontend's public listener", &config.listener).await?;
        watch_certificate("frontend-certificate", &listener, &health);
        let tenants = Through::Callers(Arc::new(SubscriptionTenants(records.clone())));
        let gate = Gate::new(access.clone(), audit.clone(), tenants).with_open_paths(OPEN);
        let authorization = match &config.authorization {
            // It would let everybody through, and the mesh would believe it.
            Some(_) if config.access.is_none() => return Err(Error::AuthorizationOfNobody),
            Some(listener) => {
                Some(Listener::bind("the frontend's authorization listener", listener, &clock).await?)
            }
            None => None,
        };
        let admin = match &config.admin {
            None => None,
            Some(admin) => {
                let registry = registry.sub_registry_with_prefix("admin");
                let access = Access::build(admin.access.clone(), clock.clone(), registry)?;
                access.register("admin-issuer-keys", &health);
                let listener = access.bind("the frontend's admin listener", &admin.listener).await?;
                watch_certificate("admin-certificate", &listener, &health);
                let gate = Gate::new(access.clone(), audit.clone(), Through::Administrators);
                let metrics = pilothouse_http::Metrics::new(registry);
                Some(Surface { listener, access, gate, metrics })
            }
        };
        let releases = Releases::default();
        let app = App { records, clusters_service, clock, metrics, gate, releases, config: Arc::new(config) };
        Ok(Self { listener, admin, authorization, access, audit, app })
    }

    /// Where it listens; with the real port if port 0 was asked for.
    pub fn local_address(&self) -> SocketAddr {
        self.listener.local_address()
    }

    /// Where administrators are served, if they are.
    pub fn admin_address(&self) -> Option<SocketAddr> {
        self.admin.as_ref().map(|admin| admin.listener.local_address())
    }

    /// Where a mesh may ask, if it may.
    pub fn authorization_address(&self) -> Option<SocketAddr> {
        self.authorization.as_ref().map(Listener::local_address)
    }

    /// Answers until shutdown; returns when what was accepted has been answered.
    ///
    /// # Errors
    ///
    /// When a socket fails, or connections do not end.
    pub fn run(self, shutdown: Shutdown) -> BoxFuture<'static, Result<(), Error>> {
        Box::pin(self.work(shutdown))
    }

    async fn work(self, shutdown: Shutdown) -> Result<(), Error> {
        let Self { listener, admin, authorization, access, audit, app } = self;
        let tasks = Tasks::new("frontend", shutdown);
        // Of its own, so that it still writes while everything else is drained.
        let writing = Tasks::new("frontend", tasks.shutdown().clone());
        audit.run(&writing).await;
        access.watch(&tasks);
        for listener in [Some(&listener), admin.as_ref().map(|admin| &admin.listener), authorization.as_ref()]
        {
            if let Some(certificates) = listener.and_then(Listener::certificates) {
                certificates.watch(&tasks);
            }
        }
        if let Some(Surface { listener, access, gate, metrics }) = admin {
            access.watch(&tasks);
            let router = Stack::new(metrics.clone()).around(gate.around(admin::routes(app.clone())));
            let own = tasks.clone();
            tasks.spawn(
                "admin",
                OnExit::StopProcess,
                async move { listener.serve(router, metrics, &own).await },
            );
        }
        let metrics = app.metrics.http.clone();
        if let Some(listener) = authorization {
            let (metrics, own) = (metrics.clone(), tasks.clone());
            let router = Stack::new(metrics.clone()).around(authorize(app.gate.clone()));
            tasks.spawn("authorization", OnExit::StopProcess, async move {
                listener.serve(router, metrics, &own).await
            });
        }
        let (own, ending) = (app.clone(), tasks.shutdown().clone());
        tasks.spawn("deleted subscriptions", OnExit::StopProcess, async move {
            sweep::run(own, &ending).await;
            Ok(())
        });
        let public = router::public(app, Stack::new(metrics.clone()));
        let served = listener.serve(public, metrics, &tasks).await.map_err(Error::Serve);
        let drained = tasks.drain(DRAIN).await;
        audit.flush().await;
        writing.drain(DRAIN).await?;
        served?;
        Ok(drained?)
    }
}

fn watch_certificate(name: &str, listener: &Listener, health: &Health) {
    if let Some(certificates) = listener.certificates().cloned() {
        health.register(name, move || certificates.verdict());
    }
}
