//! Connections by cluster: how many there are, how many there may be, and their numbers.
//!
//! A cluster has an entry from its first connection until its last route is gone. Numbers by cluster are numbers without end,
//! so only so many clusters have their own, and the rest share those of `other`.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use prometheus_client::encoding::EncodeLabelSet;
use tokio::sync::{Semaphore, watch};

use crate::metrics::{ClusterNumbers, Metrics};

/// How many names a cluster may have looked up at once. Each takes a thread for as long as a name server does not answer, and
/// there are some hundreds for everybody; `egress::lookup` says how many of them are for lookups.
const LOOKUPS: usize = 16;

/// What clusters without numbers of their own are called together. No cluster of the configuration is.
pub(crate) const OTHER: &str = "other";

/// What tells one cluster from another.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, EncodeLabelSet)]
pub struct ClusterName {
    /// The management cluster that it is hosted in; empty for clusters that the configuration names.
    pub management: String,
    /// The namespace of its control plane, or the name in the configuration.
    pub cluster: String,
}

/// All clusters that have, or had, connections.
#[derive(Debug)]
pub(crate) struct Clusters {
    metrics: Metrics,
    open: Arc<AtomicUsize>,
    entries: Mutex<HashMap<ClusterName, Entry>>,
}

#[derive(Clone, Debug)]
struct Entry {
    open: Arc<AtomicUsize>,
    /// Apart: what comes in from anywhere must not close the way out, nor the other way round.
    ways_out: Arc<AtomicUsize>,
    numbers: ClusterNumbers,
    /// Whether the numbers are its own.
    own: bool,
    lookups: Arc<Semaphore>,
    /// Dropped with the entry, which tells those who are on the way out.
    there: watch::Sender<()>,
}

/// One connection's place among those that there may be, given back when dropped.
#[derive(Debug)]
pub(crate) struct Place(Arc<AtomicUsize>);

/// The same within a cluster.
#[derive(Debug)]
pub(crate) struct ClusterPlace {
    _place: Place,
    pub(crate) numbers: ClusterNumbers,
    /// As many names as the cluster may have looked up at once.
    pub(crate) lookups: Arc<Semaphore>,
}

/// Ends when a cluster is gone.
#[derive(Debug)]
pub(crate) struct Presence(watch::Receiver<()>);

// === impl Clusters ===

impl Clusters {
    pub(crate) fn new(metrics: Metrics) -> Self {
        Self { metrics, open: Arc::default(), entries: Mutex::default() }
    }

    /// A place among all connections, if there is one.
    pub(crate) fn enter(&self, most: usize) -> Option<Place> {
        Place::take(&self.open, most)
    }

    /// A place among those of a cluster; without one, the numbers to count that in. `exists` says whether there is such a cluster
    /// by now: one that is gone does not come back because of its last client.
    pub(crate) fn enter_cluster(
        &self,
        name: &ClusterName,
        most: usize,
        labels: usize,
        exists: impl FnOnce() -> bool,
    ) -> Result<ClusterPlace, ClusterNumbers> {
        let entry = self.entry(name, labels, exists);
        entry.place(&entry.open, most)
    }

    /// A place among those on a cluster's way out, which ends with the cluster.
    pub(crate) fn enter_way_out(
        &self,
        name: &ClusterName,
        most: usize,
        labels: usize,
        exists: impl FnOnce() -> bool,
    ) -> Result<(ClusterPlace, Presence), ClusterNumbers> {
        let entry = self.entry(name, labels, exists);
        let place = entry.place(&entry.ways_out, most)?;
        Ok((place, Presence(entry.there.subscribe())))
    }

    /// The numbers of a cluster.
    pub(crate) fn numbers(
        &self,
        name: &ClusterName,
        labels: usize,
        exists: impl FnOnce() -> bool,
    ) -> ClusterNumbers {
        self.entry(name, labels, exists).numbers
    }

    /// The cluster is gone. Connections that it still has keep their places and are counted no more.
    pub(crate) fn forget(&self, name: &ClusterName) {
        if let Some(Entry { own: true, .. }) = self.lock().remove(name) {
            self.metrics.forget(name);
        }
    }

