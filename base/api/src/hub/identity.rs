use std::collections::BTreeMap;

use pilothouse_arm::ResourceId;
use serde::{Deserialize, Serialize};

/// The identities a resource may act under.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Which kinds there are.
    pub kind: IdentityKind,
    /// Those that the owner assigned.
    pub user_assigned: BTreeMap<ResourceId, AssignedIdentity>,
}

/// What is known of an assigned identity; filled in by the service, never by the caller.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AssignedIdentity {
    /// Its client id.
    pub client_id: Option<String>,
    /// Its principal.
    pub principal_id: Option<String>,
}

/// Kinds of identity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum IdentityKind {
    /// None.
    #[default]
    None,
    /// One that lives and dies with the resource.
    SystemAssigned,
    /// Some that the owner looks after.
    UserAssigned,
    /// Both.
    Both,
}

impl Identity {
    /// The same, with what the service has found out about the identities that stay.
    pub(crate) fn keeping(mut self, stored: Option<&Self>) -> Self {
        for (id, assigned) in &mut self.user_assigned {
            if let Some(known) = stored.and_then(|stored| stored.user_assigned.get(id)) {
                *assigned = known.clone();
            }
        }
        self
    }
}
