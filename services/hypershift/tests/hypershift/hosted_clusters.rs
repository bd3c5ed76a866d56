use std::sync::atomic::Ordering;
use std::time::Duration;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, Secret, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use pilothouse_crds::{
    HistoryState, HostedCluster, HostedControlPlane, NodePool, PublishingStrategy, PublishingType, Route,
    find_condition,
};
use pilothouse_hypershift::Config;
use pilothouse_pki::{AlternativeName, Certificate};
use pilothouse_runtime::Clock;
use pilothouse_test_support::eventually;
use serde_json::json;

use crate::support::{CONTROL_PLANE, NAMESPACE, Options, PATIENCE, Region, create};

#[tokio::test]
async fn a_hosted_cluster_is_made_in_one_wave_and_available_once_it_answers() {
    let region = Region::start().await;
    region.create_cluster("pilothouse/release:4.20.0").await;

    // Everything is there before anything runs.
    region.eventually_there(&region.api::<StatefulSet>(CONTROL_PLANE), "kube-apiserver").await;
    let route = region.api::<Route>(CONTROL_PLANE).get("kube-apiserver").await.unwrap();
    assert_eq!(route.spec.host, "api.first.pilothouse.test");
    let service = region.api::<Service>(CONTROL_PLANE).get("kube-apiserver").await.unwrap();
    let address = service.spec.unwrap().cluster_ip.unwrap();
    let settings = region.api::<ConfigMap>(CONTROL_PLANE).get("kube-apiserver").await.unwrap().data.unwrap();
    let settings: toml::Table = settings["control-plane.toml"].parse().unwrap();
    assert_eq!(settings["version"].as_str(), Some("1.33.4"));
    assert_eq!(settings["advertise"].as_str(), Some(format!("{address}:6443").as_str()));
    let secrets: Api<Secret> = region.api(CONTROL_PLANE);
    let infra_id = region.cluster().await.spec.infra_id.unwrap();
    for name in [
        "root-ca",
        "cluster-signer-ca",
        "system-admin-signer",
        "kas-kubelet-client-crt",
        "system-admin-client",
        "sa-signing-key",
        "kas-secret-encryption-config",
        "admin-kubeconfig",
        "localhost-kubeconfig",
        "service-network-admin-kubeconfig",
        &format!("{infra_id}-kubeconfig"),
    ] {
        region.eventually_there(&secrets, name).await;
    }
    let serving = secrets.get("kas-server-crt").await.unwrap().data.unwrap();
    let serving = Certificate::from_pem(&serving["tls.crt"].0).unwrap();
    for name in ["api.first.pilothouse.test", "kube-apiserver", "kubernetes.default.svc", "172.31.0.1"] {
        let name: AlternativeName = name.parse().unwrap();
        assert!(serving.names().contains(&name), "{name}");
    }
    let waiting = region.eventually_condition("Available", "False").await;
    assert_eq!(waiting.reason, "WaitingForAvailable", "{}", waiting.message);

    // A pod that runs is not enough.
    region.run_pod().await;
    eventually("the API server was asked in vain", PATIENCE, async || {
        match region.eventually_condition("Available", "False").await {
            seen if seen.reason == "KASLoadBalancerNotReachable" => Ok(()),
            seen => Err(format!("{seen:?}")),
        }
    })
    .await;
    region.publish().await;
    region.eventually_condition("Available", "True").await;
    let cluster = region.cluster().await;
    let status = cluster.status.unwrap();
    let history = status.version.unwrap().history;
    assert_eq!((history[0].version.as_str(), history[0].state), ("4.20.0", HistoryState::Completed));
    assert_eq!(status.kubeconfig.unwrap().name, "first-admin-kubeconfig");
    assert_eq!(status.control_plane_endpoint.unwrap().host, "api.first.pilothouse.test");
    assert!(cluster.spec.cluster_id.is_some() && cluster.spec.infra_id.is_some());
    region.eventually_condition("Progressing", "False").await;

    // The control plane says the same of itself.
    let control_planes: Api<HostedControlPlane> = region.api(CONTROL_PLANE);
    let status = eventually("the control plane is ready", PATIENCE, async || {
        let status = control_planes.get("first").await.unwrap().status.unwrap_or_default();
        if status.ready { Ok(status) } else { Err(format!("{status:?}")) }
    })
    .await;
    assert!(status.initialized && status.version == "4.20.0", "{status:?}");
    assert_eq!(status.kube_config.unwrap().name, "admin-kubeconfig");

    // And so do the numbers.
    for number in [
        "hypershift_hostedclusters{platform=\"Azure\"} 1",
        "hypershift_hostedclusters_available 1",
        "hypershift_hosted_cluster_transition_seconds_count{condition=\"Available\"} 1",
    ] {
        eventually(&format!("{number} is among the numbers"), PATIENCE, async || {
            let metrics = region.metrics();
            if metrics.lines().any(|line| line == number) { Ok(()) } else { Err(metrics) }
        })
        .await;
    }
    assert!(!region.metrics().contains("waiting_initial_availability"), "{}", region.metrics());

    // The kubeconfig is the administrator's.
    let namespaces: Api<Namespace> = Api::all(region.hosted_client().await);
    assert!(namespaces.get_opt("kube-system").await.unwrap().is_some());
    region.stop().await;
}

