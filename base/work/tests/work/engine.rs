use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use pilothouse_crds::{
    AppliedManifestWork, ManagedCluster, ManifestWorkSpec, ManifestWorkStatus, is_condition_true,
};
use pilothouse_runtime::{Clock, Reason, Shutdown, Tasks};
use pilothouse_test_support::eventually;
use pilothouse_work::{Engine, Hub, Options, Removal, Work};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::cluster::{Cluster, PATIENCE};

pub(crate) struct Agent {
    pub(crate) engine: Engine,
    woken: mpsc::UnboundedReceiver<String>,
    shutdown: Shutdown,
}

impl Agent {
    pub(crate) fn of(cluster: &Cluster) -> Self {
        let shutdown = Shutdown::new();
        let (wake, woken) = mpsc::unbounded_channel();
        let engine = Engine::new(Options {
            client: cluster.client.clone(),
            hub: Hub::new("test"),
            clock: Clock::system(),
            tasks: Tasks::new("engine", shutdown.clone()),
            json_raw_limit: 1024,
            wake: Arc::new(move |work: &str| drop(wake.send(work.to_owned()))),
        });
        Self { engine, woken, shutdown }
    }

    pub(crate) async fn apply(&self, work: &Work) -> ManifestWorkStatus {
        self.engine.apply(work, &ManifestWorkStatus::default()).await.unwrap()
    }

    /// Makes passes, each after a wake, until one has the result that is waited for.
    async fn until(&mut self, work: &Work, mut reached: impl FnMut(&ManifestWorkStatus) -> bool) {
        let waiting = async {
            loop {
                if reached(&self.apply(work).await) {
                    return;
                }
                assert_eq!(self.woken.recv().await.unwrap(), work.name);
            }
        };
        tokio::time::timeout(PATIENCE, waiting).await.unwrap();
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.shutdown.request(Reason::Asked("the test is over".to_owned()));
    }
}

pub(crate) fn work(manifests: Value, configs: Value) -> Work {
    let spec: ManifestWorkSpec =
        serde_json::from_value(json!({"workload": {"manifests": manifests}, "manifestConfigs": configs}))
            .unwrap();
    let labels = [("api.openshift.com/id".to_owned(), "abc".to_owned())].into();
    Work { name: "one".to_owned(), generation: 1, labels, spec: spec.into(), previous: None }
}

pub(crate) fn config_map(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": {"k": value}})
}

fn said(status: &ManifestWorkStatus, manifest: usize, type_: &str) -> bool {
    is_condition_true(&status.resource_status.manifests[manifest].conditions, type_)
}

