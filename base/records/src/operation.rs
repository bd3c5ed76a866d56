use jiff::Timestamp;
use pilothouse_arm::{
    ErrorDetails, OperationId, OperationStatus, ProvisioningState, ResourceId, StepStatus, SubscriptionId,
};
use pilothouse_store::{DocumentId, Feed, Query, Revision};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::Error;
use crate::records::{OPERATIONS, Records, partition};
use crate::stored::Stored;

/// One piece of work on a resource, from its acceptance to its end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Operation {
    /// The form of this document, for those that come after.
    pub schema: u32,
    /// Its name.
    pub id: OperationId,
    /// Where it can be asked for.
    pub location: String,
    /// What is to be done.
    pub request: Request,
    /// To what.
    pub resource: ResourceId,
    /// What it is at.
    pub state: ProvisioningState,
    /// Why it failed.
    pub error: Option<ErrorDetails>,
    /// When it was accepted.
    pub started_at: Timestamp,
    /// When its state last changed.
    pub changed_at: Timestamp,
    /// The id that follows the work through every process.
    pub correlation_id: String,
    /// The id that the user's tool gave the request.
    pub client_request_id: Option<String>,
    /// Whose operation it is: the caller's tenant. Others do not see it.
    pub tenant_id: Option<String>,
    /// Whose operation it is: the caller's identity in the tenant.
    pub client_id: Option<String>,
    /// What Clusters Service is asked for, word for word as it was checked in advance.
    pub clusters_service_request: Option<Value>,
    /// What happened so far, in order.
    pub steps: Vec<Step>,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Request {
    /// Make the resource.
    Create,
    /// Change it.
    Update,
    /// Remove it.
    Delete,
}

/// One step of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// Its number in the flow.
    pub number: u8,
    /// Who does it, by folder.
    pub component: String,
    /// What it is at.
    pub state: ProvisioningState,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
    /// What is, or was, done; what is waited for.
    pub message: String,
}

/// As it is stored: with what it is found by.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Document<'a> {
    phase: &'static str,
    /// The cluster whose turn it is; only while there is something to do.
    active_on: Option<String>,
    #[serde(flatten)]
    operation: &'a Operation,
}

const ACTIVE: &str = "active";
const ENDED: &str = "ended";

impl Operation {
    /// The present form.
    pub const SCHEMA: u32 = 1;

    /// The cluster that it is about, or whose node pool it is about: what work takes turns on.
    pub fn cluster(&self) -> ResourceId {
        let parent = || self.resource.parent().filter(|parent| parent.provider_namespace().is_some());
        if self.resource.resource_type().as_str().matches('/').count() > 1 {
            parent().unwrap_or_else(|| self.resource.clone())
        } else {
            self.resource.clone()
        }
    }

    /// Moves to a state; the time of the change is kept.
    pub fn enter(&mut self, state: ProvisioningState, now: Timestamp) {
        if self.state != state {
            self.state = state;
            self.changed_at = now;
        }
    }

    /// Notes that a step is under way, or what it is at. Beginning it anew changes nothing but the message.
    pub fn step_begin(&mut self, number: u8, component: &str, message: impl Into<String>, now: Timestamp) {
        let message = message.into();
        match self.steps.iter_mut().find(|step| step.number == number && step.component == component) {
            Some(step) if step.finished_at.is_none() => step.message = message,
            Some(_) => {}
            None => self.steps.push(Step {
                number,
                component: component.to_owned(),
                state: ProvisioningState::Provisioning,
                started_at: now,
                finished_at: None,
                message,
            }),
        }
    }

    /// Notes that a step has ended.
    pub fn step_end(
        &mut self,
        number: u8,
        component: &str,
        state: ProvisioningState,
        message: impl Into<String>,
        now: Timestamp,
    ) {
        let message = message.into();
        self.step_begin(number, component, message.clone(), now);
        let step = self.steps.iter_mut().find(|step| step.number == number && step.component == component);
        if let Some(step) = step.filter(|step| step.finished_at.is_none()) {
            step.state = state;
            step.finished_at = Some(now);
            step.message = message;
        }
    }

