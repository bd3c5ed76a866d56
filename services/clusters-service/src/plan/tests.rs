use std::collections::BTreeMap;

use pilothouse_arm::Failure;
use pilothouse_clusters_service_api::{
    ApiUpdate, Autoscaling, Azure, CidrBlockAccess, ClusterState, ClusterUpdate, GracePeriod, NewCluster,
    NewNodePool, NodePoolStateValue, NodePoolUpdate, Version,
};
use serde_json::{Value, json};

use super::*;
use crate::admission;
use crate::config::Config;
use crate::record::{Deletion, Origin};

mod credentials;
mod deadlines;
mod marks;
mod upgrades;
mod words;

/// A world in which actions do what they should at once, and reports are those of a cluster that works.
struct Model {
    config: Config,
    settings: Settings,
    cluster: ClusterRecord,
    node_pools: Vec<NodePoolRecord>,
    credentials: Vec<CredentialRecord>,
    bundles: BTreeMap<String, Bundle>,
    lost: Option<&'static str>,
    now: Timestamp,
    done: Vec<String>,
}

impl Model {
    fn new() -> Self {
        let config = Config::default();
        let now = Timestamp::UNIX_EPOCH;
        let azure = |name: &str| Azure {
            subscription_id: "11111111-2222-3333-4444-555555555555".into(),
            resource_group_name: "g".into(),
            resource_name: name.into(),
            managed_resource_group_name: "m".into(),
            ..Azure::default()
        };
        let new = NewCluster {
            name: "first".into(),
            domain_prefix: Some("first".into()),
            version: Version::of_number("4.20.3"),
            azure: azure("first"),
            ..NewCluster::default()
        };
        let id = "0123456789abcdefghijklmnopqrstuv".parse().unwrap();
        let cluster = admission::cluster(new, id, &config, now).unwrap();
        let pool: NewNodePool = serde_json::from_value(json!({"id": "workers", "replicas": 2})).unwrap();
        let pool = admission::node_pool(pool, &cluster, &config, now).unwrap();
        Self {
            settings: Settings::of(&config, "{}".into()),
            cluster: ClusterRecord::new(cluster, Origin::default()),
            node_pools: vec![NodePoolRecord::new(pool, Origin::default())],
            credentials: Vec::new(),
            bundles: BTreeMap::new(),
            lost: None,
            config,
            now,
            done: Vec::new(),
        }
    }

    fn plan(&self) -> Plan {
        let world = World {
            cluster: &self.cluster,
            node_pools: &self.node_pools,
            credentials: &self.credentials,
            bundles: &self.bundles,
            missing: &[],
            shard: &self.config.shards[0],
            lost: self.lost,
            settings: &self.settings,
            config: &self.config,
            deadlines: &self.config.deadlines,
            now: self.now,
        };
        plan(&world).unwrap()
    }

    /// Plans and acts until there is nothing left to do.
    fn settle(&mut self) {
        for _ in 0..20 {
            let plan = self.plan();
            self.cluster = plan.cluster;
            self.node_pools = plan.node_pools;
            self.credentials = plan.credentials;
            if plan.actions.is_empty() && !plan.again {
                return;
            }
            for action in plan.actions {
                self.act(action);
            }
        }
        panic!("it does not settle: {:?}", self.done);
    }

