//! What the simulated service keeps.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};

use crate::simulated::refusal::Refusal;
use crate::simulated::{Mode, Resource};
use crate::{
    BreakGlassCredential, BreakGlassCredentialId, Change, Cluster, ClusterId, ClusterState, ExternalAuth,
    ExternalAuthId, NodePool, NodePoolId, properties,
};

/// How many changes a reader may be behind.
const HISTORY: usize = 100_000;

pub(super) struct State {
    pub(super) mode: Mode,
    pub(super) clusters: BTreeMap<ClusterId, Kept<Cluster>>,
    pub(super) node_pools: BTreeMap<(ClusterId, NodePoolId), Kept<NodePool>>,
    pub(super) external_auths: BTreeMap<(ClusterId, ExternalAuthId), Kept<ExternalAuth>>,
    pub(super) credentials: BTreeMap<(ClusterId, BreakGlassCredentialId), Kept<BreakGlassCredential>>,
    /// What is asked to be signed, by credential.
    pub(super) requests: HashMap<(ClusterId, BreakGlassCredentialId), Option<String>>,
    /// Credentials to be issued before anybody looks.
    pub(super) to_sign: Vec<(ClusterId, BreakGlassCredentialId)>,
    /// Clusters by the ARM resources they stand for.
    pub(super) of_resource: HashMap<String, ClusterId>,
    pub(super) prefixes: HashSet<String>,
    pub(super) held: BTreeSet<Resource>,
    /// Watches of former generations end.
    pub(super) watches: u64,
    history: VecDeque<Change>,
    /// How many changes are not in the history any more.
    forgotten: u64,
    next_id: u64,
}

/// Something that is kept, and who asked for it.
pub(super) struct Kept<T> {
    pub(super) value: T,
    created_by: Option<String>,
    changed_by: BTreeSet<String>,
}

impl State {
    pub(super) fn new(mode: Mode) -> Self {
        Self {
            mode,
            clusters: BTreeMap::new(),
            node_pools: BTreeMap::new(),
            external_auths: BTreeMap::new(),
            credentials: BTreeMap::new(),
            requests: HashMap::new(),
            to_sign: Vec::new(),
            of_resource: HashMap::new(),
            prefixes: HashSet::new(),
            held: BTreeSet::new(),
            watches: 0,
            history: VecDeque::new(),
            forgotten: 0,
            next_id: 0,
        }
    }

    /// The next number that was never given out.
    pub(super) fn next_number(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    /// A cluster that is to stay.
    pub(super) fn staying(&self, id: &ClusterId) -> Result<&Cluster, Refusal> {
        let cluster = self.cluster(id)?;
        if cluster.state == ClusterState::Uninstalling {
            return Err(Refusal::conflict(format!("cluster `{id}` is being deleted")));
        }
        Ok(cluster)
    }

    pub(super) fn cluster(&self, id: &ClusterId) -> Result<&Cluster, Refusal> {
        let found = self.clusters.get(id).map(|kept| &kept.value);
        found.ok_or_else(|| Refusal::not_found("Cluster", id.as_str()))
    }

    /// How many changes there have been.
    pub(super) fn told(&self) -> u64 {
        self.forgotten + self.history.len() as u64
    }

    pub(super) fn tell(&mut self, change: Change) {
        self.history.push_back(change);
        if self.history.len() > HISTORY {
            self.history.pop_front();
            self.forgotten += 1;
        }
    }

    pub(super) fn forget_history(&mut self) {
        self.forgotten = self.told();
        self.history.clear();
    }

    /// What happened after so many changes; `None` if that is too long ago, or has not happened yet.
    pub(super) fn since(&self, position: u64) -> Option<impl Iterator<Item = (u64, &Change)>> {
        if position < self.forgotten || position > self.told() {
            return None;
        }
        let skip = usize::try_from(position - self.forgotten).ok()?;
        Some((position + 1..).zip(self.history.iter().skip(skip)))
    }
}

impl<T> Kept<T> {
    pub(super) fn new(value: T, properties: &BTreeMap<String, String>) -> Self {
        Self { value, created_by: operation(properties), changed_by: BTreeSet::new() }
    }

    /// The same operation asked for it before; another one is refused.
    pub(super) fn again(&self, what: &str, properties: &BTreeMap<String, String>) -> Result<&T, Refusal> {
        if self.created_by.is_some() && self.created_by == operation(properties) {
            return Ok(&self.value);
        }
        Err(Refusal::conflict(format!("{what} exists, made by another operation")))
    }

    /// Whether this change was not asked for before by the same operation.
    pub(super) fn is_new(&self, properties: &BTreeMap<String, String>) -> bool {
        operation(properties).is_none_or(|operation| !self.changed_by.contains(&operation))
    }

    pub(super) fn changed(&mut self, properties: &BTreeMap<String, String>) {
        self.changed_by.extend(operation(properties));
    }
}

fn operation(properties: &BTreeMap<String, String>) -> Option<String> {
    properties.get(properties::OPERATION_ID).cloned()
}
