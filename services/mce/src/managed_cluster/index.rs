//! Which hosted clusters a managed cluster of some name may be about.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kube::ResourceExt as _;
use pilothouse_crds::HostedCluster;
use pilothouse_informer::{Informer, ObjectKey};

use super::{CLUSTER_ID, LOCAL_CLUSTER};

/// Kept by whoever hears of hosted clusters, so that a pass does not search all.
#[derive(Debug, Default)]
pub(crate) struct Index {
    keys: Mutex<HashMap<String, BTreeSet<ObjectKey>>>,
}

// === impl Index ===

impl Index {
    /// Takes in a hosted cluster that was made or changed, or one that is gone. The managed cluster that this concerns.
    pub(crate) fn hear(&self, hosted: &HostedCluster, is_there: bool) -> Option<ObjectKey> {
        let name = managed_name(hosted);
        // That one is about this cluster, and no hosted cluster's.
        if name == LOCAL_CLUSTER {
            return None;
        }
        let mut keys = self.lock();
        if is_there {
            keys.entry(name.clone()).or_default().insert(ObjectKey::of(hosted));
        } else if let Some(of_name) = keys.get_mut(&name) {
            of_name.remove(&ObjectKey::of(hosted));
            if of_name.is_empty() {
                keys.remove(&name);
            }
        }
        Some(ObjectKey::cluster(name))
    }

    /// The hosted clusters for this name: first those that were given it as their id, then the older before the younger.
    pub(crate) fn hosted(&self, name: &str, cache: &Informer<HostedCluster>) -> Vec<Arc<HostedCluster>> {
        let keys = self.lock().get(name).cloned().unwrap_or_default();
        let mut hosted: Vec<_> = keys.iter().filter_map(|key| cache.get(key)).collect();
        hosted.sort_by_key(|hosted| {
            let made = hosted.metadata.creation_timestamp.as_ref().map(|time| time.0);
            (!hosted.labels().contains_key(CLUSTER_ID), made, ObjectKey::of(hosted.as_ref()))
        });
        hosted
    }

    /// The managed clusters that hosted clusters could have.
    pub(crate) fn keys(&self) -> Vec<ObjectKey> {
        self.lock().keys().map(ObjectKey::cluster).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, BTreeSet<ObjectKey>>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the managed cluster of a hosted cluster is called.
fn managed_name(hosted: &HostedCluster) -> String {
    hosted.labels().get(CLUSTER_ID).cloned().unwrap_or_else(|| hosted.name_any())
}
