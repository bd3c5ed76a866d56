//! Taking back what a work applied.

use kube::ResourceExt;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions, PropagationPolicy};
use pilothouse_crds::AppliedResource;
use serde_json::json;
use tracing::{debug, info};

use crate::engine::{FINALIZER, Inner, Removal};
use crate::object::ObjectId;
use crate::owner::{self, Ownership};
use crate::{Error, owner::reference};

pub(crate) async fn remove(inner: &Inner, work: &str) -> Result<Removal, Error> {
    let name = inner.hub.record_name(work);
    let failed = |verb| move |source| Inner::failed(work, verb, source);
    let Some(record) = inner.records().get_opt(&name).await.map_err(failed("read"))? else {
        inner.watches.register(work, Default::default());
        return Ok(Removal::Done);
    };
    let uid = record.uid().unwrap_or_default();
    if record.metadata.deletion_timestamp.is_none() {
        // Its finalizer keeps it; from now on nothing more is applied in its name, whoever asks.
        let deleted = inner.records().delete(&name, &DeleteParams::default()).await;
        not_found_is_fine(deleted.map(drop)).map_err(failed("deleted"))?;
    }
    let applied = record.status.as_ref().map(|status| status.applied_resources.clone()).unwrap_or_default();
    inner.watches.register(work, applied.iter().map(ObjectId::of_applied).collect());
    // In reverse: what was applied last may need what was applied first.
    let reversed: Vec<_> = applied.into_iter().rev().collect();
    let pending = delete_all(inner, &reversed, &uid).await?;
    if !pending.is_empty() {
        debug!(work, objects = pending.len(), "waiting for objects to go");
        return Ok(Removal::Waiting(pending));
    }
    let finalizers: Vec<_> =
        record.finalizers().iter().filter(|finalizer| *finalizer != FINALIZER).cloned().collect();
    let patch = json!({"metadata": {"finalizers": finalizers}});
    let patched = inner.records().patch(&name, &PatchParams::default(), &Patch::Merge(&patch)).await;
    not_found_is_fine(patched.map(drop)).map_err(failed("released"))?;
    inner.watches.register(work, Default::default());
    info!(work, "everything that was applied is gone");
    Ok(Removal::Done)
}

/// Deletes objects of the record with this uid; answers those that are still there.
pub(crate) async fn delete_all(
    inner: &Inner,
    applied: &[AppliedResource],
    uid: &str,
) -> Result<Vec<AppliedResource>, Error> {
    let mut pending = Vec::new();
    for entry in applied {
        let object = ObjectId::of_applied(entry);
        let failed = |source| Error::Delete { object: object.clone(), source: Box::new(source) };
        let Some(served) = inner.mapper.by_name(&inner.client, &object.resource).await? else { continue };
        inner.watches.ensure(&served);
        let api = served.api(&inner.client, &object.key);
        let Some(live) = api.get_opt(&object.key.name).await.map_err(failed)? else {
            inner.written.forget(&object);
            continue;
        };
        // Another object of the same name is not the one that was applied.
        if !entry.uid.is_empty() && live.uid().is_some_and(|live| live != entry.uid) {
            inner.written.forget(&object);
            continue;
        }
        match owner::ownership(&live, uid) {
            Ownership::Not => {}
            Ownership::Shared => {
                let owner = reference("", uid);
                let left = owner::changed(live.metadata.owner_references.as_ref(), &owner, false);
                let patch = json!({"metadata": {
                    "ownerReferences": left, "resourceVersion": live.metadata.resource_version}});
                let patched =
                    api.patch(&object.key.name, &PatchParams::default(), &Patch::Merge(&patch)).await;
                not_found_is_fine(patched.map(drop)).map_err(failed)?;
            }
            Ownership::Sole => {
                pending.push(entry.clone());
                if live.metadata.deletion_timestamp.is_some() {
                    continue;
                }
                let parameters = DeleteParams {
                    propagation_policy: Some(PropagationPolicy::Background),
                    preconditions: Some(Preconditions { uid: live.uid(), resource_version: None }),
                    ..DeleteParams::default()
                };
                info!(object = %object, "deleting an object");
                let deleted = api.delete(&object.key.name, &parameters).await;
                not_found_is_fine(deleted.map(drop)).map_err(failed)?;
                // Most objects go at once; only what has finalizers has to be waited for.
                if api
                    .get_opt(&object.key.name)
                    .await
                    .map_err(failed)?
                    .is_none_or(|now| now.uid() != live.uid())
                {
                    pending.pop();
                }
            }
        }
        if pending.last() != Some(entry) {
            inner.written.forget(&object);
        }
    }
    Ok(pending)
}

fn not_found_is_fine(result: Result<(), kube::Error>) -> Result<(), kube::Error> {
    match result {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        other => other,
    }
}
