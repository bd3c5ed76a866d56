//! The name server over its port, as `dig` sees it.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use pilothouse_arm::ResourceId;
use pilothouse_arm::dns::region_zone;
use pilothouse_dns::{Change, Config, Deps, News, Service, Source, SourceError};
use pilothouse_http::Health;
use pilothouse_runtime::{OnExit, Reason, Shutdown, Tasks};
use pilothouse_test_support::eventually;
use pilothouse_test_support::requirement::Requirement;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Generous: the machine may be busy with other tests.
const LIMIT: Duration = Duration::from_secs(60);

/// What a test tells.
struct Told(UnboundedReceiver<Result<News, SourceError>>);

impl Source for Told {
    fn next(&mut self) -> BoxFuture<'_, Result<News, SourceError>> {
        async { self.0.recv().await.unwrap_or_else(|| Err("the test is over".into())) }.boxed()
    }
}

struct Server {
    address: SocketAddr,
    dig: PathBuf,
    told: UnboundedSender<Result<News, SourceError>>,
    health: Health,
    registry: Registry,
    shutdown: Shutdown,
    tasks: Tasks,
}

impl Server {
    /// A server that knows nothing yet; `None`, and said so, where `dig` is missing.
    async fn start() -> Option<Self> {
        let dig = Requirement::new("dig", "bind9-dnsutils").find()?;
        let shutdown = Shutdown::new();
        let health = Health::new(shutdown.clone());
        let mut registry = Registry::default();
        let (told, source) = unbounded_channel();
        let config = Config { listen: "127.0.0.1:0".parse().unwrap(), ..Config::default() };
        let deps = Deps { source: Box::new(Told(source)), health: health.clone(), registry: &mut registry };
        let service = Service::build(config, deps).await.unwrap();
        let address = service.local_address();
        let tasks = Tasks::new("test", shutdown.clone());
        let own = shutdown.clone();
        tasks.spawn("dns", OnExit::StopProcess, async move { Ok(service.run(own).await?) });
        Some(Self { address, dig, told, health, registry, shutdown, tasks })
    }

    async fn with(resources: Vec<(ResourceId, Value)>) -> Option<Self> {
        let server = Self::start().await?;
        server.told.send(Ok(News::Everything { resources, serial: 7 })).unwrap();
        server.until("@", "status: NOERROR").await;
        Some(server)
    }

