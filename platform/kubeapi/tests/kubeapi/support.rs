//! A server in one line.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::Api;
use kube::api::PostParams;
use kube::config::{KubeConfigOptions, Kubeconfig as ClientConfig};
use pilothouse_http::{CertificateSource, TlsFiles};
use pilothouse_kubeapi::{Config, Deps, NodeDialer, Service};
use pilothouse_pki::{
    Authority, AuthorityRequest, Bundle, Credential, Identity, KeyAlgorithm, Kubeconfig, LeafRequest,
    PrivateKey, Subject,
};
use pilothouse_runtime::{Clock, OnExit, Reason, Shutdown, Tasks};
use pilothouse_store::{Keyring, Location, Options, Store};
use prometheus_client::registry::Registry;
use tempfile::TempDir;
use tokio::net::TcpStream;

/// Far beyond anything that works; a test that reaches it has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// What outlives a server: keys, certificates, files.
pub(crate) struct Ground {
    pub(crate) directory: TempDir,
    pub(crate) authority: Authority,
    service_account_key: String,
}

pub(crate) struct Cluster {
    pub(crate) ground: Ground,
    pub(crate) address: SocketAddr,
    pub(crate) store: Store,
    registry: Registry,
    shutdown: Shutdown,
    pub(crate) tasks: Tasks,
}

struct Direct;

impl NodeDialer for Direct {
    fn dial(&self, address: SocketAddr) -> BoxFuture<'_, std::io::Result<TcpStream>> {
        Box::pin(TcpStream::connect(address))
    }
}

