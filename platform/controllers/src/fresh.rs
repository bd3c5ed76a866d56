//! Whether a cache shows what the server has.
//!
//! Pods of most owners have random names, so that an owner's pass on an old cache could make one too many. Before it makes
//! any it asks; when the cache is behind, the event that mends it also wakes the owner.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::api::ListParams;
use kube::{Api, Client};

use crate::calls::{CallError, required};
use crate::ownership::{is_controlled_by, is_deleting, selector_text};
use crate::pod;

/// What a decision about pods depends on: phase, whether it ends, whether anything holds it.
type Facts<'a> = BTreeMap<&'a str, (&'a str, bool, usize)>;

fn facts<'a>(pods: impl IntoIterator<Item = &'a Pod>) -> Facts<'a> {
    let fact = |pod: &'a Pod| {
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        let finalizers = pod.metadata.finalizers.as_ref().map_or(0, Vec::len);
        (uid, (pod::phase(pod), is_deleting(&pod.metadata), finalizers))
    };
    pods.into_iter().map(fact).collect()
}

/// Whether the pods that the owner with this uid controls are those that are known.
pub(crate) async fn pods_are_known(
    client: &Client,
    namespace: &str,
    selector: Option<&LabelSelector>,
    uid: &str,
    known: &[Arc<Pod>],
) -> Result<bool, CallError> {
    let params = ListParams { label_selector: selector.and_then(selector_text), ..ListParams::default() };
    let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let fresh = required("list pods", api.list(&params)).await?;
    let own = fresh.items.iter().filter(|pod| is_controlled_by(&pod.metadata, uid));
    Ok(facts(own) == facts(known.iter().map(|pod| &**pod)))
}
