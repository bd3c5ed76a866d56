//! What a pod of a hosted cluster cannot do, tried from inside one; and regions that do not meet.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use nix::ifaddrs::getifaddrs;
use pilothouse_test_support::eventually;
use pilothouse_test_support::requirement::Requirement;
use serde_json::json;

use crate::first_light::cluster_body;
use crate::region::{LIMIT, Region, User};

/// A port that nothing else here has.
const PORT: u16 = 7391;

/// The pod of a hosted cluster's API server.
const API_SERVER: &str = "kube-apiserver-0";

/// Places by name, as address and port.
type Places = Vec<(String, String, u16)>;

/// Every place that is none of a tenant's business, as far as it has an address.
fn places(region: &Region) -> Places {
    let endpoints = region.endpoints();
    let kubeconfig = std::fs::read_to_string(&endpoints.management_kubeconfig).unwrap();
    let management =
        kubeconfig.lines().find_map(|line| line.trim().strip_prefix("server: ")).unwrap().to_owned();
    let mut found = Places::new();
    // The machine, by every name it has; and the management node.
    let own = getifaddrs()
        .unwrap()
        .filter_map(|one| one.address?.as_sockaddr_in().map(|address| IpAddr::from(address.ip())));
    let mut hosts: Vec<_> = own.map(|address| address.to_string()).collect();
    hosts.push("10.200.0.1".to_owned());
    for (name, url) in [
        ("frontend", &endpoints.frontend),
        ("administrators", &endpoints.admin),
        ("clusters-service", &endpoints.clusters_service),
        ("maestro", &endpoints.maestro),
        ("maestro-grpc", &endpoints.maestro_grpc),
        ("mqtt", &endpoints.mqtt),
        ("management", &management),
        ("gateway", &endpoints.gateway),
        ("cloud", &endpoints.cloud),
        ("dns", &endpoints.dns),
        ("metrics", &endpoints.metrics),
    ] {
        let port = url.trim_end_matches('/').rsplit(':').next().and_then(|port| port.parse().ok());
        let port = port.unwrap_or_else(|| panic!("{url} has no port"));
        found.extend(hosts.iter().map(|host| (format!("{name}@{host}"), host.clone(), port)));
    }
    found.push(("management-kubelet".to_owned(), "10.200.0.1".to_owned(), 10250));
    // Services of the management cluster, by the addresses that lead to them there.
    let services = "jsonpath={range .items[*]}{.metadata.namespace}/{.metadata.name} {.spec.clusterIP} {.spec.ports[0].port}{\"\\n\"}{end}";
    let services = region.kubectl(&["get", "services", "-A", "-o", services]).unwrap();
    for line in services.lines() {
        let words: Vec<_> = line.split(' ').collect();
        if let [name, address, port] = words[..]
            && address != "None"
            && !name.starts_with("clusters-ada/")
        {
            found.push((format!("service:{name}"), address.to_owned(), port.parse().unwrap()));
        }
    }
    // Another tenant's API server and node; and the own API server other than by its Service, which only the own node keeps from its pods.
    let pods = "jsonpath={range .items[*]}{.metadata.name} {.status.podIP}{\"\\n\"}{end}";
    for tenant in ["ada", "bob"] {
        let namespace = format!("clusters-{tenant}");
        let pods = region.kubectl(&["get", "pods", "-n", &namespace, "-o", pods]).unwrap();
        for line in pods.lines() {
            let (name, address) = line.split_once(' ').unwrap();
            // A node is there for its pods.
            if tenant == "ada" && name != API_SERVER {
                continue;
            }
            for port in [443, 6443, 10250] {
                found.push((format!("{tenant}:{name}"), address.to_owned(), port));
            }
        }
        let api_server = format!("{tenant}:{API_SERVER}");
        assert!(found.iter().any(|(name, ..)| *name == api_server), "{pods}");
    }
    found
}

