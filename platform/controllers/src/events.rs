//! What happened to an object, in the form that `kubectl describe` shows.
//!
//! A pass only leaves a note; one task writes the events, so that nobody waits for them. They are hints for people: when notes
//! come faster than they are written, some are dropped. The same words about the same object become a count on
//! the first event, and an object that keeps talking is heard a few times and then once every five minutes.

use std::collections::HashMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::Patch;
use kube::{Api, Client, Resource};
use pilothouse_runtime::{Clock, Shutdown};
use serde_json::json;
use tokio::sync::mpsc;
use tracing::debug;

use crate::calls::{PATCH, POST, tolerant};

/// How many notes wait at most.
const WAITING: usize = 4096;

/// How many kinds of events are remembered for counting.
const REMEMBERED: usize = 2048;

/// How many events an object may have at once, and how many seconds bring one more.
const BURST: f64 = 25.0;
const REFILL_SECONDS: f64 = 300.0;

/// Where events about objects without a namespace are kept.
const DEFAULT_NAMESPACE: &str = "default";

/// Takes notes of what happened, in the name of one component. A cheap handle.
#[derive(Clone, Debug)]
pub(crate) struct Recorder {
    notes: mpsc::Sender<Note>,
    component: &'static str,
}

/// Whether an event is worth a worry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Normal,
    Warning,
}

/// Writes down what was noted.
pub(crate) struct Writer {
    notes: mpsc::Receiver<Note>,
    client: Client,
    clock: Clock,
    memory: Memory,
}

#[derive(Clone, Debug)]
struct Note {
    about: ObjectReference,
    component: &'static str,
    kind: Kind,
    reason: String,
    message: String,
}

#[derive(Debug, Default)]
struct Memory {
    seen: HashMap<Words, Seen>,
    budgets: HashMap<String, Budget>,
    written: u64,
}

/// An object, and what is said of it.
type Words = (String, String, String);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    name: String,
    count: i32,
}

#[derive(Clone, Copy, Debug)]
struct Budget {
    left: f64,
    at: Timestamp,
}

/// What to do with a note.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Drop,
    Create(String),
    Count(Seen),
}

/// Notes and who writes them down.
pub(crate) fn channel(
    client: Client,
    clock: Clock,
) -> (impl Fn(&'static str) -> Recorder + Send + Sync + use<>, Writer) {
    let (sender, notes) = mpsc::channel(WAITING);
    let recorder = move |component| Recorder { notes: sender.clone(), component };
    (recorder, Writer { notes, client, clock, memory: Memory::default() })
}

// === impl Recorder ===

impl Recorder {
    /// Notes that this happened to `object`.
    pub(crate) fn record<K: Resource<DynamicType = ()>>(
        &self,
        object: &K,
        kind: Kind,
        reason: &str,
        message: impl Into<String>,
    ) {
        let metadata = object.meta();
        let about = ObjectReference {
            api_version: Some(K::api_version(&()).into_owned()),
            kind: Some(K::kind(&()).into_owned()),
            namespace: metadata.namespace.clone(),
            name: metadata.name.clone(),
            uid: metadata.uid.clone(),
            resource_version: metadata.resource_version.clone(),
            field_path: None,
        };
        let (reason, message) = (reason.to_owned(), message.into());
        let note = Note { about, component: self.component, kind, reason, message };
        if let Err(error) = self.notes.try_send(note) {
            debug!(%error, "event dropped");
        }
    }
}

// === impl Writer ===

impl Writer {
    pub(crate) async fn run(mut self, shutdown: Shutdown) {
        loop {
            let note = tokio::select! {
                () = shutdown.requested() => return,
                note = self.notes.recv() => note,
            };
            let Some(note) = note else { return };
            // A server that hangs must not keep the process from ending.
            tokio::select! {
                () = shutdown.requested() => return,
                () = self.write(note) => {}
            }
        }
    }

    async fn write(&mut self, note: Note) {
        let now = self.clock.now();
        let key = note.key();
        let namespace = note.about.namespace.clone().unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned());
        let api: Api<Event> = Api::namespaced(self.client.clone(), &namespace);
        let name = match self.memory.judge(&note, now) {
            Outcome::Drop => return,
            Outcome::Count(seen) => {
                let patch = Patch::Merge(json!({ "count": seen.count, "lastTimestamp": Time(now) }));
                let call = api.patch(&seen.name, &PATCH, &patch);
                if let Ok(Some(_)) = tolerant("count an event", call).await {
                    self.memory.remember(key, seen);
                    return;
                }
                // Events live for an hour or so: it may be gone.
                self.memory.name(&note, now)
            }
            Outcome::Create(name) => name,
        };
        let event = note.event(&namespace, &name, now);
        match tolerant("write an event", api.create(&POST, &event)).await {
            Ok(Some(_)) => self.memory.remember(key, Seen { name, count: 1 }),
            Ok(None) => {}
            Err(error) => debug!(%error, reason = note.reason, "event not written"),
        }
    }
}

