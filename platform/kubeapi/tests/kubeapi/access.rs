//! Who may do what.

use k8s_openapi::api::authentication::v1::{SelfSubjectReview, TokenRequest};
use k8s_openapi::api::authorization::v1::{
    SelfSubjectRulesReview, SelfSubjectRulesReviewSpec, SubjectRulesReviewStatus,
};
use k8s_openapi::api::core::v1::{ConfigMap, Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRoleBinding, Role, RoleBinding};
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};
use pilothouse_kubeapi::{Anonymous, Config};
use pilothouse_store::Location;
use serde_json::json;

use crate::support::{Cluster, Ground, refused};

const RBAC: &str = "rbac.authorization.k8s.io";

#[tokio::test]
async fn what_no_rule_allows_is_denied_in_the_usual_words() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin().await;
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client_as("ada", &["crew"]).await, "default");
    let (code, reason, message) = refused(maps.list(&ListParams::default()).await);
    assert_eq!((code, reason.as_str()), (403, "Forbidden"));
    assert_eq!(
        message,
        "configmaps is forbidden: User \"ada\" cannot list resource \"configmaps\" in API group \"\" in the namespace \"default\""
    );

    let role: Role = serde_json::from_value(json!({
        "metadata": { "name": "reader" },
        "rules": [{ "apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"] }],
    }))
    .unwrap();
    Api::namespaced(admin.clone(), "default").create(&PostParams::default(), &role).await.unwrap();
    let binding: RoleBinding = serde_json::from_value(json!({
        "metadata": { "name": "readers" },
        "roleRef": { "apiGroup": RBAC, "kind": "Role", "name": "reader" },
        "subjects": [{ "kind": "Group", "name": "crew", "apiGroup": RBAC }],
    }))
    .unwrap();
    let bindings: Api<RoleBinding> = Api::namespaced(admin.clone(), "default");
    bindings.create(&PostParams::default(), &binding).await.unwrap();
    maps.list(&ListParams::default()).await.unwrap();
    assert_eq!(refused(maps.delete("a", &DeleteParams::default()).await).0, 403);
    let elsewhere: Api<ConfigMap> = Api::namespaced(cluster.client_as("ada", &["crew"]).await, "kube-system");
    assert_eq!(refused(elsewhere.list(&ListParams::default()).await).0, 403);
    bindings.delete("readers", &DeleteParams::default()).await.unwrap();
    assert_eq!(refused(maps.list(&ListParams::default()).await).0, 403);
    cluster.stop().await;
}

#[tokio::test]
async fn a_user_is_told_every_rule_that_applies_in_a_namespace() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin().await;
    let role: Role = serde_json::from_value(json!({
        "metadata": { "name": "reader" },
        "rules": [
            { "apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["mine"], "verbs": ["get"] },
        ],
    }))
    .unwrap();
    Api::namespaced(admin.clone(), "default").create(&PostParams::default(), &role).await.unwrap();
    let binding: RoleBinding = serde_json::from_value(json!({
        "metadata": { "name": "readers" },
        "roleRef": { "apiGroup": RBAC, "kind": "Role", "name": "reader" },
        "subjects": [{ "kind": "User", "name": "ada", "apiGroup": RBAC }],
    }))
    .unwrap();
    Api::namespaced(admin.clone(), "default").create(&PostParams::default(), &binding).await.unwrap();

    let ada = cluster.client_as("ada", &[]).await;
    let status = async |client: &kube::Client, namespace: &str| {
        let review = SelfSubjectRulesReview {
            spec: SelfSubjectRulesReviewSpec { namespace: Some(namespace.to_owned()) },
            ..SelfSubjectRulesReview::default()
        };
        let reviews: Api<SelfSubjectRulesReview> = Api::all(client.clone());
        reviews.create(&PostParams::default(), &review).await.map(|review| review.status.unwrap())
    };
    let own = |rules: &SubjectRulesReviewStatus| {
        let found = rules.resource_rules.iter().find(|rule| rule.resource_names.is_some());
        found.map(|rule| (rule.verbs.clone(), rule.resources.clone(), rule.resource_names.clone()))
    };
    let words = |word: &str| vec![word.to_owned()];
    let rules = status(&ada, "default").await.unwrap();
    assert!(!rules.incomplete);
    assert_eq!(own(&rules), Some((words("get"), Some(words("configmaps")), Some(words("mine")))));
    // What everybody may do who is somebody.
    let everybody = rules.resource_rules.iter().flat_map(|rule| rule.resources.iter().flatten());
    assert!(everybody.into_iter().any(|resource| resource == "selfsubjectrulesreviews"), "{rules:?}");
    let paths = rules.non_resource_rules.iter().flat_map(|rule| rule.non_resource_urls.iter().flatten());
    assert!(paths.into_iter().any(|path| path == "/version"), "{rules:?}");
    assert_eq!(own(&status(&ada, "kube-system").await.unwrap()), None);
    assert_eq!(refused(status(&ada, "").await).0, 400);

    let rules = status(&admin, "default").await.unwrap();
    assert!(
        rules.resource_rules.iter().any(|rule| rule.verbs == ["*"] && rule.resources == Some(words("*")))
    );
    cluster.stop().await;
}

