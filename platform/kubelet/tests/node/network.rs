//! Pods that talk to each other.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::process::ExitCode;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Endpoints, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use kube::api::{LogParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::{Cluster, PATIENCE, address_of, program, run, until};

pub(crate) fn pods_share_a_port_and_reach_each_other_directly_and_by_service() {
    run(async {
        let cluster = Cluster::start().await;
        for name in ["ada", "bob"] {
            let mut container = program(&["serve", "8080", name]);
            container["readinessProbe"] = json!({"tcpSocket": {"port": 8080}});
            cluster.create(name, json!({"containers": [container]})).await;
        }
        let (ada, bob) = (cluster.until_ready("ada").await, cluster.until_ready("bob").await);
        assert_ne!(address_of(&ada), address_of(&bob));

        // From outside, through the node's socket.
        let mut stream =
            cluster.dialer().connect(format!("{}:8080", address_of(&ada)).parse().unwrap()).await.unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.ends_with("ada"), "{answer}");

        let fetch = |address: String| json!({"image": "pilothouse", "args": ["fetch", address]});
        let output = cluster.output_of("direct", fetch(format!("{}:8080", address_of(&bob)))).await;
        assert_eq!(output, "bob\n");

        // The older form of endpoints, which somebody may still write by hand.
        let virtual_address =
            create_service(&cluster, "web", json!({"ports": [{"port": 80, "targetPort": 8080}]})).await;
        let virtual_address = SocketAddr::new(virtual_address, 80);
        let endpoints: Api<Endpoints> = Api::namespaced(cluster.client.clone(), "default");
        let ready = json!({"metadata": {"name": "web"}, "subsets": [{"ports": [{"port": 8080}],
            "addresses": [{"ip": address_of(&ada)}, {"ip": address_of(&bob)}]}]});
        endpoints.create(&PostParams::default(), &serde_json::from_value(ready).unwrap()).await.unwrap();
        until(|| async { cluster.dialer().connect(virtual_address).await.is_ok() }).await;
        let mut answers = Vec::new();
        for round in ["one", "two"] {
            let name = format!("by-service-{round}");
            answers.push(cluster.output_of(&name, fetch(virtual_address.to_string())).await);
        }
        // The connections that waited for the Service took turns, too; but two in a row are two endpoints.
        answers.sort();
        assert_eq!(answers, ["ada\n", "bob\n"]);
    });
}

pub(crate) fn services_lead_to_who_is_there_and_open_connections_stay() {
    run(async {
        let cluster = Cluster::start().await;
        let (ada, bob) = (talker(&cluster, "ada").await, talker(&cluster, "bob").await);
        let spec =
            json!({"type": "NodePort", "ports": [{"port": 80, "targetPort": 7000, "nodePort": 30777}]});
        let service = SocketAddr::new(create_service(&cluster, "talk", spec).await, 80);
        let node_port: SocketAddr = "10.200.0.1:30777".parse().unwrap();

        // Somebody who never answers comes first: bob is found all the same, every time.
        let nobody = json!({"addresses": ["10.200.77.77"]});
        lead_to(&cluster, "talk", "TCP", json!([nobody, ready(&ada)])).await;
        for address in [service, node_port] {
            until(|| async { cluster.dialer().connect(address).await.is_ok() }).await;
        }
        for address in [service, service, service, node_port, node_port] {
            assert_eq!(say(&cluster, address).await.1, "ada");
        }

        let (mut open, name) = say(&cluster, service).await;
        assert_eq!(name, "ada");
        lead_to(&cluster, "talk", "TCP", json!([ready(&bob)])).await;
        until(|| async { say(&cluster, service).await.1 == "bob" }).await;
        open.write_all(b"still there?\n").await.unwrap();
        assert_eq!(line(&mut open).await, "still there?", "an open connection stays with its endpoint");

        // Who has nothing more to say may still listen.
        open.write_all(b"count\n").await.unwrap();
        let chunk = vec![b'x'; 1 << 16];
        for _ in 0..64 {
            open.write_all(&chunk).await.unwrap();
        }
        open.shutdown().await.unwrap();
        let mut answer = String::new();
        open.read_to_string(&mut answer).await.unwrap();
        assert_eq!(answer, (64 << 16).to_string());

        // When a pod goes, its connections do not hang. This one's client says nothing and ends nothing.
        let (mut open, name) = say(&cluster, service).await;
        assert_eq!(name, "bob");
        cluster.delete("bob").await;
        let mut rest = Vec::new();
        // The pod's end is an orderly one or a reset, as its program has it.
        let _ = tokio::time::timeout(PATIENCE, open.read_to_end(&mut rest)).await.unwrap();
        let open = tokio::sync::Mutex::new(open);
        until(|| async { open.lock().await.write_all(b"hello?\n").await.is_err() }).await;

        lead_to(&cluster, "talk", "TCP", json!([])).await;
        until(|| async { refused(&cluster, service).await && refused(&cluster, node_port).await }).await;
    });
}

