//! What was acknowledged is there after a restart.

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Service};
use kube::Api;
use kube::api::{ListParams, PostParams};
use pilothouse_store::Location;
use serde_json::json;

use crate::support::Ground;

#[tokio::test]
async fn a_server_on_the_same_store_has_the_same_objects() {
    let ground = Ground::new();
    let path = ground.path("kubeapi.db").to_str().unwrap().to_owned();
    let cluster = ground.start(Location::sqlite(path.clone())).await;
    let client = cluster.admin().await;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let map =
        serde_json::from_value(json!({ "metadata": { "name": "a" }, "data": { "key": "one" } })).unwrap();
    let before = maps.create(&PostParams::default(), &map).await.unwrap();
    let address = |service: Service| service.spec.unwrap().cluster_ip.unwrap();
    let own = address(Api::namespaced(client, "default").get("kubernetes").await.unwrap());

    let cluster = cluster.stop().await.start(Location::sqlite(path)).await;
    let client = cluster.admin().await;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    assert_eq!(maps.get("a").await.unwrap(), before);
    assert_eq!(
        Api::<Namespace>::all(client.clone()).list(&ListParams::default()).await.unwrap().items.len(),
        4
    );
    assert_eq!(address(Api::namespaced(client, "default").get("kubernetes").await.unwrap()), own);
    cluster.stop().await;
}
