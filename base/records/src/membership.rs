use pilothouse_arm::ResourceId;
use pilothouse_store::{DocumentId, Etag, Precondition};

use crate::error::Error;
use crate::records::{MEMBERSHIPS, Records, partition};

/// Changes whenever something below a cluster comes, goes or begins, and so tells whether a look at all of it still holds.
///
/// Whoever adds something [notes](crate::Change::membership_note) it; whoever decides by what is there (the last node pool,
/// everything below a cluster that goes) takes a mark before looking and [checks](crate::Change::membership_check) it
/// with the change. The cluster's own document stays as it is, and so does its etag.
#[derive(Clone, Debug)]
pub struct Membership {
    pub(crate) cluster: ResourceId,
    etag: Option<Etag>,
}

impl Membership {
    pub(crate) fn as_seen(&self) -> Precondition {
        match &self.etag {
            Some(etag) => Precondition::Etag(etag.clone()),
            None => Precondition::Absent,
        }
    }
}

impl Records {
    /// A mark to be taken before a look at what is below a cluster.
    pub async fn membership(&self, cluster: &ResourceId) -> Result<Membership, Error> {
        let etag = match cluster.subscription_id() {
            Ok(subscription) => {
                let id = DocumentId::try_new(cluster.key())?;
                self.store.get(&MEMBERSHIPS, &partition(subscription)?, &id).await?.map(|found| found.etag)
            }
            Err(_) => None,
        };
        Ok(Membership { cluster: cluster.clone(), etag })
    }
}
