//! EndpointSlices by their Service, so that nobody has to look through all of a namespace.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, PoisonError, RwLock};

use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt as _;
use pilothouse_informer::{Informer, ObjectKey};

/// Names the Service of an EndpointSlice.
const SERVICE_LABEL: &str = "kubernetes.io/service-name";

/// The index. A cheap handle.
#[derive(Clone, Debug)]
pub(crate) struct Slices {
    informer: Informer<EndpointSlice>,
    by_service: Arc<RwLock<BySlice>>,
}

#[derive(Debug, Default)]
struct BySlice {
    slices: HashMap<ObjectKey, BTreeMap<String, Arc<EndpointSlice>>>,
    /// The Service each slice was last seen with: its label may change.
    services: HashMap<ObjectKey, ObjectKey>,
}

// === impl Slices ===

impl Slices {
    pub(crate) fn new(informer: Informer<EndpointSlice>) -> Self {
        Self { informer, by_service: Arc::default() }
    }

    /// Takes a change into the index. Answers whose slices are different now.
    pub(crate) fn take(&self, slice: &EndpointSlice) -> Vec<ObjectKey> {
        let key = ObjectKey::of(slice);
        let mut index = self.by_service.write().unwrap_or_else(PoisonError::into_inner);
        // The cache is ahead of its callbacks: what it holds now is the truth, and stays it while we write.
        index.put(&key, self.informer.get(&key))
    }

    /// Takes in everything that is in the cache.
    pub(crate) fn take_all(&self) {
        for slice in self.informer.list() {
            self.take(&slice);
        }
    }

    pub(crate) async fn synced(&self) {
        self.informer.synced().await;
    }

    pub(crate) fn is_synced(&self) -> bool {
        self.informer.is_synced()
    }

    /// All slices of a Service.
    pub(crate) fn of(&self, service: &ObjectKey) -> Vec<Arc<EndpointSlice>> {
        let index = self.by_service.read().unwrap_or_else(PoisonError::into_inner);
        index.slices.get(service).map(|slices| slices.values().cloned().collect()).unwrap_or_default()
    }
}

// === impl BySlice ===

impl BySlice {
    fn put(&mut self, key: &ObjectKey, slice: Option<Arc<EndpointSlice>>) -> Vec<ObjectKey> {
        let service = slice.as_deref().and_then(service_of);
        let former = self.services.remove(key).filter(|former| Some(former) != service.as_ref());
        if let Some(former) = &former
            && let Some(slices) = self.slices.get_mut(former)
        {
            slices.remove(&key.name);
            if slices.is_empty() {
                self.slices.remove(former);
            }
        }
        if let (Some(service), Some(slice)) = (&service, slice) {
            self.slices.entry(service.clone()).or_default().insert(key.name.clone(), slice);
            self.services.insert(key.clone(), service.clone());
        }
        former.into_iter().chain(service).collect()
    }
}

fn service_of(slice: &EndpointSlice) -> Option<ObjectKey> {
    let name = slice.labels().get(SERVICE_LABEL)?;
    Some(ObjectKey::namespaced(slice.namespace()?, name))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn slices_are_found_by_their_service_wherever_their_label_moves() {
        let slice = |name: &str, service: Option<&str>| {
            let labels = json!({SERVICE_LABEL: service});
            let slice = json!({"addressType": "IPv4", "endpoints": [],
                "metadata": {"namespace": "shop", "name": name, "labels": service.map(|_| labels)}});
            Some(Arc::new(serde_json::from_value(slice).unwrap()))
        };
        let key = |name: &str| ObjectKey::namespaced("shop", name);
        let mut index = BySlice::default();
        assert_eq!(index.put(&key("a"), slice("a", Some("web"))), [key("web")]);
        assert_eq!(index.put(&key("b"), slice("b", Some("web"))), [key("web")]);
        assert_eq!(index.slices[&key("web")].len(), 2);
        assert_eq!(index.put(&key("b"), slice("b", Some("db"))), [key("web"), key("db")]);
        assert_eq!((index.slices[&key("web")].len(), index.slices[&key("db")].len()), (1, 1));
        assert_eq!(index.put(&key("b"), slice("b", None)), [key("db")]);
        assert_eq!(index.put(&key("a"), None), [key("web")]);
        assert!(index.slices.is_empty() && index.services.is_empty());
    }
}