/// Tells whether an address can be connected to, by the name it is given.
const REACH: &str = "reach() { if timeout 10 bash -c \"exec 3<>/dev/tcp/$2/$3\" 2>/dev/null; then echo \"$1 open\"; else echo \"$1 refused\"; fi; }\n";

/// Tries all places at once, and waits.
fn connections<'a>(places: impl IntoIterator<Item = &'a (String, String, u16)>) -> String {
    let lines = places.into_iter().map(|(name, host, port)| format!("reach {name}:{port} {host} {port} &\n"));
    lines.chain(["wait\n".to_owned()]).collect()
}

/// What a pod tries, one line each. All at once: what drops packets takes its time.
fn attempts(region: &Region, places: &Places) -> String {
    let data = region.data_dir();
    let mut script = "reach own $KUBERNETES_SERVICE_HOST $KUBERNETES_SERVICE_PORT &\n".to_owned();
    script.insert_str(0, REACH);
    script += &connections(places);
    script += &format!(
        "see() {{ if test -e $2; then echo \"$1 open\"; else echo \"$1 refused\"; fi; }}
        see data-directory {data}
        see node-folder {data}/node
        see host-socket /run/host
        for one in /proc/[0-9]*; do
            set -- $(tr '\\0' ' ' < $one/cmdline | cut -c 1-200)
            case \"$1 $2\" in *kubelet*|*control-plane*|*kube-apiserver*|*' up') echo \"process-$one open\";; esac
        done
        if mount -t tmpfs none /tmp 2>/dev/null; then echo mount open; else echo mount refused; fi
        if echo x > /proc/sys/kernel/core_pattern 2>/dev/null; then echo kernel open; else echo kernel refused; fi
        if touch /usr/x 2>/dev/null; then echo programs open; else echo programs refused; fi
        if unshare -n true 2>/dev/null && ip link add x type dummy 2>/dev/null; then echo network open; else echo network refused; fi
        echo over over\n",
        data = data.display()
    );
    script
}

