//! Where a Service's traffic goes: Endpoints, and the same as EndpointSlices.
//!
//! Both are computed from the pods that the selector takes, and written only if they differ. Services without a selector are
//! somebody else's.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Endpoints, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{DeleteParams, Preconditions};
use kube::{Api, Client};
use pilothouse_informer::ObjectKey;
use pilothouse_runtime::{Next, Reconcile, TaskError};

use crate::calls::{CallError, POST, tolerant};
use crate::ownership::is_deleting;
use crate::watches::Caches;

mod backend;
mod slices;
mod subsets;
#[cfg(test)]
mod tests;

use backend::Backend;

/// The label on Endpoints that this controller looks after: those of others are left alone.
const MANAGED_BY: (&str, &str) = ("endpoints.kubernetes.io/managed-by", "endpoint-controller");

pub(crate) struct EndpointsOfServices {
    client: Client,
    caches: Caches,
}

impl EndpointsOfServices {
    pub(crate) fn new(client: Client, caches: Caches) -> Self {
        Self { client, caches }
    }

    /// The services in whose endpoints a pod may be, or may have been.
    pub(crate) fn of_pod(caches: &Caches, pod: &Pod) -> Vec<ObjectKey> {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        let services = caches.services.list_in(namespace);
        services
            .iter()
            .filter(|service| selector(service).is_some())
            .map(|service| ObjectKey::of(&**service))
            .collect()
    }

    /// The service that a slice belongs to.
    pub(crate) fn of_slice(slice: &EndpointSlice) -> Option<ObjectKey> {
        let service = slice.metadata.labels.as_ref()?.get(slices::SERVICE)?;
        Some(ObjectKey::namespaced(slice.metadata.namespace.clone()?, service))
    }

    fn backends(&self, key: &ObjectKey, service: &Service) -> Vec<Backend> {
        let Some(selector) = selector(service) else { return Vec::new() };
        let pods: Vec<Arc<Pod>> = self.caches.pods.list_in(key.namespace_or_empty());
        let matches = |pod: &&Arc<Pod>| {
            let labels = pod.metadata.labels.as_ref();
            selector.iter().all(|(name, value)| labels.and_then(|labels| labels.get(name)) == Some(value))
        };
        pods.iter().filter(matches).filter_map(|pod| Backend::of(service, pod)).collect()
    }

    async fn write_endpoints(&self, key: &ObjectKey, wanted: Endpoints) -> Result<(), CallError> {
        let api: Api<Endpoints> = Api::namespaced(self.client.clone(), key.namespace_or_empty());
        match self.caches.endpoints.get(key) {
            None => {
                tolerant(format!("create endpoints {key}"), api.create(&POST, &wanted)).await?;
            }
            Some(found) if subsets::same(&found, &wanted) => {}
            Some(found) => {
                let mut wanted = wanted;
                wanted.metadata.resource_version = found.metadata.resource_version.clone();
                let call = api.replace(&key.name, &POST, &wanted);
                tolerant(format!("write endpoints {key}"), call).await?;
            }
        }
        Ok(())
    }

    async fn write_slices(&self, key: &ObjectKey, wanted: Vec<EndpointSlice>) -> Result<(), CallError> {
        let namespace = key.namespace_or_empty();
        let api: Api<EndpointSlice> = Api::namespaced(self.client.clone(), namespace);
        let mut found = self.caches.endpoint_slices.list_in(namespace);
        found.retain(|slice| slices::is_ours(slice, &key.name));
        for mut slice in wanted {
            let name = slice.metadata.name.clone().unwrap_or_default();
            let index = found.iter().position(|found| found.metadata.name == slice.metadata.name);
            match index.map(|index| found.swap_remove(index)) {
                None => {
                    let call = api.create(&POST, &slice);
                    tolerant(format!("create endpoint slice {name}"), call).await?;
                }
                Some(found) if slices::same(&found, &slice) => {}
                Some(found) => {
                    slice.metadata.resource_version = found.metadata.resource_version.clone();
                    let call = api.replace(&name, &POST, &slice);
                    tolerant(format!("write endpoint slice {name}"), call).await?;
                }
            }
        }
        for surplus in found {
            let name = surplus.metadata.name.as_deref().unwrap_or_default();
            let params = DeleteParams::background();
            let call = api.delete(name, &params);
            tolerant(format!("delete endpoint slice {name}"), call).await?;
        }
        Ok(())
    }

    /// The slices go with their owner; Endpoints have none.
    async fn service_is_gone(&self, key: &ObjectKey) -> Result<(), CallError> {
        let Some(endpoints) = self.caches.endpoints.get(key) else { return Ok(()) };
        let labels = endpoints.metadata.labels.as_ref();
        if labels.and_then(|labels| labels.get(MANAGED_BY.0)).is_none_or(|value| value != MANAGED_BY.1) {
            return Ok(());
        }
        let api: Api<Endpoints> = Api::namespaced(self.client.clone(), key.namespace_or_empty());
        let preconditions =
            Some(Preconditions { uid: endpoints.metadata.uid.clone(), resource_version: None });
        let params = DeleteParams { preconditions, ..DeleteParams::background() };
        tolerant(format!("delete endpoints {key}"), api.delete(&key.name, &params)).await?;
        Ok(())
    }
}

fn selector(service: &Service) -> Option<&std::collections::BTreeMap<String, String>> {
    service.spec.as_ref()?.selector.as_ref().filter(|selector| !selector.is_empty())
}

impl Reconcile for EndpointsOfServices {
    type Key = ObjectKey;

    async fn list(&self) -> Result<Vec<ObjectKey>, TaskError> {
        let mut keys = self.caches.services.keys();
        // Left behind by services that vanished while nobody looked.
        keys.extend(
            self.caches.endpoints.keys().into_iter().filter(|key| self.caches.services.get(key).is_none()),
        );
        Ok(keys)
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, TaskError> {
        let Some(service) = self.caches.services.get(key) else {
            self.service_is_gone(key).await?;
            return Ok(Next::Done);
        };
        if selector(&service).is_none() || is_deleting(&service.metadata) {
            return Ok(Next::Done);
        }
        let backends = self.backends(key, &service);
        self.write_endpoints(key, subsets::endpoints(&service, &backends)).await?;
        self.write_slices(key, slices::slices(&service, &backends)).await?;
        Ok(Next::Done)
    }
}
