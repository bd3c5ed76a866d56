//! A cluster's maintenance hold: while it is set, work on the cluster waits.

use axum::Json;
use axum::extract::{Path, State};
use bytes::Bytes;
use pilothouse_arm::{CloudError, ErrorCode, ResourceId};
use pilothouse_records::{Error, Hold};
use serde_json::Value;
use tracing::info;

use super::hcp::{Facet, Kind, named};
use super::{ATTEMPTS, Administrator, busy, reason, resources};
use crate::answer::Refusal;
use crate::service::App;

pub(super) async fn put(
    State(app): State<App>,
    Path(path): Path<String>,
    administrator: Administrator,
    body: Bytes,
) -> Result<Json<Value>, Refusal> {
    let id = cluster(&path)?;
    let reason = reason(&body)?;
    change(&app, &id, &administrator, "hold", &reason, |held| match held {
        // The same word again is no other word.
        Some(held) if held.reason == reason => None,
        _ => Some(Some(Hold {
            reason: reason.clone(),
            by: administrator.name.clone(),
            since: app.clock.now(),
        })),
    })
    .await
}

pub(super) async fn delete(
    State(app): State<App>,
    Path(path): Path<String>,
    administrator: Administrator,
    body: Bytes,
) -> Result<Json<Value>, Refusal> {
    let id = cluster(&path)?;
    let reason = reason(&body)?;
    change(&app, &id, &administrator, "release", &reason, |held| held.map(|_| None)).await
}

/// Writes another hold, if `wanted` wants one.
async fn change(
    app: &App,
    id: &ResourceId,
    administrator: &Administrator,
    action: &str,
    reason: &str,
    wanted: impl Fn(Option<&Hold>) -> Option<Option<Hold>>,
) -> Result<Json<Value>, Refusal> {
    let subscription = id.subscription_id().map_err(|_| Refusal::Missing(id.clone()))?;
    for _ in 0..ATTEMPTS {
        let Some(mut stored) = app.records.cluster_get(id).await? else {
            return Err(Refusal::Missing(id.clone()));
        };
        let Some(hold) = wanted(stored.hold.as_ref()) else { return Ok(Json(resources::cluster(&stored))) };
        stored.hold = hold;
        let done = administrator.action(app, action, &stored.resource.id, None, reason);
        let mut change = app.records.change(subscription)?;
        change.cluster_replace(&stored)?.action_create(&done)?;
        match change.commit().await {
            Ok(_) => {
                info!(cluster = %id, action, by = done.by, "an administrator changed a hold");
                return Ok(Json(resources::cluster(&stored)));
            }
            Err(Error::Conflict(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(busy(id))
}

/// The cluster whose hold a path names.
fn cluster(path: &str) -> Result<ResourceId, Refusal> {
    match named(path)? {
        (id, Kind::Cluster, Facet::Hold) => Ok(id),
        (id, Kind::NodePool | Kind::ExternalAuth, Facet::Hold) => {
            let message = "A hold is set on a cluster, and holds for everything below it.";
            Err(CloudError::new(ErrorCode::InvalidResourceType, message).with_target(id).into())
        }
        (_, _, Facet::Itself | Facet::Document) => Err(CloudError::path_not_found().into()),
    }
}
