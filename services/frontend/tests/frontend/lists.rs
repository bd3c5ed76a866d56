use rstest::rstest;
use serde_json::json;

use crate::support::{
    Engine, Rig, SUBSCRIPTION, VERSION, cluster, cluster_body, cluster_url, pages, pool, pool_body,
};

fn list(scope: &str) -> String {
    format!(
        "/subscriptions/{SUBSCRIPTION}{scope}/providers/microsoft.redhatopenshift/HcpOpenShiftClusters?{VERSION}"
    )
}

#[rstest]
#[tokio::test]
async fn lists_come_in_pages_that_lead_on(#[values(Engine::Sqlite, Engine::Postgres)] engine: Engine) {
    let Some(rig) = Rig::new(engine).await else { return };
    for name in ["d", "B", "a", "e", "c"] {
        assert_eq!(rig.put(&cluster_url(name), &cluster_body(name)).await.status, 201);
    }
    for scope in ["", "/resourcegroups/TEAM"] {
        let found = pages(&rig, &list(scope)).await;
        assert_eq!(found, [vec!["a", "B"], vec!["c", "d"], vec!["e"]], "{scope}");
        let found = pages(&rig, &format!("{}&$top=3", list(scope))).await;
        assert_eq!(found, [vec!["a", "B", "c"], vec!["d", "e"]], "{scope}");
        assert_eq!(pages(&rig, &format!("{}&%24top=2147483647", list(scope))).await.len(), 1, "{scope}");
    }
    assert_eq!(rig.get(&list("/resourceGroups/other")).await.text, r#"{"value":[]}"#);
    rig.stop().await;
}

#[rstest]
#[tokio::test]
async fn a_page_begins_where_its_link_says_or_is_refused(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(rig) = Rig::new(engine).await else { return };
    for name in ["a", "b", "c"] {
        rig.put(&cluster_url(name), &cluster_body(name)).await;
    }
    let referer = format!("https://management.example{}&t=1", list(""));
    let page = rig.send_with(http::Method::GET, &list(""), &[("referer", &referer)], None).await;
    let link = page.body["nextLink"].as_str().unwrap();
    assert!(link.starts_with(&format!("{referer}&%24skipToken=")), "{link}");
    let forwarded =
        rig.send_with(http::Method::GET, &list(""), &[("x-forwarded-proto", "https")], None).await;
    let link = forwarded.body["nextLink"].as_str().unwrap().to_owned();
    assert!(link.starts_with(&rig.base.replace("http://", "https://")), "{link}");

    // A list stays as it was when it began.
    rig.put(&cluster_url("bb"), &cluster_body("bb")).await;
    let rest = rig.get(&link.replace("https://", "http://")).await;
    assert_eq!(rest.body["value"].as_array().unwrap().len(), 1, "{}", rest.text);

    let made_up = |json: serde_json::Value| {
        use base64::Engine as _;
        base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(json.to_string())
    };
    for (parameter, value) in [
        ("$skipToken", "x".to_owned()),
        ("$skipToken", String::new()),
        ("$skipToken", made_up(json!({"r": u64::MAX, "p": SUBSCRIPTION, "i": "x"}))),
        ("$skipToken", made_up(json!({"r": 1, "p": "", "i": "x"}))),
        ("$top", "0".to_owned()),
        ("$top", "x".to_owned()),
        ("$top", "2147483648".to_owned()),
    ] {
        let refused = rig.get(&format!("{}&{parameter}={value}", list(""))).await;
        assert_eq!((refused.status, refused.code()), (400, "InvalidParameter"), "{parameter}={value}");
        assert_eq!(refused.target(), parameter);
    }
    rig.stop().await;
}

#[rstest]
#[tokio::test]
async fn what_is_below_a_cluster_is_listed_with_it_or_not_at_all(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(rig) = Rig::new(engine).await else { return };
    for kind in ["nodePools", "externalAuths"] {
        let missing = rig.get(&format!("{}/{kind}?{VERSION}", cluster("First"))).await;
        assert_eq!(
            (missing.status, missing.code(), missing.target()),
            (404, "ResourceNotFound", cluster("First").as_str())
        );
    }
    rig.made("First").await;
    rig.made("First2").await;
    for name in ["c", "a", "b"] {
        assert_eq!(rig.put(&pool(name), &pool_body(1)).await.status, 201);
    }
    let found = pages(&rig, &format!("{}/nodePools?{VERSION}", cluster("first"))).await;
    assert_eq!(found, [vec!["a", "b"], vec!["c"]]);
    let none = rig.get(&format!("{}/nodePools?{VERSION}", cluster("First2"))).await;
    assert_eq!(none.body, json!({"value": []}));
    rig.stop().await;
}
