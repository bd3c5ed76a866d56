use rstest::rstest;
use serde_json::json;

use crate::support::{Engine, Rig, VERSION, auth, auth_body, cluster, pages};

#[rstest]
#[tokio::test]
async fn an_external_auth_lives_below_its_cluster(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(rig) = Rig::new(engine).await else { return };
    rig.made("First").await;
    let created = rig.put(&auth("Idp"), &auth_body("https://idp.example")).await;
    assert_eq!((created.status, created.state()), (201, "Accepted"), "{}", created.text);
    assert_eq!(created.body["type"], "Microsoft.RedHatOpenShift/hcpOpenShiftClusters/externalAuths");
    let again = rig.put(&auth("idp"), &auth_body("https://idp.example")).await;
    assert_eq!(again.header("azure-asyncoperation"), created.header("azure-asyncoperation"));
    rig.succeed("First").await;
    let result = rig.get(&created.result()).await;
    assert_eq!((result.status, result.body["name"].as_str()), (201, Some("Idp")));
    assert_eq!(rig.clusters_service.external_auths()[0].issuer.url, "https://idp.example");

    let patched =
        rig.patch(&auth("Idp"), &json!({"properties": {"issuer": {"audiences": ["a", "b"]}}})).await;
    assert_eq!(patched.status, 202, "{}", patched.text);
    let ask = &rig.asked().pop().unwrap();
    assert_eq!(ask.body["issuer"]["audiences"], json!(["a", "b"]));
    assert_eq!(
        (ask.body.get("clients"), ask.body.get("claim")),
        (None, None),
        "only what differs is asked for"
    );
    rig.succeed("First").await;
    let list = format!("{}/externalauths?{VERSION}", cluster("First"));
    assert_eq!(pages(&rig, &list).await, [["Idp"]]);

    let deleting = rig.delete(&auth("idp")).await;
    assert_eq!(deleting.status, 202, "{}", deleting.text);
    assert_eq!(rig.get(&auth("idp")).await.state(), "Deleting");
    assert_eq!(rig.delete(&auth("absent")).await.status, 204);
    rig.stop().await;
}

#[rstest]
#[tokio::test]
async fn a_cluster_has_one_external_auth(#[values(Engine::Sqlite, Engine::Postgres)] engine: Engine) {
    let Some(rig) = Rig::new(engine).await else { return };
    rig.made("First").await;
    assert_eq!(rig.put(&auth("one"), &auth_body("https://idp.example")).await.status, 201);
    let second = rig.put(&auth("two"), &auth_body("https://idp.example")).await;
    assert_eq!((second.status, second.code(), second.target()), (400, "InvalidRequestContent", "name"));
    assert!(second.body["error"]["message"].as_str().unwrap().starts_with("Forbidden: "), "{}", second.text);
    rig.stop().await;
}
