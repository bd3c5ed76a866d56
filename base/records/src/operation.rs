use jiff::Timestamp;
use pilothouse_arm::{
    ErrorCode, ErrorDetails, OperationId, OperationStatus, ProvisioningState, ResourceId, StepStatus,
    SubscriptionId,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::records::clip;

pub(crate) mod feed;
mod query;

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
    /// Where ARM wants to hear of the end, and whether it has.
    #[serde(default)]
    pub notification: Option<Notification>,
    /// What was asked for and what came of it, for [`Request::RequestCredential`].
    #[serde(default)]
    pub credential: Option<CredentialWork>,
    /// Why it waits, if its last attempt failed or its cluster is on hold.
    #[serde(default)]
    pub waiting: Option<Waiting>,
    /// From when its deadline counts; an administrator may begin anew.
    #[serde(default)]
    pub requeued_at: Option<Timestamp>,
}

/// Who is to be told of an operation's end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Notification {
    /// Where.
    pub uri: String,
    /// When it was told.
    #[serde(default)]
    pub delivered_at: Option<Timestamp>,
    /// How often it was tried.
    #[serde(default)]
    pub attempts: u32,
    /// What came of the last attempt, unless it was delivered.
    #[serde(default)]
    pub last_error: Option<String>,
    /// It was tried for as long as it makes sense.
    #[serde(default)]
    pub given_up: bool,
    /// When it is tried again.
    #[serde(default)]
    pub next_at: Option<Timestamp>,
}

/// The making of a credential. Nothing of it is secret: the certificate stays at Clusters Service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CredentialWork {
    /// What is to be signed, if the caller keeps the key.
    pub certificate_signing_request: Option<String>,
    /// Its id at Clusters Service within the cluster, once it has one.
    pub clusters_service_id: Option<String>,
}

/// Why an operation waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Waiting {
    /// In words.
    pub reason: String,
    /// Since when.
    pub since: Timestamp,
    /// How often it was tried in vain.
    pub attempts: u32,
    /// When it is tried again; none if something has to happen first.
    pub next_at: Option<Timestamp>,
}

/// Which operations a list has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OperationFilter {
    /// Of this subscription.
    pub subscription: Option<SubscriptionId>,
    /// That have not ended.
    pub active_only: bool,
    /// On this resource itself.
    pub resource: Option<ResourceId>,
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
    /// Make a credential for it.
    RequestCredential,
    /// Make all its credentials worthless.
    RevokeCredentials,
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
    /// Which attempt at it this is, from one.
    #[serde(default = "first")]
    pub attempt: u32,
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
    resource_key: String,
    active_resource: Option<String>,
    awaiting: Option<&'static str>,
    #[serde(flatten)]
    operation: &'a Operation,
}

const ACTIVE: &str = "active";
const ENDED: &str = "ended";
const AWAITING_NOTIFICATION: &str = "notification";

/// Documents from before attempts were counted have none.
fn first() -> u32 {
    1
}

impl Operation {
    /// The present form.
    pub const SCHEMA: u32 = 1;

    /// An operation that has just been accepted, of nobody in particular.
    pub fn new(
        id: OperationId,
        request: Request,
        resource: ResourceId,
        location: impl Into<String>,
        now: Timestamp,
    ) -> Self {
        Self {
            schema: Self::SCHEMA,
            id,
            location: location.into(),
            request,
            resource,
            state: match request {
                Request::Delete => ProvisioningState::Deleting,
                Request::Create
                | Request::Update
                | Request::RequestCredential
                | Request::RevokeCredentials => ProvisioningState::Accepted,
            },
            error: None,
            started_at: now,
            changed_at: now,
            correlation_id: id.to_string(),
            client_request_id: None,
            tenant_id: None,
            client_id: None,
            clusters_service_request: None,
            steps: Vec::new(),
            notification: None,
            credential: None,
            waiting: None,
            requeued_at: None,
        }
    }

    /// The cluster that it is about, or whose child it is about: what work takes turns on.
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

    /// Ends it without its having been carried out.
    pub fn cancel(&mut self, reason: &str, now: Timestamp) {
        self.steps_abandon(ProvisioningState::Canceled, now);
        self.waiting = None;
        self.error = Some(ErrorDetails {
            target: Some(self.resource.to_string()),
            ..ErrorDetails::new(ErrorCode::Canceled, reason)
        });
        self.enter(ProvisioningState::Canceled, now);
    }

    /// Notes that a step is under way, or what it is at. One that has succeeded stays as it is; one that has failed is
    /// begun again, as another attempt.
    pub fn step_begin(&mut self, number: u8, component: &str, message: impl Into<String>, now: Timestamp) {
        let message = message.into();
        match self.step_mut(number, component) {
            Some(step) if step.finished_at.is_none() => step.message = message,
            Some(step) if step.state == ProvisioningState::Succeeded => {}
            Some(step) => {
                step.attempt = step.attempt.saturating_add(1);
                step.state = ProvisioningState::Provisioning;
                step.finished_at = None;
                step.message = message;
            }
            None => self.steps.push(Step {
                number,
                component: component.to_owned(),
                state: ProvisioningState::Provisioning,
                attempt: 1,
                started_at: now,
                finished_at: None,
                message,
            }),
        }
    }

    /// Notes that an attempt at a step came to nothing and that another is made later; the step is the next attempt from
    /// now on.
    pub fn step_again(&mut self, number: u8, component: &str, message: impl Into<String>, now: Timestamp) {
        self.step_begin(number, component, message, now);
        if let Some(step) = self.step_mut(number, component).filter(|step| step.finished_at.is_none()) {
            step.attempt = step.attempt.saturating_add(1);
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
        if let Some(step) = self.step_mut(number, component).filter(|step| step.finished_at.is_none()) {
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
            let Step { number, component, state, attempt, started_at, finished_at, message } = step.clone();
            StepStatus {
                name: number.to_string(),
                component,
                status: state,
                attempt,
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
            active_on: active.then(|| clip(self.cluster().key())),
            resource_key: clip(self.resource.key()),
            active_resource: active.then(|| clip(self.resource.key())),
            awaiting: self.awaits_notification().then_some(AWAITING_NOTIFICATION),
            operation: self,
        }
    }

    /// Whether it has ended and somebody is still to be told.
    pub fn awaits_notification(&self) -> bool {
        let open = |told: &Notification| told.delivered_at.is_none() && !told.given_up;
        self.state.is_terminal() && self.notification.as_ref().is_some_and(open)
    }

    fn step_mut(&mut self, number: u8, component: &str) -> Option<&mut Step> {
        self.steps.iter_mut().find(|step| step.number == number && step.component == component)
    }
}

impl Notification {
    /// One that has not been tried yet.
    pub fn new(uri: impl Into<String>) -> Self {
        Self {
            uri: uri.into(),
            delivered_at: None,
            attempts: 0,
            last_error: None,
            given_up: false,
            next_at: None,
        }
    }
}