#[tokio::test]
async fn a_service_account_acts_by_its_token_until_it_is_gone() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin().await;
    let accounts: Api<ServiceAccount> = Api::namespaced(admin.clone(), "default");
    let account = serde_json::from_value(json!({ "metadata": { "name": "cook" } })).unwrap();
    accounts.create(&PostParams::default(), &account).await.unwrap();
    let request: TokenRequest =
        serde_json::from_value(json!({ "spec": { "audiences": [], "expirationSeconds": 3600 } })).unwrap();
    let answer = accounts.create_token_request("cook", &PostParams::default(), &request).await.unwrap();
    let token = answer.status.unwrap().token;

    let cook = cluster.client_with_token(&token).await;
    let maps: Api<ConfigMap> = Api::namespaced(cook.clone(), "default");
    let (code, _, message) = refused(maps.list(&ListParams::default()).await);
    assert_eq!(code, 403);
    assert!(message.contains("User \"system:serviceaccount:default:cook\""), "{message}");
    let binding: ClusterRoleBinding = serde_json::from_value(json!({
        "metadata": { "name": "cooks" },
        "roleRef": { "apiGroup": RBAC, "kind": "ClusterRole", "name": "view" },
        "subjects": [{ "kind": "ServiceAccount", "name": "cook", "namespace": "default" }],
    }))
    .unwrap();
    Api::all(admin.clone()).create(&PostParams::default(), &binding).await.unwrap();
    maps.list(&ListParams::default()).await.unwrap();

    accounts.delete("cook", &DeleteParams::default()).await.unwrap();
    assert_eq!(refused(maps.list(&ListParams::default()).await).0, 401);
    let forged = cluster.client_with_token(&format!("{token}x")).await;
    assert_eq!(
        refused(Api::<ConfigMap>::namespaced(forged, "default").list(&ListParams::default()).await).0,
        401
    );
    cluster.stop().await;
}

#[tokio::test]
async fn without_credentials_only_the_public_pages_are_shown() {
    let cluster = Cluster::start().await;
    let mut config = kube::Config::new(format!("https://{}", cluster.address).parse().unwrap());
    config.accept_invalid_certs = true;
    let nobody = kube::Client::try_from(config).unwrap();
    assert_eq!(nobody.apiserver_version().await.unwrap().git_version, "v1.33.4");
    let health = http::Request::get("/readyz").body(Vec::new()).unwrap();
    assert_eq!(nobody.request_text(health).await.unwrap(), "ok");
    let health = http::Request::get("/readyz?verbose&exclude=feed").body(Vec::new()).unwrap();
    assert_eq!(
        nobody.request_text(health).await.unwrap(),
        "[+]ping ok\n[+]store ok\n[+]feed excluded: ok\n[+]shutdown ok\nreadyz check passed\n"
    );
    // Pages of the same kind, and everything else, are for those who say who they are.
    for path in ["/readyz/ping", "/api", "/metrics"] {
        let request = http::Request::get(path).body(Vec::new()).unwrap();
        assert_eq!(refused(nobody.request_text(request).await).0, 401, "{path}");
    }
    assert_eq!(refused(Api::<ConfigMap>::all(nobody).list(&ListParams::default()).await).0, 401);
    cluster.stop().await;
}

#[tokio::test]
async fn whether_nobody_in_particular_may_ask_is_configured() {
    for (anonymous, version, maps) in [(Anonymous::On, 200, 403), (Anonymous::Off, 401, 401)] {
        let config = Config { anonymous, ..Config::default() };
        let cluster = Ground::new().start_with(Location::memory(), config).await;
        let mut config = kube::Config::new(format!("https://{}", cluster.address).parse().unwrap());
        config.accept_invalid_certs = true;
        let nobody = kube::Client::try_from(config).unwrap();
        let code = match nobody.apiserver_version().await {
            Ok(_) => 200,
            Err(kube::Error::Api(status)) => status.code,
            Err(other) => panic!("{other}"),
        };
        assert_eq!(code, version, "{anonymous:?}");
        assert_eq!(refused(Api::<ConfigMap>::all(nobody).list(&ListParams::default()).await).0, maps);
        cluster.stop().await;
    }
}

#[tokio::test]
async fn a_bootstrap_token_lets_a_new_node_in_until_its_secret_says_no() {
    let cluster = Cluster::start().await;
    let secrets: Api<Secret> = Api::namespaced(cluster.admin().await, "kube-system");
    let secret: Secret = serde_json::from_value(json!({
        "metadata": { "name": "bootstrap-token-abcdef" },
        "type": "bootstrap.kubernetes.io/token",
        "stringData": {
            "token-id": "abcdef",
            "token-secret": "0123456789abcdef",
            "usage-bootstrap-authentication": "true",
            "auth-extra-groups": "system:bootstrappers:workers",
        },
    }))
    .unwrap();
    let client = cluster.client_with_token("abcdef.0123456789abcdef").await;
    let who = async || {
        let reviews: Api<SelfSubjectReview> = Api::all(client.clone());
        let review = reviews.create(&PostParams::default(), &SelfSubjectReview::default()).await;
        review.map(|review| review.status.unwrap().user_info.unwrap())
    };
    assert_eq!(refused(who().await).0, 401);
    secrets.create(&PostParams::default(), &secret).await.unwrap();
    let user = who().await.unwrap();
    assert_eq!(user.username.as_deref(), Some("system:bootstrap:abcdef"));
    let groups = ["system:bootstrappers", "system:bootstrappers:workers", "system:authenticated"];
    assert_eq!(user.groups.unwrap(), groups);
    let ended = json!({ "stringData": { "expiration": "2020-01-01T00:00:00Z" } });
    let merge = kube::api::Patch::Merge(&ended);
    secrets.patch("bootstrap-token-abcdef", &Default::default(), &merge).await.unwrap();
    assert_eq!(refused(who().await).0, 401);
    cluster.stop().await;
}
