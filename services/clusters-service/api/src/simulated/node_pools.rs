//! Node pools of the simulated service.

use axum::extract::State as Shares;
use axum::extract::{Path, RawQuery};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use http::StatusCode;
use jiff::Timestamp;

use super::refusal::Refusal;
use super::service::{Handles, answer, body, cluster_id, created, is_dry_run, list_query, page};
use super::state::{Kept, State};
use super::{Resource, versions};
use crate::{
    Autoscaling, Change, ClusterId, InvalidId, NewNodePool, NodePool, NodePoolId, NodePoolState,
    NodePoolStateValue, NodePoolStatus, NodePoolUpdate, UpgradePolicy,
};

type Key = (ClusterId, NodePoolId);

impl State {
    fn node_pool(&self, key: &Key) -> Result<&Kept<NodePool>, Refusal> {
        self.cluster(&key.0)?;
        self.node_pools.get(key).ok_or_else(|| Refusal::not_found("Node pool", key.1.as_str()))
    }

    fn node_pool_create(
        &mut self,
        cluster: &ClusterId,
        new: NewNodePool,
        dry_run: bool,
        now: Timestamp,
    ) -> Result<NodePool, Refusal> {
        let key = (cluster.clone(), new.id.clone());
        let owner = self.staying(cluster)?;
        let version = new.version.unwrap_or_else(|| owner.version.clone());
        let href = format!("{}/node_pools/{}", owner.href, new.id);
        let version = versions::not_newer(versions::known(version)?, &owner.version)?;
        if let Some(kept) = self.node_pools.get(&key) {
            return kept.again(&format!("node pool `{}`", new.id), &new.properties).cloned();
        }
        if new.replicas.is_some() && new.autoscaling.is_some() {
            return Err(both());
        }
        let replicas = new.replicas.or_else(|| new.autoscaling.is_none().then_some(0));
        in_order(new.autoscaling)?;
        let node_pool = NodePool {
            kind: "NodePool".to_owned(),
            href,
            id: new.id,
            cluster_id: cluster.clone(),
            creation_timestamp: now,
            replicas,
            autoscaling: new.autoscaling,
            auto_repair: new.auto_repair,
            version,
            labels: new.labels,
            taints: new.taints,
            availability_zone: new.availability_zone,
            subnet: new.subnet,
            node_drain_grace_period: new.node_drain_grace_period,
            tuning_configs: new.tuning_configs,
            kubelet_configs: new.kubelet_configs,
            management_upgrade: new.management_upgrade,
            properties: new.properties,
            azure_node_pool: new.azure_node_pool,
            status: NodePoolStatus {
                state: NodePoolState { value: NodePoolStateValue::Validating, last_updated_timestamp: now },
                current_replicas: 0,
                message: "accepted".to_owned(),
            },
        };
        if dry_run {
            return Ok(node_pool);
        }
        self.node_pools.insert(key.clone(), Kept::new(node_pool.clone(), &node_pool.properties));
        self.tell(Change::NodePool(Box::new(node_pool.clone())));
        self.walk(&Resource::NodePool(key.0, key.1), now);
        Ok(node_pool)
    }

    fn node_pool_update(
        &mut self,
        key: &Key,
        update: NodePoolUpdate,
        dry_run: bool,
        now: Timestamp,
    ) -> Result<NodePool, Refusal> {
        let limit = self.staying(&key.0)?.version.clone();
        let kept = self.node_pool(key)?;
        let mut after = kept.value.clone();
        let NodePoolUpdate {
            replicas,
            autoscaling,
            labels,
            taints,
            version,
            node_drain_grace_period,
            properties,
        } = update;
        if !kept.is_new(&properties) {
            return Ok(after);
        }
        if after.status.state.value == NodePoolStateValue::Uninstalling {
            return Err(Refusal::conflict(format!("node pool `{}` is being deleted", key.1)));
        }
        match (replicas, autoscaling) {
            (Some(_), Some(_)) => return Err(both()),
            (Some(_), None) => (after.replicas, after.autoscaling) = (replicas, None),
            (None, Some(_)) => (after.replicas, after.autoscaling) = (None, autoscaling),
            (None, None) => {}
        }
        in_order(after.autoscaling)?;
        after.labels = labels.unwrap_or(after.labels);
        after.taints = taints.unwrap_or(after.taints);
        after.node_drain_grace_period = node_drain_grace_period.unwrap_or(after.node_drain_grace_period);
        if let Some(version) = version {
            after.version = versions::not_newer(versions::known(version)?, &limit)?;
        }
        let changed = after != kept.value;
        after.properties.extend(properties.clone());
        if changed {
            after.enter(NodePoolStateValue::ValidatingUpdate, "the change was accepted".to_owned(), now);
        }
        if dry_run {
            return Ok(after);
        }
        if let Some(kept) = self.node_pools.get_mut(key) {
            kept.changed(&properties);
            kept.value = after.clone();
        }
        self.tell(Change::NodePool(Box::new(after.clone())));
        self.walk(&Resource::NodePool(key.0.clone(), key.1.clone()), now);
        Ok(after)
    }

