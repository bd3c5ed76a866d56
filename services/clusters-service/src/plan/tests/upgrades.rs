//! Upgrades begin when what they are of is well, by what was last reported of it.

use pilothouse_clusters_service_api::{UpgradePolicyState, UpgradePolicyStateValue};

use super::*;
use crate::record::{Target, UpgradePolicies};

#[derive(Clone, Copy)]
enum Of {
    Cluster,
    Pool,
}

impl Of {
    fn upgrades(self, model: &mut Model) -> &mut UpgradePolicies {
        match self {
            Self::Cluster => &mut model.cluster.upgrade_policies,
            Self::Pool => &mut model.node_pools[0].upgrade_policies,
        }
    }
}

/// A cluster and an older pool that run, and an upgrade of one of them that is due.
fn due(of: Of) -> Model {
    let mut model = Model::new();
    model.node_pools[0].node_pool.version = Version::of_number("4.20.1");
    model.settle();
    let (target, version) = match of {
        Of::Cluster => (Target::control_plane(&model.cluster.cluster), "4.20.5"),
        Of::Pool => (Target::node_pool(&model.node_pools[0].node_pool), "4.20.3"),
    };
    let now = model.now;
    of.upgrades(&mut model).add(&target, version, now, &Origin::default(), now);
    model
}

/// What becomes of it by looking once.
fn looked_at(model: &mut Model, of: Of) -> UpgradePolicyState {
    let plan = model.plan();
    model.cluster = plan.cluster;
    model.node_pools = plan.node_pools;
    of.upgrades(model).find("1").unwrap().policy.state.clone()
}

fn assert_delayed(model: &mut Model, of: Of, why: &str) {
    let state = looked_at(model, of);
    assert_eq!(state.value, UpgradePolicyStateValue::Delayed, "{state:?}");
    assert!(state.description.starts_with(why), "{state:?}");
}

fn assert_begins(model: &mut Model, of: Of) {
    let state = looked_at(model, of);
    assert_eq!(state.value, UpgradePolicyStateValue::Started, "{state:?}");
}

#[test]
fn an_upgrade_waits_for_a_management_cluster_that_is_lost() {
    for of in [Of::Cluster, Of::Pool] {
        let mut model = due(of);
        model.lost = Some("shard `a` has not answered since noon");
        let why = "waiting for the management cluster: shard `a` has not answered since noon";
        assert_delayed(&mut model, of, why);
        model.lost = None;
        assert_begins(&mut model, of);
    }
}

#[test]
fn an_upgrade_waits_for_the_end_of_an_outage() {
    for of in [Of::Cluster, Of::Pool] {
        let mut model = due(of);
        let id = model.cluster.cluster.id.to_string();
        let down = [text("Available-Status", "False"), text("Available-Message", "etcd is down")];
        model.report(&id, nested("HostedCluster", &down));
        let why = "waiting for the cluster to be available again: Available is False: etcd is down";
        assert_delayed(&mut model, of, why);
        assert_eq!(model.cluster.cluster.state, ClusterState::Ready);
        model.report(&id, hosted(1, 1, "4.20.3", "Completed"));
        assert_begins(&mut model, of);
    }
}

#[test]
fn an_upgrade_of_a_pool_waits_for_its_nodes_and_that_of_its_cluster_does_not() {
    let sick = |model: &mut Model| {
        let pool = format!("{}-pool-workers", model.cluster.cluster.id);
        let values =
            [text("Ready-Status", "False"), text("Ready-Message", "1 of 2 nodes"), number("Replicas", 1)];
        model.report(&pool, nested("NodePool", &values));
        pool
    };
    let mut model = due(Of::Pool);
    let pool = sick(&mut model);
    let why = "waiting for the node pool to be ready again: Ready is False: 1 of 2 nodes";
    assert_delayed(&mut model, Of::Pool, why);
    assert_eq!(model.node_pools[0].node_pool.status.state.value, NodePoolStateValue::Ready);
    model.report(&pool, scaled(1, 1, 2));
    assert_begins(&mut model, Of::Pool);

    let mut model = due(Of::Cluster);
    sick(&mut model);
    assert_begins(&mut model, Of::Cluster);
}
