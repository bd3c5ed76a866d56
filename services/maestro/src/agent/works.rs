//! A pass over a bundle.

use std::sync::Arc;
use std::time::Duration;

use pilothouse_crds::{Condition, ConditionStatus, ManifestWorkStatus, is_condition_true, set_condition};
use pilothouse_maestro_api::{BundleStatus, CloudEvent, EventType, Subresource, extension};
use pilothouse_runtime::{Clock, Next, Reconcile, TaskError, fault};
use pilothouse_work::{Engine, Removal, Work};
use tracing::{debug, info};

use crate::agent::held::{Held, Works};
use crate::agent::metrics::Metrics;
use crate::agent::saved::Saved;
use crate::link::{Link, LinkError};
use crate::sequence::Sequence;
use crate::status_hash::status_hash;
use crate::topic;

/// How often objects that are on their way out are looked at without any event.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(super) struct Applying {
    pub(super) works: Works,
    pub(super) saved: Saved,
    pub(super) engine: Engine,
    pub(super) link: Link,
    pub(super) sequence: Arc<Sequence>,
    pub(super) clock: Clock,
    pub(super) consumer: String,
    pub(super) source_id: String,
    pub(super) agent_id: String,
    pub(super) metrics: Metrics,
}

/// Some manifests of a bundle could not be applied; the status says which and why.
#[derive(Debug, thiserror::Error)]
#[error("not everything of bundle `{0}` could be applied")]
struct Incomplete(String);

impl Reconcile for Applying {
    type Key = String;

    async fn list(&self) -> Result<Vec<String>, TaskError> {
        Ok(self.works.ids())
    }

    async fn reconcile(&self, id: &String) -> Result<Next, TaskError> {
        let Some(held) = self.works.get(id) else { return Ok(Next::Done) };
        // Before anything is done about it: whatever happens, nobody goes back behind this later.
        if !held.is_noted() {
            self.save(&held).await?;
        }
        if held.deleting {
            return self.remove(&held).await;
        }
        let work = Work {
            name: held.name.clone(),
            generation: i64::from(held.generation),
            labels: held.labels(),
            spec: held.spec.clone(),
            previous: held.applied.clone(),
        };
        fault::point("maestro-agent.apply.before");
        let status = self.engine.apply(&work, &held.status).await?;
        fault::point("maestro-agent.apply.after");
        self.works.observed(&held, &status);
        if held.is_news(&status) {
            self.report(&held, &status, false).await?;
        }
        self.save_changes(id).await?;
        if is_condition_true(&status.conditions, "Applied") {
            Ok(Next::Done)
        } else {
            // What is missing may come by itself: a namespace, a resource definition.
            Err(Incomplete(id.clone()).into())
        }
    }
}

impl Applying {
    /// Saves what has changed since it was last saved.
    async fn save_changes(&self, id: &str) -> Result<(), TaskError> {
        let Some(held) = self.works.get(id) else { return Ok(()) };
        if held.on_disk.as_ref() != Some(&held.state()) {
            self.save(&held).await?;
        }
        Ok(())
    }

    async fn save(&self, held: &Held) -> Result<(), TaskError> {
        fault::point("maestro-agent.save.before");
        self.saved.put(held, self.sequence.last()).await?;
        fault::point("maestro-agent.save.after");
        self.works.saved(&held.id, held.state());
        Ok(())
    }

    async fn remove(&self, held: &Held) -> Result<Next, TaskError> {
        let mut status = held.status.clone();
        let condition = |type_: &str, reason: &str, message: String| {
            Condition::new(type_, ConditionStatus::True, reason, message, self.clock.now())
        };
        let message = "ManifestWork is being deleted".to_owned();
        let deleting = condition("Deleting", "WorkDeleting", message);
        set_condition(&mut status.conditions, deleting.of_generation(Some(i64::from(held.generation))));
        fault::point("maestro-agent.remove.before");
        let removal = self.engine.remove(&held.name).await?;
        fault::point("maestro-agent.remove.after");
        match removal {
            Removal::Waiting(objects) => {
                self.works.observed(held, &status);
                if held.is_news(&status) {
                    self.report(held, &status, false).await?;
                }
                self.save_changes(&held.id).await?;
                debug!(resource = held.id, objects = objects.len(), "a bundle is on its way out");
                Ok(Next::After(LOOK_AGAIN))
            }
            Removal::Done => {
                let message = format!("The manifests are deleted from the cluster {}", self.consumer);
                set_condition(&mut status.conditions, condition("Deleted", "ManifestsDeleted", message));
                if self.report(held, &status, true).await? {
                    // Should the server not have heard, it asks again with the next connection.
                    fault::point("maestro-agent.forget.before");
                    self.saved.remove(&held.id).await?;
                    fault::point("maestro-agent.forget.after");
                    self.works.remove(&held.id);
                    info!(resource = held.id, "a bundle is gone");
                }
                Ok(Next::Done)
            }
        }
    }

    /// Sends a status; whether the broker took it. Without a broker it is sent when there is one.
    async fn report(
        &self,
        held: &Held,
        status: &ManifestWorkStatus,
        is_gone: bool,
    ) -> Result<bool, TaskError> {
        fault::point("maestro-agent.report.before");
        let sent = match self.send(held, status, is_gone).await? {
            Err(LinkError::TooLarge { bytes, limit, .. }) => {
                info!(resource = held.id, bytes, limit, "a status is reported without its values");
                self.send(held, &without_values(status, bytes, limit), is_gone).await?
            }
            sent => sent,
        };
        match sent {
            Ok(()) => {
                fault::point("maestro-agent.report.after");
                self.works.reported(held, status);
                self.metrics.reports.inc();
                info!(
                    resource = held.id,
                    version = held.generation,
                    correlation = held.correlation,
                    "reported a status"
                );
                Ok(true)
            }
            Err(LinkError::Down) => {
                debug!(resource = held.id, "a status waits for the broker");
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn send(
        &self,
        held: &Held,
        status: &ManifestWorkStatus,
        is_gone: bool,
    ) -> Result<Result<(), LinkError>, TaskError> {
        let bundle = BundleStatus::from(status.clone());
        let kind = EventType::new(Subresource::Status, held.report_as);
        let event = CloudEvent::new(&self.agent_id, &kind, self.clock.now())
            .with(extension::SEQUENCE_ID, self.sequence.next())
            .with(extension::STATUS_HASH, status_hash(&bundle))
            .with_data(serde_json::to_vec(&bundle)?);
        let event = held.mark(event, &self.consumer, is_gone);
        let topic = topic::agent_events(&self.source_id, &self.consumer);
        Ok(self.link.publish(topic, &event).await)
    }
}

/// A status that says why the values are missing.
fn without_values(status: &ManifestWorkStatus, bytes: usize, limit: usize) -> ManifestWorkStatus {
    let mut status = status.clone();
    let message = format!(
        "Values are left out: the status comes to {bytes} bytes, and the broker takes at most {limit}"
    );
    for manifest in &mut status.resource_status.manifests {
        if manifest.status_feedback.values.is_empty() {
            continue;
        }
        manifest.status_feedback.values.clear();
        let synced = manifest.conditions.iter_mut().find(|known| known.type_ == "StatusFeedbackSynced");
        if let Some(synced) = synced {
            synced.status = ConditionStatus::False;
            synced.reason = "StatusFeedbackSyncFailed".to_owned();
            synced.message.clone_from(&message);
        }
    }
    status
}
