//! A server in one line, certificates on disk, and a connection one can look into.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use axum::Router;
use pilothouse_http::{
    Client, ClientBuilder, Exposure, Limits, Listener, ListenerConfig, Metrics, Stack, TlsFiles,
};
use pilothouse_pki::{Authority, AuthorityRequest, Bundle, Identity, LeafRequest, Subject, Usage};
use pilothouse_runtime::{Clock, OnExit, Reason, Shutdown, Tasks};
use prometheus_client::registry::Registry;
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use url::Url;

/// Far beyond anything that works; a test that reaches it has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) shutdown: Shutdown,
    pub(crate) tasks: Tasks,
    pub(crate) registry: Registry,
}

impl Running {
    pub(crate) async fn start(app: Router) -> Self {
        Self::with(app, &ListenerConfig::loopback(0), Limits::default()).await
    }

    pub(crate) async fn with(app: Router, config: &ListenerConfig, limits: Limits) -> Self {
        let listener = Listener::bind("the test", config, &Clock::system()).await.unwrap();
        Self::serve(listener.with_limits(limits), app, |stack| stack)
    }

    pub(crate) fn serve(listener: Listener, app: Router, stack: impl Fn(Stack) -> Stack) -> Self {
        let mut registry = Registry::default();
        let metrics = Metrics::new(registry.sub_registry_with_prefix("test"));
        let app = stack(Stack::new(metrics.clone())).around(app);
        let shutdown = Shutdown::new();
        let tasks = Tasks::new("test", shutdown.clone());
        let address = listener.local_address();
        let own = tasks.clone();
        tasks.spawn("listen", OnExit::StopProcess, async move { listener.serve(app, metrics, &own).await });
        Self { address, shutdown, tasks, registry }
    }

    pub(crate) fn url(&self, path: &str) -> Url {
        format!("http://{}{path}", self.address).parse().unwrap()
    }

    pub(crate) fn stop(&self) {
        self.shutdown.request(Reason::Asked("the test is over".into()));
    }

    /// Stops it and fails if anything is left running.
    pub(crate) async fn stopped(self) {
        self.stop();
        self.tasks.drain(PATIENCE).await.unwrap();
        assert_eq!(self.shutdown.reason(), Some(Reason::Asked("the test is over".into())));
    }

    pub(crate) fn numbers(&self) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        text
    }

    /// Waits until a line of the metrics reads like this.
    pub(crate) async fn until_numbers_say(&self, line: &str) {
        eventually(|| async { self.numbers().lines().any(|found| found == line) }).await;
    }
}

/// Waits for a condition without sleeping; other tasks run in between.
pub(crate) async fn eventually<F: Future<Output = bool>>(mut condition: impl FnMut() -> F) {
    tokio::time::timeout(PATIENCE, async {
        while !condition().await {
            tokio::task::yield_now().await;
        }
    })
    .await
    .unwrap();
}

pub(crate) fn client() -> Client {
    ClientBuilder::new(PATIENCE).build().unwrap()
}

/// An authority and a directory with certificates signed by it.
pub(crate) struct Certificates {
    pub(crate) authority: Authority,
    pub(crate) directory: TempDir,
}

impl Certificates {
    pub(crate) fn new() -> Self {
        let subject = Subject::try_new("test authority").unwrap();
        let authority = Authority::self_signed(&AuthorityRequest::new(subject), &Clock::system()).unwrap();
        Self { authority, directory: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn server(&self) -> Identity {
        let names = ["localhost", "127.0.0.1"].map(|name| name.parse().unwrap());
        let request = LeafRequest::server(Subject::try_new("server").unwrap(), names);
        self.authority.issue(&request, &Clock::system()).unwrap()
    }

    pub(crate) fn client(&self, name: &str) -> Identity {
        let request = LeafRequest::client(Subject::try_new(name).unwrap()).with_usage(Usage::Client);
        self.authority.issue(&request, &Clock::system()).unwrap()
    }

    pub(crate) fn bundle(&self) -> Bundle {
        Bundle::from(self.authority.certificate())
    }

    /// Writes a new server certificate, and with `mutual` the authorities of clients.
    pub(crate) fn files(&self, mutual: bool) -> TlsFiles {
        let (certificate, key) = (self.path("tls.crt"), self.path("tls.key"));
        self.server().write(&certificate, &key).unwrap();
        let client_authorities = mutual.then(|| {
            let path = self.path("clients.crt");
            self.bundle().write(&path).unwrap();
            path
        });
        TlsFiles { certificate, key, client_authorities }
    }

    pub(crate) fn config(&self, mutual: bool, exposure: Exposure) -> ListenerConfig {
        ListenerConfig { tls: Some(self.files(mutual)), exposure, ..ListenerConfig::loopback(0) }
    }

    pub(crate) fn client_builder(&self) -> ClientBuilder {
        ClientBuilder::new(PATIENCE).with_authorities(self.bundle())
    }
}

/// One HTTP/1.1 exchange by hand: sends `text`, reads one response with a length.
pub(crate) async fn exchange(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), text: &str) -> String {
    stream.write_all(text.as_bytes()).await.unwrap();
    response(stream).await
}

pub(crate) async fn response(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut seen = Vec::new();
    tokio::time::timeout(PATIENCE, async {
        loop {
            let text = String::from_utf8_lossy(&seen).into_owned();
            if let Some((head, body)) = text.split_once("\r\n\r\n") {
                let length = head
                    .lines()
                    .find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
                if body.len() >= length.unwrap_or(0_usize) {
                    return text;
                }
            }
            let read = stream.read_buf(&mut seen).await.unwrap();
            assert!(read > 0, "the connection ended after: {text}");
        }
    })
    .await
    .unwrap()
}
