//! What others have set for an object: quotas, and roles that gather.

use futures::future::join_all;
use k8s_openapi::api::core::v1::{ConfigMap, ResourceQuota};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::runtime::wait;
use pilothouse_store::Location;
use pilothouse_test_support::engine::Engine;
use serde_json::json;

use crate::support::{Cluster, Ground, PATIENCE, refused};

const RBAC: &str = "rbac.authorization.k8s.io";

fn map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({ "metadata": { "name": name } })).unwrap()
}

async fn until_used(quotas: &Api<ResourceQuota>, count: &str) {
    let used = |quota: Option<&ResourceQuota>| {
        let used = quota.and_then(|quota| quota.status.as_ref()?.used.as_ref()?.get("configmaps"));
        used == Some(&Quantity(count.to_owned()))
    };
    let written = wait::await_condition(quotas.clone(), "few", used);
    tokio::time::timeout(PATIENCE, written).await.unwrap().unwrap();
}

#[tokio::test]
async fn many_at_once_get_no_more_than_the_quota_allows() {
    let cluster = Cluster::start().await;
    let client = cluster.admin().await;
    let quotas: Api<ResourceQuota> = Api::namespaced(client.clone(), "default");
    let quota = json!({ "metadata": { "name": "few" }, "spec": { "hard": { "configmaps": "5" } } });
    quotas.create(&PostParams::default(), &serde_json::from_value(quota).unwrap()).await.unwrap();
    until_used(&quotas, "0").await;

    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let asked = (0..20).map(|number| {
        let maps = maps.clone();
        async move { maps.create(&PostParams::default(), &map(&format!("map-{number}"))).await }
    });
    let answers = join_all(asked).await;
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 5);
    let no = answers.into_iter().find(Result::is_err).unwrap();
    let (code, reason, message) = refused(no);
    assert_eq!((code, reason.as_str()), (403, "Forbidden"));
    assert!(
        message.ends_with("is forbidden: exceeded quota: few, requested: configmaps=1, used: configmaps=5, limited: configmaps=5"),
        "{message}"
    );
    until_used(&quotas, "5").await;

    // What is deleted is free again at once, whatever the status still says.
    let one = maps.list(&ListParams::default()).await.unwrap().items.remove(0).metadata.name.unwrap();
    maps.delete(&one, &DeleteParams::default()).await.unwrap();
    maps.create(&PostParams::default(), &map("again")).await.unwrap();
    // Another namespace has no quota.
    Api::namespaced(client, "kube-public").create(&PostParams::default(), &map("other")).await.unwrap();
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_servers_on_one_store_allow_no_more_than_one_would() {
    let (ground, other) = (Ground::new(), Ground::new());
    let Some(location) = Engine::Postgres.location(ground.directory.path()) else { return };
    let location: Location = location.parse().unwrap();
    let first = ground.start(location.clone()).await;
    std::fs::copy(first.ground.path("keyring"), other.path("keyring")).unwrap();
    let second = other.start(location).await;

    let clients = [first.admin().await, second.admin().await];
    let quotas: Api<ResourceQuota> = Api::namespaced(clients[0].clone(), "default");
    let quota = json!({ "metadata": { "name": "few" }, "spec": { "hard": { "configmaps": "7" } } });
    quotas.create(&PostParams::default(), &serde_json::from_value(quota).unwrap()).await.unwrap();
    // A list without a revision knows everything that was written before, and so does the server that answers it.
    let seen: Api<ResourceQuota> = Api::namespaced(clients[1].clone(), "default");
    assert_eq!(seen.list(&ListParams::default()).await.unwrap().items.len(), 1);

    let asked = (0..40).map(|number| {
        let maps: Api<ConfigMap> = Api::namespaced(clients[number % 2].clone(), "default");
        async move { maps.create(&PostParams::default(), &map(&format!("map-{number}"))).await }
    });
    let answers = join_all(asked).await;
    let refusals: Vec<_> = answers.into_iter().filter(Result::is_err).map(refused).collect();
    assert_eq!(refusals.len(), 33, "{refusals:?}");
    assert!(refusals.iter().all(|(code, _, _)| *code == 403), "{refusals:?}");
    until_used(&quotas, "7").await;
    second.stop().await;
    first.stop().await;
}

#[tokio::test]
async fn a_role_that_gathers_grants_what_the_others_do_and_nobody_grants_more_than_they_have() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin().await;
    let roles: Api<ClusterRole> = Api::all(admin.clone());
    let role = |value| serde_json::from_value::<ClusterRole>(value).unwrap();
    let gathering = role(json!({
        "metadata": { "name": "crew" },
        "aggregationRule": { "clusterRoleSelectors": [{ "matchLabels": { "for": "crew" } }] },
        "rules": [],
    }));
    roles.create(&PostParams::default(), &gathering).await.unwrap();
    let binding: ClusterRoleBinding = serde_json::from_value(json!({
        "metadata": { "name": "crew" },
        "roleRef": { "apiGroup": RBAC, "kind": "ClusterRole", "name": "crew" },
        "subjects": [{ "kind": "User", "name": "ada", "apiGroup": RBAC }],
    }))
    .unwrap();
    Api::all(admin.clone()).create(&PostParams::default(), &binding).await.unwrap();
    let part = role(json!({
        "metadata": { "name": "part", "labels": { "for": "crew" } },
        "rules": [
            { "apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"] },
            { "apiGroups": [RBAC], "resources": ["clusterroles"], "verbs": ["create"] },
        ],
    }));
    roles.create(&PostParams::default(), &part).await.unwrap();
    let gathered = |role: Option<&ClusterRole>| {
        role.is_some_and(|role| role.rules.as_ref().is_some_and(|rules| rules.len() == 2))
    };
    let written = wait::await_condition(roles.clone(), "crew", gathered);
    tokio::time::timeout(PATIENCE, written).await.unwrap().unwrap();

    let ada = cluster.client_as("ada", &[]).await;
    let maps: Api<ConfigMap> = Api::namespaced(ada.clone(), "default");
    maps.list(&ListParams::default()).await.unwrap();
    let made: Api<ClusterRole> = Api::all(ada);
    let own = json!({ "metadata": { "name": "same" }, "rules": [{ "apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"] }] });
    made.create(&PostParams::default(), &role(own)).await.unwrap();
    let more = json!({ "metadata": { "name": "more" }, "rules": [{ "apiGroups": [""], "resources": ["secrets"], "verbs": ["get"] }] });
    let (code, _, message) = refused(made.create(&PostParams::default(), &role(more)).await);
    assert_eq!(code, 403);
    assert_eq!(
        message,
        "clusterroles.rbac.authorization.k8s.io \"more\" is forbidden: user \"ada\" (groups=[\"system:authenticated\"]) is attempting to grant RBAC permissions not currently held:\n{APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"get\"]}"
    );
    cluster.stop().await;
}
