use pilothouse_access::{AuditConfig, Config, Through};
use serde_json::json;

use crate::support::{ARM, OURS, Rig, SUPPORT, TENANT, THEIRS, claims, with};

fn in_subscription(id: &str) -> String {
    format!("/subscriptions/{id}/resourceGroups/g/providers/P/t/n")
}

#[tokio::test]
async fn nobody_comes_in_without_credentials() {
    let mut rig = Rig::new();
    let service = rig.service(&AuditConfig::default());
    for path in ["/", "/nowhere", &in_subscription(OURS), "/HEALTHZ", "/healthz/", "/healthz/more"] {
        let refused = service.send("GET", path, &[]).await;
        assert_eq!((refused.status.as_u16(), refused.code()), (401, "AuthenticationFailed"), "{path}");
        assert_eq!(refused.header("www-authenticate"), r#"Bearer realm="pilothouse""#);
        assert_eq!(refused.header("x-ms-error-code"), "AuthenticationFailed");
        assert!(!refused.header("x-ms-request-id").is_empty());
    }
    assert_eq!(service.send("GET", "/healthz", &[]).await.status, 200);

    let expired = rig.key.sign(&with(json!({"exp": 1})));
    let refused = service.get_as(&expired, "/").await;
    assert_eq!(refused.message(), "Authentication failed: the token has expired.");
    assert_eq!(
        refused.header("www-authenticate"),
        r#"Bearer realm="pilothouse", error="invalid_token", error_description="the token has expired""#
    );
}

#[tokio::test]
async fn people_act_at_home_and_where_the_role_list_lets_them() {
    let mut rig = Rig::new();
    let service = rig.service(&AuditConfig::default());
    let user = rig.key.sign(&claims());
    let foreigner = rig.key.sign(&with(json!({"tid": "33333333-3333-3333-3333-333333333333"})));
    let nobodys = rig.key.sign(&with(json!({"tid": null})));
    let support = rig.key.sign(&with(json!({"tid": "x", "azp": SUPPORT})));
    let arm = rig.key.sign(&with(json!({"tid": "x", "azp": ARM.to_uppercase()})));
    let unknown = "0b1f6471-1bf0-4dda-aec3-000000000000";
    let escaped = format!("/subscriptions/%30{}/x", &OURS[1..]);
    let theirs = in_subscription(THEIRS);
    for (who, token, method, path, status) in [
        ("user", &user, "GET", in_subscription(OURS), 200),
        ("user", &user, "DELETE", in_subscription(OURS).to_uppercase(), 200),
        ("user", &user, "GET", format!("/subscriptions/{OURS}"), 200),
        // Being at home does not suffice to say that the subscription is gone.
        ("user", &user, "PUT", format!("/subscriptions/{OURS}"), 403),
        ("user", &user, "PUT", format!("/subscriptions/{OURS}/"), 403),
        ("user", &user, "GET", theirs.clone(), 403),
        ("user", &user, "GET", in_subscription(unknown), 403),
        ("user", &user, "GET", "/subscriptions/mine/x".to_owned(), 403),
        ("user", &user, "GET", "/providers/P/operations".to_owned(), 200),
        ("foreigner", &foreigner, "GET", in_subscription(OURS), 403),
        ("foreigner", &foreigner, "GET", escaped, 403),
        ("nobody's", &nobodys, "GET", in_subscription(OURS), 403),
        ("nobody's", &nobodys, "GET", in_subscription(unknown), 403),
        ("support", &support, "PUT", theirs, 200),
        ("support", &support, "PUT", format!("/subscriptions/{THEIRS}"), 200),
        ("support", &support, "GET", in_subscription(OURS), 403),
        ("arm", &arm, "PUT", format!("/subscriptions/{unknown}"), 200),
        ("arm", &arm, "DELETE", in_subscription(OURS), 200),
    ] {
        let authorization = format!("Bearer {token}");
        let reply = service.send(method, &path, &[("authorization", &authorization)]).await;
        assert_eq!(reply.status.as_u16(), status, "{who} {method} {path}: {}", reply.body);
        if status == 403 {
            assert_eq!(reply.code(), "AuthorizationFailed");
            assert_eq!(reply.header("www-authenticate"), "");
        }
    }
}

#[tokio::test]
async fn only_arm_is_believed_about_who_calls() {
    let mut rig = Rig::new();
    let service = rig.service(&AuditConfig::default());
    let said = |token: &str| {
        let mut headers = vec![
            ("x-ms-home-tenant-id", "somebody-elses".to_owned()),
            ("x-ms-client-object-id", "somebody-else".to_owned()),
            ("x-ms-client-principal-name", "root".to_owned()),
            ("x-ms-arm-resource-system-data", r#"{"createdBy":"root"}"#.to_owned()),
            ("x-ms-identity-url", "https://evil.test".to_owned()),
            ("x-ms-identity-principal-id", "p".to_owned()),
            ("x-ms-brand-new", "1".to_owned()),
            ("x-ms-client-request-id", "mine".to_owned()),
            ("x-ms-correlation-request-id", "ours".to_owned()),
        ];
        headers.push(("authorization", format!("Bearer {token}")));
        headers
    };
    let sent = async |token: &str| {
        let headers = said(token);
        let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        service.send("GET", &in_subscription(OURS), &headers).await.body["headers"].clone()
    };

    let seen = sent(&rig.key.sign(&with(json!({"preferred_username": "Ádá \u{1f600} \"quoted\""})))).await;
    assert_eq!(seen["x-ms-home-tenant-id"], TENANT);
    assert_eq!(seen["x-ms-client-object-id"], "22222222-2222-2222-2222-222222222222");
    assert_eq!(seen["x-ms-client-principal-name"], "?d? ? \"quoted\"");
    let system_data: serde_json::Value =
        serde_json::from_str(seen["x-ms-arm-resource-system-data"].as_str().unwrap()).unwrap();
    assert_eq!(system_data["createdBy"], "Ádá \u{1f600} \"quoted\"");
    assert_eq!(system_data["createdByType"], "User");
    assert_eq!(system_data["createdAt"], "2027-01-15T08:00:00Z");
    assert_eq!(
        (&seen["x-ms-client-request-id"], &seen["x-ms-correlation-request-id"]),
        (&json!("mine"), &json!("ours"))
    );
    for gone in ["x-ms-identity-url", "x-ms-identity-principal-id", "x-ms-brand-new", "authorization"] {
        assert!(seen.get(gone).is_none(), "{gone}: {seen}");
    }

    let seen = sent(&rig.key.sign(&with(json!({"azp": ARM})))).await;
    assert_eq!(seen["x-ms-client-principal-name"], "root");
    assert_eq!(seen["x-ms-identity-url"], "https://evil.test");
    assert_eq!(seen["x-ms-brand-new"], "1");
    assert!(seen.get("authorization").is_none(), "{seen}");
}

#[tokio::test]
async fn without_authentication_everybody_is_let_in_and_believed() {
    let mut rig = Rig::new();
    rig.config = Config::default();
    let service = rig.service(&AuditConfig::default());
    let headers = [("x-ms-client-principal-name", "ada"), ("authorization", "Bearer whatever")];
    let reply = service.send("PUT", &format!("/subscriptions/{THEIRS}"), &headers).await;
    assert_eq!(reply.status, 200);
    assert_eq!(reply.body["headers"]["x-ms-client-principal-name"], "ada");
    assert_eq!(reply.body["how"], "accepted from this machine; no authentication is configured");
    assert!(reply.body["headers"].get("authorization").is_none());
}

#[tokio::test]
async fn administrators_have_a_gate_of_their_own() {
    let mut rig = Rig::new();
    let service = rig.behind(&AuditConfig::default(), Through::Administrators);
    for (app_id, status) in [("administrators", 200), ("some-app", 403), (ARM, 403)] {
        let token = rig.key.sign(&with(json!({"azp": app_id})));
        let reply = service.get_as(&token, "/admin/v1/operations").await;
        assert_eq!(reply.status.as_u16(), status, "{app_id}");
        if status == 403 {
            assert_eq!(reply.code(), "AuthorizationFailed");
            assert_eq!(reply.message(), "Authorization failed: 'ada@team.test' is not an administrator.");
        }
    }
    assert_eq!(service.send("GET", "/admin/v1/operations", &[]).await.status, 401);
}
