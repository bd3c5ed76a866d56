//! For whom a pod wants tokens.

use serde_json::Value;

use super::super::{items, text};
use crate::storage::Cache;

/// Whether tokens for this audience were asked for, by the pod itself or by the driver of one of its volumes. The empty one
/// is that of whoever names none.
pub(super) fn has_audience(cache: &Cache, pod: &Value, wanted: &str) -> bool {
    items(pod, "/spec/volumes").iter().any(|volume| {
        let projected = items(volume, "/projected/sources").iter();
        let mut tokens = projected.filter_map(|source| source.get("serviceAccountToken"));
        tokens.any(|token| text(token, "/audience") == wanted)
            || driver(cache, pod, volume).is_some_and(|driver| {
                let requests = items(&driver, "/spec/tokenRequests");
                requests.iter().any(|request| text(request, "/audience") == wanted)
            })
    })
}

/// The CSI driver of a volume: named by it, or by the persistent volume of its claim.
fn driver(cache: &Cache, pod: &Value, volume: &Value) -> Option<Value> {
    let read = |key: String| serde_json::from_slice::<Value>(&cache.get(&key)?).ok();
    let name = match text(volume, "/csi/driver") {
        "" => {
            let claim = match text(volume, "/persistentVolumeClaim/claimName") {
                "" if volume["ephemeral"].is_object() => {
                    format!("{}-{}", text(pod, "/metadata/name"), text(volume, "/name"))
                }
                "" => return None,
                claim => claim.to_owned(),
            };
            let namespace = text(pod, "/metadata/namespace");
            let claim = read(format!("persistentvolumeclaims/{namespace}/{claim}"))?;
            let volume = read(format!("persistentvolumes//{}", text(&claim, "/spec/volumeName")))?;
            text(&volume, "/spec/csi/driver").to_owned()
        }
        driver => driver.to_owned(),
    };
    read(format!("csidrivers.storage.k8s.io//{name}"))
}
