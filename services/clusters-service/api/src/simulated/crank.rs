//! From state to state.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::state::State;
use super::{Mode, Resource};
use crate::{
    BreakGlassCredentialStatus, Change, ClusterId, ClusterState, ExternalAuthStateValue, NodePoolStateValue,
};

impl State {
    /// On by itself, as far as nothing holds it.
    pub(super) fn walk(&mut self, resource: &Resource, now: Timestamp) {
        if self.mode == Mode::Explicit {
            return;
        }
        while !self.held.contains(resource) && self.may_go_on(resource) && self.step(resource, now) {}
        if let Resource::Cluster(id) = resource {
            for belonging in self.belonging_to(id) {
                self.walk(&belonging, now);
            }
        }
    }

    pub(super) fn walk_all(&mut self, now: Timestamp) {
        let clusters: Vec<_> = self.clusters.keys().cloned().map(Resource::Cluster).collect();
        for cluster in clusters {
            self.walk(&cluster, now);
        }
    }

    /// What belongs to a cluster waits for it, except to go.
    fn may_go_on(&self, resource: &Resource) -> bool {
        let (cluster, going) = match resource {
            Resource::Cluster(_) => return true,
            Resource::NodePool(cluster, id) => {
                let kept = self.node_pools.get(&(cluster.clone(), id.clone()));
                let going = NodePoolStateValue::Uninstalling;
                (cluster, kept.is_some_and(|kept| kept.value.status.state.value == going))
            }
            Resource::ExternalAuth(cluster, id) => {
                let kept = self.external_auths.get(&(cluster.clone(), id.clone()));
                let going = ExternalAuthStateValue::Uninstalling;
                (cluster, kept.is_some_and(|kept| kept.value.status.state.value == going))
            }
            Resource::Credential(cluster, _) => (cluster, false),
        };
        let up = |state| matches!(state, ClusterState::Ready | ClusterState::Updating);
        going || self.clusters.get(cluster).is_some_and(|kept| up(kept.value.state))
    }

    fn belonging_to(&self, id: &ClusterId) -> Vec<Resource> {
        let node_pools = below(&self.node_pools, id, "a").map(|id| Resource::NodePool(id.0, id.1));
        let external_auths =
            below(&self.external_auths, id, "a").map(|id| Resource::ExternalAuth(id.0, id.1));
        let credentials = below(&self.credentials, id, "-").map(|id| Resource::Credential(id.0, id.1));
        node_pools.chain(external_auths).chain(credentials).collect()
    }

    /// One step on; false if there is none.
    pub(super) fn step(&mut self, resource: &Resource, now: Timestamp) -> bool {
        match resource {
            Resource::Cluster(id) => self.cluster_step(id),
            Resource::NodePool(cluster, id) => {
                let Some(kept) = self.node_pools.get_mut(&(cluster.clone(), id.clone())) else {
                    return false;
                };
                let next = match kept.value.status.state.value {
                    NodePoolStateValue::Validating => NodePoolStateValue::Pending,
                    NodePoolStateValue::Pending => NodePoolStateValue::Installing,
                    NodePoolStateValue::ValidatingUpdate | NodePoolStateValue::PendingUpdate => {
                        NodePoolStateValue::Updating
                    }
                    NodePoolStateValue::Installing | NodePoolStateValue::Updating => {
                        NodePoolStateValue::Ready
                    }
                    NodePoolStateValue::Uninstalling => {
                        self.remove(resource);
                        return true;
                    }
                    _ => return false,
                };
                kept.value.enter(next, words(&format!("{next:?}")), now);
                let told = Change::NodePool(Box::new(kept.value.clone()));
                self.tell(told);
                true
            }
            Resource::ExternalAuth(cluster, id) => {
                let Some(kept) = self.external_auths.get_mut(&(cluster.clone(), id.clone())) else {
                    return false;
                };
                let next = match kept.value.status.state.value {
                    ExternalAuthStateValue::Validating => ExternalAuthStateValue::Installing,
                    ExternalAuthStateValue::Installing | ExternalAuthStateValue::Updating => {
                        ExternalAuthStateValue::Ready
                    }
                    ExternalAuthStateValue::Uninstalling => {
                        self.remove(resource);
                        return true;
                    }
                    _ => return false,
                };
                kept.value.enter(next, words(&format!("{next:?}")), now);
                let told = Change::ExternalAuth(Box::new(kept.value.clone()));
                self.tell(told);
                true
            }
            Resource::Credential(cluster, id) => {
                let key = (cluster.clone(), id.clone());
                let Some(kept) = self.credentials.get_mut(&key) else { return false };
                match kept.value.status {
                    // Signed before anybody looks, by whoever has the authority.
                    BreakGlassCredentialStatus::Created if !self.to_sign.contains(&key) => {
                        self.to_sign.push(key)
                    }
                    BreakGlassCredentialStatus::AwaitingRevocation => {
                        kept.value.status = BreakGlassCredentialStatus::Revoked;
                        kept.value.revocation_timestamp = Some(now);
                        let told = kept.value.clone();
                        self.tell(Change::BreakGlassCredential(cluster.clone(), Box::new(told)));
                    }
                    _ => return false,
                }
                true
            }
        }
    }

