//! A real server for the tests of whoever speaks to one; never compiled into the product.
//!
//! Behind the feature `testing`, for dev-dependencies only. A [`Cluster`] is a [`Service`] on a free port, with a store and
//! an authority of its own, and clients for whomever the test wants to be. Custom resource definitions are the caller's.

use std::fmt;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::api::{PostParams, WatchEvent, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig as ClientConfig};
use kube::{Api, ResourceExt as _};
use pilothouse_http::{CertificateSource, TlsFiles};
use pilothouse_pki::{
    Authority, AuthorityRequest, Bundle, Credential, Identity, KeyAlgorithm, Kubeconfig, LeafRequest,
    PrivateKey, Subject,
};
use pilothouse_runtime::{Clock, OnExit, Reason, Shutdown, TaskError, Tasks};
use pilothouse_store::{Keyring, Location, Options as StoreOptions, Store};
use prometheus_client::registry::Registry;
use tempfile::TempDir;
use tokio::net::TcpStream;

use crate::{Config, Deps, NodeDialer, Service, TokenIssuers, catalog};

mod issuer;

pub use self::issuer::TokenIssuer;

/// Far beyond anything that works.
const PATIENCE: Duration = Duration::from_secs(30);

/// Nobody tells them apart: a test that meets one stops.
type Result<T> = std::result::Result<T, TaskError>;

/// What a test may want otherwise.
pub struct Options {
    /// Where the objects are. The keys of a file are kept beside it.
    pub store: Location,
    /// The version it speaks, and what else a server is told about itself.
    pub config: Config,
    /// The way to the kubelets; straight there, if nothing is said.
    pub nodes: Arc<dyn NodeDialer>,
    /// Who signs the kubelets' serving certificates, if not the cluster's own authority.
    pub kubelet_authorities: Option<Bundle>,
    /// What it serves with, if not a certificate of the cluster's own authority. Then [`Cluster::client`] does not believe
    /// it.
    pub serving: Option<Identity>,
    /// Whose clients are believed, if not those of the cluster's own authority. Then it does not believe
    /// [`Cluster::client`].
    pub client_authorities: Option<Bundle>,
    /// Whose tokens are believed.
    pub token_issuers: TokenIssuers,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            store: Location::memory(),
            config: Config::default(),
            nodes: Arc::new(Straight),
            kubelet_authorities: None,
            serving: None,
            client_authorities: None,
            token_issuers: TokenIssuers::default(),
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("store", &self.store)
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

struct Straight;

impl NodeDialer for Straight {
    fn dial(&self, address: SocketAddr) -> BoxFuture<'_, std::io::Result<TcpStream>> {
        Box::pin(TcpStream::connect(address))
    }
}

/// A server that answers. It is asked to stop when dropped, and then nobody waits for it.
pub struct Cluster {
    address: SocketAddr,
    authority: Authority,
    store: Store,
    tasks: Tasks,
    /// The serving certificate is read again while the server runs.
    _directory: TempDir,
}

