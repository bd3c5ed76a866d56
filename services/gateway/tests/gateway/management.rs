//! Management clusters of the configuration: they come, change and go while the gateway runs.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use pilothouse_gateway::{Config, ManagementCluster, Reloader};
use pilothouse_http::Health;
use pilothouse_runtime::{Shutdown, Tasks};
use pilothouse_test_support::eventually;
use serde_json::json;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use crate::api::Api;
use crate::egress::{by_link, come_by_link, server, until_answered, way_out};
use crate::reload::loading;
use crate::support::{Gateway, PATIENCE, ask};

const OLDER: &str = "2026-01-01T00:00:00Z";
const YOUNGER: &str = "2026-02-01T00:00:00Z";

/// A folder with kubeconfigs.
struct Kubeconfigs(TempDir);

impl Kubeconfigs {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a file, which is there as a whole or not at all.
    fn publish(&self, name: &str, text: &str) {
        fs::write(self.path("unfinished"), text).unwrap();
        fs::rename(self.path("unfinished"), self.path(name)).unwrap();
    }

    /// Writes one of whoever serves there.
    fn write(&self, name: &str, address: SocketAddr) -> PathBuf {
        let text = format!(
            "{{apiVersion: v1, kind: Config, current-context: it, \
             clusters: [{{name: it, cluster: {{server: 'http://{address}'}}}}], \
             contexts: [{{name: it, context: {{cluster: it, user: it}}}}], users: [{{name: it, user: {{}}}}]}}"
        );
        self.publish(name, &text);
        self.path(name)
    }
}

fn west(kubeconfig: &Path) -> Config {
    let kubeconfig = kubeconfig.to_owned();
    let west = ManagementCluster { name: "west".to_owned(), kubeconfig, node_socket: None };
    Config { management_clusters: vec![west], ..nobody() }
}

/// None of the configuration; it listens where gateways of tests do.
fn nobody() -> Config {
    Config { listen: SocketAddr::from(([127, 0, 0, 1], 0)), ..Config::default() }
}

/// A route of a cluster there, and an endpoint that says that it is it.
async fn host_at(gateway: &Gateway, api: &Api, cluster: &str, host: &str, created: &str, says: &str) {
    let address = gateway.endpoint(host, says).await;
    api.endpoints(cluster, address);
    api.route(cluster, "kube-apiserver", host, created);
}

async fn until_answered_by(gateway: &Gateway, host: &str, who: &str) {
    eventually(&format!("{who} answers"), PATIENCE, || async {
        let mut stream = gateway.connect(host).await.map_err(|error| error.to_string())?;
        let said = ask(&mut stream).await.map_err(|error| error.to_string())?;
        if said == who { Ok(()) } else { Err(said) }
    })
    .await;
}

async fn until_nobody_has(gateway: &Gateway, host: &str) {
    eventually("nobody has the host", PATIENCE, || async {
        match gateway.connect(host).await {
            Err(error) if error.to_string().contains("UnrecognisedName") => Ok(()),
            other => Err(format!("{:?}", other.map(|_| ()))),
        }
    })
    .await;
}

async fn until_nobody_watches(api: &Api) {
    eventually("nobody watches", PATIENCE, || async {
        let watching = api.watching();
        if watching == 0 { Ok(()) } else { Err(watching) }
    })
    .await;
}

/// Until the routes of a management cluster were told something.
async fn until_told(gateway: &Gateway, management: &str) {
    eventually(&format!("{management} is told of its routes"), PATIENCE, || async {
        let statuses = gateway.handle.statuses();
        let status = statuses.into_iter().find(|(name, _)| name == management).map(|(_, status)| status);
        if status.as_ref().is_some_and(|status| status.totals.passes > 0) {
            Ok(())
        } else {
            Err(format!("{status:?}"))
        }
    })
    .await;
}

