//! In this version the vault is named with the key, and the platform's own key can be asked for by name.

use serde::{Deserialize, Serialize};

use crate::hub;
use crate::invalid::Problems;
use crate::wire;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Etcd {
    data_encryption: Option<DataEncryption>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct DataEncryption {
    key_management_mode: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    customer_managed: Option<CustomerManaged>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct CustomerManaged {
    encryption_type: Option<String>,
    kms: Option<Kms>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Kms {
    active_key: Option<Key>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Key {
    vault_name: Option<String>,
    name: Option<String>,
    version: Option<String>,
}

const CUSTOMER_MANAGED: &str = "CustomerManaged";
const PLATFORM_MANAGED: &str = "PlatformManaged";

pub(super) fn read(
    etcd: Option<Etcd>,
    existing: Option<&hub::ClusterSpec>,
    problems: &mut Problems,
) -> hub::Etcd {
    let path = "properties.etcd.dataEncryption";
    let DataEncryption { key_management_mode, customer_managed } =
        etcd.and_then(|etcd| etcd.data_encryption).unwrap_or_default();
    match key_management_mode.as_deref() {
        None | Some(PLATFORM_MANAGED) => {
            if customer_managed.is_some() {
                problems.forbidden(
                    format!("{path}.customerManaged"),
                    "may only be given when keyManagementMode is 'CustomerManaged'",
                );
            }
            return hub::Etcd::default();
        }
        Some(CUSTOMER_MANAGED) => {}
        Some(other) => {
            problems.unsupported(
                format!("{path}.keyManagementMode"),
                other,
                &[CUSTOMER_MANAGED, PLATFORM_MANAGED],
            );
            return hub::Etcd::default();
        }
    }
    let Some(CustomerManaged { encryption_type, kms }) = customer_managed else {
        problems.required(format!("{path}.customerManaged"));
        return hub::Etcd::default();
    };
    let path = format!("{path}.customerManaged");
    let encryption_type =
        wire::choice(problems, &format!("{path}.encryptionType"), encryption_type.as_deref());
    let Some(Key { vault_name, name, version }) = kms.and_then(|kms| kms.active_key) else {
        problems.required(format!("{path}.kms.activeKey"));
        return hub::Etcd::default();
    };
    let mut text = |name: &str, value: Option<String>| {
        value.unwrap_or_else(|| {
            problems.required(format!("{path}.kms.activeKey.{name}"));
            String::new()
        })
    };
    let kept = existing.and_then(|spec| spec.etcd.customer_key.as_ref());
    hub::Etcd {
        customer_key: Some(hub::CustomerKey {
            encryption_type,
            vault_type: kept.map(|key| key.vault_type).unwrap_or_default(),
            vault_name: text("vaultName", vault_name),
            visibility: kept.map(|key| key.visibility).unwrap_or_default(),
            name: text("name", name),
            version: text("version", version),
        }),
    }
}

pub(super) fn write(etcd: &hub::Etcd) -> Etcd {
    let hub::Etcd { customer_key } = etcd.clone();
    let mode = if customer_key.is_some() { CUSTOMER_MANAGED } else { PLATFORM_MANAGED };
    let customer_managed = customer_key.map(|key| {
        let hub::CustomerKey { encryption_type, vault_type: _, vault_name, visibility: _, name, version } =
            key;
        CustomerManaged {
            encryption_type: Some(encryption_type.as_str().to_owned()),
            kms: Some(Kms {
                active_key: Some(Key {
                    vault_name: Some(vault_name),
                    name: Some(name),
                    version: Some(version),
                }),
            }),
        }
    });
    Etcd {
        data_encryption: Some(DataEncryption {
            key_management_mode: Some(mode.to_owned()),
            customer_managed,
        }),
    }
}
