//! The namespace of a hosted cluster, and the secrets it refers to.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Namespace, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use secrecy::ExposeSecret as _;
use serde_json::Value;

use super::{Names, NotWritten, Settings, metadata};
use crate::record::{ClusterRecord, key_bytes};

/// In the order in which they have to be applied.
pub(super) fn manifests(
    record: &ClusterRecord,
    settings: &Settings,
    names: &Names,
) -> Result<Vec<Value>, NotWritten> {
    let namespace =
        Namespace { metadata: metadata(&names.namespace, record, &record.origin), ..Namespace::default() };
    let pull_secret = secret(
        record,
        names,
        &names.pull_secret(),
        "kubernetes.io/dockerconfigjson",
        (".dockerconfigjson", settings.pull_secret.expose_secret().as_bytes()),
    );
    let mut manifests = vec![serde_json::to_value(&namespace)?, serde_json::to_value(&pull_secret)?];
    if let Some(key) = &settings.ssh_public_key {
        let ssh_key = secret(record, names, &names.ssh_key(), "Opaque", ("id_rsa.pub", key.as_bytes()));
        manifests.push(serde_json::to_value(&ssh_key)?);
    }
    if let Some(key) = record.encryption_key().and_then(key_bytes) {
        let encryption = secret(record, names, &names.secret_encryption(), "Opaque", ("key", &key));
        manifests.push(serde_json::to_value(&encryption)?);
    }
    Ok(manifests)
}

fn secret(
    record: &ClusterRecord,
    names: &Names,
    name: &str,
    type_: &str,
    (key, content): (&str, &[u8]),
) -> Secret {
    let data = k8s_openapi::ByteString(content.to_vec());
    Secret {
        metadata: ObjectMeta {
            namespace: Some(names.namespace.clone()),
            ..metadata(name, record, &record.origin)
        },
        type_: Some(type_.to_owned()),
        data: Some(BTreeMap::from([(key.to_owned(), data)])),
        ..Secret::default()
    }
}
