//! The bundles the agent looks after, in memory; what of them survives a restart is in [`saved`](super::saved).

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pilothouse_crds::{ManifestWorkSpec, ManifestWorkStatus, Workload, is_condition_true};
use pilothouse_maestro_api::{
    Action, BundleStatus, CloudEvent, DATA_TYPE, InvalidEvent, ManifestBundle, ResourceVersion, StatusHash,
    extension,
};
use serde_json::{Value, json};

use crate::agent::metrics::Metrics;
use crate::agent::saved::Document;
use crate::status_hash::status_hash;

const SOURCE_LABEL: &str = "cloudevents.open-cluster-management.io/originalsource";
const TYPE_ANNOTATION: &str = "cloudevents.open-cluster-management.io/datatype";
/// Bundles that have gone, of which the latest are remembered.
const REMEMBERED: usize = 10_000;
/// What is left of the longest name in a cluster behind a hash of 64 digits and a hyphen.
const LONGEST_NAME: usize = 253 - 65;
const FINALIZER: &str = "cluster.open-cluster-management.io/manifest-work-cleanup";

/// A bundle with what is known of it.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) generation: i32,
    /// As the server sent it, in JSON: it is looked at when there is something to report, and as a tree it is many times the
    /// size.
    metadata: Box<str>,
    pub(super) spec: Arc<ManifestWorkSpec>,
    /// What was wanted when everything was last applied.
    pub(super) applied: Option<Arc<ManifestWorkSpec>>,
    pub(super) deleting: bool,
    /// When that was asked for.
    deleted_at: Option<String>,
    pub(super) status: ManifestWorkStatus,
    /// The hash of the last status that the broker took, with the generation it was about.
    pub(super) reported: Option<(i32, String)>,
    /// What of all this is on disk.
    pub(super) on_disk: Option<OnDisk>,
    /// What the next report is: news, or an answer.
    pub(super) report_as: Action,
    /// How often the server has asked for its status without having been asked itself.
    asked: u64,
    /// Who sent it.
    pub(super) source: String,
    tracing: String,
    pub(super) correlation: Option<String>,
}

/// What names the state of a bundle that was saved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OnDisk {
    generation: i32,
    deleting: bool,
    is_applied: bool,
    status: String,
    reported: Option<(i32, String)>,
}

/// All of them. A cheap handle.
#[derive(Clone, Debug)]
pub(super) struct Works {
    /// Boxed: a table has room for twice as many as there are, and for as many as there ever were.
    all: Arc<Mutex<HashMap<String, Box<Held>>>>,
    gone: Arc<Mutex<Gone>>,
    metrics: Metrics,
}

/// What became of an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// There is something to do about this bundle.
    Yes(String),
    /// It is older than what is known.
    Late,
    /// It is about a bundle that has gone: either it comes late, or the bundle was made anew. The server has to be asked.
    Doubtful,
}

/// Bundles that have gone lately, and whether the server was asked about them since.
#[derive(Debug, Default)]
struct Gone {
    asked: HashMap<String, bool>,
    order: VecDeque<String>,
}

// === impl Works ===

impl Works {
    pub(super) fn new(metrics: Metrics) -> Self {
        Self { all: Arc::default(), gone: Arc::default(), metrics }
    }

    /// Takes an order.
    pub(super) fn take(&self, event: &CloudEvent) -> Result<Taken, InvalidEvent> {
        let new = Held::read(event)?;
        let id = new.id.clone();
        let is_answer = event.event_type()?.action == Action::ResyncResponse;
        let mut all = self.lock();
        if !new.deleting && !self.gone().admits(&id, is_answer) {
            return Ok(Taken::Doubtful);
        }
        match all.get_mut(&id) {
            Some(known) if new.deleting => {
                known.deleting = true;
                known.deleted_at = new.deleted_at;
                known.generation = known.generation.max(new.generation);
            }
            // Going is final, and an older version is late.
            Some(known) if known.deleting || new.generation < known.generation => return Ok(Taken::Late),
            Some(known) => {
                let Held { status, reported, applied, on_disk, asked, .. } = (**known).clone();
                **known = Held { status, reported, applied, on_disk, asked, ..new };
            }
            None => {
                all.insert(id.clone(), Box::new(new));
                self.metrics.works.inc();
            }
        }
        Ok(Taken::Yes(id))
    }

    pub(super) fn get(&self, id: &str) -> Option<Held> {
        self.lock().get(id).map(|held| (**held).clone())
    }

    pub(super) fn ids(&self) -> Vec<String> {
        self.lock().keys().cloned().collect()
    }

