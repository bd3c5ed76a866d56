//! What has not ended, as far as the feed has told: for the numbers, and to know which news of Clusters Service matter.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pilothouse_arm::{OperationId, ResourceId};
use pilothouse_records::Operation;

use crate::metrics::{Metrics, OperationLabels};

/// The operations that have not ended. Memory and time go with their number, never with that of the clusters.
#[derive(Debug)]
pub(crate) struct Active {
    metrics: Metrics,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Whether everything there is has been counted. Until then anything may be under way.
    complete: bool,
    operations: HashMap<OperationId, (String, OperationLabels)>,
    /// How many there are on a cluster, by its key.
    clusters: HashMap<String, usize>,
}

impl Active {
    pub(crate) fn new(metrics: Metrics) -> Self {
        Self { metrics, state: Mutex::default() }
    }

    /// Something was missed: anything may be under way.
    pub(crate) fn invalidate(&self) {
        self.lock().complete = false;
    }

    /// Starts over with what there is at one moment.
    pub(crate) fn replace(&self, operations: &[Operation]) {
        let mut state = self.lock();
        state.complete = true;
        let present: HashSet<_> = operations.iter().map(|operation| operation.id).collect();
        let gone: Vec<_> = state.operations.keys().filter(|id| !present.contains(id)).copied().collect();
        gone.iter().for_each(|id| state.remove(*id, &self.metrics));
        operations.iter().for_each(|operation| state.insert(operation, &self.metrics));
    }

    /// An operation was made or changed.
    pub(crate) fn note(&self, operation: &Operation) {
        let mut state = self.lock();
        if operation.state.is_terminal() {
            state.remove(operation.id, &self.metrics);
        } else {
            state.insert(operation, &self.metrics);
        }
    }

    /// Whether anything is under way on a cluster. What has begun since is announced by the feed.
    pub(crate) fn is_on(&self, cluster: &ResourceId) -> bool {
        let state = self.lock();
        !state.complete || state.clusters.contains_key(&cluster.key())
    }

    /// Whether nothing is under way anywhere.
    pub(crate) fn is_empty(&self) -> bool {
        let state = self.lock();
        state.complete && state.operations.is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn insert(&mut self, operation: &Operation, metrics: &Metrics) {
        self.remove(operation.id, metrics);
        let (cluster, labels) = (operation.cluster().key(), OperationLabels::of(operation));
        metrics.active.get_or_create(&labels).inc();
        *self.clusters.entry(cluster.clone()).or_default() += 1;
        self.operations.insert(operation.id, (cluster, labels));
    }

    fn remove(&mut self, id: OperationId, metrics: &Metrics) {
        let Some((cluster, labels)) = self.operations.remove(&id) else { return };
        metrics.active.get_or_create(&labels).dec();
        if let Some(count) = self.clusters.get_mut(&cluster) {
            *count -= 1;
            if *count == 0 {
                self.clusters.remove(&cluster);
            }
        }
    }
}
