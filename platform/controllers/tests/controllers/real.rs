//! A real etcd and kube-apiserver, without its controller manager: the controllers are ours.

use k8s_openapi::api::core::v1::Namespace;
use kube::config::{KubeConfigOptions, Kubeconfig as ClientConfig};
use kube::{Api, Client};
use pilothouse_pki::{Authority, AuthorityRequest, Bundle, Credential, Kubeconfig, LeafRequest, Subject};
use pilothouse_runtime::Clock;
use pilothouse_test_support::upstream::{Cluster, Setup, Upstream};
use tempfile::TempDir;

/// The servers are killed before their folder goes.
pub(crate) struct Real {
    authority: Authority,
    servers: Cluster,
    _folder: TempDir,
}

impl Real {
    pub(crate) async fn start(upstream: &Upstream) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let clock = Clock::system();
        let request = AuthorityRequest::new(Subject::try_new("test cluster").unwrap());
        let authority = Authority::self_signed(&request, &clock).unwrap();
        Bundle::from(authority.certificate()).write(&path("ca.crt")).unwrap();
        let names = ["localhost", "127.0.0.1"].map(|name| name.parse().unwrap());
        let serving = LeafRequest::server(Subject::try_new("kube-apiserver").unwrap(), names);
        let serving = authority.issue(&serving, &clock).unwrap();
        serving.write(&path("apiserver.crt"), &path("apiserver.key")).unwrap();

        let setup = Setup {
            folder: folder.path().to_owned(),
            certificate: path("apiserver.crt"),
            key: path("apiserver.key"),
            client_authorities: path("ca.crt"),
            arguments: Vec::new(),
        };
        // Pods are made before anybody makes accounts.
        let setup = setup.with("--disable-admission-plugins", "ServiceAccount");
        let servers = Cluster::start(upstream, setup, |address| {
            let (authority, url) = (&authority, format!("https://{address}"));
            async move {
                let client = connect(authority, &url, "admin", &["system:masters"]).await;
                let found = Api::<Namespace>::all(client).get("default").await;
                found.map(drop).map_err(|error| error.to_string())
            }
        })
        .await;
        Self { authority, servers, _folder: folder }
    }

    pub(crate) fn authority(&self) -> &Authority {
        &self.authority
    }

    pub(crate) async fn client(&self, user: &str, groups: &[&str]) -> Client {
        connect(&self.authority, &self.servers.url(), user, groups).await
    }
}

async fn connect(authority: &Authority, url: &str, user: &str, groups: &[&str]) -> Client {
    let subject = Subject::try_new(user).unwrap().with_organizations(groups.iter().copied()).unwrap();
    let identity = authority.issue(&LeafRequest::client(subject), &Clock::system()).unwrap();
    let config = Kubeconfig {
        cluster: "test",
        user,
        context: "test",
        server: url,
        tls_server_name: None,
        authorities: &Bundle::from(authority.certificate()),
        namespace: None,
        credential: Credential::Certificate(&identity),
    };
    let config = ClientConfig::from_yaml(&config.to_yaml().unwrap()).unwrap();
    let config = kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await.unwrap();
    Client::try_from(config).unwrap()
}
