//! In this version the vault is named beside the key, and the mode must be said: the platform's own key is what a
//! cluster has that says nothing about encryption.

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
    vault_name: Option<String>,
    visibility: Option<String>,
    key_vault_type: Option<String>,
    active_key: Option<Key>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Key {
    name: Option<String>,
    version: Option<String>,
}

const CUSTOMER_MANAGED: &str = "CustomerManaged";

pub(super) fn read(etcd: Option<Etcd>, problems: &mut Problems) -> hub::Etcd {
    let Some(encryption) = etcd.and_then(|etcd| etcd.data_encryption) else { return hub::Etcd::default() };
    let DataEncryption { key_management_mode, customer_managed } = encryption;
    let path = "properties.etcd.dataEncryption";
    match key_management_mode.as_deref() {
        None => problems.required(format!("{path}.keyManagementMode")),
        Some(CUSTOMER_MANAGED) => {}
        Some(other) => problems.unsupported(format!("{path}.keyManagementMode"), other, &[CUSTOMER_MANAGED]),
    }
    let path = format!("{path}.customerManaged");
    let Some(CustomerManaged { encryption_type, kms }) = customer_managed else {
        problems.required(path);
        return hub::Etcd::default();
    };
    let encryption_type =
        wire::choice(problems, &format!("{path}.encryptionType"), encryption_type.as_deref());
    let path = format!("{path}.kms");
    let Some(Kms { vault_name, visibility, key_vault_type, active_key }) = kms else {
        problems.required(path);
        return hub::Etcd::default();
    };
    if visibility.is_none() {
        problems.required(format!("{path}.visibility"));
    }
    let visibility = wire::choice(problems, &format!("{path}.visibility"), visibility.as_deref());
    let vault_type = wire::choice(problems, &format!("{path}.keyVaultType"), key_vault_type.as_deref());
    let Key { name, version } = active_key.unwrap_or_default();
    let mut text = |name: &str, value: Option<String>| {
        value.unwrap_or_else(|| {
            problems.required(format!("{path}.{name}"));
            String::new()
        })
    };
    hub::Etcd {
        customer_key: Some(hub::CustomerKey {
            encryption_type,
            vault_type,
            vault_name: text("vaultName", vault_name),
            visibility,
            name: text("activeKey.name", name),
            version: text("activeKey.version", version),
        }),
    }
}

pub(super) fn write(etcd: &hub::Etcd) -> Option<Etcd> {
    let hub::Etcd { customer_key } = etcd.clone();
    let hub::CustomerKey { encryption_type, vault_type, vault_name, visibility, name, version } =
        customer_key?;
    let kms = Kms {
        vault_name: Some(vault_name),
        visibility: Some(visibility.as_str().to_owned()),
        key_vault_type: Some(vault_type.as_str().to_owned()),
        active_key: Some(Key { name: Some(name), version: Some(version) }),
    };
    let customer_managed =
        CustomerManaged { encryption_type: Some(encryption_type.as_str().to_owned()), kms: Some(kms) };
    Some(Etcd {
        data_encryption: Some(DataEncryption {
            key_management_mode: Some(CUSTOMER_MANAGED.to_owned()),
            customer_managed: Some(customer_managed),
        }),
    })
}