#[tokio::test]
async fn work_is_applied_repaired_changed_and_removed() {
    let cluster = Cluster::start().await;
    let mut agent = Agent::of(&cluster);
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), "default");
    let secrets: Api<Secret> = Api::namespaced(cluster.client.clone(), "default");
    let records: Api<AppliedManifestWork> = Api::all(cluster.client.clone());
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "default"},
        "data": {"password": "c2VjcmV0"}});
    let mut wanted = work(json!([config_map("a", "1"), secret]), json!([]));

    let status = agent.apply(&wanted).await;
    assert!(
        is_condition_true(&status.conditions, "Applied")
            && is_condition_true(&status.conditions, "Available")
    );
    assert!(said(&status, 0, "Applied") && said(&status, 1, "Available"));
    let record = records.get(&format!("{}-one", Hub::new("test").hash())).await.unwrap();
    assert_eq!(record.labels()["api.openshift.com/id"], "abc");
    let map = maps.get("a").await.unwrap();
    assert_eq!(map.owner_references()[0].uid, record.uid().unwrap());
    let names: Vec<_> =
        record.status.unwrap().applied_resources.iter().map(|applied| applied.name.clone()).collect();
    assert_eq!(names, ["a", "s"]);

    // A pass over what is as it should be writes nothing.
    agent.apply(&wanted).await;
    assert_eq!(maps.get("a").await.unwrap().resource_version(), map.resource_version());

    // Somebody changes an object, and somebody deletes one.
    let patch = json!({"data": {"k": "drifted", "more": "x"}});
    maps.patch("a", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    secrets.delete("s", &DeleteParams::default()).await.unwrap();
    let waiting = async {
        loop {
            agent.woken.recv().await.unwrap();
            agent.apply(&wanted).await;
            let data = maps.get("a").await.unwrap().data.unwrap();
            if data == [("k".to_owned(), "1".to_owned())].into()
                && secrets.get_opt("s").await.unwrap().is_some()
            {
                return;
            }
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.unwrap();

    // A new version lists something else.
    wanted.generation = 2;
    Arc::make_mut(&mut wanted.spec).workload.manifests = vec![config_map("a", "2"), config_map("b", "1")];
    agent.apply(&wanted).await;
    assert_eq!(maps.get("a").await.unwrap().data.unwrap()["k"], "2");
    assert!(maps.get_opt("b").await.unwrap().is_some());
    assert!(secrets.get_opt("s").await.unwrap().is_none(), "what is no longer listed is gone");

    assert_eq!(agent.engine.remove("one").await.unwrap(), Removal::Done);
    assert!(maps.get_opt("a").await.unwrap().is_none() && maps.get_opt("b").await.unwrap().is_none());
    assert!(records.list(&Default::default()).await.unwrap().items.is_empty());
    assert_eq!(agent.engine.remove("one").await.unwrap(), Removal::Done, "again is as well");
}

#[tokio::test]
async fn status_of_an_applied_object_is_fed_back_when_it_changes() {
    let cluster = Cluster::start().await;
    let mut agent = Agent::of(&cluster);
    let clusters: Api<ManagedCluster> = Api::all(cluster.client.clone());
    let manifest = json!({"apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
        "metadata": {"name": "mc"}, "spec": {"hubAcceptsClient": true}});
    let rules = json!([{"resourceIdentifier": {"group": "cluster.open-cluster-management.io",
        "resource": "managedclusters", "name": "mc", "namespace": ""}, "feedbackRules": [
        {"type": "JSONPaths", "jsonPaths": [
            {"name": "available", "path": ".status.conditions[?(@.type==\"ManagedClusterConditionAvailable\")].status"}]}]}]);
    let wanted = work(json!([manifest]), rules);
    let status = agent.apply(&wanted).await;
    assert!(status.resource_status.manifests[0].status_feedback.values.is_empty());

    let observed = json!({"status": {"conditions": [{"type": "ManagedClusterConditionAvailable", "status": "True",
        "reason": "Test", "message": "", "lastTransitionTime": "2026-01-02T03:04:05Z"}]}});
    clusters.patch_status("mc", &PatchParams::default(), &Patch::Merge(&observed)).await.unwrap();
    agent
        .until(&wanted, |status| {
            let values = &status.resource_status.manifests[0].status_feedback.values;
            values.first().is_some_and(|value| value.field_value.string.as_deref() == Some("True"))
        })
        .await;
}

#[tokio::test]
async fn strategies_decide_what_is_written() {
    let cluster = Cluster::start().await;
    let agent = Agent::of(&cluster);
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), "default");
    let strategy = |name: &str, type_: &str| {
        json!({"resourceIdentifier": {"group": "", "resource": "configmaps", "name": name, "namespace": "default"},
            "updateStrategy": {"type": type_, "serverSideApply": {"force": true, "fieldManager": "work-agent"}}})
    };
    let configs = json!([
        strategy("once", "CreateOnly"),
        strategy("read", "ReadOnly"),
        strategy("server", "ServerSideApply")
    ]);
    let manifests = json!([config_map("once", "1"), config_map("read", "1"), config_map("server", "1")]);
    let mut wanted = work(manifests, configs);
    let status = agent.apply(&wanted).await;
    assert!(is_condition_true(&status.conditions, "Applied"));
    assert!(!said(&status, 1, "Available"), "what is only read was not made");
    assert!(maps.get_opt("read").await.unwrap().is_none());

    wanted.generation = 2;
    Arc::make_mut(&mut wanted.spec).workload.manifests =
        ["once", "read", "server"].map(|name| config_map(name, "2")).to_vec();
    agent.apply(&wanted).await;
    let value = async |name: &str| maps.get(name).await.unwrap().data.unwrap()["k"].clone();
    assert_eq!(value("once").await, "1");
    assert_eq!(value("server").await, "2");
    let fields = maps.get("server").await.unwrap().metadata.managed_fields.unwrap_or_default();
    assert!(fields.iter().any(|entry| entry.manager.as_deref() == Some("work-agent")), "{fields:?}");
    assert_eq!(agent.engine.remove("one").await.unwrap(), Removal::Done);
}

