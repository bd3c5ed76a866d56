use http::Method;
use pilothouse_clusters_service_api::NewCluster;
use serde_json::json;

use crate::support::{Rig, SUBSCRIPTION, VERSION, cluster, cluster_body, cluster_url};

#[tokio::test]
async fn an_accepted_cluster_is_stored_with_its_operation() {
    let rig = Rig::new().await;
    let created = rig.put(&cluster_url("First"), &cluster_body()).await;
    assert_eq!(created.status, 201, "{}", created.body);
    assert_eq!(created.body["properties"]["provisioningState"], "Accepted");
    assert_eq!(created.header("location"), "");
    let link = created.header("azure-asyncoperation").to_owned();
    let expected = format!(
        "/subscriptions/{SUBSCRIPTION}/providers/Microsoft.RedHatOpenShift/locations/here/hcpOperationStatuses/"
    );
    assert!(link.starts_with(&format!("{}{expected}", rig.base)), "{link}");

    // Whatever the case of the request, the answer is spelled as at the beginning.
    let shouted = cluster("First").to_uppercase();
    let shown = rig.get(&format!("{shouted}?api-version=2024-06-10-preview")).await;
    assert_eq!((shown.status, shown.body["id"].as_str()), (200, Some(cluster("First").as_str())));
    assert_eq!(shown.body["location"], "here");

    let status = rig.get(&link).await;
    assert_eq!((status.status, status.body["status"].as_str()), (200, Some("Accepted")));
    assert_eq!(status.body["resourceId"], cluster("First").as_str());
    let steps: Vec<_> =
        status.body["operations"].as_array().unwrap().iter().map(|step| &step["name"]).collect();
    assert_eq!(steps, ["1", "2", "3", "4"]);
    let result = rig.get(&link.replace("hcpOperationStatuses", "hcpOperationResults")).await;
    assert_eq!((result.status, result.header("location").is_empty()), (202, false));

    let operation = rig.records.operation_active().await.unwrap().remove(0);
    let asked = rig.preflight.asked.lock().unwrap().clone();
    assert_eq!(operation.clusters_service_request.as_ref(), asked.first());
    let ask: NewCluster = serde_json::from_value(asked[0].clone()).unwrap();
    assert_eq!((ask.name.as_str(), ask.version.id.as_str()), ("first", "openshift-v4.20.8"));
    assert_eq!(ask.azure.resource_id(), cluster("First").to_lowercase());
    assert_eq!(ask.azure.tenant_id.as_deref(), Some("t"));
    assert_eq!(ask.properties["rp_operation_id"], operation.id.to_string());
    assert_eq!(ask.properties["correlation_id"], operation.correlation_id);

    rig.succeed("First").await;
    assert_eq!(rig.get(&link).await.body["status"], "Succeeded");
    let result = rig.get(&link.replace("hcpOperationStatuses", "hcpOperationResults")).await;
    assert_eq!((result.status, result.body["name"].as_str()), (201, Some("First")));
    rig.stop().await;
}

#[tokio::test]
async fn the_same_request_again_leads_to_the_same_operation_and_another_is_a_conflict() {
    let rig = Rig::new().await;
    let first = rig.put(&cluster_url("First"), &cluster_body()).await;
    let again = rig.put(&cluster_url("first"), &cluster_body()).await;
    assert_eq!(again.status, 200, "{}", again.body);
    assert_eq!(again.header("azure-asyncoperation"), first.header("azure-asyncoperation"));
    assert_eq!(rig.records.operation_active().await.unwrap().len(), 1);

    let mut other = cluster_body();
    other["tags"] = json!({"team": "a"});
    let refused = rig.put(&cluster_url("First"), &other).await;
    assert_eq!((refused.status, refused.code()), (409, "Conflict"));
    assert_eq!(refused.body["error"]["message"], "Cannot update resource while resource is \"Accepted\"");
    assert_eq!(refused.body["error"]["target"], cluster("First").as_str());

    rig.succeed("First").await;
    let changed = rig.put(&cluster_url("First"), &other).await;
    assert_eq!((changed.status, &changed.body["tags"]), (200, &json!({"team": "a"})));
    rig.succeed("First").await;
    let patch = json!({"properties": {"nodeDrainTimeoutMinutes": 5}});
    let patched = rig.send(Method::PATCH, &cluster_url("First"), Some(&patch)).await;
    assert_eq!((patched.status, patched.header("location").is_empty()), (202, false));
    rig.succeed("First").await;
    let version = json!({"properties": {"version": {"id": "4.21"}}});
    let refused = rig.send(Method::PATCH, &cluster_url("First"), Some(&version)).await;
    assert_eq!((refused.status, refused.body["error"]["target"].as_str()), (400, Some("properties.version")));
    rig.stop().await;
}

