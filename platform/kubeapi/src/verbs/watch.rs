//! A stream of changes.
//!
//! The stream is part of its connection: it pulls changes when the client reads, and ends with the connection, with
//! the time the client asked for, or with the server.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::{BufMut as _, Bytes, BytesMut};
use prometheus_client::metrics::gauge::Gauge;
use serde_json::{Value, json};
use tokio::time::{Instant, Sleep};

use super::options::{self, Selection};
use crate::answer::{self, Form};
use crate::server::Call;
use crate::status::Failure;
use crate::storage::{self, Event, Lost, Watcher};

/// How often an idle watch is told how far it has come, so that it can resume from there. One that would be told what it knows
/// is told nothing: a server in which nothing happens has some fifty watches of its own controllers, and is one of many.
const BOOKMARKS: Duration = Duration::from_secs(60);
/// Upstream's marker for "what came before this was there already".
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

struct Watch {
    call: Call,
    form: Form,
    selection: Selection,
    watcher: Watcher,
    pending: VecDeque<Bytes>,
    /// Whether the client knows the columns of a table; they are told once.
    told: bool,
    /// What an object begins with that is shown as it is, if there are such.
    plain: Option<String>,
    bookmarks: bool,
    /// The version from which the client can resume, as far as it has been told.
    known: u64,
    deadline: Instant,
    /// Rings for the next bookmark and at the deadline. As the next one, it is kept from event to event: setting a new one for
    /// each of a thousand watches costs more than what they are told.
    alarm: Pin<Box<Sleep>>,
    stopped: Pin<Box<dyn Future<Output = ()> + Send>>,
    ended: bool,
    _open: Open,
}

/// Counts a watch as open until dropped.
struct Open(Gauge);

pub(super) async fn handle(call: Call) -> Result<Response, Failure> {
    let query = &call.info.query;
    let form = call.form()?;
    let selection = Selection::parse(&call.resource, query)?;
    let version = options::version(query).map_err(Failure::unexpected)?;
    let initial = query.get("sendInitialEvents").map(|_| query.flag("sendInitialEvents"));
    let bookmarks = query.flag("allowWatchBookmarks");
    match (initial, query.get("resourceVersionMatch")) {
        (None, None) | (Some(_), Some("NotOlderThan")) => {}
        (None, Some(_)) => {
            let why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
            return Err(options::refused("resourceVersionMatch", why));
        }
        (Some(_), _) => {
            let why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
            return Err(options::refused("resourceVersionMatch", why));
        }
    }
    let timeout = options::number(query, "timeoutSeconds")?;
    let timeout = timeout.and_then(|seconds| u64::try_from(seconds).ok()).filter(|seconds| *seconds > 0);
    // Watches that began together should not all come back together.
    let timeout = timeout.unwrap_or_else(|| rand::random_range(1800..3600));
    let namespace = call.resource.namespaced.then_some(call.address.namespace.as_deref()).flatten();
    let topic = storage::topic(&call.resource, namespace, selection.name());
    let storage = &call.server.storage;
    match version {
        None => storage.consistent().await?,
        Some(version) => storage.not_older_than(version).await?,
    }
    let mut pending = VecDeque::new();
    let mut told = false;
    let wants_state = initial.unwrap_or(matches!(version, None | Some(0)));
    let mut known = version.unwrap_or_default();
    let after = if wants_state {
        let snapshot = storage.cache().snapshot(&topic);
        for (_, object) in &snapshot.objects {
            let object = storage::converted(&call.resource, object);
            if selection.matches_bytes(&call.resource, &object) {
                pending.push_back(line("ADDED", &formed(&call, form, &mut told, &object)));
            }
        }
        if initial == Some(true) && bookmarks {
            pending.push_back(bookmark(&call, form, snapshot.revision, true));
            known = snapshot.revision;
        }
        snapshot.revision
    } else {
        version.filter(|version| *version > 0).unwrap_or_else(|| storage.cache().through())
    };
    let now = Instant::now();
    let deadline = now + Duration::from_secs(timeout);
    let first = if bookmarks { deadline.min(now + BOOKMARKS) } else { deadline };
    let shutdown = call.server.shutdown.clone();
    let as_is = form == Form::Object && selection.is_everything() && !call.resource.evolved;
    let watch = Watch {
        form,
        plain: as_is.then(|| storage::head(&call.resource)),
        selection,
        watcher: Watcher::new(storage.clone(), topic, after),
        pending,
        told,
        bookmarks,
        known,
        deadline,
        alarm: Box::pin(tokio::time::sleep_until(first)),
        stopped: Box::pin(async move { shutdown.requested().await }),
        ended: false,
        _open: Open::new(&call.server.metrics.watches),
        call,
    };
    let stream = futures::stream::unfold(watch, |mut watch| async move {
        let bytes = watch.next().await?;
        Some((Ok::<_, Infallible>(bytes), watch))
    });
    Ok(answer::stream(answer::JSON, Body::from_stream(stream)))
}