#[tokio::test]
async fn removal_waits_for_finalizers_and_goes_on_when_they_are_gone() {
    let cluster = Cluster::start().await;
    let mut agent = Agent::of(&cluster);
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), "default");
    let mut map = config_map("slow", "1");
    map["metadata"]["finalizers"] = json!(["example.test/wait"]);
    let wanted = work(json!([map]), json!([]));
    agent.apply(&wanted).await;
    let Removal::Waiting(objects) = agent.engine.remove("one").await.unwrap() else { panic!("not waiting") };
    assert_eq!(objects[0].name, "slow");
    let again = agent.engine.apply(&wanted, &ManifestWorkStatus::default()).await;
    assert!(again.is_err(), "nothing is applied in the name of a work on its way out");

    let patch = json!({"metadata": {"finalizers": null}});
    maps.patch("slow", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    let waiting = async {
        while agent.engine.remove("one").await.unwrap() != Removal::Done {
            agent.woken.recv().await.unwrap();
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.unwrap();
}

#[tokio::test]
async fn what_cannot_be_applied_is_named_and_foreign_objects_stay() {
    let cluster = Cluster::start().await;
    let agent = Agent::of(&cluster);
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), "default");
    let unknown = json!({"apiVersion": "example.test/v1", "kind": "Nothing", "metadata": {"name": "n"}});
    let nowhere =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "nowhere"}});
    let status = agent.apply(&work(json!([unknown, nowhere, config_map("good", "1")]), json!([]))).await;
    assert!(!is_condition_true(&status.conditions, "Applied"));
    assert_eq!([0, 1, 2].map(|index| said(&status, index, "Applied")), [false, false, true]);

    // The object is replaced by one of the same name: that one is nobody's.
    maps.delete("good", &DeleteParams::default()).await.unwrap();
    let foreign: ConfigMap = serde_json::from_value(config_map("good", "foreign")).unwrap();
    maps.create(&PostParams::default(), &foreign).await.unwrap();
    assert_eq!(agent.engine.remove("one").await.unwrap(), Removal::Done);
    assert_eq!(maps.get("good").await.unwrap().data.unwrap()["k"], "foreign");
}

#[tokio::test]
async fn work_with_an_executor_is_applied_as_far_as_that_account_may() {
    let cluster = Cluster::start().await;
    let agent = Agent::of(&cluster);
    let role = |name: &str, resources: &[&str]| {
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
            "metadata": {"name": name, "namespace": "default"},
            "rules": [{"apiGroups": [""], "resources": resources, "verbs": ["get"]}]})
    };
    let mut work = work(
        json!([config_map("mine", "1"), role("fair", &["configmaps"]), role("unfair", &["secrets"])]),
        json!([]),
    );
    Arc::make_mut(&mut work.spec).other.insert(
        "executor".to_owned(),
        json!({"subject": {"type": "ServiceAccount", "serviceAccount": {"namespace": "default", "name": "helper"}}}),
    );
    let applied = async || -> Vec<bool> {
        let status = agent.apply(&work).await;
        status
            .resource_status
            .manifests
            .iter()
            .map(|one| is_condition_true(&one.conditions, "Applied"))
            .collect()
    };
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), "default");
    assert_eq!(applied().await, [false, false, false], "nothing was granted");
    assert!(maps.get_opt("mine").await.unwrap().is_none());

    let grant = async |rules: Value| {
        let role: Role =
            serde_json::from_value(json!({"metadata": {"name": "helper"}, "rules": rules})).unwrap();
        let parameters = PatchParams::apply("test").force();
        let mut role = serde_json::to_value(role).unwrap();
        role["apiVersion"] = json!("rbac.authorization.k8s.io/v1");
        role["kind"] = json!("Role");
        let roles: Api<Role> = Api::namespaced(cluster.client.clone(), "default");
        roles.patch("helper", &parameters, &Patch::Apply(&role)).await.unwrap();
    };
    let binding: RoleBinding = serde_json::from_value(json!({"metadata": {"name": "helper"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "helper"},
        "subjects": [{"kind": "ServiceAccount", "name": "helper", "namespace": "default"}]}))
    .unwrap();
    let bindings: Api<RoleBinding> = Api::namespaced(cluster.client.clone(), "default");
    bindings.create(&PostParams::default(), &binding).await.unwrap();
    let all = json!(["get", "create", "update", "patch", "delete"]);
    grant(json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "create", "update", "patch"]}])).await;
    assert_eq!(applied().await, [false, false, false], "what it could not delete it may not make");
    grant(json!([
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": all},
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"], "verbs": all},
    ]))
    .await;
    // It may write roles, but none that says more than its own.
    eventually("what is granted counts", PATIENCE, || async {
        let applied = applied().await;
        if applied == [true, true, false] { Ok(()) } else { Err(format!("{applied:?}")) }
    })
    .await;
    assert!(maps.get_opt("mine").await.unwrap().is_some());
}
