//! One resource: in short, and the document that is stored of it.

use axum::Json;
use axum::extract::{Path, State};
use pilothouse_api as api;
use pilothouse_arm::{CloudError, PROVIDER, ResourceId};
use pilothouse_records::OperationFilter;
use serde_json::{Value, json};

use super::redact::redact;
use super::{operations, resources, value};
use crate::answer::Refusal;
use crate::service::App;

/// What of a resource a path is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Facet {
    Itself,
    Document,
    Hold,
}

/// Kinds of resources that are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Cluster,
    NodePool,
    ExternalAuth,
}

/// How many operations are shown with a resource.
const OPERATIONS: usize = 20;

pub(super) async fn get(State(app): State<App>, Path(path): Path<String>) -> Result<Json<Value>, Refusal> {
    let (id, kind, facet) = named(&path)?;
    let records = &app.records;
    let missing = || Refusal::Missing(id.clone());
    let (summary, etag, mut document) = match kind {
        Kind::Cluster => {
            let stored = records.cluster_get(&id).await?.ok_or_else(missing)?;
            (resources::cluster(&stored), stored.etag().to_owned(), value(&stored.record))
        }
        Kind::NodePool => {
            let stored = records.node_pool_get(&id).await?.ok_or_else(missing)?;
            (resources::node_pool(&stored), stored.etag().to_owned(), value(&stored.record))
        }
        Kind::ExternalAuth => {
            let stored = records.external_auth_get(&id).await?.ok_or_else(missing)?;
            (resources::external_auth(&stored), stored.etag().to_owned(), value(&stored.record))
        }
    };
    match facet {
        Facet::Document => {
            redact(&mut document);
            Ok(Json(json!({ "id": id, "etag": etag, "document": document })))
        }
        Facet::Itself => {
            let filter = OperationFilter { resource: Some(id), ..OperationFilter::default() };
            let listed = records.operation_list(&filter, OPERATIONS, None).await?;
            let mut summary = summary;
            summary["operations"] = listed.items.iter().map(operations::summary).collect();
            Ok(Json(summary))
        }
        Facet::Hold => Ok(Json(json!({ "id": id, "hold": summary["hold"] }))),
    }
}

/// The resource that a path names. What is behind its id is told by what the id is not: a resource has as many types as
/// names, so `hold` behind a name is none, and a cluster may be called `hold`.
pub(super) fn named(path: &str) -> Result<(ResourceId, Kind, Facet), Refusal> {
    let path = format!("/{}", path.trim_matches('/'));
    if let Some((id, kind)) = resource(&path) {
        return Ok((id, kind, Facet::Itself));
    }
    for (suffix, facet) in [("/document", Facet::Document), ("/hold", Facet::Hold)] {
        if let Some((id, kind)) = path.strip_suffix(suffix).and_then(resource) {
            return Ok((id, kind, facet));
        }
    }
    Err(CloudError::path_not_found().into())
}

fn resource(path: &str) -> Option<(ResourceId, Kind)> {
    let id: ResourceId = path.parse().ok()?;
    let below = |kind: &str| format!("{PROVIDER}/{}/{kind}", api::CLUSTERS);
    let kind = if id.is_a(&format!("{PROVIDER}/{}", api::CLUSTERS)) {
        Kind::Cluster
    } else if id.is_a(&below(api::NODE_POOLS)) {
        Kind::NodePool
    } else if id.is_a(&below(api::EXTERNAL_AUTHS)) {
        Kind::ExternalAuth
    } else {
        return None;
    };
    Some((id, kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_may_be_called_like_what_is_behind_it() {
        let group = "subscriptions/s/resourceGroups/g/providers/Microsoft.RedHatOpenShift";
        for (path, name, facet) in [
            ("hcpOpenShiftClusters/c", "c", Facet::Itself),
            ("hcpopenshiftclusters/c/", "c", Facet::Itself),
            ("hcpOpenShiftClusters/c/hold", "c", Facet::Hold),
            ("hcpOpenShiftClusters/hold", "hold", Facet::Itself),
            ("hcpOpenShiftClusters/hold/hold", "hold", Facet::Hold),
            ("hcpOpenShiftClusters/c/nodePools/document", "document", Facet::Itself),
            ("hcpOpenShiftClusters/c/nodePools/n/document", "n", Facet::Document),
            ("hcpOpenShiftClusters/c/externalAuths/e/document", "e", Facet::Document),
        ] {
            let (id, _, found) = named(&format!("{group}/{path}")).unwrap();
            assert_eq!((id.name(), found), (name, facet), "{path}");
        }
        for path in ["hcpOpenShiftClusters", "hcpOpenShiftClusters/c/nodePools", "others/c", "hold"] {
            assert!(named(&format!("{group}/{path}")).is_err(), "{path}");
        }
    }
}
