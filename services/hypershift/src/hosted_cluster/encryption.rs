//! The keys that a hosted cluster's secrets are encrypted with where they are stored.
//!
//! The user names Secrets with keys; the control plane reads one file with all keys that something may still be encrypted
//! with, the last of which encrypts. A new key is added at the end and the control plane restarted: it encrypts everything
//! anew with that key before it answers. Only when it has answered are the keys forgotten that nobody names any more.
//!
//! A key in use cannot be replaced in place: whatever it encrypted would be lost. So the file wins over a Secret that was
//! changed, and a condition says so.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::blueprint::Blueprint;
use super::extras::Extras;
use super::manifests;
use super::payload::Payload;
use super::references::Sources;
use super::refusal::Refusal;
use crate::secrets;

/// The Secret with the file, in the namespace of the control plane.
pub(crate) const KEY_FILE: &str = "kas-secret-encryption-config";
/// The file in it.
pub(crate) const KEYS: &str = "keys.json";
/// The same for payload `upstream`.
pub(crate) const CONFIGURATION: &str = "encryption.json";

/// The longest history.
const LONGEST: usize = 5;

/// Which keys a specification names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// None yet: one of this name is made.
    Unnamed { name: String },
    /// These.
    Keys { active: String, backup: Option<String> },
    /// Keys of somebody else, whom nobody can ask here: the control plane has one of its own.
    Elsewhere,
    /// The same, where the control plane has to be given it: one of this name is made.
    Own { name: String },
}

/// The file, as the store of the control plane reads it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KeyFile {
    keys: Vec<Key>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Key {
    id: String,
    key: String,
}

// === impl Wanted ===

impl Wanted {
    pub(crate) fn read(extras: &Extras, cluster: &str, payload: Payload) -> Self {
        let name = format!("{cluster}-etcd-encryption-key");
        let Some(encryption) = &extras.secret_encryption else { return Self::Unnamed { name } };
        match &encryption.aescbc {
            Some(keys) => Self::Keys {
                active: keys.active_key.name.clone(),
                backup: keys.backup_key.as_ref().map(|backup| backup.name.clone()),
            },
            None if payload == Payload::Upstream => Self::Own { name },
            None => Self::Elsewhere,
        }
    }

    /// The key that encrypts.
    pub(crate) fn active(&self) -> Option<&str> {
        match self {
            Self::Keys { active, .. } => Some(active),
            Self::Unnamed { name } | Self::Own { name } => Some(name),
            Self::Elsewhere => None,
        }
    }
}

// === impl KeyFile ===

impl KeyFile {
    /// What a Secret holds; nothing if there is none, or it is none of ours.
    pub(crate) fn read(secret: Option<&Secret>) -> Option<Self> {
        let data = secret?.data.as_ref()?.get(KEYS)?;
        serde_json::from_slice(&data.0).ok()
    }

    /// The file that follows. `settled`: the control plane is known to have encrypted everything with the active key.
    pub(crate) fn next(
        existing: Option<Self>,
        wanted: &Wanted,
        sources: &Sources,
        settled: bool,
    ) -> Result<Option<Self>, Refusal> {
        let (active, backup) = match wanted {
            Wanted::Elsewhere => return Ok(None),
            Wanted::Unnamed { name } | Wanted::Own { name } => (name.as_str(), None),
            Wanted::Keys { active, backup } => (active.as_str(), backup.as_deref()),
        };
        let mut keys = existing.map(|file| file.keys).unwrap_or_default();
        let key = |name: &str| sources.encryption_key(name).map(|bytes| STANDARD_NO_PAD.encode(bytes));
        for (index, name) in [backup, Some(active)].into_iter().flatten().enumerate() {
            let (known, brought) = (keys.iter().find(|known| known.id == name), key(name));
            match (known, brought) {
                (Some(known), Some(brought)) if known.key != brought => {
                    return Err(Refusal::invalid(format!(
                        "spec.secretEncryption: the key in Secret `{name}` is another than before; what was encrypted \
                         with that one would be lost. Put the new key into another Secret and name it as activeKey"
                    )));
                }
                (None, Some(brought)) => {
                    let at = if index == 0 && backup.is_some() { 0 } else { keys.len() };
                    keys.insert(at, Key { id: name.to_owned(), key: brought });
                }
                // What is missing was complained of where it was read.
                (Some(_), _) | (None, None) => {}
            }
        }
        let Some(position) = keys.iter().position(|key| key.id == active) else {
            return Err(Refusal::invalid(format!(
                "spec.secretEncryption: there is no key in Secret `{active}`"
            )));
        };
        let last = keys.remove(position);
        keys.push(last);
        if settled {
            keys.retain(|key| key.id == active || Some(key.id.as_str()) == backup);
        }
        Ok(Some(Self { keys }))
    }

