//! Images beyond those of every node: upstream's programs, and what an administrator lists.

use k8s_openapi::api::core::v1::Event;
use kube::Api;
use kube::api::{ListParams, LogParams};
use pilothouse_test_support::upstream::{self, Upstream};
use serde_json::{Value, json};

use crate::support::{Cluster, is_ready, run, until};

/// A real etcd, which answers to health checks over gRPC, for itself and not for a service that it does not have.
fn etcd(service: Option<&str>) -> Value {
    let mut probe = json!({"grpc": {"port": 2379}, "periodSeconds": 1});
    if let Some(service) = service {
        probe["grpc"]["service"] = json!(service);
    }
    json!({"containers": [{
        "name": "main",
        "image": format!("registry.k8s.io/etcd:v{}", upstream::version()),
        "args": [
            "--data-dir=/tmp/etcd", "--listen-peer-urls=http://127.0.0.1:2380",
            "--listen-client-urls=http://0.0.0.0:2379", "--advertise-client-urls=http://127.0.0.1:2379",
        ],
        "readinessProbe": probe,
    }]})
}

pub(crate) fn upstream_programs_run_and_are_asked_over_grpc() {
    let Some(programs) = Upstream::find() else { return };
    run(async {
        let versions = programs.program("etcd").ancestors().nth(2).unwrap().to_owned();
        let cluster = Cluster::start_with(|config| config.upstream = Some(versions)).await;
        cluster.create("deaf", etcd(Some("nobody"))).await;
        cluster.create("store", etcd(None)).await;
        cluster.until_ready("store").await;
        let events: Api<Event> = Api::default_namespaced(cluster.client.clone());
        let told = async || {
            let found = events.list(&ListParams::default().fields("involvedObject.name=deaf")).await.unwrap();
            found.into_iter().any(|event| {
                event.reason.as_deref() == Some("Unhealthy")
                    && event.message.is_some_and(|message| message.contains("the health check was refused"))
            })
        };
        until(told).await;
        assert!(!is_ready(&cluster.pods().get("deaf").await.unwrap()));
    });
}

pub(crate) fn listed_programs_run_under_their_name() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("program-of-the-house");
        std::fs::copy("/bin/echo", &program).unwrap();
        let cluster = Cluster::start_with(|config| {
            config.images.insert("greeter".to_owned(), program.clone());
            config.allow_host_path = true;
        })
        .await;
        let spec = json!({"restartPolicy": "Never", "containers": [
            {"name": "main", "image": "quay.io/team/greeter:3", "args": ["hello"]},
            {"name": "shell", "image": "greeter", "command": ["sh", "-c", "greeter by its name"]},
        ]});
        cluster.create("greets", spec).await;
        cluster.until_phase("greets", "Succeeded").await;
        for (container, expected) in [("main", "hello\n"), ("shell", "by its name\n")] {
            let of = LogParams { container: Some(container.to_owned()), ..LogParams::default() };
            assert_eq!(cluster.pods().logs("greets", &of).await.unwrap(), expected);
        }
        // Privileges are for this very program, whatever is listed.
        let spec = json!({"containers": [
            {"name": "main", "image": "greeter", "securityContext": {"privileged": true}},
        ]});
        cluster.create("climber", spec).await;
        let pod = cluster.until_phase("climber", "Failed").await;
        assert_eq!(pod.status.unwrap().reason.as_deref(), Some("NodeRefused"));
    });
}
