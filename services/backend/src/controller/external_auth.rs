//! External authentications, as children of a cluster.

use pilothouse_arm::{OperationId, ProvisioningState, ResourceId};
use pilothouse_clusters_service_api as clusters_service;
use pilothouse_clusters_service_api::{ExternalAuthId, ExternalAuthUpdate, NewExternalAuth};
use pilothouse_records::{Change, Error, ExternalAuth, Records, Stored};

use super::child::{At, Child};
use crate::progress::Observed;

impl Child for ExternalAuth {
    const NOUN: &'static str = "external authentication";
    type Id = ExternalAuthId;
    type New = NewExternalAuth;
    type Update = ExternalAuthUpdate;
    type Seen = clusters_service::ExternalAuth;

    fn resource(&self) -> &ResourceId {
        &self.resource.id
    }

    fn active_operation(&self) -> Option<OperationId> {
        self.active_operation
    }

    fn clusters_service_id(&self) -> Option<&str> {
        self.clusters_service_id.as_deref()
    }

    fn enter(&mut self, state: ProvisioningState) {
        self.resource.status.provisioning_state = state;
        if state.is_terminal() {
            self.active_operation = None;
        }
    }

    fn take_over(&mut self, seen: &Self::Seen) {
        self.clusters_service_id = Some(seen.id.to_string());
    }

    fn observed(seen: &Self::Seen) -> Observed {
        Observed::from(seen)
    }

    async fn get(records: &Records, id: &ResourceId) -> Result<Option<Stored<Self>>, Error> {
        records.external_auth_get(id).await
    }

    fn replace(stored: &Stored<Self>, change: &mut Change<'_>) -> Result<(), Error> {
        change.external_auth_replace(stored).map(drop)
    }

    fn remove(stored: &Stored<Self>, change: &mut Change<'_>) -> Result<(), Error> {
        change.external_auth_delete(stored).map(drop)
    }

    async fn ask_new(at: At<'_>, new: &NewExternalAuth) -> Result<Self::Seen, clusters_service::Error> {
        at.client.external_auth_create(at.context, at.cluster, new).await
    }

    async fn look(at: At<'_>, id: &ExternalAuthId) -> Result<Self::Seen, clusters_service::Error> {
        at.client.external_auth_get(at.context, at.cluster, id).await
    }

    async fn ask_update(
        at: At<'_>,
        id: &ExternalAuthId,
        update: &ExternalAuthUpdate,
    ) -> Result<Self::Seen, clusters_service::Error> {
        at.client.external_auth_update(at.context, at.cluster, id, update).await
    }

    async fn ask_delete(at: At<'_>, id: &ExternalAuthId) -> Result<(), clusters_service::Error> {
        at.client.external_auth_delete(at.context, at.cluster, id).await
    }
}
