//! Deleting, which is often only the wish to: what has finalizers waits for them, a pod for its kubelet, a namespace for
//! its content.

use std::sync::Arc;

use axum::response::Response;
use http::StatusCode;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::options;
use crate::admission;
use crate::answer;
use crate::catalogue::Resource;
use crate::request::Parameters;
use crate::server::{Call, Server};
use crate::status::{Cause, Failure};
use crate::storage::{Stored, WriteError};
use crate::strategy;

const FOREGROUND: &str = "foregroundDeletion";
const ORPHAN: &str = "orphan";
/// What a pod gets to end in peace, if nobody says otherwise.
const POD_GRACE: i64 = 30;

/// What who deletes a job is told.
const PRESERVED: &str = "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to \
    remove them or set propagationPolicy=Orphan to suppress this warning";

/// What becomes of what an object owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Propagation {
    Background,
    Foreground,
    Orphan,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) grace: Option<i64>,
    pub(crate) propagation: Option<Propagation>,
    pub(crate) uid: Option<String>,
    pub(crate) resource_version: Option<String>,
    pub(crate) dry_run: bool,
}

/// What came of it.
#[derive(Debug)]
pub(crate) enum Deleted {
    /// It is no more; this was its last state.
    Gone(Value),
    /// It is marked, and somebody else finishes it.
    Going(Value),
}

/// What has to be done to an object that is to be deleted.
#[derive(Debug, PartialEq)]
enum Plan {
    Remove,
    Write(Value),
    /// It is on its way already.
    Keep,
}

pub(super) async fn handle(call: &Call) -> Result<Response, Failure> {
    let body = body(call)?;
    let options = Options::of(&call.info.query, &body)?;
    let stored = super::existing(call).await?;
    admission::nodes::admit_deletion(&call.user, &call.resource, &stored.value)?;
    let mut response = match delete(&call.server, &call.resource, stored, &options).await? {
        Deleted::Going(object) => call.show(StatusCode::OK, object)?,
        Deleted::Gone(object) if call.resource.returns_deleted() => call.show(StatusCode::OK, object)?,
        Deleted::Gone(object) => {
            let mut status = json!({
                "kind": "Status",
                "apiVersion": "v1",
                "metadata": {},
                "status": "Success",
                "details": {
                    "name": call.name(),
                    "kind": call.resource.plural,
                    "uid": object["metadata"]["uid"],
                },
            });
            if !call.resource.group.is_empty() {
                status["details"]["group"] = json!(call.resource.group);
            }
            answer::json(StatusCode::OK, &status)
        }
    };
    if call.resource.is("batch", "jobs") && options.propagation.is_none() {
        answer::warn(&mut response, &[PRESERVED.to_owned()]);
    }
    Ok(response)
}

/// The options that were sent along, which are nothing else.
pub(super) fn body(call: &Call) -> Result<Value, Failure> {
    if call.body.is_empty() {
        return Ok(Value::Null);
    }
    let body = call.body_value()?;
    match (body["kind"].as_str().unwrap_or_default(), body["apiVersion"].as_str().unwrap_or_default()) {
        ("" | "DeleteOptions", _) => Ok(body),
        (kind, version) => Err(Failure::unexpected(format!(
            "no kind {kind:?} is registered for version {version:?} in scheme \"pkg/runtime/scheme.go:110\""
        ))),
    }
}