// === impl Note ===

impl Note {
    fn object(&self) -> String {
        let uid = self.about.uid.as_deref().unwrap_or_default();
        let name = self.about.name.as_deref().unwrap_or_default();
        format!("{}/{name}/{uid}", self.about.namespace.as_deref().unwrap_or_default())
    }

    fn key(&self) -> Words {
        (self.object(), self.reason.clone(), self.message.clone())
    }

    fn event(&self, namespace: &str, name: &str, now: Timestamp) -> Event {
        let kind = match self.kind {
            Kind::Normal => "Normal",
            Kind::Warning => "Warning",
        };
        Event {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                namespace: Some(namespace.to_owned()),
                ..ObjectMeta::default()
            },
            involved_object: self.about.clone(),
            reason: Some(self.reason.clone()),
            message: Some(self.message.clone()),
            type_: Some(kind.to_owned()),
            count: Some(1),
            first_timestamp: Some(Time(now)),
            last_timestamp: Some(Time(now)),
            source: Some(EventSource { component: Some(self.component.to_owned()), host: None }),
            reporting_component: Some(self.component.to_owned()),
            reporting_instance: Some(String::new()),
            ..Event::default()
        }
    }
}

// === impl Memory ===

impl Memory {
    fn judge(&mut self, note: &Note, now: Timestamp) -> Outcome {
        if !self.afford(note.object(), now) {
            return Outcome::Drop;
        }
        match self.seen.get(&note.key()) {
            Some(seen) => Outcome::Count(Seen { name: seen.name.clone(), count: seen.count + 1 }),
            None => Outcome::Create(self.name(note, now)),
        }
    }

    /// A name that no other event has.
    fn name(&mut self, note: &Note, now: Timestamp) -> String {
        self.written += 1;
        let number = now.as_nanosecond().unsigned_abs() + u128::from(self.written);
        format!("{}.{:016x}", note.about.name.as_deref().unwrap_or_default(), number)
    }

    fn afford(&mut self, object: String, now: Timestamp) -> bool {
        if self.budgets.len() > REMEMBERED {
            self.budgets.clear();
        }
        let budget = self.budgets.entry(object).or_insert(Budget { left: BURST, at: now });
        let seconds = now.duration_since(budget.at).as_secs_f64().max(0.0);
        budget.left = (budget.left + seconds / REFILL_SECONDS).min(BURST);
        budget.at = now;
        let affordable = budget.left >= 1.0;
        if affordable {
            budget.left -= 1.0;
        }
        affordable
    }

    fn remember(&mut self, key: Words, seen: Seen) {
        // What is forgotten begins at one again; that is all.
        if self.seen.len() > REMEMBERED {
            self.seen.clear();
        }
        self.seen.insert(key, seen);
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;

    fn note(message: &str) -> Note {
        let about = ObjectReference { name: Some("web".to_owned()), ..ObjectReference::default() };
        Note {
            about,
            component: "test",
            kind: Kind::Normal,
            reason: "Tried".to_owned(),
            message: message.to_owned(),
        }
    }

    #[test]
    fn same_words_are_counted_and_a_chatterbox_is_heard_less() {
        let mut memory = Memory::default();
        let mut now = Timestamp::UNIX_EPOCH;
        let Outcome::Create(name) = memory.judge(&note("a"), now) else { panic!("not created") };
        assert!(name.starts_with("web."));
        memory.remember(note("a").key(), Seen { name: name.clone(), count: 1 });
        assert_eq!(memory.judge(&note("a"), now), Outcome::Count(Seen { name, count: 2 }));
        for number in 2..25 {
            assert_ne!(memory.judge(&note(&number.to_string()), now), Outcome::Drop, "{number}");
        }
        assert_eq!(memory.judge(&note("b"), now), Outcome::Drop);
        now += SignedDuration::from_secs(300);
        assert!(matches!(memory.judge(&note("b"), now), Outcome::Create(_)));
        assert_eq!(memory.judge(&note("c"), now), Outcome::Drop);
    }
}
