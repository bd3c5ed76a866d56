use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod, Secret, ServiceAccount};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::{Api, ResourceExt as _};
use pilothouse_crds::{
    HostedCluster, HostedClusterSpec, Machine, NodePool, NodePoolStatus, Platform, PlatformType, Release,
    VirtualMachine,
};
use pilothouse_test_support::eventually;
use serde_json::{Value, json};

use crate::support::{CONTROL_PLANE, NAMESPACE, PATIENCE, Region, create};

const RELEASE: &str = "pilothouse/release:4.20.0";
const NEWER: &str = "pilothouse/release:4.20.8";

impl Region {
    /// A hosted cluster `first` of this platform with a pool `workers`, whose control plane runs.
    async fn with_pool(platform: PlatformType, annotations: Value, pool: Value) -> Self {
        let region = Self::start().await;
        let mut cluster = HostedCluster::new(
            "first",
            HostedClusterSpec {
                release: Release { image: RELEASE.to_owned() },
                platform: Platform { type_: platform, ..Platform::default() },
                issuer_url: "https://kubernetes.default.svc".to_owned(),
                ..HostedClusterSpec::default()
            },
        );
        cluster.metadata.annotations = serde_json::from_value(annotations).unwrap();
        region.api::<HostedCluster>(NAMESPACE).create(&PostParams::default(), &cluster).await.unwrap();
        let mut spec = json!({
            "clusterName": "first", "release": { "image": RELEASE }, "platform": { "type": platform },
            "management": { "upgradeType": "Replace" },
        });
        for (key, value) in pool.as_object().unwrap() {
            spec[key] = value.clone();
        }
        create(
            &region.api::<NodePool>(NAMESPACE),
            json!({ "metadata": { "name": "workers" }, "spec": spec }),
        )
        .await;
        region.run_control_plane().await;
        region
    }

    async fn change_pool(&self, spec: Value) {
        let patch = Patch::Merge(json!({ "spec": spec }));
        self.api::<NodePool>(NAMESPACE).patch("workers", &PatchParams::default(), &patch).await.unwrap();
    }

    /// The pool's status, once it is ready with this many nodes.
    async fn eventually_ready(&self, replicas: i32) -> NodePoolStatus {
        eventually(&format!("the pool is ready with {replicas} nodes"), PATIENCE, async || {
            let status = self.pool_status().await;
            let ready = status.conditions.iter().find(|condition| condition.type_ == "Ready").cloned();
            match ready {
                Some(ready) if ready.status.as_str() == "True" && status.replicas == replicas => Ok(status),
                other => Err(format!("{} replicas, {other:?}", status.replicas)),
            }
        })
        .await
    }

    async fn pool_status(&self) -> NodePoolStatus {
        self.api::<NodePool>(NAMESPACE).get("workers").await.unwrap().status.unwrap_or_default()
    }

    /// What this condition of the pool says, once it has this status.
    async fn eventually_says(&self, type_: &str, status: &str) -> String {
        eventually(&format!("{type_} of the pool is {status}"), PATIENCE, async || {
            let conditions = self.pool_status().await.conditions;
            match conditions.iter().find(|condition| condition.type_ == type_) {
                Some(condition) if condition.status.as_str() == status => Ok(condition.message.clone()),
                other => Err(format!("{other:?}")),
            }
        })
        .await
    }

    /// The pool's Secrets of this kind.
    async fn secrets_of(&self, kind: &str) -> Vec<Secret> {
        let all = self.api::<Secret>(CONTROL_PLANE).list(&ListParams::default()).await.unwrap();
        all.into_iter().filter(|secret| secret.name_any().starts_with(&format!("{kind}-workers-"))).collect()
    }

    /// What a worker's kubelet would do: join by its own machine, and say that all is well.
    async fn join_all(&self, workers: &[&str]) {
        for worker in workers {
            self.eventually_there(&self.api::<Machine>(CONTROL_PLANE), worker).await;
            self.join(worker).await;
        }
    }

