//! Upgrades of clusters and node pools: asked for, put off, taken back.

use pilothouse_clusters_service_api::{
    ClusterId, List, ListQuery, NewUpgradePolicy, NodePoolId, UpgradePolicy, UpgradePolicyStateValue,
    UpgradePolicyUpdate,
};
use pilothouse_http::Context;
use pilothouse_store::{Conflict, Decision, Error as StoreError};

use super::{ATTEMPTS, Clusters, Mode, list};
use crate::admission;
use crate::record::{ClusterRecord, NodePoolRecord, Target, UpgradePolicies};
use crate::refusal::Refusal;
use crate::search::Subject;

/// What is upgraded.
#[derive(Clone, Debug)]
pub(crate) enum Upgraded {
    ControlPlane(ClusterId),
    NodePool(ClusterId, NodePoolId),
}

/// What a request finds: the upgrades of something, and what is allowed to it.
struct Found<'a> {
    policies: &'a mut UpgradePolicies,
    target: Target,
    /// Refuses a version that it cannot be upgraded to.
    gate: &'a dyn Fn(&str) -> Result<(), Refusal>,
}

impl Clusters {
    pub(crate) async fn upgrade_policy_list(
        &self,
        of: &Upgraded,
        query: &ListQuery,
    ) -> Result<List<UpgradePolicy>, Refusal> {
        if query.search.as_ref().is_some_and(|search| !search.trim().is_empty()) {
            let problem = "upgrades are listed by what is upgraded only".to_owned();
            return Err(Refusal::Query { name: "search", problem });
        }
        let (kind, policies) = match of {
            Upgraded::ControlPlane(cluster) => {
                let record = self.cluster_record(cluster).await?;
                ("ControlPlaneUpgradePolicyList", record.upgrade_policies)
            }
            Upgraded::NodePool(cluster, id) => {
                let record = self.node_pool_record(cluster, id).await?;
                ("NodePoolUpgradePolicyList", record.upgrade_policies)
            }
        };
        let shown: Vec<_> = policies.iter().map(|record| record.policy.clone()).collect();
        list(kind, shown.into_iter(), None, query, Subject::UpgradePolicies)
    }

    pub(crate) async fn upgrade_policy_get(&self, of: &Upgraded, id: &str) -> Result<UpgradePolicy, Refusal> {
        let policies = match of {
            Upgraded::ControlPlane(cluster) => self.cluster_record(cluster).await?.upgrade_policies,
            Upgraded::NodePool(cluster, pool) => self.node_pool_record(cluster, pool).await?.upgrade_policies,
        };
        policies.find(id).map(|record| record.policy.clone()).ok_or_else(|| not_found(id))
    }

    /// Asks for an upgrade, now or at its time, or finds the one that the same operation asked for before.
    pub(crate) async fn upgrade_policy_create(
        &self,
        context: &Context,
        of: &Upgraded,
        mut new: NewUpgradePolicy,
        mode: Mode,
    ) -> Result<UpgradePolicy, Refusal> {
        let origin = admission::origin(&mut new.properties, context.correlation_id());
        if new.schedule_type.as_ref().is_some_and(|schedule| schedule != "manual") {
            let problem = "upgrades are asked for one by one; leave it out, or say `manual`";
            return Err(Refusal::not_yet("schedule_type", problem));
        }
        let now = self.clock.now();
        let next_run = new.next_run.unwrap_or(now);
        self.upgrade_policies_change(of, mode, |found| {
            if let Some(again) = found.policies.asked_by(&origin) {
                return Ok((again.policy.clone(), Decision::Keep));
            }
            if let Some(active) = found.policies.active() {
                let UpgradePolicy { id, version, state, .. } = &active.policy;
                let reason = format!(
                    "upgrade `{id}` to {version} is not over: {}; wait for it, or delete it if it has not begun",
                    state.description
                );
                return Err(Refusal::Conflict(reason));
            }
            (found.gate)(&new.version)?;
            let record = found.policies.add(&found.target, &new.version, next_run, &origin, now);
            Ok((record.policy.clone(), Decision::Write))
        })
        .await
    }

    /// Puts an upgrade that has not begun to another time, or another version.
    pub(crate) async fn upgrade_policy_update(
        &self,
        of: &Upgraded,
        id: &str,
        update: UpgradePolicyUpdate,
        mode: Mode,
    ) -> Result<UpgradePolicy, Refusal> {
        let now = self.clock.now();
        self.upgrade_policies_change(of, mode, |found| {
            if let Some(version) = &update.version {
                (found.gate)(version)?;
            }
            let record = found.policies.find_mut(id).ok_or_else(|| not_found(id))?;
            if !record.is_waiting() {
                return Err(Refusal::Conflict(format!("upgrade `{id}` has begun, or is over")));
            }
            let before = record.clone();
            // Another time has all of its time: what kept it from beginning at the former one does not count.
            record.delayed_since = None;
            let policy = &mut record.policy;
            policy.version = update.version.clone().unwrap_or_else(|| policy.version.clone());
            policy.next_run = update.next_run.unwrap_or(policy.next_run);
            let next_run = policy.next_run;
            if next_run > now {
                let description = format!("it begins at {next_run}");
                record.enter(UpgradePolicyStateValue::Scheduled, description, now);
            } else {
                record.enter(UpgradePolicyStateValue::Pending, "accepted", now);
            }
            let decision = if *record == before { Decision::Keep } else { Decision::Write };
            Ok((record.policy.clone(), decision))
        })
        .await
    }