#[tokio::test]
async fn what_is_refused_changes_nothing() {
    let rig = Rig::new().await;
    let mut wrong = cluster_body();
    wrong["properties"]["network"] = json!({"hostPrefix": 1});
    wrong["properties"]["version"]["id"] = json!("4.1");
    let refused = rig.put(&cluster_url("First"), &wrong).await;
    assert_eq!((refused.status, refused.code()), (400, "MultipleErrorsOccurred"));
    let targets: Vec<_> =
        refused.body["error"]["details"].as_array().unwrap().iter().map(|e| &e["target"]).collect();
    assert_eq!(targets, ["properties.version.id", "properties.network.hostPrefix"]);
    assert!(rig.preflight.asked.lock().unwrap().is_empty(), "nobody is bothered with what is wrong");

    *rig.preflight.refuse.lock().unwrap() = Some((400, "domain_prefix"));
    let refused = rig.put(&cluster_url("First"), &cluster_body()).await;
    assert_eq!((refused.status, refused.code()), (400, "InvalidRequestContent"));
    assert_eq!(refused.body["error"]["target"], "properties.dns.baseDomainPrefix");
    *rig.preflight.refuse.lock().unwrap() = Some((409, "x"));
    assert_eq!(rig.put(&cluster_url("First"), &cluster_body()).await.status, 409);
    rig.assert_nothing_stored().await;
    rig.stop().await;
}

#[tokio::test]
async fn lists_come_in_pages_that_lead_on() {
    let rig = Rig::new().await;
    for name in ["a", "b", "c", "d", "e"] {
        assert_eq!(rig.put(&cluster_url(name), &cluster_body()).await.status, 201);
    }
    for scope in ["", "/resourcegroups/TEAM"] {
        let mut next = format!(
            "/subscriptions/{SUBSCRIPTION}{scope}/providers/microsoft.redhatopenshift/HcpOpenShiftClusters?{VERSION}"
        );
        let mut names = Vec::new();
        let mut pages = 0;
        while !next.is_empty() {
            let page = rig.get(&next).await;
            assert_eq!(page.status, 200, "{}", page.body);
            names.extend(
                page.body["value"].as_array().unwrap().iter().map(|c| c["name"].as_str().unwrap().to_owned()),
            );
            next = page.body["nextLink"].as_str().unwrap_or_default().to_owned();
            pages += 1;
        }
        assert_eq!((names.join(""), pages), ("abcde".to_owned(), 3), "{scope}");
    }
    let elsewhere = format!(
        "/subscriptions/{SUBSCRIPTION}/resourceGroups/other/providers/Microsoft.RedHatOpenShift/hcpOpenShiftClusters"
    );
    assert_eq!(rig.get(&format!("{elsewhere}?{VERSION}")).await.body, json!({"value": []}));
    let odd = rig.get(&format!("{elsewhere}?{VERSION}&$skipToken=x")).await;
    assert_eq!((odd.status, odd.body["error"]["target"].as_str()), (400, Some("$skipToken")));
    rig.stop().await;
}

#[tokio::test]
async fn deletion_is_accepted_once_and_gives_up_what_was_under_way() {
    let rig = Rig::new().await;
    assert_eq!(rig.delete(&cluster_url("First")).await.status, 204);
    let created = rig.put(&cluster_url("First"), &cluster_body()).await;
    let deleting = rig.delete(&cluster_url("FIRST")).await;
    assert_eq!(deleting.status, 202);
    assert!(deleting.header("location").contains("/hcpOperationResults/"));
    assert_eq!(rig.get(deleting.header("azure-asyncoperation")).await.body["status"], "Deleting");
    let given_up = rig.get(created.header("azure-asyncoperation")).await.body;
    assert_eq!((&given_up["status"], &given_up["error"]["code"]), (&json!("Canceled"), &json!("Canceled")));
    let again = rig.delete(&cluster_url("First")).await;
    assert_eq!((again.status, again.code()), (409, "Conflict"));
    assert_eq!(rig.get(&cluster_url("First")).await.body["properties"]["provisioningState"], "Deleting");
    rig.stop().await;
}

#[tokio::test]
async fn operations_are_shown_to_whoever_asked_for_them_only() {
    let rig = Rig::new().await;
    let created = rig.put(&cluster_url("First"), &cluster_body()).await;
    let id = rig.records.operation_active().await.unwrap().remove(0);
    let mut other = id.clone();
    other.tenant_id = Some("another".into());
    let mut change = rig.records.change(crate::support::subscription()).unwrap();
    change.operation_replace(&other).unwrap().commit().await.unwrap();
    let hidden = rig.get(created.header("azure-asyncoperation")).await;
    assert_eq!((hidden.status, hidden.code()), (404, "ResourceNotFound"));
    rig.stop().await;
}
