//! A gateway with endpoints behind it, in one line.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, pending};
use pilothouse_gateway::{
    Config, Deps, Dial, Direct, Handle, Listener, MANAGEMENT, Management, Reach, Service, Stream,
};
use pilothouse_http::Health;
use pilothouse_pki::{Authority, AuthorityRequest, LeafRequest, Subject};
use pilothouse_runtime::{Clock, OnExit, Reason, Shutdown, Tasks};
use pilothouse_test_support::eventually;
use prometheus_client::registry::Registry;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, TlsConnector, client::TlsStream};

use crate::api::Api;

/// Far beyond anything that works; a test that reaches it has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct Gateway {
    pub(crate) api: Api,
    /// Of another management cluster.
    pub(crate) second_api: Api,
    pub(crate) address: SocketAddr,
    /// Everywhere it listens, as configured.
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) handle: Handle,
    pub(crate) health: Health,
    registry: Registry,
    shutdown: Shutdown,
    tasks: Tasks,
    authority: Authority,
}

/// An address that swallows whatever is sent there.
pub(crate) const SILENT: &str = "127.0.0.1:2";

/// To everybody there is a way, but to that address.
#[derive(Debug)]
struct Wires;

impl Dial for Wires {
    fn dial(&self, address: SocketAddr) -> BoxFuture<'_, io::Result<Stream>> {
        if address == SILENT.parse().unwrap() { pending().boxed() } else { Direct.dial(address) }
    }
}

impl Gateway {
    pub(crate) async fn start(config: Config) -> Self {
        let request = AuthorityRequest::new(Subject::try_new("test").unwrap());
        let authority = Authority::self_signed(&request, &Clock::system()).unwrap();
        let (api, second_api, shutdown) = (Api::new(), Api::new(), Shutdown::new());
        let mut registry = Registry::default();
        let management = |name: &str, api: &Api| Management {
            name: name.to_owned(),
            client: api.client(),
            dialer: Arc::new(Wires),
        };
        let health = Health::new(shutdown.clone());
        let deps = Deps {
            management: vec![management(MANAGEMENT, &api), management("second", &second_api)],
            clock: Clock::system(),
            health: health.clone(),
            registry: &mut registry,
        };
        let listen = SocketAddr::from(([127, 0, 0, 1], 0));
        let service = Service::build(Config { listen, ..config }, deps).await.unwrap();
        let (address, handle) = (service.local_address(), service.handle());
        let addresses = handle.addresses();
        let tasks = Tasks::new("test", shutdown.clone());
        let own = shutdown.clone();
        tasks.spawn("gateway", OnExit::StopProcess, async move { Ok(service.run(own).await?) });
        Self { api, second_api, address, addresses, handle, health, registry, shutdown, tasks, authority }
    }

    /// A cluster with an endpoint that answers every line with its own name, and a route to it.
    pub(crate) async fn cluster(&self, name: &str) -> String {
        let host = format!("api.{name}.pilothouse.test");
        let address = self.endpoint(&host, name).await;
        self.api.endpoints(name, address);
        self.route(name, "kube-apiserver", &host, "2026-01-01T00:00:00Z");
        self.until_served(&host, &format!("{name}/kube-apiserver")).await;
        host
    }

    pub(crate) fn route(&self, namespace: &str, name: &str, host: &str, created: &str) {
        self.api.route(namespace, name, host, created);
    }

    pub(crate) fn endpoints(&self, namespace: &str, address: SocketAddr) {
        self.api.endpoints(namespace, address);
    }

    /// Applies endpoints of the same service, in this order.
    pub(crate) fn replicas(&self, namespace: &str, addresses: &[SocketAddr]) {
        let subset = |address: &SocketAddr| json!({ "addresses": [{ "ip": address.ip() }], "ports": [{ "port": address.port() }] });
        let mut endpoints = self.api.get("endpoints", namespace, "kube-apiserver");
        endpoints["subsets"] = addresses.iter().map(subset).collect();
        self.api.apply("endpoints", endpoints);
    }

