//! In this version the vault is named with the key, and the platform's own key can be asked for by name.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::hub;
use crate::invalid::Problems;
use crate::schema::CREATED;

/// How a cluster's state is kept. `D` is what a version says about encryption.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Etcd<D> {
    /// How it is encrypted.
    pub(crate) data_encryption: Option<D>,
}

/// How a cluster's state is encrypted. `K` is what a version says about the customer's key.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DataEncryption<K> {
    /// Whose key it is.
    #[schemars(extend("x-ms-mutability" = CREATED, "default" = "PlatformManaged"))]
    key_management_mode: Option<Mode>,
    /// The customer's key.
    #[serde(skip_serializing_if = "Option::is_none")]
    customer_managed: Option<CustomerManaged<K>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
enum Mode {
    PlatformManaged,
    CustomerManaged,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CustomerManaged<K> {
    /// How the key encrypts.
    #[schemars(extend("x-ms-mutability" = CREATED, "default" = "KMS"))]
    encryption_type: Option<hub::EncryptionType>,
    /// The key, when it encrypts through a key management service.
    kms: Option<K>,
}

/// What a version says about a key in a key management service.
pub(crate) trait KmsKey: Sized {
    /// The key; what this version does not know is as it was. What is missing was reported where the form was checked.
    fn read(self, encryption_type: hub::EncryptionType, kept: Option<&hub::CustomerKey>) -> hub::CustomerKey;
    fn write(key: &hub::CustomerKey) -> Self;
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Kms<K> {
    /// The key that encrypts.
    #[schemars(required)]
    pub(crate) active_key: Option<K>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Key {
    /// The vault that keeps it.
    #[schemars(required, length(min = 1, max = 255), extend("x-ms-mutability" = CREATED))]
    vault_name: Option<String>,
    /// Its name.
    #[schemars(required, length(min = 1, max = 255), extend("x-ms-mutability" = CREATED))]
    name: Option<String>,
    /// Its version.
    #[schemars(required, length(min = 1, max = 255), extend("x-ms-mutability" = CREATED))]
    version: Option<String>,
}

pub(crate) const PATH: &str = "properties.etcd.dataEncryption";

impl<K: KmsKey> Etcd<DataEncryption<K>> {
    pub(crate) fn read(
        etcd: Option<Self>,
        existing: Option<&hub::Etcd>,
        problems: &mut Problems,
    ) -> hub::Etcd {
        let encryption = etcd.and_then(|etcd| etcd.data_encryption);
        let mode = encryption.as_ref().and_then(|encryption| encryption.key_management_mode);
        let customer_managed = encryption.and_then(|encryption| encryption.customer_managed);
        match mode.unwrap_or(Mode::PlatformManaged) {
            Mode::PlatformManaged => {
                if customer_managed.is_some() && !problems.is_known(&format!("{PATH}.keyManagementMode")) {
                    problems.forbidden(
                        format!("{PATH}.customerManaged"),
                        "may only be given when keyManagementMode is 'CustomerManaged'",
                    );
                }
                hub::Etcd::default()
            }
            Mode::CustomerManaged => CustomerManaged::read(customer_managed, existing, problems),
        }
    }
}

impl<K> DataEncryption<K> {
    pub(crate) fn write(
        key: Option<&hub::CustomerKey>,
        write: impl Fn(&hub::CustomerKey) -> CustomerManaged<K>,
    ) -> Self {
        Self {
            key_management_mode: Some(match key {
                Some(_) => Mode::CustomerManaged,
                None => Mode::PlatformManaged,
            }),
            customer_managed: key.map(write),
        }
    }
}

impl<K: KmsKey> CustomerManaged<K> {
    /// The customer's key, where the mode says that it is one.
    pub(crate) fn read(
        customer_managed: Option<Self>,
        existing: Option<&hub::Etcd>,
        problems: &mut Problems,
    ) -> hub::Etcd {
        let path = format!("{PATH}.customerManaged");
        let Some(Self { encryption_type, kms }) = customer_managed else {
            problems.required_because(path, "keyManagementMode is 'CustomerManaged'");
            return hub::Etcd::default();
        };
        let Some(kms) = kms else {
            problems.required_because(format!("{path}.kms"), "encryptionType is 'KMS'");
            return hub::Etcd::default();
        };
        let kept = existing.and_then(|etcd| etcd.customer_key.as_ref());
        hub::Etcd { customer_key: Some(kms.read(encryption_type.unwrap_or_default(), kept)) }
    }

    pub(crate) fn write(key: &hub::CustomerKey) -> Self {
        Self { encryption_type: Some(key.encryption_type), kms: Some(K::write(key)) }
    }
}

impl KmsKey for Kms<Key> {
    fn read(self, encryption_type: hub::EncryptionType, kept: Option<&hub::CustomerKey>) -> hub::CustomerKey {
        let Key { vault_name, name, version } = self.active_key.unwrap_or_default();
        hub::CustomerKey {
            encryption_type,
            vault_type: kept.map(|key| key.vault_type).unwrap_or_default(),
            vault_name: vault_name.unwrap_or_default(),
            visibility: kept.map(|key| key.visibility).unwrap_or_default(),
            name: name.unwrap_or_default(),
            version: version.unwrap_or_default(),
        }
    }

    fn write(key: &hub::CustomerKey) -> Self {
        let hub::CustomerKey { encryption_type: _, vault_type: _, vault_name, visibility: _, name, version } =
            key.clone();
        Self {
            active_key: Some(Key { vault_name: Some(vault_name), name: Some(name), version: Some(version) }),
        }
    }
}
