use std::fmt;
use std::ops::Not;

use pilothouse_arm::SubscriptionId;
use pilothouse_runtime::fault;
use pilothouse_store::{DocumentId, Precondition, Query};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::Error;
use crate::records::{Records, SUBSCRIPTIONS, partition};
use crate::stored::Stored;

/// What ARM told about a subscription.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Subscription {
    /// Whether it may use the provider.
    pub state: SubscriptionState,
    /// Since when it is registered, as ARM wrote it.
    pub registration_date: String,
    /// Tenant, features and more, as ARM wrote them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub properties: Option<Value>,
    /// Whether what was in it has yet to be given up, since it was deleted. Ours, and never shown.
    #[serde(default, skip_serializing_if = "Not::not")]
    pub deletion_pending: bool,
}

/// Whether a subscription may use the provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SubscriptionState {
    /// It may.
    Registered,
    /// It may not, or not any more.
    Unregistered,
    /// It may look and delete.
    Warned,
    /// It may look and delete.
    Suspended,
    /// It is gone.
    Deleted,
}

impl Subscription {
    /// The directory the subscription belongs to.
    pub fn tenant_id(&self) -> Option<&str> {
        self.properties.as_ref()?.get("tenantId")?.as_str()
    }
}

impl fmt::Display for SubscriptionState {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Registered => "Registered",
            Self::Unregistered => "Unregistered",
            Self::Warned => "Warned",
            Self::Suspended => "Suspended",
            Self::Deleted => "Deleted",
        })
    }
}

impl Records {
    /// One subscription, if it is known.
    pub async fn subscription_get(&self, id: SubscriptionId) -> Result<Option<Stored<Subscription>>, Error> {
        let document =
            self.store.get(&SUBSCRIPTIONS, &partition(id)?, &DocumentId::try_new(id.to_string())?).await?;
        Ok(document.as_ref().map(Stored::of).transpose()?)
    }

    /// Writes down what ARM says now; the last one to speak is right.
    pub async fn subscription_put(
        &self,
        id: SubscriptionId,
        subscription: &Subscription,
    ) -> Result<(), Error> {
        let document = DocumentId::try_new(id.to_string())?;
        fault::point("records.subscription.before");
        self.store.put(&SUBSCRIPTIONS, &partition(id)?, document, Precondition::Any, subscription).await?;
        fault::point("records.subscription.after");
        Ok(())
    }

    /// Writes a subscription that must be as it was read.
    ///
    /// # Errors
    ///
    /// [`Error::Conflict`] if ARM said something else meanwhile.
    pub async fn subscription_replace(
        &self,
        id: SubscriptionId,
        subscription: &Stored<Subscription>,
    ) -> Result<(), Error> {
        let document = DocumentId::try_new(id.to_string())?;
        let expected = Precondition::Etag(subscription.etag.clone());
        fault::point("records.subscription.before");
        self.store.put(&SUBSCRIPTIONS, &partition(id)?, document, expected, &subscription.record).await?;
        fault::point("records.subscription.after");
        Ok(())
    }

    /// Some of the subscriptions that were deleted and still have something in them.
    pub async fn subscription_deletion_pending(&self) -> Result<Vec<SubscriptionId>, Error> {
        let page = self.store.list(Query::all(&SUBSCRIPTIONS).matching("deletion-pending", "true")).await?;
        Ok(page.documents.iter().filter_map(|document| document.id.as_str().parse().ok()).collect())
    }
}