    fn act(&mut self, action: Action) {
        let (words, name) = match &action {
            Action::Create(work) | Action::Update(work, _) => ("post", work.name.clone()),
            Action::DeleteBundle(name) => ("delete", name.clone()),
            Action::PrepareCloud => ("prepare", "cloud".to_owned()),
            Action::RestoreCloud => ("restore", "cloud".to_owned()),
            Action::DeleteCloud => ("delete", "cloud".to_owned()),
            Action::RemoveNodePool(_) => ("forget", "pool".to_owned()),
            Action::RemoveCredential(_) => ("forget", "credential".to_owned()),
            Action::RemoveCluster => ("forget", "cluster".to_owned()),
        };
        let id = self.cluster.cluster.id.to_string();
        self.done.push(format!("{words} {}", name.replace(&id, "ID")));
        match action {
            Action::PrepareCloud => self.cluster.cloud_prepared = true,
            Action::RestoreCloud => {}
            Action::Create(work) => self.post(*work, 1),
            Action::Update(work, before) => self.post(*work, before + 1),
            Action::DeleteBundle(_) => drop(self.bundles.remove(&name)),
            Action::RemoveNodePool(index) => drop(self.node_pools.remove(index)),
            Action::RemoveCredential(index) => drop(self.credentials.remove(index)),
            Action::DeleteCloud => self.cluster.cloud_prepared = false,
            // The record is gone; the model ends by having nothing more to do.
            Action::RemoveCluster => self.cluster.deletion = None,
        }
    }

    fn post(&mut self, work: Work, version: i32) {
        let report = works(&work.bundle.manifests[0]);
        let bundle = Bundle { version, deleting: false, content: work.bundle, status: None };
        self.bundles.insert(work.name.clone(), bundle);
        self.report(&work.name, report);
    }

    /// The agents report on a bundle as it is now.
    fn report(&mut self, name: &str, report: Value) {
        let version = self.bundles[name].version;
        self.report_of(name, version, report);
    }

    /// The same, but what the inner agent has seen is what an earlier version of the bundle asked for.
    fn report_of(&mut self, name: &str, version: i32, mut report: Value) {
        let raw = &mut report["resourceStatus"][0]["statusFeedback"]["values"][0]["fieldValue"]["jsonRaw"];
        let mut inner: Value = serde_json::from_str(raw.as_str().unwrap()).unwrap();
        let values = inner.pointer_mut("/resourceStatus/manifests/0/statusFeedback/values");
        if let Some(values) = values.and_then(Value::as_array_mut) {
            let mark = json!({"type": "String", "string": version.to_string()});
            values.push(json!({"name": mark::FEEDBACK, "fieldValue": mark}));
        }
        *raw = json!(inner.to_string());
        self.bundles.get_mut(name).unwrap().status = Some(serde_json::from_value(report).unwrap());
    }
}

fn works(manifest: &Value) -> Value {
    let time = "2026-01-01T00:00:00Z";
    let condition = |kind: &str| json!({"type": kind, "status": "True", "reason": "", "message": "", "lastTransitionTime": time});
    let status = if manifest["kind"] == "ManagedCluster" {
        json!({"conditions": [condition("ManagedClusterConditionAvailable")]})
    } else {
        let kind =
            manifest["spec"]["workload"]["manifests"].as_array().unwrap().last().unwrap()["kind"].clone();
        let text = |name: &str| json!({"name": name, "fieldValue": {"type": "String", "string": "True"}});
        let number = json!({"name": "Replicas", "fieldValue": {"type": "Integer", "integer": 2}});
        json!({"conditions": [condition("Applied")], "resourceStatus": {"manifests": [{
            "resourceMeta": {"kind": kind}, "conditions": [],
            "statusFeedback": {"values": [text("Available-Status"), text("Ready-Status"),
                                          text("ValidOIDCConfiguration-Status"), number]}}]}})
    };
    json!({"conditions": [condition("Applied")], "resourceStatus": [{"resourceMeta": {}, "conditions": [],
        "statusFeedback": {"values": [
            {"name": "status", "fieldValue": {"type": "JsonRaw", "jsonRaw": status.to_string()}}]}}]})
}

