//! An agent that has forgotten everything but what it was last told.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use serde_json::json;

use crate::cluster::Cluster;
use crate::engine::{Agent, config_map, work};

#[tokio::test]
async fn what_was_said_before_a_restart_and_is_no_longer_said_goes() {
    let cluster = Cluster::start().await;
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), "default");
    let mut before = config_map("a", "1");
    before["metadata"]["labels"] = json!({"kept": "1", "dropped": "1"});
    Agent::of(&cluster).apply(&work(json!([before]), json!([]))).await;
    let version = maps.get("a").await.unwrap().metadata.resource_version;

    let mut again = work(json!([before]), json!([]));
    again.previous = Some(again.spec.clone());
    Agent::of(&cluster).apply(&again).await;
    assert_eq!(maps.get("a").await.unwrap().metadata.resource_version, version, "nothing has changed");

    let mut after = config_map("a", "1");
    after["metadata"]["labels"] = json!({"kept": "1"});
    let mut wanted = work(json!([after]), json!([]));
    wanted.previous = again.previous;
    Agent::of(&cluster).apply(&wanted).await;
    let labels = maps.get("a").await.unwrap().metadata.labels.unwrap();
    assert_eq!(labels, [("kept".to_owned(), "1".to_owned())].into());
}