impl Ground {
    pub(crate) fn new() -> Self {
        let request = AuthorityRequest::new(Subject::try_new("test cluster").unwrap());
        Self {
            directory: tempfile::tempdir().unwrap(),
            authority: Authority::self_signed(&request, &Clock::system()).unwrap(),
            service_account_key: PrivateKey::generate(KeyAlgorithm::default()).unwrap().to_pem().to_string(),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn bundle(&self) -> Bundle {
        Bundle::from(self.authority.certificate())
    }

    fn client(&self, name: &str) -> Identity {
        let request = LeafRequest::client(Subject::try_new(name).unwrap());
        self.authority.issue(&request, &Clock::system()).unwrap()
    }

    fn serving(&self) -> CertificateSource {
        let names = ["localhost", "127.0.0.1"].map(|name| name.parse().unwrap());
        let request = LeafRequest::server(Subject::try_new("kube-apiserver").unwrap(), names);
        let identity = self.authority.issue(&request, &Clock::system()).unwrap();
        let (certificate, key) = (self.path("tls.crt"), self.path("tls.key"));
        identity.write(&certificate, &key).unwrap();
        let files = TlsFiles { certificate, key, client_authorities: None };
        CertificateSource::load(files, Clock::system()).unwrap()
    }

    /// Starts a server on a store that is new or was left by another one.
    pub(crate) async fn start(self, location: Location) -> Cluster {
        self.start_with(location, Config::default()).await
    }

    /// The same, for a server that is told something.
    pub(crate) async fn start_with(self, location: Location, config: Config) -> Cluster {
        let shutdown = Shutdown::new();
        let mut options = Options::new(location, pilothouse_kubeapi::catalog(), shutdown.clone());
        let keyring = self.directory.path().join("keyring").to_str().unwrap().to_owned();
        options.keyring = Some(Keyring::open_or_create(keyring).unwrap());
        let store = Store::open(options).await.unwrap();
        let mut registry = Registry::default();
        let deps = Deps {
            store: store.clone(),
            space: "test".to_owned(),
            serving: self.serving(),
            client_authorities: self.bundle(),
            service_account_key: PrivateKey::from_pem(self.service_account_key.as_bytes()).unwrap(),
            issuer: "https://kubernetes.default.svc".to_owned(),
            clock: Clock::system(),
            nodes: Arc::new(Direct),
            kubelet_client: Some(self.client("kube-apiserver")),
            kubelet_authorities: self.bundle(),
            registry: &mut registry,
        };
        let service = Service::build(config, deps).await.unwrap();
        let address = service.local_address();
        let tasks = Tasks::new("test", shutdown.clone());
        let own = shutdown.clone();
        tasks.spawn("kubeapi", OnExit::StopProcess, async move { Ok(service.run(own).await?) });
        Cluster { ground: self, address, store, registry, shutdown, tasks }
    }
}

impl Cluster {
    /// A server with nothing on it but the account that pods run as: there is no controller to make it.
    pub(crate) async fn start() -> Self {
        let cluster = Ground::new().start(Location::memory()).await;
        let accounts: Api<ServiceAccount> = Api::namespaced(cluster.admin().await, "default");
        let mut account = ServiceAccount::default();
        account.metadata.name = Some("default".to_owned());
        accounts.create(&PostParams::default(), &account).await.unwrap();
        cluster
    }

    /// Stops it and fails if anything is left running, had to be cut, or went wrong.
    pub(crate) async fn stop(self) -> Ground {
        self.shutdown.request(Reason::Asked("the test is over".to_owned()));
        self.tasks.drain(PATIENCE).await.unwrap();
        let mut numbers = String::new();
        prometheus_client::encoding::text::encode(&mut numbers, &self.registry).unwrap();
        assert!(numbers.contains("\nkubeapi_http_connections_cut_total 0\n"), "{numbers}");
        assert!(numbers.contains("\nkubeapi_watches 0\n"), "{numbers}");
        assert_eq!(self.shutdown.reason(), Some(Reason::Asked("the test is over".to_owned())));
        self.store.close().await;
        self.ground
    }

    /// A kubeconfig for a user with these groups.
    pub(crate) fn kubeconfig(&self, user: &str, groups: &[&str]) -> String {
        let subject = Subject::try_new(user).unwrap().with_organizations(groups.iter().copied()).unwrap();
        let identity = self.ground.authority.issue(&LeafRequest::client(subject), &Clock::system()).unwrap();
        let config = Kubeconfig {
            cluster: "test",
            user,
            context: "test",
            server: &format!("https://{}", self.address),
            tls_server_name: None,
            authorities: &self.ground.bundle(),
            namespace: None,
            credential: Credential::Certificate(&identity),
        };
        config.to_yaml().unwrap().to_string()
    }

    pub(crate) async fn client_as(&self, user: &str, groups: &[&str]) -> kube::Client {
        let config = ClientConfig::from_yaml(&self.kubeconfig(user, groups)).unwrap();
        let config =
            kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await.unwrap();
        kube::Client::try_from(config).unwrap()
    }

    pub(crate) async fn client_with_token(&self, token: &str) -> kube::Client {
        let config = ClientConfig::from_yaml(&self.kubeconfig("nobody", &[])).unwrap();
        let mut config =
            kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await.unwrap();
        config.auth_info =
            kube::config::AuthInfo { token: Some(token.to_owned().into()), ..Default::default() };
        kube::Client::try_from(config).unwrap()
    }

    pub(crate) async fn admin(&self) -> kube::Client {
        self.client_as("admin", &["system:masters"]).await
    }

    /// Runs kubectl as the administrator.
    pub(crate) async fn kubectl(&self, program: &std::path::Path, arguments: &[&str], input: &str) -> Output {
        let config = self.ground.path("kubeconfig");
        if !config.exists() {
            std::fs::write(&config, self.kubeconfig("admin", &["system:masters"])).unwrap();
        }
        let file = self.ground.path("input.yaml");
        std::fs::write(&file, input).unwrap();
        let mut command = Command::new(program);
        command
            .arg("--kubeconfig")
            .arg(config)
            .args(arguments.iter().map(|one| if *one == "FILE" { file.to_str().unwrap() } else { one }))
            .env_clear()
            .env("HOME", self.ground.directory.path());
        tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
    }
}

/// What a program printed, if it was content.
pub(crate) fn printed(output: &Output) -> String {
    let (out, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}{error}");
    out.into_owned()
}

/// The code of a refused request.
pub(crate) fn refused<T: std::fmt::Debug>(answer: Result<T, kube::Error>) -> (u16, String, String) {
    match answer {
        Err(kube::Error::Api(status)) => (status.code, status.reason.clone(), status.message.clone()),
        other => panic!("{other:?}"),
    }
}
