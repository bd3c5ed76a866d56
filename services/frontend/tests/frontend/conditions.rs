//! Etags, and what is done on condition.

use http::Method;
use rstest::rstest;
use serde_json::json;

use crate::support::{Engine, Rig, auth, auth_body, cluster_body, cluster_url, pool, pool_body};

#[rstest]
#[tokio::test]
async fn the_version_of_a_resource_is_shown_wherever_it_is_and_changes_with_it(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(rig) = Rig::new(engine).await else { return };
    let mut seen = Vec::new();
    let created = rig.put(&cluster_url("First"), &cluster_body("First")).await;
    seen.push(created.header("etag").to_owned());
    assert_eq!(rig.get(&cluster_url("First")).await.header("etag"), seen[0]);
    rig.succeed("First").await;
    seen.push(rig.get(&cluster_url("First")).await.header("etag").to_owned());
    let patched = rig.patch(&cluster_url("First"), &json!({"tags": {"a": "b"}})).await;
    seen.push(patched.header("etag").to_owned());
    rig.succeed("First").await;
    let settled = rig.get(&cluster_url("First")).await.header("etag").to_owned();
    seen.push(settled.clone());
    for (url, body) in [(pool("one"), pool_body(1)), (auth("idp"), auth_body("https://idp.example"))] {
        let created = rig.put(&url, &body).await;
        assert_eq!(created.header("etag"), rig.get(&url).await.header("etag"), "{}", created.text);
        seen.push(created.header("etag").to_owned());
    }
    assert!(
        seen.iter().all(|etag| etag.starts_with('"') && etag.ends_with('"') && etag.len() > 2),
        "{seen:?}"
    );
    let different: std::collections::BTreeSet<_> = seen.iter().collect();
    assert_eq!(different.len(), seen.len(), "{seen:?}");
    assert_eq!(
        rig.get(&cluster_url("First")).await.header("etag"),
        settled,
        "what comes below a cluster does not change it"
    );
    rig.stop().await;
}

#[rstest]
#[tokio::test]
async fn writes_are_done_to_the_version_they_are_meant_for(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(rig) = Rig::new(engine).await else { return };
    let url = cluster_url("First");
    let body = cluster_body("First");
    let with = async |method: Method, headers: &[(&'static str, &str)], body: Option<&serde_json::Value>| {
        let reply = rig.send_with(method, &url, headers, body).await;
        (reply.status, reply.code().to_owned())
    };
    let failed = (412, "PreconditionFailed".to_owned());
    assert_eq!(with(Method::PUT, &[("if-match", "*")], Some(&body)).await, failed);
    assert_eq!(with(Method::DELETE, &[("if-match", "*")], None).await, failed);
    assert_eq!(with(Method::PATCH, &[("if-match", "*")], Some(&json!({}))).await.0, 404);
    rig.assert_nothing_stored().await;
    assert_eq!(with(Method::PUT, &[("if-none-match", "*")], Some(&body)).await.0, 201);
    assert_eq!(with(Method::PUT, &[("if-none-match", "*")], Some(&body)).await, failed);
    rig.succeed("First").await;

    let etag = rig.get(&url).await.header("etag").to_owned();
    let tags = json!({"tags": {"a": "b"}});
    let weak = format!("W/{etag}");
    for condition in ["\"other\"", &weak] {
        assert_eq!(with(Method::PATCH, &[("if-match", condition)], Some(&tags)).await, failed, "{condition}");
        assert_eq!(with(Method::PUT, &[("if-match", condition)], Some(&body)).await, failed, "{condition}");
        assert_eq!(with(Method::DELETE, &[("if-match", condition)], None).await, failed, "{condition}");
    }
    assert_eq!(with(Method::PATCH, &[("if-none-match", &weak)], Some(&tags)).await, failed);
    let listed = format!("\"other\", {etag}");
    assert_eq!(with(Method::PATCH, &[("if-match", &listed)], Some(&tags)).await.0, 202);
    assert_eq!(with(Method::DELETE, &[("if-match", &etag)], None).await, failed, "it was changed since");
    assert_eq!(
        with(Method::PATCH, &[("if-match", "odd")], Some(&tags)).await,
        (400, "InvalidParameter".into())
    );
    rig.succeed("First").await;
    let etag = rig.get(&url).await.header("etag").to_owned();
    assert_eq!(with(Method::DELETE, &[("if-match", &etag)], None).await.0, 202);
    rig.stop().await;
}

#[rstest]
#[tokio::test]
async fn who_has_the_version_already_is_not_sent_it_again(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(rig) = Rig::new(engine).await else { return };
    rig.made("First").await;
    let url = cluster_url("First");
    let etag = rig.get(&url).await.header("etag").to_owned();
    let same = rig.send_with(Method::GET, &url, &[("if-none-match", &etag)], None).await;
    assert_eq!((same.status, same.text.as_str(), same.header("etag")), (304, "", etag.as_str()));
    let other = rig.send_with(Method::GET, &url, &[("if-none-match", "\"other\"")], None).await;
    assert_eq!(other.status, 200);
    let wrong = rig.send_with(Method::GET, &url, &[("if-match", "\"other\"")], None).await;
    assert_eq!((wrong.status, wrong.code()), (412, "PreconditionFailed"));
    rig.stop().await;
}