#[test]
fn a_life_goes_through_its_steps_in_order_and_back_in_reverse() {
    let mut model = Model::new();
    model.settle();
    assert_eq!(model.done, ["prepare cloud", "post ID", "post ID-managed", "post ID-pool-workers"]);
    assert_eq!(model.cluster.cluster.state, ClusterState::Ready);
    assert_eq!(model.node_pools[0].node_pool.status.state.value, NodePoolStateValue::Ready);

    model.done.clear();
    model.cluster.deletion = Some(Deletion { requested_at: model.now });
    let order = [
        "delete ID-pool-workers",
        "forget pool",
        "delete ID-managed",
        "delete ID",
        "delete cloud",
        "forget cluster",
    ];
    for _ in 0..order.len() {
        let plan = model.plan();
        for action in plan.actions {
            model.act(action);
        }
        if model.cluster.deletion.is_none() {
            break;
        }
    }
    assert_eq!(model.done, order);
}

#[test]
fn a_converged_world_asks_for_nothing() {
    let mut model = Model::new();
    model.settle();
    let plan = model.plan();
    assert_eq!(plan.actions, []);
    assert_eq!((plan.cluster, plan.node_pools), (model.cluster.clone(), model.node_pools.clone()));
    assert_eq!(plan.look_again, None);
}

fn text(name: &str, value: &str) -> Value {
    json!({"name": name, "fieldValue": {"type": "String", "string": value}})
}

fn number(name: &str, value: i64) -> Value {
    json!({"name": name, "fieldValue": {"type": "Integer", "integer": value}})
}

/// The agents' report on the object of a kind, of which this was fed back.
fn nested(kind: &str, values: &[Value]) -> Value {
    let applied = json!({"type": "Applied", "status": "True", "reason": "", "message": "",
                         "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let inner = json!({"conditions": [applied], "resourceStatus": {"manifests": [
        {"resourceMeta": {"kind": kind}, "conditions": [], "statusFeedback": {"values": values}}]}});
    let raw = json!({"name": "status", "fieldValue": {"type": "JsonRaw", "jsonRaw": inner.to_string()}});
    json!({"conditions": [applied], "resourceStatus": [{"resourceMeta": {}, "conditions": [],
        "statusFeedback": {"values": [raw]}}]})
}

/// On the model's pool: what is asked of it, what of that was seen, and what it has.
fn scaled(generation: i64, observed: i64, replicas: i64) -> Value {
    let values = [
        text("Ready-Status", "True"),
        number("Replicas", replicas),
        number("Generation", generation),
        number("ObservedGeneration", observed),
    ];
    nested("NodePool", &values)
}

#[test]
fn a_changed_pool_is_ready_when_the_change_was_seen_at_every_level() {
    let mut model = Model::new();
    model.settle();
    // To three and, before anybody has looked, back to two: the last report fits the number, but not the request.
    for replicas in [3, 2] {
        let update = NodePoolUpdate { replicas: Some(replicas), ..NodePoolUpdate::default() };
        assert!(model.node_pools[0].change(&update, &Origin::default(), model.now));
        assert_eq!(model.node_pools[0].node_pool.status.state.value, NodePoolStateValue::ValidatingUpdate);
        let plan = model.plan();
        assert_eq!(plan.node_pools[0].node_pool.status.state.value, NodePoolStateValue::Updating);
        model.node_pools = plan.node_pools;
        for action in plan.actions {
            model.act(action);
        }
    }
    let name = manifests::node_pool_work_name(&model.cluster.cluster.id, &"workers".parse().unwrap());
    assert_eq!(model.bundles[&name].version, 3);
    for (version, report, expected) in [
        (1, scaled(1, 1, 2), NodePoolStateValue::Updating),
        (2, scaled(2, 2, 2), NodePoolStateValue::Updating),
        (3, scaled(3, 1, 2), NodePoolStateValue::Updating),
        (3, scaled(3, 3, 3), NodePoolStateValue::Updating),
        (3, scaled(3, 3, 2), NodePoolStateValue::Ready),
    ] {
        model.report_of(&name, version, report.clone());
        let plan = model.plan();
        assert_eq!(plan.actions, []);
        assert_eq!(plan.node_pools[0].node_pool.status.state.value, expected, "{report}");
    }
}