    /// The ids of the bundles of this name. The name is the id, unless the server says otherwise.
    pub(super) fn named(&self, name: &str) -> Vec<String> {
        let all = self.lock();
        if all.get(name).is_some_and(|held| held.name == name) {
            return vec![name.to_owned()];
        }
        all.values().filter(|held| held.name == name).map(|held| held.id.clone()).collect()
    }

    /// Adds what an agent before this one has left behind.
    pub(super) fn restore(&self, held: Held) {
        if self.lock().insert(held.id.clone(), Box::new(held)).is_none() {
            self.metrics.works.inc();
        }
    }

    /// Keeps what came of a pass over `seen`, unless the bundle has changed in between.
    pub(super) fn observed(&self, seen: &Held, status: &ManifestWorkStatus) {
        let mut all = self.lock();
        let Some(held) = all.get_mut(&seen.id) else { return };
        if is_condition_true(&status.conditions, "Applied") && !seen.deleting {
            held.applied = Some(seen.spec.clone());
        }
        if held.generation == seen.generation {
            held.status = status.clone();
        }
    }

    /// The broker took a report on the bundle as it was `seen`. Has the server come and asked since, that is not the answer: when
    /// the broker took it, there may have been nobody yet to hear it.
    pub(super) fn reported(&self, seen: &Held, status: &ManifestWorkStatus) {
        if let Some(held) = self.lock().get_mut(&seen.id)
            && held.asked == seen.asked
        {
            held.reported = Some((seen.generation, hash(status)));
            held.report_as = Action::Update;
        }
    }

    /// A bundle was saved as it was then.
    pub(super) fn saved(&self, id: &str, state: OnDisk) {
        if let Some(held) = self.lock().get_mut(id) {
            held.on_disk = Some(state);
        }
    }

    pub(super) fn remove(&self, id: &str) {
        let mut all = self.lock();
        if all.remove(id).is_some() {
            self.gone().add(id);
            self.metrics.works.dec();
        }
    }

    /// What is here, for the server to compare.
    pub(super) fn versions(&self) -> Vec<ResourceVersion> {
        let all = self.lock();
        let versions = all.values().map(|held| ResourceVersion {
            resource_id: held.id.clone(),
            resource_version: i64::from(held.generation),
        });
        let mut versions: Vec<_> = versions.collect();
        // The same question in the same words, whoever asks it: whoever answers knows it again.
        versions.sort_by(|one, other| one.resource_id.cmp(&other.resource_id));
        versions
    }

    /// Marks what has to be reported again: everything, or what the server knows otherwise. Answers the ids. A question that was
    /// solicited comes from a server that has been there for a while: a report that is on its way reaches it, and is the answer.
    pub(super) fn report_again(&self, known: &[StatusHash], is_solicited: bool) -> Vec<String> {
        let known: HashMap<_, _> =
            known.iter().map(|entry| (entry.resource_id.as_str(), entry.status_hash.as_str())).collect();
        let mut all = self.lock();
        let differing = all.values_mut().filter(|held| {
            known.is_empty() || known.get(held.id.as_str()).is_some_and(|known| *known != hash(&held.status))
        });
        differing
            .map(|held| {
                held.reported = None;
                held.report_as = Action::ResyncResponse;
                if !is_solicited {
                    held.asked += 1;
                }
                held.id.clone()
            })
            .collect()
    }

    fn gone(&self) -> MutexGuard<'_, Gone> {
        self.gone.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Box<Held>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Gone ===

impl Gone {
    fn add(&mut self, id: &str) {
        if self.asked.insert(id.to_owned(), false).is_none() {
            self.order.push_back(id.to_owned());
        }
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.asked.remove(&oldest);
        }
    }

    /// Whether an order for a bundle can be believed. If not, the caller asks.
    fn admits(&mut self, id: &str, is_answer: bool) -> bool {
        match self.asked.get_mut(id) {
            None => true,
            Some(asked) if *asked && is_answer => {
                self.asked.remove(id);
                self.order.retain(|other| other != id);
                true
            }
            Some(asked) => {
                *asked = true;
                false
            }
        }
    }
}

// === impl Held ===

