//! Changes of the configuration while it is in use.

use std::fs;

use pilothouse_gateway::{Config, Reloader};
use pilothouse_runtime::config::Sources;

use crate::support::{Gateway, ask};

#[tokio::test(flavor = "multi_thread")]
async fn changed_file_is_taken_and_one_that_is_wrong_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gateway.toml");
    fs::write(&file, "max_connections_per_cluster = 1\n").unwrap();
    let load = {
        let file = file.clone();
        move || {
            Sources::default()
                .file(&file)
                .and_then(Sources::load::<Config>)
                .map_err(|error| error.to_string())
        }
    };
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
    let mut anonymous = config;
    anonymous.proxy_peers.clear();
    assert!(anonymous.check().unwrap_err().to_string().ends_with("or `proxy_peers`"));
}
