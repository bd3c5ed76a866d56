//! The name of a cluster can be looked up while there is such a cluster, and not longer.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use pilothouse_test_support::process::{Running, free_port};
use pilothouse_test_support::requirement::Requirement;
use pilothouse_test_support::{eventually, postgres};
use serde_json::json;

use crate::first_light::cluster_body;
use crate::provider::{SUBSCRIPTION, curl};
use crate::region::{LIMIT, Region, program};

/// What `dig` prints about a question to whoever answers at this port, with single spaces.
pub(crate) fn dig(port: &str, question: &str) -> String {
    let mut command = Command::new("dig");
    command.args(["@127.0.0.1", "-p", port, "+norecurse", "+time=20", "+tries=1", "+nocookie"]);
    // It fails where nobody answers, and says so on the same stream.
    let output = command.args(question.split(' ')).output().unwrap();
    String::from_utf8_lossy(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Waits until `dig` prints a text.
async fn dig_says(port: &str, question: &str, text: &str) {
    eventually("dig prints it", LIMIT, || {
        let output = dig(port, question);
        async move { if output.contains(text) { Ok(()) } else { Err(output) } }
    })
    .await;
}

impl Region {
    fn names_port(&self) -> String {
        self.endpoints().dns.rsplit_once(':').unwrap().1.to_owned()
    }

    pub(crate) fn dig(&self, question: &str) -> String {
        dig(&self.names_port(), question)
    }

    async fn dig_says(&self, question: &str, text: &str) {
        dig_says(&self.names_port(), question, text).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn name_of_a_cluster_is_answered_until_the_cluster_is_deleted() {
    if Requirement::new("dig", "bind9-dnsutils").find().is_none() {
        return;
    }
    let Some(mut region) = Region::start(&[]).await else { return };
    let name = "api.first.pilothouse.test";
    region.dig_says(name, "status: NXDOMAIN").await;
    assert!(region.dig("api.example.org").contains("status: REFUSED"));

    region.provider().register();
    let first = Region::cluster_id("first");
    let (status, answer) = region.arm("PUT", &first, Some(&cluster_body()));
    assert_eq!(status, 201, "{answer}");
    region.reaches(&first, "Succeeded").await;
    for way in ["+notcp", "+tcp"] {
        let found = region.dig(&format!("{way} {name}"));
        assert!(found.contains("status: NOERROR"), "{found}");
        assert!(found.contains(&format!("{name}. 60 IN A 127.0.0.1")), "{found}");
    }
    assert!(region.dig("first.pilothouse.test NS").contains("first.pilothouse.test. 60 IN NS ns-"));

    // The gateway behind that address lets in who asks by that name.
    let gateway = region.endpoints().gateway;
    let port = gateway.rsplit_once(':').unwrap().1;
    let url = format!("https://{name}:{port}/version");
    let (status, answer) = curl(&["-k", "--resolve", &format!("{name}:{port}:127.0.0.1"), &url]).unwrap();
    assert!([200, 401, 403].contains(&status), "an API server answers there: {status} {answer}");

    // What was made for it is in its group, and can be listed there.
    let list = |path: &str| {
        let groups = format!("{}/subscriptions/{SUBSCRIPTION}/resourcegroups", region.endpoints().cloud);
        curl(&[&format!("{groups}{path}?api-version=2021-04-01")]).unwrap().1["value"]
            .as_array()
            .unwrap()
            .clone()
    };
    let groups = list("");
    let group = groups[0]["name"].as_str().unwrap();
    let content = list(&format!("/{group}/resources"));
    let kinds: Vec<_> = content.iter().map(|found| found["type"].as_str().unwrap().to_owned()).collect();
    for kind in ["dnsZones", "dnsZones/A", "loadBalancers", "publicIPAddresses"] {
        assert!(kinds.contains(&format!("Microsoft.Network/{kind}")), "{kinds:?}");
    }
    let vault = content.iter().find(|found| found["type"] == "Microsoft.KeyVault/vaults").unwrap();
    let vault = vault["properties"]["vaultUri"].as_str().unwrap();
    let told = |name: &str| curl(&[&format!("{vault}secrets/{name}?api-version=7.4")]).unwrap();
    for secret in ["etcd-encryption-key", "pull-secret", "first-control-plane"] {
        let (status, answer) = told(secret);
        let value = answer["value"].as_str().unwrap();
        assert_eq!(status, 200, "{answer}");
        assert!(content.iter().all(|found| !found.to_string().contains(value)), "{secret}");
    }

    // A restart forgets nothing.
    region.kill();
    region.up(&[]).await;
    region.dig_says(name, "IN A 127.0.0.1").await;

    let (status, answer) = region.arm("DELETE", &first, None);
    assert_eq!(status, 202, "{answer}");
    region.is_gone(&first).await;
    region.dig_says(name, "status: NXDOMAIN").await;
    region.dig_says("first.pilothouse.test NS", "status: NXDOMAIN").await;
    assert_eq!(told("etcd-encryption-key").0, 404, "the vault went with its cluster");
    region.stop();
}

/// A process that ends with the value.
fn start(verb: &str, config: &str, folder: &Path) -> Running {
    let file = tempfile::Builder::new().suffix(".toml").tempfile_in(folder).unwrap().keep().unwrap().1;
    fs::write(&file, config).unwrap();
    let mut command = Command::new(program());
    command.args([verb, "--config"]).arg(file).stdin(Stdio::null());
    Running::spawn(command).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn name_servers_alone_follow_the_store_of_a_cloud() {
    if Requirement::new("dig", "bind9-dnsutils").find().is_none() {
        return;
    }
    let Some(server) = postgres::shared() else { return };
    let database = server.fresh_database();
    let folder = tempfile::tempdir().unwrap();
    let [cloud, one, two] = [(); 3].map(|()| free_port());
    let key = format!("store_key_file = {:?}", folder.path().join("store.key"));
    let config = |key: &str, service: String| {
        let metrics = "[metrics]\naddress = \"127.0.0.1:0\"\n";
        format!("store = \"{database}?schema=cloud\"\n{key}\n{metrics}[service]\n{service}\n")
    };
    let listener = format!("gateway = \"192.0.2.9\"\nlistener = {{ address = \"127.0.0.1:{cloud}\" }}");
    let _cloud = start("cloud", &config(&key, listener), folder.path());
    let zone = pilothouse_arm::dns::region_zone("pilothouse.test");
    let url = |path: &str| format!("http://127.0.0.1:{cloud}{path}?api-version=2018-05-01");
    eventually("the cloud has the region's zone", LIMIT, || {
        let answer = curl(&[&url(zone.as_str())]);
        async move {
            if answer.as_ref().is_ok_and(|(status, _)| *status == 200) {
                Ok(())
            } else {
                Err(format!("{answer:?}"))
            }
        }
    })
    .await;
    // Without the key: nothing of names is secret.
    let listen = |port| config("", format!("listen = \"127.0.0.1:{port}\""));
    let _servers = [one, two].map(|port| start("dns", &listen(port), folder.path()));
    let record = url(&format!("{zone}/A/www"));
    for port in [one, two] {
        dig_says(&port.to_string(), "www.pilothouse.test", "status: NXDOMAIN").await;
    }
    let body = json!({"properties": {"TTL": 5, "ARecords": [{"ipv4Address": "192.0.2.1"}]}}).to_string();
    let (status, answer) = curl(&["-X", "PUT", "-d", &body, &record]).unwrap();
    assert_eq!(status, 201, "{answer}");
    for port in [one, two] {
        dig_says(&port.to_string(), "www.pilothouse.test", "www.pilothouse.test. 5 IN A 192.0.2.1").await;
    }
    assert_eq!(curl(&["-X", "DELETE", &record]).unwrap().0, 200);
    for port in [one, two] {
        dig_says(&port.to_string(), "www.pilothouse.test", "status: NXDOMAIN").await;
    }
}
