//! An external auth as it is stored: inside its cluster's document, because it is part of that cluster's manifests and
//! a cluster has one at most.

use jiff::Timestamp;
use pilothouse_clusters_service_api::{ExternalAuth, ExternalAuthStateValue, ExternalAuthUpdate};
use serde::{Deserialize, Serialize};

use super::{Deletion, Origin, kept_properties};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ExternalAuthRecord {
    /// What the API shows.
    pub(crate) external_auth: ExternalAuth,
    /// What asked for it.
    pub(crate) origin: Origin,
    /// What asked for the latest change of it.
    #[serde(default)]
    pub(crate) update: Option<Origin>,
    /// Set once its deletion was asked for, and never taken back.
    #[serde(default)]
    pub(crate) deletion: Option<Deletion>,
}

impl ExternalAuthRecord {
    pub(crate) fn new(external_auth: ExternalAuth, origin: Origin) -> Self {
        Self { external_auth, origin, update: None, deletion: None }
    }

    /// Takes over a change that an operation asks for; false if there is nothing to change, or the operation asked before.
    pub(crate) fn change(&mut self, update: &ExternalAuthUpdate, origin: &Origin, now: Timestamp) -> bool {
        if origin.is_again(self.update.as_ref()) {
            return false;
        }
        let ExternalAuthUpdate { issuer, clients, claim, properties } = update.clone();
        let before = self.external_auth.clone();
        let after = &mut self.external_auth;
        after.issuer = issuer.unwrap_or_else(|| before.issuer.clone());
        after.clients = clients.unwrap_or_else(|| before.clients.clone());
        after.claim = claim.unwrap_or_else(|| before.claim.clone());
        let state = before.status.state.value;
        let is_the_same = before == *after;
        after.properties.extend(properties);
        if state == ExternalAuthStateValue::Ready && is_the_same {
            return kept_properties(&before.properties, &mut after.properties);
        }
        self.update = Some(origin.clone());
        let made = !matches!(state, ExternalAuthStateValue::Validating | ExternalAuthStateValue::Installing);
        if made {
            // Every change has the whole time, also one that comes while another is under way.
            self.external_auth.status.state.last_updated_timestamp = now;
            self.enter(ExternalAuthStateValue::Updating, "the change was accepted", now);
        }
        true
    }

    /// Enters a state, or stays in it, for a reason in words.
    pub(crate) fn enter(
        &mut self,
        value: ExternalAuthStateValue,
        message: impl Into<String>,
        now: Timestamp,
    ) {
        let status = &mut self.external_auth.status;
        if status.state.value != value {
            status.state.last_updated_timestamp = now;
        }
        status.state.value = value;
        status.message = message.into();
    }
}
