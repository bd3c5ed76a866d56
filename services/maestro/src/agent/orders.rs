//! What the server sends.

use pilothouse_maestro_api::{
    Action, CloudEvent, EventType, ResourceVersionList, StatusHashList, Subresource, extension,
};
use pilothouse_runtime::reconcile::Handle;
use pilothouse_runtime::{Chain, Clock, Shutdown};
use tokio::sync::mpsc;
use tracing::{debug, info, warn};

use crate::agent::held::{Taken, Works};
use crate::agent::metrics::Metrics;
use crate::link::{Happening, Link};
use crate::topic;

#[derive(Debug)]
pub(super) struct Orders {
    pub(super) works: Works,
    pub(super) link: Link,
    pub(super) handle: Handle<String>,
    pub(super) clock: Clock,
    pub(super) consumer: String,
    pub(super) source_id: String,
    pub(super) agent_id: String,
    pub(super) metrics: Metrics,
}

impl Orders {
    /// Deals with what happens, in order, until shutdown.
    pub(super) async fn run(self, mut happenings: mpsc::Receiver<Happening>, shutdown: Shutdown) {
        loop {
            let happening = tokio::select! {
                () = shutdown.requested() => return,
                happening = happenings.recv() => happening,
            };
            match happening {
                None => return,
                // Joining is what happens to servers.
                Some(Happening::Connected | Happening::Joined(_)) => {
                    self.ask().await;
                    // What could not be reported is now.
                    self.works.ids().into_iter().for_each(|id| self.handle.wake(id));
                }
                Some(Happening::Arrived(arrival)) => {
                    self.metrics.orders.inc();
                    let asks_back = self.take(&arrival.event);
                    arrival.acknowledge().await;
                    if asks_back {
                        self.ask().await;
                    }
                }
            }
        }
    }

    /// Asks for what was missed.
    async fn ask(&self) {
        let known = ResourceVersionList { resource_versions: self.works.versions() };
        let data = match serde_json::to_vec(&known) {
            Ok(data) => data,
            Err(error) => return warn!(%error, "cannot ask for what was missed"),
        };
        let kind = EventType::new(Subresource::Spec, Action::ResyncRequest);
        let event = CloudEvent::new(&self.agent_id, &kind, self.clock.now())
            .with(extension::CLUSTER_NAME, self.consumer.as_str())
            .with(extension::ORIGINAL_SOURCE, "")
            .with_data(data);
        let topic = topic::agent_events(&self.source_id, &self.consumer);
        match self.link.publish(topic, &event).await {
            Ok(()) => info!(works = known.resource_versions.len(), "asked the server for what was missed"),
            // The next connection asks again.
            Err(error) => warn!(error = %Chain(&error), "could not ask for what was missed"),
        }
    }

    /// Takes an order. Answers whether the server has to be asked: it has come by itself, and may not have been there when it
    /// was asked, or its order is doubtful.
    fn take(&self, event: &CloudEvent) -> bool {
        let kind = match event.event_type() {
            Ok(kind) if kind.is_ours() => kind,
            Ok(kind) => {
                debug!(%kind, "not for this agent");
                return false;
            }
            Err(error) => {
                warn!(%error, "an order cannot be read");
                return false;
            }
        };
        let cluster = event.text(extension::CLUSTER_NAME);
        if cluster.as_deref().is_some_and(|cluster| cluster != self.consumer) {
            debug!(cluster, "an order for another cluster");
            return false;
        }
        match (kind.subresource, kind.action) {
            (Subresource::Status, Action::ResyncRequest) => match event.payload::<StatusHashList>() {
                Ok(known) => {
                    let again = self.works.report_again(&known.status_hashes);
                    again.into_iter().for_each(|id| self.handle.wake(id));
                    return event.text(extension::SOLICITED).is_none();
                }
                Err(error) => warn!(error = %Chain(&error), "a question of the server cannot be read"),
            },
            (Subresource::Spec, _) => match self.works.take(event) {
                Ok(Taken::Yes(id)) => self.handle.wake(id),
                Ok(Taken::Late) => debug!("an order that is late"),
                Ok(Taken::Doubtful) => {
                    debug!(id = event.text(extension::RESOURCE_ID), "an order for a bundle that has gone");
                    return true;
                }
                // The text of an error never quotes the payload.
                Err(error) => {
                    warn!(id = event.text(extension::RESOURCE_ID), %error, "an order cannot be carried out")
                }
            },
            (Subresource::Status, _) => {}
        }
        false
    }
}
