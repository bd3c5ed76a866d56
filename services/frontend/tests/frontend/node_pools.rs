use http::Method;
use pilothouse_arm::{ProvisioningState, ResourceId};
use pilothouse_clusters_service_api::NodePoolUpdate;
use pilothouse_records::Request;
use serde_json::{Value, json};

use crate::support::{Rig, VERSION, cluster, cluster_body, cluster_url};

fn url(name: &str) -> String {
    format!("{}/nodePools/{name}?{VERSION}", cluster("First"))
}

fn pool_id() -> ResourceId {
    format!("{}/nodePools/workers", cluster("First")).parse().unwrap()
}

fn body(replicas: i32) -> Value {
    json!({"properties": {"version": {"id": "4.20.8"}, "platform": {"vmSize": "Standard_D8s_v3"}, "replicas": replicas}})
}

#[tokio::test]
async fn node_pools_wait_for_their_cluster() {
    let rig = Rig::new().await;
    let missing = rig.put(&url("workers"), &body(2)).await;
    assert_eq!((missing.status, missing.code()), (404, "ResourceNotFound"));
    rig.put(&cluster_url("First"), &cluster_body()).await;
    let early = rig.put(&url("workers"), &body(2)).await;
    assert_eq!((early.status, early.code()), (409, "Conflict"));
    rig.succeed("First").await;
    let created = rig.put(&url("Workers"), &body(2)).await;
    assert_eq!(created.status, 201, "{}", created.body);
    assert_eq!(created.body["type"], "Microsoft.RedHatOpenShift/hcpOpenShiftClusters/nodePools");
    assert!(created.body["properties"]["platform"]["subnetId"].as_str().unwrap().ends_with("/subnets/nodes"));
    let again = rig.put(&url("workers"), &body(2)).await;
    assert_eq!(again.header("azure-asyncoperation"), created.header("azure-asyncoperation"));
    let listed = rig.get(&format!("{}/nodePools?{VERSION}", cluster("first"))).await;
    assert_eq!(listed.body["value"][0]["name"], "Workers");
    assert_eq!(rig.get(&url("WORKERS")).await.body["properties"]["replicas"], 2);
    rig.stop().await;
}

#[tokio::test]
async fn a_node_pool_is_scaled_by_an_operation_that_says_to_what() {
    let rig = Rig::new().await;
    rig.put(&cluster_url("First"), &cluster_body()).await;
    rig.succeed("First").await;
    rig.put(&url("Workers"), &body(1)).await;
    let early = rig.put(&url("workers"), &body(2)).await;
    assert_eq!((early.status, early.code()), (409, "Conflict"));
    rig.succeed("First").await;
    rig.preflight.asked.lock().unwrap().clear();

    let scaled = rig.put(&url("workers"), &body(2)).await;
    assert_eq!((scaled.status, &scaled.body["properties"]["replicas"]), (200, &json!(2)), "{}", scaled.body);
    assert_eq!(scaled.body["properties"]["provisioningState"], "Accepted");
    let again = rig.put(&url("workers"), &body(2)).await;
    assert_eq!(again.header("azure-asyncoperation"), scaled.header("azure-asyncoperation"));
    let operation = rig.records.operation_active().await.unwrap().remove(0);
    assert_eq!(operation.request, Request::Update);
    let asked = rig.preflight.asked.lock().unwrap().clone();
    assert_eq!((asked.len(), operation.clusters_service_request.as_ref()), (1, asked.first()));
    let ask: NodePoolUpdate = serde_json::from_value(asked[0].clone()).unwrap();
    assert_eq!((ask.replicas, &ask.labels, &ask.taints), (Some(2), &None, &None));
    assert_eq!(ask.properties["rp_operation_id"], operation.id.to_string());
    assert_eq!(ask.properties["correlation_id"], operation.correlation_id);
    rig.succeed("First").await;

    let patch = json!({"properties": {"replicas": 0}});
    let patched = rig.send(Method::PATCH, &url("workers"), Some(&patch)).await;
    assert_eq!((patched.status, &patched.body["properties"]["replicas"]), (202, &json!(0)));
    assert!(patched.header("location").contains("/hcpOperationResults/"));
    rig.succeed("First").await;

    // What is only written down is nobody else's business, unless the last change did not come to be.
    for (state, expected) in [(ProvisioningState::Succeeded, 2), (ProvisioningState::Failed, 3)] {
        let mut pool = rig.records.node_pool_get(&pool_id()).await.unwrap().unwrap();
        pool.resource.status.provisioning_state = state;
        let mut change = rig.records.change(crate::support::subscription()).unwrap();
        change.node_pool_replace(&pool).unwrap().commit().await.unwrap();
        let tagged = rig.send(Method::PATCH, &url("workers"), Some(&json!({"tags": {"a": "b"}}))).await;
        assert_eq!(tagged.status, 202, "{}", tagged.body);
        assert_eq!(rig.preflight.asked.lock().unwrap().len(), expected, "{state}");
        rig.succeed("First").await;
    }
    rig.stop().await;
}

#[tokio::test]
async fn what_of_a_node_pool_cannot_be_changed_is_refused_with_its_field() {
    let rig = Rig::new().await;
    rig.put(&cluster_url("First"), &cluster_body()).await;
    rig.succeed("First").await;
    rig.put(&url("workers"), &body(1)).await;
    rig.succeed("First").await;
    let refused = async |properties: Value| {
        let answer = rig.send(Method::PATCH, &url("workers"), Some(&json!({"properties": properties}))).await;
        let target = answer.body["error"]["target"].as_str().unwrap_or_default().to_owned();
        (answer.status, target)
    };
    let labels = json!({"replicas": 2, "labels": [{"key": "tier", "value": "web"}]});
    assert_eq!(refused(labels).await, (400, "properties.labels".to_owned()));
    assert_eq!(refused(json!({"replicas": 201})).await, (400, "properties.replicas".to_owned()));
    *rig.preflight.refuse.lock().unwrap() = Some((400, "replicas"));
    assert_eq!(refused(json!({"replicas": 2})).await, (400, "properties.replicas".to_owned()));
    *rig.preflight.refuse.lock().unwrap() = Some((404, "x"));
    assert_eq!(refused(json!({"replicas": 2})).await, (409, pool_id().to_string()));
    assert!(rig.records.operation_active().await.unwrap().is_empty());
    assert_eq!(rig.get(&url("workers")).await.body["properties"]["replicas"], 1);
    rig.stop().await;
}

#[tokio::test]
async fn the_last_node_pool_stays_until_the_cluster_goes() {
    let rig = Rig::new().await;
    rig.put(&cluster_url("First"), &cluster_body()).await;
    rig.succeed("First").await;
    rig.put(&url("one"), &body(1)).await;
    rig.put(&url("two"), &body(1)).await;
    rig.succeed("First").await;
    assert_eq!(rig.delete(&url("absent")).await.status, 204);
    assert_eq!(rig.delete(&url("one")).await.status, 202);
    let last = rig.delete(&url("two")).await;
    assert_eq!((last.status, last.body["error"]["target"].as_str()), (400, Some("name")));

    assert_eq!(rig.delete(&cluster_url("First")).await.status, 202);
    assert_eq!(rig.get(&url("two")).await.body["properties"]["provisioningState"], "Deleting");
    assert_eq!(rig.put(&url("three"), &body(1)).await.status, 409);
    let active = rig.records.operation_active().await.unwrap();
    assert_eq!(active.len(), 1, "the cluster's deletion is all that is left");
    rig.stop().await;
}
