//! Changes of the configuration while it is in use.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::{Mutex, mpsc};
use std::time::Duration;

use pilothouse_gateway::{Config, EgressCluster, Listener, Reach, Reloader};
use pilothouse_http::Health;
use pilothouse_runtime::config::Sources;
use pilothouse_runtime::{Shutdown, Tasks};
use pilothouse_test_support::eventually;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::egress::clusters;
use crate::support::{Gateway, PATIENCE, ask, listener};

#[tokio::test(flavor = "multi_thread")]
async fn changed_file_is_taken_and_one_that_is_wrong_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gateway.toml");
    fs::write(&file, "max_connections_per_cluster = 1\n").unwrap();
    let load = loading(&file);
    let config = load().unwrap();
    let gateway = Gateway::start(config.clone()).await;
    let reloader = Reloader::new(gateway.handle.clone(), config, load);
    let host = gateway.cluster("first").await;
    let mut open = gateway.connect(&host).await.unwrap();
    assert_eq!(ask(&mut open).await.unwrap(), "first");
    assert!(gateway.connect(&host).await.is_err());

    // Nothing changed.
    reloader.look();
    fs::write(&file, "max_connections_per_cluster = 2\nlisten = \"127.0.0.1:1\"\n").unwrap();
    reloader.look();
    gateway.until_numbers_say("gateway_reloads_total{result=\"Taken\"} 1").await;
    assert_eq!(gateway.who(&host).await, "first", "where it listens stays");
    assert_eq!(ask(&mut open).await.unwrap(), "first");

    for wrong in [
        "max_connections_per_cluster = \"many\"\n",
        "[[egress.listeners]]\naddress = \"127.0.0.1:0\"\ncluster = \"nobody\"\n",
    ] {
        fs::write(&file, wrong).unwrap();
        reloader.look();
        reloader.look();
    }
    gateway.until_numbers_say("gateway_reloads_total{result=\"Refused\"} 2").await;
    assert_eq!(gateway.who(&host).await, "first", "as it was");
    gateway.stop().await;
}

/// What a reloader reads a file with.
pub(crate) fn loading(file: &Path) -> impl Fn() -> Result<Config, String> + use<> {
    let file = file.to_owned();
    move || {
        let read = Sources::default().file(&file).and_then(Sources::load::<Config>);
        read.map_err(|error| error.to_string())
    }
}

/// By the system, and not because somebody looks: long before that would be.
#[tokio::test(flavor = "multi_thread")]
async fn mounted_file_is_taken_when_it_is_exchanged_and_health_says_what_is_wrong_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    // As a ConfigMap is mounted.
    let publish = |moment: &str, text: &str| {
        fs::create_dir(at(moment)).unwrap();
        fs::write(at(moment).join("gateway.toml"), text).unwrap();
        symlink(moment, at("..data_tmp")).unwrap();
        fs::rename(at("..data_tmp"), at("..data")).unwrap();
    };
    publish("..first", "max_connections_per_cluster = 1\n");
    let file = at("gateway.toml");
    symlink("..data/gateway.toml", &file).unwrap();
    let load = loading(&file);
    let config = load().unwrap();
    let gateway = Gateway::start(config.clone()).await;
    let tasks = Tasks::new("test", Shutdown::new());
    let health = Health::new(tasks.shutdown().clone());
    Reloader::new(gateway.handle.clone(), config, load).watch(file, &tasks, &health);
    let until_health_says = async |sign: &str| {
        eventually(&format!("health says {sign}"), PATIENCE, || async {
            let verdict = health.verdict("configuration").unwrap().to_string();
            if verdict.starts_with(sign) { Ok(()) } else { Err(verdict) }
        })
        .await;
    };
    until_health_says("[+]").await;
    publish("..second", "max_connections_per_cluster = 2\n");
    gateway.until_numbers_say("gateway_reloads_total{result=\"Taken\"} 1").await;
    publish("..third", "max_connections_per_cluster = \"many\"\n");
    until_health_says("[!] as it was before the file changed").await;
    assert!(health.is_ready(), "it works as before");
    publish("..fourth", "max_connections_per_cluster = 2\n");
    until_health_says("[+]").await;
    tasks.drain(PATIENCE).await.unwrap();
    gateway.stop().await;
}

