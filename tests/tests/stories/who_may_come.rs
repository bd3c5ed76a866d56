//! From where a cluster's API server may be reached: asked of the resource provider, and enforced where clients come in.

use pilothouse_test_support::eventually;
use serde_json::json;

use crate::first_light::cluster_body;
use crate::region::{LIMIT, Region};

const ROUTES: [&str; 5] = ["get", "routes", "--all-namespaces", "-o", "yaml"];

#[tokio::test(flavor = "multi_thread")]
async fn api_server_is_reached_from_where_its_owner_allows_and_nowhere_else() {
    let Some(mut region) = Region::start(&[]).await else { return };
    region.provider().register();
    let first = Region::cluster_id("first");
    let mut body = cluster_body();
    body["properties"]["api"] = json!({ "visibility": "Private", "authorizedCidrs": ["203.0.113.0/24"] });
    let (status, answer) = region.arm("PUT", &first, Some(&body));
    assert_eq!(status, 201, "{answer}");
    // The region itself reaches it, or it would never be seen to answer.
    region.reaches(&first, "Succeeded").await;
    let kubeconfig = region.kubeconfig("first").unwrap();
    let nodes = ["get", "nodes", "--request-timeout=5s"];
    let refused = region.kubectl_on(&kubeconfig, &nodes).unwrap_err();
    assert!(refused.contains("access denied"), "{refused}");
    let routes = region.kubectl(&ROUTES).unwrap();
    assert!(routes.contains("hypershift.openshift.io/internal-route: \"true\""), "{routes}");

    // It takes what is on the list for connections that come from now on, in either direction.
    for (list, open) in [
        (json!(["203.0.113.0/24", "127.0.0.1"]), true),
        (json!(["203.0.113.0/24"]), false),
        (json!(null), true),
    ] {
        let change = json!({ "properties": { "api": { "authorizedCidrs": list } } });
        let (status, answer) = region.arm("PATCH", &first, Some(&change));
        assert!([200, 202].contains(&status), "{status} {answer}");
        eventually(&format!("{list} is in effect"), LIMIT, || async {
            let seen = region.kubectl_on(&kubeconfig, &nodes);
            if seen.is_ok() == open { Ok(()) } else { Err(format!("{seen:?}")) }
        })
        .await;
        region.reaches(&first, "Succeeded").await;
    }
    let routes = region.kubectl(&ROUTES).unwrap();
    assert!(!routes.contains("ip_allowlist"), "{routes}");
    region.stop();
}