    /// Lets every machine join that should, until the pool has this version.
    async fn join_until(&self, version: &str) {
        let (machines, nodes): (Api<Machine>, _) = (self.api(CONTROL_PLANE), self.nodes().await);
        eventually(&format!("the pool has version {version}"), PATIENCE, async || {
            for machine in machines.list(&ListParams::default()).await.unwrap() {
                let name = machine.name_any();
                let stays = machine.metadata.deletion_timestamp.is_none();
                if stays && nodes.get_opt(&name).await.unwrap().is_none() {
                    self.join(&name).await;
                }
            }
            let status = self.pool_status().await;
            if status.version == version { Ok(()) } else { Err(format!("{status:?}")) }
        })
        .await;
    }

    /// The pods of the hosted cluster, and the account that they need.
    async fn hosted_pods(&self) -> Api<Pod> {
        let client = self.hosted_client().await;
        let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), "default");
        create(&accounts, json!({ "metadata": { "name": "default" } })).await;
        Api::namespaced(client, "default")
    }

    async fn nodes(&self) -> Api<Node> {
        Api::all(self.hosted_client().await)
    }

    async fn say_of_node(&self, worker: &str, ready: &str, since: &str) {
        let status = json!({ "status": { "conditions": [
            { "type": "Ready", "status": ready, "lastTransitionTime": since },
        ] } });
        let nodes = self.nodes().await;
        nodes.patch_status(worker, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    }
}

fn text(secret: &Secret, key: &str) -> String {
    String::from_utf8(secret.data.as_ref().unwrap()[key].0.clone()).unwrap()
}

