//! From this version on the vault is named beside the key. `K` is what a version says about the key.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::KmsKey;
use crate::hub;
use crate::schema::CREATED;

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Kms<K> {
    /// The vault that keeps the key.
    #[schemars(required, length(min = 1, max = 255), extend("x-ms-mutability" = CREATED))]
    vault_name: Option<String>,
    /// Who may reach the vault.
    #[schemars(required, extend("x-ms-mutability" = CREATED))]
    visibility: Option<hub::Visibility>,
    /// The key that encrypts.
    #[schemars(required)]
    active_key: Option<K>,
}

/// A key, whose version cannot be changed yet.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Key {
    /// Its name.
    #[schemars(required, length(min = 1, max = 255), extend("x-ms-mutability" = CREATED))]
    name: Option<String>,
    /// Its version.
    #[schemars(required, length(min = 1, max = 255), extend("x-ms-mutability" = CREATED))]
    version: Option<String>,
}

impl<K> KmsKey for Kms<K>
where
    K: Default + From<(String, String)> + Into<(String, String)>,
{
    fn read(self, encryption_type: hub::EncryptionType, kept: Option<&hub::CustomerKey>) -> hub::CustomerKey {
        let Self { vault_name, visibility, active_key } = self;
        let (name, version) = active_key.unwrap_or_default().into();
        hub::CustomerKey {
            encryption_type,
            vault_type: kept.map(|key| key.vault_type).unwrap_or_default(),
            vault_name: vault_name.unwrap_or_default(),
            visibility: visibility.unwrap_or_default(),
            name,
            version,
        }
    }

    fn write(key: &hub::CustomerKey) -> Self {
        let hub::CustomerKey { encryption_type: _, vault_type: _, vault_name, visibility, name, version } =
            key.clone();
        Self {
            vault_name: Some(vault_name),
            visibility: Some(visibility),
            active_key: Some((name, version).into()),
        }
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
