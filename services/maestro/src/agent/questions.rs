//! What the agent asks the server for.
//!
//! A task of its own: whoever finds that there is something to ask says so and goes on, and however often that is while a
//! question is on its way, one more follows. What could not be asked, or not completely, is asked again, since nobody else
//! would: the connection may stand for weeks.

use std::sync::Arc;

use pilothouse_maestro_api::{
    Action, CloudEvent, EventType, ResourceVersion, ResourceVersionList, Subresource, extension,
};
use pilothouse_runtime::{Chain, Clock, Policy, Shutdown};
use pilothouse_work::Engine;
use tokio::sync::Notify;
use tracing::{info, warn};

use crate::agent::held::Works;
use crate::link::{Link, LinkError};
use crate::topic;

#[derive(Debug)]
pub(super) struct Questions {
    pub(super) works: Works,
    pub(super) engine: Engine,
    pub(super) link: Link,
    pub(super) clock: Clock,
    pub(super) consumer: String,
    pub(super) source_id: String,
    pub(super) agent_id: String,
    /// Told when there is something to ask.
    pub(super) wanted: Arc<Notify>,
}

/// What has yet to be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Owed {
    /// For what was missed of the bundles that are known here.
    known: bool,
    /// About bundles that only the cluster knows of.
    left_behind: bool,
}

impl Questions {
    /// Asks whenever it is wanted, until shutdown.
    pub(super) async fn run(self, shutdown: Shutdown) {
        loop {
            tokio::select! {
                () = shutdown.requested() => return,
                () = self.wanted.notified() => {}
            }
            let mut owed = Owed::ALL;
            let mut delays = Policy::RECONNECT.delays();
            loop {
                owed = self.ask(owed).await;
                if owed == Owed::NOTHING {
                    break;
                }
                tokio::select! {
                    () = shutdown.requested() => return,
                    () = self.wanted.notified() => owed = Owed::ALL,
                    () = tokio::time::sleep(delays.next().unwrap_or_default()) => {}
                }
            }
        }
    }

    /// Asks for what was missed. Answers what has to be asked again.
    async fn ask(&self, owed: Owed) -> Owed {
        let (left_behind, is_unknown) = match owed.left_behind {
            true => match self.left_behind().await {
                Ok(found) => (found, false),
                Err(error) => {
                    warn!(error = %Chain(&error), "could not look for what was left behind; it is tried again");
                    (Vec::new(), true)
                }
            },
            false => (Vec::new(), false),
        };
        let afterwards = Owed { known: false, left_behind: is_unknown };
        if !owed.known && left_behind.is_empty() {
            return afterwards;
        }
        let mut resource_versions = self.works.versions();
        resource_versions.extend(left_behind);
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
                Err(LinkError::Down) => return Owed::NOTHING,
                Err(error) => {
                    warn!(error = %Chain(&error), "could not ask for what was missed; it is tried again");
                    return Owed::ALL;
                }
            }
        }
        info!(works, "asked the server for what was missed");
        afterwards
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
    async fn left_behind(&self) -> Result<Vec<ResourceVersion>, pilothouse_work::Error> {
        // A record has the name of its bundle, which is the id with this server. Where it is not, nobody is asked.
        let is_id = |name: &String| uuid::Uuid::try_parse(name).is_ok();
        let recorded = self.engine.recorded().await?;
        let unknown = recorded.into_iter().filter(is_id).filter(|name| self.works.named(name).is_empty());
        Ok(unknown.map(|name| ResourceVersion { resource_id: name, resource_version: 0 }).collect())
    }
}

// === impl Owed ===

impl Owed {
    const ALL: Self = Self { known: true, left_behind: true };
    const NOTHING: Self = Self { known: false, left_behind: false };
}
