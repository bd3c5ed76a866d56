use pilothouse_api::hub;
use pilothouse_arm::{OperationId, ResourceId};
use pilothouse_store::{DocumentId, Query};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::records::{Listed, NODE_POOLS, Records, partition};
use crate::stored::Stored;

/// A node pool and what ties it to the work on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodePool {
    /// The form of this document, for those that come after.
    pub schema: u32,
    /// The node pool.
    pub resource: hub::NodePool,
    /// The operation that may write it; none while nothing is under way.
    pub active_operation: Option<OperationId>,
    /// Its id at Clusters Service within its cluster, once it has one.
    pub clusters_service_id: Option<String>,
}

impl NodePool {
    /// The present form.
    pub const SCHEMA: u32 = 1;

    /// A node pool held by the operation that makes it.
    pub fn new(resource: hub::NodePool, operation: OperationId) -> Self {
        Self { schema: Self::SCHEMA, resource, active_operation: Some(operation), clusters_service_id: None }
    }
}

impl Records {
    /// One node pool, if it exists.
    pub async fn node_pool_get(&self, id: &ResourceId) -> Result<Option<Stored<NodePool>>, Error> {
        let Ok(subscription) = id.subscription_id() else { return Ok(None) };
        let document =
            self.store.get(&NODE_POOLS, &partition(subscription)?, &DocumentId::try_new(id.key())?).await?;
        Ok(document.as_ref().map(Stored::of).transpose()?)
    }

    /// A part of the node pools of a cluster, in the order of their ids.
    pub async fn node_pool_list(
        &self,
        cluster: &ResourceId,
        limit: usize,
        token: Option<&str>,
    ) -> Result<Listed<NodePool>, Error> {
        match self.below(&NODE_POOLS, cluster)? {
            Some(query) => self.page(query.limit(limit), token).await,
            None => Ok(Listed { items: Vec::new(), next: None }),
        }
    }

    /// All node pools of a cluster.
    pub async fn node_pool_all(&self, cluster: &ResourceId) -> Result<Vec<Stored<NodePool>>, Error> {
        match self.below(&NODE_POOLS, cluster)? {
            Some(query) => self.all(query).await,
            None => Ok(Vec::new()),
        }
    }

    /// A part of all node pools, subscription by subscription.
    pub async fn node_pool_list_all(
        &self,
        limit: usize,
        token: Option<&str>,
    ) -> Result<Listed<NodePool>, Error> {
        self.page(Query::all(&NODE_POOLS).limit(limit), token).await
    }
}
