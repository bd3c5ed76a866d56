//! Which node needs what: an index over the pods that are bound to nodes.
//!
//! A secret is needed by a node if a pod names it that is bound to the node; a persistent volume if its claim is named; and so
//! on. The index is kept up by the events of the cache and read again from the beginning only if it fell so far behind
//! that they are forgotten, so a decision is a look into a map. As long as no node has asked for anything there is none.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

use crate::storage::Cache;

mod needs;

/// What is followed: the first part of a key in the cache.
const PODS: &str = "pods/";
const VOLUMES: &str = "persistentvolumes/";
const ATTACHMENTS: &str = "volumeattachments.storage.k8s.io/";
const SLICES: &str = "resourceslices.resource.k8s.io/";

/// The index, shared by all requests.
#[derive(Debug, Default)]
pub(crate) struct References {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Everything up to here is in it. Nothing is, at first.
    through: Option<u64>,
    pods: HashMap<Arc<str>, Pod>,
    volumes: HashMap<Arc<str>, Volume>,
    /// Attachments and slices, each with its node.
    placed: HashMap<Arc<str>, Arc<str>>,
    /// For everything that pods need by name: how many pods of which node do.
    needed: HashMap<String, HashMap<Arc<str>, usize>>,
    /// Secrets, with the volumes that need them.
    of_volumes: HashMap<String, BTreeSet<Arc<str>>>,
}

/// A pod that is bound to a node. Everything is named by its key in the cache.
#[derive(Debug, PartialEq, Eq)]
struct Pod {
    node: Arc<str>,
    needs: BTreeSet<String>,
}

/// A volume that belongs to a claim.
#[derive(Debug, Default, PartialEq, Eq)]
struct Volume {
    claim: Option<String>,
    secrets: BTreeSet<String>,
}

impl References {
    /// Whether a node has anything to do with an object, which is named by its key.
    pub(crate) fn relate(&self, cache: &Cache, node: &str, key: &str) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.catch_up(cache);
        state.relates(node, key)
    }

    /// Takes over what has happened, if anybody has ever asked.
    pub(crate) fn keep_up(&self, cache: &Cache) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.through.is_some() {
            state.catch_up(cache);
        }
    }
}

impl State {
    fn relates(&self, node: &str, key: &str) -> bool {
        if let Some(pod) = self.pods.get(key) {
            return pod.node.as_ref() == node;
        }
        if let Some(placed) = self.placed.get(key) {
            return placed.as_ref() == node;
        }
        self.needs(node, key)
            || self.volume_is_needed(node, key)
            || self
                .of_volumes
                .get(key)
                .into_iter()
                .flatten()
                .any(|volume| self.volume_is_needed(node, volume))
    }

    fn needs(&self, node: &str, key: &str) -> bool {
        self.needed.get(key).is_some_and(|nodes| nodes.contains_key(node))
    }

    fn volume_is_needed(&self, node: &str, volume: &str) -> bool {
        let claim = self.volumes.get(volume).and_then(|volume| volume.claim.as_deref());
        claim.is_some_and(|claim| self.needs(node, claim))
    }

    fn catch_up(&mut self, cache: &Cache) {
        if self.through == Some(cache.through()) {
            return;
        }
        if let Some((events, through)) = self.through.and_then(|through| cache.events(through, "")) {
            for event in events {
                self.take(&event.key, event.after.as_deref());
            }
            self.through = Some(through);
            return;
        }
        *self = Self::default();
        let mut through = u64::MAX;
        for prefix in [PODS, VOLUMES, ATTACHMENTS, SLICES] {
            let snapshot = cache.snapshot(prefix);
            // What happens between two snapshots is taken over once more, and is then the same.
            through = through.min(snapshot.revision);
            for (key, object) in &snapshot.objects {
                self.take(key, Some(object));
            }
        }
        self.through = Some(through);
    }

    /// What an object is now; nothing, if it is no more.
    fn take(&mut self, key: &Arc<str>, object: Option<&[u8]>) {
        let followed = [PODS, VOLUMES, ATTACHMENTS, SLICES].iter().any(|prefix| key.starts_with(prefix));
        if !followed {
            return;
        }
        let object = object.and_then(|bytes| serde_json::from_slice::<Value>(bytes).ok());
        if key.starts_with(PODS) {
            self.take_pod(key, object.as_ref().and_then(needs::of_pod));
        } else if key.starts_with(VOLUMES) {
            self.take_volume(key, object.as_ref().map(needs::of_volume));
        } else {
            match object.as_ref().and_then(|object| object["spec"]["nodeName"].as_str()) {
                Some(node) => drop(self.placed.insert(Arc::clone(key), node.into())),
                None => drop(self.placed.remove(key)),
            }
        }
    }

