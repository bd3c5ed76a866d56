use http::Method;
use rstest::rstest;
use serde_json::{Value, json};

use crate::support::{
    Engine, Reply, Rig, SUBSCRIPTION, auth_body, cluster, cluster_body, cluster_url, pool_body,
};

fn url() -> String {
    let group = format!("/subscriptions/{SUBSCRIPTION}/resourceGroups/Team");
    format!("{group}/providers/Microsoft.RedHatOpenShift/deployments/any/preflight?api-version=2020-06-01")
}

async fn judged(rig: &Rig, resources: Value) -> Reply {
    let reply = rig.send(Method::POST, &url(), Some(&json!({"resources": resources}))).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply
}

fn of(kind: &str, name: &str, mut body: Value) -> Value {
    body["type"] = json!(format!("Microsoft.RedHatOpenShift/{kind}"));
    body["name"] = json!(name);
    body["apiVersion"] = json!("2026-10-01");
    body
}

const CLUSTERS: &str = "hcpOpenShiftClusters";

#[rstest]
#[tokio::test]
async fn a_deployment_that_would_be_accepted_is_and_nothing_is_stored(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(rig) = Rig::new(engine).await else { return };
    let resources = json!([
        of("hcpOpenShiftClusters/nodePools", "c/workers", pool_body(1)),
        of("HCPOpenShiftClusters", "c", cluster_body("c")),
        of("hcpOpenShiftClusters/externalAuths", "c/idp", auth_body("https://idp.example")),
    ]);
    assert_eq!(judged(&rig, resources).await.body, json!({"status": "Succeeded"}));
    rig.assert_nothing_stored().await;
    rig.stop().await;
}

#[rstest]
#[tokio::test]
async fn what_cannot_be_judged_is_passed_over(#[values(Engine::Sqlite, Engine::Postgres)] engine: Engine) {
    let Some(rig) = Rig::new(engine).await else { return };
    let wrong = json!({"properties": {"version": {"id": "1.0"}}});
    let mut expression = of(CLUSTERS, "a", wrong.clone());
    expression["properties"]["network"] = json!({"podCidr": "[parameters('cidr')]"});
    let mut key = of(CLUSTERS, "b", wrong.clone());
    key["tags"] = json!({"[parameters('tag')]": "x"});
    let mut unserved = of(CLUSTERS, "c", wrong.clone());
    unserved["apiVersion"] = json!("2020-01-01");
    let mut foreign = of(CLUSTERS, "d", wrong.clone());
    foreign["type"] = json!("Microsoft.Compute/virtualMachines");
    let resources = json!([
        expression,
        key,
        unserved,
        foreign,
        of("openShiftClusters", "e", wrong.clone()),
        "odd",
        {},
        of("hcpOpenShiftClusters/nodePools", "no-parent", pool_body(1)),
        of("hcpOpenShiftClusters/nodePools", "absent/workers", json!({"properties": {}})),
    ]);
    assert_eq!(judged(&rig, resources).await.body, json!({"status": "Succeeded"}));
    rig.stop().await;
}

#[rstest]
#[tokio::test]
async fn what_is_wrong_is_told_resource_by_resource(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(rig) = Rig::new(engine).await else { return };
    rig.put(&cluster_url("taken"), &cluster_body("taken")).await;
    let mut wrong = cluster_body("wrong");
    wrong["properties"]["network"] = json!({"hostPrefix": 1});
    let one = judged(&rig, json!([of(CLUSTERS, "wrong", wrong.clone())])).await.body;
    assert_eq!(one["status"], "Failed");
    assert_eq!(one["error"]["message"], "Content validation failed for 'wrong'");
    assert_eq!(one["error"]["target"], cluster("wrong").as_str());
    assert_eq!(one["error"]["details"][0]["target"], "properties.network.hostPrefix");

    let resources = json!([
        of(CLUSTERS, "wrong", wrong),
        of(CLUSTERS, "second", cluster_body("taken")),
        of("hcpOpenShiftClusters/nodePools", "taken/workers", json!({"properties": {"platform": {}}})),
        of("hcpOpenShiftClusters/externalAuths", "taken/idp", json!({"properties": {}})),
    ]);
    let several = judged(&rig, resources).await.body;
    assert_eq!(several["error"]["code"], "MultipleErrorsOccurred");
    let targets: Vec<_> =
        several["error"]["details"].as_array().unwrap().iter().map(|e| &e["target"]).collect();
    let workers = format!("{}/nodePools/workers", cluster("taken"));
    let idp = format!("{}/externalAuths/idp", cluster("taken"));
    assert_eq!(targets, [&cluster("wrong"), &cluster("second"), &workers, &idp]);
    assert_eq!(several["error"]["details"][1]["details"][0]["target"], "properties.platform.subnetId");
    rig.stop().await;
}

#[rstest]
#[tokio::test]
async fn a_body_that_is_no_deployment_is_told_in_the_body(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(rig) = Rig::new(engine).await else { return };
    let json = [("content-type", "application/json")];
    for body in ["", "{", "[]", "{}", r#"{"resources": {}}"#, r#"{"resources": [], "resources": []}"#] {
        let reply = rig.call(Method::POST, &url(), &json, Some(body.into())).await;
        assert_eq!(
            (reply.status, reply.body["status"].as_str()),
            (200, Some("Failed")),
            "{body}: {}",
            reply.text
        );
        assert_eq!(reply.body["error"]["code"], "InvalidRequestContent", "{body}");
    }
    rig.stop().await;
}