#[tokio::test]
async fn a_pass_over_a_finished_cluster_writes_nothing_and_repairs_what_was_changed() {
    let region = Region::start().await;
    region.create_cluster("pilothouse/release:4.20.0").await;
    region.run_control_plane().await;
    region.create_pool(1).await;
    region.eventually_condition("Available", "True").await;
    region.eventually_there(&region.api::<Pod>(CONTROL_PLANE), "workers-0").await;
    eventually("the pool's status names its worker", PATIENCE, async || {
        let status =
            region.api::<NodePool>(NAMESPACE).get("workers").await.unwrap().status.unwrap_or_default();
        match status.conditions.iter().any(|condition| condition.message.contains("workers-0: ")) {
            true => Ok(()),
            false => Err(format!("{status:?}")),
        }
    })
    .await;
    region.at_rest().await;

    let before = region.versions().await;
    assert!(before.len() > 12, "{before:?}");
    let writes = region.writes.load(Ordering::SeqCst);
    for handle in &region.handles {
        handle.wake_all();
    }
    region.at_rest().await;
    assert_eq!(region.writes.load(Ordering::SeqCst), writes);
    assert_eq!(region.versions().await, before);

    let routes: Api<Route> = region.api(CONTROL_PLANE);
    let elsewhere = json!({ "spec": { "host": "elsewhere.test" } });
    routes.patch("kube-apiserver", &PatchParams::default(), &Patch::Merge(elsewhere)).await.unwrap();
    eventually("the route is repaired", PATIENCE, async || {
        match routes.get("kube-apiserver").await.unwrap().spec.host.as_str() {
            "api.first.pilothouse.test" => Ok(()),
            other => Err(other.to_owned()),
        }
    })
    .await;
    region.stop().await;
}