    fn take_pod(&mut self, key: &Arc<str>, new: Option<Pod>) {
        if self.pods.get(key) == new.as_ref() {
            return;
        }
        if let Some(old) = self.pods.remove(key) {
            for need in &old.needs {
                let Some(nodes) = self.needed.get_mut(need) else { continue };
                match nodes.get_mut(&old.node) {
                    Some(count) if *count > 1 => *count -= 1,
                    _ => drop(nodes.remove(&old.node)),
                }
                if nodes.is_empty() {
                    self.needed.remove(need);
                }
            }
        }
        if let Some(new) = new {
            for need in &new.needs {
                let nodes = self.needed.entry(need.clone()).or_default();
                *nodes.entry(Arc::clone(&new.node)).or_default() += 1;
            }
            self.pods.insert(Arc::clone(key), new);
        }
    }

    fn take_volume(&mut self, key: &Arc<str>, new: Option<Volume>) {
        if let Some(old) = self.volumes.remove(key) {
            for secret in &old.secrets {
                if let Some(volumes) = self.of_volumes.get_mut(secret) {
                    volumes.remove(key);
                    if volumes.is_empty() {
                        self.of_volumes.remove(secret);
                    }
                }
            }
        }
        if let Some(new) = new {
            for secret in &new.secrets {
                self.of_volumes.entry(secret.clone()).or_default().insert(Arc::clone(key));
            }
            self.volumes.insert(Arc::clone(key), new);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn take(state: &mut State, key: &str, object: Option<Value>) {
        let bytes = object.map(|object| object.to_string().into_bytes());
        state.take(&key.into(), bytes.as_deref());
    }

    fn pod(node: &str, volumes: Value) -> Value {
        json!({ "metadata": { "name": "p", "namespace": "a" }, "spec": { "nodeName": node, "volumes": volumes } })
    }

    #[test]
    fn what_pods_share_is_needed_until_the_last_of_them_is_gone() {
        let mut state = State::default();
        let volumes = json!([{ "name": "v", "secret": { "secretName": "key" } }]);
        take(&mut state, "pods/a/one", Some(pod("north", volumes.clone())));
        take(&mut state, "pods/a/two", Some(pod("north", volumes.clone())));
        assert!(state.relates("north", "secrets/a/key") && state.relates("north", "pods/a/one"));
        for other in ["secrets/b/key", "secrets/a/other", "configmaps/a/key"] {
            assert!(!state.relates("north", other), "{other}");
        }
        assert!(!state.relates("south", "secrets/a/key") && !state.relates("south", "pods/a/one"));
        take(&mut state, "pods/a/one", None);
        assert!(state.relates("north", "secrets/a/key"));
        // A pod of the same name, elsewhere.
        take(&mut state, "pods/a/two", Some(pod("south", volumes)));
        assert!(!state.relates("north", "secrets/a/key") && state.relates("south", "secrets/a/key"));
        take(&mut state, "pods/a/two", None);
        assert!(state.needed.is_empty() && state.pods.is_empty());
    }

    #[test]
    fn a_volume_and_its_secret_are_needed_through_the_claim() {
        let mut state = State::default();
        let volumes = json!([{ "name": "v", "persistentVolumeClaim": { "claimName": "data" } }]);
        take(&mut state, "pods/a/one", Some(pod("north", volumes)));
        assert!(!state.relates("north", "persistentvolumes//disk"));
        let volume = json!({ "spec": {
            "claimRef": { "namespace": "a", "name": "data" },
            "csi": { "nodeStageSecretRef": { "namespace": "vault", "name": "stage" }, "controllerPublishSecretRef": { "namespace": "vault", "name": "publish" } },
        } });
        take(&mut state, "persistentvolumes//disk", Some(volume));
        for needed in ["persistentvolumeclaims/a/data", "persistentvolumes//disk", "secrets/vault/stage"] {
            assert!(state.relates("north", needed), "{needed}");
            assert!(!state.relates("south", needed), "{needed}");
        }
        assert!(!state.relates("north", "secrets/vault/publish"), "that is for controllers");
        take(&mut state, "persistentvolumes//disk", None);
        assert!(!state.relates("north", "secrets/vault/stage"));
    }
}
