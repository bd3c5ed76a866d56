//! Custom resource definitions: their names are accepted, their kinds are served, and they go last.
//!
//! One task looks at all definitions whenever one of them, or an object of one that is going, has changed. The
//! catalogue is swapped before `Established` is written, so that whoever sees the condition finds the kind.

use std::sync::Arc;

use jiff::Timestamp;
use pilothouse_runtime::TaskError;
use serde_json::{Value, json};
use tracing::{info, warn};

use crate::catalogue::Resource;
use crate::patch::managed_fields;
use crate::server::Server;
use crate::status::Failure;
use crate::storage::{self, WriteError};
use crate::strategy::definition;
use crate::verbs::delete;

mod names;

const COLLECTION: &str = "customresourcedefinitions.apiextensions.k8s.io";
/// Who writes the status.
const MANAGER: &str = "kube-apiserver";
/// Keeps a definition until the last of its objects is gone.
const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Serves the definitions there are. Used once before anything is answered; from then on the task keeps up.
pub(crate) fn refresh(server: &Server) {
    let definitions = definitions(server);
    let verdicts = names::judge(server.built_in.resources().map(AsRef::as_ref), &definitions);
    let served: Vec<Value> = definitions
        .into_iter()
        .zip(verdicts)
        .filter(|(definition, verdict)| verdict.conflict.is_none() || is_established(definition))
        .map(|(mut definition, verdict)| {
            definition["spec"]["names"] = verdict.accepted;
            definition
        })
        .collect();
    server.catalogue.store(Arc::new(server.built_in.with_custom(&served)));
}

/// What was served once is served on, by the names it had.
fn is_established(definition: &Value) -> bool {
    let mut conditions = definition["status"]["conditions"].as_array().into_iter().flatten();
    conditions.any(|one| one["type"] == "Established" && one["status"] == "True")
}

/// Looks after the definitions until shutdown.
pub(crate) async fn run(server: Arc<Server>) -> Result<(), TaskError> {
    let mut through = server.storage.cache().subscribe();
    let mut going = Going::default();
    let mut seen = None;
    loop {
        through.mark_unchanged();
        let stamp = going.stamp(&server);
        if seen.as_ref() != Some(&stamp) {
            refresh(&server);
            match pass(&server).await {
                Ok(()) => seen = Some(stamp),
                Err(failure) => warn!(%failure, "could not look after a custom resource definition"),
            }
        }
        tokio::select! {
            changed = through.changed() => changed?,
            () = server.shutdown.requested() => return Ok(()),
        }
    }
}

/// The definitions that are being deleted. They are looked for when a definition has changed and not with every change of
/// anything: definitions are the largest objects there are.
#[derive(Default)]
struct Going {
    /// When the definitions were last looked through.
    at: Option<u64>,
    /// What their objects are kept under.
    collections: Vec<String>,
}

impl Going {
    /// What has to be the same for there to be nothing to do: the definitions, and the objects of those that are going.
    fn stamp(&mut self, server: &Server) -> Vec<u64> {
        let cache = server.storage.cache();
        let touched = cache.touched(COLLECTION);
        if self.at != Some(touched) {
            let going = definitions(server).into_iter().filter(delete::is_deleting);
            *self = Self { at: Some(touched), collections: going.map(|one| collection(&one)).collect() };
        }
        let instances = self.collections.iter().map(|collection| cache.touched(collection));
        std::iter::once(touched).chain(instances).collect()
    }
}

fn definitions(server: &Server) -> Vec<Value> {
    let snapshot = server.storage.cache().snapshot(&format!("{COLLECTION}/"));
    let mut definitions: Vec<Value> =
        snapshot.objects.iter().filter_map(|(_, bytes)| serde_json::from_slice(bytes).ok()).collect();
    // Who came first keeps the name.
    definitions.sort_by_cached_key(|definition| {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        (text(&definition["metadata"]["creationTimestamp"]), text(&definition["metadata"]["name"]))
    });
    definitions
}

fn collection(definition: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    format!("{}.{}", text(&definition["spec"]["names"]["plural"]), text(&definition["spec"]["group"]))
}

async fn pass(server: &Arc<Server>) -> Result<(), Failure> {
    let resource = server.built_in("apiextensions.k8s.io", "customresourcedefinitions")?;
    let definitions = definitions(server);
    let verdicts = names::judge(server.built_in.resources().map(AsRef::as_ref), &definitions);
    for (definition, verdict) in definitions.iter().zip(verdicts) {
        let name = definition["metadata"]["name"].as_str().unwrap_or_default();
        let Some(stored) = server.storage.get(&resource, "", name).await? else { continue };
        let mut wanted = stored.value.clone();
        observe(&mut wanted, &verdict, server.clock.now());
        if delete::is_deleting(&wanted) && emptied(server, &wanted).await? {
            let finalizers = wanted["metadata"]["finalizers"].as_array_mut();
            finalizers.into_iter().for_each(|list| list.retain(|one| one != CLEANUP));
        }
        if wanted["status"] != stored.value["status"] {
            let now = server.clock.now();
            managed_fields::track(&resource, Some("status"), Some(&stored.value), &mut wanted, MANAGER, now);
        }
        let written = if delete::is_finished(&resource, &wanted) {
            info!(definition = name, "the last object is gone, and so is the definition");
            server.storage.remove(&resource, &stored).await
        } else if wanted != stored.value {
            server.storage.replace(&resource, &stored, &wanted).await
        } else {
            continue;
        };
        match written {
            // One that was changed meanwhile has woken this task again.
            Ok(_) | Err(WriteError::Changed | WriteError::Exists | WriteError::NamespaceChanged) => {}
            Err(WriteError::Failed(failure)) => return Err(failure),
        }
    }
    refresh(server);
    Ok(())
}