    fn entry(&self, name: &ClusterName, labels: usize, exists: impl FnOnce() -> bool) -> Entry {
        let mut entries = self.lock();
        if let Some(entry) = entries.get(name) {
            return entry.clone();
        }
        // Asked under the lock, which whoever forgets a cluster takes after it has ceased to exist.
        if !exists() {
            return Entry::nobodys();
        }
        let own = entries.len() < labels;
        let numbers =
            if own { self.metrics.cluster(name) } else { self.metrics.cluster(&ClusterName::other()) };
        let entry = Entry { numbers, own, ..Entry::nobodys() };
        entries.insert(name.clone(), entry.clone());
        entry
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ClusterName, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Entry ===

impl Entry {
    /// Of a cluster that is gone: nobody sees its numbers.
    fn nobodys() -> Self {
        Self {
            open: Arc::default(),
            ways_out: Arc::default(),
            numbers: ClusterNumbers::default(),
            own: false,
            lookups: Arc::new(Semaphore::new(LOOKUPS)),
            there: watch::Sender::new(()),
        }
    }
}

impl Entry {
    fn place(&self, open: &Arc<AtomicUsize>, most: usize) -> Result<ClusterPlace, ClusterNumbers> {
        let Self { numbers, lookups, .. } = self;
        let Some(place) = Place::take(open, most) else { return Err(numbers.clone()) };
        numbers.opened();
        Ok(ClusterPlace { _place: place, numbers: numbers.clone(), lookups: lookups.clone() })
    }
}

// === impl Presence ===

impl Presence {
    /// Returns when the cluster is gone.
    pub(crate) async fn ended(&mut self) {
        // Nothing is ever sent.
        while self.0.changed().await.is_ok() {}
    }
}

// === impl ClusterName ===

impl ClusterName {
    /// A cluster that the configuration names.
    pub(crate) fn configured(cluster: &str) -> Self {
        Self { management: String::new(), cluster: cluster.to_owned() }
    }

    fn other() -> Self {
        Self::configured(OTHER)
    }
}

// === impl Place ===

impl Place {
    fn take(open: &Arc<AtomicUsize>, most: usize) -> Option<Self> {
        let taken =
            open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |open| (open < most).then_some(open + 1));
        taken.is_ok().then(|| Self(open.clone()))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for ClusterPlace {
    fn drop(&mut self) {
        self.numbers.closed();
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;
    use prometheus_client::registry::Registry;

    use super::*;

    fn name(cluster: &str) -> ClusterName {
        ClusterName { management: "management".to_owned(), cluster: cluster.to_owned() }
    }

    fn text(registry: &Registry) -> String {
        let mut text = String::new();
        encode(&mut text, registry).unwrap();
        text
    }

    #[test]
    fn places_of_one_cluster_are_not_those_of_another_and_are_given_back() {
        let clusters = Clusters::new(Metrics::new(&mut Registry::default()));
        let first = clusters.enter_cluster(&name("first"), 1, 10, || true).unwrap();
        assert!(clusters.enter_cluster(&name("first"), 1, 10, || true).is_err());
        assert!(clusters.enter_cluster(&name("second"), 1, 10, || true).is_ok());
        let out = clusters.enter_way_out(&name("first"), 1, 10, || true);
        assert!(out.is_ok() && clusters.enter_way_out(&name("first"), 1, 10, || true).is_err());
        drop(first);
        assert!(clusters.enter_cluster(&name("first"), 1, 10, || true).is_ok());
        let all = [clusters.enter(2), clusters.enter(2), clusters.enter(2)];
        assert!(all[1].is_some() && all[2].is_none());
    }

    #[test]
    fn only_so_many_clusters_have_numbers_and_those_that_go_take_theirs_along() {
        let mut registry = Registry::default();
        let clusters = Clusters::new(Metrics::new(&mut registry));
        for cluster in ["first", "second", "third"] {
            clusters.enter_cluster(&name(cluster), 10, 1, || true).unwrap().numbers.ended(true);
        }
        let served = |management: &str, cluster: &str, count: u64| {
            let labels = format!("management=\"{management}\",cluster=\"{cluster}\"");
            format!("gateway_cluster_connections_total{{{labels}}} {count}\n")
        };
        let (first, other) = (served("management", "first", 1), served("", "other", 2));
        let seen = text(&registry);
        assert!(seen.contains(&first) && seen.contains(&other), "{seen}");
        assert!(!seen.contains("second"), "{seen}");
        clusters.forget(&name("first"));
        clusters.forget(&name("second"));
        let seen = text(&registry);
        assert!(!seen.contains("first") && seen.contains(&other), "{seen}");
    }

    #[test]
    fn cluster_that_is_gone_does_not_come_back_with_its_last_client() {
        let mut registry = Registry::default();
        let clusters = Clusters::new(Metrics::new(&mut registry));
        let place = clusters.enter_cluster(&name("first"), 10, 10, || true).unwrap();
        clusters.forget(&name("first"));
        place.numbers.ended(true);
        clusters.numbers(&name("first"), 10, || false).ended(false);
        let late = clusters.enter_cluster(&name("first"), 10, 10, || false).unwrap();
        late.numbers.ended(true);
        let seen = text(&registry);
        assert!(!seen.contains("first"), "{seen}");
        assert!(clusters.lock().is_empty());
    }
}
