use http::Method;
use pilothouse_arm::ProvisioningState;
use pilothouse_clusters_service_api::NewCluster;
use pilothouse_clusters_service_api::simulated::{Call, Fault};
use rstest::rstest;
use serde_json::json;

use crate::support::{Engine, Rig, SUBSCRIPTION, cluster, cluster_body, cluster_url, of, under_way};

#[rstest]
#[tokio::test]
async fn an_accepted_cluster_is_stored_with_its_operation(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(rig) = Rig::new(engine).await else { return };
    let created = rig.put(&cluster_url("First"), &cluster_body("First")).await;
    assert_eq!(created.status, 201, "{}", created.text);
    assert_eq!(created.state(), "Accepted");
    assert_eq!((created.header("location"), created.header("retry-after")), ("", "1"));
    let link = created.header("azure-asyncoperation").to_owned();
    let expected = format!(
        "/subscriptions/{SUBSCRIPTION}/providers/Microsoft.RedHatOpenShift/locations/here/hcpOperationStatuses/"
    );
    assert!(link.starts_with(&format!("{}{expected}", rig.base)), "{link}");
    let group = created.body["properties"]["platform"]["managedResourceGroup"].as_str().unwrap();
    assert!(group.starts_with("aro-hcp-First-"), "{group}");

    let operation = rig.records.operation_active().await.unwrap().remove(0);
    let asked = rig.asked();
    assert_eq!(operation.clusters_service_request.as_ref(), Some(&asked[0].body));
    let ask: NewCluster = serde_json::from_value(asked[0].body.clone()).unwrap();
    assert_eq!((ask.name.as_str(), ask.version.id.as_str()), ("first", "openshift-v4.20.8"));
    assert_eq!(ask.azure.resource_id(), cluster("First").to_lowercase());
    assert_eq!(ask.azure.tenant_id.as_deref(), Some("t"));
    assert_eq!(ask.properties["rp_operation_id"], operation.id.to_string());
    assert_eq!(ask.properties["correlation_id"], operation.correlation_id);
    let stored = rig.records.cluster_get(&cluster("First").parse().unwrap()).await.unwrap().unwrap();
    assert_eq!(stored.identity_url.as_deref(), Some("https://identity.local/"));
    rig.stop().await;
}

#[rstest]
#[tokio::test]
async fn the_latest_spelling_is_shown_and_the_location_of_a_body_is_not(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(rig) = Rig::new(engine).await else { return };
    rig.made("First").await;
    let mut body = cluster_body("first");
    body["location"] = json!("elsewhere");
    body["name"] = json!("FIRST");
    let replaced = rig.put(&cluster_url("FIRST"), &body).await;
    assert_eq!((replaced.status, replaced.body["name"].as_str()), (200, Some("FIRST")), "{}", replaced.text);
    let shown = rig.get(&cluster_url("first")).await;
    assert_eq!(shown.body["id"], cluster("FIRST").as_str());
    assert_eq!(shown.body["location"], "here");
    rig.succeed("First").await;
    let patched = rig.patch(&cluster_url("firSt"), &json!({"tags": {"a": "b"}})).await;
    assert_eq!((patched.status, patched.body["name"].as_str()), (202, Some("firSt")));

    body["name"] = json!("First");
    let refused = rig.put(&cluster_url("FIRST"), &body).await;
    assert_eq!((refused.status, refused.target()), (400, "name"));
    rig.stop().await;
}

