//! From publishers to subscribers.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rumqttc::mqttbytes::v5::{DisconnectReasonCode, Publish};
use tokio::sync::{mpsc, watch};

use crate::config::Limits;
use crate::metrics::{End, Metrics};
use crate::topics::{Filter, SessionId, Subscription, Topics};

/// All connected clients and their subscriptions. A cheap handle.
#[derive(Clone, Debug)]
pub(crate) struct Router {
    shared: Arc<Mutex<Shared>>,
    metrics: Metrics,
    limits: Limits,
}

#[derive(Debug, Default)]
struct Shared {
    topics: Topics,
    sessions: HashMap<SessionId, Session>,
    clients: HashMap<String, SessionId>,
    last: SessionId,
}

#[derive(Debug)]
struct Session {
    client: String,
    queue: mpsc::Sender<Delivery>,
    queued: Arc<AtomicUsize>,
    stop: watch::Sender<Option<Stop>>,
    filters: Vec<String>,
}

/// A message on its way to one subscriber.
#[derive(Debug)]
pub(crate) struct Delivery {
    pub(crate) message: Arc<Publish>,
    pub(crate) acknowledged: bool,
    pub(crate) bytes: usize,
}

/// Why a connection is ended from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stop {
    pub(crate) reason: DisconnectReasonCode,
    pub(crate) end: End,
}

/// What a connection holds of the router. Dropping it ends the session.
#[derive(Debug)]
pub(crate) struct Seat {
    pub(crate) session: SessionId,
    pub(crate) queue: mpsc::Receiver<Delivery>,
    pub(crate) stop: watch::Receiver<Option<Stop>>,
    queued: Arc<AtomicUsize>,
    router: Router,
}

// === impl Router ===

impl Router {
    pub(crate) fn new(limits: Limits, metrics: Metrics) -> Self {
        Self { shared: Arc::default(), metrics, limits }
    }

    /// Lets a client in. Whoever was connected under the same id is put out.
    pub(crate) fn enter(&self, client: &str) -> Seat {
        let (queue, queue_rx) = mpsc::channel(self.limits.queued_messages);
        let (stop, stop_rx) = watch::channel(None);
        let queued = Arc::new(AtomicUsize::new(0));
        let mut shared = self.lock();
        shared.last += 1;
        let session = shared.last;
        if let Some(former) = shared.clients.insert(client.to_owned(), session) {
            let reason = Stop { reason: DisconnectReasonCode::SessionTakenOver, end: End::TakenOver };
            self.evict(&mut shared, former, Some(reason));
        }
        let entry =
            Session { client: client.to_owned(), queue, queued: queued.clone(), stop, filters: Vec::new() };
        shared.sessions.insert(session, entry);
        self.metrics.clients.inc();
        Seat { session, queue: queue_rx, stop: stop_rx, queued, router: self.clone() }
    }

    /// Adds a subscription; `false` if the client has too many.
    pub(crate) fn subscribe(&self, session: SessionId, filter: &str, wanted: Subscription) -> bool {
        let Some(parsed) = Filter::parse(filter) else { return false };
        let mut shared = self.lock();
        let Shared { topics, sessions, .. } = &mut *shared;
        let Some(entry) = sessions.get_mut(&session) else { return true };
        if entry.filters.len() >= self.limits.subscriptions
            && !entry.filters.iter().any(|known| known == filter)
        {
            return false;
        }
        if topics.subscribe(session, &parsed, wanted) {
            entry.filters.push(filter.to_owned());
            self.metrics.subscriptions.inc();
        }
        true
    }

    /// Takes a subscription away; whether there was one.
    pub(crate) fn unsubscribe(&self, session: SessionId, filter: &str) -> bool {
        let Some(parsed) = Filter::parse(filter) else { return false };
        let mut shared = self.lock();
        if !shared.topics.unsubscribe(session, &parsed) {
            return false;
        }
        if let Some(entry) = shared.sessions.get_mut(&session) {
            entry.filters.retain(|known| known != filter);
        }
        self.metrics.subscriptions.dec();
        true
    }

    /// Hands a message to everybody who subscribed to it; whether anybody did.
    pub(crate) fn publish(&self, from: SessionId, topic: &str, message: Publish) -> bool {
        let bytes = message.topic.len() + message.payload.len();
        let message = Arc::new(message);
        let mut shared = self.lock();
        let receivers = shared.topics.matching(topic, from);
        self.metrics.received.inc();
        if receivers.is_empty() {
            self.metrics.unheard.inc();
            return false;
        }
        for (session, acknowledged) in receivers {
            let Some(entry) = shared.sessions.get(&session) else { continue };
            let delivery = Delivery { message: message.clone(), acknowledged, bytes };
            let waiting = entry.queued.fetch_add(bytes, Ordering::Relaxed);
            if waiting + bytes > self.limits.queued_bytes || entry.queue.try_send(delivery).is_err() {
                let reason = Stop { reason: DisconnectReasonCode::QuotaExceeded, end: End::Slow };
                self.evict(&mut shared, session, Some(reason));
            }
        }
        true
    }

    fn evict(&self, shared: &mut Shared, session: SessionId, reason: Option<Stop>) {
        let Some(entry) = shared.sessions.remove(&session) else { return };
        if let Some(reason) = reason {
            entry.stop.send_replace(Some(reason));
        }
        for filter in &entry.filters {
            if let Some(filter) = Filter::parse(filter) {
                shared.topics.unsubscribe(session, &filter);
                self.metrics.subscriptions.dec();
            }
        }
        // The id may be somebody else's by now.
        if shared.clients.get(&entry.client) == Some(&session) {
            shared.clients.remove(&entry.client);
        }
        self.metrics.clients.dec();
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Seat ===

impl Seat {
    /// A delivery was taken from the queue.
    pub(crate) fn taken(&self, delivery: &Delivery) {
        self.queued.fetch_sub(delivery.bytes, Ordering::Relaxed);
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut shared = self.router.lock();
        self.router.evict(&mut shared, self.session, None);
    }
}