async fn a_tenants_pod_is_alone_with_its_api_server(user: User) {
    let Some(mut region) = Region::start_as(user, &[]).await else { return };
    let ada = region.host("ada");
    let bob = region.host("bob");
    // Something of bob's that listens.
    let listen = format!("0.0.0.0:{PORT}");
    let serve = [
        "run",
        "web",
        "--image=pilothouse",
        "--",
        "kube-apiserver",
        "--data-dir",
        "/tmp/api",
        "--listen",
        &listen,
    ];
    region.kubectl_on(&bob, &serve).unwrap();
    region.kubectl_on(&bob, &["wait", "--for=condition=Ready", "pod/web", "--timeout=120s"]).unwrap();
    let address = region.kubectl_on(&bob, &["get", "pod", "web", "-o", "jsonpath={.status.podIP}"]).unwrap();
    let mut places = places(&region);
    places.push(("bob:web".to_owned(), address.clone(), PORT));

    // It is there for its neighbours, so that nobody is fooled by something that does not listen.
    let near = format!(
        "for i in $(seq 100); do timeout 10 bash -c 'exec 3<>/dev/tcp/{address}/{PORT}' && exit 0; sleep 0.2; done; exit 1"
    );
    region
        .kubectl_on(&bob, &["run", "near", "--image=busybox", "--restart=Never", "--", "bash", "-c", &near])
        .unwrap();
    region
        .kubectl_on(&bob, &["wait", "pod/near", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=120s"])
        .unwrap();

    let script = attempts(&region, &places);
    region
        .kubectl_on(
            &ada,
            &["run", "curious", "--image=busybox", "--restart=Never", "--", "bash", "-c", &script],
        )
        .unwrap();
    let phase = "--for=jsonpath={.status.phase}=Succeeded";
    region.kubectl_on(&ada, &["wait", "pod/curious", phase, "--timeout=120s"]).unwrap();
    let log = region.kubectl_on(&ada, &["logs", "curious"]).unwrap();
    let outcomes: Vec<_> = log.lines().filter_map(|line| line.split_once(' ')).collect();
    let open: Vec<_> = outcomes.iter().filter(|(_, outcome)| *outcome == "open").collect();
    assert_eq!(open, [&("own", "open")], "{log}");
    let refused = outcomes.iter().filter(|(_, outcome)| *outcome == "refused").count();
    // And the files, the mount, the kernel, the programs and the network.
    assert_eq!(refused, places.len() + 7, "{log}");
    assert!(log.ends_with("over over\n"), "{log}");

    // A worker keeps its pods in. Who gets out of one is where the worker is: beside its own API server, and still not near bob's.
    let own = (API_SERVER, 6443);
    let beside = places.iter().filter(|(name, _, port)| {
        name.starts_with("bob:") || (name.strip_prefix("ada:"), *port) == (Some(own.0), own.1)
    });
    let script = format!("{REACH}{}", connections(beside));
    let run = ["run", "beside", "-n", "clusters-ada", "--image=busybox", "--restart=Never", "--"];
    region.kubectl(&[&run[..], &["bash", "-c", &script]].concat()).unwrap();
    region.kubectl(&["wait", "pod/beside", "-n", "clusters-ada", phase, "--timeout=120s"]).unwrap();
    let log = region.kubectl(&["logs", "beside", "-n", "clusters-ada"]).unwrap();
    let open: Vec<_> = log.lines().filter_map(|line| line.strip_suffix(" open")).collect();
    assert_eq!(open, [format!("ada:{}:{}", own.0, own.1)], "{log}");

    // What would lead out of all this is refused by the node.
    for (name, spec) in [
        ("host-path", r#"{"volumes":[{"name":"host","hostPath":{"path":"/"}}]}"#),
        ("host-network", r#"{"hostNetwork":true}"#),
        (
            "privileged",
            r#"{"containers":[{"name":"privileged","image":"busybox","command":["true"],"securityContext":{"privileged":true}}]}"#,
        ),
    ] {
        let overrides = format!("--overrides={{\"spec\":{spec}}}");
        let image = ["run", name, "--image=busybox", "--restart=Never", &overrides, "--", "true"];
        region.kubectl_on(&ada, &image).unwrap();
        let pod = format!("pod/{name}");
        let failed = ["wait", &pod, "--for=jsonpath={.status.phase}=Failed", "--timeout=120s"];
        region.kubectl_on(&ada, &failed).unwrap();
    }
    region.stop();
    assert_eq!(region.processes(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn tenants_pod_reaches_its_own_api_server_and_nothing_else() {
    a_tenants_pod_is_alone_with_its_api_server(User::This).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tenants_pod_of_an_ordinary_users_region_reaches_nothing_else_either() {
    a_tenants_pod_is_alone_with_its_api_server(User::Ordinary).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_regions_on_one_machine_do_not_meet() {
    if Requirement::new("dig", "bind9-dnsutils").find().is_none() {
        return;
    }
    let Some(mut first) = Region::start(&[]).await else { return };
    let Some(mut second) = Region::start(&[]).await else { return };
    let regions = [("first", &first), ("second", &second)];
    let kubeconfigs = regions.map(|(_, region)| region.host("ada"));
    let state = |(region, kubeconfig): (&Region, &PathBuf)| {
        let identity = "jsonpath={.metadata.uid} {.status.podIP} {.status.containerStatuses[0].containerID}";
        region.kubectl_on(kubeconfig, &["get", "pod", "web", "-o", identity])
    };
    for ((name, region), kubeconfig) in regions.iter().zip(&kubeconfigs) {
        // Each says whose it is, on the same port and, as it happens, at the same address.
        let line = format!("echo {name}; exec sleep 600");
        region.kubectl_on(kubeconfig, &["run", "web", "--image=busybox", "--", "sh", "-c", &line]).unwrap();
        region
            .kubectl_on(kubeconfig, &["wait", "--for=condition=Ready", "pod/web", "--timeout=120s"])
            .unwrap();
    }
    for ((name, region), kubeconfig) in regions.iter().zip(&kubeconfigs) {
        assert_eq!(region.kubectl_on(kubeconfig, &["logs", "web"]).unwrap(), format!("{name}\n"));
        let pods = region.kubectl_on(kubeconfig, &["get", "pods", "-A", "-o", "name"]).unwrap();
        assert_eq!(pods, "pod/web\n");
        let nodes = region.kubectl_on(kubeconfig, &["get", "nodes", "-o", "name"]).unwrap();
        assert_eq!(nodes.lines().count(), 1, "{nodes}");
    }
    // Nobody gets in with the credentials of the other.
    let server = |kubeconfig: &Path| {
        let text = std::fs::read_to_string(kubeconfig).unwrap();
        text.lines().find_map(|line| line.trim().strip_prefix("server: ").map(str::to_owned)).unwrap()
    };
    let elsewhere = format!("--server={}", server(&second.endpoints().management_kubeconfig));
    first.kubectl(&[&elsewhere, "--insecure-skip-tls-verify", "get", "pods"]).unwrap_err();

    a_name_in_both_is_two_clusters(&first, &second).await;

    // The end of one is nothing to the other.
    let before = state((&second, &kubeconfigs[1])).unwrap();
    first.stop();
    assert_eq!(first.processes(), [""; 0]);
    assert_eq!(state((&second, &kubeconfigs[1])).unwrap(), before);
    eventually("the other still runs pods", LIMIT, || {
        let run = ["run", "late", "--image=busybox", "--restart=Never", "--", "true"];
        let ran = second.kubectl_on(&kubeconfigs[1], &run);
        async move { ran }
    })
    .await;
    let phase = "--for=jsonpath={.status.phase}=Succeeded";
    second.kubectl_on(&kubeconfigs[1], &["wait", "pod/late", phase, "--timeout=120s"]).unwrap();
    second.stop();
    assert_eq!(second.processes(), [""; 0]);
}

/// The whole way of a cluster, in two regions side by side, with the same names.
async fn a_name_in_both_is_two_clusters(first: &Region, second: &Region) {
    let (id, name) = (Region::cluster_id("twin"), "api.twin.pilothouse.test");
    let both = [first, second];
    for region in both {
        region.provider().register();
        let (status, answer) = region.arm("PUT", &id, Some(&cluster_body()));
        assert_eq!(status, 201, "{answer}");
    }
    for region in both {
        region.reaches(&id, "Succeeded").await;
        assert!(region.dig(name).contains(" IN A 127.0.0.1"));
    }
    // Whoever goes by the name meets the cluster of the region that was asked, and nobody else's.
    let kubeconfigs = both.map(|region| region.kubeconfig("twin").unwrap());
    let space = |region: &Region, kubeconfig: &PathBuf| {
        region.kubectl_on(kubeconfig, &["get", "namespace", "kube-system", "-o", "jsonpath={.metadata.uid}"])
    };
    let spaces = [0, 1].map(|one| space(both[one], &kubeconfigs[one]).unwrap());
    assert_ne!(spaces[0], spaces[1]);

    let (status, answer) = first.arm("DELETE", &id, None);
    assert_eq!(status, 202, "{answer}");
    first.is_gone(&id).await;
    eventually("its name is gone", LIMIT, || {
        let found = first.dig(name);
        async move { if found.contains("status: NXDOMAIN") { Ok(()) } else { Err(found) } }
    })
    .await;
    space(first, &kubeconfigs[0]).unwrap_err();
    let (status, answer) = second.arm("GET", &id, None);
    assert_eq!((status, &answer["properties"]["provisioningState"]), (200, &json!("Succeeded")), "{answer}");
    assert!(second.dig(name).contains(" IN A 127.0.0.1"));
    assert_eq!(space(second, &kubeconfigs[1]).unwrap(), spaces[1]);
    let (status, answer) = second.arm("DELETE", &id, None);
    assert_eq!(status, 202, "{answer}");
    second.is_gone(&id).await;
}
