//! Who may speak for whom, over gRPC: sources and agents, by certificate and by token.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::Api;
use kube::api::PostParams;
use pilothouse_http::{Health, ListenerConfig, TlsFiles};
use pilothouse_maestro::server::{self, AccessConfig, Authentication};
use pilothouse_maestro::{BrokerConfig, BrokerKind, ClientTls};
use pilothouse_maestro_api::proto::SubscriptionRequest;
use pilothouse_maestro_api::{
    Action, CloudEvent, DATA_TYPE, Dial, Error, EventChannel, EventType, SourceClient, Subresource,
    extension, work_uid,
};
use pilothouse_pki::{Authority, AuthorityRequest, LeafRequest, Subject};
use pilothouse_runtime::{Clock, Shutdown};
use pilothouse_store::{Keyring, Location, Options, Store};
use pilothouse_test_support::process::free_port;
use prometheus_client::registry::Registry;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::flow::story;
use crate::world::{
    BrokerPart, CONSUMER, SOURCE, Server, Storage, World, server_config, start_agent_with, work,
};

/// An authority, and what it has signed, in files.
struct Papers {
    authority: Authority,
    folder: PathBuf,
}

impl Papers {
    fn make(folder: &Path) -> Self {
        let request = AuthorityRequest::new(Subject::try_new("maestro test").unwrap());
        let authority = Authority::self_signed(&request, &Clock::system()).unwrap();
        std::fs::write(folder.join("ca.crt"), authority.certificate().to_pem()).unwrap();
        let papers = Self { authority, folder: folder.to_owned() };
        let subject = Subject::try_new("maestro").unwrap();
        let request = LeafRequest::server(subject, ["127.0.0.1".parse().unwrap()]);
        let identity = papers.authority.issue(&request, &Clock::system()).unwrap();
        identity.write(&papers.path("tls.crt"), &papers.path("tls.key")).unwrap();
        papers
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// A listener that speaks TLS, and asks for certificates.
    fn listener(&self, port: u16, asks: bool) -> ListenerConfig {
        let tls = TlsFiles {
            certificate: self.path("tls.crt"),
            key: self.path("tls.key"),
            client_authorities: asks.then(|| self.path("ca.crt")),
        };
        ListenerConfig { tls: Some(tls), ..ListenerConfig::loopback(port) }
    }

    /// The files of somebody of this name.
    fn client(&self, name: &str) -> ClientTls {
        let request = LeafRequest::client(Subject::try_new(name).unwrap());
        let identity = self.authority.issue(&request, &Clock::system()).unwrap();
        let (certificate, key) = (self.path(&format!("{name}.crt")), self.path(&format!("{name}.key")));
        identity.write(&certificate, &key).unwrap();
        ClientTls { authorities: self.path("ca.crt"), certificate, key }
    }

    /// How a source calls, as somebody or as nobody.
    fn tls(&self, name: Option<&str>) -> rustls::ClientConfig {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(self.authority.certificate().der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        match name {
            None => builder.with_no_client_auth(),
            Some(name) => {
                let request = LeafRequest::client(Subject::try_new(name).unwrap());
                let identity = self.authority.issue(&request, &Clock::system()).unwrap();
                builder.with_client_auth_cert(identity.chain_der(), identity.key().to_der()).unwrap()
            }
        }
    }
}

/// A source that calls an encrypted server.
fn source(
    server: &Server,
    name: &str,
    tls: rustls::ClientConfig,
    token_file: Option<PathBuf>,
) -> SourceClient {
    let dial = Dial { url: format!("https://{}", server.grpc), tls: Some(tls), token_file };
    SourceClient::dial(dial, name, Clock::system()).unwrap()
}

fn refusal<T: std::fmt::Debug>(outcome: Result<T, Error>) -> String {
    match outcome {
        Err(Error::Refused(reason)) => reason,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn certificate_speaks_for_its_common_name_and_for_nobody_else() {
    let folder = tempfile::tempdir().unwrap();
    let papers = Papers::make(folder.path());
    let mtls = AccessConfig { authentication: Authentication::Mtls, kubeconfig: None };
    let broker = BrokerPart::dialled();
    let config = server::Config {
        grpc: papers.listener(0, true),
        sources: mtls.clone(),
        broker: BrokerConfig { kind: BrokerKind::Grpc, ..BrokerConfig::default() },
        grpc_broker: papers.listener(broker.port, true),
        agents: mtls,
        ..server_config([0, 0])
    };
    let mut server = Server::configured(folder.path(), &Storage::Sqlite, config).await;
    let ours = source(&server, "cs", papers.tls(Some("cs")), None);
    let others = source(&server, "other", papers.tls(Some("other")), None);
    let liar = source(&server, "cs", papers.tls(Some("other")), None);

    ours.work_create(&work("one", "1")).await.unwrap();
    assert_eq!(refusal(liar.work_create(&work("two", "1")).await), "`other` may not publish as source `cs`");
    assert_eq!(refusal(liar.subscribe().await), "`other` may not subscribe as source `cs`");
    // The same bundle, in the name of another source.
    let said = refusal(others.publish(change_of("other")).await);
    assert!(said.contains("maestro-4") && said.contains("is not one of source `other`"), "{said}");
    let nobody = source(&server, "cs", papers.tls(None), None).subscribe().await;
    assert!(matches!(nobody, Err(Error::Unavailable(_))), "no certificate, no connection: {nobody:?}");
    assert_eq!(server.rest.resource_bundle_search("").await.unwrap()[0].version, 1);

    // An agent by another name gets nothing, the right one everything.
    let cluster = Cluster::start().await;
    let dialling = |name: &str| BrokerConfig {
        kind: BrokerKind::Grpc,
        host: format!("127.0.0.1:{}", broker.port),
        tls: Some(papers.client(name)),
        ..BrokerConfig::default()
    };
    let channel = EventChannel::try_new(Dial {
        url: format!("https://127.0.0.1:{}", broker.port),
        tls: Some(papers.tls(Some("elsewhere"))),
        token_file: None,
    });
    let wanted = SubscriptionRequest {
        source: String::new(),
        cluster_name: CONSUMER.to_owned(),
        data_type: DATA_TYPE.to_owned(),
    };
    let said = refusal(channel.unwrap().subscribe(wanted).await);
    assert_eq!(said, "`elsewhere` may not subscribe as the agent of consumer `local-cluster`");
    let agent = Some(start_agent_with(&cluster, "maestro", dialling("local-cluster")).await);
    ours.work_delete(&work("one", "")).await.unwrap();
    server.source = ours;
    let world = World { cluster, broker, agent, server };
    world.until_map("one", None).await;
    world.until_forgotten("one").await;
    story(&world).await;
}

/// An event of a source that would change the bundle of the test.
fn change_of(source: &str) -> CloudEvent {
    let wanted = work("one", "2");
    CloudEvent::new(source, &EventType::new(Subresource::Spec, Action::Update), Clock::system().now())
        .with(extension::CLUSTER_NAME, wanted.consumer.as_str())
        .with(extension::RESOURCE_ID, work_uid(SOURCE, CONSUMER, "one").to_string())
        .with(extension::RESOURCE_VERSION, 0)
        .with_data(serde_json::to_vec(&wanted.bundle).unwrap())
}

fn object<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

/// An account that may do this, with its token in a file.
async fn account(cluster: &Cluster, folder: &Path, name: &str, path: &str) -> PathBuf {
    let post = PostParams::default();
    let accounts: Api<ServiceAccount> = Api::namespaced(cluster.client.clone(), "default");
    accounts.create(&post, &object(json!({"metadata": {"name": name}}))).await.unwrap();
    let roles: Api<ClusterRole> = Api::all(cluster.client.clone());
    let rules = json!([{"nonResourceURLs": [path], "verbs": ["pub", "sub"]}]);
    roles.create(&post, &object(json!({"metadata": {"name": name}, "rules": rules}))).await.unwrap();
    let bindings: Api<ClusterRoleBinding> = Api::all(cluster.client.clone());
    let binding = json!({"metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "default"}]});
    bindings.create(&post, &object(binding)).await.unwrap();
    let request: TokenRequest = object(json!({"spec": {"audiences": []}}));
    let answer = accounts.create_token_request(name, &post, &request).await.unwrap();
    let file = folder.join(format!("{name}.token"));
    std::fs::write(&file, answer.status.unwrap().token).unwrap();
    file
}

#[tokio::test]
async fn token_may_do_what_kubernetes_says_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let papers = Papers::make(folder.path());
    let cluster = Cluster::start().await;
    let kubeconfig = folder.path().join("kubeconfig");
    std::fs::write(&kubeconfig, cluster.kubeconfig()).unwrap();
    let token = AccessConfig { authentication: Authentication::Token, kubeconfig: Some(kubeconfig) };
    let broker = BrokerPart::dialled();
    let config = server::Config {
        grpc: papers.listener(0, false),
        sources: token.clone(),
        broker: BrokerConfig { kind: BrokerKind::Grpc, ..BrokerConfig::default() },
        grpc_broker: papers.listener(broker.port, false),
        agents: token,
        ..server_config([0, 0])
    };
    let mut server = Server::configured(folder.path(), &Storage::Sqlite, config).await;
    let of_source = account(&cluster, folder.path(), "clusters-service", "/sources/cs").await;
    let of_agent = account(&cluster, folder.path(), "agent", "/clusters/local-cluster").await;
    let calling = |file: Option<&PathBuf>| source(&server, "cs", papers.tls(None), file.cloned());

    let said = refusal(calling(None).work_create(&work("one", "1")).await);
    assert!(said.starts_with("there is no token"), "{said}");
    let bad = folder.path().join("bad.token");
    std::fs::write(&bad, "nonsense").unwrap();
    let said = refusal(calling(Some(&bad)).work_create(&work("one", "1")).await);
    assert!(said.starts_with("the token is not good"), "{said}");
    let said = refusal(calling(Some(&of_agent)).work_create(&work("one", "1")).await);
    assert_eq!(said, "`system:serviceaccount:default:agent` may not publish as source `cs`");
    let missing = calling(Some(&folder.path().join("missing.token"))).subscribe().await;
    assert!(matches!(missing, Err(Error::Token { .. })), "{missing:?}");
    assert_eq!(server.rest.resource_bundle_search("").await.unwrap(), []);

    server.source = calling(Some(&of_source));
    let broker_config = BrokerConfig {
        kind: BrokerKind::Grpc,
        host: format!("127.0.0.1:{}", broker.port),
        authorities: Some(folder.path().join("ca.crt")),
        token_file: Some(of_agent),
        ..BrokerConfig::default()
    };
    let agent = Some(start_agent_with(&cluster, "maestro", broker_config).await);
    story(&World { cluster, broker, agent, server }).await;
}

/// What cannot work is told before anything is served.
#[tokio::test]
async fn settings_that_cannot_work_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let papers = Papers::make(folder.path());
    let build = async |config: server::Config| {
        let shutdown = Shutdown::new();
        let mut options = Options::new(Location::memory(), server::catalog(), shutdown.clone());
        options.keyring = Some(Keyring::open_or_create(format!("{}/keys", folder.path().display())).unwrap());
        let deps = server::Deps {
            store: Store::open(options).await.unwrap(),
            clock: Clock::system(),
            health: Health::new(shutdown),
            registry: &mut Registry::default(),
        };
        server::Service::build(config, deps).await.unwrap_err().to_string()
    };
    let access = |authentication| AccessConfig { authentication, kubeconfig: None };
    let said = build(server::Config {
        grpc: papers.listener(free_port(), false),
        sources: access(Authentication::Mtls),
        ..server_config([0, 0])
    });
    assert!(said.await.contains("asks for none; name `client_authorities`"));
    let said = build(server::Config { sources: access(Authentication::Token), ..server_config([0, 0]) });
    assert!(said.await.contains("nobody to ask about them; name a `kubeconfig`"));
    let plain =
        Dial { url: "http://maestro.example.com:8090".to_owned(), tls: None, token_file: Some("t".into()) };
    assert!(matches!(SourceClient::dial(plain, "cs", Clock::system()), Err(Error::Unprotected(_))));
}
