use pilothouse_arm::{OperationId, ResourceId, SubscriptionId};
use pilothouse_store::{DocumentId, Query};

use super::{ACTIVE, AWAITING_NOTIFICATION, Operation, OperationFilter};
use crate::error::Error;
use crate::records::{Listed, OPERATIONS, Records, clip, partition};
use crate::stored::Stored;

impl Records {
    /// One operation, if it is still kept.
    pub async fn operation_get(
        &self,
        subscription: SubscriptionId,
        id: OperationId,
    ) -> Result<Option<Stored<Operation>>, Error> {
        let document = self
            .store
            .get(&OPERATIONS, &partition(subscription)?, &DocumentId::try_new(id.to_string())?)
            .await?;
        Ok(document.as_ref().map(Stored::of).transpose()?)
    }

    /// All operations that have not ended, of all subscriptions.
    pub async fn operation_active(&self) -> Result<Vec<Stored<Operation>>, Error> {
        self.all(Query::all(&OPERATIONS).matching("phase", ACTIVE)).await
    }

    /// The operations on a cluster and its children that have not ended, oldest first.
    pub async fn operation_active_on(&self, cluster: &ResourceId) -> Result<Vec<Stored<Operation>>, Error> {
        let Ok(subscription) = cluster.subscription_id() else { return Ok(Vec::new()) };
        let query = Query::partition(&OPERATIONS, &partition(subscription)?);
        let mut found = self.all::<Operation>(query.matching("active-on", clip(cluster.key()))).await?;
        found.retain(|operation| operation.cluster() == *cluster);
        found.sort_by_key(|operation| (operation.started_at, operation.id));
        Ok(found)
    }

    /// A part of the operations that a filter lets through. What is left out costs nothing.
    pub async fn operation_list(
        &self,
        filter: &OperationFilter,
        limit: usize,
        token: Option<&str>,
    ) -> Result<Listed<Operation>, Error> {
        let OperationFilter { subscription, active_only, resource } = filter;
        let of_resource = resource.as_ref().and_then(|resource| resource.subscription_id().ok());
        let query = match subscription.or(of_resource) {
            Some(subscription) => Query::partition(&OPERATIONS, &partition(subscription)?),
            None => Query::all(&OPERATIONS),
        };
        let query = match (resource, active_only) {
            (Some(resource), true) => query.matching("active-resource", clip(resource.key())),
            (Some(resource), false) => query.matching("resource", clip(resource.key())),
            (None, true) => query.matching("phase", ACTIVE),
            (None, false) => query,
        };
        let mut listed = self.page::<Operation>(query.limit(limit), token).await?;
        if let Some(resource) = resource {
            listed.items.retain(|operation| operation.resource == *resource);
        }
        Ok(listed)
    }

    /// The operations that ended and whose end somebody is still to be told of.
    pub async fn operation_awaiting_notification(&self) -> Result<Vec<Stored<Operation>>, Error> {
        self.all(Query::all(&OPERATIONS).matching("notification", AWAITING_NOTIFICATION)).await
    }
}