/// Marks a definition that is about to go: its objects go first.
pub(crate) fn mark(definition: &mut Value, now: Timestamp) {
    if delete::is_deleting(definition) {
        return;
    }
    let finalizers = &mut definition["metadata"]["finalizers"];
    match finalizers.as_array_mut() {
        Some(list) if list.iter().any(|one| one == CLEANUP) => {}
        Some(list) => list.push(json!(CLEANUP)),
        None => *finalizers = json!([CLEANUP]),
    }
    let message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
    condition(definition, "Terminating", "True", "InstanceDeletionPending", message, now);
}

/// What the status of a definition says.
fn observe(definition: &mut Value, verdict: &names::Verdict, now: Timestamp) {
    let deleting = delete::is_deleting(definition);
    let established = is_established(definition);
    definition["status"]["acceptedNames"] = verdict.accepted.clone();
    match &verdict.conflict {
        None => {
            condition(definition, "NamesAccepted", "True", "NoConflicts", "no conflicts found", now);
            let message = "the initial names have been accepted";
            condition(definition, "Established", "True", "InitialNamesAccepted", message, now);
        }
        Some(names::Conflict { reason, name }) => {
            let message = format!("\"{name}\" is already in use");
            condition(definition, "NamesAccepted", "False", reason, &message, now);
            if !established {
                let message = "not all names are accepted";
                condition(definition, "Established", "False", "NotAccepted", message, now);
            }
        }
    }
    let approved =
        definition::approved(definition).map(|approved| approved.map(str::to_owned).map_err(str::to_owned));
    if let Some(approved) = approved {
        let kind = "KubernetesAPIApprovalPolicyConformant";
        match approved {
            Ok(link) => {
                condition(definition, kind, "True", "ApprovedAnnotation", &format!("approved in {link}"), now)
            }
            Err(said) => {
                let message = format!("not approved: {said:?}");
                condition(definition, kind, "False", "UnapprovedAnnotation", &message, now);
            }
        }
    }
    if deleting {
        let message = "CustomResource deletion is in progress";
        condition(definition, "Terminating", "True", "InstanceDeletionInProgress", message, now);
    }
}

fn condition(object: &mut Value, kind: &str, status: &str, reason: &str, message: &str, now: Timestamp) {
    let conditions = &mut object["status"]["conditions"];
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    let Some(conditions) = conditions.as_array_mut() else { return };
    let new = |since: Value| {
        json!({
            "type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": since,
        })
    };
    let since = json!(crate::strategy::timestamp(now));
    match conditions.iter_mut().find(|one| one["type"] == kind) {
        Some(old) if old["status"] == status => {
            let since = old["lastTransitionTime"].clone();
            *old = new(since);
        }
        Some(old) => *old = new(since),
        None => conditions.push(new(since)),
    }
}

/// Deletes the objects of a definition that is going. True once there are none.
async fn emptied(server: &Arc<Server>, definition: &Value) -> Result<bool, Failure> {
    let catalogue = server.catalogue.load_full();
    let group = definition["spec"]["group"].as_str().unwrap_or_default();
    let plural = definition["spec"]["names"]["plural"].as_str().unwrap_or_default();
    let resource: Option<&Arc<Resource>> =
        catalogue.resources().find(|one| one.custom && one.is(group, plural));
    let Some(resource) = resource else { return Ok(true) };
    let prefix = storage::prefix(resource, None);
    for (_, object) in server.storage.cache().snapshot(&prefix).objects {
        let Ok(object) = serde_json::from_slice::<Value>(&object) else { continue };
        if delete::is_deleting(&object) {
            continue;
        }
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        if let Some(stored) = server.storage.get(resource, namespace, name).await? {
            match delete::delete(server, resource, stored, &delete::Options::default()).await {
                Ok(_) => {}
                Err(failure) if failure.code == 404 => {}
                Err(failure) => return Err(failure),
            }
        }
    }
    Ok(server.storage.cache().snapshot(&prefix).objects.is_empty())
}

/// Nothing is made of a kind that is going.
pub(crate) fn admit(server: &Server, resource: &Resource) -> Result<(), Failure> {
    if !resource.custom {
        return Ok(());
    }
    let key = format!("{COLLECTION}//{}", resource.qualified());
    let definition = server.storage.cache().get(&key);
    let definition = definition.and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok());
    if definition.is_some_and(|definition| delete::is_deleting(&definition)) {
        return Err(Failure::new(
            405,
            "MethodNotAllowed",
            "create not allowed while custom resource definition is terminating",
        ));
    }
    Ok(())
}
