//! What happened to pods, in the form that `kubectl describe` shows.
//!
//! Passes only leave a note; one task writes them down, so that no pod waits for it. Notes are hints for people: when they come
//! faster than they can be written, some are dropped. The same words about the same container become a count.

use std::collections::HashMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    ContainerState, ContainerStateTerminated, ContainerStatus, Event, EventSource, ObjectReference, Pod,
    PodStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt as _};
use pilothouse_runtime::{Clock, OnExit, Tasks};
use serde_json::json;
use tokio::sync::mpsc;
use tracing::debug;

use super::specification::all_containers;

/// How many notes may wait, and how many different ones are remembered to be counted.
const WAITING: usize = 1024;
const REMEMBERED: usize = 1024;

/// Takes notes. A cheap handle.
#[derive(Clone, Debug)]
pub(crate) struct Events(mpsc::Sender<Note>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Normal,
    Warning,
}

#[derive(Clone, Debug)]
struct Note {
    about: ObjectReference,
    kind: Kind,
    reason: &'static str,
    message: String,
}

/// What the API server is told, one note after the other.
struct Writer {
    client: kube::Client,
    clock: Clock,
    node: String,
    seen: HashMap<Words, (String, i32)>,
    written: u64,
}

/// The pod, the container, the reason and the message.
type Words = (String, String, &'static str, String);

/// A pod, or one of its containers.
pub(crate) fn about(pod: &Pod, container: Option<&str>) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Pod".to_owned()),
        namespace: pod.namespace(),
        name: pod.metadata.name.clone(),
        uid: pod.uid(),
        resource_version: pod.resource_version(),
        field_path: container.map(|name| format!("spec.containers{{{name}}}")),
    }
}

// === impl Events ===

impl Events {
    pub(crate) fn start(client: kube::Client, clock: Clock, node: String, tasks: &Tasks) -> Self {
        let (notes_tx, mut notes_rx) = mpsc::channel(WAITING);
        let shutdown = tasks.shutdown().clone();
        tasks.spawn("events", OnExit::Expendable, async move {
            let mut writer = Writer { client, clock, node, seen: HashMap::new(), written: 0 };
            loop {
                let note = tokio::select! {
                    note = notes_rx.recv() => note,
                    () = shutdown.requested() => None,
                };
                let Some(note) = note else { return Ok(()) };
                if let Err(error) = writer.write(note).await {
                    // A pod that is gone, or a namespace that goes, takes no notes.
                    debug!(%error, "an event was not written");
                }
            }
        });
        Self(notes_tx)
    }

    pub(crate) fn note(&self, about: &ObjectReference, kind: Kind, reason: &'static str, message: String) {
        let _ = self.0.try_send(Note { about: about.clone(), kind, reason, message });
    }

    /// Notes what has changed between two reports about a pod.
    pub(crate) fn note_changes(&self, pod: &Pod, before: Option<&PodStatus>, after: &PodStatus) {
        for (container, kind, reason, message) in changes(pod, before, after) {
            self.note(&about(pod, Some(&container)), kind, reason, message);
        }
    }
}