    /// The key that encrypts.
    pub(crate) fn active(&self) -> Option<String> {
        self.keys.last().map(|key| key.id.clone())
    }

    /// The Secret that holds it.
    pub(crate) fn to_secret(&self, blueprint: &Blueprint) -> Secret {
        let text = serde_json::to_vec_pretty(self).unwrap_or_default();
        let of_upstream = (blueprint.payload == Payload::Upstream)
            .then(|| (CONFIGURATION, format!("{:#}\n", self.configuration()).into_bytes()));
        let data = [(KEYS, text)].into_iter().chain(of_upstream);
        secrets::secret(manifests::in_namespace(blueprint, KEY_FILE), "Opaque", data)
    }

    /// The same for kube-apiserver, which encrypts with the first, and reads what was not encrypted yet.
    fn configuration(&self) -> Value {
        let decode = |key: &Key| STANDARD_NO_PAD.decode(&key.key).unwrap_or_default();
        let keys = self.keys.iter().rev();
        let keys: Vec<_> =
            keys.map(|key| json!({ "name": key.id, "secret": STANDARD.encode(decode(key)) })).collect();
        json!({
            "apiVersion": "apiserver.config.k8s.io/v1",
            "kind": "EncryptionConfiguration",
            "resources": [{
                "resources": ["secrets"],
                "providers": [{ "aescbc": { "keys": keys } }, { "identity": {} }],
            }],
        })
    }
}

/// What the status says of the keys: which one is in use, which one is to be, and what happened before. `None` if nothing
/// is known of any.
pub(crate) fn status(
    previous: Option<&Value>,
    active: Option<&str>,
    runs: bool,
    now: Timestamp,
) -> Option<Value> {
    let Some(active) = active else { return previous.cloned() };
    let mut status = previous.cloned().unwrap_or_else(|| json!({ "history": [] }));
    let named = |name: &str| json!({ "name": name });
    let mut history = status["history"].as_array().cloned().unwrap_or_default();
    let current = history.first().is_some_and(|entry| entry["keyName"] == active);
    let stamp = Timestamp::from_second(now.as_second()).unwrap_or(now).to_string();
    if !current {
        if let Some(entry) = history.first_mut()
            && entry["state"] != "Completed"
        {
            entry["state"] = json!("Interrupted");
            entry["completionTime"] = json!(stamp);
        }
        // The first key has nothing to encrypt anew.
        let state = if history.is_empty() { "WritePromote" } else { "Migrating" };
        history.insert(0, json!({ "keyName": active, "state": state, "startedTime": stamp }));
        history.truncate(LONGEST);
        status["targetKey"] = named(active);
    }
    if runs
        && let Some(entry) = history.first_mut()
        && entry["state"] != "Completed"
    {
        entry["state"] = json!("Completed");
        entry["completionTime"] = json!(stamp);
        status["activeKey"] = named(active);
        if let Some(status) = status.as_object_mut() {
            status.remove("targetKey");
        }
    }
    status["history"] = Value::Array(history);
    Some(status)
}

/// Whether everything is encrypted with this key, as the status last said.
pub(crate) fn is_settled(status: Option<&Value>, active: Option<&str>) -> bool {
    active.is_some() && status.and_then(|status| status["activeKey"]["name"].as_str()) == active
}

#[cfg(test)]
mod tests;
