use pilothouse_api::hub;
use pilothouse_arm::{OperationId, ResourceId};
use pilothouse_store::{DocumentId, Query};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::records::{EXTERNAL_AUTHS, Listed, Records, partition};
use crate::stored::Stored;

/// A cluster's external authentication and what ties it to the work on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExternalAuth {
    /// The form of this document, for those that come after.
    pub schema: u32,
    /// The external authentication.
    pub resource: hub::ExternalAuth,
    /// The operation that may write it; none while nothing is under way.
    pub active_operation: Option<OperationId>,
    /// Its id at Clusters Service within its cluster, once it has one.
    pub clusters_service_id: Option<String>,
}

impl ExternalAuth {
    /// The present form.
    pub const SCHEMA: u32 = 1;

    /// An external authentication held by the operation that makes it.
    pub fn new(resource: hub::ExternalAuth, operation: OperationId) -> Self {
        Self { schema: Self::SCHEMA, resource, active_operation: Some(operation), clusters_service_id: None }
    }
}

impl Records {
    /// One external authentication, if it exists.
    pub async fn external_auth_get(&self, id: &ResourceId) -> Result<Option<Stored<ExternalAuth>>, Error> {
        let Ok(subscription) = id.subscription_id() else { return Ok(None) };
        let document = self
            .store
            .get(&EXTERNAL_AUTHS, &partition(subscription)?, &DocumentId::try_new(id.key())?)
            .await?;
        Ok(document.as_ref().map(Stored::of).transpose()?)
    }

    /// A part of the external authentications of a cluster, in the order of their ids.
    pub async fn external_auth_list(
        &self,
        cluster: &ResourceId,
        limit: usize,
        token: Option<&str>,
    ) -> Result<Listed<ExternalAuth>, Error> {
        match self.below(&EXTERNAL_AUTHS, cluster)? {
            Some(query) => self.page(query.limit(limit), token).await,
            None => Ok(Listed { items: Vec::new(), next: None }),
        }
    }

    /// All external authentications of a cluster.
    pub async fn external_auth_all(&self, cluster: &ResourceId) -> Result<Vec<Stored<ExternalAuth>>, Error> {
        match self.below(&EXTERNAL_AUTHS, cluster)? {
            Some(query) => self.all(query).await,
            None => Ok(Vec::new()),
        }
    }

    /// A part of all external authentications, subscription by subscription.
    pub async fn external_auth_list_all(
        &self,
        limit: usize,
        token: Option<&str>,
    ) -> Result<Listed<ExternalAuth>, Error> {
        self.page(Query::all(&EXTERNAL_AUTHS).limit(limit), token).await
    }
}
