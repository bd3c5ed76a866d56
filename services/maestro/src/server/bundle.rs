//! What sources do to bundles.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use pilothouse_maestro_api::{Action, CloudEvent, EventType, Subresource, extension};
use pilothouse_runtime::{Clock, fault};
use pilothouse_store::{
    Committed, Conflict, DocumentId, Error as StoreError, Etag, Precondition, Transaction,
};
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;
use tracing::info;

use crate::link::Link;
use crate::server::accepted::{Accepted, Expected, Order};
use crate::server::error::Refusal;
use crate::server::records::{NoteAction, Records, Resource};
use crate::server::stored_event::StoredEvent;
use crate::topic;

/// How often a change is tried against others who change the same bundle.
const ATTEMPTS: usize = 10;

/// Carries out what sources ask for. A cheap handle.
#[derive(Clone, Debug)]
pub(super) struct Bundles {
    pub(super) records: Records,
    pub(super) clock: Clock,
    pub(super) link: Link,
    pub(super) source_id: String,
    pub(super) accepted: Accepted,
    pub(super) consumers: Consumers,
}

/// Consumers as they were when somebody last looked. Whoever relies on it has the store check it. A cheap handle.
#[derive(Clone, Debug, Default)]
pub(super) struct Consumers(Arc<Mutex<HashMap<String, Etag>>>);

impl Consumers {
    /// More are not remembered.
    const MOST: usize = 10_000;

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Etag>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn get(&self, records: &Records, name: &str) -> Result<Option<Etag>, StoreError> {
        let known = self.lock().get(name).cloned();
        if known.is_some() {
            return Ok(known);
        }
        let Some((document, _)) = records.consumer(name).await? else { return Ok(None) };
        let mut known = self.lock();
        if known.len() >= Self::MOST {
            known.clear();
        }
        known.insert(name.to_owned(), document.etag.clone());
        Ok(Some(document.etag))
    }

    fn forget(&self, name: &str) {
        self.lock().remove(name);
    }
}