impl Options {
    /// From the body, and for what is not there, from the query.
    pub(crate) fn of(query: &Parameters, body: &Value) -> Result<Self, Failure> {
        let grace = match body["gracePeriodSeconds"].as_i64() {
            Some(grace) => Some(grace),
            None => query
                .get("gracePeriodSeconds")
                .map(|text| {
                    text.parse().map_err(|_| Failure::bad_request("gracePeriodSeconds: it is not a number"))
                })
                .transpose()?,
        };
        let policy = body["propagationPolicy"].as_str().or_else(|| query.get("propagationPolicy"));
        let orphan = body["orphanDependents"].as_bool();
        let propagation = match (policy, orphan) {
            (Some(policy), Some(_)) => {
                let cause = Cause::invalid(
                    "propagationPolicy",
                    &json!(policy),
                    "orphanDependents and deletionPropagation cannot be both set",
                );
                return Err(Failure::invalid_options("DeleteOptions", vec![cause]));
            }
            (None, None) => None,
            (Some("Background"), _) | (None, Some(false)) => Some(Propagation::Background),
            (Some("Foreground"), _) => Some(Propagation::Foreground),
            (Some("Orphan"), _) | (None, Some(true)) => Some(Propagation::Orphan),
            (Some(other), None) => {
                let known = ["Foreground", "Background", "Orphan", "nil"];
                let cause = Cause::not_supported("propagationPolicy", &json!(other), known);
                return Err(Failure::invalid_options("DeleteOptions", vec![cause]));
            }
        };
        let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        let in_body = body["dryRun"].as_array().into_iter().flatten().filter_map(Value::as_str);
        Ok(Self {
            grace,
            propagation,
            uid: text(&body["preconditions"]["uid"]),
            resource_version: text(&body["preconditions"]["resourceVersion"]),
            dry_run: options::dry_run("DeleteOptions", in_body.chain(query.all("dryRun")))?,
        })
    }

    fn check(&self, resource: &Resource, object: &Value) -> Result<(), Failure> {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let expected = [
            ("UID", "uid", &self.uid, "deleted and then recreated"),
            ("ResourceVersion", "resourceVersion", &self.resource_version, "modified"),
        ];
        for (what, field, wanted, happened) in expected {
            let found = object["metadata"][field].as_str().unwrap_or_default();
            if let Some(wanted) = wanted
                && wanted != found
            {
                let why = format!(
                    "the {what} in the precondition ({wanted}) does not match the {what} in record ({found}). The \
                     object might have been {happened}"
                );
                return Err(Failure::conflict_of_kind(resource, name, why));
            }
        }
        Ok(())
    }
}

