use jiff::Timestamp;
use pilothouse_arm::{OperationId, ResourceId};
use pilothouse_store::{DocumentId, Query};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::error::Error;
use crate::records::{ACTIONS, Listed, Records};

/// What an administrator did. Written in the transaction of its effect, kept for ninety days.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AdminAction {
    /// Its name.
    pub id: Uuid,
    /// When.
    pub at: Timestamp,
    /// Who.
    pub by: String,
    /// What, in a word.
    pub action: String,
    /// To what.
    pub resource: ResourceId,
    /// To which operation on it.
    pub operation: Option<OperationId>,
    /// Why.
    pub reason: String,
    /// The request it came with.
    pub request_id: String,
}

impl AdminAction {
    /// Within a subscription the newest comes first.
    pub(crate) fn document_id(&self) -> Result<DocumentId, pilothouse_store::Error> {
        let back = i128::from(i64::MAX) - i128::from(self.at.as_microsecond());
        DocumentId::try_new(format!("{back:020}-{}", self.id))
    }
}

impl Records {
    /// A part of what administrators did: subscription by subscription, in each the newest first.
    pub async fn action_list(&self, limit: usize, token: Option<&str>) -> Result<Listed<AdminAction>, Error> {
        self.page(Query::all(&ACTIONS).limit(limit), token).await
    }
}
