//! Every route and every kind of caller.

use std::collections::BTreeMap;

use http::Method;
use pilothouse_frontend::paths;
use rstest::rstest;
use serde_json::json;

use crate::gated::{Gated, Who};
use crate::support::{Engine, SUBSCRIPTION, cluster, cluster_body, cluster_url};

/// Who is let through to a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum To {
    /// Everybody: probes.
    Everybody,
    /// Whoever has credentials.
    Known,
    /// Those at home in the subscription may look; ARM and the role list may also tell what it is.
    Subscription,
    /// Those at home in the subscription, the role list, and ARM.
    InSubscription,
}

/// A row for every path of the router. One that is missing here fails the test below, and so does one that is gone.
const PUBLIC: &[(&str, To)] = &[
    ("/healthz", To::Everybody),
    ("/location", To::Everybody),
    ("/P/operations", To::Known),
    ("/S", To::Subscription),
    ("/S/P/hcpopenshiftclusters", To::InSubscription),
    ("/G/P/hcpopenshiftclusters", To::InSubscription),
    ("/G/P/hcpopenshiftclusters/{cluster}", To::InSubscription),
    ("/G/P/hcpopenshiftclusters/{cluster}/requestadmincredential", To::InSubscription),
    ("/G/P/hcpopenshiftclusters/{cluster}/revokecredentials", To::InSubscription),
    ("/G/P/hcpopenshiftclusters/{cluster}/nodepools", To::InSubscription),
    ("/G/P/hcpopenshiftclusters/{cluster}/nodepools/{nodepool}", To::InSubscription),
    ("/G/P/hcpopenshiftclusters/{cluster}/externalauths", To::InSubscription),
    ("/G/P/hcpopenshiftclusters/{cluster}/externalauths/{externalauth}", To::InSubscription),
    ("/S/P/locations/{location}/hcpopenshiftversions", To::InSubscription),
    ("/S/P/locations/{location}/hcpopenshiftversions/{version}", To::InSubscription),
    ("/S/P/locations/{location}/hcpoperatoridentityrolesets", To::InSubscription),
    ("/S/P/locations/{location}/hcpoperatoridentityrolesets/{roleset}", To::InSubscription),
    ("/S/P/locations/{location}/hcpoperationstatuses/{operation}", To::InSubscription),
    ("/S/P/locations/{location}/hcpoperationresults/{operation}", To::InSubscription),
    ("/G/P/deployments/{deployment}/preflight", To::InSubscription),
];

const METHODS: [Method; 6] =
    [Method::GET, Method::HEAD, Method::PUT, Method::PATCH, Method::POST, Method::DELETE];

fn template(short: &str) -> String {
    short
        .replace("/G/", "/subscriptions/{subscription}/resourcegroups/{group}/")
        .replace("/S/", "/subscriptions/{subscription}/")
        .replace("/P/", "/providers/microsoft.redhatopenshift/")
        .replacen("/S", "/subscriptions/{subscription}", usize::from(short == "/S"))
}

/// Some path that a template describes.
fn instance(template: &str) -> String {
    template
        .replace("{subscription}", SUBSCRIPTION)
        .replace("{operation}", "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa")
        .replace("{*resource}", &cluster("some")[1..])
        .replace(['{', '}'], "")
}

fn expected(who: Who, to: To, method: &Method) -> Option<u16> {
    let looks = matches!(*method, Method::GET | Method::HEAD);
    match (to, who) {
        (To::Everybody, _) => None,
        (_, Who::Nobody | Who::Expired) => Some(401),
        (To::Known, _) => None,
        (To::Subscription, Who::User) if !looks => Some(403),
        (_, Who::User | Who::Support | Who::Arm) => None,
        (_, Who::Foreigner | Who::Administrator) => Some(403),
    }
}

#[rstest]
#[tokio::test]
async fn every_public_route_asks_every_kind_of_caller(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let rows: BTreeMap<_, _> = PUBLIC.iter().map(|(path, to)| (template(path), *to)).collect();
    let mut known = paths().public;
    known.sort();
    assert_eq!(
        rows.keys().cloned().collect::<Vec<_>>(),
        known,
        "every route has a row, and every row a route"
    );

    let Some(gated) = Gated::new(engine).await else { return };
    let (mut asked, mut decided) = (1, 0);
    for (path, to) in &rows {
        for method in &METHODS {
            for who in Who::ALL {
                let url = format!("{}?api-version=2026-10-01", instance(path));
                let body = (!matches!(*method, Method::GET | Method::HEAD)).then(|| json!({}));
                let reply = gated.send(who, method.clone(), &url, body.as_ref()).await;
                let denied = Some(reply.status).filter(|status| matches!(status, 401 | 403));
                assert_eq!(denied, expected(who, *to, method), "{who:?} {method} {path}: {}", reply.text);
                assert!(reply.status < 500, "{who:?} {method} {path}: {}", reply.text);
                asked += usize::from(*to != To::Everybody);
                decided += 1;
                if *method != Method::HEAD
                    && let Some(status) = denied
                {
                    let code = if status == 401 { "AuthenticationFailed" } else { "AuthorizationFailed" };
                    assert_eq!(reply.body["error"]["code"], code, "{}", reply.text);
                    assert!(!reply.headers["x-ms-request-id"].is_empty());
                    assert_eq!(reply.headers.contains_key("www-authenticate"), status == 401);
                }
            }
        }
    }
    assert_eq!(decided, rows.len() * METHODS.len() * Who::ALL.len());
    let nowhere = gated.send(Who::User, Method::GET, "/nowhere", None).await;
    assert_eq!(nowhere.status, 404);
    assert_eq!(gated.send(Who::Nobody, Method::GET, "/nowhere", None).await.status, 401);

    let records = gated.stop().await;
    assert_eq!(records.len(), asked + 2, "every decision is recorded, probes are not");
    for record in &records {
        let denied = matches!(record["status"].as_u64(), Some(401 | 403));
        assert_eq!(record["decision"], if denied { "Denied" } else { "Allowed" }, "{record}");
        let kind = match record["operation"].as_str().unwrap().split(' ').next().unwrap() {
            "GET" | "HEAD" => "Read",
            "PUT" | "PATCH" => "Update",
            "POST" => "Create",
            _ => "Delete",
        };
        assert_eq!(record["type"], kind, "{record}");
        assert!(record["requestId"].is_string(), "{record}");
    }
}

