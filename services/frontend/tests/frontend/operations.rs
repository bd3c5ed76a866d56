use http::Method;
use pilothouse_arm::{ErrorCode, ErrorDetails, ProvisioningState};
use pilothouse_runtime::Clock;

use rstest::rstest;

use crate::support::{
    Engine, Rig, SUBSCRIPTION, VERSION, cluster, cluster_body, cluster_url, pool, pool_body, subscription,
};

#[rstest]
#[tokio::test]
async fn an_operation_tells_what_it_is_at_and_then_what_came_of_it(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(rig) = Rig::new(engine).await else { return };
    let created = rig.put(&cluster_url("First"), &cluster_body("First")).await;
    let link = created.header("azure-asyncoperation").to_owned();
    let status = rig.get(&link).await;
    assert_eq!((status.status, status.body["status"].as_str()), (200, Some("Accepted")));
    assert_eq!((status.header("retry-after"), &status.body["endTime"]), ("1", &serde_json::Value::Null));
    assert_eq!(status.body["resourceId"], cluster("First").as_str());
    assert!(link.contains(status.body["id"].as_str().unwrap()), "{}", status.text);
    let steps = status.body["operations"].as_array().unwrap();
    let names: Vec<_> = steps.iter().map(|step| &step["name"]).collect();
    assert_eq!(names, ["1", "2", "3", "4"]);
    assert!(steps[2]["message"].as_str().unwrap().contains("no authentication is configured"));
    let result = rig.get(&created.result()).await;
    assert_eq!((result.status, result.text.as_str(), result.header("retry-after")), (202, "", "1"));
    assert_eq!(result.header("location"), created.result());

    rig.succeed("First").await;
    let status = rig.get(&link).await;
    assert_eq!((status.body["status"].as_str(), status.header("retry-after")), (Some("Succeeded"), ""));
    assert!(status.body["endTime"].is_string());
    let result = rig.get(&created.result()).await;
    assert_eq!((result.status, result.body["name"].as_str()), (201, Some("First")));
    let old = rig.get(&created.result().replace("2026-10-01", "2024-06-10-preview")).await;
    assert_eq!(
        (old.status, old.body["name"].as_str()),
        (201, Some("First")),
        "in the version that is asked for"
    );
    rig.stop().await;
}

#[rstest]
#[tokio::test]
async fn results_are_those_of_what_was_asked_for(#[values(Engine::Sqlite, Engine::Postgres)] engine: Engine) {
    let Some(rig) = Rig::new(engine).await else { return };
    rig.made("First").await;
    rig.put(&pool("one"), &pool_body(1)).await;
    rig.put(&pool("two"), &pool_body(1)).await;
    rig.succeed("First").await;
    let patched = rig.patch(&pool("one"), &serde_json::json!({"tags": {"a": "b"}})).await;
    rig.succeed("First").await;
    let result = rig.get(patched.header("location")).await;
    assert_eq!((result.status, result.body["tags"]["a"].as_str()), (200, Some("b")));

    let deleting = rig.delete(&pool("one")).await;
    for (state, status, code) in [
        (ProvisioningState::Failed, 500, "NoCapacity"),
        (ProvisioningState::Canceled, 500, "NoCapacity"),
        (ProvisioningState::Succeeded, 204, ""),
    ] {
        let id = deleting.header("location").split('/').next_back().unwrap();
        let id = id.split('?').next().unwrap().parse().unwrap();
        let mut operation = rig.records.operation_get(subscription(), id).await.unwrap().unwrap();
        operation.enter(state, Clock::system().now());
        operation.error = Some(ErrorDetails {
            code: "NoCapacity".to_owned(),
            ..ErrorDetails::new(ErrorCode::InternalServerError, "there is no room")
        });
        let mut change = rig.records.change(subscription()).unwrap();
        change.operation_replace(&operation).unwrap().commit().await.unwrap();
        let result = rig.get(deleting.header("location")).await;
        assert_eq!((result.status, result.code()), (status, code), "{state}");
    }
    rig.stop().await;
}

#[rstest]
#[tokio::test]
async fn operations_are_shown_to_whoever_asked_for_them_only(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(rig) = Rig::new(engine).await else { return };
    let own = [("x-ms-home-tenant-id", "Tenant"), ("x-ms-client-object-id", "Me")];
    let created = rig.send_with(Method::PUT, &cluster_url("First"), &own, Some(&cluster_body("First"))).await;
    for link in [created.header("azure-asyncoperation").to_owned(), created.result()] {
        let found = async |headers: &[(&'static str, &str)]| {
            let reply = rig.send_with(Method::GET, &link, headers, None).await;
            if reply.status == 404 {
                assert_eq!(reply.code(), if link.contains("Results") { "ResourceNotFound" } else { "" });
            }
            reply.status != 404
        };
        assert!(found(&own).await);
        assert!(found(&[("x-ms-home-tenant-id", "TENANT"), ("x-ms-client-object-id", "ME")]).await);
        assert!(!found(&[]).await);
        assert!(!found(&[("x-ms-home-tenant-id", "Tenant")]).await);
        assert!(!found(&[("x-ms-home-tenant-id", "other"), ("x-ms-client-object-id", "Me")]).await);
        assert!(!found(&[("x-ms-home-tenant-id", "Tenant"), ("x-ms-client-object-id", "You")]).await);
        let other = "22222222-1bf0-4dda-aec3-cb9272f09590";
        let body = serde_json::json!({"state": "Registered", "registrationDate": "now"});
        rig.put(&format!("/subscriptions/{other}?api-version=2.0"), &body).await;
        let elsewhere = rig.send_with(Method::GET, &link.replace(SUBSCRIPTION, other), &own, None).await;
        assert_eq!(elsewhere.status, 404);
    }
    for name in ["11111111-1bf0-4dda-aec3-cb9272f09590", "odd"] {
        let path = format!("/subscriptions/{SUBSCRIPTION}/providers/Microsoft.RedHatOpenShift/locations/any");
        let missing = rig.get(&format!("{path}/hcpOperationStatuses/{name}?{VERSION}")).await;
        assert_eq!((missing.status, missing.text.as_str()), (404, ""));
        let missing = rig.get(&format!("{path}/hcpOperationResults/{name}?{VERSION}")).await;
        assert_eq!((missing.status, missing.code()), (404, "ResourceNotFound"));
    }
    rig.stop().await;
}

#[rstest]
#[tokio::test]
async fn whoever_wants_to_hear_of_the_end_is_promised_it_only_if_it_will_be_kept(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(rig) = Rig::new(engine).await else { return };
    for (name, uri, status, promised) in [
        ("a", "https://west.arm.test/callback", 201, "Enabled"),
        ("b", "https://elsewhere.example/callback", 201, ""),
        ("c", "http://west.arm.test/callback", 201, ""),
        ("d", "not a url", 400, ""),
    ] {
        let header = [("azure-asyncnotificationuri", uri)];
        let reply = rig.send_with(Method::PUT, &cluster_url(name), &header, Some(&cluster_body(name))).await;
        assert_eq!((reply.status, reply.header("azure-asyncnotification")), (status, promised), "{uri}");
        if status == 400 {
            assert_eq!((reply.code(), reply.target()), ("InvalidParameter", "azure-asyncnotificationuri"));
        }
        let operations = rig.records.operation_active().await.unwrap();
        let kept = operations.iter().find(|operation| operation.resource.name() == name);
        let kept = kept.and_then(|operation| operation.notification.as_ref());
        assert_eq!(kept.map(|kept| kept.uri.as_str()), (!promised.is_empty()).then_some(uri), "{uri}");
    }
    rig.stop().await;
}
