use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a resource, or an operation on it, is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum ProvisioningState {
    /// Stored; nobody has begun yet.
    Accepted,
    /// Being made.
    Provisioning,
    /// Being changed.
    Updating,
    /// Being removed.
    Deleting,
    /// Waiting for a secret that its owner has to provide.
    AwaitingSecret,
    /// Done.
    Succeeded,
    /// Ended without success.
    Failed,
    /// Given up for a later operation.
    Canceled,
}

impl ProvisioningState {
    /// Whether nothing more will happen by itself.
    pub const fn is_terminal(self) -> bool {
        match self {
            Self::Succeeded | Self::Failed | Self::Canceled => true,
            Self::Accepted | Self::Provisioning | Self::Updating | Self::Deleting | Self::AwaitingSecret => {
                false
            }
        }
    }

    /// The state as it is written.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "Accepted",
            Self::Provisioning => "Provisioning",
            Self::Updating => "Updating",
            Self::Deleting => "Deleting",
            Self::AwaitingSecret => "AwaitingSecret",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
            Self::Canceled => "Canceled",
        }
    }
}

impl fmt::Display for ProvisioningState {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}
