use std::sync::atomic::Ordering;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, Secret, Service};
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use pilothouse_crds::{HistoryState, HostedCluster, HostedControlPlane, NodePool, Route};
use pilothouse_pki::{AlternativeName, Certificate};
use pilothouse_test_support::eventually;
use serde_json::json;

use crate::support::{CONTROL_PLANE, NAMESPACE, PATIENCE, Region};

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