impl Watch {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if !self.pending.is_empty() {
                return Some(self.drained());
            }
            if self.ended {
                return None;
            }
            tokio::select! {
                biased;
                () = &mut self.stopped => {
                    self.ended = true;
                    return None;
                }
                events = self.watcher.next() => match events {
                    Ok(events) => events.iter().for_each(|event| self.take(event)),
                    Err(lost) => self.lose(lost),
                },
                () = &mut self.alarm => {
                    self.bookmark();
                    self.ended = Instant::now() >= self.deadline;
                }
            }
        }
    }

    /// Everything that waits, as one piece: a thousand small writes cost more than one.
    fn drained(&mut self) -> Bytes {
        if self.pending.len() == 1 {
            return self.pending.pop_front().unwrap_or_default();
        }
        const LARGEST: usize = 256 << 10;
        let mut text = BytesMut::new();
        while let Some(next) = self.pending.front()
            && (text.is_empty() || text.len() + next.len() <= LARGEST)
        {
            text.put_slice(next);
            self.pending.pop_front();
        }
        text.freeze()
    }

    /// What a change means to somebody who sees only some of the objects.
    fn take(&mut self, event: &Event) {
        if let Some(line) = self.as_it_is(event) {
            self.known = event.revision;
            self.call.server.metrics.watch_events.inc();
            self.pending.push_back(line);
            return;
        }
        let resource = &self.call.resource;
        let shown = |object: &Option<Bytes>| {
            let object = storage::converted(resource, object.as_ref()?);
            self.selection.matches_bytes(resource, &object).then_some(object)
        };
        let (kind, object) = match (shown(&event.before), shown(&event.after)) {
            (None, Some(object)) => ("ADDED", object),
            (Some(_), Some(object)) => ("MODIFIED", object),
            // Gone, or gone from sight: the last state in sight, at the version of the change.
            (Some(object), None) => ("DELETED", storage::with_revision(&object, event.revision)),
            (None, None) => return,
        };
        self.known = event.revision;
        self.call.server.metrics.watch_events.inc();
        let object = formed(&self.call, self.form, &mut self.told, &object);
        self.pending.push_back(line(kind, &object));
    }

    /// The line of a new or changed object for somebody who sees all objects as they are.
    fn as_it_is(&self, event: &Event) -> Option<Bytes> {
        let head = self.plain.as_ref()?;
        let is_plain = |object: &Bytes| object.starts_with(head.as_bytes());
        let after = event.after.as_ref().filter(|after| is_plain(after))?;
        match &event.before {
            None => Some(event.line(|| line("ADDED", after))),
            Some(before) => is_plain(before).then(|| event.line(|| line("MODIFIED", after))),
        }
    }

    fn bookmark(&mut self) {
        let next = if self.bookmarks { Instant::now() + BOOKMARKS } else { self.deadline };
        self.alarm.as_mut().reset(next.min(self.deadline));
        if self.bookmarks {
            let place = self.watcher.advance();
            if place > self.known {
                self.pending.push_back(bookmark(&self.call, self.form, place, false));
                self.known = place;
            }
        }
    }

    fn lose(&mut self, lost: Lost) {
        let failure = match lost {
            Lost::Expired => {
                self.call.server.metrics.watch_expired.inc();
                Failure::expired(format!("too old resource version: {}", self.watcher.place()))
            }
            Lost::Failed(failure) => failure,
        };
        self.pending.push_back(line("ERROR", &answer::encode(&failure.to_value())));
        self.ended = true;
    }
}

/// An object in the form the client asked for. Of tables, only the first has columns.
fn formed(call: &Call, form: Form, told: &mut bool, object: &Bytes) -> Bytes {
    if form == Form::Object {
        return object.clone();
    }
    let now = call.server.clock.now();
    match serde_json::from_slice(object) {
        Ok(value) if matches!(form, Form::Table(_)) && std::mem::replace(told, true) => {
            let mut table = form.show(&call.resource, value, now);
            table["columnDefinitions"] = Value::Null;
            answer::encode(&table)
        }
        _ => form.show_bytes(&call.resource, object, now),
    }
}

fn line(kind: &str, object: &Bytes) -> Bytes {
    let mut text = BytesMut::with_capacity(object.len() + 40);
    text.put_slice(format!("{{\"type\":\"{kind}\",\"object\":").as_bytes());
    text.put_slice(object);
    text.put_slice(b"}\n");
    text.freeze()
}

fn bookmark(call: &Call, form: Form, revision: u64, initial_events_end: bool) -> Bytes {
    let mut metadata: Value = json!({ "resourceVersion": revision.to_string() });
    if initial_events_end {
        metadata["annotations"] = json!({ INITIAL_EVENTS_END: "true" });
    }
    let object = match form {
        Form::Metadata => crate::table::metadata_only(&json!({ "metadata": metadata })),
        _ => json!({
            "kind": call.resource.kind,
            "apiVersion": call.resource.api_version(),
            "metadata": metadata,
        }),
    };
    line("BOOKMARK", &answer::encode(&object))
}

impl Open {
    fn new(watches: &Gauge) -> Self {
        watches.inc();
        Self(watches.clone())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.dec();
    }
}