pub(crate) fn datagrams_reach_services_and_move_on_with_them() {
    run(async {
        let cluster = Cluster::start().await;
        let mut pods = Vec::new();
        for name in ["ada", "bob"] {
            cluster.create(name, json!({"containers": [program(&["echo-datagrams", "5300", name])]})).await;
            pods.push(cluster.until_ready(name).await);
        }
        let spec = json!({"ports": [{"port": 53, "targetPort": 5300, "protocol": "UDP"}]});
        let service = SocketAddr::new(create_service(&cluster, "echo", spec).await, 53);
        lead_to(&cluster, "echo", "UDP", json!([ready(&pods[0])])).await;

        let client = program(&["send-datagrams", &service.to_string(), "ada", "bob"]);
        cluster.create("client", json!({"restartPolicy": "Never", "containers": [client]})).await;
        let heard = |text: &'static str| {
            let pods = cluster.pods();
            until(move || {
                let pods = pods.clone();
                async move { pods.logs("client", &LogParams::default()).await.is_ok_and(|log| log.contains(text)) }
            })
        };
        heard("ada").await;
        // The same socket of the same client, which its old endpoint would still answer.
        lead_to(&cluster, "echo", "UDP", json!([ready(&pods[1])])).await;
        heard("bob").await;
        cluster.until_phase("client", "Succeeded").await;
    });
}

pub(crate) fn pods_have_ports_of_the_node_and_its_network() {
    run(async {
        let cluster = Cluster::start_with(|config| config.allow_host_path = true).await;
        let mut container = program(&["serve", "8080", "ada"]);
        container["ports"] = json!([{"containerPort": 8080, "hostPort": 8081}]);
        cluster.create("ada", json!({"containers": [container]})).await;
        let spec = json!({"hostNetwork": true, "containers": [program(&["serve", "9090", "bob"])]});
        cluster.create("bob", spec).await;
        let (ada, bob) = (cluster.until_ready("ada").await, cluster.until_ready("bob").await);
        assert_ne!(address_of(&ada), "10.200.0.1");
        assert_eq!(address_of(&bob), "10.200.0.1");

        let port: SocketAddr = "10.200.0.1:8081".parse().unwrap();
        until(|| async { cluster.dialer().connect(port).await.is_ok() }).await;
        let line = "pilothouse fetch 10.200.0.1:8081; pilothouse fetch 10.200.0.1:9090";
        let client = json!({"image": "pilothouse", "command": ["sh", "-c", line]});
        assert_eq!(cluster.output_of("client", client).await, "ada\nbob\n");
        cluster.delete("ada").await;
        until(|| async { refused(&cluster, port).await }).await;
    });
}

/// What goes through a Service arrives whole. How fast, beside a direct connection, depends on the machine: it is printed, and nothing is
/// asserted about it.
pub(crate) fn much_goes_through_a_service_whole() {
    run(async {
        let cluster = Cluster::start().await;
        cluster.create("drain", json!({"containers": [program(&["drink", "7000"])]})).await;
        let drain = cluster.until_ready("drain").await;
        let spec = json!({"ports": [{"port": 80, "targetPort": 7000}]});
        let service = SocketAddr::new(create_service(&cluster, "drain", spec).await, 80);
        lead_to(&cluster, "drain", "TCP", json!([ready(&drain)])).await;
        until(|| async { cluster.dialer().connect(service).await.is_ok() }).await;

        let direct = format!("{}:7000", address_of(&drain));
        let megabytes = std::env::var("PILOTHOUSE_TEST_MEGABYTES").unwrap_or_else(|_| "64".into());
        for round in 0..std::env::var("PILOTHOUSE_TEST_ROUNDS").map_or(1, |text| text.parse().unwrap()) {
            let mut speeds = Vec::new();
            for (way, address) in [("direct", direct.clone()), ("service", service.to_string())] {
                let client = program(&["pour", &address, &megabytes]);
                let output = cluster.output_of(&format!("{way}-{round}"), client).await;
                speeds.push(output.trim().parse::<f64>().unwrap());
            }
            crate::say(&format!(
                "MB/s direct {}, by service {}: {:.2}\n",
                speeds[0],
                speeds[1],
                speeds[1] / speeds[0]
            ));
        }
    });
}

/// A pod that answers with its name, and then repeats what it is told.
async fn talker(cluster: &Cluster, name: &str) -> Pod {
    let mut container = program(&["talk", "7000", name]);
    container["readinessProbe"] = json!({"tcpSocket": {"port": 7000}});
    cluster.create(name, json!({"terminationGracePeriodSeconds": 1, "containers": [container]})).await;
    cluster.until_ready(name).await
}

pub(crate) fn ready(pod: &Pod) -> Value {
    json!({"addresses": [address_of(pod)], "conditions": {"ready": true}})
}

/// Creates a Service, and answers with its address.
pub(crate) async fn create_service(cluster: &Cluster, name: &str, spec: Value) -> std::net::IpAddr {
    let services: Api<Service> = Api::namespaced(cluster.client.clone(), "default");
    let service = serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap();
    let service = services.create(&PostParams::default(), &service).await.unwrap();
    service.spec.unwrap().cluster_ip.unwrap().parse().unwrap()
}

