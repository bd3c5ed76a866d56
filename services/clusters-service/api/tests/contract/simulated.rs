use pilothouse_clusters_service_api::simulated::{Mode, Simulated};
use pilothouse_clusters_service_api::{
    Autoscaler, Autoscaling, BASES, ClusterState, ClusterUpdate, DOMAIN_PREFIX, ExternalAuthStateValue,
    ExternalAuthUpdate, ListQuery, NewExternalAuth, NewNodePool, NodePoolStateValue, NodePoolUpdate,
    TokenIssuer, Version,
};
use serde_json::Value;

use crate::support::{PATIENCE, asked_by, context, new_cluster, with_cluster};

fn new_pool(name: &str, operation: &str) -> NewNodePool {
    NewNodePool {
        replicas: Some(2),
        properties: asked_by(operation),
        ..NewNodePool::new(name.parse().unwrap())
    }
}

fn new_auth(name: &str) -> NewExternalAuth {
    let issuer = TokenIssuer { url: "https://issuer.test".into(), audiences: vec!["a".into()], ca: None };
    NewExternalAuth { issuer, properties: asked_by("auth"), ..NewExternalAuth::new(name.parse().unwrap()) }
}

#[tokio::test]
async fn everything_comes_true_at_once_when_nobody_holds_it() {
    let (_service, client, asked) = with_cluster().await;
    assert_eq!(asked.state, ClusterState::Validating);
    let cluster = client.cluster_get(&context(), &asked.id).await.unwrap();
    assert_eq!((cluster.state, cluster.status.dns_ready), (ClusterState::Ready, true));
    assert!(cluster.api.url.unwrap().starts_with("https://api.first."));

    let pool = client.node_pool_create(&context(), &asked.id, &new_pool("workers", "pool")).await.unwrap();
    let pool = client.node_pool_get(&context(), &asked.id, &pool.id).await.unwrap();
    assert_eq!((pool.status.state.value, pool.status.current_replicas), (NodePoolStateValue::Ready, 2));
    let scaling = Autoscaling { min_replica: 1, max_replica: 3 };
    let update = NodePoolUpdate {
        autoscaling: Some(scaling),
        properties: asked_by("scale"),
        ..NodePoolUpdate::default()
    };
    let changed = client.node_pool_update(&context(), &asked.id, &pool.id, &update).await.unwrap();
    assert_eq!((changed.replicas, changed.autoscaling), (None, Some(scaling)));

    let auth = client.external_auth_create(&context(), &asked.id, &new_auth("entra")).await.unwrap();
    let update = ExternalAuthUpdate {
        properties: asked_by("auth-change"),
        clients: Some(Vec::new()),
        ..Default::default()
    };
    client.external_auth_update(&context(), &asked.id, &auth.id, &update).await.unwrap();
    let auth = client.external_auth_get(&context(), &asked.id, &auth.id).await.unwrap();
    assert_eq!(auth.status.state.value, ExternalAuthStateValue::Ready);

    let update = ClusterUpdate {
        autoscaler: Some(Autoscaler { max_pod_grace_period: Some(30), ..Autoscaler::default() }),
        version: Some(Version::of_number("4.21.0")),
        properties: asked_by("change"),
        ..ClusterUpdate::default()
    };
    assert_eq!(
        client.cluster_update(&context(), &asked.id, &update).await.unwrap().state,
        ClusterState::Updating
    );
    let cluster = client.cluster_get(&context(), &asked.id).await.unwrap();
    assert_eq!((cluster.state, cluster.version.number()), (ClusterState::Ready, Some("4.21.0")));

    client.cluster_delete(&context(), &asked.id).await.unwrap();
    assert!(client.cluster_get(&context(), &asked.id).await.unwrap_err().is_not_found());
}

