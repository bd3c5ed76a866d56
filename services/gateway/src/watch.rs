//! What is watched of one management cluster: its routes and endpoints, and what its routes' statuses should say.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use k8s_openapi::api::core::v1::Endpoints;
use kube::Api;
use pilothouse_crds::Route;
use pilothouse_informer::{Builder, Informer, watcher};
use pilothouse_runtime::reconcile::Options;
use pilothouse_runtime::{Controller, Shutdown, TaskError, Tasks};
use tokio::sync::{mpsc, oneshot};

use crate::config::Config;
use crate::follow::Following;
use crate::management::Management;
use crate::resolve::Source;
use crate::route::Routes;

/// Watches that have not begun.
pub(crate) struct Watch {
    management: Arc<str>,
    number: u64,
    routes: Builder<Route>,
    endpoints: Builder<Endpoints>,
    controller: Controller<Routes>,
    /// Ends when it is not followed any more.
    kept: oneshot::Receiver<()>,
    following: Following,
}

// === impl Watch ===

impl Watch {
    /// Of the member of this number, for as long as it is `kept`; and what can be looked up of it.
    pub(crate) fn new(
        number: u64,
        management: Management,
        kept: oneshot::Receiver<()>,
        following: &Following,
    ) -> (Self, Source) {
        let Management { name, client, dialer } = management;
        let name: Arc<str> = name.into();
        let parts = following.parts();
        let routes = Informer::new(Api::<Route>::all(client.clone()), watcher::Config::default());
        let endpoints =
            Informer::new(Api::<Endpoints>::all(client.clone()), watcher::Config::default()).trim(trim);
        let reconciler = Routes {
            management: name.clone(),
            client,
            routes: routes.informer(),
            hosts: parts.hosts.clone(),
            clock: parts.clock.clone(),
            name: parts.name.clone(),
        };
        let controller = Controller::new("routes", reconciler, Options::default());
        let statuses = controller.handle();
        let source = Source { routes: routes.informer(), endpoints: endpoints.informer(), dialer, statuses };
        let routes = routes.on_change({
            let (management, following) = (name.clone(), following.clone());
            move |route| following.changed(&management, number, route)
        });
        let following = following.clone();
        (Self { management: name, number, routes, endpoints, controller, kept, following }, source)
    }

    /// Watches for as long as it is followed, or until the gateway closes.
    async fn run(self, config: &ArcSwap<Config>, closing: &Shutdown) -> Result<(), TaskError> {
        let Self { management, number, routes, endpoints, controller, kept, following } = self;
        // A group of its own, which may end alone.
        let tasks = Tasks::new("gateway", closing.clone());
        let routes = routes.spawn(&tasks, format!("routes-{management}"));
        let endpoints = endpoints.spawn(&tasks, format!("endpoints-{management}"));
        let heard = async {
            if !following.counts(&management, number) {
                tokio::join!(routes.synced(), endpoints.synced());
                following.heard(&management, number);
            }
            // What does not count has nothing to say about routes, such as that they are served.
            if following.counts(&management, number) {
                controller.spawn(&tasks);
            }
            std::future::pending().await
        };
        tokio::select! {
            _ = kept => {
                // Nothing is lost by stopping it anywhere: whoever follows that cluster next looks at all of it again.
                let _ = tasks.drain(Duration::ZERO).await;
                Ok(())
            }
            // In less time than whoever waits for this has: what that one stops would leave these tasks behind.
            () = closing.requested() => Ok(tasks.drain(config.load().drain_timeout.0 / 2).await?),
            ended = heard => ended,
        }
    }
}

/// Watches whatever there is to be watched, until shutdown.
pub(crate) async fn watch_all(
    mut begun: mpsc::UnboundedReceiver<Watch>,
    config: Arc<ArcSwap<Config>>,
    closing: Shutdown,
) -> Result<(), TaskError> {
    let mut watching = FuturesUnordered::new();
    let mut outcome = Ok(());
    loop {
        tokio::select! {
            () = closing.requested() => break,
            Some(watch) = begun.recv() => watching.push(watch.run(&config, &closing)),
            Some(ended) = watching.next() => outcome = outcome.and(ended),
        }
    }
    // Also after a failure: the tasks of whichever is dropped before its end would go on.
    while let Some(ended) = watching.next().await {
        outcome = outcome.and(ended);
    }
    outcome
}

/// Only addresses and ports are of use.
fn trim(endpoints: &mut Endpoints) {
    endpoints.metadata.annotations = None;
    endpoints.metadata.labels = None;
    for subset in endpoints.subsets.iter_mut().flatten() {
        subset.not_ready_addresses = None;
        for address in subset.addresses.iter_mut().flatten() {
            address.target_ref = None;
        }
    }
}
