use std::collections::BTreeSet;

use jiff::Timestamp;
use pilothouse_api::hub;
use pilothouse_arm::{OperationId, ResourceId, SubscriptionId};
use pilothouse_store::{DocumentId, Query};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::records::{CLUSTERS, Listed, Records, clip, partition};
use crate::reservation::Reservation;
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
    /// Work on it waits while this is set.
    #[serde(default)]
    pub hold: Option<Hold>,
    /// The operation that makes its credentials worthless, while it does.
    #[serde(default)]
    pub revocation: Option<OperationId>,
    /// Where ARM gives out the tokens of its identities, as it said when the cluster was made.
    #[serde(default)]
    pub identity_url: Option<String>,
    /// What no other cluster of the subscription may use while it exists; written and deleted with it.
    #[serde(default)]
    pub reservations: BTreeSet<Reservation>,
}

/// An administrator's word that nothing be done to a cluster for now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Hold {
    /// Why.
    pub reason: String,
    /// Whose word.
    pub by: String,
    /// Since when.
    pub since: Timestamp,
}

/// As it is stored: with what it is found by.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Document<'a> {
    found_by: FoundBy,
    #[serde(flatten)]
    cluster: &'a Cluster,
}

/// Keys, since names in Azure have no case.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FoundBy {
    managed_resource_group: Option<String>,
    subnets: Vec<String>,
    security_group: Option<String>,
}

impl Cluster {
    /// The present form.
    pub const SCHEMA: u32 = 1;

    /// A cluster held by the operation that makes it.
    pub fn new(resource: hub::Cluster, operation: OperationId) -> Self {
        Self {
            schema: Self::SCHEMA,
            resource,
            active_operation: Some(operation),
            clusters_service_id: None,
            hold: None,
            revocation: None,
            identity_url: None,
            reservations: BTreeSet::new(),
        }
    }

    pub(crate) fn document(&self) -> Document<'_> {
        let platform = &self.resource.spec.platform;
        let subnets = self.subnets().map(|id| clip(id.key())).collect();
        let found_by = FoundBy {
            managed_resource_group: platform.managed_resource_group.as_deref().map(group_key),
            subnets,
            security_group: platform.network_security_group_id.as_ref().map(|id| clip(id.key())),
        };
        Document { found_by, cluster: self }
    }

    fn subnets(&self) -> impl Iterator<Item = &ResourceId> {
        let platform = &self.resource.spec.platform;
        platform.subnet_id.iter().chain(&platform.vnet_integration_subnet_id)
    }
}

fn group_key(name: &str) -> String {
    clip(name.to_lowercase())
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

    /// A part of all clusters, subscription by subscription.
    pub async fn cluster_list_all(
        &self,
        limit: usize,
        token: Option<&str>,
    ) -> Result<Listed<Cluster>, Error> {
        self.page(Query::all(&CLUSTERS).limit(limit), token).await
    }

    /// The clusters of a subscription whose cloud resources are in this group.
    pub async fn cluster_by_managed_resource_group(
        &self,
        subscription: SubscriptionId,
        name: &str,
    ) -> Result<Vec<Stored<Cluster>>, Error> {
        let mut found = self.cluster_by(subscription, "managed-resource-group", group_key(name)).await?;
        found.retain(|cluster| {
            let group = cluster.resource.spec.platform.managed_resource_group.as_deref();
            group.is_some_and(|group| group.to_lowercase() == name.to_lowercase())
        });
        Ok(found)
    }

    /// The clusters of a subscription that use this subnet, for their nodes or to reach them.
    pub async fn cluster_by_subnet(
        &self,
        subscription: SubscriptionId,
        id: &ResourceId,
    ) -> Result<Vec<Stored<Cluster>>, Error> {
        let mut found = self.cluster_by(subscription, "subnet", clip(id.key())).await?;
        found.retain(|cluster| cluster.subnets().any(|subnet| subnet == id));
        Ok(found)
    }

    /// The clusters of a subscription that use this network security group.
    pub async fn cluster_by_security_group(
        &self,
        subscription: SubscriptionId,
        id: &ResourceId,
    ) -> Result<Vec<Stored<Cluster>>, Error> {
        let mut found = self.cluster_by(subscription, "security-group", clip(id.key())).await?;
        found.retain(|cluster| cluster.resource.spec.platform.network_security_group_id.as_ref() == Some(id));
        Ok(found)
    }

    async fn cluster_by(
        &self,
        subscription: SubscriptionId,
        index: &str,
        key: String,
    ) -> Result<Vec<Stored<Cluster>>, Error> {
        self.all(Query::partition(&CLUSTERS, &partition(subscription)?).matching(index, key)).await
    }
}