    fn node_pool_delete(&mut self, key: &Key, now: Timestamp) -> Result<(), Refusal> {
        self.node_pool(key)?;
        let Some(kept) = self.node_pools.get_mut(key) else { return Ok(()) };
        if kept.value.status.state.value != NodePoolStateValue::Uninstalling {
            kept.value.enter(NodePoolStateValue::Uninstalling, "its deletion was asked for".to_owned(), now);
            let told = Change::NodePool(Box::new(kept.value.clone()));
            self.tell(told);
        }
        self.walk(&Resource::NodePool(key.0.clone(), key.1.clone()), now);
        Ok(())
    }
}

impl NodePool {
    /// Enters a state, with what goes along with it.
    pub(super) fn enter(&mut self, value: NodePoolStateValue, message: String, now: Timestamp) {
        self.status.state = NodePoolState { value, last_updated_timestamp: now };
        self.status.message = message;
        if value == NodePoolStateValue::Ready {
            let fewest = self.autoscaling.map(|scaling| scaling.min_replica);
            self.status.current_replicas = self.replicas.or(fewest).unwrap_or_default();
        }
    }
}

fn both() -> Refusal {
    let problem = "the number of nodes is either said or left to scaling";
    Refusal::field("InvalidField", "autoscaling", problem)
}

fn in_order(autoscaling: Option<Autoscaling>) -> Result<(), Refusal> {
    match autoscaling {
        Some(scaling) if scaling.min_replica > scaling.max_replica => {
            let problem = "it is less than `min_replica`";
            Err(Refusal::field("InvalidField", "autoscaling.max_replica", problem))
        }
        _ => Ok(()),
    }
}

fn key(cluster: &str, id: &str) -> Result<Key, Refusal> {
    let id = id.parse().map_err(|_: InvalidId| Refusal::not_found("Node pool", id))?;
    Ok((cluster_id(cluster)?, id))
}

pub(super) async fn list(
    Shares(shared): Handles,
    Path(cluster): Path<String>,
    RawQuery(query): RawQuery,
) -> Response {
    let outcome = cluster_id(&cluster).and_then(|cluster| {
        let query = list_query(query.as_deref())?;
        let state = shared.lock();
        state.cluster(&cluster)?;
        let pools = state.node_pools.values().map(|kept| &kept.value);
        page("NodePoolList", pools.filter(|pool| pool.cluster_id == cluster).cloned().collect(), &query)
    });
    answer(StatusCode::OK, outcome)
}

pub(super) async fn create(
    Shares(shared): Handles,
    Path(cluster): Path<String>,
    RawQuery(query): RawQuery,
    bytes: Bytes,
) -> Response {
    let dry_run = is_dry_run(query.as_deref());
    let outcome = cluster_id(&cluster).and_then(|cluster| {
        let new = body(&bytes)?;
        shared.change(|state, now| state.node_pool_create(&cluster, new, dry_run, now))
    });
    answer(created(dry_run), outcome)
}

pub(super) async fn get(Shares(shared): Handles, Path((cluster, id)): Path<(String, String)>) -> Response {
    let outcome = key(&cluster, &id).and_then(|key| Ok(shared.lock().node_pool(&key)?.value.clone()));
    answer(StatusCode::OK, outcome)
}

pub(super) async fn status(Shares(shared): Handles, Path((cluster, id)): Path<(String, String)>) -> Response {
    let outcome = key(&cluster, &id).and_then(|key| Ok(shared.lock().node_pool(&key)?.value.status.clone()));
    answer(StatusCode::OK, outcome)
}

pub(super) async fn update(
    Shares(shared): Handles,
    Path((cluster, id)): Path<(String, String)>,
    RawQuery(query): RawQuery,
    bytes: Bytes,
) -> Response {
    let dry_run = is_dry_run(query.as_deref());
    let outcome = key(&cluster, &id).and_then(|key| {
        let update = body(&bytes)?;
        shared.change(|state, now| state.node_pool_update(&key, update, dry_run, now))
    });
    answer(StatusCode::OK, outcome)
}

pub(super) async fn delete(Shares(shared): Handles, Path((cluster, id)): Path<(String, String)>) -> Response {
    let outcome =
        key(&cluster, &id).and_then(|key| shared.change(|state, now| state.node_pool_delete(&key, now)));
    match outcome {
        Ok(()) => StatusCode::NO_CONTENT.into_response(),
        Err(refusal) => refusal.into_response(),
    }
}

pub(super) async fn upgrade_policies(
    Shares(shared): Handles,
    Path((cluster, id)): Path<(String, String)>,
) -> Response {
    let outcome = key(&cluster, &id).and_then(|key| {
        shared.lock().node_pool(&key)?;
        page("NodePoolUpgradePolicyList", Vec::<UpgradePolicy>::new(), &crate::ListQuery::default())
    });
    answer(StatusCode::OK, outcome)
}