    /// Changes a cluster's route.
    pub(crate) fn restrict(&self, cluster: &str, annotations: Value, labels: Value) {
        let mut route = self.api.get("routes", cluster, "kube-apiserver");
        route["metadata"]["annotations"] = annotations;
        route["metadata"]["labels"] = labels;
        self.api.apply("routes", route);
    }

    pub(crate) async fn until_served(&self, host: &str, route: &str) {
        eventually("the host is served", PATIENCE, || async {
            let hosts = self.handle.hosts();
            let found = hosts.iter().any(|(served, by)| served == host && by.route.to_string() == route);
            if found { Ok(()) } else { Err(format!("{hosts:?}")) }
        })
        .await;
    }

    /// A TLS server that says `text` for every byte that it gets.
    pub(crate) async fn endpoint(&self, host: &str, text: &str) -> SocketAddr {
        let names = [host.parse().unwrap()];
        let request = LeafRequest::server(Subject::try_new("endpoint").unwrap(), names);
        let identity = self.authority.issue(&request, &Clock::system()).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(identity.chain_der(), identity.key().to_der())
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (tasks, text) = (self.tasks.clone(), text.to_owned());
        self.tasks.spawn("endpoint", OnExit::Expendable, async move {
            loop {
                let (stream, _) = listener.accept().await?;
                let (acceptor, text) = (acceptor.clone(), text.clone());
                tasks.spawn("endpoint connection", OnExit::Expendable, async move {
                    let mut stream = acceptor.accept(stream).await?;
                    while stream.read_u8().await.is_ok() {
                        stream.write_all(text.as_bytes()).await?;
                        stream.flush().await?;
                    }
                    Ok(())
                });
            }
        });
        address
    }

    /// Connects as a client of that host does.
    pub(crate) async fn connect(&self, host: &str) -> io::Result<TlsStream<TcpStream>> {
        self.connect_at(self.address, host, b"").await
    }

    /// The same at another listener, with something to say before.
    pub(crate) async fn connect_at(
        &self,
        address: SocketAddr,
        host: &str,
        before: &[u8],
    ) -> io::Result<TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        roots.add(self.authority.certificate().der().clone()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(before).await?;
        let name = ServerName::try_from(host.to_owned()).unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, stream).await
    }

    /// Who answers behind the host.
    pub(crate) async fn who(&self, host: &str) -> String {
        let mut stream = self.connect(host).await.unwrap();
        ask(&mut stream).await.unwrap()
    }

    pub(crate) fn request_stop(&self) {
        self.shutdown.request(Reason::Asked("the test is over".to_owned()));
    }

    /// Stops it and fails if anything is left running or went wrong.
    pub(crate) async fn stop(self) {
        self.request_stop();
        self.tasks.drain(PATIENCE).await.unwrap();
        assert_eq!(self.shutdown.reason(), Some(Reason::Asked("the test is over".to_owned())));
    }

    /// The metrics.
    pub(crate) fn numbers(&self) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        text
    }

    /// The authority's certificate, PEM.
    pub(crate) fn authority(&self) -> String {
        self.authority.certificate().to_pem()
    }

    /// Waits until a line of the metrics reads like this.
    pub(crate) async fn until_numbers_say(&self, line: &str) {
        eventually(&format!("the metrics say {line}"), PATIENCE, || async {
            let text = self.numbers();
            if text.lines().any(|found| found == line) { Ok(()) } else { Err(text) }
        })
        .await;
    }
}

/// A listener on a free port.
pub(crate) fn listener(reach: Reach) -> Listener {
    Listener { address: SocketAddr::from(([127, 0, 0, 1], 0)), reach }
}

/// Sends a byte, and reads what comes back.
pub(crate) async fn ask(stream: &mut TlsStream<TcpStream>) -> io::Result<String> {
    stream.write_all(b"?").await?;
    let mut answer = [0; 64];
    let read = tokio::time::timeout(PATIENCE, stream.read(&mut answer)).await.unwrap()?;
    Ok(String::from_utf8_lossy(&answer[..read]).into_owned())
}
