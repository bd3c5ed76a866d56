use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use pilothouse_http::{AllowedCallers, Health, Listener, Metrics, Stack};
use pilothouse_runtime::{Chain, Clock, OnExit, Shutdown, Tasks};
use pilothouse_store::Store;
use prometheus_client::registry::Registry;

use crate::config::Config;
use crate::error::Error;
use crate::health::StoreState;
use crate::resources::Resources;
use crate::rest::{self, Rest};

/// How long what was accepted may take to finish at shutdown.
const DRAIN: Duration = Duration::from_secs(30);

/// What the cloud needs from outside.
#[derive(Debug)]
pub struct Deps<'a> {
    /// Opened with [`crate::catalog`].
    pub store: Store,
    /// The clock.
    pub clock: Clock,
    /// The readiness page.
    pub health: Health,
    /// Where numbers are registered; the prefix is the cloud's own.
    pub registry: &'a mut Registry,
}

/// The cloud, ready to run.
#[derive(Debug)]
pub struct Service {
    listener: Listener,
    metrics: Metrics,
    resources: Resources,
    secret_readers: AllowedCallers,
    store: StoreState,
}

impl Service {
    /// Binds the port and makes the region's own zone; nothing runs yet.
    pub fn build(config: Config, deps: Deps<'_>) -> BoxFuture<'_, Result<Self, Error>> {
        Box::pin(Self::assemble(config, deps))
    }

    async fn assemble(config: Config, deps: Deps<'_>) -> Result<Self, Error> {
        let Deps { store, clock, health, registry } = deps;
        let base_zone = config.base_zone()?;
        let listener = Listener::bind("the cloud's resource manager", &config.listener, &clock).await?;
        let metrics = Metrics::new(registry.sub_registry_with_prefix("cloud"));
        let resources = Resources::new(store, base_zone, config.gateway, clock);
        resources.ensure_base_zone().await.map_err(|refusal| Error::BaseZone(Chain(&refusal).to_string()))?;
        let store = StoreState::default();
        let shown = store.clone();
        health.register("cloud", move || shown.verdict());
        Ok(Self { listener, metrics, resources, secret_readers: config.secret_readers, store })
    }

    /// Where it listens, with the real port.
    pub fn local_address(&self) -> SocketAddr {
        self.listener.local_address()
    }

    /// Serves until shutdown; returns when drained.
    pub fn run(self, shutdown: Shutdown) -> BoxFuture<'static, Result<(), Error>> {
        Box::pin(self.work(shutdown))
    }

    async fn work(self, shutdown: Shutdown) -> Result<(), Error> {
        let Self { listener, metrics, resources, secret_readers, store } = self;
        let tasks = Tasks::new("cloud", shutdown.clone());
        store.begin();
        let rest = Rest {
            resources,
            scheme: if listener.certificates().is_some() { "https" } else { "http" },
            local_address: listener.local_address(),
            secret_readers: Arc::new(secret_readers),
            store,
        };
        let router = Stack::new(metrics.clone()).around(rest::router(rest));
        let own = tasks.clone();
        tasks.spawn("serve", OnExit::StopProcess, async move { listener.serve(router, metrics, &own).await });
        shutdown.requested().await;
        tasks.drain(DRAIN).await?;
        Ok(())
    }
}