impl Cluster {
    /// Starts a server.
    ///
    /// # Errors
    ///
    /// When anything of it cannot be made.
    pub async fn start(options: Options) -> Result<Self> {
        let clock = Clock::system();
        let directory = tempfile::tempdir()?;
        let request = AuthorityRequest::new(Subject::try_new("test cluster")?);
        let authority = Authority::self_signed(&request, &clock)?;
        let own = Bundle::from(authority.certificate());
        let serving = match options.serving {
            Some(identity) => identity,
            None => {
                let names = ["localhost".parse()?, "127.0.0.1".parse()?];
                authority.issue(&LeafRequest::server(Subject::try_new("kube-apiserver")?, names), &clock)?
            }
        };
        let (certificate, key) = (directory.path().join("tls.crt"), directory.path().join("tls.key"));
        serving.write(&certificate, &key)?;
        let files = TlsFiles { certificate, key, client_authorities: None };
        let kubelet_client = LeafRequest::client(Subject::try_new("kube-apiserver")?);

        let tasks = Tasks::new("test-cluster", Shutdown::new());
        let shutdown = tasks.shutdown().clone();
        let keyring = match options.store.path() {
            Some(path) => Keyring::open_or_create(format!("{path}.keyring"))?,
            None => Keyring::ephemeral()?,
        };
        let mut store = StoreOptions::new(options.store, catalog(), shutdown.clone());
        store.keyring = Some(keyring);
        let store = Store::open(store).await?;
        let deps = Deps {
            store: store.clone(),
            space: "test".to_owned(),
            serving: CertificateSource::load(files, clock.clone())?,
            client_authorities: options.client_authorities.unwrap_or_else(|| own.clone()),
            service_account_key: PrivateKey::generate(KeyAlgorithm::default())?,
            issuer: "https://kubernetes.default.svc".to_owned(),
            clock: clock.clone(),
            nodes: options.nodes,
            kubelet_client: Some(authority.issue(&kubelet_client, &clock)?),
            kubelet_authorities: options.kubelet_authorities.unwrap_or(own),
            registry: &mut Registry::default(),
        };
        let service =
            Service::build(options.config, deps).await?.with_token_issuers(options.token_issuers)?;
        let address = service.local_address();
        tasks.spawn("kubeapi", OnExit::StopProcess, async move { Ok(service.run(shutdown).await?) });
        Ok(Self { address, authority, store, tasks, _directory: directory })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Who signs for this cluster: the server's certificate, its clients', and a kubelet's if there is one.
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// Where its objects are, for tests that do to it what no client can.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// A kubeconfig for a user with these groups. Who is of `system:masters` may do everything.
    ///
    /// # Errors
    ///
    /// When the names do not fit into a certificate.
    pub fn kubeconfig(&self, user: &str, groups: &[&str]) -> Result<String> {
        let subject = Subject::try_new(user)?.with_organizations(groups.iter().copied())?;
        let identity = self.authority.issue(&LeafRequest::client(subject), &Clock::system())?;
        let config = Kubeconfig {
            cluster: "test",
            user,
            context: "test",
            server: &format!("https://{}", self.address),
            tls_server_name: None,
            authorities: &Bundle::from(self.authority.certificate()),
            namespace: None,
            credential: Credential::Certificate(&identity),
        };
        Ok(config.to_yaml()?.to_string())
    }

    /// A client that is a user with these groups.
    ///
    /// # Errors
    ///
    /// When the names do not fit into a certificate.
    pub async fn client(&self, user: &str, groups: &[&str]) -> Result<kube::Client> {
        let config = ClientConfig::from_yaml(&self.kubeconfig(user, groups)?)?;
        let config = kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?;
        Ok(kube::Client::try_from(config)?)
    }

    /// A client that shows a token.
    ///
    /// # Errors
    ///
    /// When there is no making one.
    pub async fn client_with_token(&self, token: &str) -> Result<kube::Client> {
        let config = Kubeconfig {
            cluster: "test",
            user: "bearer",
            context: "test",
            server: &format!("https://{}", self.address),
            tls_server_name: None,
            authorities: &Bundle::from(self.authority.certificate()),
            namespace: None,
            credential: Credential::Token(token),
        };
        let config = ClientConfig::from_yaml(&config.to_yaml()?)?;
        let config = kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?;
        Ok(kube::Client::try_from(config)?)
    }

    /// A client that may do everything.
    ///
    /// # Errors
    ///
    /// When there is no making one.
    pub async fn admin(&self) -> Result<kube::Client> {
        self.client("admin", &["system:masters"]).await
    }

    /// Gives every namespace the account that its pods run as, for as long as the server runs: what a controller does
    /// where there are controllers.
    ///
    /// # Errors
    ///
    /// When there is no client for it.
    pub async fn keep_accounts(&self) -> Result<()> {
        let client = self.admin().await?;
        let shutdown = self.tasks.shutdown().clone();
        self.tasks.spawn("accounts", OnExit::Expendable, async move {
            let namespaces: Api<Namespace> = Api::all(client.clone());
            let watch = namespaces.watch(&WatchParams::default(), "0").await?;
            let mut events = pin!(watch.take_until(shutdown.requested()));
            while let Some(event) = events.try_next().await? {
                let WatchEvent::Added(namespace) = event else { continue };
                let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), &namespace.name_any());
                let mut account = ServiceAccount::default();
                account.metadata.name = Some("default".to_owned());
                // It may be there already, or the namespace gone again.
                let _ = accounts.create(&PostParams::default(), &account).await;
            }
            Ok(())
        });
        Ok(())
    }

    /// What ends the server. It has a reason before anybody asked if the server failed.
    pub fn shutdown(&self) -> &Shutdown {
        self.tasks.shutdown()
    }

    /// Stops it, and waits until nothing of it runs. That takes a while if clients hold connections that they never used.
    ///
    /// # Errors
    ///
    /// When it had stopped by itself, or does not.
    pub async fn stop(self) -> Result<()> {
        if let Some(reason) = self.shutdown().reason() {
            return Err(format!("the server did not run to the end: {reason:?}").into());
        }
        self.request_stop();
        self.tasks.drain(PATIENCE).await?;
        self.store.close().await;
        Ok(())
    }

    fn request_stop(&self) {
        self.shutdown().request(Reason::Asked("the test is over".to_owned()));
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.request_stop();
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").field("address", &self.address).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Secret;
    use kube::Api;
    use kube::api::PostParams;
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn cluster_on_a_file_is_there_again_after_a_stop() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("kubeapi.db").to_str().unwrap().to_owned();
        let start =
            || Cluster::start(Options { store: Location::sqlite(file.clone()), ..Options::default() });
        let secrets = async |cluster: &Cluster| -> Api<Secret> {
            Api::namespaced(cluster.admin().await.unwrap(), "default")
        };

        let cluster = start().await.unwrap();
        let secret = json!({ "metadata": { "name": "kept" }, "stringData": { "key": "value" } });
        let secret: Secret = serde_json::from_value(secret).unwrap();
        secrets(&cluster).await.create(&PostParams::default(), &secret).await.unwrap();
        cluster.stop().await.unwrap();

        let cluster = start().await.unwrap();
        let kept = secrets(&cluster).await.get("kept").await.unwrap();
        assert_eq!(kept.data.unwrap()["key"].0, b"value");
        let nobody = cluster.client("nobody", &[]).await.unwrap();
        let refused = Api::<Secret>::namespaced(nobody, "default").get("kept").await;
        assert!(matches!(&refused, Err(kube::Error::Api(status)) if status.code == 403), "{refused:?}");
        cluster.stop().await.unwrap();
    }
}
