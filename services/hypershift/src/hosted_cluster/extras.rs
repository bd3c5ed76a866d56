//! Parts of a specification that only some clusters have, as far as they are carried out here.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Toleration;
use pilothouse_crds::{HostedClusterSpec, Reference};
use serde::Deserialize;
use serde_json::Value;

use super::refusal::Refusal;

/// What of a specification is read here.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Extras {
    pub(crate) secret_encryption: Option<SecretEncryption>,
    pub(crate) additional_trust_bundle: Option<Reference>,
    pub(crate) configuration: Value,
    pub(crate) node_selector: BTreeMap<String, String>,
    pub(crate) tolerations: Vec<Toleration>,
    pub(crate) labels: BTreeMap<String, String>,
}

/// `spec.secretEncryption`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct SecretEncryption {
    #[serde(rename = "type")]
    pub(crate) type_: String,
    pub(crate) aescbc: Option<Keys>,
}

/// The keys that secrets are encrypted with.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Keys {
    pub(crate) active_key: Reference,
    pub(crate) backup_key: Option<Reference>,
}

impl Extras {
    /// Reads them off a specification.
    pub(crate) fn read(spec: &HostedClusterSpec) -> Result<Self, Refusal> {
        let spec = serde_json::to_value(spec).unwrap_or_default();
        serde_json::from_value(spec).map_err(|error| Refusal::invalid(format!("spec: {error}")))
    }

    /// The Secrets of keys, with the fields that name them.
    pub(crate) fn encryption_keys(&self) -> Vec<(&'static str, &str)> {
        let keys = self.secret_encryption.as_ref().and_then(|encryption| encryption.aescbc.as_ref());
        let Some(keys) = keys else { return Vec::new() };
        let mut named = vec![("spec.secretEncryption.aescbc.activeKey", keys.active_key.name.as_str())];
        if let Some(backup) = &keys.backup_key {
            named.push(("spec.secretEncryption.aescbc.backupKey", backup.name.as_str()));
        }
        named
    }

    /// What is wrong with `spec.secretEncryption`.
    pub(crate) fn check_encryption(&self) -> Result<(), Refusal> {
        let Some(encryption) = &self.secret_encryption else { return Ok(()) };
        match (encryption.type_.as_str(), &encryption.aescbc) {
            ("aescbc", None) => {
                Err(Refusal::invalid("spec.secretEncryption: type aescbc needs aescbc.activeKey.name"))
            }
            ("aescbc", Some(keys)) if keys.active_key.name.is_empty() => {
                Err(Refusal::invalid("spec.secretEncryption.aescbc.activeKey has no name"))
            }
            ("aescbc", Some(keys))
                if keys.backup_key.as_ref().is_some_and(|backup| backup.name == keys.active_key.name) =>
            {
                Err(Refusal::invalid(format!(
                    "spec.secretEncryption.aescbc: `{}` is both the active and the backup key; name two Secrets or one",
                    keys.active_key.name
                )))
            }
            ("aescbc" | "kms" | "", _) => Ok(()),
            (other, _) => Err(Refusal::invalid(format!(
                "spec.secretEncryption.type: `{other}` is neither aescbc nor kms"
            ))),
        }
    }
}