#[rstest]
#[tokio::test]
async fn the_same_request_of_somebody_else_is_a_conflict_and_not_an_operation_that_they_cannot_follow(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(rig) = Rig::new(engine).await else { return };
    let (url, body) = (cluster_url("First"), cluster_body("First"));
    let ada: &[(&'static str, &str)] = &[("x-ms-client-object-id", "ada")];
    let bob: &[(&'static str, &str)] = &[("x-ms-client-object-id", "bob")];
    let created = rig.send_with(Method::PUT, &url, ada, Some(&body)).await;
    assert_eq!(created.status, 201, "{}", created.text);
    for (method, body) in [(Method::PUT, &body), (Method::PATCH, &json!({}))] {
        let again = rig.send_with(method.clone(), &url, ada, Some(body)).await;
        assert!(again.status < 300, "{method}: {}", again.text);
        assert_eq!(again.header("azure-asyncoperation"), created.header("azure-asyncoperation"));
        let other = rig.send_with(method.clone(), &url, bob, Some(body)).await;
        assert_eq!((other.status, other.code()), (409, "Conflict"), "{method}: {}", other.text);
        assert!(!other.headers.contains_key("azure-asyncoperation"));
    }
    rig.stop().await;
}

#[rstest]
#[tokio::test]
async fn the_same_request_again_leads_to_the_same_operation_and_another_is_a_conflict(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(rig) = Rig::new(engine).await else { return };
    let first = rig.put(&cluster_url("First"), &cluster_body("First")).await;
    let again = rig.put(&cluster_url("first"), &cluster_body("First")).await;
    assert_eq!(again.status, 200, "{}", again.text);
    assert_eq!(again.header("azure-asyncoperation"), first.header("azure-asyncoperation"));
    assert_eq!(under_way(&rig).await, [("Create".to_owned(), 1)].into());

    let mut other = cluster_body("First");
    other["tags"] = json!({"team": "a"});
    let refused = rig.put(&cluster_url("First"), &other).await;
    assert_eq!((refused.status, refused.code()), (409, "Conflict"));
    assert_eq!(refused.body["error"]["message"], "Cannot update resource while resource is \"Accepted\"");
    assert_eq!(refused.target(), cluster("First"));
    rig.stop().await;
}

#[rstest]
#[tokio::test]
async fn what_is_refused_changes_nothing(#[values(Engine::Sqlite, Engine::Postgres)] engine: Engine) {
    let Some(rig) = Rig::new(engine).await else { return };
    let mut wrong = cluster_body("First");
    wrong["properties"]["network"] = json!({"hostPrefix": 1});
    wrong["properties"]["version"]["id"] = json!("4.1");
    let refused = rig.put(&cluster_url("First"), &wrong).await;
    assert_eq!((refused.status, refused.code()), (400, "MultipleErrorsOccurred"), "{}", refused.text);
    assert!(rig.asked().is_empty(), "nobody is bothered with what is wrong");

    let fault = |status, target| Fault::Refuse { status, target, message: "it said no" };
    for (fault, status, code, target, retry) in [
        (
            fault(400, Some("domain_prefix")),
            400,
            "InvalidRequestContent",
            "properties.dns.baseDomainPrefix",
            "",
        ),
        (fault(501, Some("fips")), 400, "InvalidRequestContent", "properties.cryptoRestrictions", ""),
        (fault(400, None), 400, "InvalidRequestContent", "", ""),
        (fault(409, None), 409, "Conflict", "", ""),
        (Fault::Unavailable, 503, "ServiceUnavailable", "", "59"),
        (Fault::Disconnect, 503, "ServiceUnavailable", "", "59"),
        (fault(500, None), 503, "ServiceUnavailable", "", "59"),
        (fault(404, None), 500, "InternalServerError", "", ""),
    ] {
        rig.clusters_service.inject(fault.clone(), Call::is_preflight);
        let refused = rig.put(&cluster_url("First"), &cluster_body("First")).await;
        assert_eq!((refused.status, refused.code()), (status, code), "{fault:?}: {}", refused.text);
        assert_eq!((refused.target(), refused.header("retry-after")), (target, retry), "{fault:?}");
        rig.clusters_service.clear_faults();
        rig.assert_nothing_stored().await;
    }
    rig.stop().await;
}

#[rstest]
#[tokio::test]
async fn what_one_cluster_uses_another_cannot_until_it_is_gone(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(rig) = Rig::new(engine).await else { return };
    let mut first = cluster_body("First");
    first["properties"]["platform"]["managedResourceGroup"] = json!("Managed");
    assert_eq!(rig.put(&cluster_url("First"), &first).await.status, 201);
    let platform = &first["properties"]["platform"];
    for (member, value) in [
        ("managedResourceGroup", "MANAGED".to_owned()),
        ("subnetId", platform["subnetId"].as_str().unwrap().to_uppercase()),
        ("networkSecurityGroupId", platform["networkSecurityGroupId"].as_str().unwrap().to_lowercase()),
    ] {
        let mut second = cluster_body("Second");
        // The case of what ARM itself names is ARM's business.
        let value = value.replace("/SUBSCRIPTIONS/", "/subscriptions/");
        second["properties"]["platform"][member] = json!(value);
        let refused = rig.put(&cluster_url("Second"), &second).await;
        let target = format!("properties.platform.{member}");
        assert_eq!((refused.status, refused.target()), (400, target.as_str()), "{}", refused.text);
        assert!(refused.text.contains(&cluster("First")), "{}", refused.text);
    }
    let mut everything = cluster_body("First");
    everything["properties"]["platform"]["managedResourceGroup"] = json!("managed");
    let refused = rig.put(&cluster_url("Second"), &everything).await;
    assert_eq!(refused.body["error"]["details"].as_array().unwrap().len(), 3, "{}", refused.text);

    // The other subscription has its own.
    let stored = rig.records.cluster_get(&cluster("First").parse().unwrap()).await.unwrap().unwrap();
    let mut change = rig.records.change(crate::support::subscription()).unwrap();
    change.cluster_delete(&stored).unwrap().commit().await.unwrap();
    let created = rig.put(&cluster_url("Second"), &everything).await;
    assert_eq!(created.status, 201, "{}", created.text);
    rig.stop().await;
}

#[rstest]
#[tokio::test]
async fn deletion_is_accepted_once_and_gives_up_what_was_under_way(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(rig) = Rig::new(engine).await else { return };
    assert_eq!(rig.delete(&cluster_url("First")).await.status, 204);
    let created = rig.put(&cluster_url("First"), &cluster_body("First")).await;
    let deleting = rig.delete(&cluster_url("FIRST")).await;
    assert_eq!((deleting.status, deleting.text.as_str(), deleting.header("retry-after")), (202, "", "1"));
    assert!(deleting.header("location").contains("/hcpOperationResults/"));
    assert_eq!(rig.get(deleting.header("azure-asyncoperation")).await.body["status"], "Deleting");
    let given_up = rig.get(created.header("azure-asyncoperation")).await.body;
    assert_eq!((&given_up["status"], &given_up["error"]["code"]), (&json!("Canceled"), &json!("Canceled")));
    let again = rig.delete(&cluster_url("First")).await;
    assert_eq!((again.status, again.code()), (409, "Conflict"));
    assert_eq!(rig.get(&cluster_url("First")).await.state(), "Deleting");
    rig.stop().await;
}

#[rstest]
#[tokio::test]
async fn a_cluster_goes_with_everything_below_it(#[values(Engine::Sqlite, Engine::Postgres)] engine: Engine) {
    let Some(rig) = Rig::new(engine).await else { return };
    rig.made("First").await;
    assert_eq!(rig.put(&crate::support::pool("one"), &crate::support::pool_body(1)).await.status, 201);
    let auth = crate::support::auth("idp");
    let created = rig.put(&auth, &crate::support::auth_body("https://idp.example")).await;
    assert_eq!(created.status, 201, "{}", created.text);
    rig.succeed("First").await;
    assert_eq!(
        rig.post(&format!("{}/revokeCredentials?api-version=2026-10-01", cluster("First"))).await.status,
        202
    );
    assert_eq!(rig.delete(&cluster_url("First")).await.status, 202);
    for url in [crate::support::pool("one"), auth, cluster_url("First")] {
        assert_eq!(rig.get(&url).await.state(), "Deleting", "{url}");
    }
    assert_eq!(under_way(&rig).await, [("Delete".to_owned(), 1)].into());
    rig.stop().await;
}

#[rstest]
#[tokio::test]
async fn identities_of_operators_are_passed_on_with_where_their_credentials_are(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(rig) = Rig::new(engine).await else { return };
    let identity = |name: &str| of("ManagedIdentity", &format!("userAssignedIdentities/{name}"));
    let mut body = cluster_body("First");
    body["identity"] = json!({"type": "UserAssigned",
        "userAssignedIdentities": {(identity("service")): {}, (identity("ingress")): {}}});
    body["properties"]["platform"]["operatorsAuthentication"] = json!({"userAssignedIdentities": {
        "controlPlaneOperators": {"ingress": identity("ingress")}, "dataPlaneOperators": {},
        "serviceManagedIdentity": identity("service")}});
    let url = ("x-ms-identity-url", "https://dummy.identity.test/x?y=1");
    let created = rig.send_with(Method::PUT, &cluster_url("First"), &[url], Some(&body)).await;
    assert_eq!(created.status, 201, "{}", created.text);
    let identities = &rig.asked()[0].body["azure"]["operators_authentication"]["managed_identities"];
    assert_eq!(identities["managed_identities_data_plane_identity_url"], url.1);
    assert_eq!(
        identities["control_plane_operators_managed_identities"]["ingress"]["resource_id"],
        identity("ingress")
    );
    assert_eq!(identities["service_managed_identity"]["resource_id"], identity("service"));
    let odd = [("x-ms-identity-url", "not a url")];
    let refused = rig.send_with(Method::PUT, &cluster_url("Other"), &odd, Some(&cluster_body("Other"))).await;
    assert_eq!((refused.status, refused.target()), (400, "x-ms-identity-url"));
    rig.set_state("First", ProvisioningState::Failed).await;
    rig.stop().await;
}
