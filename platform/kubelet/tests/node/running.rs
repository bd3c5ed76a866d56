//! Pods and what becomes of them.

use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::Api;
use kube::api::{ListParams, LogParams};
use serde_json::json;

use crate::programs::DESCRIPTORS;
use crate::support::{Cluster, NODE, is_ready, program, run, shell, until};

fn code_of(pod: &Pod) -> i32 {
    let statuses = pod.status.as_ref().unwrap().container_statuses.as_ref().unwrap();
    statuses[0].state.as_ref().unwrap().terminated.as_ref().unwrap().exit_code
}

pub(crate) fn containers_run_log_and_end_with_their_code() {
    run(async {
        let cluster = Cluster::start().await;
        let pod = json!({"restartPolicy": "Never", "containers": [shell("echo one; echo two >&2; printf three; exit 3")]});
        cluster.create("ends", pod).await;
        let pod = cluster.until_phase("ends", "Failed").await;
        assert_eq!(code_of(&pod), 3);
        let log = cluster.pods().logs("ends", &LogParams::default()).await.unwrap();
        // The two streams are two pipes: each is in order, and no more is promised.
        let mut lines: Vec<_> = log.lines().collect();
        lines.sort_unstable();
        assert_eq!(lines, ["one", "three", "two"]);
        let last = LogParams { tail_lines: Some(1), ..LogParams::default() };
        assert_eq!(cluster.pods().logs("ends", &last).await.unwrap().lines().next(), log.lines().last());

        let output = cluster
            .output_of("environment", json!({"image": "busybox", "command": ["sh", "-c", "echo $GREETING $(NAME) $0 $(hostname) $$$$"],
                "env": [{"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                        {"name": "GREETING", "value": "hello-$(NAME)"}]}))
            .await;
        let words: Vec<_> = output.split_whitespace().collect();
        assert_eq!(words[..4], ["hello-environment", "environment", "sh", "environment"], "{output}");
        assert!(words[4].parse::<u32>().unwrap() < 100, "a pod counts its own processes: {output}");
    });
}

pub(crate) fn programs_begin_with_as_many_descriptors_as_the_node_did() {
    run(async {
        let cluster = Cluster::start().await;
        let output = cluster.output_of("counts", shell("ulimit -Sn")).await;
        assert_eq!(output.trim(), DESCRIPTORS.to_string());
    });
}

pub(crate) fn a_node_claims_only_what_it_has_looked_at() {
    run(async {
        let cluster = Cluster::start().await;
        let node = Api::<Node>::all(cluster.client.clone()).get(NODE).await.unwrap();
        let conditions = node.status.unwrap().conditions.unwrap();
        let said = |kind: &str| {
            let condition = conditions.iter().find(|condition| condition.type_ == kind).unwrap();
            (condition.status.as_str(), condition.reason.as_deref().unwrap())
        };
        assert_eq!(said("Ready"), ("True", "KubeletReady"));
        for measured in ["MemoryPressure", "DiskPressure", "PIDPressure"] {
            let (status, reason) = said(measured);
            assert!(
                ["True", "False"].contains(&status) && reason.starts_with("KubeletHas"),
                "{measured} {reason}"
            );
        }
    });
}

pub(crate) fn readiness_follows_the_probe() {
    run(async {
        let cluster = Cluster::start().await;
        let mut container = program(&["serve", "8080", "hello", "/signal/go"]);
        container["readinessProbe"] =
            json!({"httpGet": {"path": "/", "port": 8080}, "periodSeconds": 1, "failureThreshold": 1});
        container["volumeMounts"] = json!([{"name": "signal", "mountPath": "/signal"}]);
        let spec = json!({"containers": [container], "volumes": [{"name": "signal", "emptyDir": {}}]});
        cluster.create("web", spec).await;
        let pod = cluster.until_phase("web", "Running").await;
        let signal = cluster.pod_folder(&pod).join("volumes/signal/go");
        let refused = signal.with_extension("refused");
        // The second refusal comes after the first was heard.
        for _ in 0..2 {
            until(|| async { refused.exists() }).await;
            std::fs::remove_file(&refused).unwrap();
        }
        assert!(!is_ready(&cluster.pods().get("web").await.unwrap()));
        std::fs::write(&signal, "").unwrap();
        cluster.until_ready("web").await;
        std::fs::remove_file(&signal).unwrap();
        cluster.until_pod("web", |pod| !is_ready(pod)).await;
    });
}

pub(crate) fn failed_containers_are_restarted_and_unknown_images_are_named() {
    run(async {
        let cluster = Cluster::start().await;
        let mut other = shell("");
        other["name"] = json!("other");
        other["image"] = json!("quay.io/nobody/nothing:1");
        // Fails the first time it runs, then stays.
        let mut main = shell("test -e /seen/it && exec sleep 600; touch /seen/it; exit 7");
        main["volumeMounts"] = json!([{"name": "seen", "mountPath": "/seen"}]);
        cluster
            .create(
                "stubborn",
                json!({"containers": [main, other], "volumes": [{"name": "seen", "emptyDir": {}}]}),
            )
            .await;
        let statuses = |pod: &Pod| {
            pod.status.as_ref().and_then(|status| status.container_statuses.clone()).unwrap_or_default()
        };
        let pod = cluster
            .until_pod("stubborn", |pod| {
                statuses(pod).first().is_some_and(|one| {
                    one.restart_count == 1 && one.state.as_ref().unwrap().running.is_some()
                })
            })
            .await;
        let statuses = statuses(&pod);
        assert_eq!(statuses[0].last_state.as_ref().unwrap().terminated.as_ref().unwrap().exit_code, 7);
        let waiting = statuses[1].state.as_ref().unwrap().waiting.as_ref().unwrap();
        assert_eq!(waiting.reason.as_deref(), Some("ErrImagePull"));
        assert!(waiting.message.as_ref().unwrap().contains("`busybox`"), "{waiting:?}");
        assert!(!is_ready(&pod));

        cluster.create("missing", json!({"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox", "command": ["no-such-program"]}]})).await;
        let pod = cluster.until_phase("missing", "Failed").await;
        let ended =
            pod.status.unwrap().container_statuses.unwrap()[0].state.clone().unwrap().terminated.unwrap();
        assert_eq!(ended.reason.as_deref(), Some("StartError"));
        assert!(ended.message.as_ref().unwrap().contains("no-such-program"), "{ended:?}");
    });
}

pub(crate) fn hooks_run_and_last_words_are_shown() {
    run(async {
        let cluster = Cluster::start().await;
        let mut main = shell(
            "trap 'echo asked >> /shared/order; exit 6' TERM; echo begun; while true; do sleep 0.05; done",
        );
        let hook =
            |word: &str| json!({"exec": {"command": ["sh", "-c", format!("echo {word} >> /shared/order")]}});
        main["lifecycle"] = json!({"postStart": hook("after-start"), "preStop": hook("before-end")});
        let mut speaks = shell("echo printed; echo -n last words > /dev/termination-log; exit 9");
        speaks["name"] = json!("speaks");
        let mut prints = shell("echo only printed; exit 9");
        prints["name"] = json!("prints");
        prints["terminationMessagePolicy"] = json!("FallbackToLogsOnError");
        for container in [&mut main, &mut speaks, &mut prints] {
            container["volumeMounts"] = json!([{"name": "shared", "mountPath": "/shared"}]);
        }
        let spec = json!({"restartPolicy": "Never", "terminationGracePeriodSeconds": 300,
            "containers": [main, speaks, prints], "volumes": [{"name": "shared", "emptyDir": {}}]});
        cluster.create("polite", spec).await;
        let ended = |pod: &Pod, index: usize| {
            let statuses = pod.status.as_ref()?.container_statuses.clone()?;
            statuses.get(index)?.state.as_ref()?.terminated.clone()
        };
        let pod = cluster.until_pod("polite", |pod| ended(pod, 1).is_some() && ended(pod, 2).is_some()).await;
        assert_eq!(ended(&pod, 1).unwrap().message.as_deref(), Some("last words"));
        assert_eq!(ended(&pod, 2).unwrap().message.as_deref(), Some("only printed\n"));
        let order = cluster.pod_folder(&pod).join("volumes/shared/order");
        let lines = || std::fs::read_to_string(&order).unwrap_or_default();
        until(|| async { lines() == "after-start\n" }).await;
        // Only those lines that came later than now.
        let later = LogParams {
            since_time: Some("2100-01-01T00:00:00Z".parse().unwrap()),
            container: Some("main".to_owned()),
            ..LogParams::default()
        };
        assert_eq!(cluster.pods().logs("polite", &later).await.unwrap(), "");
        // A name that outlives the folder.
        let seen = cluster.folder.path().join("order");
        std::fs::hard_link(&order, &seen).unwrap();
        cluster.delete("polite").await;
        assert_eq!(std::fs::read_to_string(seen).unwrap(), "after-start\nbefore-end\nasked\n");
        let events: Api<Event> = Api::namespaced(cluster.client.clone(), "default");
        let told = async |reason: &'static str| {
            let list = events.list(&ListParams::default()).await.unwrap();
            list.into_iter().any(|event| {
                event.reason.as_deref() == Some(reason)
                    && event.involved_object.name.as_deref() == Some("polite")
            })
        };
        for reason in ["Pulled", "Created", "Started", "Killing"] {
            until(|| told(reason)).await;
        }
    });
}

pub(crate) fn init_containers_come_first_and_probes_run_inside() {
    run(async {
        let cluster = Cluster::start().await;
        let mount = json!([{"name": "shared", "mountPath": "/shared"}]);
        let mut first = shell("echo first >> /shared/order");
        first["name"] = json!("first");
        let mut second = shell("echo second >> /shared/order");
        second["name"] = json!("second");
        let mut main = shell("cat /shared/order; touch /shared/alive; exec sleep 600");
        // A busy machine takes its time, and that is no failure here.
        let probe = json!({"exec": {"command": ["test", "-e", "/shared/alive"]}, "timeoutSeconds": 60});
        main["startupProbe"] = probe.clone();
        main["livenessProbe"] = probe;
        main["livenessProbe"]["periodSeconds"] = json!(1);
        main["livenessProbe"]["failureThreshold"] = json!(1);
        for container in [&mut first, &mut second, &mut main] {
            container["volumeMounts"] = mount.clone();
        }
        cluster.create("ordered", json!({"terminationGracePeriodSeconds": 1, "initContainers": [first, second], "containers": [main],
            "volumes": [{"name": "shared", "emptyDir": {}}]})).await;
        let pod = cluster.until_ready("ordered").await;
        assert_eq!(cluster.pods().logs("ordered", &LogParams::default()).await.unwrap(), "first\nsecond\n");
        std::fs::remove_file(cluster.pod_folder(&pod).join("volumes/shared/alive")).unwrap();
        cluster
            .until_pod("ordered", |pod| {
                pod.status.as_ref().unwrap().container_statuses.as_ref().unwrap()[0].restart_count == 1
            })
            .await;
    });
}

pub(crate) fn a_pod_sees_nothing_of_the_machine() {
    run(async {
        let cluster = Cluster::start().await;
        let secret = cluster.folder.path().join("kubelet.kubeconfig");
        let line = format!(
            "cat {} 2>/dev/null && echo leaked; ls -d /proc/[0-9]* | wc -l; grep CapEff /proc/self/status; \
             grep NoNewPrivs /proc/self/status; echo x > /proc/sys/kernel/core_pattern; touch /usr/x; mount -t tmpfs none /tmp; \
             ls -A /sys /home 2>/dev/null; true",
            secret.display()
        );
        let output = cluster
            .output_of("curious", json!({"image": "busybox", "command": ["sh", "-c", line + " 2>&1"]}))
            .await;
        assert!(!output.contains("leaked"), "{output}");
        assert!(output.contains("CapEff:\t0000000000000000"), "{output}");
        assert!(output.contains("NoNewPrivs:\t1"), "{output}");
        assert!(
            output.lines().any(|line| line.trim().parse::<u32>().is_ok_and(|count| count < 8)),
            "{output}"
        );

        let refused =
            json!({"containers": [shell("true")], "volumes": [{"name": "host", "hostPath": {"path": "/"}}]});
        cluster.create("greedy", refused).await;
        let pod = cluster.until_phase("greedy", "Failed").await;
        assert!(pod.status.unwrap().message.unwrap().contains("hostPath"));
    });
}
