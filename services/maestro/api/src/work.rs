//! A bundle as a source thinks of it: a work, with a name, in a cluster.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::bundle::{ManifestBundle, StatusPayload};
use crate::event::{Action, CloudEvent, EventType, InvalidEvent, Subresource, extension};
use crate::status::BundleStatus;

/// What a source wants in one cluster under one name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Work {
    /// The cluster.
    pub consumer: String,
    /// The name, unique for the source and the cluster.
    pub name: String,
    /// Labels; the server can be searched by them.
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
    /// What is to be applied.
    pub bundle: ManifestBundle,
    /// The one id that follows the work.
    pub correlation_id: Option<String>,
}

/// What became of a work.
#[derive(Clone, Debug, PartialEq)]
pub struct StatusEvent {
    /// The bundle's id, the same as [`work_uid`].
    pub resource_id: String,
    /// The cluster.
    pub consumer: String,
    /// The version this is about.
    pub version: i32,
    /// Orders the events of one work.
    pub sequence_id: Option<String>,
    /// The hash of the status, for [`SourceClient::resync`](crate::SourceClient::resync).
    pub status_hash: Option<String>,
    /// The metadata the work was sent with.
    pub metadata: Option<Value>,
    /// The bundle it is about.
    pub bundle: Option<ManifestBundle>,
    /// What was observed.
    pub status: BundleStatus,
    /// The one id that follows the work.
    pub correlation_id: Option<String>,
}

/// The id of a work: always the same for the same source, cluster and name.
pub fn work_uid(source: &str, consumer: &str, name: &str) -> Uuid {
    let key = format!("{source}-manifestworks.work.open-cluster-management.io-{consumer}-{name}");
    Uuid::new_v5(&Uuid::NAMESPACE_OID, key.as_bytes())
}

// === impl Work ===

impl Work {
    /// The event that asks for it. `version` is the one known to the server, zero for whichever it has.
    pub(crate) fn event(
        &self,
        source: &str,
        action: Action,
        version: i32,
        now: Timestamp,
    ) -> Result<CloudEvent, serde_json::Error> {
        let uid = work_uid(source, &self.consumer, &self.name).to_string();
        let mut metadata = json!({
            "name": self.name,
            "namespace": self.consumer,
            "uid": uid,
            "resourceVersion": "0",
            "creationTimestamp": now.round(jiff::Unit::Second).unwrap_or(now).to_string(),
        });
        for (key, map) in [("labels", &self.labels), ("annotations", &self.annotations)] {
            if !map.is_empty() {
                metadata[key] = json!(map);
            }
        }
        let mut event = CloudEvent::new(source, &EventType::new(Subresource::Spec, action), now)
            .with(extension::CLUSTER_NAME, self.consumer.as_str())
            .with(extension::ORIGINAL_SOURCE, "")
            .with(extension::RESOURCE_ID, uid)
            .with(extension::RESOURCE_VERSION, version)
            .with(extension::LOG_TRACING, "{}")
            .with(extension::METADATA, serde_json::to_string(&metadata)?);
        if let Some(id) = &self.correlation_id {
            event = event.with(extension::CORRELATION_ID, id.as_str());
        }
        Ok(match action {
            Action::Delete => event.with(extension::DELETION_TIMESTAMP, now),
            _ => event.with_data(serde_json::to_vec(&self.bundle)?),
        })
    }
}

// === impl StatusEvent ===

impl StatusEvent {
    /// Whether everything of the work is gone from the cluster, and the work with it.
    pub fn is_deleted(&self) -> bool {
        self.status.is_deleted()
    }
}

impl TryFrom<CloudEvent> for StatusEvent {
    type Error = InvalidEvent;

    fn try_from(event: CloudEvent) -> Result<Self, InvalidEvent> {
        let payload: StatusPayload =
            if event.data.is_empty() { StatusPayload::default() } else { event.payload()? };
        Ok(Self {
            resource_id: event.required(extension::RESOURCE_ID)?,
            consumer: event.required(extension::CLUSTER_NAME)?,
            version: event.resource_version()?.ok_or(InvalidEvent::Missing(extension::RESOURCE_VERSION))?,
            sequence_id: event.text(extension::SEQUENCE_ID),
            status_hash: event.text(extension::STATUS_HASH),
            metadata: event.metadata()?,
            bundle: payload.manifest_bundle,
            status: payload.status,
            correlation_id: event.text(extension::CORRELATION_ID),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::feedback;

    #[test]
    fn id_follows_from_source_cluster_and_name() {
        // Computed with Python's `uuid.uuid5(uuid.NAMESPACE_OID, …)`.
        assert_eq!(work_uid("cs", "cluster1", "hc-1").to_string(), "c38ed5a8-27e3-5d3d-8129-4f7116ae3db5");
    }

    #[test]
    fn status_event_brings_bundle_and_feedback() {
        let data = br#"{"manifestBundle":{"manifests":[{"kind":"ConfigMap"}]},
            "conditions":[{"type":"Applied","status":"True","observedGeneration":1,"lastTransitionTime":"2026-01-02T03:04:05Z","reason":"AppliedManifestWorkComplete","message":"Apply manifest work complete"}],
            "resourceStatus":[{"resourceMeta":{"ordinal":0,"group":"","version":"v1","kind":"ConfigMap","resource":"configmaps","name":"cm1","namespace":"default"},
             "statusFeedback":{"values":[{"name":"data","fieldValue":{"type":"JsonRaw","jsonRaw":"{\"k\":\"v\"}"}},{"name":"n","fieldValue":{"type":"Integer","integer":3}}]},"conditions":[]}]}"#;
        let kind = EventType::new(Subresource::Status, Action::Update);
        let event = CloudEvent::new("cluster1-work-agent", &kind, Timestamp::UNIX_EPOCH)
            .with(extension::RESOURCE_ID, "1")
            .with(extension::CLUSTER_NAME, "cluster1")
            .with(extension::RESOURCE_VERSION, "2")
            .with_data(data.as_slice());
        let event = StatusEvent::try_from(event).unwrap();
        assert_eq!(event.version, 2);
        assert!(event.status.is_true("Applied") && !event.is_deleted());
        let manifest = &event.status.resource_status[0];
        assert_eq!(feedback(manifest, "data"), Some(json!({"k": "v"})));
        assert_eq!(feedback(manifest, "n"), Some(json!(3)));
        assert_eq!(event.bundle.unwrap().manifests.len(), 1);
    }

    #[test]
    fn work_asks_for_its_deletion_without_a_payload() {
        let work = Work { consumer: "c".into(), name: "n".into(), ..Work::default() };
        let event = work.event("cs", Action::Delete, 0, Timestamp::UNIX_EPOCH).unwrap();
        assert!(event.data.is_empty());
        assert_eq!(event.text(extension::DELETION_TIMESTAMP).unwrap(), "1970-01-01T00:00:00Z");
        let event = work.event("cs", Action::Update, 4, Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(&event.data[..], br#"{"manifests":[]}"#);
        assert_eq!(event.resource_version().unwrap(), Some(4));
    }
}
