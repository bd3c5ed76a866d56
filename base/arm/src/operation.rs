use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::api_version::ApiVersion;
use crate::error::ErrorDetails;
use crate::link::Caller;
use crate::provisioning_state::ProvisioningState;
use crate::resource_id::ResourceId;
use crate::subscription::SubscriptionId;

/// The name of an asynchronous operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct OperationId(Uuid);

/// The document behind `Azure-AsyncOperation`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OperationStatus {
    /// The path of this document.
    pub id: ResourceId,
    /// The operation's name.
    pub name: OperationId,
    /// The resource it is about.
    pub resource_id: ResourceId,
    /// What it is at.
    pub status: ProvisioningState,
    /// When it was accepted.
    pub start_time: Timestamp,
    /// When it ended, if it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_time: Option<Timestamp>,
    /// Why it failed, if it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorDetails>,
    /// The steps so far, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub operations: Vec<StepStatus>,
}

/// One step of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepStatus {
    /// Its number in the flow.
    pub name: String,
    /// Who does it.
    pub component: String,
    /// What it is at.
    pub status: ProvisioningState,
    /// Which attempt at it this is, from one.
    #[serde(default = "first")]
    pub attempt: u32,
    /// When it began.
    pub start_time: Timestamp,
    /// When it ended, if it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_time: Option<Timestamp>,
    /// What is, or was, done.
    pub message: String,
}

/// The headers that lead a client to an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperationLinks {
    /// For `Azure-AsyncOperation`.
    pub status: String,
    /// For `Location`.
    pub result: String,
}

/// Documents from before attempts were counted have none.
fn first() -> u32 {
    1
}

impl OperationId {
    /// The operation of this UUID.
    pub const fn new(id: Uuid) -> Self {
        Self(id)
    }

    /// Where its state is shown.
    pub fn status_path(self, subscription: SubscriptionId, location: &str) -> ResourceId {
        self.path(subscription, location, "hcpOperationStatuses")
    }

    /// Where its result is given out.
    pub fn result_path(self, subscription: SubscriptionId, location: &str) -> ResourceId {
        self.path(subscription, location, "hcpOperationResults")
    }

    fn path(self, subscription: SubscriptionId, location: &str, kind: &str) -> ResourceId {
        ResourceId::subscription(subscription)
            .provider(crate::PROVIDER, "locations", location)
            .child(kind, &self.to_string())
    }
}

impl FromStr for OperationId {
    type Err = uuid::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

impl fmt::Display for OperationId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(formatter)
    }
}

impl OperationLinks {
    /// Links for whoever called in this way.
    pub fn new(
        operation: OperationId,
        subscription: SubscriptionId,
        location: &str,
        version: ApiVersion,
        caller: &Caller,
    ) -> Self {
        let link = |path: ResourceId| caller.link(path.as_str(), version);
        Self {
            status: link(operation.status_path(subscription, location)),
            result: link(operation.result_path(subscription, location)),
        }
    }
}