    fn cluster_step(&mut self, id: &ClusterId) -> bool {
        let Some(kept) = self.clusters.get_mut(id) else { return false };
        let next = match kept.value.state {
            ClusterState::Validating => ClusterState::Pending,
            ClusterState::Pending => ClusterState::Installing,
            ClusterState::Installing | ClusterState::Updating => ClusterState::Ready,
            ClusterState::Uninstalling => {
                self.remove(&Resource::Cluster(id.clone()));
                return true;
            }
            _ => return false,
        };
        kept.value.enter(next, words(&format!("{next:?}")));
        let told = Change::Cluster(Box::new(kept.value.clone()));
        self.tell(told);
        true
    }

    pub(super) fn fail(&mut self, resource: &Resource, code: &str, message: &str, now: Timestamp) {
        let told = match resource {
            Resource::Cluster(id) => self.clusters.get_mut(id).map(|kept| {
                kept.value.enter(ClusterState::Error, message.to_owned());
                kept.value.status.provision_error_code = Some(code.to_owned());
                kept.value.status.provision_error_message = Some(message.to_owned());
                Change::Cluster(Box::new(kept.value.clone()))
            }),
            Resource::NodePool(cluster, id) => {
                self.node_pools.get_mut(&(cluster.clone(), id.clone())).map(|kept| {
                    kept.value.enter(NodePoolStateValue::Error, message.to_owned(), now);
                    Change::NodePool(Box::new(kept.value.clone()))
                })
            }
            Resource::ExternalAuth(cluster, id) => {
                self.external_auths.get_mut(&(cluster.clone(), id.clone())).map(|kept| {
                    kept.value.enter(ExternalAuthStateValue::Error, message.to_owned(), now);
                    Change::ExternalAuth(Box::new(kept.value.clone()))
                })
            }
            Resource::Credential(cluster, id) => {
                self.credentials.get_mut(&(cluster.clone(), id.clone())).map(|kept| {
                    kept.value.status = BreakGlassCredentialStatus::Failed;
                    kept.value.message = message.to_owned();
                    Change::BreakGlassCredential(cluster.clone(), Box::new(kept.value.clone()))
                })
            }
        };
        if let Some(told) = told {
            self.tell(told);
        }
    }

    pub(super) fn remove(&mut self, resource: &Resource) {
        match resource {
            Resource::Cluster(id) => {
                for belonging in self.belonging_to(id) {
                    self.remove(&belonging);
                }
                if let Some(kept) = self.clusters.remove(id) {
                    self.of_resource.remove(&kept.value.azure.resource_id());
                    self.prefixes.remove(&kept.value.domain_prefix);
                    self.tell(Change::ClusterDeleted(id.clone()));
                }
            }
            Resource::NodePool(cluster, id) => {
                if self.node_pools.remove(&(cluster.clone(), id.clone())).is_some() {
                    self.tell(Change::NodePoolDeleted(cluster.clone(), id.clone()));
                }
            }
            Resource::ExternalAuth(cluster, id) => {
                if self.external_auths.remove(&(cluster.clone(), id.clone())).is_some() {
                    self.tell(Change::ExternalAuthDeleted(cluster.clone(), id.clone()));
                }
            }
            Resource::Credential(cluster, id) => {
                let key = (cluster.clone(), id.clone());
                self.credentials.remove(&key);
                self.requests.remove(&key);
            }
        }
    }
}

/// The keys that begin with a cluster, without looking at the others. `first` is the smallest id there can be.
fn below<'a, Id: Ord + Clone + std::str::FromStr, T>(
    map: &'a BTreeMap<(ClusterId, Id), T>,
    cluster: &'a ClusterId,
    first: &str,
) -> impl Iterator<Item = (ClusterId, Id)> + 'a {
    let first = first.parse::<Id>().ok().map(|first| (cluster.clone(), first));
    let found = first.into_iter().flat_map(|first| map.range(first..));
    found.map(|(key, _)| key.clone()).take_while(move |(owner, _)| owner == cluster)
}

/// What is said about a state.
fn words(state: &str) -> String {
    format!("simulated: {}", state.to_lowercase())
}