    /// What `dig` prints with these arguments, each answer on a line, preceded by the header.
    async fn dig(&self, arguments: &str) -> String {
        let port = self.address.port().to_string();
        let mut command = tokio::process::Command::new(&self.dig);
        command.args(["@127.0.0.1", "-p", &port, "+norecurse", "+time=20", "+tries=1", "+nocookie"]);
        let output = command.args(arguments.split(' ')).output().await.unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    /// Waits until `dig` prints a text.
    async fn until(&self, arguments: &str, text: &str) -> String {
        let arguments = arguments.replace('@', "pilothouse.test SOA");
        eventually("dig prints it", LIMIT, || async {
            let output = self.dig(&arguments).await;
            if output.contains(text) { Ok(output) } else { Err(output) }
        })
        .await
    }

    fn tell(&self, changes: Vec<Change>, serial: u64) {
        self.told.send(Ok(News::Changes { changes, serial })).unwrap();
    }

    async fn stop(self) {
        self.shutdown.request(Reason::Asked("the test is over".into()));
        self.tasks.drain(LIMIT).await.unwrap();
    }
}

fn base() -> ResourceId {
    region_zone("pilothouse.test")
}

fn first() -> ResourceId {
    let group = "/subscriptions/1/resourceGroups/managed/providers/Microsoft.Network/dnsZones";
    format!("{group}/first.pilothouse.test").parse().unwrap()
}

fn zone(id: ResourceId, server: &str) -> (ResourceId, Value) {
    (id, json!({"properties": {"nameServers": [server]}}))
}

fn set(zone: &ResourceId, kind: &str, name: &str, mut properties: Value) -> (ResourceId, Value) {
    properties["TTL"] = json!(60);
    (zone.child(kind, name), json!({"properties": properties}))
}

fn addresses(zone: &ResourceId, name: &str, count: u8) -> (ResourceId, Value) {
    let addresses: Vec<_> = (1..=count).map(|end| json!({"ipv4Address": format!("127.0.0.{end}")})).collect();
    set(zone, "A", name, json!({"ARecords": addresses}))
}

fn delegation(name: &str, server: &str) -> (ResourceId, Value) {
    set(&base(), "NS", name, json!({"NSRecords": [{"nsdname": server}]}))
}

fn region() -> Vec<(ResourceId, Value)> {
    let first = first();
    vec![
        zone(base(), "ns-0.pilothouse.test."),
        delegation("first", "ns-1.pilothouse.test."),
        delegation("elsewhere", "ns.elsewhere.pilothouse.test."),
        addresses(&base(), "ns.elsewhere", 9),
        zone(first.clone(), "ns-1.pilothouse.test."),
        addresses(&first, "api", 1),
        addresses(&first, "many", 200),
        set(&first, "AAAA", "api", json!({"AAAARecords": [{"ipv6Address": "::1"}]})),
        set(&first, "TXT", "@", json!({"TXTRecords": [{"value": ["a text", "in two pieces"]}]})),
        set(&first, "CNAME", "console", json!({"CNAMERecord": {"cname": "api.first.pilothouse.test"}})),
    ]
}

fn has(output: &str, parts: &[&str]) {
    let line = output.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in parts {
        assert!(line.contains(part), "`{part}` is missing:\n{output}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn names_of_clusters_are_answered_over_datagrams_and_connections() {
    let Some(server) = Server::with(region()).await else { return };
    for way in ["+notcp", "+tcp"] {
        let output = server.dig(&format!("{way} api.first.pilothouse.test")).await;
        has(&output, &["status: NOERROR", "flags: qr aa;", "api.first.pilothouse.test. 60 IN A 127.0.0.1"]);
        assert!(!output.contains("WARNING"), "{output}");
        let output = server.dig(&format!("{way} API.First.pilothouse.test AAAA")).await;
        has(&output, &["API.First.pilothouse.test. 60 IN AAAA ::1"]);
        let output = server.dig(&format!("{way} console.first.pilothouse.test A")).await;
        has(&output, &["ANSWER: 2", "IN CNAME api.first.pilothouse.test.", "IN A 127.0.0.1"]);
        let output = server.dig(&format!("{way} first.pilothouse.test TXT")).await;
        has(&output, &["IN TXT \"a text\" \"in two pieces\""]);
        let output = server.dig(&format!("{way} first.pilothouse.test SOA")).await;
        has(&output, &["IN SOA ns-1.pilothouse.test. hostmaster.first.pilothouse.test. 7 "]);
    }
    // Who wants recursion is told that there is none.
    let output = server.dig("+recurse www.example.org").await;
    has(&output, &["status: REFUSED", "flags: qr rd;", "recursion requested but not available"]);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_exist_is_told_from_what_has_no_such_record() {
    let Some(server) = Server::with(region()).await else { return };
    let soa = |zone: &str| format!("{zone}. 5 IN SOA");
    for (question, status, zone) in [
        ("nobody.first.pilothouse.test A", "NXDOMAIN", "first.pilothouse.test"),
        ("api.second.pilothouse.test A", "NXDOMAIN", "pilothouse.test"),
        ("api.first.pilothouse.test TXT", "NOERROR", "first.pilothouse.test"),
        ("first.pilothouse.test A", "NOERROR", "first.pilothouse.test"),
        ("first.pilothouse.test DS", "NOERROR", "pilothouse.test"),
    ] {
        let output = server.dig(question).await;
        let status = format!("status: {status}");
        has(&output, &[&status, "flags: qr aa;", "ANSWER: 0, AUTHORITY: 1", &soa(zone)]);
    }
    for question in ["example.org A", "test SOA", ". NS", "version.bind CH TXT"] {
        has(&server.dig(question).await, &["status: REFUSED", "ANSWER: 0, AUTHORITY: 0"]);
    }
    has(&server.dig("+opcode=UPDATE pilothouse.test SOA").await, &["status: NOTIMP"]);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn zones_are_delegated_to() {
    let Some(server) = Server::with(region()).await else { return };
    let output = server.dig("first.pilothouse.test NS").await;
    has(&output, &["flags: qr aa;", "first.pilothouse.test. 60 IN NS ns-1.pilothouse.test."]);
    has(&output, &["ns-1.pilothouse.test. 60 IN A 127.0.0.1"]);
    let output = server.dig("www.elsewhere.pilothouse.test A").await;
    has(&output, &["status: NOERROR", "flags: qr;", "ANSWER: 0, AUTHORITY: 1, ADDITIONAL: 10"]);
    has(&output, &["elsewhere.pilothouse.test. 60 IN NS ns.elsewhere.pilothouse.test."]);

    // Without the delegation the zone is nobody's, however complete it is.
    let (id, _) = delegation("first", "ns-1.pilothouse.test.");
    server.tell(vec![Change { id, resource: None }], 8);
    server.until("api.first.pilothouse.test A", "status: NXDOMAIN").await;
    has(&server.dig("pilothouse.test SOA").await, &["hostmaster.pilothouse.test. 8 "]);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_fit_into_a_datagram_is_asked_for_again() {
    let Some(server) = Server::with(region()).await else { return };
    for options in ["+noedns", "+bufsize=4096", "+bufsize=512"] {
        let output = server.dig(&format!("+ignore {options} many.first.pilothouse.test A")).await;
        has(&output, &["flags: qr aa tc;", "IN A 127.0.0.1"]);
        // Left to itself, dig asks again over a connection.
        let output = server.dig(&format!("{options} many.first.pilothouse.test A")).await;
        has(&output, &["flags: qr aa;", "ANSWER: 200,", "(TCP)"]);
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn before_the_records_are_known_nobody_is_told_that_there_are_none() {
    let Some(server) = Server::start().await else { return };
    has(&server.dig("api.first.pilothouse.test A").await, &["status: SERVFAIL"]);
    assert!(!server.health.is_ready());
    // Whoever keeps them may fail, and is asked again.
    server.told.send(Err("the store is not available".into())).unwrap();
    server.told.send(Ok(News::Everything { resources: region(), serial: 7 })).unwrap();
    server.until("api.first.pilothouse.test A", "status: NOERROR").await;
    assert!(server.health.is_ready());
    let mut numbers = String::new();
    prometheus_client::encoding::text::encode(&mut numbers, &server.registry).unwrap();
    assert!(numbers.contains("dns_questions_total{outcome=\"Known\"} 1"), "{numbers}");
    server.stop().await;
}
