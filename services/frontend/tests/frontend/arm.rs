//! What ARM has to say with its requests, and others have not.

use http::Method;
use rstest::rstest;
use serde_json::{Value, json};

use crate::gated::{Gated, Who};
use crate::support::{Engine, Reply, auth, auth_body, cluster_body, cluster_url, pool, pool_body};

const SYSTEM_DATA: &str = "x-ms-arm-resource-system-data";
const IDENTITY_URL: &str = "x-ms-identity-url";
const ADA: &str = r#"{"createdBy": "ada", "createdByType": "User", "createdAt": "2026-01-01T00:00:00Z"}"#;
const IDENTITY: &str = "https://identity.arm.test/";

/// A header that is missing or wrong, and in what way.
type Wrong = (&'static str, Option<&'static str>, &'static str);

const AUTHORS: [Wrong; 5] = [
    (SYSTEM_DATA, None, "is missing"),
    (SYSTEM_DATA, Some(""), "could not be read"),
    (SYSTEM_DATA, Some("ada"), "could not be read"),
    (SYSTEM_DATA, Some("[]"), "could not be read"),
    (SYSTEM_DATA, Some(r#"{"createdByType": "Nobody"}"#), "could not be read"),
];
const IDENTITIES: [Wrong; 4] = [
    (IDENTITY_URL, None, "is missing"),
    (IDENTITY_URL, Some(""), "is not a URL with a host"),
    (IDENTITY_URL, Some("identity"), "is not a URL with a host"),
    (IDENTITY_URL, Some("mailto:ada@example.com"), "is not a URL with a host"),
];

/// Everything that ARM says, but for one header.
fn headers(wrong: Option<Wrong>) -> Vec<(&'static str, &'static str)> {
    let usual = [(SYSTEM_DATA, ADA), (IDENTITY_URL, IDENTITY)];
    let said = usual.into_iter().filter_map(|(name, value)| match wrong {
        Some((spoilt, instead, _)) if spoilt == name => instead.map(|value| (name, value)),
        _ => Some((name, value)),
    });
    said.collect()
}

async fn by_arm(gated: &Gated, method: Method, url: &str, body: &Value, wrong: Option<Wrong>) -> Reply {
    gated.send_with(Who::Arm, method, url, Some(body), &headers(wrong)).await
}

/// Each is refused with exactly this status, code and target, and changes nothing.
#[rstest]
#[tokio::test]
async fn arm_says_who_asks_and_where_identities_are(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(gated) = Gated::new(engine).await else { return };
    let tags = json!({"tags": {"a": "b"}});
    let audiences = json!({"properties": {"issuer": {"audiences": ["other"]}}});
    let mut larger = cluster_body("First");
    larger["tags"] = json!({"c": "d"});
    // A request, what it gives when everything is said, and what ARM must not leave out.
    let both = [AUTHORS.as_slice(), IDENTITIES.as_slice()].concat();
    let rows: [(Method, String, Value, u16, &[Wrong]); 8] = [
        (Method::PUT, cluster_url("First"), cluster_body("First"), 201, &both),
        (Method::PUT, cluster_url("First"), larger, 200, &AUTHORS),
        (Method::PATCH, cluster_url("First"), tags.clone(), 202, &AUTHORS),
        (Method::PUT, pool("one"), pool_body(1), 201, &AUTHORS),
        (Method::PUT, pool("one"), pool_body(2), 200, &AUTHORS),
        (Method::PATCH, pool("one"), tags, 202, &AUTHORS),
        (Method::PUT, auth("idp"), auth_body("https://idp.example"), 201, &AUTHORS),
        (Method::PATCH, auth("idp"), audiences, 202, &AUTHORS),
    ];
    for (method, url, body, done, wrongs) in rows {
        for wrong in wrongs {
            let (name, sent, problem) = *wrong;
            let before = gated.records.store().revision().await.unwrap();
            let refused = by_arm(&gated, method.clone(), &url, &body, Some(*wrong)).await;
            let what = format!("{method} {url}, {name}: {sent:?}: {}", refused.text);
            assert_eq!((refused.status, refused.code()), (400, "InvalidParameter"), "{what}");
            assert_eq!(
                (refused.target(), refused.header("x-ms-error-code")),
                (name, "InvalidParameter"),
                "{what}"
            );
            let message = refused.body["error"]["message"].as_str().unwrap();
            assert!(message.starts_with(&format!("The header '{name}' {problem}")), "{what}");
            assert_eq!(gated.records.store().revision().await.unwrap(), before, "{what}");
        }
        let taken = by_arm(&gated, method.clone(), &url, &body, None).await;
        assert_eq!(taken.status, done, "{method} {url}: {}", taken.text);
        assert_eq!(taken.body["systemData"]["createdBy"], "ada", "{}", taken.text);
        gated.succeed("First").await;
    }
    // Where identities are is said once; others need say neither.
    let changed = json!({"tags": {"e": "f"}});
    let without = [(SYSTEM_DATA, ADA)];
    let taken =
        gated.send_with(Who::Arm, Method::PATCH, &cluster_url("First"), Some(&changed), &without).await;
    assert_eq!(taken.status, 202, "{}", taken.text);
    let body = cluster_body("Second");
    let own = gated.send(Who::User, Method::PUT, &cluster_url("Second"), Some(&body)).await;
    assert_eq!((own.status, &own.body["systemData"]["createdBy"]), (201, &json!("user")), "{}", own.text);
    // Nothing that is not made or changed has an author.
    let revoke = cluster_url("First").replace('?', "/revokeCredentials?");
    gated.succeed("First").await;
    for (method, url) in [(Method::POST, revoke), (Method::DELETE, cluster_url("First"))] {
        let taken = gated.send(Who::Arm, method.clone(), &url, None).await;
        assert_eq!(taken.status, 202, "{method} {url}: {}", taken.text);
    }
    gated.stop().await;
}