#[tokio::test]
async fn the_test_turns_the_crank_when_it_asked_to() {
    let service = Simulated::start(Mode::Explicit).await;
    let client = service.client();
    let cluster = client.cluster_create(&context(), &new_cluster("first")).await.unwrap();
    let state = async || client.cluster_get(&context(), &cluster.id).await.unwrap().state;
    for expected in [ClusterState::Pending, ClusterState::Installing, ClusterState::Ready] {
        assert!(service.advance(&cluster));
        assert_eq!(state().await, expected);
    }
    assert!(!service.advance(&cluster), "there is nothing behind ready");
    service.fail(&cluster, "OCM4001", "a check failed");
    let failed = client.cluster_get(&context(), &cluster.id).await.unwrap();
    assert_eq!(
        (failed.state, failed.status.provision_error_code.as_deref()),
        (ClusterState::Error, Some("OCM4001"))
    );

    client.cluster_delete(&context(), &cluster.id).await.unwrap();
    assert_eq!(state().await, ClusterState::Uninstalling);
    service.finish(&cluster);
    assert_eq!(service.clusters(), []);
}

#[tokio::test]
async fn one_thing_can_stand_still_while_everything_else_goes_on() {
    let service = Simulated::start(Mode::Explicit).await;
    let client = service.client();
    let slow = client.cluster_create(&context(), &new_cluster("slow")).await.unwrap();
    let pool = client.node_pool_create(&context(), &slow.id, &new_pool("workers", "pool")).await.unwrap();
    service.hold(&slow);
    service.set_mode(Mode::Automatic);
    let quick = client.cluster_create(&context(), &new_cluster("quick")).await.unwrap();
    let states =
        || service.clusters().iter().map(|cluster| (cluster.id.clone(), cluster.state)).collect::<Vec<_>>();
    assert_eq!(states(), [(slow.id.clone(), ClusterState::Validating), (quick.id, ClusterState::Ready)]);
    assert_ne!(
        service.node_pools()[0].status.state.value,
        NodePoolStateValue::Ready,
        "it waits for its cluster"
    );
    service.release(&slow);
    assert_eq!(states()[0].1, ClusterState::Ready);
    assert_eq!(
        client.node_pool_get(&context(), &slow.id, &pool.id).await.unwrap().status.current_replicas,
        2
    );
}

#[tokio::test]
async fn the_same_operation_again_changes_nothing_and_another_one_is_refused() {
    let (service, client, cluster) = with_cluster().await;
    let again = client.cluster_create(&context(), &new_cluster("first")).await.unwrap();
    assert_eq!(again.id, cluster.id);
    assert_eq!(service.clusters().len(), 1);
    let mut other = new_cluster("first");
    other.properties = asked_by("another");
    assert!(client.cluster_create(&context(), &other).await.unwrap_err().is_conflict());

    let pool = client.node_pool_create(&context(), &cluster.id, &new_pool("workers", "pool")).await.unwrap();
    let to = |replicas, operation: &str| NodePoolUpdate {
        replicas: Some(replicas),
        properties: asked_by(operation),
        ..NodePoolUpdate::default()
    };
    client.node_pool_update(&context(), &cluster.id, &pool.id, &to(3, "first")).await.unwrap();
    client.node_pool_update(&context(), &cluster.id, &pool.id, &to(4, "second")).await.unwrap();
    client.node_pool_update(&context(), &cluster.id, &pool.id, &to(3, "first")).await.unwrap();
    assert_eq!(service.node_pools()[0].replicas, Some(4), "the first one came again, too late");
    assert_eq!(service.asked()["first"], 2);
}

