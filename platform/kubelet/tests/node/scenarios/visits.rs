//! What people do at a pod, beyond what `visiting` tries: who may, as whom, and for how long.

use std::io::{BufRead as _, BufReader, Read as _};

use pilothouse_test_support::process::Running;
use serde_json::json;

use super::World;
use crate::support::{program, shell};

pub(super) async fn visit(world: &mut World) {
    let mut web = program(&["serve", "8080", "hello"]);
    web["readinessProbe"] = json!({"httpGet": {"port": 8080}});
    let spec = json!({"terminationGracePeriodSeconds": 1, "containers": [web]});
    world
        .apply(
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "labels": {"app": "web"}},
            "spec": world.pod(spec)}),
        )
        .await;
    world
        .apply(json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
            "spec": {"selector": {"app": "web"}, "ports": [{"name": "http", "port": 80, "targetPort": 8080}]}}))
        .await;
    world.printed(&["wait", "--for=condition=Ready", "pod/web", "--timeout=120s"]).await;
    services_are_proxied(world).await;
    access_to_pods_is_granted(world).await;
    programs_run_as_the_user_of_their_container(world).await;
    logs_are_followed_and_put_aside(world).await;
}

async fn services_are_proxied(world: &World) {
    let path = format!("/api/v1/namespaces/{}/services/web:http/proxy/any", world.namespace);
    let deadline = 2 * crate::support::PATIENCE;
    pilothouse_test_support::eventually("the Service is answered for", deadline, || async {
        let output = world.kubectl_run(&["get", "--raw", &path]).await;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        if said == "hello" { Ok(()) } else { Err(format!("{output:?}")) }
    })
    .await;
}

async fn access_to_pods_is_granted(world: &World) {
    let ada = world.plane.kubectl("ada", &["painters"]);
    let exec = ["--namespace", &world.namespace, "exec", "web", "--", "echo", "hello"];
    let logs = ["--namespace", &world.namespace, "logs", "web"];
    let refused = ada.run(&exec, "").await;
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("Forbidden"), "{said}");
    world.printed(&["create", "role", "look", "--verb=get", "--resource=pods,pods/log"]).await;
    world.printed(&["create", "rolebinding", "look", "--role=look", "--user=ada"]).await;
    ada.printed(&logs, "").await;
    let refused = ada.run(&exec, "").await;
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("pods/exec") || said.contains("\"pods\" in API group \"\""), "{said}");
    world.printed(&["create", "role", "touch", "--verb=get,create", "--resource=pods/exec"]).await;
    world.printed(&["create", "rolebinding", "touch", "--role=touch", "--user=ada"]).await;
    assert_eq!(ada.printed(&exec, "").await, "hello\n");
    let asked = world.kubectl_run(&["auth", "can-i", "create", "pods/portforward", "--as=ada"]).await;
    assert_eq!(String::from_utf8_lossy(&asked.stdout), "no\n");
}

async fn programs_run_as_the_user_of_their_container(world: &World) {
    let mut container = shell("id -u; id -g; exec sleep 600");
    container["securityContext"] = json!({"runAsUser": 1234, "runAsGroup": 2345});
    world.apply_pod("other", json!({"terminationGracePeriodSeconds": 1, "containers": [container]})).await;
    world.printed(&["wait", "--for=condition=Ready", "pod/other", "--timeout=120s"]).await;
    let asked = world.printed(&["exec", "other", "--", "sh", "-c", "id -u; id -g"]).await;
    assert_eq!(asked, "1234\n2345\n");
    world.until_printed(&["logs", "other"], &["1234\n2345\n"]).await;
}

/// A container that prints more than one file of logs holds, in front of somebody who follows.
async fn logs_are_followed_and_put_aside(world: &World) {
    const LINES: usize = 120_000;
    let line = format!(
        "echo begun; while ! test -e /tmp/go; do sleep 0.05; done; seq -f '%0100.0f' 1 {LINES}; echo over"
    );
    world.apply_pod("talks", json!({"restartPolicy": "Never", "containers": [shell(&line)]})).await;
    world.until_printed(&["get", "pod", "talks", "--no-headers"], &["Running"]).await;
    let arguments = ["--namespace", &world.namespace, "logs", "-f", "talks"];
    let mut follower = Running::spawn(world.kubectl.command(&arguments)).unwrap();
    let mut reader = BufReader::new(follower.child().stdout.take().unwrap());
    let (first, reader) = tokio::task::spawn_blocking(move || {
        let mut first = String::new();
        reader.read_line(&mut first).unwrap();
        (first, reader)
    })
    .await
    .unwrap();
    assert_eq!(first, "begun\n");
    world.printed(&["exec", "talks", "--", "touch", "/tmp/go"]).await;
    let rest = tokio::task::spawn_blocking(move || {
        let (mut reader, mut rest) = (reader, String::new());
        // It ends when the container has.
        reader.read_to_string(&mut rest).unwrap();
        rest
    })
    .await
    .unwrap();
    let lines: Vec<_> = rest.lines().collect();
    assert_eq!(lines.last().copied(), Some("over"));
    assert_eq!(lines.len(), LINES + 1, "every line came once");
    let said = world.printed(&["logs", "talks", "--tail=2"]).await;
    assert_eq!(said, format!("{LINES:0100}\nover\n"));
    // Of what was put aside the latest file is kept.
    let kept = world.printed(&["logs", "talks"]).await;
    assert!(kept.len() > 5_000_000, "{} bytes are left", kept.len());
}