#[test]
fn a_change_that_takes_too_long_says_what_it_waited_for_and_may_be_asked_for_again() {
    let mut model = Model::new();
    model.settle();
    let update = NodePoolUpdate { replicas: Some(3), ..NodePoolUpdate::default() };
    model.node_pools[0].change(&update, &Origin::default(), model.now);
    model.settle();
    model.now = plus(model.now, model.config.deadlines.node_pool.0);
    model.settle();
    let status = &model.node_pools[0].node_pool.status;
    assert_eq!(status.state.value, NodePoolStateValue::Error);
    let failure = Failure::of_sentence(&status.message).unwrap();
    assert_eq!((failure.step, failure.component.as_str()), (9, "services/hypershift"));
    assert!(failure.observed.starts_with("2 of 3 nodes are ready"), "{failure}");

    assert!(model.node_pools[0].change(&update, &Origin::default(), model.now));
    model.settle();
    assert_eq!(model.node_pools[0].node_pool.status.state.value, NodePoolStateValue::Updating);
}

#[test]
fn what_reads_differently_is_updated_at_the_version_that_was_read() {
    let mut model = Model::new();
    model.settle();
    model.node_pools[0].node_pool.replicas = Some(3);
    let actions = model.plan().actions;
    assert!(
        matches!(&actions[..], [Action::Update(work, 1)] if work.name.ends_with("-pool-workers")),
        "{actions:?}"
    );
}

/// On the model's `HostedCluster`: what is asked of it, what of that was seen, and what it runs.
fn hosted(generation: i64, observed: i64, version: &str, state: &str) -> Value {
    let values = [
        text("Available-Status", "True"),
        text("Version", version),
        text("VersionState", state),
        number("Generation", generation),
        number("ObservedGeneration", observed),
    ];
    nested("HostedCluster", &values)
}

/// The object of a kind in the bundle of a work.
fn manifest<'a>(model: &'a Model, work: &str, kind: &str) -> &'a Value {
    let inner = &model.bundles[work].content.manifests[0]["spec"]["workload"]["manifests"];
    inner.as_array().unwrap().iter().find(|manifest| manifest["kind"] == kind).unwrap()
}

#[test]
fn a_changed_cluster_is_ready_when_the_change_was_seen_and_its_version_runs() {
    let mut model = Model::new();
    model.settle();
    let access = CidrBlockAccess::only(vec!["203.0.113.0/24".into()]);
    let update = ClusterUpdate {
        version: Some(Version::of_number("4.20.8")),
        api: Some(ApiUpdate { cidr_block_access: Some(access) }),
        ..ClusterUpdate::default()
    };
    let origin = Origin { operation_id: Some("change".into()), correlation_id: None };
    assert!(model.cluster.change(&update, &origin, model.now));
    assert!(!model.cluster.change(&update, &origin, model.now), "the same operation asked before");
    assert_eq!(model.cluster.cluster.state, ClusterState::Updating);
    let plan = model.plan();
    assert!(matches!(&plan.actions[..], [Action::Update(..)]), "{:?}", plan.actions);
    assert_eq!(plan.cluster.cluster.state, ClusterState::Updating, "what is known is about something else");
    model.cluster = plan.cluster;
    plan.actions.into_iter().for_each(|action| model.act(action));

    let id = model.cluster.cluster.id.to_string();
    let spec = &manifest(&model, &id, "HostedCluster")["spec"];
    assert_eq!(spec["release"]["image"], "pilothouse/release:4.20.8");
    assert_eq!(spec["networking"]["apiServer"]["allowedCIDRBlocks"], json!(["203.0.113.0/24"]));
    for (report, expected, words) in [
        (hosted(2, 1, "4.20.3", "Completed"), ClusterState::Updating, "to take the change"),
        (hosted(2, 2, "4.20.8", "Partial"), ClusterState::Updating, "version 4.20.8 is Partial"),
        (hosted(2, 2, "4.20.8", "Completed"), ClusterState::Ready, "answers"),
    ] {
        model.report(&id, report);
        let plan = model.plan();
        assert_eq!(plan.actions, []);
        assert_eq!(plan.cluster.cluster.state, expected, "{:?}", plan.cluster.cluster.status);
        assert!(plan.cluster.cluster.status.description.contains(words), "{:?}", plan.cluster.cluster.status);
    }
}

