use pilothouse_access::{AuditConfig, authorize};
use serde_json::json;

use crate::support::{ARM, OURS, Rig, TENANT, THEIRS, claims, send, with};

#[tokio::test]
async fn a_mesh_is_told_what_the_gate_would_do() {
    let mut rig = Rig::new();
    let service = rig.service(&AuditConfig::default());
    let mesh = authorize(service.gate.clone());
    let user = format!("Bearer {}", rig.key.sign(&claims()));
    let arm = format!("Bearer {}", rig.key.sign(&with(json!({"azp": ARM}))));
    let (ours, theirs) = (format!("/subscriptions/{OURS}/x"), format!("/subscriptions/{THEIRS}/x"));
    for (path, headers, status) in [
        (ours.as_str(), vec![("authorization", user.as_str())], 200),
        (&format!("/authorize{ours}"), vec![("authorization", &user)], 200),
        (&format!("/authorize{theirs}"), vec![("authorization", &user)], 403),
        ("/authorize", vec![("authorization", &user), ("x-original-uri", &theirs)], 403),
        ("/authorize", vec![("authorization", &user), ("x-forwarded-uri", &format!("{ours}?a=b"))], 200),
        // What is asked about is what counts, not how it is asked.
        (&ours, vec![("authorization", &user), ("x-forwarded-uri", &theirs)], 403),
        (&theirs, vec![("authorization", &arm)], 200),
        (&ours, vec![], 401),
    ] {
        let reply = send(&mesh, "GET", path, &headers).await;
        assert_eq!(reply.status.as_u16(), status, "{path} {headers:?}");
    }
    let told = [("authorization", user.as_str()), ("x-original-method", "PUT")];
    let reply = send(&mesh, "GET", &format!("/subscriptions/{OURS}"), &told).await;
    assert_eq!((reply.status.as_u16(), reply.code()), (403, "AuthorizationFailed"));
}

#[tokio::test]
async fn a_mesh_is_told_which_headers_go_on() {
    let mut rig = Rig::new();
    let service = rig.service(&AuditConfig::default());
    let mesh = authorize(service.gate.clone());
    let path = format!("/subscriptions/{OURS}/x");
    let claimed = [("x-ms-home-tenant-id", "else"), ("x-ms-identity-url", "https://evil.test")];
    let user = format!("Bearer {}", rig.key.sign(&claims()));
    let reply = send(&mesh, "GET", &path, &[&claimed[..], &[("authorization", &user)]].concat()).await;
    assert_eq!(reply.header("x-ms-home-tenant-id"), TENANT);
    assert_eq!(reply.header("x-ms-client-principal-name"), "ada@team.test");
    assert_eq!(reply.header("x-envoy-auth-headers-to-remove"), "x-ms-identity-url");

    let arm = format!("Bearer {}", rig.key.sign(&with(json!({"azp": ARM}))));
    let reply = send(&mesh, "GET", &path, &[&claimed[..], &[("authorization", &arm)]].concat()).await;
    assert_eq!(
        (reply.header("x-ms-home-tenant-id"), reply.header("x-envoy-auth-headers-to-remove")),
        ("", "")
    );
}