    /// Ends everything that is still under way, as when the whole is given up.
    pub fn steps_abandon(&mut self, state: ProvisioningState, now: Timestamp) {
        for step in self.steps.iter_mut().filter(|step| step.finished_at.is_none()) {
            step.state = state;
            step.finished_at = Some(now);
        }
    }

    /// The document behind `Azure-AsyncOperation`.
    pub fn status(&self, subscription: SubscriptionId) -> OperationStatus {
        let step = |step: &Step| {
            let Step { number, component, state, started_at, finished_at, message } = step.clone();
            StepStatus {
                name: number.to_string(),
                component,
                status: state,
                start_time: started_at,
                end_time: finished_at,
                message,
            }
        };
        OperationStatus {
            id: self.id.status_path(subscription, &self.location),
            name: self.id,
            resource_id: self.resource.clone(),
            status: self.state,
            start_time: self.started_at,
            end_time: self.state.is_terminal().then_some(self.changed_at),
            error: self.error.clone(),
            operations: self.steps.iter().map(step).collect(),
        }
    }

    pub(crate) fn document(&self) -> Document<'_> {
        let active = !self.state.is_terminal();
        Document {
            phase: if active { ACTIVE } else { ENDED },
            active_on: active.then(|| self.cluster().key()),
            operation: self,
        }
    }
}

impl Records {
    /// One operation, if it is still kept.
    pub async fn operation_get(
        &self,
        subscription: SubscriptionId,
        id: OperationId,
    ) -> Result<Option<Stored<Operation>>, Error> {
        let document = self
            .store
            .get(&OPERATIONS, &partition(subscription)?, &DocumentId::try_new(id.to_string())?)
            .await?;
        Ok(document.as_ref().map(Stored::of).transpose()?)
    }

    /// All operations that have not ended, of all subscriptions.
    pub async fn operation_active(&self) -> Result<Vec<Stored<Operation>>, Error> {
        self.all(Query::all(&OPERATIONS).matching("phase", ACTIVE)).await
    }

    /// The operations on a cluster and its node pools that have not ended, oldest first.
    pub async fn operation_active_on(&self, cluster: &ResourceId) -> Result<Vec<Stored<Operation>>, Error> {
        let Ok(subscription) = cluster.subscription_id() else { return Ok(Vec::new()) };
        let query = Query::partition(&OPERATIONS, &partition(subscription)?);
        let mut found = self.all::<Operation>(query.matching("active-on", cluster.key())).await?;
        found.sort_by_key(|operation| (operation.started_at, operation.id));
        Ok(found)
    }

    /// Follows all operations from now on.
    pub async fn operation_feed(&self) -> Result<OperationFeed, Error> {
        let now = self.store.list(Query::all(&OPERATIONS).limit(1)).await?.revision;
        self.feed_after(now)
    }

    fn feed_after(&self, after: Revision) -> Result<OperationFeed, Error> {
        Ok(OperationFeed { records: self.clone(), feed: self.store.container_feed(&OPERATIONS, after)? })
    }
}

/// Follows all operations.
#[derive(Debug)]
pub struct OperationFeed {
    records: Records,
    feed: Feed,
}

/// What a look at the feed brought.
#[derive(Debug)]
pub enum Followed {
    /// These operations were made or changed.
    Changed(Vec<Operation>),
    /// Something was missed: look at all of them.
    Missed,
}

impl OperationFeed {
    /// Waits for the next changes. May be dropped while it waits; nothing is lost.
    pub async fn next(&mut self) -> Result<Followed, Error> {
        match self.feed.next().await {
            Ok(batch) => {
                let changed = batch.changes.iter().filter_map(|change| change.after.as_ref());
                Ok(Followed::Changed(
                    changed
                        .map(|document| document.parse())
                        .collect::<Result<_, pilothouse_store::Error>>()?,
                ))
            }
            Err(pilothouse_store::Error::TooOld { .. } | pilothouse_store::Error::NotYet { .. }) => {
                *self = self.records.operation_feed().await?;
                Ok(Followed::Missed)
            }
            Err(error) => Err(error.into()),
        }
    }
}
