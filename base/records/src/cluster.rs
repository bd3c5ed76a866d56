use pilothouse_api::hub;
use pilothouse_arm::{OperationId, ResourceId, SubscriptionId};
use pilothouse_store::{DocumentId, Query};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::records::{CLUSTERS, Listed, Records, partition};
use crate::stored::Stored;

/// A cluster and what ties it to the work on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cluster {
    /// The form of this document, for those that come after.
    pub schema: u32,
    /// The cluster.
    pub resource: hub::Cluster,
    /// The operation that may write it; none while nothing is under way.
    pub active_operation: Option<OperationId>,
    /// Its id at Clusters Service, once it has one.
    pub clusters_service_id: Option<String>,
}

impl Cluster {
    /// The present form.
    pub const SCHEMA: u32 = 1;

    /// A cluster held by the operation that makes it.
    pub fn new(resource: hub::Cluster, operation: OperationId) -> Self {
        Self { schema: Self::SCHEMA, resource, active_operation: Some(operation), clusters_service_id: None }
    }
}

impl Records {
    /// One cluster, if it exists. An id whose subscription is none does not.
    pub async fn cluster_get(&self, id: &ResourceId) -> Result<Option<Stored<Cluster>>, Error> {
        let Ok(subscription) = id.subscription_id() else { return Ok(None) };
        let document =
            self.store.get(&CLUSTERS, &partition(subscription)?, &DocumentId::try_new(id.key())?).await?;
        Ok(document.as_ref().map(Stored::of).transpose()?)
    }

    /// The clusters of a subscription or of one of its resource groups, in the order of their ids.
    pub async fn cluster_list(
        &self,
        subscription: SubscriptionId,
        resource_group: Option<&str>,
        limit: usize,
        token: Option<&str>,
    ) -> Result<Listed<Cluster>, Error> {
        let mut query = Query::partition(&CLUSTERS, &partition(subscription)?).limit(limit);
        if let Some(group) = resource_group {
            let group = ResourceId::subscription(subscription).resource_group(group);
            query = query.prefix(format!("{}/", group.key()));
        }
        self.page(query, token).await
    }

    /// The cluster that has this id at Clusters Service.
    pub async fn cluster_by_clusters_service_id(&self, id: &str) -> Result<Option<Stored<Cluster>>, Error> {
        let found = self.all(Query::all(&CLUSTERS).matching("clusters-service", id)).await?;
        Ok(found.into_iter().next())
    }
}
