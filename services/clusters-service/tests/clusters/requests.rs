//! What callers can ask, and how.

use std::process::Command;

use pilothouse_clusters_service_api::{DOMAIN_PREFIX, ListQuery, properties};
use pilothouse_test_support::requirement::Requirement;
use serde_json::Value;

use crate::support::{CORRELATION, World, context, new_cluster, new_node_pool};

const CURL: Requirement = Requirement::new("curl", "curl");

/// Runs a line as somebody would type it.
fn shell(line: &str) -> Value {
    let output = Command::new("sh").arg("-c").arg(line).output().unwrap();
    assert!(output.status.success(), "{line}: {output:?}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{line}: {error}: {output:?}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_commands_of_the_creation_flow_work_as_typed() {
    if CURL.find().is_none() {
        return;
    }
    let world = World::new().await;
    let service = world.start().await;
    let cluster = service.create(&new_cluster("First")).await;
    service.create(&new_cluster("second")).await;
    let address = service.address;

    let found = shell(&format!(
        "HCP_SUBSCRIPTION_ID=11111111-2222-3333-4444-555555555555; HCP_RESOURCE_GROUP_NAME=Customer; \
         curl -sG http://{address}/api/clusters_mgmt/v1/clusters --data-urlencode \
         \"search=azure.subscription_id='$HCP_SUBSCRIPTION_ID' and \
         azure.resource_group_name='$HCP_RESOURCE_GROUP_NAME' and azure.resource_name='First'\""
    ));
    assert_eq!((found["kind"].as_str(), found["total"].as_u64()), (Some("ClusterList"), Some(1)));
    let item = &found["items"][0];
    assert_eq!(item["id"], cluster.id.as_str());
    assert_eq!(item["azure"]["resource_group_name"], "customer");
    assert!(item["status"]["state"].is_string() && item["status"]["description"].is_string());
    assert_eq!(item["properties"][properties::CORRELATION_ID], CORRELATION);

    // The `href` begins with a slash, and so does what is typed before it.
    let href = item["href"].as_str().unwrap();
    let shard = shell(&format!("curl -sG http://{address}/{href}/provision_shard"));
    assert_eq!(shard["maestro_config"]["consumer_name"], "local-cluster");
    assert!(shard["azure_shard"]["cx_managed_identities_key_vault_url"].as_str().unwrap().contains("mi-1"));

    let other = shell(&format!("curl -s http://{address}/api/aro_hcp/v1alpha1/clusters/{}", cluster.id));
    assert_eq!(other["id"], cluster.id.as_str());
    let status = shell(&format!("curl -s http://{address}{href}/status"));
    assert!(status["state"].is_string(), "{status}");
    let refused = shell(&format!("curl -sG http://{address}/api/clusters_mgmt/v1/clusters -d search=nome"));
    assert_eq!((&refused["kind"], &refused["code"]), (&"Error".into(), &"CLUSTERS-MGMT-400".into()));
    let nothing = shell(&format!("curl -s http://{address}/api/clusters_mgmt/v2"));
    assert_eq!(nothing["status"], 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn creating_twice_creates_once_and_another_operation_is_refused() {
    let world = World::new().await;
    let service = world.start().await;
    let first = service.create(&new_cluster("first")).await;
    let mut again = new_cluster("FIRST");
    again.properties = new_cluster("first").properties;
    assert_eq!(service.create(&again).await.id, first.id);
    assert_eq!(first.domain_prefix, "first");

    let mut other = new_cluster("first");
    other.properties.insert(properties::OPERATION_ID.into(), "another".into());
    let refusal = service.client.cluster_create(&context(), &other).await.unwrap_err();
    assert!(refusal.is_conflict(), "{refusal:?}");

    let pool = new_node_pool("workers");
    service.client.node_pool_create(&context(), &first.id, &pool).await.unwrap();
    service.client.node_pool_create(&context(), &first.id, &pool).await.unwrap();
    let query = ListQuery::default();
    let pools = service.client.node_pool_list(&context(), &first.id, &query).await.unwrap();
    assert_eq!(pools.total, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_who_want_one_prefix_exactly_one_gets_it() {
    let world = World::new().await;
    let service = world.start().await;
    let wanted = (0..8).map(|index| {
        let mut new = new_cluster(&format!("cluster-{index}"));
        new.domain_prefix = Some("contested".into());
        let client = &service.client;
        async move { client.cluster_create(&context(), &new).await }
    });
    let outcomes = futures::future::join_all(wanted).await;
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1);
    for refusal in outcomes.iter().filter_map(|outcome| outcome.as_ref().err()) {
        assert!(refusal.is_invalid());
        let detail = &refusal.details()[0];
        assert_eq!((detail.target.as_str(), detail.code.as_str()), (DOMAIN_PREFIX, "DomainPrefixTaken"));
    }

    // Who only has a name in common gets a prefix of their own.
    let given = service.create(&new_cluster("Contested")).await.domain_prefix;
    assert!(given.starts_with("contested-") && given.len() <= 15, "{given}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_refuses_what_creating_would_and_changes_nothing() {
    let world = World::new().await;
    let service = world.start().await;
    let mut new = new_cluster("first");
    new.domain_prefix = Some("mine".into());
    let preview = service.client.cluster_preflight(&context(), &new).await.unwrap();
    assert_eq!(preview.domain_prefix, "mine");
    let query = ListQuery::default();
    assert_eq!(service.client.cluster_list(&context(), &query).await.unwrap().total, 0);

    service.create(&new).await;
    let mut second = new_cluster("second");
    second.domain_prefix = Some("mine".into());
    let refusal = service.client.cluster_preflight(&context(), &second).await.unwrap_err();
    assert_eq!(refusal.details()[0].target, DOMAIN_PREFIX);
    second.domain_prefix = None;
    second.version.id = "openshift-v3.11.0".into();
    let refusal = service.client.cluster_preflight(&context(), &second).await.unwrap_err();
    assert_eq!(refusal.details()[0].target, "version.id");
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_come_in_pages_and_in_the_order_asked_for() {
    let world = World::new().await;
    let service = world.start().await;
    for name in ["bb", "aa", "dd", "cc"] {
        service.create(&new_cluster(name)).await;
    }
    let query = ListQuery {
        search: Some("name <> 'dd'".into()),
        order: Some("name desc".into()),
        page: Some(2),
        size: Some(2),
    };
    let page = service.client.cluster_list(&context(), &query).await.unwrap();
    let names: Vec<_> = page.items.iter().map(|cluster| cluster.name.as_str()).collect();
    assert_eq!((page.total, page.page, page.size, names), (3, 2, 1, vec!["aa"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn node_pools_are_searched_and_sorted_and_what_is_none_is_refused_where_it_goes_wrong() {
    let world = World::new().await;
    let service = world.start().await;
    let cluster = service.create(&new_cluster("first")).await;
    for (name, size) in [("aa", "Standard_D8s_v3"), ("bb", "Standard_D4s_v3"), ("cc", "Standard_D4s_v3")] {
        let mut new = new_node_pool(name);
        new.azure_node_pool.vm_size = size.into();
        service.client.node_pool_create(&context(), &cluster.id, &new).await.unwrap();
    }
    let query = |search: &str, order: &str| ListQuery {
        search: Some(search.into()),
        order: Some(order.into()),
        ..ListQuery::default()
    };
    let ids = async |query: ListQuery| {
        let list = service.client.node_pool_list(&context(), &cluster.id, &query).await.unwrap();
        list.items.iter().map(|pool| pool.id.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(ids(query("azure_node_pool.vm_size = 'Standard_D4s_v3'", "id desc")).await, ["cc", "bb"]);
    assert_eq!(ids(query("id in ('aa', 'cc')", "id")).await, ["aa", "cc"]);
    assert_eq!(ids(query(" ", "")).await, ["aa", "bb", "cc"]);
    for (search, order, words) in [
        ("vm_size = 'x'", "id", "at character 1: there is no field `vm_size`"),
        ("id = ", "id", "the search is not valid"),
        ("id = 'aa'", "size", "there is no field `size`"),
    ] {
        let refused = service.client.node_pool_list(&context(), &cluster.id, &query(search, order)).await;
        let refusal = refused.unwrap_err();
        assert!(refusal.is_invalid() && refusal.to_string().contains(words), "{search}: {refusal}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn names_that_would_lead_elsewhere_in_the_cloud_are_refused_with_their_field() {
    let world = World::new().await;
    let service = world.start().await;
    let long = "a".repeat(2000);
    for (field, name) in [
        ("subscription_id", "x/../../y"),
        ("subscription_id", "11111111-2222-3333-4444-55555555555/"),
        ("resource_group_name", "x/../../y"),
        ("resource_group_name", "ends-with."),
        ("resource_group_name", &long),
        ("resource_name", "a\u{7}b"),
        ("resource_name", "-a"),
        ("resource_name", &long),
        ("managed_resource_group_name", "x/../../y"),
        ("managed_resource_group_name", "a?b"),
        ("managed_resource_group_name", "a\nb"),
        ("managed_resource_group_name", ".."),
    ] {
        let mut new = serde_json::to_value(new_cluster("first")).unwrap();
        new["azure"][field] = name.into();
        let (status, refused) = service.call("POST", "/api/clusters_mgmt/v1/clusters", &new).await;
        assert_eq!(status, 400, "{field}: {refused}");
        assert_eq!(refused["details"][0]["target"], format!("azure.{field}"), "{refused}");
    }
}