/// As with a kubeconfig that names a program which hangs.
#[tokio::test]
async fn looking_that_does_not_end_is_told() {
    let gateway = Gateway::start(Config::default()).await;
    let (begin, begun) = mpsc::channel();
    let (answer, answers) = mpsc::channel::<()>();
    let answers = Mutex::new(answers);
    let load = move || {
        let _ = begin.send(());
        let _ = answers.lock().unwrap().recv();
        Ok(Config::default())
    };
    let (tasks, folder) = (Tasks::new("test", Shutdown::new()), tempfile::tempdir().unwrap());
    let health = Health::new(tasks.shutdown().clone());
    let reloader = Reloader::new(gateway.handle.clone(), Config::default(), load);
    reloader.watch(folder.path().join("gateway.toml"), &tasks, &health);
    let verdict = || health.verdict("configuration").unwrap().to_string();
    tokio::task::spawn_blocking(move || begun.recv_timeout(PATIENCE)).await.unwrap().unwrap();
    assert!(verdict().starts_with("[+]"), "it has just begun");
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(31)).await;
    tokio::time::resume();
    // Not how many seconds exactly: the machine may have been busy before time stood still.
    assert!(verdict().contains("s by now: see whether a program that a kubeconfig names"), "{}", verdict());
    assert!(verdict().starts_with("[!]") && health.is_ready(), "it works as before");
    drop(answer);
    eventually("that has ended", PATIENCE, || async {
        if verdict().starts_with("[+]") { Ok(()) } else { Err(verdict()) }
    })
    .await;
    tasks.drain(PATIENCE).await.unwrap();
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn listeners_come_turn_and_go_while_the_gateway_runs() {
    let gateway = Gateway::start(Config::default()).await;
    let host = gateway.cluster("first").await;
    let egress = || clusters(&[("first", None, &[])]);
    let with =
        |reach: Reach| Config { listeners: vec![listener(reach)], egress: egress(), ..Config::default() };
    gateway.handle.reconfigure(with(Reach::Internal)).unwrap();
    let addresses = gateway.handle.addresses();
    let [public, further, out] = addresses[..] else { panic!("{addresses:?}") };
    assert_eq!(public, gateway.address);
    let mut open = gateway.connect_at(further, &host, b"").await.unwrap();
    let mut asking = TcpStream::connect(out).await.unwrap();
    asking.write_all(b"CONNECT example.com:443 HTTP/1.1\r\nhost: example.com:443\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    tokio::time::timeout(PATIENCE, asking.read_to_string(&mut answer)).await.unwrap().unwrap();
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");

    let list = json!({ "haproxy.router.openshift.io/ip_allowlist": "203.0.113.0/24" });
    gateway.restrict("first", list, Value::Null);
    eventually("the list counts", PATIENCE, || async {
        match gateway.connect(&host).await {
            Err(error) if error.to_string().contains("AccessDenied") => Ok(()),
            other => Err(format!("{:?}", other.map(|_| ()))),
        }
    })
    .await;
    gateway.connect_at(further, &host, b"").await.unwrap();
    gateway.handle.reconfigure(with(Reach::Private)).unwrap();
    assert_eq!(gateway.handle.addresses(), addresses, "the same door, for others");
    let error = gateway.connect_at(further, &host, b"").await.unwrap_err().to_string();
    assert!(error.contains("AccessDenied"), "{error}");

    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let listeners = vec![Listener { address: taken.local_addr().unwrap(), reach: Reach::Internal }];
    let error =
        gateway.handle.reconfigure(Config { listeners, ..Config::default() }).unwrap_err().to_string();
    assert!(error.contains("cannot listen on"), "{error}");
    assert_eq!(gateway.handle.addresses(), addresses, "nothing has changed");

    gateway.handle.reconfigure(Config::default()).unwrap();
    assert_eq!(gateway.handle.addresses(), [public]);
    for closed in [further, out] {
        eventually("the door is closed", PATIENCE, || async {
            match TcpStream::connect(closed).await {
                Ok(_) => Err("it is open"),
                Err(_) => Ok(()),
            }
        })
        .await;
    }
    assert_eq!(ask(&mut open).await.unwrap(), "first", "whoever came through one stays");
    gateway.stop().await;
}

#[test]
fn whole_configuration_is_read_as_it_is_written() {
    let text = r#"
        listen = "0.0.0.0:443"
        private_ranges = ["10.0.0.0/8"]
        proxy_peers = ["10.1.0.0/24", "10.1.1.1"]

        [[listeners]]
        address = "10.0.0.4:443"
        reach = "private"

        [[management_clusters]]
        name = "west"
        kubeconfig = "west.kubeconfig"

        [egress]
        allow = ["login.example.com", "*.blob.example.com"]
        [[egress.listeners]]
        address = "10.0.0.4:8080"
        [egress.clusters.first]
        link = 42
        allow = ["registry.example.com:5000", "10.2.0.0/16"]
    "#;
    let read = |text: &str| Sources::default().file_text("gateway.toml", text).load::<Config>().unwrap();
    let config = read(text);
    config.check().unwrap();
    assert_eq!(read(&pilothouse_runtime::config::dump(&config).unwrap()), config);
    let mut twice = config.clone();
    twice.egress.clusters.insert("second".to_owned(), config.egress.clusters["first"].clone());
    assert!(twice.check().unwrap_err().to_string().contains("`first` and `second`"));
    let mut unnamed = config.clone();
    unnamed.egress.clusters.insert("other".to_owned(), EgressCluster::default());
    assert!(unnamed.check().unwrap_err().to_string().contains("can be called `other`"));
    let mut anonymous = config;
    anonymous.proxy_peers.clear();
    assert!(anonymous.check().unwrap_err().to_string().ends_with("or `proxy_peers`"));
}
