use std::fmt;

use pilothouse_arm::{ResourceId, SubscriptionId};
use pilothouse_store::DocumentId;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::records::{RESERVATIONS, Records, partition};

/// Something in Azure that one cluster of a subscription may use and no other: its name, whatever its case.
///
/// A reservation is a document of its own, written with the cluster that holds it and deleted with it, so that of two
/// clusters that want the same thing at the same moment one finds it taken.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Reservation(String);

/// What is stored of a reservation.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Held {
    pub(crate) cluster: ResourceId,
}

impl Reservation {
    /// The group that the service keeps a cluster's cloud resources in.
    pub fn managed_resource_group(name: &str) -> Self {
        Self::new("managed-resource-group", &name.to_lowercase())
    }

    /// A subnet that nodes are in.
    pub fn subnet(id: &ResourceId) -> Self {
        Self::new("subnet", &id.key())
    }

    /// A network security group.
    pub fn security_group(id: &ResourceId) -> Self {
        Self::new("security-group", &id.key())
    }

    /// A name fit for the store. Those that are longer than any in Azure are told apart by their beginnings.
    fn new(kind: &str, key: &str) -> Self {
        const LONGEST: usize = DocumentId::LONGEST;
        let mut text = format!("{kind}:{}", key.replace(|c: char| c.is_control() || c == char::MAX, "_"));
        if text.len() > LONGEST {
            text.truncate((0..=LONGEST).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default());
        }
        Self(text)
    }

    pub(crate) fn document_id(&self) -> Result<DocumentId, pilothouse_store::Error> {
        DocumentId::try_new(&self.0)
    }
}

impl fmt::Display for Reservation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl Records {
    /// The cluster that holds a reservation, if one does.
    pub async fn reservation_holder(
        &self,
        subscription: SubscriptionId,
        reservation: &Reservation,
    ) -> Result<Option<ResourceId>, Error> {
        let found =
            self.store.get(&RESERVATIONS, &partition(subscription)?, &reservation.document_id()?).await?;
        Ok(found.map(|document| document.parse::<Held>()).transpose()?.map(|held| held.cluster))
    }
}
