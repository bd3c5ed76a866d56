//! Node pools and external auths at Clusters Service that no record names.
//!
//! Their ids there are their names, so one that is asked for again has the id of the one that is to go. Nobody may ask
//! meanwhile: the part of the work that the cluster is in is held, under a name that this process's own passes do not
//! have either.

use std::collections::BTreeSet;

use pilothouse_arm::ResourceId;
use pilothouse_clusters_service_api::{
    ClusterId, Error, ExternalAuthId, ExternalAuthStateValue, ListQuery, NodePoolId, NodePoolStateValue,
    properties,
};
use pilothouse_http::Context;
use pilothouse_runtime::fault;
use pilothouse_store::Turn;
use tracing::{debug, warn};

use super::{PAGE, Sweep};
use crate::error::PassError;

/// One of what belongs to a cluster, at Clusters Service.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Child {
    NodePool(NodePoolId),
    ExternalAuth(ExternalAuthId),
}

impl Sweep {
    /// Compares what belongs to a cluster with the records.
    pub(super) async fn children(&self, resource: &ResourceId, cluster: &ClusterId) -> Result<(), PassError> {
        // In this order: whatever is there was written down before it was asked for.
        let there = match self.children_there(cluster).await {
            // The cluster went in between, and everything with it.
            Err(error) if error.is_not_found() => BTreeSet::new(),
            there => there.map_err(PassError::ClustersService)?,
        };
        if there.is_empty() || self.nobodys(there.clone(), resource).await?.is_empty() {
            return Ok(());
        }
        let grant = match self.leases.hold(&resource.key()).await.map_err(PassError::Lease)? {
            Turn::Ours(grant) => grant,
            Turn::Theirs(_) => {
                debug!(%resource, "somebody works on it; what belongs to it is looked at later");
                return Ok(());
            }
        };
        let removed = tokio::select! {
            biased;
            () = grant.lost() => Ok(()),
            removed = self.children_remove(there, resource, cluster) => removed,
        };
        self.leases.leave(&resource.key()).await;
        removed
    }

    async fn children_remove(
        &self,
        there: BTreeSet<Child>,
        resource: &ResourceId,
        cluster: &ClusterId,
    ) -> Result<(), PassError> {
        for child in self.nobodys(there, resource).await? {
            warn!(?child, %resource, "no record names this child of the cluster; deleting it at Clusters Service");
            let context = Context::new(self.call_limit);
            fault::point("clusters-service.sweep.before");
            let deleted = match &child {
                Child::NodePool(id) => self.clusters_service.node_pool_delete(&context, cluster, id).await,
                Child::ExternalAuth(id) => {
                    self.clusters_service.external_auth_delete(&context, cluster, id).await
                }
            };
            self.removed(&child, deleted);
            fault::point("clusters-service.sweep.after");
        }
        Ok(())
    }

    /// Those of them that no record names.
    async fn nobodys(
        &self,
        mut children: BTreeSet<Child>,
        cluster: &ResourceId,
    ) -> Result<BTreeSet<Child>, PassError> {
        let node_pools = self.records.node_pool_all(cluster).await?;
        let external_auths = self.records.external_auth_all(cluster).await?;
        let names = |id: &ResourceId| id.name().to_ascii_lowercase();
        let node_pools: BTreeSet<_> = node_pools.iter().map(|stored| names(&stored.resource.id)).collect();
        let external_auths: BTreeSet<_> =
            external_auths.iter().map(|stored| names(&stored.resource.id)).collect();
        children.retain(|child| match child {
            Child::NodePool(id) => !node_pools.contains(id.as_str()),
            Child::ExternalAuth(id) => !external_auths.contains(id.as_str()),
        });
        Ok(children)
    }

    /// What the resource provider asked for and nobody has asked to go.
    async fn children_there(&self, cluster: &ClusterId) -> Result<BTreeSet<Child>, Error> {
        let mut children = BTreeSet::new();
        for page in 1.. {
            let query = query(page);
            let context = Context::new(self.call_limit);
            let found = self.clusters_service.node_pool_list(&context, cluster, &query).await?.items;
            let is_last = found.len() < PAGE as usize;
            children.extend(
                found
                    .into_iter()
                    .filter(|pool| pool.status.state.value != NodePoolStateValue::Uninstalling)
                    .filter(|pool| pool.properties.contains_key(properties::OPERATION_ID))
                    .map(|pool| Child::NodePool(pool.id)),
            );
            if is_last {
                break;
            }
        }
        for page in 1.. {
            let query = query(page);
            let context = Context::new(self.call_limit);
            let found = self.clusters_service.external_auth_list(&context, cluster, &query).await?.items;
            let is_last = found.len() < PAGE as usize;
            children.extend(
                found
                    .into_iter()
                    .filter(|auth| auth.status.state.value != ExternalAuthStateValue::Uninstalling)
                    .filter(|auth| auth.properties.contains_key(properties::OPERATION_ID))
                    .map(|auth| Child::ExternalAuth(auth.id)),
            );
            if is_last {
                break;
            }
        }
        Ok(children)
    }
}

fn query(page: u32) -> ListQuery {
    ListQuery { order: Some("id".to_owned()), page: Some(page), size: Some(PAGE), search: None }
}