#[rstest]
#[tokio::test]
async fn every_administrators_route_is_for_administrators(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(gated) = Gated::new(engine).await else { return };
    let mut known = paths().admin;
    known.dedup();
    assert_eq!(known.len(), 7, "{known:?}");
    for path in &known {
        for method in &METHODS {
            for who in Who::ALL {
                let url = format!("{}{}", gated.admin, instance(path));
                let body =
                    (!matches!(*method, Method::GET | Method::HEAD)).then(|| json!({"reason": "why not"}));
                let reply = gated.send(who, method.clone(), &url, body.as_ref()).await;
                let denied = Some(reply.status).filter(|status| matches!(status, 401 | 403));
                let expected = match who {
                    Who::Nobody | Who::Expired => Some(401),
                    Who::Administrator => None,
                    Who::Foreigner | Who::User | Who::Support | Who::Arm => Some(403),
                };
                assert_eq!(denied, expected, "{who:?} {method} {path}: {}", reply.text);
            }
        }
    }
    // Nor are they answered in public.
    let reply = gated.send(Who::Administrator, Method::GET, "/admin/v1/operations", None).await;
    assert_eq!(reply.status, 404);
    gated.stop().await;
}

#[rstest]
#[tokio::test]
async fn only_arm_says_who_made_a_cluster(#[values(Engine::Sqlite, Engine::Postgres)] engine: Engine) {
    let Some(gated) = Gated::new(engine).await else { return };
    let said =
        json!({"createdBy": "root", "createdByType": "Key", "createdAt": "2020-01-01T00:00:00Z"}).to_string();
    let identity = ("x-ms-identity-url", "https://identity.arm.test/");
    let headers = [("x-ms-arm-resource-system-data", said.as_str()), identity];
    let put = async |who, name: &str, headers: &[(&'static str, &str)]| {
        let body = cluster_body(name);
        gated.send_with(who, Method::PUT, &cluster_url(name), Some(&body), headers).await
    };
    let by_user = put(Who::User, "by-user", &headers).await;
    assert_eq!(by_user.status, 201, "{}", by_user.text);
    assert_eq!(by_user.body["systemData"]["createdBy"], "user");
    assert_eq!(by_user.body["systemData"]["createdByType"], "User");
    let by_arm = put(Who::Arm, "by-arm", &headers).await;
    assert_eq!(by_arm.status, 201, "{}", by_arm.text);
    assert_eq!(by_arm.body["systemData"]["createdBy"], "root");
    // Nor may anybody else name the identity that a cluster is made with.
    for (name, believed) in [("by-user", None), ("by-arm", Some(identity.1))] {
        let stored = gated.records.cluster_get(&cluster(name).parse().unwrap()).await.unwrap().unwrap();
        assert_eq!(stored.identity_url.as_deref(), believed, "{name}");
    }
    assert_eq!(put(Who::Arm, "refused", &headers[..1]).await.status, 400);
    assert_eq!(put(Who::Arm, "refused", &headers[1..]).await.status, 400);
    gated.stop().await;
}

#[rstest]
#[tokio::test]
async fn a_mesh_may_ask_instead(#[values(Engine::Sqlite, Engine::Postgres)] engine: Engine) {
    let Some(gated) = Gated::new(engine).await else { return };
    let base = gated.authorization.clone().unwrap();
    let path = format!("{base}/authorize{}", cluster("some"));
    for (who, status) in [(Who::User, 200), (Who::Arm, 200), (Who::Foreigner, 403), (Who::Nobody, 401)] {
        let reply = gated.send(who, Method::GET, &path, None).await;
        assert_eq!(reply.status, status, "{who:?}: {}", reply.text);
    }
    let reply = gated.send(Who::User, Method::GET, &path, None).await;
    assert_eq!(reply.headers["x-ms-client-principal-name"], "user");
    gated.stop().await;
}
