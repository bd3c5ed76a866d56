use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Who made a resource and who changed it last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SystemData {
    /// Who made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_by: Option<String>,
    /// What kind of identity that was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_by_type: Option<IdentityType>,
    /// When.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Timestamp>,
    /// Who changed it last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_modified_by: Option<String>,
    /// What kind of identity that was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_modified_by_type: Option<IdentityType>,
    /// When.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_modified_at: Option<Timestamp>,
}

/// Kinds of identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum IdentityType {
    /// A person.
    User,
    /// A program with an identity of its own.
    Application,
    /// An identity the platform looks after.
    ManagedIdentity,
    /// A shared key.
    Key,
}

/// Who acts when nobody said who it is.
const NOBODY: &str = "Unknown";

impl SystemData {
    /// For a resource made now; what the caller's gateway did not say is filled in.
    #[must_use]
    pub fn created(self, now: Timestamp) -> Self {
        let Self { created_by, created_by_type, created_at, .. } = self.clone();
        Self {
            created_by: Some(created_by.unwrap_or_else(|| NOBODY.to_owned())),
            created_by_type: Some(created_by_type.unwrap_or(IdentityType::Application)),
            created_at: Some(created_at.unwrap_or(now)),
            ..self.modified(now)
        }
    }

    /// For a resource changed now: how it came to be stays as `stored` has it.
    #[must_use]
    pub fn changed(self, stored: &Self, now: Timestamp) -> Self {
        Self {
            created_by: stored.created_by.clone(),
            created_by_type: stored.created_by_type,
            created_at: stored.created_at,
            ..self.modified(now)
        }
    }

    fn modified(self, now: Timestamp) -> Self {
        Self {
            last_modified_by: Some(
                self.last_modified_by
                    .or_else(|| self.created_by.clone())
                    .unwrap_or_else(|| NOBODY.to_owned()),
            ),
            last_modified_by_type: Some(
                self.last_modified_by_type.or(self.created_by_type).unwrap_or(IdentityType::Application),
            ),
            last_modified_at: Some(self.last_modified_at.unwrap_or(now)),
            ..self
        }
    }
}
