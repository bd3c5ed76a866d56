use std::os::unix::fs::PermissionsExt as _;

use pilothouse_access::{Audit, AuditConfig};
use pilothouse_runtime::{Reason, Shutdown, Tasks};
use pilothouse_test_support::eventually;
use serde_json::{Value, json};

use crate::support::{ARM, OURS, PATIENCE, Rig, THEIRS, claims, with};

fn lines(path: &std::path::Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test]
async fn every_decision_is_one_line_and_no_line_has_a_secret() {
    let mut rig = Rig::new();
    let path = rig.path("audit.log");
    let config = AuditConfig { file: Some(path.clone()), ..AuditConfig::default() };
    let service = rig.service(&config);
    let tasks = Tasks::new("test", Shutdown::new());
    service.audit.run(&tasks).await;
    let (token, arm) = (rig.key.sign(&claims()), rig.key.sign(&with(json!({"azp": ARM}))));
    let (user, arm) = (format!("Bearer {token}"), format!("Bearer {arm}"));
    let ours = format!("/subscriptions/{OURS}/x");
    let ids = [("x-request-id", "request-1"), ("x-ms-correlation-request-id", "correlation-1")];
    service
        .send(
            "PATCH",
            &format!("{ours}?secret=hunter2"),
            &[
                &ids[..],
                &[("authorization", &user), ("user-agent", "curl/8"), ("x-ms-client-principal-name", "root")],
            ]
            .concat(),
        )
        .await;
    service.send("DELETE", &format!("/subscriptions/{THEIRS}/x"), &[("authorization", &user)]).await;
    service
        .send("POST", &ours, &[("authorization", &arm), ("x-ms-client-principal-name", "grace@team.test")])
        .await;
    service.send("GET", &ours, &[("authorization", "Bearer hunter2")]).await;
    service.send("GET", "/healthz", &[]).await;
    service.audit.flush().await;

    let records = lines(&path);
    assert_eq!(records.len(), 4, "probes are not recorded: {records:?}");
    assert_eq!(
        records[0],
        json!({
            "time": "2027-01-15T08:00:00Z", "operation": format!("PATCH {ours}"), "type": "Update", "resource": ours,
            "caller": {"name": "ada@team.test", "type": "User", "credential": "Token", "arm": false,
                       "tenantId": "11111111-1111-1111-1111-111111111111",
                       "objectId": "22222222-2222-2222-2222-222222222222", "appId": "some-app"},
            "agent": "curl/8", "decision": "Allowed", "outcome": "Success", "status": 200,
            "requestId": "request-1", "correlationId": "correlation-1",
        })
    );
    assert_eq!(records[1]["decision"], "Denied");
    assert_eq!((&records[1]["status"], &records[1]["type"]), (&json!(403), &json!("Delete")));
    assert_eq!(
        (&records[2]["onBehalfOf"], &records[2]["type"]),
        (&json!("grace@team.test"), &json!("Create"))
    );
    assert_eq!(records[2]["caller"]["arm"], true);
    assert_eq!((&records[3]["status"], &records[3]["caller"]), (&json!(401), &Value::Null));
    assert_eq!(records[3]["reason"], "the header 'Authorization' does not hold a bearer token");

    let text = std::fs::read_to_string(&path).unwrap();
    let signature = token.rsplit_once('.').unwrap().1;
    for secret in ["hunter2", signature, "Bearer"] {
        assert!(!text.contains(secret), "{secret} in {text}");
    }
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    tasks.shutdown().request(Reason::Asked("the test is over".into()));
    tasks.drain(PATIENCE).await.unwrap();
}

/// Requests go on when the disk is full.
#[tokio::test]
async fn what_cannot_be_written_is_counted_and_stops_nobody() {
    let mut rig = Rig::new();
    let full = AuditConfig { file: Some("/dev/full".into()), ..AuditConfig::default() };
    let service = rig.service(&full);
    let tasks = Tasks::new("test", Shutdown::new());
    service.audit.run(&tasks).await;
    let token = rig.key.sign(&claims());
    for _ in 0..3 {
        assert_eq!(service.get_as(&token, &format!("/subscriptions/{OURS}/x")).await.status, 200);
    }
    service.audit.flush().await;
    assert!(rig.numbers().contains("audit_records_lost_total 3\n"), "{}", rig.numbers());
    assert!(rig.numbers().contains("audit_records_total 3\n"), "{}", rig.numbers());
    tasks.drain(PATIENCE).await.unwrap();
}

#[tokio::test]
async fn a_file_that_was_moved_is_begun_again_at_a_hangup() {
    let mut rig = Rig::new();
    let (path, moved) = (rig.path("audit.log"), rig.path("audit.log.moved"));
    let config = AuditConfig { file: Some(path.clone()), ..AuditConfig::default() };
    let service = rig.service(&config);
    let tasks = Tasks::new("test", Shutdown::new());
    service.audit.run(&tasks).await;
    service.send("GET", "/before", &[]).await;
    service.audit.flush().await;
    std::fs::rename(&path, &moved).unwrap();
    let status = std::process::Command::new("kill").args(["-HUP", &std::process::id().to_string()]).status();
    assert!(status.unwrap().success());
    eventually("the file is there again", PATIENCE, || async {
        if path.exists() { Ok(()) } else { Err("not yet") }
    })
    .await;
    service.send("GET", "/after", &[]).await;
    service.audit.flush().await;
    assert_eq!(lines(&moved)[0]["resource"], "/before");
    assert_eq!(lines(&path)[0]["resource"], "/after");
    tasks.drain(PATIENCE).await.unwrap();
}

#[test]
fn a_file_that_cannot_be_opened_is_found_at_the_start() {
    let config = AuditConfig { file: Some("/nowhere/audit.log".into()), ..AuditConfig::default() };
    let error = Audit::open(&config, &mut prometheus_client::registry::Registry::default()).unwrap_err();
    assert!(error.to_string().contains("set `audit.file`"), "{error}");
}