#[tokio::test]
async fn a_pool_grows_and_shrinks_and_goes_with_its_nodes() {
    let region = Region::with_pool(PlatformType::Azure, json!({}), json!({ "replicas": 2 })).await;
    let (pods, machines): (Api<Pod>, Api<Machine>) = (region.api(CONTROL_PLANE), region.api(CONTROL_PLANE));
    let pod = region.eventually_there(&pods, "workers-0").await;
    let command = pod.spec.unwrap().containers[0].command.clone().unwrap();
    assert_eq!(command[..2], ["pilothouse", "kubelet"]);
    assert!(command.contains(&"workers-0".to_owned()), "{command:?}");
    region.join_all(&["workers-0", "workers-1"]).await;
    let status = region.eventually_ready(2).await;
    assert_eq!(status.version, "4.20.0");

    // The node around a worker is told where the worker's pods are.
    let nodes = region.nodes().await;
    let assigned = json!({ "spec": { "podCIDR": "10.132.4.0/24", "podCIDRs": ["10.132.4.0/24"] } });
    nodes.patch("workers-0", &PatchParams::default(), &Patch::Merge(assigned)).await.unwrap();
    eventually("the worker's range is on its pod", PATIENCE, async || {
        let pod = pods.get("workers-0").await.map_err(|error| error.to_string())?;
        match pod.annotations().get("pilothouse.dev/pod-range").map(String::as_str) {
            Some("10.132.4.0/24") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    eventually("the machine says who its node is", PATIENCE, async || {
        let status = machines.get("workers-0").await.unwrap().status.unwrap_or_default();
        let node = status.node_ref.clone().and_then(|node| node.name);
        match (node.as_deref(), status.phase.as_str()) {
            (Some("workers-0"), "Running") => Ok(()),
            _ => Err(format!("{status:?}")),
        }
    })
    .await;

    // A worker as earlier versions made them, which no machine has.
    let stray = json!({
        "metadata": {
            "name": "workers-9", "labels": { "pilothouse.dev/managed-by": "hypershift" },
            "annotations": { "hypershift.openshift.io/nodePool": format!("{NAMESPACE}/workers") },
        },
        "spec": { "containers": [{ "name": "kubelet", "image": "pilothouse" }] },
    });
    create(&pods, stray).await;
    region.eventually_gone(&pods, "workers-9").await;

    // What it names and does not understand, or cannot find, changes nothing and is told.
    region.change_pool(json!({ "config": [{ "name": "limits" }] })).await;
    let message = region.eventually_says("ValidMachineConfig", "False").await;
    assert!(message.contains("limits"), "{message}");
    let config = "kind: KubeletConfig\nspec: {kubeletConfig: {maxPods: 40}}";
    create(
        &region.api::<ConfigMap>(NAMESPACE),
        json!({ "metadata": { "name": "limits" }, "data": { "config": config } }),
    )
    .await;
    region.eventually_says("UpdatingConfig", "True").await;
    region.change_pool(json!({ "config": null })).await;
    region.eventually_says("UpdatingConfig", "False").await;
    region.eventually_ready(2).await;

    // The newest goes first, and its node with it.
    region.change_pool(json!({ "replicas": 1 })).await;
    region.eventually_gone(&machines, "workers-1").await;
    region.eventually_gone(&pods, "workers-1").await;
    region.eventually_gone(&nodes, "workers-1").await;
    region.eventually_ready(1).await;
    region.change_pool(json!({ "replicas": 2 })).await;
    region.eventually_there(&pods, "workers-1").await;

    let pools: Api<NodePool> = region.api(NAMESPACE);
    let _ = pools.delete("workers", &DeleteParams::default()).await.unwrap();
    region.eventually_gone(&pools, "workers").await;
    region.eventually_gone(&nodes, "workers-0").await;
    assert!(pods.get_opt("workers-0").await.unwrap().is_none());
    for kind in ["user-data", "token"] {
        assert_eq!(region.secrets_of(kind).await.len(), 0, "{kind}");
    }
    // The cluster itself does not mind.
    region.eventually_condition("Available", "True").await;
    region.stop().await;
}

#[tokio::test]
async fn workers_read_a_token_that_their_cluster_knows_until_the_pool_goes() {
    let region = Region::with_pool(PlatformType::Azure, json!({}), json!({ "replicas": 1 })).await;
    region.eventually_there(&region.api::<Pod>(CONTROL_PLANE), "workers-0").await;
    let (user_data, token) = (region.secrets_of("user-data").await, region.secrets_of("token").await);
    let (user_data, token) = (user_data.first().unwrap(), token.first().unwrap());
    let settings: toml::Table = text(user_data, "kubelet.toml").parse().unwrap();
    assert_eq!(settings["service_range"].as_str(), Some("172.31.0.0/16"));
    assert!(settings.get("node_name").is_none(), "it is the same for all");
    let token = text(token, "token");
    assert!(text(user_data, "bootstrap-kubeconfig").contains(&token));
    for key in user_data.data.as_ref().unwrap().keys() {
        assert!(!text(user_data, key).contains("PRIVATE KEY"), "{key}");
    }

    let hosted: Api<Secret> = Api::namespaced(region.hosted_client().await, "kube-system");
    let name = format!("bootstrap-token-{}", token.split_once('.').unwrap().0);
    let known = region.eventually_there(&hosted, &name).await;
    assert_eq!(text(&known, "token-secret"), token.split_once('.').unwrap().1);
    // Whoever takes it away does not keep nodes from joining.
    let _ = hosted.delete(&name, &DeleteParams::default()).await.unwrap();
    region.change_pool(json!({ "replicas": 2 })).await;
    region.eventually_there(&hosted, &name).await;

    let pools: Api<NodePool> = region.api(NAMESPACE);
    let _ = pools.delete("workers", &DeleteParams::default()).await.unwrap();
    region.eventually_gone(&pools, "workers").await;
    region.eventually_gone(&hosted, &name).await;
    region.stop().await;
}

#[tokio::test]
async fn a_pool_of_virtual_machines_is_made_of_them() {
    let platform = json!({ "type": "KubeVirt", "kubevirt": { "compute": { "cores": 8, "memory": "10Gi" } } });
    let pool = json!({ "replicas": 1, "platform": platform });
    let region = Region::with_pool(PlatformType::KubeVirt, json!({}), pool).await;
    let machines: Api<VirtualMachine> = region.api(CONTROL_PLANE);
    let machine = region.eventually_there(&machines, "workers-0").await;
    let spec = serde_json::to_value(&machine.spec).unwrap();
    assert_eq!(spec["template"]["spec"]["domain"]["cpu"]["cores"], 8);
    let user_data = region.secrets_of("user-data").await.first().unwrap().name_any();
    assert!(spec["template"]["spec"]["volumes"].to_string().contains(&user_data), "{spec}");
    assert!(region.api::<Pod>(CONTROL_PLANE).get_opt("workers-0").await.unwrap().is_none());
    region.join_all(&["workers-0"]).await;
    region.eventually_ready(1).await;

    // Another size means another machine, and one more for the time being.
    let platform = json!({ "kubevirt": { "compute": { "cores": 4 } } });
    region.change_pool(json!({ "platform": platform })).await;
    region.join_all(&["workers-1"]).await;
    region.eventually_gone(&machines, "workers-0").await;
    region.eventually_ready(1).await;
    let left = region.secrets_of("user-data").await;
    assert_eq!(left.len(), 1, "those of the old size are not read any more");
    assert_ne!(left[0].name_any(), user_data);
    region.stop().await;
}

#[tokio::test]
async fn a_pool_of_no_platform_says_how_nodes_join() {
    let region = Region::with_pool(PlatformType::None, json!({}), json!({ "replicas": 2 })).await;
    let message = region.eventually_says("Ready", "True").await;
    let user_data = region.secrets_of("user-data").await.first().unwrap().clone();
    assert!(
        message.contains(&format!("kubectl get secret -n {CONTROL_PLANE} {}", user_data.name_any())),
        "{message}"
    );
    assert!(text(&user_data, "value").starts_with("#!/bin/sh"));
    // From outside, as everybody.
    assert!(text(&user_data, "bootstrap-kubeconfig").contains("api.first.pilothouse.test"));
    region.join("mine").await;
    eventually("the node is counted", PATIENCE, async || match region.pool_status().await.replicas {
        1 => Ok(()),
        other => Err(other),
    })
    .await;
    region.at_rest().await;
    assert!(region.nodes().await.get_opt("mine").await.unwrap().is_some(), "it is not ours to remove");
    assert_eq!(
        region.api::<Machine>(CONTROL_PLANE).list(&ListParams::default()).await.unwrap().items.len(),
        0
    );
    region.stop().await;
}

#[tokio::test]
async fn a_node_goes_when_its_pods_have_gone_as_their_budget_lets_them() {
    let region = Region::with_pool(PlatformType::Azure, json!({}), json!({ "replicas": 1 })).await;
    region.join_all(&["workers-0"]).await;
    region.eventually_ready(1).await;
    let pods = region.hosted_pods().await;
    let budgets: Api<PodDisruptionBudget> = Api::namespaced(region.hosted_client().await, "default");
    let container = json!({ "name": "c", "image": "busybox" });
    create(
        &pods,
        json!({
            "metadata": { "name": "web", "labels": { "app": "web" } },
            "spec": { "nodeName": "workers-0", "containers": [container] },
        }),
    )
    .await;
    let running =
        json!({ "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] } });
    pods.patch_status("web", &PatchParams::default(), &Patch::Merge(running)).await.unwrap();
    create(
        &budgets,
        json!({
            "metadata": { "name": "web" },
            "spec": { "maxUnavailable": 0, "selector": { "matchLabels": { "app": "web" } } },
        }),
    )
    .await;
    let allow = async |allowed: i32| {
        let generation = budgets.get("web").await.unwrap().metadata.generation;
        let status = json!({ "status": {
            "disruptionsAllowed": allowed, "currentHealthy": 1, "desiredHealthy": 1 - allowed, "expectedPods": 1,
            "observedGeneration": generation,
        } });
        budgets.patch_status("web", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    };
    allow(0).await;

    region.change_pool(json!({ "replicas": 0 })).await;
    let machines: Api<Machine> = region.api(CONTROL_PLANE);
    eventually("the machine says what keeps it", PATIENCE, async || {
        let conditions = machines.get("workers-0").await.unwrap().status.unwrap_or_default().conditions;
        match conditions.iter().find(|condition| condition.type_ == "DrainingSucceeded") {
            Some(draining) if draining.message.contains("default/web") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    let node = region.nodes().await.get("workers-0").await.unwrap();
    assert_eq!(node.spec.unwrap().unschedulable, Some(true));
    let worker = region.api::<Pod>(CONTROL_PLANE).get("workers-0").await.unwrap();
    assert_eq!(worker.metadata.deletion_timestamp, None);

    allow(1).await;
    eventually("the pod is asked to go", PATIENCE, async || match pods.get("web").await {
        Ok(pod) if pod.metadata.deletion_timestamp.is_some() => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    // What its kubelet would do.
    let _ = pods.delete("web", &DeleteParams::default().grace_period(0)).await.unwrap();
    region.eventually_gone(&machines, "workers-0").await;
    region.eventually_gone(&region.nodes().await, "workers-0").await;
    region.stop().await;
}

#[tokio::test]
async fn a_node_that_is_sick_for_too_long_is_replaced() {
    let impatient = json!({ "hypershift.openshift.io/machine-health-check-timeout": "1m" });
    let management = json!({ "upgradeType": "Replace", "autoRepair": true });
    let pool = json!({ "replicas": 2, "management": management });
    let region = Region::with_pool(PlatformType::Azure, impatient, pool).await;
    region.join_all(&["workers-0", "workers-1"]).await;
    region.eventually_ready(2).await;
    region.say_of_node("workers-1", "Unknown", "2026-01-01T00:00:00Z").await;
    region.join_all(&["workers-2"]).await;
    region.eventually_gone(&region.api::<Machine>(CONTROL_PLANE), "workers-1").await;
    region.eventually_gone(&region.nodes().await, "workers-1").await;
    region.eventually_ready(2).await;
    region.stop().await;
}

#[tokio::test]
async fn a_new_release_reaches_all_nodes_wherever_the_operator_ends() {
    let region = Region::with_pool(PlatformType::Azure, json!({}), json!({ "replicas": 2 })).await;
    region.join_all(&["workers-0", "workers-1"]).await;
    region.eventually_ready(2).await;
    region.at_rest().await;
    // Half-way through the first new worker, and again while an old one goes.
    region.faults.arm(3, false);
    region.change_pool(json!({ "release": { "image": NEWER } })).await;
    let machines: Api<Machine> = region.api(CONTROL_PLANE);
    region.join_all(&["workers-2"]).await;
    region.faults.arm(2, true);
    region.join_until("4.20.8").await;
    region.eventually_gone(&machines, "workers-0").await;
    region.eventually_says("UpdatingVersion", "False").await;
    assert!(region.faults.disarm() >= 1, "no operator was cut off");
    let left = machines.list(&ListParams::default()).await.unwrap().items;
    assert_eq!(left.len(), 2, "{left:?}");
}

#[tokio::test]
async fn a_node_that_changes_in_place_stays_and_is_opened_again() {
    let pool = json!({ "replicas": 1, "management": { "upgradeType": "InPlace" } });
    let region = Region::with_pool(PlatformType::Azure, json!({}), pool).await;
    region.join_all(&["workers-0"]).await;
    region.eventually_ready(1).await;
    let (pods, machines): (Api<Pod>, Api<Machine>) = (region.api(CONTROL_PLANE), region.api(CONTROL_PLANE));
    let (pod, node) =
        (pods.get("workers-0").await.unwrap(), region.nodes().await.get("workers-0").await.unwrap());
    let machine = machines.get("workers-0").await.unwrap();

    region.change_pool(json!({ "release": { "image": NEWER } })).await;
    eventually("its process is another one", PATIENCE, async || match pods.get("workers-0").await {
        Ok(now) if now.uid() != pod.uid() => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    let closed = region.nodes().await.get("workers-0").await.unwrap();
    assert_eq!(closed.spec.unwrap().unschedulable, Some(true));
    let started = json!({ "status": { "phase": "Running", "startTime": "2026-01-01T00:00:00Z" } });
    pods.patch_status("workers-0", &PatchParams::default(), &Patch::Merge(started)).await.unwrap();
    region.say_of_node("workers-0", "True", "2026-01-01T00:01:00Z").await;

    let status = region.eventually_ready(1).await;
    assert_eq!(status.version, "4.20.8");
    let opened = region.nodes().await.get("workers-0").await.unwrap();
    assert_eq!((opened.uid(), opened.spec.unwrap().unschedulable), (node.uid(), None));
    assert_eq!(machines.get("workers-0").await.unwrap().uid(), machine.uid());
    region.stop().await;
}

/// A pod that no node has room for.
async fn wait_for_room(pods: &Api<Pod>, name: &str) {
    let container =
        json!({ "name": "c", "image": "busybox", "resources": { "requests": { "cpu": "1500m" } } });
    create(pods, json!({ "metadata": { "name": name }, "spec": { "containers": [container] } })).await;
    let waiting = json!({ "status": { "conditions": [{
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "message": "0/1 nodes are available: 1 Insufficient cpu.",
    }] } });
    pods.patch_status(name, &PatchParams::default(), &Patch::Merge(waiting)).await.unwrap();
}

#[tokio::test]
async fn a_pool_that_grows_at_once_has_said_before_that_it_was_ready() {
    let pool = json!({ "replicas": null, "autoScaling": { "min": 1, "max": 2 } });
    let region = Region::with_pool(PlatformType::Azure, json!({}), pool).await;
    region.eventually_there(&region.api::<Machine>(CONTROL_PLANE), "workers-0").await;
    wait_for_room(&region.hosted_pods().await, "one").await;
    let pools: Api<NodePool> = region.api(NAMESPACE);
    let version = pools.get("workers").await.unwrap().resource_version().unwrap();
    let mut changes = pools.watch(&WatchParams::default(), &version).await.unwrap().boxed();
    // With the moment in which it is ready, its node has room for what waits.
    let nodes = region.nodes().await;
    let labels = json!({ "hypershift.openshift.io/nodePool": "workers" });
    create(&nodes, json!({ "metadata": { "name": "workers-0", "labels": labels } })).await;
    let joined = json!({ "status": {
        "allocatable": { "cpu": "2", "memory": "8Gi", "pods": "10" },
        "conditions": [{ "type": "Ready", "status": "True" }],
    } });
    nodes.patch_status("workers-0", &PatchParams::default(), &Patch::Merge(joined)).await.unwrap();
    region.join_all(&["workers-1"]).await;
    region.eventually_ready(2).await;
    let mut ready_with = Vec::new();
    while ready_with.last() != Some(&2) {
        let WatchEvent::Modified(pool) = changes.next().await.unwrap().unwrap() else { continue };
        let status = pool.status.unwrap_or_default();
        let ready =
            status.conditions.iter().any(|found| found.type_ == "Ready" && found.status.as_str() == "True");
        ready_with.extend(ready.then_some(status.replicas));
    }
    ready_with.dedup();
    assert_eq!(ready_with, [1, 2]);
    region.stop().await;
}

#[tokio::test]
async fn a_pool_follows_the_load_between_its_bounds() {
    let pool = json!({ "replicas": null, "autoScaling": { "min": 1, "max": 3 } });
    let region = Region::with_pool(PlatformType::Azure, json!({}), pool).await;
    region.join_all(&["workers-0"]).await;
    let nodes = region.nodes().await;
    let offered = json!({ "status": { "allocatable": { "cpu": "2", "memory": "8Gi", "pods": "10" } } });
    nodes.patch_status("workers-0", &PatchParams::default(), &Patch::Merge(offered)).await.unwrap();
    region.eventually_ready(1).await;
    let message = region.eventually_says("AutoscalingEnabled", "True").await;
    assert!(message.contains("Maximum nodes: 3"), "{message}");

    // Two pods of which a node holds one: two nodes more.
    let pods = region.hosted_pods().await;
    for name in ["one", "two"] {
        wait_for_room(&pods, name).await;
    }
    region.join_all(&["workers-1", "workers-2"]).await;
    region.eventually_ready(3).await;

    // Nobody needs them any more, and the cluster is impatient.
    for name in ["one", "two"] {
        let _ = pods.delete(name, &DeleteParams::default().grace_period(0)).await.unwrap();
    }
    let impatient = json!({ "spec": { "autoscaling": { "scaleDown": { "unneededDurationSeconds": 0 } } } });
    let clusters: Api<HostedCluster> = region.api(NAMESPACE);
    clusters.patch("first", &PatchParams::default(), &Patch::Merge(impatient)).await.unwrap();
    region.eventually_ready(1).await;
    region.stop().await;
}
