use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use pilothouse_clusters_service_api as clusters_service;
use pilothouse_http::{Listener, ListenerConfig, Stack};
use pilothouse_records::Records;
use pilothouse_runtime::{Clock, Shutdown, Tasks};
use pilothouse_store::Store;
use prometheus_client::registry::Registry;

use crate::config::Config;
use crate::error::Error;
use crate::metrics::Metrics;
use crate::router;

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
    /// Where the numbers go; a sub-registry with the service's prefix.
    pub registry: &'a mut Registry,
}

/// The frontend with its port.
#[derive(Debug)]
pub struct Service {
    listener: Listener,
    app: App,
}

/// What handlers share. A cheap handle.
#[derive(Clone, Debug)]
pub(crate) struct App {
    pub(crate) records: Records,
    pub(crate) clusters_service: clusters_service::Client,
    pub(crate) clock: Clock,
    pub(crate) metrics: Metrics,
    pub(crate) config: Arc<Config>,
}

impl Service {
    /// Takes the port.
    ///
    /// # Errors
    ///
    /// When the port is taken, or is not on the loopback: nobody is authenticated here.
    pub async fn build(config: Config, deps: Deps<'_>) -> Result<Self, Error> {
        let Deps { store, clusters_service, clock, registry } = deps;
        let exposed = ListenerConfig { address: config.listen, ..ListenerConfig::loopback(0) };
        let listener = Listener::bind("the frontend's public listener", &exposed, &clock).await?;
        let metrics = Metrics::register(registry);
        let records = Records::new(store);
        let app = App { records, clusters_service, clock, metrics, config: Arc::new(config) };
        Ok(Self { listener, app })
    }

    /// Where it listens; with the real port if port 0 was asked for.
    pub fn local_address(&self) -> SocketAddr {
        self.listener.local_address()
    }

    /// Answers until shutdown; returns when what was accepted has been answered.
    ///
    /// # Errors
    ///
    /// When the socket fails, or connections do not end.
    pub async fn run(self, shutdown: Shutdown) -> Result<(), Error> {
        let Self { listener, app } = self;
        let tasks = Tasks::new("frontend", shutdown);
        let metrics = app.metrics.http.clone();
        let public = router::public(app, Stack::new(metrics.clone()));
        listener.serve(public, metrics, &tasks).await.map_err(Error::Serve)?;
        tasks.drain(DRAIN).await?;
        Ok(())
    }
}