/// Deletes an object that was read, or asks those who have to let go of it first.
pub(crate) async fn delete(
    server: &Arc<Server>,
    resource: &Resource,
    mut stored: Stored,
    options: &Options,
) -> Result<Deleted, Failure> {
    let name = stored.value["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let namespace = stored.value["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
    if resource.is("", "namespaces") && matches!(name.as_str(), "default" | "kube-system" | "kube-public") {
        return Err(Failure::forbidden(resource, &name, "this namespace may not be deleted"));
    }
    for _ in 0..super::ATTEMPTS {
        options.check(resource, &stored.value)?;
        let plan = plan(resource, &stored.value, options, server.clock.now());
        let outcome = match plan {
            Plan::Keep => return Ok(Deleted::Going(stored.value)),
            Plan::Remove if options.dry_run => {
                return Ok(Deleted::Gone(ended(resource, stored.value, server)));
            }
            Plan::Write(object) if options.dry_run => return Ok(Deleted::Going(object)),
            Plan::Remove => server
                .storage
                .remove(resource, &stored)
                .await
                .map(|gone| Deleted::Gone(ended(resource, gone, server))),
            Plan::Write(object) => {
                server.storage.replace(resource, &stored, &object).await.map(Deleted::Going)
            }
        };
        match outcome {
            Ok(deleted) => return Ok(deleted),
            Err(WriteError::Failed(failure)) => return Err(failure),
            // Somebody was faster; what is to be done may be another thing now.
            Err(_) => {
                let again = server.storage.get(resource, &namespace, &name).await?;
                stored = again.ok_or_else(|| Failure::not_found(resource, &name))?;
            }
        }
    }
    Err(Failure::modified(resource, &name))
}

/// What is shown of a pod that is gone says when it went.
fn ended(resource: &Resource, mut object: Value, server: &Server) -> Value {
    if resource.is("", "pods") {
        let deleting = is_deleting(&object);
        let metadata = &mut object["metadata"];
        metadata["deletionGracePeriodSeconds"] = json!(0);
        if !deleting {
            metadata["deletionTimestamp"] = json!(strategy::timestamp(server.clock.now()));
            metadata["generation"] = json!(metadata["generation"].as_i64().unwrap_or_default() + 1);
        }
    }
    object
}

fn plan(resource: &Resource, current: &Value, options: &Options, now: Timestamp) -> Plan {
    let mut object = current.clone();
    propagate(resource, &mut object, options.propagation);
    if resource.is("apiextensions.k8s.io", "customresourcedefinitions") {
        crate::crds::mark(&mut object, now);
    }
    let grace = if resource.is("", "pods") { pod_grace(&object, options.grace) } else { Some(0) };
    let deleting = is_deleting(&object);
    // These are marked, and somebody empties them; there is no grace in that.
    let emptied_first =
        resource.is("", "namespaces") || resource.is("apiextensions.k8s.io", "customresourcedefinitions");
    match grace {
        // A repeated wish without anything new.
        None => {}
        Some(0) if !is_held(resource, &object) => return Plan::Remove,
        Some(grace) => {
            let shortened =
                object["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or_default() != grace;
            if !deleting || shortened {
                let at = now.saturating_add(SignedDuration::from_secs(grace)).unwrap_or(now);
                object["metadata"]["deletionTimestamp"] = json!(strategy::timestamp(at));
                if !emptied_first {
                    object["metadata"]["deletionGracePeriodSeconds"] = json!(grace);
                }
            }
            if !deleting
                && !emptied_first
                && let Some(generation) = object["metadata"]["generation"].as_i64()
            {
                object["metadata"]["generation"] = json!(generation + 1);
            }
        }
    }
    if resource.is("", "namespaces") {
        object["status"]["phase"] = json!("Terminating");
    }
    if object == *current { Plan::Keep } else { Plan::Write(object) }
}

/// How long a pod has, or nothing if that is decided already.
fn pod_grace(pod: &Value, asked: Option<i64>) -> Option<i64> {
    let unscheduled = pod["spec"]["nodeName"].as_str().is_none_or(str::is_empty);
    let finished = matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    if unscheduled || finished {
        return Some(0);
    }
    let decided = is_deleting(pod).then(|| pod["metadata"]["deletionGracePeriodSeconds"].as_i64()).flatten();
    let wanted = asked.or_else(|| pod["spec"]["terminationGracePeriodSeconds"].as_i64()).unwrap_or(POD_GRACE);
    let wanted = if wanted < 0 { 1 } else { wanted };
    match (decided, asked) {
        (Some(decided), Some(_)) if wanted < decided => Some(wanted),
        (Some(0), Some(0)) => Some(0),
        (Some(_), _) => None,
        (None, _) => Some(wanted),
    }
}

fn propagate(resource: &Resource, object: &mut Value, propagation: Option<Propagation>) {
    let default = resource.is("batch", "jobs").then_some(Propagation::Orphan);
    let Some(propagation) = propagation.or_else(|| default.filter(|_| !is_deleting(object))) else { return };
    let wanted = match propagation {
        Propagation::Background => None,
        Propagation::Foreground => Some(FOREGROUND),
        Propagation::Orphan => Some(ORPHAN),
    };
    let Some(metadata) = object["metadata"].as_object_mut() else { return };
    let mut finalizers: Vec<Value> =
        metadata.get("finalizers").and_then(Value::as_array).cloned().unwrap_or_default();
    finalizers.retain(|one| *one == json!(wanted) || (one != FOREGROUND && one != ORPHAN));
    if let Some(wanted) = wanted
        && !finalizers.iter().any(|one| one == wanted)
    {
        finalizers.push(json!(wanted));
    }
    if finalizers.is_empty() {
        metadata.remove("finalizers");
    } else {
        metadata.insert("finalizers".to_owned(), json!(finalizers));
    }
}

pub(crate) fn is_deleting(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

/// Whether somebody has to let go of an object before it can go.
fn is_held(resource: &Resource, object: &Value) -> bool {
    let some = |value: &Value| value.as_array().is_some_and(|list| !list.is_empty());
    some(&object["metadata"]["finalizers"])
        || (resource.is("", "namespaces") && some(&object["spec"]["finalizers"]))
}

/// Whether a change has removed the last thing that a deletion waited for.
pub(crate) fn is_finished(resource: &Resource, object: &Value) -> bool {
    let grace = object["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(0);
    is_deleting(object) && grace == 0 && !is_held(resource, object)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::Catalogue;

    fn resource(plural: &str) -> Arc<Resource> {
        Arc::clone(Catalogue::built_in(33).find("", "v1", plural).unwrap())
    }

    fn planned(plural: &str, object: &Value, options: &Options) -> Plan {
        plan(&resource(plural), object, options, "2026-01-01T00:00:00Z".parse().unwrap())
    }

    fn written(plan: Plan) -> Value {
        match plan {
            Plan::Write(object) => object,
            other => panic!("{other:?}"),
        }
    }

    fn running_pod() -> Value {
        json!({
            "metadata": { "name": "web", "generation": 1 },
            "spec": { "nodeName": "one", "terminationGracePeriodSeconds": 5 },
            "status": { "phase": "Running" },
        })
    }

    #[test]
    fn what_nobody_holds_is_removed_at_once() {
        let object = json!({ "metadata": { "name": "a" } });
        assert_eq!(planned("configmaps", &object, &Options::default()), Plan::Remove);
    }

    #[test]
    fn finalizers_are_waited_for_once() {
        let object = json!({ "metadata": { "name": "a", "finalizers": ["x/y"] } });
        let marked = written(planned("configmaps", &object, &Options::default()));
        assert_eq!(marked["metadata"]["deletionTimestamp"], "2026-01-01T00:00:00Z");
        assert_eq!(planned("configmaps", &marked, &Options::default()), Plan::Keep);
        assert!(!is_finished(&resource("configmaps"), &marked));
        let mut released = marked;
        released["metadata"]["finalizers"] = json!([]);
        assert!(is_finished(&resource("configmaps"), &released));
    }

    #[test]
    fn propagation_is_a_finalizer() {
        let object = json!({ "metadata": { "name": "a" } });
        let foreground = Options { propagation: Some(Propagation::Foreground), ..Options::default() };
        let marked = written(planned("configmaps", &object, &foreground));
        assert_eq!(marked["metadata"]["finalizers"], json!([FOREGROUND]));
        let orphan = Options { propagation: Some(Propagation::Orphan), ..Options::default() };
        let marked = written(planned("configmaps", &marked, &orphan));
        assert_eq!(marked["metadata"]["finalizers"], json!([ORPHAN]));
        let background = Options { propagation: Some(Propagation::Background), ..Options::default() };
        assert_eq!(planned("configmaps", &marked, &background), Plan::Remove);
    }

    #[test]
    fn a_running_pod_waits_for_its_kubelet() {
        let marked = written(planned("pods", &running_pod(), &Options::default()));
        assert_eq!(marked["metadata"]["deletionTimestamp"], "2026-01-01T00:00:05Z");
        assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 5);
        assert_eq!(planned("pods", &marked, &Options::default()), Plan::Keep);
        assert!(!is_finished(&resource("pods"), &marked));
        let longer = Options { grace: Some(60), ..Options::default() };
        assert_eq!(planned("pods", &marked, &longer), Plan::Keep);
        let shorter = Options { grace: Some(2), ..Options::default() };
        assert_eq!(written(planned("pods", &marked, &shorter))["metadata"]["deletionGracePeriodSeconds"], 2);
        let confirmed = Options { grace: Some(0), ..Options::default() };
        assert_eq!(planned("pods", &marked, &confirmed), Plan::Remove);
    }

    #[test]
    fn a_pod_that_runs_nowhere_goes_at_once() {
        let mut pod = running_pod();
        pod["status"]["phase"] = json!("Succeeded");
        assert_eq!(planned("pods", &pod, &Options::default()), Plan::Remove);
        let waiting = json!({ "metadata": { "name": "web" }, "spec": {} });
        assert_eq!(planned("pods", &waiting, &Options::default()), Plan::Remove);
    }

    #[test]
    fn a_namespace_waits_for_its_content() {
        let namespace = json!({ "metadata": { "name": "a" }, "spec": { "finalizers": ["kubernetes"] } });
        let marked = written(planned("namespaces", &namespace, &Options::default()));
        assert_eq!(marked["status"]["phase"], "Terminating");
        let mut emptied = marked;
        emptied["spec"]["finalizers"] = json!([]);
        assert!(is_finished(&resource("namespaces"), &emptied));
    }
}
