//! From this version on the mode must be said: the platform's own key is what a cluster has that says nothing about
//! encryption.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CustomerManaged, Etcd, KmsKey};
use crate::hub;
use crate::invalid::Problems;
use crate::schema::CREATED;
use crate::v2025_12_23_preview;

/// How a cluster's state is encrypted. `K` is what a version says about the customer's key.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DataEncryption<K> {
    /// Whose key it is.
    #[schemars(required, extend("x-ms-mutability" = CREATED))]
    key_management_mode: Option<Mode>,
    /// The customer's key.
    customer_managed: Option<CustomerManaged<K>>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
enum Mode {
    CustomerManaged,
}

pub(crate) type Kms<K> = v2025_12_23_preview::Kms<K>;

/// A key, whose version can be changed.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Key {
    /// Its name.
    #[schemars(required, length(min = 1, max = 255), extend("x-ms-mutability" = CREATED))]
    name: Option<String>,
    /// Its version.
    #[schemars(required, length(min = 1, max = 255))]
    version: Option<String>,
}

impl<K: KmsKey> DataEncryption<K> {
    pub(crate) fn read(
        etcd: Option<Etcd<Self>>,
        existing: Option<&hub::Etcd>,
        problems: &mut Problems,
    ) -> hub::Etcd {
        match etcd.and_then(|etcd| etcd.data_encryption) {
            None => hub::Etcd::default(),
            Some(Self { key_management_mode: _, customer_managed }) => {
                CustomerManaged::read(customer_managed, existing, problems)
            }
        }
    }

    pub(crate) fn write(etcd: &hub::Etcd) -> Option<Etcd<Self>> {
        let hub::Etcd { customer_key } = etcd;
        let encryption = Self {
            key_management_mode: Some(Mode::CustomerManaged),
            customer_managed: Some(CustomerManaged::write(customer_key.as_ref()?)),
        };
        Some(Etcd { data_encryption: Some(encryption) })
    }
}

impl From<(String, String)> for Key {
    fn from((name, version): (String, String)) -> Self {
        Self { name: Some(name), version: Some(version) }
    }
}

impl From<Key> for (String, String) {
    fn from(Key { name, version }: Key) -> Self {
        (name.unwrap_or_default(), version.unwrap_or_default())
    }
}