/// Gives a Service these endpoints.
async fn lead_to(cluster: &Cluster, service: &str, protocol: &str, endpoints: Value) {
    let port = if protocol == "UDP" { 5300 } else { 7000 };
    let slice = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": service, "labels": {"kubernetes.io/service-name": service}},
        "ports": [{"name": "", "port": port, "protocol": protocol}], "endpoints": endpoints});
    write_slice(cluster, service, slice).await;
}

pub(crate) async fn write_slice(cluster: &Cluster, name: &str, slice: Value) {
    let slices: Api<EndpointSlice> = Api::namespaced(cluster.client.clone(), "default");
    slices.patch(name, &PatchParams::apply("test").force(), &Patch::Apply(&slice)).await.unwrap();
}

/// A connection to a talker, and its name.
async fn say(cluster: &Cluster, address: SocketAddr) -> (TcpStream, String) {
    let mut stream = cluster.dialer().connect(address).await.unwrap();
    let name = line(&mut stream).await;
    (stream, name)
}

async fn line(stream: &mut TcpStream) -> String {
    let mut line = Vec::new();
    loop {
        match stream.read_u8().await {
            Ok(b'\n') | Err(_) => return String::from_utf8(line).unwrap(),
            Ok(byte) => line.push(byte),
        }
    }
}

async fn refused(cluster: &Cluster, address: SocketAddr) -> bool {
    let connected = cluster.dialer().connect(address).await;
    connected.err().is_some_and(|error| error.to_string().to_lowercase().contains("refused"))
}

/// Says a name, repeats lines, and after the line `count` counts what comes until the end.
pub(crate) fn talk(arguments: &[String]) -> ExitCode {
    let listener = TcpListener::bind(format!("0.0.0.0:{}", arguments[0])).unwrap();
    for stream in listener.incoming() {
        let (mut stream, name) = (stream.unwrap(), arguments[1].clone());
        std::thread::spawn(move || {
            let _ = writeln!(stream, "{name}");
            let mut reader = std::io::BufReader::new(stream.try_clone().unwrap());
            let mut line = String::new();
            while std::io::BufRead::read_line(&mut reader, &mut line).is_ok_and(|length| length > 0) {
                if line == "count\n" {
                    let count = std::io::copy(&mut reader, &mut std::io::sink()).unwrap();
                    let _ = write!(stream, "{count}");
                    return;
                }
                let _ = stream.write_all(line.as_bytes());
                line.clear();
            }
        });
    }
    ExitCode::SUCCESS
}

/// Answers every datagram with a name.
pub(crate) fn echo_datagrams(arguments: &[String]) -> ExitCode {
    let socket = UdpSocket::bind(format!("0.0.0.0:{}", arguments[0])).unwrap();
    let mut buffer = [0; 1024];
    loop {
        let (_, from) = socket.recv_from(&mut buffer).unwrap();
        let _ = socket.send_to(arguments[1].as_bytes(), from);
    }
}

/// Sends datagrams from one socket until every name has answered, one after the other.
pub(crate) fn send_datagrams(arguments: &[String]) -> ExitCode {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    socket.connect(&arguments[0]).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let mut buffer = [0; 1024];
    for name in &arguments[1..] {
        loop {
            let _ = socket.send(b"?");
            if socket.recv(&mut buffer).is_ok_and(|length| &buffer[..length] == name.as_bytes()) {
                break;
            }
        }
        let _ = writeln!(std::io::stdout(), "{name}");
    }
    ExitCode::SUCCESS
}

/// Takes connections and whatever they bring, and says how much it was.
pub(crate) fn drink(arguments: &[String]) -> ExitCode {
    let listener = TcpListener::bind(format!("0.0.0.0:{}", arguments[0])).unwrap();
    for stream in listener.incoming() {
        let mut stream = stream.unwrap();
        std::thread::spawn(move || {
            let (mut buffer, mut total) = (vec![0; 1 << 20], 0);
            while let Ok(length @ 1..) = stream.read(&mut buffer) {
                total += length;
            }
            let _ = write!(stream, "{total}");
        });
    }
    ExitCode::SUCCESS
}

/// Sends as much as is asked for over one connection, and prints how many megabytes went in a second.
pub(crate) fn pour(arguments: &[String]) -> ExitCode {
    let mut stream = std::net::TcpStream::connect(&arguments[0]).unwrap();
    let megabytes: usize = arguments[1].parse().unwrap();
    let chunk = vec![0; 1 << 20];
    let begun = tokio::time::Instant::now();
    for _ in 0..megabytes {
        stream.write_all(&chunk).unwrap();
    }
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, (megabytes << 20).to_string());
    let speed = megabytes as f64 / begun.elapsed().as_secs_f64();
    let _ = writeln!(std::io::stdout(), "{speed:.0}");
    ExitCode::SUCCESS
}
