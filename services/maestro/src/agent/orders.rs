//! What the server sends.

use pilothouse_maestro_api::{
    Action, CloudEvent, EventType, ResourceVersion, ResourceVersionList, StatusHashList, Subresource,
    extension,
};
use pilothouse_runtime::reconcile::Handle;
use pilothouse_runtime::{Chain, Clock, Shutdown};
use pilothouse_work::Engine;
use tokio::sync::mpsc;
use tracing::{debug, info, warn};

use crate::agent::held::{Taken, Works};
use crate::agent::metrics::Metrics;
use crate::link::{Happening, Link, LinkError};
use crate::topic;

#[derive(Debug)]
pub(super) struct Orders {
    pub(super) works: Works,
    pub(super) engine: Engine,
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
                Some(Happening::Refused) => drop(self.metrics.refused.inc()),
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
        let mut resource_versions = self.works.versions();
        resource_versions.extend(self.left_behind().await);
        let works = resource_versions.len();
        // Some brokers take small packets only. What is not in one question is sent again with its answer, which costs time
        // and nothing else.
        let mut parts = vec![resource_versions];
        while let Some(mut part) = parts.pop() {
            match self.ask_about(&part).await {
                Ok(()) => {}
                Err(LinkError::TooLarge { .. }) if part.len() > 1 => {
                    parts.push(part.split_off(part.len() / 2));
                    parts.push(part);
                }
                // The next connection asks again.
                Err(error) => {
                    return warn!(error = %Chain(&error), "could not ask for what was missed");
                }
            }
        }
        info!(works, "asked the server for what was missed");
    }

    async fn ask_about(&self, known: &[ResourceVersion]) -> Result<(), LinkError> {
        let known = ResourceVersionList { resource_versions: known.to_vec() };
        // Texts and numbers can always be written.
        let data = serde_json::to_vec(&known).unwrap_or_default();
        let kind = EventType::new(Subresource::Spec, Action::ResyncRequest);
        let event = CloudEvent::new(&self.agent_id, &kind, self.clock.now())
            .with(extension::CLUSTER_NAME, self.consumer.as_str())
            .with(extension::ORIGINAL_SOURCE, "")
            .with_data(data);
        self.link.publish(topic::agent_events(&self.source_id, &self.consumer), &event).await
    }

    /// Bundles that were applied here and of which nothing else is known: the state of this agent was lost. Only the server can
    /// tell whether they should be here. What it knows it sends, and what it does not know it has removed; so nothing is
    /// removed before it was asked.
    async fn left_behind(&self) -> Vec<ResourceVersion> {
        let recorded = match self.engine.recorded().await {
            Ok(recorded) => recorded,
            Err(error) => {
                // The next connection asks again.
                debug!(error = %Chain(&error), "could not look for what was left behind");
                return Vec::new();
            }
        };
        // A record has the name of its bundle, which is the id with this server. Where it is not, nobody is asked.
        let is_id = |name: &String| uuid::Uuid::try_parse(name).is_ok();
        let unknown = recorded.into_iter().filter(is_id).filter(|name| self.works.named(name).is_empty());
        unknown.map(|name| ResourceVersion { resource_id: name, resource_version: 0 }).collect()
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
                self.metrics.refused.inc();
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
                Err(error) => {
                    self.metrics.refused.inc();
                    warn!(error = %Chain(&error), "a question of the server cannot be read");
                }
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
                    self.metrics.refused.inc();
                    warn!(id = event.text(extension::RESOURCE_ID), %error, "an order cannot be carried out")
                }
            },
            (Subresource::Status, _) => {}
        }
        false
    }
}
