//! Node pools, as children of a cluster.

use pilothouse_arm::{OperationId, ProvisioningState, ResourceId};
use pilothouse_clusters_service_api as clusters_service;
use pilothouse_clusters_service_api::{NewNodePool, NodePoolId, NodePoolStateValue, NodePoolUpdate};
use pilothouse_records::{Change, Error, NodePool, Records, Stored};

use super::child::{At, Child};
use crate::progress::Observed;

impl Child for NodePool {
    const NOUN: &'static str = "node pool";
    type Id = NodePoolId;
    type New = NewNodePool;
    type Update = NodePoolUpdate;
    type Seen = clusters_service::NodePool;

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
        let clusters_service::NodePool { id, version, status, .. } = seen;
        self.clusters_service_id = Some(id.to_string());
        let number = version.number().map(str::to_owned);
        let resource = &mut self.resource;
        if resource.spec.version.id.is_none() {
            resource.spec.version.id.clone_from(&number);
        }
        if status.state.value == NodePoolStateValue::Ready {
            resource.status.active_versions = number.into_iter().collect();
        }
    }

    fn observed(seen: &Self::Seen) -> Observed {
        Observed::from(seen)
    }

    async fn get(records: &Records, id: &ResourceId) -> Result<Option<Stored<Self>>, Error> {
        records.node_pool_get(id).await
    }

    fn replace(stored: &Stored<Self>, change: &mut Change<'_>) -> Result<(), Error> {
        change.node_pool_replace(stored).map(drop)
    }

    fn remove(stored: &Stored<Self>, change: &mut Change<'_>) -> Result<(), Error> {
        change.node_pool_delete(stored).map(drop)
    }

    async fn ask_new(at: At<'_>, new: &NewNodePool) -> Result<Self::Seen, clusters_service::Error> {
        at.client.node_pool_create(at.context, at.cluster, new).await
    }

    async fn look(at: At<'_>, id: &NodePoolId) -> Result<Self::Seen, clusters_service::Error> {
        at.client.node_pool_get(at.context, at.cluster, id).await
    }

    async fn ask_update(
        at: At<'_>,
        id: &NodePoolId,
        update: &NodePoolUpdate,
    ) -> Result<Self::Seen, clusters_service::Error> {
        at.client.node_pool_update(at.context, at.cluster, id, update).await
    }

    async fn ask_delete(at: At<'_>, id: &NodePoolId) -> Result<(), clusters_service::Error> {
        at.client.node_pool_delete(at.context, at.cluster, id).await
    }
}