impl Bundles {
    pub(super) async fn create(&self, event: CloudEvent) -> Result<(), Refusal> {
        let consumer = event.required(extension::CLUSTER_NAME)?;
        let id = event.required(extension::RESOURCE_ID)?;
        let version = event
            .resource_version()?
            .ok_or_else(|| Refusal::Invalid("the event has no `resourceversion`".to_owned()))?;
        let payload = checked(&event)?;
        let now = self.clock.now();
        let resource = Resource {
            name: id.clone(),
            source: event.source.clone(),
            version: if version == 0 { 1 } else { version },
            created_at: now,
            updated_at: now,
            deleted_at: None,
            payload,
            status: None,
            consumer_name: consumer,
            id,
        };
        let (consumer, consumers) = (&resource.consumer_name, &self.records.consumers);
        for attempt in 1.. {
            let Some(etag) = self.consumers.get(&self.records, consumer).await? else {
                return Err(Refusal::Invalid(format!("there is no consumer `{consumer}`; create it first")));
            };
            let outgoing = self.check_size(&resource)?;
            let mut transaction = self.records.transaction();
            // The consumer must not go in between.
            transaction.check(consumers, DocumentId::try_new(consumer)?, Precondition::Etag(etag));
            self.records.put_resource(
                &mut transaction,
                &resource,
                Precondition::Absent,
                NoteAction::Create,
            )?;
            match self.commit(&resource, &transaction).await {
                Ok((committed, _expected)) => {
                    self.hand_over(&resource, outgoing, Action::Create, &committed);
                    log(&event, &resource, "accepted a bundle");
                    return Ok(());
                }
                Err(StoreError::Conflict(Conflict::Exists { .. })) => {
                    return Err(Refusal::Conflict(format!(
                        "there is already a bundle with id='{}'",
                        resource.id
                    )));
                }
                // It is another one than it was, or none.
                Err(StoreError::Conflict(
                    Conflict::Changed { container, .. } | Conflict::Missing { container, .. },
                )) if container == consumers.name() && attempt < ATTEMPTS => {
                    self.consumers.forget(consumer);
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Spares the outbox from reading what was just written.
    fn hand_over(&self, resource: &Resource, mut event: CloudEvent, action: Action, committed: &Committed) {
        event.kind = EventType::new(Subresource::Spec, action).to_string();
        // All that one transaction writes has the same.
        let Some(note) = committed.etag().cloned() else { return };
        let (consumer, version) = (resource.consumer_name.clone(), resource.version);
        self.accepted.put(&resource.id, Order { note, consumer, version, event });
    }

    /// Commits a bundle that others expect until the answer is dropped.
    async fn commit(
        &self,
        resource: &Resource,
        transaction: &Transaction,
    ) -> Result<(Committed, Expected), StoreError> {
        let expected = self.accepted.expect(&resource.id);
        fault::point("maestro-server.accept.before");
        let committed = self.records.store.commit(transaction).await;
        fault::point("maestro-server.accept.after");
        Ok((committed?, expected))
    }

    /// Refuses what could never be delivered: whoever sends it can do something about it. The answer is what is delivered.
    fn check_size(&self, resource: &Resource) -> Result<CloudEvent, Refusal> {
        let event = outgoing(resource, &self.source_id, Action::ResyncResponse, self.clock.now())?;
        let topic = topic::source_events(&self.source_id, &resource.consumer_name);
        let too_large = |error| Refusal::Invalid(format!("{error}; split it into several bundles"));
        self.link.check(&topic, &event).map_err(too_large)?;
        Ok(event)
    }

    /// Changes a bundle; that of `owner`, where callers are told apart.
    pub(super) async fn update(&self, event: CloudEvent, owner: Option<&str>) -> Result<(), Refusal> {
        let id = event.required(extension::RESOURCE_ID)?;
        let version = event.resource_version()?.unwrap_or_default();
        let payload = checked(&event)?;
        for attempt in 1.. {
            let Some((document, mut resource)) = self.records.resource(&id).await? else {
                return Err(Refusal::NotFound { kind: "Resource", id });
            };
            check_owner(&resource, owner)?;
            if resource.deleted_at.is_some() {
                return Err(Refusal::Conflict(format!("the bundle with id='{id}' is being deleted")));
            }
            if version != 0 && version != resource.version {
                return Err(Refusal::Conflict(format!(
                    "the bundle with id='{id}' has version {}, not {version}",
                    resource.version
                )));
            }
            resource.version += 1;
            resource.updated_at = self.clock.now();
            resource.payload = payload.clone();
            let outgoing = self.check_size(&resource)?;
            let mut transaction = self.records.transaction();
            let precondition = Precondition::Etag(document.etag);
            self.records.put_resource(&mut transaction, &resource, precondition, NoteAction::Update)?;
            match self.commit(&resource, &transaction).await {
                Ok((committed, _expected)) => {
                    self.hand_over(&resource, outgoing, Action::Update, &committed);
                    log(&event, &resource, "accepted a change to a bundle");
                    return Ok(());
                }
                Err(StoreError::Conflict(_)) if attempt < ATTEMPTS => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Asks for a bundle to go. Also well if there is none, or it is on its way.
    pub(super) async fn delete(&self, id: &str, owner: Option<&str>) -> Result<(), Refusal> {
        for attempt in 1.. {
            let Some((document, mut resource)) = self.records.resource(id).await? else { return Ok(()) };
            check_owner(&resource, owner)?;
            if resource.deleted_at.is_some() {
                return Ok(());
            }
            let now = self.clock.now();
            (resource.deleted_at, resource.updated_at) = (Some(now), now);
            let mut transaction = self.records.transaction();
            let precondition = Precondition::Etag(document.etag);
            self.records.put_resource(&mut transaction, &resource, precondition, NoteAction::Delete)?;
            match self.commit(&resource, &transaction).await {
                Ok(_) => {
                    info!(resource = resource.id, consumer = resource.consumer_name, "a bundle is to go");
                    return Ok(());
                }
                Err(StoreError::Conflict(_)) if attempt < ATTEMPTS => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

fn log(event: &CloudEvent, resource: &Resource, what: &'static str) {
    info!(
        resource = resource.id,
        consumer = resource.consumer_name,
        version = resource.version,
        correlation = event.text(extension::CORRELATION_ID),
        "{what}"
    );
}

/// Refuses whoever is not the owner of a bundle, where callers are told apart.
fn check_owner(resource: &Resource, owner: Option<&str>) -> Result<(), Refusal> {
    match owner {
        Some(owner) if owner != resource.source => Err(Refusal::Forbidden(format!(
            "the bundle with id='{}' is not one of source `{owner}`",
            resource.id
        ))),
        _ => Ok(()),
    }
}

/// A source's event as it is stored, if there is nothing wrong with it.
fn checked(event: &CloudEvent) -> Result<StoredEvent, Refusal> {
    let bundle: Value = event.payload()?;
    check_manifests(&bundle)?;
    // Passed on as it came, unless a name is in it twice: whoever reads it need not take the last one, as everybody here.
    let named: Names = event.payload()?;
    if bundle.as_object().is_some_and(|members| members.len() == named.0) {
        return Ok(StoredEvent::try_new(event)?);
    }
    Ok(StoredEvent::try_new(&event.clone().with_data(bundle.to_string()))?)
}

/// How many names an object has, those that come twice counted twice.
struct Names(usize);

impl<'de> Deserialize<'de> for Names {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Count;

        impl<'de> Visitor<'de> for Count {
            type Value = Names;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Names, A::Error> {
                let mut names = 0;
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {
                    names += 1;
                }
                Ok(Names(names))
            }
        }

        deserializer.deserialize_map(Count)
    }
}

/// What is wrong with a bundle is told to who sends it, not to who applies it.
fn check_manifests(payload: &Value) -> Result<(), Refusal> {
    let manifests = payload.get("manifests").and_then(Value::as_array).filter(|list| !list.is_empty());
    let manifests = manifests.ok_or_else(|| Refusal::Invalid("the bundle has no manifests".to_owned()))?;
    let mut seen = HashSet::new();
    for (index, manifest) in manifests.iter().enumerate() {
        let refuse = |problem: &str| Err(Refusal::Invalid(format!("manifest {index}: {problem}")));
        let text =
            |pointer| manifest.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty());
        let (Some(version), Some(kind), Some(name)) =
            (text("/apiVersion"), text("/kind"), text("/metadata/name"))
        else {
            return refuse("apiVersion, kind and metadata.name are needed");
        };
        for field in ["generateName", "resourceVersion", "deletionGracePeriodSeconds"] {
            if manifest.pointer(&format!("/metadata/{field}")).is_some_and(|value| !value.is_null()) {
                return refuse(&format!("metadata.{field} must not be set"));
            }
        }
        let namespace = text("/metadata/namespace").unwrap_or_default();
        if !namespace.is_empty() && !topic::is_name(namespace) {
            return refuse("metadata.namespace is not a DNS label");
        }
        if !seen.insert((version, kind, namespace, name)) {
            return refuse("it is in the bundle twice");
        }
    }
    Ok(())
}

/// The event by which a bundle, as it is now, is sent to its agent.
pub(super) fn outgoing(
    resource: &Resource,
    source_id: &str,
    action: Action,
    now: Timestamp,
) -> Result<CloudEvent, Refusal> {
    let mut event = resource.payload.to_event()?;
    event.source = source_id.to_owned();
    event.kind = EventType::new(Subresource::Spec, action).to_string();
    let mut metadata = event.metadata()?.unwrap_or_else(|| Value::Object(Default::default()));
    metadata["name"] = Value::from(resource.id.as_str());
    if let Some(moment) = resource.deleted_at.and_then(|at| Timestamp::from_second(at.as_second()).ok()) {
        metadata["deletionTimestamp"] = Value::from(moment.to_string());
    }
    let metadata = serde_json::to_string(&metadata).map_err(pilothouse_maestro_api::InvalidEvent::Json)?;
    event = event
        .with(extension::METADATA, metadata)
        .with(extension::CLUSTER_NAME, resource.consumer_name.as_str())
        .with(extension::ORIGINAL_SOURCE, "")
        .with(extension::RESOURCE_ID, resource.id.as_str())
        .with(extension::RESOURCE_VERSION, resource.version);
    if let Some(deleted_at) = resource.deleted_at {
        event.id = uuid::Uuid::new_v4().to_string();
        event.time = Some(now);
        event = event.with(extension::DELETION_TIMESTAMP, deleted_at);
    } else {
        event.extensions.remove(extension::DELETION_TIMESTAMP);
    }
    Ok(event)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(data: &str) -> CloudEvent {
        let kind = EventType::new(Subresource::Spec, Action::Create);
        CloudEvent::new("cs", &kind, Timestamp::UNIX_EPOCH).with_data(data.to_owned())
    }

    fn sent(manifests: &str) -> Result<(), String> {
        let checked = checked(&event(&format!(r#"{{"manifests":{manifests}}}"#)));
        checked.map(drop).map_err(|refusal| refusal.to_string())
    }

    #[test]
    fn bundle_is_kept_as_it_came_unless_a_name_comes_twice() {
        let stored = |data: &str| checked(&event(data)).unwrap().data().unwrap().get().to_owned();
        let one = r#"[ {"kind":"A","apiVersion":"v1","metadata":{"name":"a"}} ]"#;
        let as_it_came = format!(r#"{{"x": 1.50, "manifests":{one}}}"#);
        assert_eq!(stored(&as_it_came), as_it_came);
        let twice = format!(r#"{{"x": 1, "x": 2, "manifests":{one}}}"#);
        let expected = r#"{"manifests":[{"apiVersion":"v1","kind":"A","metadata":{"name":"a"}}],"x":2}"#;
        assert_eq!(stored(&twice), expected);
    }

    #[test]
    fn manifests_are_checked_when_they_come_in() {
        let good = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}"#;
        assert_eq!(sent(&format!("[{good}]")), Ok(()));
        for (manifests, expected) in [
            ("[]".to_owned(), "the bundle has no manifests"),
            (format!("[{good},{good}]"), "manifest 1: it is in the bundle twice"),
            (r#"[{"kind":"A"}]"#.to_owned(), "manifest 0: apiVersion, kind and metadata.name are needed"),
            (
                r#"[{"apiVersion":"v1","kind":"A","metadata":{"name":"a","resourceVersion":"1"}}]"#
                    .to_owned(),
                "manifest 0: metadata.resourceVersion must not be set",
            ),
            (
                r#"[{"apiVersion":"v1","kind":"A","metadata":{"name":"a","namespace":"A_"}}]"#.to_owned(),
                "manifest 0: metadata.namespace is not a DNS label",
            ),
        ] {
            assert_eq!(sent(&manifests), Err(expected.to_owned()));
        }
    }

    #[test]
    fn outgoing_event_is_the_sources_with_the_servers_marks() {
        let payload = serde_json::json!({"specversion": "1.0", "id": "1", "source": "cs", "type": "t",
            "time": "2026-01-02T03:04:05.1Z", "clustername": "c1", "originalsource": "", "resourceid": "r",
            "resourceversion": 0, "logtracing": "{}", "metadata": {"name": "hc-1", "labels": {"k": "v"}},
            "data": {"manifests": []}});
        let mut resource = Resource {
            id: "r".into(),
            name: "r".into(),
            source: "cs".into(),
            consumer_name: "c1".into(),
            version: 3,
            created_at: Timestamp::UNIX_EPOCH,
            updated_at: Timestamp::UNIX_EPOCH,
            deleted_at: None,
            payload: payload.into(),
            status: None,
        };
        let event = outgoing(&resource, "maestro", Action::Create, Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!((event.id.as_str(), event.source.as_str()), ("1", "maestro"));
        assert!(event.kind.ends_with(".manifestbundles.spec.create_request"));
        assert_eq!(event.resource_version().unwrap(), Some(3));
        assert_eq!(event.metadata().unwrap().unwrap()["name"], "r");
        resource.deleted_at = Some(Timestamp::UNIX_EPOCH);
        let event = outgoing(&resource, "maestro", Action::Delete, Timestamp::UNIX_EPOCH).unwrap();
        assert_ne!(event.id, "1");
        assert_eq!(event.text(extension::DELETION_TIMESTAMP).unwrap(), "1970-01-01T00:00:00Z");
    }

    async fn bundles() -> Bundles {
        use pilothouse_store::{Keyring, Location, Options, Store};
        let options = Options {
            keyring: Some(Keyring::ephemeral().unwrap()),
            ..Options::new(
                Location::memory(),
                crate::server::records::catalog(),
                pilothouse_runtime::Shutdown::new(),
            )
        };
        Bundles {
            records: Records::try_new(Store::open(options).await.unwrap()).unwrap(),
            clock: Clock::system(),
            link: Link::to_agents().0,
            source_id: "maestro".to_owned(),
            accepted: Accepted::default(),
            consumers: Consumers::default(),
        }
    }

    #[tokio::test]
    async fn consumer_that_is_another_one_by_now_or_none_is_noticed() {
        let bundles = bundles().await;
        let create = async |id: &str| {
            let data = r#"{"manifests":[{"apiVersion":"v1","kind":"A","metadata":{"name":"a"}}]}"#;
            let event = event(data)
                .with(extension::CLUSTER_NAME, "c1")
                .with(extension::RESOURCE_ID, id)
                .with(extension::RESOURCE_VERSION, 0);
            bundles.create(event).await.map_err(|refusal| refusal.to_string())
        };
        let Records { store, consumers, partition, .. } = &bundles.records;
        let none = Err("there is no consumer `c1`; create it first".to_owned());
        assert_eq!(create("one").await, none);
        bundles.records.ensure_consumer("c1", Timestamp::UNIX_EPOCH).await.unwrap();
        assert_eq!(create("one").await, Ok(()));
        let (_, record) = bundles.records.consumer("c1").await.unwrap().unwrap();
        let id = DocumentId::try_new("c1").unwrap();
        store.put(consumers, partition, id.clone(), Precondition::Any, &record).await.unwrap();
        assert_eq!(create("two").await, Ok(()));
        store.delete(consumers, partition, id, Precondition::Any).await.unwrap();
        assert_eq!(create("three").await, none);
        assert_eq!(bundles.records.count_of_consumer("c1").await.unwrap(), 2);
        // Both were handed to the outbox, as they are to be sent.
        let order = bundles.accepted.take("two").await.unwrap();
        assert!(order.event.kind.ends_with(".spec.create_request"), "{}", order.event.kind);
        let (note, _) = bundles.records.note("two").await.unwrap().unwrap();
        assert_eq!((order.note, order.version, order.consumer.as_str()), (note.etag, 1, "c1"));
        assert!(bundles.accepted.take("three").await.is_none());
    }
}
