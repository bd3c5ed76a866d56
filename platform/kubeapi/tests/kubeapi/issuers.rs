//! Tokens of issuers of OpenID Connect.

use std::time::Duration;

use k8s_openapi::api::authentication::v1::{SelfSubjectReview, TokenReview, UserInfo};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::api::{ListParams, PostParams};
use kube::{Api, Client};
use pilothouse_kubeapi::TokenIssuers;
use pilothouse_kubeapi::testing::{Cluster, Options, TokenIssuer};
use pilothouse_test_support::eventually;
use serde_json::{Value, json};

use crate::support::refused;

/// Far beyond the pause between two readings of an issuer's keys.
const PATIENCE: Duration = Duration::from_secs(60);

/// A cluster that believes an issuer.
async fn start(issuer: &TokenIssuer, change: impl FnOnce(&mut Value)) -> Cluster {
    let mut configuration = issuer.configuration();
    change(&mut configuration["jwt"][0]);
    let token_issuers = TokenIssuers::parse(&configuration.to_string()).unwrap();
    Cluster::start(Options { token_issuers, ..Options::default() }).await.unwrap()
}

async fn who(client: &Client) -> kube::Result<UserInfo> {
    let reviews: Api<SelfSubjectReview> = Api::all(client.clone());
    let review = reviews.create(&PostParams::default(), &SelfSubjectReview::default()).await;
    review.map(|review| review.status.unwrap().user_info.unwrap())
}

#[tokio::test]
async fn whoever_an_issuer_speaks_of_may_do_what_their_groups_may() {
    let issuer = TokenIssuer::start().await.unwrap();
    let cluster = start(&issuer, |_| {}).await;
    let token = issuer.token(&json!({ "sub": "ada", "groups": ["crew"], "jti": "seventh" })).unwrap();
    let ada = cluster.client_with_token(&token).await.unwrap();
    let user = eventually("the keys were read", PATIENCE, async || who(&ada).await).await;
    assert_eq!(user.username.as_deref(), Some("oidc:ada"));
    assert_eq!(user.groups.unwrap(), ["oidc:crew", "system:authenticated"]);
    assert_eq!(user.extra.unwrap()["authentication.kubernetes.io/credential-id"], ["JTI=seventh"]);

    let maps: Api<ConfigMap> = Api::namespaced(ada, "default");
    assert_eq!(refused(maps.list(&ListParams::default()).await).0, 403);
    let group = "rbac.authorization.k8s.io";
    let binding: ClusterRoleBinding = serde_json::from_value(json!({
        "metadata": { "name": "crew" },
        "roleRef": { "apiGroup": group, "kind": "ClusterRole", "name": "view" },
        "subjects": [{ "kind": "Group", "name": "oidc:crew", "apiGroup": group }],
    }))
    .unwrap();
    let admin = cluster.admin().await.unwrap();
    Api::all(admin.clone()).create(&PostParams::default(), &binding).await.unwrap();
    maps.list(&ListParams::default()).await.unwrap();
    assert_eq!(refused(maps.create(&PostParams::default(), &ConfigMap::default()).await).0, 403);

    // The server vouches for it to nobody but itself.
    let reviewed = async |audiences: Value| {
        let review = json!({ "metadata": {}, "spec": { "token": token, "audiences": audiences } });
        let reviews: Api<TokenReview> = Api::all(admin.clone());
        let review = reviews.create(&PostParams::default(), &serde_json::from_value(review).unwrap()).await;
        let status = review.unwrap().status.unwrap();
        (status.authenticated == Some(true), status.user.unwrap_or_default().username)
    };
    assert_eq!(reviewed(json!(null)).await, (true, Some("oidc:ada".to_owned())));
    assert_eq!(reviewed(json!(["https://kubernetes.default.svc"])).await.1.as_deref(), Some("oidc:ada"));
    assert_eq!(reviewed(json!(["elsewhere"])).await, (false, None));
    cluster.stop().await.unwrap();
}

#[tokio::test]
async fn a_token_that_is_not_the_issuers_or_not_for_us_or_not_for_now_is_refused() {
    let issuer = TokenIssuer::start().await.unwrap();
    let stranger = TokenIssuer::start().await.unwrap();
    let cluster = start(&issuer, |jwt| {
        jwt["claimValidationRules"] = json!([{ "claim": "tid", "requiredValue": "ours" }]);
    })
    .await;
    let good = json!({ "sub": "ada", "tid": "ours" });
    let with = |name: &str, value: Value| {
        let mut claims = good.clone();
        claims[name] = value;
        claims
    };
    let code = async |token: String| match who(&cluster.client_with_token(&token).await.unwrap()).await {
        Ok(_) => 200,
        Err(kube::Error::Api(status)) => status.code,
        Err(other) => panic!("{other}"),
    };
    eventually("the keys were read", PATIENCE, async || match code(issuer.token(&good).unwrap()).await {
        200 => Ok(()),
        other => Err(other),
    })
    .await;
    let unsigned = issuer.sign(&json!({ "alg": "none", "kid": "first" }), &good).unwrap();
    let (text, _) = unsigned.rsplit_once('.').unwrap();
    let bad = [
        ("another audience", issuer.token(&with("aud", json!("elsewhere"))).unwrap()),
        ("no audience", issuer.token(&with("aud", json!([]))).unwrap()),
        ("expired", issuer.token(&with("exp", json!(1))).unwrap()),
        ("no end", issuer.token(&with("exp", json!(null))).unwrap()),
        ("another issuer", issuer.token(&with("iss", json!("https://elsewhere.test"))).unwrap()),
        ("another's key", stranger.token(&with("iss", json!(issuer.url()))).unwrap()),
        ("another's token", stranger.token(&good).unwrap()),
        ("an unknown key", issuer.sign(&json!({ "alg": "ES256", "kid": "seventh" }), &good).unwrap()),
        ("no key", issuer.sign(&json!({ "alg": "ES256" }), &good).unwrap()),
        ("another algorithm", issuer.sign(&json!({ "alg": "HS256", "kid": "first" }), &good).unwrap()),
        ("no signature, and a signature", unsigned.clone()),
        ("no signature", format!("{text}.")),
        ("a rule", issuer.token(&with("tid", json!("theirs"))).unwrap()),
        ("nobody", issuer.token(&json!({ "tid": "ours" })).unwrap()),
    ];
    for (what, token) in bad {
        assert_eq!(code(token).await, 401, "{what}");
    }
    assert_eq!(code(issuer.token(&good).unwrap()).await, 200);
    cluster.stop().await.unwrap();
}

#[tokio::test]
async fn a_key_that_an_issuer_has_since_published_is_found() {
    let issuer = TokenIssuer::start().await.unwrap();
    let cluster = start(&issuer, |_| {}).await;
    let former = issuer.token(&json!({ "sub": "ada" })).unwrap();
    let client = cluster.client_with_token(&former).await.unwrap();
    eventually("the keys were read", PATIENCE, async || who(&client).await).await;
    issuer.rotate("second").unwrap();
    let client = cluster.client_with_token(&issuer.token(&json!({ "sub": "ada" })).unwrap()).await.unwrap();
    // Strangers can make the server want keys, so it reads them once in a while only.
    eventually("the new key is known", PATIENCE, async || who(&client).await).await;
    assert_eq!(refused(who(&cluster.client_with_token(&former).await.unwrap()).await).0, 401);
    cluster.stop().await.unwrap();
}
