//! The keys that a hosted cluster's secrets are encrypted with where they are stored.
//!
//! The user names Secrets with keys; the control plane reads one file with all keys that something may still be encrypted
//! with, the last of which encrypts. A new key is added at the end and the control plane restarted: it encrypts everything
//! anew with that key before it answers. Only when it has answered are the keys forgotten that nobody names any more.
//!
//! Where several API servers read the file, a new key comes in two steps, because each of them reads it when it starts: first
//! all are to know it, while the one of before goes on encrypting; when none is left that does not, it becomes the last. So whatever
//! one of them writes, the others can read. See `docs/decisions/0029-keys-in-two-steps.md`.
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

/// Servers learn of a key.
const READ_ONLY: &str = "ReadOnlyDeploy";
/// Servers are to encrypt with it.
const WRITE: &str = "WritePromote";
const COMPLETED: &str = "Completed";

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
    /// `staged`: there are several servers, and a key encrypts only after [`Self::promoted`].
    pub(crate) fn next(
        existing: Option<Self>,
        wanted: &Wanted,
        sources: &Sources,
        settled: bool,
        staged: bool,
    ) -> Result<Option<Self>, Refusal> {
        let (active, backup) = match wanted {
            Wanted::Elsewhere => return Ok(None),
            Wanted::Unnamed { name } | Wanted::Own { name } => (name.as_str(), None),
            Wanted::Keys { active, backup } => (active.as_str(), backup.as_deref()),
        };
        let mut keys = existing.map(|file| file.keys).unwrap_or_default();
        let encrypts = keys.last().is_some_and(|last| last.id == active);
        // What encrypts now goes on, and what is to follow it stands before it.
        let waits = staged && !keys.is_empty() && !encrypts;
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
                    let is_backup = index == 0 && backup.is_some();
                    let at = if is_backup || waits { 0 } else { keys.len() };
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
        if !waits {
            let last = keys.remove(position);
            keys.push(last);
        }
        // Who was asked for another meanwhile, and is asked back, may have encrypted with it.
        if settled && encrypts {
            keys.retain(|key| key.id == active || Some(key.id.as_str()) == backup);
        }
        Ok(Some(Self { keys }))
    }

    /// The key that encrypts.
    pub(crate) fn active(&self) -> Option<String> {
        self.keys.last().map(|key| key.id.clone())
    }

    /// The key that is to encrypt when every server knows it.
    pub(crate) fn incoming(&self, wanted: &Wanted) -> Option<String> {
        let (last, before) = self.keys.split_last()?;
        let wanted = wanted.active().filter(|wanted| *wanted != last.id)?;
        before.iter().any(|key| key.id == wanted).then(|| wanted.to_owned())
    }

    /// The file in which a key encrypts that every server knows. `None` if it is not in the file.
    pub(crate) fn promoted(mut self, incoming: &str) -> Option<Self> {
        let position = self.keys.iter().position(|key| key.id == incoming)?;
        let key = self.keys.remove(position);
        self.keys.push(key);
        Some(self)
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

/// What was seen of the keys.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen<'a> {
    /// The key that encrypts.
    pub(crate) active: &'a str,
    /// The key that is to encrypt when every server knows it.
    pub(crate) incoming: Option<&'a str>,
    /// Every server has the file of now.
    pub(crate) deployed: bool,
    /// Everything is encrypted with the key that encrypts.
    pub(crate) encrypted: bool,
}

/// What the status says of the keys: which one is in use, which one is to be, and what happened before. `None` if nothing
/// is known of any.
pub(crate) fn status(previous: Option<&Value>, seen: Option<Seen<'_>>, now: Timestamp) -> Option<Value> {
    let Some(Seen { active, incoming, deployed, encrypted }) = seen else { return previous.cloned() };
    let target = incoming.unwrap_or(active);
    let mut status = previous.cloned().unwrap_or_else(|| json!({ "history": [] }));
    let named = |name: &str| json!({ "name": name });
    let mut history = status["history"].as_array().cloned().unwrap_or_default();
    let current = history.first().is_some_and(|entry| entry["keyName"] == target);
    let stamp = Timestamp::from_second(now.as_second()).unwrap_or(now).to_string();
    if !current {
        if let Some(entry) = history.first_mut()
            && entry["state"] != COMPLETED
        {
            entry["state"] = json!("Interrupted");
            entry["completionTime"] = json!(stamp);
        }
        let state = match incoming {
            Some(_) => READ_ONLY,
            // The first key has nothing to encrypt anew.
            None if history.is_empty() => WRITE,
            None => "Migrating",
        };
        history.insert(0, json!({ "keyName": target, "state": state, "startedTime": stamp }));
        history.truncate(LONGEST);
        status["targetKey"] = named(target);
    }
    if let Some(entry) = history.first_mut()
        && entry["state"] != COMPLETED
        && incoming.is_none()
    {
        if encrypted {
            entry["state"] = json!(COMPLETED);
            entry["completionTime"] = json!(stamp);
            status["activeKey"] = named(active);
            if let Some(status) = status.as_object_mut() {
                status.remove("targetKey");
            }
        } else if entry["state"] == READ_ONLY {
            entry["state"] = json!(WRITE);
        } else if entry["state"] == WRITE && deployed {
            entry["state"] = json!("Migrating");
        }
    }
    status["history"] = Value::Array(history);
    Some(status)
}

/// Whether everything is encrypted with this key, as the status last said: with no other since.
pub(crate) fn is_settled(status: Option<&Value>, active: Option<&str>) -> bool {
    let Some(status) = status.filter(|_| active.is_some()) else { return false };
    status["activeKey"]["name"].as_str() == active && status["targetKey"].is_null()
}

#[cfg(test)]
mod tests;
