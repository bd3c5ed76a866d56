//! Who gets in to a hosted cluster, and by which name.

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::authentication::v1::{SelfSubjectReview, UserInfo};
use k8s_openapi::api::core::v1::{ConfigMap, Event, Namespace, Pod, Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::config::Kubeconfig;
use kube::{Api, Client};
use pilothouse_crds::{HostedCluster, Route};
use pilothouse_kubeapi::testing::TokenIssuer;
use pilothouse_pki::Certificate;
use pilothouse_test_support::eventually;
use serde_json::{Value, json};

use crate::support::{CONTROL_PLANE, NAMESPACE, PATIENCE, Region, connect, create};

const IMAGE: &str = "pilothouse/release:4.20.0";

/// A client of the hosted cluster that shows a token.
async fn bearer(region: &Region, token: &str) -> Client {
    let secret = region.api::<Secret>(NAMESPACE).get("first-admin-kubeconfig").await.unwrap();
    let kubeconfig = secret.data.unwrap().remove("kubeconfig").unwrap().0;
    let mut kubeconfig: Value = serde_saphyr::from_slice(&kubeconfig).unwrap();
    kubeconfig["users"][0]["user"] = json!({ "token": token });
    connect(&kubeconfig.to_string()).await
}

async fn who(client: &Client) -> kube::Result<UserInfo> {
    let reviews: Api<SelfSubjectReview> = Api::all(client.clone());
    let review = reviews.create(&PostParams::default(), &SelfSubjectReview::default()).await;
    review.map(|review| review.status.unwrap().user_info.unwrap())
}

fn code<T>(outcome: kube::Result<T>) -> u16 {
    match outcome {
        Ok(_) => 200,
        Err(kube::Error::Api(status)) => status.code,
        Err(other) => panic!("{other}"),
    }
}

#[tokio::test]
async fn a_person_gets_in_with_a_token_of_the_issuer_that_the_cluster_names() {
    let issuer = TokenIssuer::start().await.unwrap();
    let region = Region::start().await;
    let authentication = json!({ "type": "OIDC", "oidcProviders": [{
        "name": "people",
        "issuer": {
            "issuerURL": issuer.url(), "audiences": ["test"],
            "issuerCertificateAuthority": { "name": "issuer-authority" },
        },
        "claimMappings": {
            "username": { "claim": "sub", "prefixPolicy": "Prefix", "prefix": { "prefixString": "people:" } },
            "groups": { "claim": "groups", "prefix": "" },
        },
        "claimValidationRules": [
            { "type": "RequiredClaim", "requiredClaim": { "claim": "tid", "requiredValue": "ours" } },
        ],
    }] });
    let configuration = json!({ "authentication": authentication });
    region
        .create_cluster_with(IMAGE, |cluster| {
            cluster.spec.configuration = serde_json::from_value(configuration).unwrap();
        })
        .await;
    let refused = region.eventually_condition("ValidConfiguration", "False").await;
    assert!(refused.message.contains("issuer-authority does not exist"), "{}", refused.message);
    let config_maps: Api<ConfigMap> = region.api(NAMESPACE);
    let bundle = json!({
        "metadata": { "name": "issuer-authority" }, "data": { "ca-bundle.crt": issuer.authority_pem() },
    });
    create(&config_maps, bundle).await;
    region.run_control_plane().await;
    region.eventually_condition("Available", "True").await;
    region.eventually_condition("ValidOIDCConfiguration", "True").await;
    let settings = region.api::<ConfigMap>(CONTROL_PLANE).get("kube-apiserver").await.unwrap().data.unwrap();
    let setting = "authentication_config = \"/etc/kubernetes/auth/auth.json\"";
    assert!(settings["control-plane.toml"].contains(setting), "{}", settings["control-plane.toml"]);

    let claims = json!({ "sub": "ada", "groups": ["crew"], "tid": "ours" });
    let ada = bearer(&region, &issuer.token(&claims).unwrap()).await;
    let user = eventually("the issuer's keys were read", PATIENCE, async || who(&ada).await).await;
    assert_eq!(user.username.as_deref(), Some("people:ada"));
    assert_eq!(user.groups.unwrap(), ["crew", "system:authenticated"]);
    let theirs = json!({ "sub": "ada", "tid": "theirs" });
    assert_eq!(code(who(&bearer(&region, &issuer.token(&theirs).unwrap()).await).await), 401);
    // Nobody becomes what Kubernetes itself is.
    let claims = json!({ "sub": "eve", "groups": ["system:masters"], "tid": "ours" });
    assert_eq!(code(who(&bearer(&region, &issuer.token(&claims).unwrap()).await).await), 401);

    let accounts: Api<ServiceAccount> = Api::namespaced(ada, "default");
    assert_eq!(code(accounts.list(&ListParams::default()).await), 403);
    let group = "rbac.authorization.k8s.io";
    let binding: Api<ClusterRoleBinding> = Api::all(region.hosted_client().await);
    let crew = json!({
        "metadata": { "name": "crew" },
        "roleRef": { "apiGroup": group, "kind": "ClusterRole", "name": "view" },
        "subjects": [{ "kind": "Group", "name": "crew", "apiGroup": group }],
    });
    create(&binding, crew).await;
    assert_eq!(code(accounts.list(&ListParams::default()).await), 200);

    // Without the issuer there is nothing of it, and the control plane is to be started anew.
    let hash = async || {
        let set = region.api::<StatefulSet>(CONTROL_PLANE).get("kube-apiserver").await.unwrap();
        let annotations = set.spec.unwrap().template.metadata.unwrap().annotations.unwrap();
        annotations["component.hypershift.openshift.io/config-hash"].clone()
    };
    let before = hash().await;
    region.change_cluster(json!({ "spec": { "configuration": null } })).await;
    region.eventually_gone(&region.api::<ConfigMap>(CONTROL_PLANE), "auth-config").await;
    eventually("the pod is to be replaced", PATIENCE, async || {
        let now = hash().await;
        if now == before { Err(now) } else { Ok(()) }
    })
    .await;
    region.stop().await;
}

#[tokio::test]
async fn an_api_server_has_the_name_that_its_owner_chose_until_it_is_taken_back() {
    let region = Region::start().await;
    region
        .create_cluster_with(IMAGE, |cluster| {
            cluster.spec.kube_api_server_dns_name = Some("api.crew.svc".to_owned());
        })
        .await;
    let refused = region.eventually_condition("ValidConfiguration", "False").await;
    assert!(refused.message.contains("spec.kubeAPIServerDNSName: `api.crew.svc`"), "{}", refused.message);

    region.change_cluster(json!({ "spec": { "kubeAPIServerDNSName": "api.crew.example" } })).await;
    region.run_control_plane().await;
    region.eventually_condition("Available", "True").await;
    let status = region.cluster().await.status.unwrap();
    assert_eq!(status.custom_kubeconfig.unwrap().name, "first-custom-admin-kubeconfig");
    let secrets: Api<Secret> = region.api(NAMESPACE);
    let custom = secrets.get("first-custom-admin-kubeconfig").await.unwrap().data.unwrap();
    assert_eq!(custom["kubeconfig"].0, region.secret("custom-admin-kubeconfig", "kubeconfig").await);
    let kubeconfig = Kubeconfig::from_yaml(std::str::from_utf8(&custom["kubeconfig"].0).unwrap()).unwrap();
    let cluster = kubeconfig.clusters[0].cluster.clone().unwrap();
    let port = status.control_plane_endpoint.unwrap().port;
    assert_eq!(cluster.server, Some(format!("https://api.crew.example:{port}")));
    let routes: Api<Route> = region.api(CONTROL_PLANE);
    assert_eq!(routes.get("kube-apiserver-custom").await.unwrap().spec.host, "api.crew.example");
    let is_certified = async || {
        let serving = Certificate::from_pem(&region.secret("kas-server-crt", "tls.crt").await).unwrap();
        serving.names().contains(&"api.crew.example".parse().unwrap())
    };
    assert!(is_certified().await);

    region.change_cluster(json!({ "spec": { "kubeAPIServerDNSName": null } })).await;
    region.eventually_gone(&secrets, "first-custom-admin-kubeconfig").await;
    region.eventually_gone(&region.api::<Secret>(CONTROL_PLANE), "custom-admin-kubeconfig").await;
    region.eventually_gone(&routes, "kube-apiserver-custom").await;
    eventually("the status forgets it", PATIENCE, async || {
        let named = region.cluster().await.status.unwrap().custom_kubeconfig;
        named.map_or(Ok(()), |named| Err(format!("{named:?}")))
    })
    .await;
    eventually("the certificate forgets it", PATIENCE, async || {
        if is_certified().await { Err("it is still in it") } else { Ok(()) }
    })
    .await;
    region.stop().await;
}

#[tokio::test]
async fn a_name_that_another_cluster_has_is_refused_before_anything_is_made() {
    let region = Region::start().await;
    let namespaces: Api<Namespace> = Api::all(region.client.clone());
    create(&namespaces, json!({ "metadata": { "name": "clusters-other" } })).await;
    let route = json!({
        "metadata": {
            "name": "kube-apiserver-custom", "labels": { "pilothouse.dev/managed-by": "hypershift" },
        },
        "spec": { "host": "api.crew.example", "to": { "kind": "Service", "name": "kube-apiserver" } },
    });
    create(&region.api::<Route>("clusters-other"), route).await;
    region
        .create_cluster_with(IMAGE, |cluster| {
            cluster.spec.kube_api_server_dns_name = Some("api.crew.example".to_owned());
        })
        .await;
    let refused = region.eventually_condition("ValidConfiguration", "False").await;
    let why = "spec.kubeAPIServerDNSName: `api.crew.example` is the name of another HostedCluster";
    assert!(refused.message.contains(why), "{}", refused.message);
    assert_eq!(namespaces.get_opt(CONTROL_PLANE).await.unwrap(), None);

    region.change_cluster(json!({ "spec": { "kubeAPIServerDNSName": "api2.crew.example" } })).await;
    region.eventually_there(&region.api::<Route>(CONTROL_PLANE), "kube-apiserver-custom").await;
    region.stop().await;
}

#[tokio::test]
async fn what_pods_were_asked_to_be_goes_with_the_asking() {
    let region = Region::start().await;
    region
        .create_cluster_with(IMAGE, |cluster| {
            cluster.spec.node_selector = [("disk".to_owned(), "fast".to_owned())].into();
            cluster.spec.labels = [("team".to_owned(), "crew".to_owned())].into();
        })
        .await;
    let sets: Api<StatefulSet> = region.api(CONTROL_PLANE);
    let template = async || sets.get("kube-apiserver").await.unwrap().spec.unwrap().template;
    region.eventually_there(&sets, "kube-apiserver").await;
    let before = template().await;
    assert_eq!(before.spec.unwrap().node_selector.unwrap()["disk"], "fast");
    assert_eq!(before.metadata.unwrap().labels.unwrap()["team"], "crew");

    region.change_cluster(json!({ "spec": { "nodeSelector": null, "labels": null } })).await;
    eventually("the pods are as everybody's", PATIENCE, async || {
        let after = template().await;
        let selector = after.spec.unwrap().node_selector.unwrap_or_default();
        let labels = after.metadata.unwrap().labels.unwrap();
        let app = labels.get("app").is_some_and(|app| app == "kube-apiserver");
        let clean = selector.is_empty() && !labels.contains_key("team") && app;
        if clean { Ok(()) } else { Err(format!("{selector:?} {labels:?}")) }
    })
    .await;
    region.stop().await;
}

#[tokio::test]
async fn a_namespace_that_is_to_stay_is_emptied_and_left() {
    let region = Region::start().await;
    region
        .create_cluster_with(IMAGE, |cluster| {
            let keep = "hypershift.openshift.io/skip-delete-hosted-controlplane-namespace";
            cluster.metadata.annotations = Some([(keep.to_owned(), "true".to_owned())].into());
        })
        .await;
    region.run_control_plane().await;
    region.eventually_condition("Available", "True").await;
    let foreign = json!({ "metadata": { "name": "mine" } });
    create(&region.api::<ConfigMap>(CONTROL_PLANE), foreign).await;
    let clusters: Api<HostedCluster> = region.api(NAMESPACE);
    let _ = clusters.delete("first", &DeleteParams::default()).await.unwrap();
    // What a kubelet would do.
    let pods: Api<Pod> = region.api(CONTROL_PLANE);
    eventually("the pod is going", PATIENCE, async || match pods.get_opt("kube-apiserver-0").await {
        Ok(Some(pod)) if pod.metadata.deletion_timestamp.is_none() => Err("not yet".to_owned()),
        Ok(_) => Ok(()),
        Err(error) => Err(error.to_string()),
    })
    .await;
    let _ = pods.delete("kube-apiserver-0", &DeleteParams::default().grace_period(0)).await;
    region.eventually_gone(&clusters, "first").await;
    let namespace = Api::<Namespace>::all(region.client.clone()).get(CONTROL_PLANE).await.unwrap();
    assert_eq!(namespace.metadata.deletion_timestamp, None);
    let left = region.api::<Secret>(CONTROL_PLANE).list(&ListParams::default()).await.unwrap();
    assert_eq!(left.items.len(), 0, "{left:?}");
    region.api::<ConfigMap>(CONTROL_PLANE).get("mine").await.unwrap();
    region.stop().await;
}

#[tokio::test]
async fn people_are_told_in_events_what_came_of_their_cluster() {
    let region = Region::start().await;
    region.create_cluster("pilothouse/release:nonsense").await;
    region.eventually_condition("ValidReleaseImage", "False").await;
    let image = json!({ "spec": { "release": { "image": IMAGE } } });
    region.change_cluster(image).await;
    region.run_control_plane().await;
    region.eventually_condition("Available", "True").await;
    region.create_pool(0).await;
    let events: Api<Event> = region.api(NAMESPACE);
    let told = async || {
        let events = events.list(&ListParams::default()).await.unwrap();
        let told = events.items.into_iter().map(|event| {
            let about = event.involved_object;
            let again = event.series.is_some();
            (about.kind.unwrap(), about.name.unwrap(), event.reason.unwrap(), again)
        });
        told.collect::<Vec<_>>()
    };
    let cluster = |reason: &str| ("HostedCluster".to_owned(), "first".to_owned(), reason.to_owned(), false);
    let pool = |reason: &str| ("NodePool".to_owned(), "workers".to_owned(), reason.to_owned(), false);
    let expected = [
        cluster("InvalidImage"),
        cluster("RolloutStarted"),
        cluster("Available"),
        cluster("RolloutCompleted"),
        pool("Ready"),
    ];
    eventually("all that matters was told", PATIENCE, async || {
        let told = told().await;
        if expected.iter().all(|one| told.contains(one)) { Ok(()) } else { Err(format!("{told:?}")) }
    })
    .await;
    // Looking again tells nobody anything: events are written in the order in which they happened.
    region.at_rest().await;
    region.wake();
    region.at_rest().await;
    region.change_cluster(json!({ "spec": { "pausedUntil": "true" } })).await;
    eventually("the pause is told", PATIENCE, async || {
        let told = told().await;
        if told.contains(&cluster("ReconciliationPaused")) { Ok(told) } else { Err(format!("{told:?}")) }
    })
    .await;
    let told = told().await;
    assert!(told.iter().all(|(_, _, _, again)| !again), "{told:?}");
    region.stop().await;
}

#[tokio::test]
async fn the_versions_that_are_served_are_written_down_again() {
    let region = Region::start().await;
    let namespaces: Api<Namespace> = Api::all(region.client.clone());
    create(&namespaces, json!({ "metadata": { "name": "hypershift" } })).await;
    let config_maps: Api<ConfigMap> = region.api("hypershift");
    let right = region.eventually_there(&config_maps, "supported-versions").await.data;
    let wrong = json!({ "data": { "supported-versions": "{}" } });
    let (parameters, patch) = (PatchParams::default(), Patch::Merge(wrong));
    config_maps.patch("supported-versions", &parameters, &patch).await.unwrap();
    let is_right = async || {
        let found = config_maps.get_opt("supported-versions").await.unwrap();
        let data = found.and_then(|found| found.data);
        if data == right { Ok(()) } else { Err(format!("{data:?}")) }
    };
    eventually("a change is taken back", PATIENCE, is_right).await;
    let _ = config_maps.delete("supported-versions", &DeleteParams::default()).await.unwrap();
    eventually("it is there again", PATIENCE, is_right).await;
    region.stop().await;
}