    /// Takes back an upgrade that has not begun; forgets one that is over.
    pub(crate) async fn upgrade_policy_delete(
        &self,
        of: &Upgraded,
        id: &str,
        mode: Mode,
    ) -> Result<(), Refusal> {
        let now = self.clock.now();
        let deleted = self.upgrade_policies_change(of, mode, |found| {
            let record = found.policies.find_mut(id).ok_or_else(|| not_found(id))?;
            if record.is_under_way() {
                let reason = format!("upgrade `{id}` has begun, and there is no way back");
                return Err(Refusal::Conflict(reason));
            }
            let policy = record.policy.clone();
            if record.is_waiting() {
                record.enter(UpgradePolicyStateValue::Cancelled, "it was taken back", now);
            } else {
                found.policies.remove(id);
            }
            Ok((policy, Decision::Write))
        });
        deleted.await.map(drop)
    }

    async fn upgrade_policies_change(
        &self,
        of: &Upgraded,
        mode: Mode,
        mut change: impl FnMut(Found<'_>) -> Result<(UpgradePolicy, Decision), Refusal>,
    ) -> Result<UpgradePolicy, Refusal> {
        match of {
            Upgraded::ControlPlane(id) => {
                for _ in 0..ATTEMPTS {
                    let Some((stored, pools)) = self.with_node_pools(id).await? else {
                        return Err(Refusal::cluster_not_found(id.as_str()));
                    };
                    let mut after = stored.value;
                    let (decided, decision) = tried(&mut after, mode, |after: &mut ClusterRecord| {
                        staying(after.deletion.is_some(), "cluster", id.as_str())?;
                        let cluster = after.cluster.clone();
                        let gate = |version: &str| {
                            let found =
                                admission::control_plane_upgrade(version, &cluster, &pools, &self.config);
                            found.map(drop)
                        };
                        let target = Target::control_plane(&cluster);
                        change(Found { policies: &mut after.upgrade_policies, target, gate: &gate })
                    });
                    if decision == Decision::Keep {
                        return decided;
                    }
                    match self.records.save(Some((&after, &stored.etag)), &[], &[]).await {
                        Ok(()) => return decided,
                        // It was written in between, or has another node pool: look again.
                        Err(StoreError::Conflict(_)) => {}
                        Err(error) => return Err(error.into()),
                    }
                }
                Err(Refusal::Busy(format!("cluster `{id}`")))
            }
            Upgraded::NodePool(cluster, id) => {
                let owner = self.cluster_record(cluster).await?;
                staying(owner.deletion.is_some(), "cluster", cluster.as_str())?;
                let mut outcome = Err(Refusal::node_pool_not_found(id.as_str()));
                let updated = self.records.node_pool_update(cluster, id, |record| {
                    let (decided, decision) = tried(record, mode, |after: &mut NodePoolRecord| {
                        staying(after.deletion.is_some(), "node pool", id.as_str())?;
                        let pool = after.node_pool.clone();
                        let gate = |version: &str| {
                            let found =
                                admission::node_pool_upgrade(version, &pool, &owner.cluster, &self.config);
                            found.map(drop)
                        };
                        let target = Target::node_pool(&pool);
                        change(Found { policies: &mut after.upgrade_policies, target, gate: &gate })
                    });
                    outcome = decided;
                    decision
                });
                match updated.await {
                    Ok(_) => outcome,
                    Err(StoreError::Conflict(Conflict::Missing { .. })) => {
                        Err(Refusal::node_pool_not_found(id.as_str()))
                    }
                    Err(error) => Err(error.into()),
                }
            }
        }
    }

    async fn node_pool_record(
        &self,
        cluster: &ClusterId,
        id: &NodePoolId,
    ) -> Result<NodePoolRecord, Refusal> {
        match self.records.node_pool_get(cluster, id).await? {
            Some(stored) => Ok(stored.value),
            None => Err(Refusal::node_pool_not_found(id.as_str())),
        }
    }
}

/// Changes a record, unless that is refused or only tried.
fn tried<T: Clone>(
    record: &mut T,
    mode: Mode,
    change: impl FnOnce(&mut T) -> Result<(UpgradePolicy, Decision), Refusal>,
) -> (Result<UpgradePolicy, Refusal>, Decision) {
    let mut after = record.clone();
    match change(&mut after) {
        Ok((policy, Decision::Write)) if mode == Mode::Create => {
            *record = after;
            (Ok(policy), Decision::Write)
        }
        Ok((policy, _)) => (Ok(policy), Decision::Keep),
        Err(refusal) => (Err(refusal), Decision::Keep),
    }
}

fn staying(going: bool, kind: &str, id: &str) -> Result<(), Refusal> {
    if !going {
        return Ok(());
    }
    Err(Refusal::Conflict(format!("{kind} `{id}` is being deleted; it is not upgraded any more")))
}

fn not_found(id: &str) -> Refusal {
    Refusal::NotFound { kind: "Upgrade policy", id: id.to_owned() }
}