/// The container, and what is to be said about it.
type Change = (String, Kind, &'static str, String);

fn changes(pod: &Pod, before: Option<&PodStatus>, after: &PodStatus) -> Vec<Change> {
    let statuses = |status: &PodStatus| -> Vec<ContainerStatus> {
        status.init_container_statuses.iter().chain(&status.container_statuses).flatten().cloned().collect()
    };
    let before = before.map(statuses).unwrap_or_default();
    let mut found = Vec::new();
    for status in statuses(after) {
        let name = &status.name;
        let old = before.iter().find(|one| one.name == *name);
        let mut say = |kind, reason, message: String| found.push((name.clone(), kind, reason, message));
        // What ended before anybody said that it ran is only in the last state.
        let ended = |status: &ContainerStatus| {
            let now = status.state.as_ref().and_then(|state| state.terminated.clone());
            let last = status.last_state.as_ref().and_then(|state| state.terminated.clone());
            now.or_else(|| {
                last.filter(|last| last.container_id.is_some() && last.container_id == status.container_id)
            })
        };
        let has_run = |status: &ContainerStatus| {
            status.state.as_ref().is_some_and(|state| state.running.is_some()) || ended(status).is_some()
        };
        let attempt_is_new = old.is_none_or(|old| !has_run(old) || old.container_id != status.container_id);
        if has_run(&status) && attempt_is_new {
            let image = &status.image;
            say(Kind::Normal, "Pulled", format!("Container image \"{image}\" already present on machine"));
            say(Kind::Normal, "Created", format!("Created container: {name}"));
            match ended(&status).filter(|ended| ended.reason.as_deref() == Some("StartError")) {
                Some(ended) => {
                    let message = ended.message.clone().unwrap_or_default();
                    say(Kind::Warning, "Failed", format!("Error: {message}"));
                }
                None => say(Kind::Normal, "Started", format!("Started container {name}")),
            }
        }
        if let Some(ended) = last_end(&status)
            && ended.reason.as_deref() == Some("OOMKilled")
            && old.and_then(last_end).is_none_or(|old| old.finished_at != ended.finished_at)
        {
            let limit = limit_in_words(pod, name);
            say(
                Kind::Warning,
                "OOMKilling",
                format!("Container {name} was killed: it ran out of memory{limit}"),
            );
        }
        let waiting =
            |status: &ContainerStatus| status.state.as_ref().and_then(|state| state.waiting.clone());
        let Some(waits) = waiting(&status) else { continue };
        if old.and_then(waiting).is_some_and(|old| old.reason == waits.reason && old.message == waits.message)
        {
            continue;
        }
        let message = waits.message.unwrap_or_default();
        match waits.reason.as_deref() {
            Some("CrashLoopBackOff") => {
                let (namespace, uid) = (pod.namespace().unwrap_or_default(), pod.uid().unwrap_or_default());
                let pod = pod.name_any();
                let text =
                    format!("Back-off restarting failed container {name} in pod {pod}_{namespace}({uid})");
                say(Kind::Warning, "BackOff", text);
            }
            Some("ErrImagePull") => {
                say(Kind::Warning, "Failed", format!("Failed to pull image \"{}\": {message}", status.image));
                say(Kind::Warning, "Failed", "Error: ErrImagePull".to_owned());
                say(Kind::Normal, "BackOff", format!("Back-off pulling image \"{}\"", status.image));
                say(Kind::Warning, "Failed", "Error: ImagePullBackOff".to_owned());
            }
            Some("CreateContainerConfigError") => say(Kind::Warning, "Failed", format!("Error: {message}")),
            Some("ContainerCreating") if !message.is_empty() => {
                say(Kind::Warning, "FailedCreatePodSandBox", message)
            }
            _ => {}
        }
    }
    found
}

/// How a container ended last.
fn last_end(status: &ContainerStatus) -> Option<&ContainerStateTerminated> {
    let of =
        |state: &'_ Option<ContainerState>| state.as_ref().is_some_and(|state| state.terminated.is_some());
    let state = if of(&status.state) { &status.state } else { &status.last_state };
    state.as_ref()?.terminated.as_ref()
}

fn limit_in_words(pod: &Pod, container: &str) -> String {
    let container = all_containers(pod).find(|one| one.name == container);
    let limits = container.and_then(|one| one.resources.as_ref()?.limits.as_ref());
    limits
        .and_then(|limits| limits.get("memory"))
        .map(|limit| format!(" (limit {})", limit.0))
        .unwrap_or_default()
}

// === impl Writer ===

impl Writer {
    async fn write(&mut self, note: Note) -> Result<(), kube::Error> {
        let Note { about, kind, reason, message } = note;
        let api: Api<Event> =
            Api::namespaced(self.client.clone(), about.namespace.as_deref().unwrap_or_default());
        let now = Time(Timestamp::from_second(self.clock.now().as_second()).unwrap_or_default());
        let place = (about.uid.clone().unwrap_or_default(), about.field_path.clone().unwrap_or_default());
        let words = (place.0, place.1, reason, message.clone());
        if let Some((name, count)) = self.seen.get_mut(&words) {
            *count += 1;
            let patch = json!({ "count": *count, "lastTimestamp": now });
            match api.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await {
                Ok(_) => return Ok(()),
                // Events are forgotten after a while; then it begins anew.
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                Err(error) => return Err(error),
            }
        }
        if self.seen.len() >= REMEMBERED {
            self.seen.clear();
        }
        self.written += 1;
        let moment = self.clock.now().as_nanosecond();
        let name = format!("{}.{moment:x}{:x}", about.name.as_deref().unwrap_or_default(), self.written);
        let event = Event {
            metadata: ObjectMeta {
                name: Some(name.clone()),
                namespace: about.namespace.clone(),
                ..ObjectMeta::default()
            },
            type_: Some(format!("{kind:?}")),
            reason: Some(reason.to_owned()),
            message: Some(message),
            source: Some(EventSource {
                component: Some("kubelet".to_owned()),
                host: Some(self.node.clone()),
            }),
            reporting_component: Some("kubelet".to_owned()),
            reporting_instance: Some(self.node.clone()),
            first_timestamp: Some(now.clone()),
            last_timestamp: Some(now),
            count: Some(1),
            involved_object: about,
            ..Event::default()
        };
        api.create(&PostParams::default(), &event).await?;
        self.seen.insert(words, (name, 1));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(state: serde_json::Value, attempt: u32) -> PodStatus {
        let container = json!({ "name": "main", "image": "busybox", "imageID": "", "ready": false, "restartCount": attempt,
            "containerID": format!("pilothouse://u/main/{attempt}"), "state": state });
        serde_json::from_value(json!({ "containerStatuses": [container] })).unwrap()
    }

    #[test]
    fn every_change_is_said_once() {
        let pod: Pod =
            serde_json::from_value(json!({ "metadata": { "name": "web", "namespace": "a", "uid": "u" } }))
                .unwrap();
        let running = |attempt| status(json!({ "running": {} }), attempt);
        let waits = |reason: &str, message: &str| {
            status(json!({ "waiting": { "reason": reason, "message": message } }), 0)
        };
        let said = |before: Option<&PodStatus>, after: &PodStatus| -> Vec<String> {
            changes(&pod, before, after)
                .into_iter()
                .map(|(_, _, reason, message)| format!("{reason}: {message}"))
                .collect()
        };
        let creating = waits("ContainerCreating", "");
        assert_eq!(said(None, &creating), Vec::<String>::new());
        let started = said(Some(&creating), &running(0));
        assert_eq!(started[1..], ["Created: Created container: main", "Started: Started container main"]);
        assert_eq!(said(Some(&running(0)), &running(0)), Vec::<String>::new());
        assert_eq!(said(Some(&running(0)), &running(1)).len(), 3);
        let mut never_ran = waits("CrashLoopBackOff", "back-off 10s");
        let last = json!({ "terminated": { "exitCode": 128, "reason": "StartError", "message": "no such file",
            "containerID": "pilothouse://u/main/0" } });
        never_ran.container_statuses.as_mut().unwrap()[0].last_state =
            Some(serde_json::from_value(last).unwrap());
        let told = said(Some(&creating), &never_ran);
        assert_eq!(told[1..3], ["Created: Created container: main", "Failed: Error: no such file"]);
        let crashing = waits("CrashLoopBackOff", "back-off 10s");
        assert_eq!(
            said(Some(&running(0)), &crashing),
            ["BackOff: Back-off restarting failed container main in pod web_a(u)"]
        );
        assert_eq!(said(Some(&crashing), &crashing), Vec::<String>::new());
        let killed = status(json!({ "terminated": { "exitCode": 137, "reason": "OOMKilled" } }), 0);
        assert_eq!(
            said(Some(&running(0)), &killed),
            ["OOMKilling: Container main was killed: it ran out of memory"]
        );
        assert_eq!(said(Some(&killed), &killed), Vec::<String>::new());
        let unknown = said(Some(&creating), &waits("ErrImagePull", "what can run"));
        assert_eq!(
            unknown,
            [
                "Failed: Failed to pull image \"busybox\": what can run",
                "Failed: Error: ErrImagePull",
                "BackOff: Back-off pulling image \"busybox\"",
                "Failed: Error: ImagePullBackOff",
            ]
        );
    }
}