#[test]
fn a_change_of_a_cluster_that_takes_too_long_fails_and_stays_failed_until_it_is_done() {
    let mut model = Model::new();
    model.settle();
    let update = ClusterUpdate { version: Some(Version::of_number("4.20.8")), ..ClusterUpdate::default() };
    model.cluster.change(&update, &Origin::default(), model.now);
    let id = model.cluster.cluster.id.to_string();
    // It answers all along, in its former version.
    let report = |model: &mut Model, report: Value| {
        let plan = model.plan();
        model.cluster = plan.cluster;
        plan.actions.into_iter().for_each(|action| model.act(action));
        model.report(&id, report);
        model.settle();
        (model.cluster.cluster.state, model.cluster.cluster.status.provision_error_code.clone())
    };
    assert_eq!(report(&mut model, hosted(2, 2, "4.20.8", "Partial")), (ClusterState::Updating, None));
    model.now = plus(model.now, model.config.deadlines.install.0);
    for _ in 0..2 {
        let failed = report(&mut model, hosted(2, 2, "4.20.8", "Partial"));
        assert_eq!(failed, (ClusterState::Error, Some("ClusterUpdateTimeout".into())));
    }
    assert_eq!(report(&mut model, hosted(2, 2, "4.20.8", "Completed")), (ClusterState::Ready, None));
}

#[test]
fn node_pools_take_their_drain_time_from_their_cluster_unless_they_have_one() {
    let mut model = Model::new();
    model.settle();
    let id = model.cluster.cluster.id.to_string();
    let pool = format!("{id}-pool-workers");
    let drain = |model: &Model| manifest(model, &pool, "NodePool")["spec"].get("nodeDrainTimeout").cloned();
    assert_eq!(drain(&model), None);
    let update =
        ClusterUpdate { node_drain_grace_period: Some(GracePeriod::minutes(10)), ..ClusterUpdate::default() };
    model.cluster.change(&update, &Origin::default(), model.now);
    let plan = model.plan();
    assert_eq!(plan.cluster.cluster.state, ClusterState::Updating, "the pools have not heard of it");
    model.settle();
    assert_eq!((model.cluster.cluster.state, drain(&model)), (ClusterState::Ready, Some(json!("10m0s"))));

    let own = NodePoolUpdate {
        node_drain_grace_period: Some(Some(GracePeriod::minutes(0))),
        ..NodePoolUpdate::default()
    };
    model.node_pools[0].change(&own, &Origin::default(), model.now);
    model.settle();
    assert_eq!(drain(&model), None, "nought is no limit");
    let inherited = NodePoolUpdate { node_drain_grace_period: Some(None), ..NodePoolUpdate::default() };
    model.node_pools[0].change(&inherited, &Origin::default(), model.now);
    model.settle();
    assert_eq!(drain(&model), Some(json!("10m0s")));
}

