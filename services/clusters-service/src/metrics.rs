//! Numbers about the service's own work. Every label is an enum.

use std::collections::HashMap;

use pilothouse_clusters_service_api::ClusterState;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::plan::Action;

/// Numbers about the service's own work. A cheap handle.
#[derive(Clone, Debug)]
pub(crate) struct Metrics {
    clusters: Family<StateLabels, Gauge>,
    actions: Family<ActionLabels, Counter>,
    pub(crate) status_events: Counter,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabels {
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
enum State {
    Validating,
    Pending,
    Installing,
    Ready,
    Updating,
    Error,
    Uninstalling,
    Other,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ActionLabels {
    action: ActionKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
enum ActionKind {
    PrepareCloud,
    RestoreCloud,
    PostBundle,
    UpdateBundle,
    DeleteBundle,
    DeleteCloud,
    RemoveNodePool,
    RemoveCredential,
    RemoveCluster,
}

const STATES: [State; 8] = [
    State::Validating,
    State::Pending,
    State::Installing,
    State::Ready,
    State::Updating,
    State::Error,
    State::Uninstalling,
    State::Other,
];

impl Metrics {
    /// Registers the numbers.
    pub(crate) fn new(registry: &mut Registry) -> Self {
        let metrics = Self {
            clusters: Family::default(),
            actions: Family::default(),
            status_events: Counter::default(),
        };
        registry.register("clusters", "Clusters by state", metrics.clusters.clone());
        registry.register("actions", "What the controller did", metrics.actions.clone());
        registry.register(
            "status_events",
            "Statuses of bundles that Maestro sent",
            metrics.status_events.clone(),
        );
        metrics
    }

    /// Counts all clusters anew.
    pub(crate) fn count_all(&self, states: impl Iterator<Item = ClusterState>) {
        let mut counts: HashMap<State, i64> = STATES.into_iter().map(|state| (state, 0)).collect();
        for state in states {
            *counts.entry(State::of(state)).or_default() += 1;
        }
        for (state, count) in counts {
            self.clusters.get_or_create(&StateLabels { state }).set(count);
        }
    }

    /// A cluster came, went, or is in another state.
    pub(crate) fn count_change(&self, before: Option<ClusterState>, after: Option<ClusterState>) {
        if let Some(before) = before {
            self.clusters.get_or_create(&StateLabels { state: State::of(before) }).dec();
        }
        if let Some(after) = after {
            self.clusters.get_or_create(&StateLabels { state: State::of(after) }).inc();
        }
    }

    pub(crate) fn acted(&self, action: &Action) {
        let action = match action {
            Action::PrepareCloud => ActionKind::PrepareCloud,
            Action::RestoreCloud => ActionKind::RestoreCloud,
            Action::Create(_) => ActionKind::PostBundle,
            Action::Update(..) => ActionKind::UpdateBundle,
            Action::DeleteBundle(_) => ActionKind::DeleteBundle,
            Action::DeleteCloud => ActionKind::DeleteCloud,
            Action::RemoveNodePool(_) => ActionKind::RemoveNodePool,
            Action::RemoveCredential(_) => ActionKind::RemoveCredential,
            Action::RemoveCluster => ActionKind::RemoveCluster,
        };
        self.actions.get_or_create(&ActionLabels { action }).inc();
    }
}

impl State {
    fn of(state: ClusterState) -> Self {
        match state {
            ClusterState::Validating => Self::Validating,
            ClusterState::Pending => Self::Pending,
            ClusterState::Installing => Self::Installing,
            ClusterState::Ready => Self::Ready,
            ClusterState::Updating => Self::Updating,
            ClusterState::Error => Self::Error,
            ClusterState::Uninstalling => Self::Uninstalling,
            _ => Self::Other,
        }
    }
}