impl Held {
    fn read(event: &CloudEvent) -> Result<Self, InvalidEvent> {
        let id = event.required(extension::RESOURCE_ID)?;
        let generation =
            event.resource_version()?.ok_or(InvalidEvent::Missing(extension::RESOURCE_VERSION))?;
        let metadata = event.metadata()?.unwrap_or_else(|| json!({}));
        let deleted_at = event.text(extension::DELETION_TIMESTAMP);
        let deleting = deleted_at.is_some();
        let spec = if deleting {
            ManifestWorkSpec::default()
        } else {
            let bundle: ManifestBundle = event.payload()?;
            if bundle.manifests.is_empty() {
                return Err(InvalidEvent::Missing("manifests"));
            }
            ManifestWorkSpec {
                workload: Workload { manifests: bundle.manifests },
                delete_option: bundle.delete_option,
                manifest_configs: bundle.manifest_configs,
                // It has another name in a `ManifestWork`.
                other: bundle
                    .executor
                    .map(|executor| ("executor".to_owned(), executor))
                    .into_iter()
                    .collect(),
            }
        };
        let name = metadata.get("name").and_then(Value::as_str).unwrap_or(&id).to_owned();
        for (field, text) in [(extension::RESOURCE_ID, &id), ("metadata.name", &name)] {
            if !can_be_recorded(text) {
                return Err(InvalidEvent::Attribute { name: field.to_owned(), value: text.clone() });
            }
        }
        Ok(Self {
            name,
            generation,
            metadata: metadata.to_string().into(),
            spec: Arc::new(spec),
            applied: None,
            deleting,
            deleted_at,
            status: ManifestWorkStatus::default(),
            reported: None,
            on_disk: None,
            report_as: Action::Update,
            asked: 0,
            source: event.source.clone(),
            tracing: event.text(extension::LOG_TRACING).unwrap_or_else(|| "{}".to_owned()),
            correlation: event.text(extension::CORRELATION_ID),
            id,
        })
    }

    /// Whether a status has not been reported yet.
    pub(super) fn is_news(&self, status: &ManifestWorkStatus) -> bool {
        self.reported
            .as_ref()
            .is_none_or(|(generation, reported)| *generation != self.generation || *reported != hash(status))
    }

    /// What names its state as it is.
    pub(super) fn state(&self) -> OnDisk {
        OnDisk {
            generation: self.generation,
            deleting: self.deleting,
            is_applied: self.is_applied(),
            status: hash(&self.status),
            reported: self.reported.clone(),
        }
    }

    /// Whether what is wanted of it is on disk, whatever came of it.
    pub(super) fn is_noted(&self) -> bool {
        self.on_disk
            .as_ref()
            .is_some_and(|on_disk| (on_disk.generation, on_disk.deleting) == (self.generation, self.deleting))
    }

    /// Whether everything that is wanted was applied.
    fn is_applied(&self) -> bool {
        self.applied.as_ref().is_some_and(|applied| Arc::ptr_eq(applied, &self.spec))
    }

    /// As it is saved.
    pub(super) fn to_document(&self, sequence: String) -> Document {
        let is_applied = self.is_applied();
        Document {
            name: self.name.clone(),
            generation: self.generation,
            metadata: self.metadata(),
            spec: self.spec.clone(),
            is_applied,
            applied: self.applied.clone().filter(|_| !is_applied),
            deleted_at: self.deleted_at.clone(),
            status: self.status.clone(),
            reported: self.reported.clone(),
            source: self.source.clone(),
            tracing: self.tracing.clone(),
            correlation: self.correlation.clone(),
            sequence,
        }
    }

    pub(super) fn from_document(id: String, document: Document) -> Self {
        let mut held = Self {
            id,
            name: document.name,
            generation: document.generation,
            metadata: document.metadata.to_string().into(),
            applied: document.applied.or_else(|| document.is_applied.then(|| document.spec.clone())),
            spec: document.spec,
            deleting: document.deleted_at.is_some(),
            deleted_at: document.deleted_at,
            status: document.status,
            reported: document.reported,
            on_disk: None,
            report_as: Action::Update,
            asked: 0,
            source: document.source,
            tracing: document.tracing,
            correlation: document.correlation,
        };
        held.on_disk = Some(held.state());
        held
    }

    fn metadata(&self) -> Value {
        // It was written here.
        serde_json::from_str(&self.metadata).unwrap_or_default()
    }

    /// What the bundle is labelled with.
    pub(super) fn labels(&self) -> BTreeMap<String, String> {
        self.metadata()
            .get_mut("labels")
            .and_then(|labels| serde_json::from_value(labels.take()).ok())
            .unwrap_or_default()
    }

