//! Nothing waits without an end and a reason.

use pilothouse_clusters_service_api::{
    ExternalAuthStateValue, NewExternalAuth, NodePoolStatus, UpgradePolicyStateValue,
};

use super::*;
use crate::record::{ExternalAuthRecord, Target};

fn status(model: &Model) -> &NodePoolStatus {
    &model.node_pools[0].node_pool.status
}

/// Takes over what was planned, and does nothing of it.
fn look(model: &mut Model) -> Plan {
    let plan = model.plan();
    model.cluster = plan.cluster.clone();
    model.node_pools.clone_from(&plan.node_pools);
    plan
}

#[test]
fn a_pool_waits_for_its_cluster_as_long_as_that_may_take_and_is_ready_later_all_the_same() {
    for cloud_prepared in [false, true] {
        let mut model = Model::new();
        model.cluster.cloud_prepared = cloud_prepared;
        look(&mut model);
        assert_eq!(status(&model).state.value, NodePoolStateValue::Pending);
        model.now = plus(model.now, model.config.deadlines.of_cluster());
        look(&mut model);
        assert_eq!(status(&model).state.value, NodePoolStateValue::Error);
        assert!(status(&model).message.contains("its time is up"), "{}", status(&model).message);
        assert!(status(&model).message.contains("look at its cluster"), "{}", status(&model).message);
        let said = status(&model).message.clone();
        look(&mut model);
        assert_eq!(status(&model).message, said, "why it failed stays");
        model.settle();
        assert_eq!(status(&model).state.value, NodePoolStateValue::Ready);
    }
}

#[test]
fn a_pool_that_does_not_go_in_time_says_so() {
    let mut model = Model::new();
    model.settle();
    model.node_pools[0].deletion = Some(Deletion { requested_at: model.now });
    let plan = look(&mut model);
    let deadline = plus(model.now, model.config.deadlines.delete.0);
    assert_eq!(plan.look_again, Some(deadline));
    assert!(status(&model).message.starts_with("waiting"), "{}", status(&model).message);
    model.now = deadline;
    look(&mut model);
    assert_eq!(status(&model).state.value, NodePoolStateValue::Uninstalling);
    assert!(status(&model).message.starts_with("overdue; waiting"), "{}", status(&model).message);
}

#[test]
fn an_upgrade_that_cannot_begin_fails_in_time_with_what_stood_in_its_way() {
    for cloud_prepared in [false, true] {
        let mut model = Model::new();
        model.cluster.cloud_prepared = cloud_prepared;
        let (next_run, origin) = (plus(model.now, Duration::from_secs(60)), Origin::default());
        let (cluster, pool) = (model.cluster.cluster.clone(), model.node_pools[0].node_pool.clone());
        let of_cluster = &mut model.cluster.upgrade_policies;
        of_cluster.add(&Target::control_plane(&cluster), "4.20.5", next_run, &origin, model.now);
        let of_pool = &mut model.node_pools[0].upgrade_policies;
        of_pool.add(&Target::node_pool(&pool), "4.20.5", next_run, &origin, model.now);
        let shown = |model: &Model| {
            let all = [&model.cluster.upgrade_policies, &model.node_pools[0].upgrade_policies];
            all.map(|policies| policies.find("1").unwrap().policy.state.clone())
        };
        let deadline = plus(next_run, model.config.deadlines.of_cluster());
        // Its cluster's own time is over before.
        for moment in [next_run, plus(model.now, model.config.deadlines.of_cluster())] {
            model.now = moment;
            look(&mut model);
            let delayed = shown(&model).map(|state| state.value);
            assert_eq!(delayed, [UpgradePolicyStateValue::Delayed; 2]);
        }
        assert_eq!(look(&mut model).look_again, Some(deadline));
        model.now = deadline;
        look(&mut model);
        for state in shown(&model) {
            assert_eq!(state.value, UpgradePolicyStateValue::Failed);
            let begins = "not begun by 1970-01-01T00:26:00Z; waiting for the cluster to be ready";
            assert!(state.description.starts_with(begins), "{}", state.description);
        }
    }
}

/// A cluster that is ready, and now has one.
fn with_external_auth() -> Model {
    let mut model = Model::new();
    model.settle();
    let new: NewExternalAuth = serde_json::from_value(json!({
        "id": "entra", "issuer": {"url": "https://issuer.test", "audiences": ["a"]},
        "claim": {"mappings": {"username": {"claim": "sub"}}}}))
    .unwrap();
    let auth = admission::external_auth(new, &model.cluster.cluster, model.now).unwrap();
    model.cluster.external_auths.push(ExternalAuthRecord::new(auth, Origin::default()));
    model
}

/// The API server goes on with the issuers that it was told of before.
#[test]
fn an_external_auth_is_not_ready_while_what_it_names_is_missing() {
    let mut model = with_external_auth();
    for action in model.plan().actions {
        model.act(action);
    }
    let id = model.cluster.cluster.id.to_string();
    let believed = text("ValidOIDCConfiguration-Status", "True");
    let missing = ["ValidConfiguration-Status", "ValidConfiguration-Reason"];
    let missing =
        missing.into_iter().zip(["False", "MissingReference"]).map(|(name, value)| text(name, value));
    let seen: Vec<_> = [believed.clone()].into_iter().chain(missing).collect();
    for (seen, expected) in
        [(seen, ExternalAuthStateValue::Installing), (vec![believed], ExternalAuthStateValue::Ready)]
    {
        model.report(&id, nested("HostedCluster", &seen));
        look(&mut model);
        assert_eq!(model.cluster.external_auths[0].external_auth.status.state.value, expected);
    }
}

#[test]
fn an_external_auth_fails_in_time_and_works_when_it_is_taken() {
    let mut model = with_external_auth();
    let shown = |model: &Model| {
        let status = model.cluster.external_auths[0].external_auth.status.clone();
        (status.state.value, status.message)
    };
    let plan = look(&mut model);
    let deadline = plus(model.now, model.config.deadlines.of_cluster());
    assert_eq!((shown(&model).0, plan.look_again), (ExternalAuthStateValue::Installing, Some(deadline)));
    model.now = deadline;
    look(&mut model);
    let (state, message) = shown(&model);
    assert_eq!(state, ExternalAuthStateValue::Error);
    assert!(message.starts_with("not done by 1970-01-01T00:25:00Z; step 7"), "{message}");
    model.settle();
    assert_eq!(shown(&model).0, ExternalAuthStateValue::Ready);

    model.cluster.external_auths[0].deletion = Some(Deletion { requested_at: model.now });
    look(&mut model);
    model.now = plus(model.now, model.config.deadlines.delete.0);
    look(&mut model);
    let (state, message) = shown(&model);
    assert_eq!(state, ExternalAuthStateValue::Uninstalling);
    assert!(message.starts_with("overdue; waiting"), "{message}");
    model.settle();
    assert_eq!(model.cluster.external_auths, []);
}
