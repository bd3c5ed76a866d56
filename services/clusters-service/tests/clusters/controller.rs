//! From a record to a cluster that answers, and back to nothing.

use std::time::Duration;

use pilothouse_clusters_service_api::{ClusterState, InflightCheckState, NodePoolStateValue};
use pilothouse_test_support::eventually;
use serde_json::{Value, json};

use crate::maestro::{
    hosted_cluster_report, managed_cluster_report, node_pool_report, refused_release_report,
};
use crate::support::{CORRELATION, PATIENCE, World, base_zone, context, new_cluster, new_node_pool};

const LABEL: &str = "api.openshift.com/id";

async fn until_posted(world: &World, name: &str) -> crate::maestro::Bundle {
    eventually("the bundle is posted", PATIENCE, || async {
        world.maestro.bundle(name).ok_or_else(|| format!("{:?}", world.maestro.names()))
    })
    .await
}

fn inner<'a>(work: &'a Value, kind: &str) -> &'a Value {
    let manifests = work["spec"]["workload"]["manifests"].as_array().unwrap();
    manifests.iter().find(|manifest| manifest["kind"] == kind).unwrap_or_else(|| panic!("no {kind}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_is_ready_once_its_control_plane_and_its_managed_cluster_are() {
    let world = World::new().await;
    let service = world.start().await;
    let cluster = service.create(&new_cluster("first")).await;
    let id = cluster.id.to_string();
    assert_eq!(cluster.state, ClusterState::Validating);

    // Step 5.
    until_posted(&world, &id).await;
    let group = "/subscriptions/11111111-2222-3333-4444-555555555555/resourcegroups/managed-first";
    let paths = world.cloud.paths();
    for path in [
        group.to_owned(),
        format!("{group}/providers/microsoft.network/dnszones/first.pilothouse.test"),
        format!("{group}/providers/microsoft.network/dnszones/first.pilothouse.test/a/api"),
        format!("{}/ns/first", base_zone().key()),
        format!("{group}/providers/microsoft.network/publicipaddresses/first-api"),
        format!("{group}/providers/microsoft.network/loadbalancers/first-api"),
        format!("{group}/providers/microsoft.managedidentity/userassignedidentities/first-control-plane"),
    ] {
        assert!(paths.contains(&path), "{path} is not in {paths:?}");
    }
    assert!(world.cloud.correlations().iter().all(|found| found == CORRELATION));

    // Step 6: the work, and inside of it what the work agent applies.
    let bundle = until_posted(&world, &id).await;
    assert_eq!(bundle.consumer, "local-cluster");
    assert_eq!(bundle.correlation.as_deref(), Some(CORRELATION));
    assert_eq!(bundle.metadata["labels"][LABEL], id.as_str());
    let work = &bundle.bundle.manifests[0];
    assert_eq!(
        (&work["kind"], &work["metadata"]["namespace"]),
        (&json!("ManifestWork"), &json!("local-cluster"))
    );
    assert_eq!(work["metadata"]["labels"][LABEL], id.as_str());
    let hosted_cluster = inner(work, "HostedCluster");
    assert_eq!(hosted_cluster["metadata"]["name"], "first");
    assert_eq!(hosted_cluster["metadata"]["namespace"], format!("ocm-local-{id}"));
    assert_eq!(hosted_cluster["metadata"]["labels"][LABEL], id.as_str());
    assert_eq!(hosted_cluster["metadata"]["annotations"]["pilothouse.dev/correlation-id"], CORRELATION);
    assert_eq!(hosted_cluster["spec"]["release"]["image"], "pilothouse/release:4.20.3");
    assert_eq!(hosted_cluster["spec"]["dns"]["baseDomain"], "pilothouse.test");
    assert_eq!(inner(work, "Namespace")["metadata"]["name"], format!("ocm-local-{id}"));
    let secret = inner(work, "Secret");
    assert_eq!(hosted_cluster["spec"]["pullSecret"]["name"], secret["metadata"]["name"]);
    let config = serde_json::to_value(&bundle.bundle.manifest_configs[0]).unwrap();
    assert_eq!(config["resourceIdentifier"]["resource"], "manifestworks");
    assert_eq!(config["feedbackRules"][0]["jsonPaths"][0], json!({"name": "status", "path": ".status"}));
    let managed = until_posted(&world, &format!("{id}-managed")).await;
    assert_eq!(managed.bundle.manifests[0]["kind"], "ManagedCluster");
    assert_eq!(managed.bundle.manifests[0]["metadata"]["name"], id.as_str());

    // Step 12, in the order in which news arrive.
    service.until_it_says(&cluster.id, "step 7").await;
    world.maestro.report(&id, hosted_cluster_report("False"));
    let waiting = service.until_it_says(&cluster.id, "the hosted control plane was asked").await;
    assert_eq!((waiting.state, waiting.api.url), (ClusterState::Installing, None));
    world.maestro.report(&id, hosted_cluster_report("True"));
    service.until_it_says(&cluster.id, "step 10").await;
    world.maestro.report(&format!("{id}-managed"), managed_cluster_report("True"));
    let ready = service.until(&cluster.id, ClusterState::Ready).await;
    assert_eq!(ready.api.url.as_deref(), Some("https://api.first.pilothouse.test:9443"));
    assert!(ready.status.dns_ready);
    assert_eq!(world.maestro.log().len(), 2, "what is there is not posted again: {:?}", world.maestro.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn node_pools_follow_their_cluster_and_go_before_it() {
    let world = World::new().await;
    let service = world.start().await;
    let cluster = service.create(&new_cluster("first")).await;
    let id = cluster.id.to_string();
    let name = format!("{id}-pool-workers");
    let pool =
        service.client.node_pool_create(&context(), &cluster.id, &new_node_pool("workers")).await.unwrap();
    until_posted(&world, &format!("{id}-managed")).await;
    service.until_node_pool(&pool, NodePoolStateValue::Pending).await;
    assert_eq!(world.maestro.bundle(&name).map(|bundle| bundle.id), None, "its namespace is not there yet");

    world.maestro.report(&id, hosted_cluster_report("True"));
    world.maestro.report(&format!("{id}-managed"), managed_cluster_report("True"));
    let bundle = until_posted(&world, &name).await;
    let node_pool = inner(&bundle.bundle.manifests[0], "NodePool");
    assert_eq!(node_pool["metadata"]["name"], "first-workers");
    assert_eq!(node_pool["metadata"]["namespace"], format!("ocm-local-{id}"));
    assert_eq!(
        (&node_pool["spec"]["clusterName"], &node_pool["spec"]["replicas"]),
        (&json!("first"), &json!(2))
    );
    world.maestro.report(&name, node_pool_report("False", 1));
    let waiting = service.until_node_pool(&pool, NodePoolStateValue::Installing).await;
    assert!(waiting.status.message.contains("of 2 nodes") || waiting.status.message.contains("apply"));
    world.maestro.report(&name, node_pool_report("True", 2));
    service.until_node_pool(&pool, NodePoolStateValue::Ready).await;
    assert_eq!(service.cluster(&cluster.id).await.status.current_compute, 2);

    service.client.cluster_delete(&context(), &cluster.id).await.unwrap();
    world.maestro.until_deleting(&name).await;
    assert!(!world.maestro.bundle(&id).unwrap().deleting, "the control plane outlives its nodes");
    let refusal = service.client.node_pool_create(&context(), &cluster.id, &new_node_pool("late")).await;
    assert!(refusal.unwrap_err().is_conflict());

    world.maestro.finish_delete(&name);
    world.maestro.until_deleting(&id).await;
    world.maestro.until_deleting(&format!("{id}-managed")).await;
    assert!(!world.cloud.paths().is_empty(), "the cloud outlives the control plane");
    world.maestro.finish_delete(&id);
    world.maestro.finish_delete(&format!("{id}-managed"));
    service.until_gone(&cluster.id).await;
    assert_eq!(world.cloud.paths(), Vec::<String>::new());

    // Everything it reserved is free again.
    let again = service.create(&new_cluster("first")).await;
    assert_eq!(again.domain_prefix, "first");
    assert_ne!(again.id, cluster.id);
}

#[tokio::test(flavor = "multi_thread")]
async fn news_that_were_missed_are_found_when_maestro_is_back() {
    let world = World::new().await;
    let service = world.start().await;
    let cluster = service.create(&new_cluster("first")).await;
    let id = cluster.id.to_string();
    until_posted(&world, &format!("{id}-managed")).await;
    service.until_it_says(&cluster.id, "step 7").await;
    world.maestro.report_quietly(&id, hosted_cluster_report("True"));
    world.maestro.report_quietly(&format!("{id}-managed"), managed_cluster_report("True"));
    world.maestro.drop_subscribers();
    service.until(&cluster.id, ClusterState::Ready).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_say_which_step_what_was_seen_and_what_to_do() {
    let world = World::new().await;
    let service = world.start().await;
    world.cloud.set_down(true);
    let cluster = service.create(&new_cluster("first")).await;
    let waiting = service.until_it_says(&cluster.id, "come back tomorrow").await;
    assert_eq!(waiting.state, ClusterState::Pending);
    world.time.advance(Duration::from_secs(3600));
    let failed = service.until(&cluster.id, ClusterState::Error).await;
    assert_eq!(failed.status.provision_error_code.as_deref(), Some("CloudResourcesFailed"));
    let message = failed.status.provision_error_message.unwrap();
    assert!(
        message.starts_with("Step 5 (services/clusters-service)") && message.contains("To do: "),
        "{message}"
    );

    // It is tried again all the same, and what works now counts.
    world.cloud.set_down(false);
    world.maestro.play_agent();
    let ready = service.until(&cluster.id, ClusterState::Ready).await;
    assert_eq!(ready.status.provision_error_code, None);
    let checks = service.client.cluster_inflight_checks(&context(), &cluster.id).await.unwrap();
    assert_eq!(checks.items[0].state, InflightCheckState::Passed);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_can_never_work_fails_at_once_and_what_takes_too_long_at_its_deadline() {
    let world = World::new().await;
    let service = world.start().await;
    let refused = service.create(&new_cluster("refused")).await;
    until_posted(&world, refused.id.as_str()).await;
    world.maestro.report(refused.id.as_str(), refused_release_report());
    let failed = service.until(&refused.id, ClusterState::Error).await;
    assert_eq!(failed.status.provision_error_code.as_deref(), Some("InvalidReleaseImage"));
    assert!(failed.status.description.contains("there is no such release"));

    let slow = service.create(&new_cluster("slow")).await;
    until_posted(&world, &format!("{}-managed", slow.id)).await;
    service.until_it_says(&slow.id, "step 7").await;
    world.time.advance(Duration::from_secs(3600));
    world.maestro.report(slow.id.as_str(), hosted_cluster_report("False"));
    let failed = service.until(&slow.id, ClusterState::Error).await;
    assert_eq!(failed.status.provision_error_code.as_deref(), Some("ClusterInstallTimeout"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resource_group_of_somebody_else_is_left_alone() {
    let world = World::new().await;
    let service = world.start().await;
    let group = "/subscriptions/11111111-2222-3333-4444-555555555555/resourceGroups/managed-first";
    world.cloud.put(group, json!({"location": "local", "managedBy": "/subscriptions/x/other"}));
    let cluster = service.create(&new_cluster("first")).await;
    // It is the customer's to mend, so it fails at once, and the check says why.
    let failed = service.until(&cluster.id, ClusterState::Error).await;
    assert_eq!(failed.status.provision_error_code.as_deref(), Some("OCM4001"));
    let message = failed.status.provision_error_message.unwrap();
    assert!(
        message.contains("belongs to `/subscriptions/x/other`") && message.contains("To do: "),
        "{message}"
    );
    let checks = service.client.cluster_inflight_checks(&context(), &cluster.id).await.unwrap();
    assert_eq!((checks.total, checks.items[0].name.as_str()), (1, "managed_resource_group"));
    assert_eq!(checks.items[0].state, InflightCheckState::Failed);
    assert!(checks.items[0].error().unwrap().contains("name another managed resource group"), "{checks:?}");
    service.client.cluster_delete(&context(), &cluster.id).await.unwrap();
    service.until_gone(&cluster.id).await;
    assert_eq!(world.cloud.paths(), [group.to_lowercase()]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resource_group_of_a_former_cluster_of_the_same_name_is_somebody_elses() {
    let group = "/subscriptions/11111111-2222-3333-4444-555555555555/resourceGroups/managed-first";
    let resource = "/subscriptions/11111111-2222-3333-4444-555555555555/resourcegroups/customer/providers/\
                    microsoft.redhatopenshift/hcpopenshiftclusters/first";
    for tags in [json!({LABEL: "another"}), json!({}), Value::Null] {
        let world = World::new().await;
        let service = world.start().await;
        world
            .cloud
            .put(group, json!({"location": "local", "managedBy": resource, "tags": tags, "etag": "3"}));
        let cluster = service.create(&new_cluster("first")).await;
        assert_eq!(cluster.azure.resource_id(), resource);
        let failed = service.until(&cluster.id, ClusterState::Error).await;
        assert_eq!(failed.status.provision_error_code.as_deref(), Some("OCM4001"), "{failed:?}");
        service.client.cluster_delete(&context(), &cluster.id).await.unwrap();
        service.until_gone(&cluster.id).await;
        assert_eq!(world.cloud.paths(), [group.to_lowercase()], "{tags}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resource_group_is_deleted_only_as_it_was_read() {
    let world = World::new().await;
    let service = world.start().await;
    world.maestro.play_agent();
    let cluster = service.create(&new_cluster("first")).await;
    service.until(&cluster.id, ClusterState::Ready).await;
    service.client.cluster_delete(&context(), &cluster.id).await.unwrap();
    service.until_gone(&cluster.id).await;
    let group = "/subscriptions/11111111-2222-3333-4444-555555555555/resourcegroups/managed-first";
    assert_eq!(
        world.cloud.deleted(),
        [(format!("{}/ns/first", base_zone().key()), "1".to_owned()), (group.to_owned(), "1".to_owned())]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn records_and_resources_of_somebody_else_are_refused_and_left_alone() {
    let group = "/subscriptions/11111111-2222-3333-4444-555555555555/resourceGroups/managed-first/providers";
    let record = format!("{group}/Microsoft.Network/dnsZones/first.pilothouse.test/A/api");
    let delegation = format!("{}/NS/first", base_zone());
    let other = json!({LABEL: "another"});
    for (path, found, owner) in [
        (delegation.clone(), json!({"properties": {"metadata": other}, "etag": "7"}), "cluster `another`"),
        (record, json!({"properties": {"TTL": 5}, "etag": "7"}), "somebody else"),
        (
            format!("{group}/Microsoft.Network/loadBalancers/first-api"),
            json!({"tags": other}),
            "cluster `another`",
        ),
        (
            format!("{group}/Microsoft.Network/dnsZones/first.pilothouse.test"),
            json!({"tags": {"owner": "ada"}}),
            "somebody else",
        ),
        (format!("{group}/Microsoft.Network/publicIPAddresses/first-api"), json!({}), "somebody else"),
        (
            format!("{group}/Microsoft.ManagedIdentity/userAssignedIdentities/first-data-plane"),
            json!({"tags": other}),
            "cluster `another`",
        ),
    ] {
        let world = World::new().await;
        let service = world.start().await;
        world.cloud.put(&path, found.clone());
        let cluster = service.create(&new_cluster("first")).await;
        let told = service.until_it_says(&cluster.id, &format!("belongs to {owner}")).await;
        let description = told.status.description;
        assert!(description.contains(&path) && description.contains("remove it, or"), "{description}");
        assert_eq!(world.cloud.get(&path), Some(found.clone()), "it is as it was");
        // What is in the cluster's own group goes with the group, the rest stays.
        service.client.cluster_delete(&context(), &cluster.id).await.unwrap();
        service.until_gone(&cluster.id).await;
        let rest: Vec<_> = if path == delegation { vec![path.to_lowercase()] } else { Vec::new() };
        assert_eq!(world.cloud.paths(), rest);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_leads_to_the_load_balancer_by_way_of_its_own_zone() {
    let world = World::new().await;
    let service = world.start().await;
    let cluster = service.create(&new_cluster("first")).await;
    until_posted(&world, cluster.id.as_str()).await;
    let mark = json!({LABEL: cluster.id});
    let group = "/subscriptions/11111111-2222-3333-4444-555555555555/resourceGroups/managed-first/providers";
    let record = world.cloud.get(&format!("{group}/Microsoft.Network/dnsZones/first.pilothouse.test/A/api"));
    let expected = json!({"TTL": 60, "ARecords": [{"ipv4Address": "127.0.0.1"}], "metadata": mark});
    assert_eq!(record.unwrap()["properties"], expected);
    let delegation = world.cloud.get(&format!("{}/NS/first", base_zone())).unwrap();
    let expected = json!({"TTL": 60, "NSRecords": [{"nsdname": "ns-1.pilothouse.test."}], "metadata": mark});
    assert_eq!(delegation["properties"], expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_somebody_removes_from_the_cloud_is_made_again() {
    let world = World::new().await;
    world.maestro.play_agent();
    let often = |config: &mut pilothouse_clusters_service::Config| {
        config.resync = pilothouse_runtime::config::Duration::from_secs(1);
    };
    let service = world.start_with(often).await;
    let cluster = service.create(&new_cluster("first")).await;
    service.until(&cluster.id, ClusterState::Ready).await;
    let there = world.cloud.paths();
    let delegation = base_zone().child("NS", "first").key();
    let removed: Vec<_> = there
        .iter()
        .filter(|path| {
            ["/loadbalancers/", "/a/api", "/userassignedidentities/first-control"]
                .iter()
                .any(|part| path.contains(part))
        })
        .chain([&delegation])
        .collect();
    assert_eq!(removed.len(), 4, "{there:?}");
    for path in removed {
        world.cloud.remove(path);
        eventually("it is there again", PATIENCE, || async {
            let now = world.cloud.paths();
            if now == there { Ok(()) } else { Err(format!("without {path}: {now:?}")) }
        })
        .await;
    }
    assert_eq!(service.cluster(&cluster.id).await.state, ClusterState::Ready);
    // What is whole is only looked at.
    let writes = || world.cloud.log().iter().filter(|request| !request.starts_with("GET")).count();
    let before = writes();
    let looks = world.cloud.log().len();
    eventually("it was looked at again", PATIENCE, || async {
        if world.cloud.log().len() > looks + 6 { Ok(()) } else { Err("not yet".to_owned()) }
    })
    .await;
    assert_eq!(writes(), before);
}