#[tokio::test]
async fn a_newer_operator_leaves_a_control_plane_alone_that_runs() {
    let mut region = Region::start().await;
    region.create_cluster("pilothouse/release:4.20.0").await;
    region.run_control_plane().await;
    region.eventually_condition("Available", "True").await;
    region.at_rest().await;
    let sets: Api<StatefulSet> = region.api(CONTROL_PLANE);
    let before = sets.get("kube-apiserver").await.unwrap();

    // Nobody asks for anything else.
    region.replace_operator(|config| config.image = "pilothouse:newer".to_owned()).await;
    region.wake();
    region.at_rest().await;
    let kept = sets.get("kube-apiserver").await.unwrap();
    assert_eq!((kept.spec, kept.metadata.generation), (before.spec, before.metadata.generation));

    // It has not stopped looking after it.
    sets.patch(
        "kube-apiserver",
        &PatchParams::default(),
        &Patch::Merge(json!({ "spec": { "replicas": 0 } })),
    )
    .await
    .unwrap();
    eventually("the number of replicas is repaired", PATIENCE, async || {
        match sets.get("kube-apiserver").await.unwrap().spec.unwrap().replicas {
            Some(1) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    let image = async || {
        let pod = sets.get("kube-apiserver").await.unwrap().spec.unwrap().template.spec.unwrap();
        pod.containers[0].image.clone().unwrap()
    };
    assert_eq!(image().await, "pilothouse");

    // Whoever asks for a restart gets what is new.
    region
        .change_cluster(
            json!({ "metadata": { "annotations": { "hypershift.openshift.io/restart-date": "now" } } }),
        )
        .await;
    eventually("the newer operator describes the pods", PATIENCE, async || match image().await.as_str() {
        "pilothouse:newer" => Ok(()),
        other => Err(other.to_owned()),
    })
    .await;

    // And so does what does not run.
    region.replace_pod().await;
    region.eventually_condition("Progressing", "False").await;
    let ended = json!({ "status": { "containerStatuses": [{
        "name": "kube-apiserver", "image": "pilothouse", "imageID": "", "ready": false, "restartCount": 9,
        "state": { "waiting": { "reason": "CrashLoopBackOff" } },
    }] } });
    let pods: Api<Pod> = region.api(CONTROL_PLANE);
    pods.patch_status("kube-apiserver-0", &PatchParams::default(), &Patch::Merge(ended)).await.unwrap();
    region.replace_operator(|config| config.image = "pilothouse:newest".to_owned()).await;
    eventually("the newest operator describes the pods", PATIENCE, async || match image().await.as_str() {
        "pilothouse:newest" => Ok(()),
        other => Err(other.to_owned()),
    })
    .await;
    region.stop().await;
}

#[tokio::test]
async fn a_deleted_cluster_takes_everything_with_it_in_reverse_order() {
    let region = Region::start().await;
    region.create_cluster("pilothouse/release:4.20.0").await;
    region.run_control_plane().await;
    region.create_pool(1).await;
    region.eventually_there(&region.api::<Pod>(CONTROL_PLANE), "workers-0").await;

    let clusters: Api<HostedCluster> = region.api(NAMESPACE);
    let _ = clusters.delete("first", &DeleteParams::default()).await.unwrap();
    region.empty_namespace().await;
    region.eventually_gone(&clusters, "first").await;
    region.at_rest().await;
    let left = region.versions().await;
    let left: Vec<_> =
        left.keys().filter(|name| name.contains("first") || name.contains(NAMESPACE)).collect();
    assert_eq!(left, [&format!("Namespace {NAMESPACE}")]);
    region.stop().await;
}

#[tokio::test]
async fn a_cluster_that_never_ran_can_be_deleted() {
    let region = Region::start().await;
    region.create_cluster("pilothouse/release:4.20.0").await;
    region.eventually_there(&Api::<Namespace>::all(region.client.clone()), CONTROL_PLANE).await;

    let clusters: Api<HostedCluster> = region.api(NAMESPACE);
    let _ = clusters.delete("first", &DeleteParams::default()).await.unwrap();
    region.empty_namespace().await;
    region.eventually_gone(&clusters, "first").await;
    region.stop().await;
}

#[tokio::test]
async fn a_release_that_cannot_be_served_is_refused_before_anything_is_made() {
    let region = Region::start().await;
    region.create_cluster("pilothouse/release:4.16.0").await;
    let refused = region.eventually_condition("ValidReleaseImage", "False").await;
    assert!(refused.message.contains("served are 4.17.0"), "{}", refused.message);
    region.at_rest().await;
    let namespaces = Api::<Namespace>::all(region.client.clone()).list(&ListParams::default()).await.unwrap();
    assert!(!namespaces.iter().any(|namespace| namespace.metadata.name.as_deref() == Some(CONTROL_PLANE)));
    // Nothing holds it back either.
    let clusters: Api<HostedCluster> = region.api(NAMESPACE);
    let _ = clusters.delete("first", &DeleteParams::default()).await.unwrap();
    region.eventually_gone(&clusters, "first").await;
    region.stop().await;
}

#[tokio::test]
async fn a_namespace_of_somebody_else_is_neither_used_nor_deleted() {
    let region = Region::start().await;
    let namespaces: Api<Namespace> = Api::all(region.client.clone());
    create(&namespaces, json!({ "metadata": { "name": CONTROL_PLANE } })).await;
    region.create_cluster("pilothouse/release:4.20.0").await;
    let refused = region.eventually_condition("ValidConfiguration", "False").await;
    assert!(refused.message.contains("is not the operator's; delete it"), "{}", refused.message);
    let services = region.api::<Service>(CONTROL_PLANE).list(&ListParams::default()).await.unwrap();
    assert_eq!(services.items.len(), 0);

    let clusters: Api<HostedCluster> = region.api(NAMESPACE);
    let _ = clusters.delete("first", &DeleteParams::default()).await.unwrap();
    region.eventually_gone(&clusters, "first").await;
    let namespace = namespaces.get(CONTROL_PLANE).await.unwrap();
    assert_eq!(namespace.metadata.deletion_timestamp, None);
    region.stop().await;
}

#[tokio::test]
async fn two_clusters_that_come_to_the_same_namespace_are_told_apart() {
    let region = Region::start().await;
    region.create_cluster("pilothouse/release:4.20.0").await;
    region.eventually_there(&region.api::<StatefulSet>(CONTROL_PLANE), "kube-apiserver").await;
    // `ocm-local-1-first` again.
    let namespaces: Api<Namespace> = Api::all(region.client.clone());
    create(&namespaces, json!({ "metadata": { "name": "ocm-local" } })).await;
    let mut second = region.cluster().await;
    second.metadata = ObjectMeta { name: Some("1-first".to_owned()), ..ObjectMeta::default() };
    let others: Api<HostedCluster> = region.api("ocm-local");
    others.create(&PostParams::default(), &second).await.unwrap();
    eventually("the second is refused", PATIENCE, async || {
        let conditions = others.get("1-first").await.unwrap().status.unwrap_or_default().conditions;
        match find_condition(&conditions, "ValidConfiguration") {
            Some(found) if found.message.contains("belongs to HostedCluster ocm-local-1/first") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    let _ = others.delete("1-first", &DeleteParams::default()).await.unwrap();
    region.eventually_gone(&others, "1-first").await;
    assert_eq!(namespaces.get(CONTROL_PLANE).await.unwrap().metadata.deletion_timestamp, None);
    region.stop().await;
}

#[tokio::test]
async fn a_paused_cluster_is_left_alone_and_can_be_deleted_and_its_object_stays_for_its_grace() {
    let (clock, hand) = Clock::manual(Clock::system().now());
    let region = Region::start_with(Options { clock, ..Options::default() }).await;
    region
        .create_cluster_with("pilothouse/release:4.20.0", |cluster| {
            let period = ("hypershift.openshift.io/destroy-grace-period".to_owned(), "1h".to_owned());
            cluster.metadata.annotations = Some([period].into());
        })
        .await;
    region.eventually_there(&region.api::<StatefulSet>(CONTROL_PLANE), "kube-apiserver").await;
    region.change_cluster(json!({ "spec": { "pausedUntil": "true" } })).await;
    region.eventually_reason("ReconciliationActive", "False", "ReconciliationPaused").await;
    region.at_rest().await;
    let routes: Api<Route> = region.api(CONTROL_PLANE);
    let elsewhere = json!({ "spec": { "host": "elsewhere.test" } });
    routes.patch("kube-apiserver", &PatchParams::default(), &Patch::Merge(elsewhere)).await.unwrap();
    region.wake();
    region.at_rest().await;
    assert_eq!(routes.get("kube-apiserver").await.unwrap().spec.host, "elsewhere.test");

    let clusters: Api<HostedCluster> = region.api(NAMESPACE);
    let _ = clusters.delete("first", &DeleteParams::default()).await.unwrap();
    region.eventually_reason("HostedClusterDestroyed", "False", "WaitingForNamespace").await;
    region.empty_namespace().await;
    region.eventually_reason("HostedClusterDestroyed", "True", "WaitingForGracePeriod").await;
    let secrets: Api<Secret> = region.api(NAMESPACE);
    region.eventually_gone(&secrets, "first-admin-kubeconfig").await;
    hand.advance(Duration::from_secs(3599));
    region.wake();
    region.at_rest().await;
    assert!(clusters.get_opt("first").await.unwrap().is_some());
    hand.advance(Duration::from_secs(2));
    region.wake();
    region.eventually_gone(&clusters, "first").await;
    region.stop().await;
}

#[tokio::test]
async fn a_load_balancer_is_awaited_and_its_address_is_in_the_certificate_and_the_kubeconfig() {
    let config = Config { load_balancers: true, ..Config::default() };
    let region = Region::start_with(Options { config, ..Options::default() }).await;
    region
        .create_cluster_with("pilothouse/release:4.20.0", |cluster| {
            cluster.spec.services[0].service_publishing_strategy =
                PublishingStrategy::of(PublishingType::LoadBalancer);
        })
        .await;
    let missing =
        region.eventually_reason("InfrastructureReady", "False", "WaitingOnInfrastructureReady").await;
    assert!(missing.message.contains("has no load balancer yet"), "{}", missing.message);
    let routes = region.api::<Route>(CONTROL_PLANE).list(&ListParams::default()).await.unwrap();
    assert_eq!(routes.items.len(), 0);

    let given = json!({ "status": { "loadBalancer": { "ingress": [{ "ip": "203.0.113.9" }] } } });
    let services: Api<Service> = region.api(CONTROL_PLANE);
    services.patch_status("kube-apiserver", &PatchParams::default(), &Patch::Merge(given)).await.unwrap();
    region.eventually_condition("InfrastructureReady", "True").await;
    let endpoint = region.cluster().await.status.unwrap().control_plane_endpoint.unwrap();
    assert_eq!((endpoint.host.as_str(), endpoint.port), ("203.0.113.9", 6443));
    let serving = Certificate::from_pem(&region.secret("kas-server-crt", "tls.crt").await).unwrap();
    assert!(serving.names().contains(&"203.0.113.9".parse().unwrap()));
    let kubeconfig = region.secret("admin-kubeconfig", "kubeconfig").await;
    let kubeconfig = String::from_utf8(kubeconfig).unwrap();
    assert!(kubeconfig.contains("https://203.0.113.9:6443"), "{kubeconfig}");
    region.stop().await;
}

#[tokio::test]
async fn the_versions_that_are_served_are_where_hcp_looks_for_them() {
    let region = Region::start().await;
    let namespaces: Api<Namespace> = Api::all(region.client.clone());
    create(&namespaces, json!({ "metadata": { "name": "hypershift" } })).await;
    let config_maps: Api<ConfigMap> = region.api("hypershift");
    let found = region.eventually_there(&config_maps, "supported-versions").await.data.unwrap();
    let served: serde_json::Value = serde_json::from_str(&found["supported-versions"]).unwrap();
    assert_eq!(served["versions"], json!(["4.21", "4.20", "4.19", "4.18", "4.17"]));
    region.stop().await;
}