fn verdict(gateway: &Gateway) -> String {
    gateway.health.verdict("management-west").map(|verdict| verdict.to_string()).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn management_cluster_that_is_added_is_followed_and_its_clusters_go_with_it() {
    let gateway = Gateway::start(Config::default()).await;
    let first = gateway.cluster("first").await;
    let (kubeconfigs, api) = (Kubeconfigs::new(), Api::new());
    let kubeconfig = kubeconfigs.write("west", api.serve().await);
    let (host, shared) = ("api.west.pilothouse.test", "api.shared.pilothouse.test");
    host_at(&gateway, &api, "hosted", host, OLDER, "west").await;
    // One that both have, the younger in the cluster that stays.
    host_at(&gateway, &api, "shared", shared, OLDER, "the older").await;
    host_at(&gateway, &gateway.api, "shared", shared, YOUNGER, "the younger").await;
    until_answered_by(&gateway, shared, "the younger").await;
    let told = |admitted: &str| {
        let (admitted, api) = (admitted.to_owned(), gateway.api.clone());
        async move {
            eventually("the younger route is told", PATIENCE, || async {
                let condition = api.get("routes", "shared", "kube-apiserver")["status"]["ingress"][0]
                    ["conditions"][0]["status"]
                    .clone();
                if condition == json!(admitted) { Ok(()) } else { Err(condition) }
            })
            .await;
        }
    };
    told("True").await;
    let lists = gateway.api.lists.load(Ordering::Relaxed);

    assert_eq!(gateway.handle.reconfigure(west(&kubeconfig)).unwrap(), [""; 0]);
    until_answered_by(&gateway, host, "west").await;
    until_answered_by(&gateway, shared, "the older").await;
    assert!(verdict(&gateway).starts_with("[+]"), "{}", verdict(&gateway));
    let mut open = gateway.connect(host).await.unwrap();
    assert_eq!(ask(&mut open).await.unwrap(), "west");
    gateway
        .until_numbers_say("gateway_cluster_open_connections{management=\"west\",cluster=\"hosted\"} 1")
        .await;
    told("False").await;
    until_told(&gateway, "west").await;

    assert_eq!(gateway.handle.reconfigure(nobody()).unwrap(), [""; 0]);
    until_nobody_has(&gateway, host).await;
    until_answered_by(&gateway, shared, "the younger").await;
    told("True").await;
    until_nobody_watches(&api).await;
    let numbers = gateway.numbers();
    assert!(!numbers.contains("management=\"west\""), "{numbers}");
    assert_eq!(gateway.health.verdict("management-west"), None, "there is nothing to say any more");
    assert_eq!(ask(&mut open).await.unwrap(), "west", "what came in is carried until it ends");

    assert_eq!(gateway.who(&first).await, "first");
    assert_eq!(gateway.api.lists.load(Ordering::Relaxed), lists, "those who stay notice nothing");
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn configuration_that_names_another_as_one_that_was_given_is_refused() {
    let gateway = Gateway::start(Config::default()).await;
    let host = "api.hosted.pilothouse.test";
    host_at(&gateway, &gateway.second_api, "hosted", host, OLDER, "as before").await;
    until_answered_by(&gateway, host, "as before").await;
    let (kubeconfigs, api) = (Kubeconfigs::new(), Api::new());
    let mut config = west(&kubeconfigs.write("second", api.serve().await));
    config.management_clusters[0].name = "second".to_owned();
    let refused = gateway.handle.reconfigure(config).unwrap_err().to_string();
    assert!(refused.contains("two management clusters are called `second`"), "{refused}");
    assert_eq!(gateway.who(host).await, "as before");
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn gateway_that_stops_leaves_nothing_behind_at_management_clusters_that_do_not_answer() {
    let (kubeconfigs, api) = (Kubeconfigs::new(), Api::new());
    let kubeconfig = kubeconfigs.write("west", api.serve().await);
    let drain_timeout = Duration::from_millis(400).into();
    let gateway = Gateway::start(Config { drain_timeout, ..west(&kubeconfig) }).await;
    let apis = [api, gateway.api.clone(), gateway.second_api.clone()];
    let until_waiting = async |wanted: [usize; 3]| {
        eventually(&format!("{wanted:?} wait"), PATIENCE, || async {
            let waiting = apis.each_ref().map(Api::waiting);
            if waiting == wanted { Ok(()) } else { Err(format!("{waiting:?}")) }
        })
        .await;
    };
    for (api, cluster) in apis.iter().zip(["first", "second", "third"]) {
        api.hold_back("status");
        api.route(cluster, "kube-apiserver", &format!("api.{cluster}.pilothouse.test"), OLDER);
    }
    until_waiting([1; 3]).await;
    gateway.request_stop();
    until_waiting([0; 3]).await;
}

/// A tunnel of the hosted cluster with link 42, as soon as it has a way out.
async fn tunnel(door: SocketAddr, target: &str) -> TcpStream {
    until_answered(door, 42, target, "HTTP/1.1 200").await;
    let (tunnel, answer) = come_by_link(door, 42, target).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    tunnel
}

#[tokio::test(flavor = "multi_thread")]
async fn way_out_of_hosted_clusters_ends_when_their_management_cluster_is_left() {
    let (kubeconfigs, api) = (Kubeconfigs::new(), Api::new());
    let kubeconfig = kubeconfigs.write("west", api.serve().await);
    let proxy_peers = vec!["127.0.0.1".parse().unwrap()];
    let config = Config { proxy_peers, egress: by_link(), ..west(&kubeconfig) };
    let gateway = Gateway::start(config.clone()).await;
    let server = server().await;
    let target = server.local_addr().unwrap().to_string();
    host_at(&gateway, &api, "hosted", "api.hosted.pilothouse.test", OLDER, "west").await;
    let mut route = api.get("routes", "hosted", "kube-apiserver");
    route["metadata"]["annotations"] = way_out(42, &target);
    api.apply("routes", route);
    let door = gateway.addresses[1];
    let mut tunnel = tunnel(door, &target).await;

    gateway.handle.reconfigure(Config { management_clusters: Vec::new(), ..config }).unwrap();
    let mut rest = Vec::new();
    tokio::time::timeout(PATIENCE, tunnel.read_to_end(&mut rest)).await.unwrap().unwrap();
    until_answered(door, 42, &target, "").await;
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cluster_whose_route_is_another_in_the_new_way_keeps_its_tunnels_and_its_numbers() {
    let (kubeconfigs, former, next) = (Kubeconfigs::new(), Api::new(), Api::new());
    let kubeconfig = kubeconfigs.write("former", former.serve().await);
    let proxy_peers = vec!["127.0.0.1".parse().unwrap()];
    let config = Config { proxy_peers, egress: by_link(), ..Config::default() };
    let followed = |kubeconfig: &Path| Config {
        management_clusters: west(kubeconfig).management_clusters,
        ..config.clone()
    };
    let gateway = Gateway::start(followed(&kubeconfig)).await;
    let (server, host) = (server().await, "api.hosted.pilothouse.test");
    let target = server.local_addr().unwrap().to_string();
    // The one that goes sorts before the one that comes.
    for (api, name) in [(&former, "before"), (&next, "then")] {
        api.route("hosted", name, host, OLDER);
        let mut route = api.get("routes", "hosted", name);
        route["metadata"]["annotations"] = way_out(42, &target);
        api.apply("routes", route);
    }
    let mut tunnel = tunnel(gateway.addresses[1], &target).await;
    tunnel.write_all(b"first").await.unwrap();

    gateway.handle.reconfigure(followed(&kubeconfigs.write("next", next.serve().await))).unwrap();
    gateway.until_served(host, "hosted/then").await;
    until_nobody_watches(&former).await;
    tunnel.write_all(b" second").await.unwrap();
    let arrived = async {
        loop {
            // Whoever only asked whether it is answered has said nothing.
            let (mut stream, _) = server.accept().await.unwrap();
            let mut words = [0; 12];
            if stream.read_exact(&mut words).await.is_ok() {
                return words;
            }
        }
    };
    assert_eq!(tokio::time::timeout(PATIENCE, arrived).await.unwrap(), *b"first second");
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_kubeconfig_is_followed_as_soon_as_it_leads_somewhere() {
    let (kubeconfigs, former, next) = (Kubeconfigs::new(), Api::new(), Api::new());
    let kubeconfig = kubeconfigs.write("west", former.serve().await);
    let gateway = Gateway::start(west(&kubeconfig)).await;
    let (stays, goes) = ("api.stays.pilothouse.test", "api.goes.pilothouse.test");
    host_at(&gateway, &former, "stays", stays, OLDER, "as before").await;
    host_at(&gateway, &former, "goes", goes, OLDER, "as before").await;
    until_answered_by(&gateway, stays, "as before").await;
    until_answered_by(&gateway, goes, "as before").await;
    host_at(&gateway, &next, "stays", stays, OLDER, "anew").await;
    let comes = "api.comes.pilothouse.test";
    host_at(&gateway, &next, "comes", comes, OLDER, "anew").await;

    // Where nobody answers yet.
    let reserved = TcpSocket::new_v4().unwrap();
    reserved.bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let address = reserved.local_addr().unwrap();
    let reconfigure = |kubeconfig: &Path| gateway.handle.reconfigure(west(kubeconfig)).unwrap();
    reconfigure(&kubeconfigs.write("next", address));
    eventually("it is seen that nobody answers", PATIENCE, || async {
        let verdict = verdict(&gateway);
        if verdict.starts_with("[!]") && verdict.contains("does not answer") { Ok(()) } else { Err(verdict) }
    })
    .await;
    assert_eq!(gateway.who(stays).await, "as before");
    assert!(gateway.health.is_ready());
    // Also what the former one says by now.
    let late = "api.late.pilothouse.test";
    host_at(&gateway, &former, "late", late, OLDER, "as before").await;
    until_answered_by(&gateway, late, "as before").await;

    // All of it has to be heard: where its routes lead is not known yet.
    next.hold_back("endpoints");
    next.serve_at(reserved.listen(1024).unwrap());
    eventually("its routes have been heard", PATIENCE, || async {
        let (watching, verdict) = (next.watching(), verdict(&gateway));
        if watching == 1 && verdict.contains("followed as before") {
            Ok(())
        } else {
            Err(format!("{watching} {verdict}"))
        }
    })
    .await;
    for host in [stays, goes, late] {
        assert_eq!(gateway.who(host).await, "as before");
    }
    assert!(gateway.handle.hosts().iter().all(|(host, _)| host != comes));

    next.release();
    until_answered_by(&gateway, comes, "anew").await;
    until_answered_by(&gateway, stays, "anew").await;
    for gone in [goes, late] {
        until_nobody_has(&gateway, gone).await;
    }
    until_nobody_watches(&former).await;
    // A change there takes effect.
    next.delete("routes", "comes", "kube-apiserver");
    until_nobody_has(&gateway, comes).await;

    // And back, without having arrived anywhere else.
    reconfigure(&kubeconfigs.write("nowhere", SocketAddr::from(([127, 0, 0, 1], 1))));
    reconfigure(&kubeconfigs.path("next"));
    eventually("it answers as before", PATIENCE, || async {
        let verdict = verdict(&gateway);
        if verdict.starts_with("[+]") { Ok(()) } else { Err(verdict) }
    })
    .await;
    assert_eq!(gateway.who(stays).await, "anew");
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kubeconfig_is_read_again_when_it_changes_and_one_that_is_wrong_changes_nothing() {
    let (kubeconfigs, former, next) = (Kubeconfigs::new(), Api::new(), Api::new());
    let kubeconfig = kubeconfigs.write("west", former.serve().await);
    let file = kubeconfigs.path("gateway.toml");
    let configure = |kubeconfig: &Path| {
        let text = format!("[[management_clusters]]\nname = \"west\"\nkubeconfig = {kubeconfig:?}\n");
        kubeconfigs.publish("gateway.toml", &text);
    };
    configure(&kubeconfig);
    let load = loading(&file);
    let config = load().unwrap();
    let gateway = Gateway::start(config.clone()).await;
    let host = "api.hosted.pilothouse.test";
    host_at(&gateway, &former, "hosted", host, OLDER, "as before").await;
    host_at(&gateway, &next, "hosted", host, OLDER, "anew").await;
    until_answered_by(&gateway, host, "as before").await;
    let tasks = Tasks::new("test", Shutdown::new());
    let health = Health::new(tasks.shutdown().clone());
    Reloader::new(gateway.handle.clone(), config, load).watch(file.clone(), &tasks, &health);
    let until_health_says = async |sign: &str, text: &str| {
        eventually(&format!("health says {sign} {text}"), PATIENCE, || async {
            let verdict = health.verdict("configuration").unwrap().to_string();
            if verdict.starts_with(sign) && verdict.contains(text) { Ok(()) } else { Err(verdict) }
        })
        .await;
    };

    kubeconfigs.publish("west", "nothing of the kind");
    until_health_says("[!]", "management cluster `west` cannot be followed by").await;
    gateway.until_numbers_say("gateway_reloads_total{result=\"Refused\"} 1").await;
    assert_eq!(gateway.who(host).await, "as before");
    // The configuration is as it was, and the file that it names another.
    kubeconfigs.write("west", next.serve().await);
    until_answered_by(&gateway, host, "anew").await;
    gateway.until_numbers_say("gateway_reloads_total{result=\"Taken\"} 1").await;

    // One that is not there yet.
    configure(&kubeconfigs.path("late"));
    until_health_says("[!]", "late").await;
    gateway.until_numbers_say("gateway_reloads_total{result=\"Refused\"} 2").await;
    assert_eq!(gateway.who(host).await, "anew");
    kubeconfigs.write("late", former.serve().await);
    until_answered_by(&gateway, host, "as before").await;
    until_health_says("[+]", "").await;
    tasks.drain(PATIENCE).await.unwrap();
    gateway.stop().await;
}
