//! Classes of priority. What a pod gets from its class is decided where pods are.

use serde_json::Value;

use super::text;
use crate::catalogue::Resource;
use crate::server::Server;
use crate::status::Failure;

const COLLECTION: &str = "priorityclasses.scheduling.k8s.io";

fn classes(server: &Server) -> Vec<Value> {
    let snapshot = server.storage.cache().snapshot(&format!("{COLLECTION}/"));
    snapshot.objects.iter().filter_map(|(_, bytes)| serde_json::from_slice(bytes).ok()).collect()
}

/// The class of pods that name none: the smallest, should there be several.
fn default_class(server: &Server) -> Option<Value> {
    let defaults = classes(server).into_iter().filter(|class| class["globalDefault"] == true);
    defaults.min_by_key(|class| class["value"].as_i64().unwrap_or_default())
}

/// At most one class is for pods that name none.
pub(super) fn only_default(
    server: &Server,
    resource: &Resource,
    new: &Value,
    old: Option<&Value>,
) -> Result<(), Failure> {
    if new["globalDefault"] != true {
        return Ok(());
    }
    let Some(other) = default_class(server) else { return Ok(()) };
    let (own, other) = (text(new, "/metadata/name"), text(&other, "/metadata/name"));
    if old.is_some() && own == other {
        return Ok(());
    }
    let why = format!("PriorityClass {other} is already marked as default. Only one default can exist");
    Err(Failure::forbidden(resource, own, why))
}