    /// Adds to an event what says which bundle it is about. `is_gone` when nothing of it is left.
    pub(super) fn mark(&self, event: CloudEvent, consumer: &str, is_gone: bool) -> CloudEvent {
        let mut metadata = self.metadata();
        metadata["name"] = json!(self.name);
        metadata["namespace"] = json!(consumer);
        metadata["uid"] = json!(self.id);
        metadata["generation"] = json!(self.generation);
        metadata["labels"][SOURCE_LABEL] = json!(self.source);
        metadata["annotations"][TYPE_ANNOTATION] = json!(DATA_TYPE);
        if let Some(moment) = self.deleted_at.as_deref().and_then(whole_second) {
            metadata["deletionTimestamp"] = json!(moment);
        }
        if !is_gone {
            metadata["finalizers"] = json!([FINALIZER]);
        }
        let event = event
            .with(extension::CLUSTER_NAME, consumer)
            .with(extension::ORIGINAL_SOURCE, self.source.as_str())
            .with(extension::RESOURCE_ID, self.id.as_str())
            .with(extension::RESOURCE_VERSION, self.generation)
            .with(extension::LOG_TRACING, self.tracing.as_str())
            .with(extension::METADATA, metadata.to_string());
        match &self.correlation {
            Some(id) => event.with(extension::CORRELATION_ID, id.as_str()),
            None => event,
        }
    }
}

/// Whether a name can be part of a record's, behind the hash of the hub.
fn can_be_recorded(name: &str) -> bool {
    let is_fine =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'.';
    let ends_well = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = name.as_bytes();
    bytes.len() <= LONGEST_NAME
        && bytes.iter().copied().all(is_fine)
        && ends_well(bytes.first())
        && ends_well(bytes.last())
}

fn hash(status: &ManifestWorkStatus) -> String {
    status_hash(&BundleStatus::from(status.clone()))
}

