use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::hub;
use crate::schema::CREATED;
use crate::v2026_06_30_preview::{self, Key, KmsKey};

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Kms {
    #[serde(flatten)]
    base: v2026_06_30_preview::Kms<Key>,
    /// What keeps the key.
    #[schemars(extend("x-ms-mutability" = CREATED, "default" = "KeyVault"))]
    key_vault_type: Option<hub::KeyVaultType>,
}

impl KmsKey for Kms {
    fn read(self, encryption_type: hub::EncryptionType, kept: Option<&hub::CustomerKey>) -> hub::CustomerKey {
        let Self { base, key_vault_type } = self;
        hub::CustomerKey {
            vault_type: key_vault_type.unwrap_or_default(),
            ..base.read(encryption_type, kept)
        }
    }

    fn write(key: &hub::CustomerKey) -> Self {
        Self { base: v2026_06_30_preview::Kms::write(key), key_vault_type: Some(key.vault_type) }
    }
}