#[tokio::test]
async fn trying_changes_nothing_and_is_refused_for_the_same_reasons() {
    let (service, client, cluster) = with_cluster().await;
    let mut second = new_cluster("second");
    let tried = client.cluster_preflight(&context(), &second).await.unwrap();
    assert_eq!((tried.domain_prefix.as_str(), service.clusters().len()), ("second", 1));
    second.domain_prefix = Some("first".into());
    for error in [
        client.cluster_preflight(&context(), &second).await.unwrap_err(),
        client.cluster_create(&context(), &second).await.unwrap_err(),
    ] {
        assert!(error.is_invalid());
        assert_eq!(error.details()[0].target, DOMAIN_PREFIX);
    }
    let both = NodePoolUpdate {
        replicas: Some(1),
        autoscaling: Some(Autoscaling::default()),
        ..NodePoolUpdate::default()
    };
    client.node_pool_create(&context(), &cluster.id, &new_pool("workers", "pool")).await.unwrap();
    let id = "workers".parse().unwrap();
    let error = client.node_pool_update_preflight(&context(), &cluster.id, &id, &both).await.unwrap_err();
    assert_eq!(error.details()[0].target, "autoscaling");
    let newer = ClusterUpdate { version: Some(Version::of_number("4.22.0")), ..ClusterUpdate::default() };
    let error = client.cluster_update_preflight(&context(), &cluster.id, &newer).await.unwrap_err();
    assert_eq!(error.details()[0].target, "version.id");
    let bad = NewExternalAuth::new("entra".parse().unwrap());
    let error = client.external_auth_preflight(&context(), &cluster.id, &bad).await.unwrap_err();
    assert_eq!(error.details()[0].target, "issuer.url");
    assert_eq!((service.external_auths().len(), service.node_pools()[0].replicas), (0, Some(2)));
}

#[tokio::test]
async fn lists_are_searched_and_paged() {
    let service = Simulated::start(Mode::Explicit).await;
    let client = service.client();
    for name in ["a", "b", "c"] {
        client.cluster_create(&context(), &new_cluster(name)).await.unwrap();
    }
    let search = "azure.subscription_id = 'subscription' and azure.resource_name = 'b'";
    let found = client.cluster_list(&context(), &ListQuery::search(search)).await.unwrap();
    assert_eq!((found.total, found.items[0].name.as_str()), (1, "b"));
    let query = ListQuery { page: Some(2), size: Some(2), ..ListQuery::default() };
    let page = client.cluster_list(&context(), &query).await.unwrap();
    assert_eq!((page.page, page.size, page.total, page.items[0].name.as_str()), (2, 1, 3, "c"));
    assert!(
        client.cluster_list(&context(), &ListQuery::search("name like 'a%'")).await.unwrap_err().is_invalid()
    );

    let stable =
        ListQuery { size: Some(500), ..ListQuery::search("channel_group = 'stable' and enabled = true") };
    let versions = client.version_list(&context(), &stable).await.unwrap();
    assert!(
        versions.items.iter().any(|version| version.raw_id == "4.20.8" && version.default),
        "{versions:?}"
    );
    assert!(versions.items.iter().all(|version| !version.raw_id.starts_with("4.19.")));
    let candidate = client.version_get(&context(), "openshift-v4.20.8-candidate").await.unwrap();
    assert!(candidate.available_upgrades.contains(&"4.20.9".to_owned()), "{candidate:?}");
    assert!(client.version_get(&context(), "openshift-v4.20").await.unwrap_err().is_not_found());
}

#[tokio::test]
async fn both_bases_lead_to_the_same_cluster_but_only_one_to_credentials() {
    let (service, _, cluster) = with_cluster().await;
    let http = pilothouse_http::ClientBuilder::new(PATIENCE).build().unwrap();
    let get = async |path: String| -> (u16, Value) {
        let response = http.get(service.url().join(&path).unwrap()).send().await.unwrap();
        (response.status().as_u16(), serde_json::from_slice(&response.bytes().await.unwrap()).unwrap())
    };
    for base in BASES {
        let (status, body) = get(format!("{base}/clusters/{}", cluster.id)).await;
        assert_eq!(
            (status, &body["kind"], body["id"].as_str()),
            (200, &"Cluster".into(), Some(cluster.id.as_str()))
        );
        let (status, body) = get(format!("{base}/clusters/{}/inflight_checks", cluster.id)).await;
        assert_eq!((status, &body["kind"], &body["total"]), (200, &"InflightCheckList".into(), &0.into()));
        let (status, body) = get(format!("{base}/clusters/{:032}", 99)).await;
        assert_eq!(
            (status, &body["kind"], &body["code"]),
            (404, &"Error".into(), &"CLUSTERS-MGMT-404".into())
        );
    }
    let credentials = |base: &str| format!("{base}/clusters/{}/break_glass_credentials", cluster.id);
    assert_eq!(get(credentials(BASES[0])).await.0, 200);
    assert_eq!(get(credentials(BASES[1])).await.0, 404);
}