/// A moment as metadata has it.
fn whole_second(text: &str) -> Option<String> {
    let moment: jiff::Timestamp = text.parse().ok()?;
    Some(jiff::Timestamp::from_second(moment.as_second()).ok()?.to_string())
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use pilothouse_maestro_api::{EventType, Subresource};

    use super::*;

    fn order(version: i32) -> CloudEvent {
        let kind = EventType::new(Subresource::Spec, Action::Create);
        CloudEvent::new("maestro", &kind, Timestamp::UNIX_EPOCH)
            .with(extension::RESOURCE_ID, "r")
            .with(extension::RESOURCE_VERSION, version)
            .with_data(r#"{"manifests":[{"kind":"ConfigMap"}]}"#)
    }

    fn deletion(version: i32) -> CloudEvent {
        let mut event = order(version).with(extension::DELETION_TIMESTAMP, "2026-01-02T04:00:00.5Z");
        event.data = Default::default();
        event
    }

    #[test]
    fn older_versions_are_late_and_going_is_final() {
        let works = Works::new(Metrics::default());
        assert_eq!(works.take(&order(2)).unwrap(), Taken::Yes("r".to_owned()));
        assert_eq!(works.take(&order(1)).unwrap(), Taken::Late);
        assert_eq!(
            works.take(&order(2)).unwrap(),
            Taken::Yes("r".to_owned()),
            "the same version is taken again"
        );
        works.take(&deletion(2)).unwrap();
        assert_eq!(works.take(&order(3)).unwrap(), Taken::Late);
        assert!(works.get("r").unwrap().deleting);
    }

    #[test]
    fn deletion_of_what_is_not_known_is_taken_so_that_it_is_cleaned_up() {
        let works = Works::new(Metrics::default());
        assert_eq!(works.take(&deletion(1)).unwrap(), Taken::Yes("r".to_owned()));
        assert!(works.take(&order(0).with_data("{\"manifests\":[]}")).is_err());
    }

    #[test]
    fn order_for_a_bundle_that_has_gone_counts_when_the_server_confirms_it() {
        let works = Works::new(Metrics::default());
        works.take(&order(2)).unwrap();
        works.take(&deletion(2)).unwrap();
        works.remove("r");
        let answer = |version| {
            let mut answer = order(version);
            answer.kind = EventType::new(Subresource::Spec, Action::ResyncResponse).to_string();
            answer
        };
        assert_eq!(works.take(&answer(2)).unwrap(), Taken::Doubtful, "nobody has asked");
        assert_eq!(works.take(&order(2)).unwrap(), Taken::Doubtful);
        assert!(works.get("r").is_none());
        assert_eq!(
            works.take(&deletion(2)).unwrap(),
            Taken::Yes("r".to_owned()),
            "that it has gone is said again"
        );
        works.remove("r");
        assert_eq!(works.take(&order(1)).unwrap(), Taken::Doubtful);
        assert_eq!(works.take(&answer(1)).unwrap(), Taken::Yes("r".to_owned()), "it was made anew");
        assert_eq!(works.get("r").unwrap().generation, 1);
        assert_eq!(works.take(&order(2)).unwrap(), Taken::Yes("r".to_owned()));
    }

    #[test]
    fn what_could_not_be_recorded_is_refused() {
        let works = Works::new(Metrics::default());
        for odd in ["../r", "R", "a b", "-", "a.", &"x".repeat(189)] {
            let order = order(1).with(extension::RESOURCE_ID, odd);
            assert!(works.take(&order).is_err(), "{odd}");
        }
        for odd in ["5", "[]", r#"{"labels":"x"}"#, r#"{"annotations":[1]}"#, r#"{"name":"A/B"}"#] {
            assert!(works.take(&order(1).with(extension::METADATA, odd)).is_err(), "{odd}");
        }
        assert_eq!(
            works.take(&order(1).with(extension::METADATA, "{}")).unwrap(),
            Taken::Yes("r".to_owned())
        );
    }

    #[test]
    fn what_is_saved_is_what_is_read_back() {
        let works = Works::new(Metrics::default());
        works.take(&order(1)).unwrap();
        let mut status = ManifestWorkStatus::default();
        let applied = pilothouse_crds::Condition::new(
            "Applied",
            pilothouse_crds::ConditionStatus::True,
            "",
            "",
            Timestamp::UNIX_EPOCH,
        );
        status.conditions.push(applied);
        works.observed(&works.get("r").unwrap(), &status);
        works.reported(&works.get("r").unwrap(), &status);
        works.take(&order(2)).unwrap();
        let held = works.get("r").unwrap();
        let document = serde_json::to_string(&held.to_document("7".to_owned())).unwrap();
        let again = Held::from_document("r".to_owned(), serde_json::from_str(&document).unwrap());
        assert_eq!(again.state(), held.state());
        assert_eq!((again.applied.as_deref(), &again.spec), (held.applied.as_deref(), &held.spec));
        assert!(again.is_noted() && again.is_news(&status), "another version has to be reported");
    }

    #[test]
    fn executor_of_a_bundle_is_the_one_of_the_work() {
        let works = Works::new(Metrics::default());
        let bundle =
            r#"{"manifests":[{"kind":"ConfigMap"}],"executer":{"subject":{"type":"ServiceAccount"}}}"#;
        works.take(&order(1).with_data(bundle)).unwrap();
        let spec = works.get("r").unwrap().spec;
        assert_eq!(spec.other["executor"], json!({"subject": {"type": "ServiceAccount"}}));
    }

    #[test]
    fn server_is_told_again_what_it_knows_otherwise() {
        let works = Works::new(Metrics::default());
        works.take(&order(1)).unwrap();
        let status = ManifestWorkStatus::default();
        works.reported(&works.get("r").unwrap(), &status);
        assert!(!works.get("r").unwrap().is_news(&status));
        let hash = |text: String| [StatusHash { resource_id: "r".to_owned(), status_hash: text }];
        let present = status_hash(&BundleStatus::from(status.clone()));
        assert_eq!(works.report_again(&hash(present), true), Vec::<String>::new());
        let other = [StatusHash { resource_id: "other".to_owned(), status_hash: String::new() }];
        assert_eq!(
            works.report_again(&other, true),
            Vec::<String>::new(),
            "what is not listed is not asked for"
        );
        assert_eq!(works.report_again(&hash("other".to_owned()), true), ["r"]);
        assert!(works.get("r").unwrap().is_news(&status));
        assert_eq!(works.report_again(&[], true), ["r"]);
    }

    /// The server has come back while a report was on its way: it may have come too late to hear that one.
    #[test]
    fn report_that_was_on_its_way_when_the_server_asked_is_no_answer() {
        let works = Works::new(Metrics::default());
        works.take(&order(1)).unwrap();
        let status = ManifestWorkStatus::default();
        let seen = works.get("r").unwrap();
        assert_eq!(works.report_again(&[], false), ["r"]);
        works.reported(&seen, &status);
        let again = works.get("r").unwrap();
        assert!(again.is_news(&status));
        assert_eq!(again.report_as, Action::ResyncResponse);
        works.reported(&again, &status);
        assert!(!works.get("r").unwrap().is_news(&status), "this one is");
    }

    #[test]
    fn report_that_was_on_its_way_when_the_server_answered_with_a_question_is_the_answer() {
        let works = Works::new(Metrics::default());
        works.take(&order(1)).unwrap();
        let status = ManifestWorkStatus::default();
        let seen = works.get("r").unwrap();
        assert_eq!(works.report_again(&[], true), ["r"]);
        works.reported(&seen, &status);
        assert!(!works.get("r").unwrap().is_news(&status));
    }
}
