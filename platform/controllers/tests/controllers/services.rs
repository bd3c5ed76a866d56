//! Endpoints, and what every namespace has.

use k8s_openapi::api::core::v1::{ConfigMap, Endpoints, Pod, Service, ServiceAccount};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use kube::api::ListParams;
use serde_json::json;

use crate::support::{AUTHORITY, Cluster, eventually, gone, on_both};

on_both! {
    endpoints_follow_pods_that_are_ready;
    namespace_gets_its_account_and_authority_and_gets_them_back;
}

async fn endpoints_follow_pods_that_are_ready(cluster: Cluster) {
    cluster.node("one").await;
    cluster
        .create::<Service>(json!({
            "metadata": { "name": "api" },
            "spec": { "selector": { "app": "api" }, "ports": [{ "port": 443, "targetPort": "https" }] },
        }))
        .await;
    cluster
        .create::<Pod>(json!({
            "metadata": { "name": "pod", "labels": { "app": "api" } },
            "spec": { "containers": [{
                "name": "main",
                "image": "busybox:1",
                "ports": [{ "name": "https", "containerPort": 6443 }],
            }] },
        }))
        .await;
    let found = |expected: &'static str| {
        let cluster = &cluster;
        eventually("the endpoints", move || async move {
            let endpoints = cluster.api::<Endpoints>().get_opt("api").await.unwrap().unwrap_or_default();
            let mut text = String::new();
            for subset in endpoints.subsets.iter().flatten() {
                let port = subset.ports.as_ref().unwrap()[0].port;
                for address in subset.addresses.iter().flatten() {
                    text.push_str(&format!("{}:{port}", address.ip));
                }
            }
            if text == expected { Ok(()) } else { Err(text) }
        })
    };
    cluster.bound_pods("app=api", 1).await;
    cluster.pod_runs("pod", "10.132.0.7").await;
    found("10.132.0.7:6443").await;
    cluster.at_rest().await;
    let labelled = ListParams::default().labels("kubernetes.io/service-name=api");
    let slices = cluster.api::<EndpointSlice>().list(&labelled).await.unwrap().items;
    assert_eq!(slices[0].endpoints[0].addresses, ["10.132.0.7"]);

    cluster.api::<Pod>().delete("pod", &Default::default()).await.unwrap();
    found("").await;
    cluster.api::<Service>().delete("api", &Default::default()).await.unwrap();
    gone(&cluster.api::<Endpoints>(), "api").await;
    gone(&cluster.api::<EndpointSlice>(), slices[0].metadata.name.as_deref().unwrap()).await;
    cluster.stop().await;
}

async fn namespace_gets_its_account_and_authority_and_gets_them_back(cluster: Cluster) {
    cluster.namespace("fresh").await;
    let accounts: Api<ServiceAccount> = Api::namespaced(cluster.client.clone(), "fresh");
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), "fresh");
    let published = || async {
        eventually("the authority is published", || async {
            let map = maps.get_opt("kube-root-ca.crt").await.unwrap().unwrap_or_default();
            let text = map.data.unwrap_or_default().remove("ca.crt");
            if text.as_deref() == Some(AUTHORITY) { Ok(()) } else { Err(format!("{text:?}")) }
        })
        .await;
    };
    published().await;
    let account = eventually("the account is there", || async {
        accounts.get_opt("default").await.unwrap().ok_or_else(|| "none".to_owned())
    })
    .await;

    accounts.delete("default", &Default::default()).await.unwrap();
    eventually("the account is back", || async {
        let found = accounts.get_opt("default").await.unwrap();
        found.filter(|found| found.metadata.uid != account.metadata.uid).ok_or_else(|| "none".to_owned())
    })
    .await;
    let wrong = kube::api::Patch::Merge(json!({ "data": { "ca.crt": "wrong" } }));
    maps.patch("kube-root-ca.crt", &Default::default(), &wrong).await.unwrap();
    published().await;
    cluster.stop().await;
}