#[test]
fn a_pool_that_is_left_to_scaling_has_no_number_and_is_ready_with_any_between_its_bounds() {
    let mut model = Model::new();
    model.settle();
    let autoscaling = Some(Autoscaling { min_replica: 1, max_replica: 5 });
    let update = NodePoolUpdate { autoscaling, ..NodePoolUpdate::default() };
    model.node_pools[0].change(&update, &Origin::default(), model.now);
    model.settle();
    let pool = format!("{}-pool-workers", model.cluster.cluster.id);
    let spec = &manifest(&model, &pool, "NodePool")["spec"];
    assert_eq!((spec.get("replicas"), &spec["autoScaling"]), (None, &json!({"min": 1, "max": 5})));
    // Not yet settled when its time is up, it fails; with what the load asks for, it is ready all the same.
    let unsettled = [text("Ready-Status", "False"), number("Replicas", 3)];
    model.node_pools[0].enter(NodePoolStateValue::Updating, "", model.now);
    model.report(&pool, nested("NodePool", &unsettled));
    model.now = plus(model.now, model.config.deadlines.node_pool.0);
    model.settle();
    assert_eq!(model.node_pools[0].node_pool.status.state.value, NodePoolStateValue::Error);
    for (nodes, expected) in [(0, NodePoolStateValue::Error), (3, NodePoolStateValue::Ready)] {
        model.report(&pool, scaled(1, 1, nodes));
        model.settle();
        let status = &model.node_pools[0].node_pool.status;
        assert_eq!(status.state.value, expected, "{status:?}");
    }
    let status = &model.node_pools[0].node_pool.status;
    assert_eq!(status.message, "3 nodes are ready, of 1 to 5 as the load asks for");
    assert_eq!(model.cluster.cluster.status.current_compute, 3);
    model.report(
        &pool,
        nested("NodePool", &[text("Ready-Status", "False"), text("Ready-Message", "growing")]),
    );
    model.settle();
    let status = &model.node_pools[0].node_pool.status;
    assert_eq!(status.state.value, NodePoolStateValue::Ready, "{status:?}");
    assert!(status.message.contains("growing"), "{status:?}");
    let update = NodePoolUpdate { replicas: Some(2), ..NodePoolUpdate::default() };
    model.node_pools[0].change(&update, &Origin::default(), model.now);
    assert_eq!(
        (model.node_pools[0].node_pool.replicas, model.node_pools[0].node_pool.autoscaling),
        (Some(2), None)
    );
}

#[test]
fn a_cluster_that_nobody_deletes_stays_in_its_state_when_something_of_it_cannot_be_removed() {
    let Model { cluster, config, now, .. } = Model::new();
    let fails = |record: &ClusterRecord| {
        let late = plus(now, Duration::from_secs(100_000));
        after_failure(record.clone(), Step::Delete, "Maestro is not there", &config.deadlines, late)
    };
    for state in [ClusterState::Installing, ClusterState::Updating, ClusterState::Error, ClusterState::Ready]
    {
        let mut before = cluster.clone();
        before.enter(state, "as it was", now);
        if state == ClusterState::Error {
            before.fail("ClusterInstallTimeout", "it took too long".to_owned());
        }
        let after = fails(&before);
        let (found, expected) = (&after.cluster.status, &before.cluster.status);
        assert_eq!((after.cluster.state, after.since), (state, before.since));
        assert_eq!(found.provision_error_code, expected.provision_error_code);
        assert_eq!(found.provision_error_message, expected.provision_error_message);
        assert!(found.description.contains("Maestro is not there"), "{}", found.description);
        before.deletion = Some(Deletion { requested_at: now });
        if state != ClusterState::Ready {
            assert_eq!(fails(&before).cluster.state, ClusterState::Uninstalling);
        }
    }
}

#[test]
fn what_is_secret_in_manifests_is_in_no_log() {
    let mut model = Model::new();
    model.settings = Settings::of(&model.config, "not to be read".into());
    model.cluster.cloud_prepared = true;
    let written = |text: &str| {
        let bytes = k8s_openapi::ByteString(text.as_bytes().to_vec());
        serde_json::to_value(bytes).unwrap().as_str().unwrap().to_owned()
    };
    let plan = model.plan();
    let posted = plan.actions.iter().find_map(|action| match action {
        Action::Create(work) => Some(work.bundle.manifests[0].to_string()),
        _ => None,
    });
    assert!(posted.unwrap().contains(&written("not to be read")));
    let logged = format!("{:?} {:?}", plan.actions, model.settings);
    assert!(logged.contains(model.cluster.cluster.id.as_str()), "{logged}");
    for secret in ["not to be read", &written("not to be read")] {
        assert!(!logged.contains(secret), "{logged}");
    }
}
