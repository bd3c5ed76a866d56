//! Client certificates, alone and together with tokens.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::routing::any;
use axum::{Extension, Router};
use pilothouse_access::{
    Access, Audit, AuditConfig, Callers, Config, ConfigError, Error, Gate, Mtls, Principal, Role, Through,
};
use pilothouse_http::{Client, ClientBuilder, Exposure, ListenerConfig, Metrics, Stack, TlsFiles};
use pilothouse_pki::{Authority, AuthorityRequest, Bundle, Identity, LeafRequest, Subject, Usage};
use pilothouse_runtime::{Clock, OnExit, Reason, Shutdown, Tasks};
use prometheus_client::registry::Registry;
use serde_json::json;
use url::Url;

use crate::support::{Directory, OURS, PATIENCE, Rig, TENANT, THEIRS, claims, with};

struct Certificates {
    authority: Authority,
    rig: Rig,
}

impl Certificates {
    fn new() -> Self {
        let subject = Subject::try_new("test authority").unwrap();
        let authority = Authority::self_signed(&AuthorityRequest::new(subject), &Clock::system()).unwrap();
        let mut rig = Rig::new();
        Bundle::from(authority.certificate()).write(&rig.path("clients.crt")).unwrap();
        let only = |name: &str| Callers { certificate_subjects: vec![name.to_owned()], ..Callers::default() };
        rig.config.mtls = Some(Mtls { client_authorities: rig.path("clients.crt") });
        rig.config.arm = only("arm.test");
        rig.config.administrators = Callers::default();
        rig.config.roles = vec![Role {
            callers: only("spiffe://region/robot"),
            subscriptions: vec![THEIRS.parse().unwrap()],
            all_subscriptions: false,
        }];
        Self { authority, rig }
    }

    fn listener(&self) -> ListenerConfig {
        let names = ["127.0.0.1"].map(|name| name.parse().unwrap());
        let request = LeafRequest::server(Subject::try_new("server").unwrap(), names);
        let (certificate, key) = (self.rig.path("tls.crt"), self.rig.path("tls.key"));
        self.authority.issue(&request, &Clock::system()).unwrap().write(&certificate, &key).unwrap();
        let tls = Some(TlsFiles { certificate, key, client_authorities: None });
        ListenerConfig { tls, exposure: Exposure::Authenticated, ..ListenerConfig::loopback(0) }
    }

    fn client(&self, identity: Option<Identity>) -> Client {
        let builder =
            ClientBuilder::new(PATIENCE).with_authorities(Bundle::from(self.authority.certificate()));
        match identity {
            Some(identity) => builder.with_identity(identity).build().unwrap(),
            None => builder.build().unwrap(),
        }
    }

    fn holder(&self, name: &str, names: &[&str]) -> Client {
        let mut request = LeafRequest::client(Subject::try_new(name).unwrap()).with_usage(Usage::Client);
        request = request.with_names(names.iter().map(|name| name.parse().unwrap()));
        self.client(Some(self.authority.issue(&request, &Clock::system()).unwrap()))
    }

    /// A service on a real port that says who calls.
    async fn serve(&mut self, tasks: &Tasks) -> Url {
        let access = self.rig.access();
        let listener = access.bind("the test", &self.listener()).await.unwrap();
        let url = format!("https://{}", listener.local_address()).parse().unwrap();
        let tenants = Directory(BTreeMap::from([(OURS.parse().unwrap(), TENANT.to_owned())]));
        let audit = Audit::open(&AuditConfig::default(), &mut Registry::default()).unwrap();
        let gate = Gate::new(access, audit, Through::Callers(Arc::new(tenants)));
        let echo =
            Router::new().fallback(any(|Extension(who): Extension<Principal>| async move { who.how() }));
        let metrics = Metrics::new(&mut Registry::default());
        let router = Stack::new(metrics.clone()).around(gate.around(echo));
        let own = tasks.clone();
        tasks.spawn("serve", OnExit::LogError, async move { listener.serve(router, metrics, &own).await });
        url
    }
}

async fn call(client: &Client, url: &Url, subscription: &str, token: Option<&str>) -> (u16, String) {
    let mut call = client.get(url.join(&format!("/subscriptions/{subscription}/x")).unwrap());
    if let Some(token) = token {
        call = call.bearer(token);
    }
    let response = call.send().await.unwrap();
    let status = response.status().as_u16();
    (status, String::from_utf8(response.bytes().await.unwrap().to_vec()).unwrap())
}

#[tokio::test]
async fn callers_are_known_by_their_certificates() {
    let tasks = Tasks::new("test", Shutdown::new());
    let mut certificates = Certificates::new();
    certificates.rig.config.jwt = None;
    let url = certificates.serve(&tasks).await;
    let arm = certificates.holder("arm.test", &[]);
    assert_eq!(call(&arm, &url, OURS, None).await, (200, "client certificate arm.test".into()));
    assert_eq!(call(&arm, &url, THEIRS, None).await.0, 200);
    let robot = certificates.holder("robot", &["spiffe://region/robot"]);
    assert_eq!(call(&robot, &url, THEIRS, None).await, (200, "client certificate robot".into()));
    assert_eq!(call(&robot, &url, OURS, None).await.0, 403);
    let (status, body) = call(&certificates.holder("mallory", &[]), &url, OURS, None).await;
    assert_eq!(status, 403);
    assert!(body.contains("'mallory' is not that of a known caller"), "{body}");
    // In the handshake: without a certificate nothing is answered at all.
    let nobody = certificates.client(None);
    assert!(nobody.get(url.join("/x").unwrap()).send().await.is_err());
    tasks.shutdown().request(Reason::Asked("the test is over".into()));
    tasks.drain(PATIENCE).await.unwrap();
}

#[tokio::test]
async fn a_certificate_or_a_token_will_do_and_a_bad_token_is_not_made_good() {
    let tasks = Tasks::new("test", Shutdown::new());
    let mut certificates = Certificates::new();
    let url = certificates.serve(&tasks).await;
    let (arm, nobody) = (certificates.holder("arm.test", &[]), certificates.client(None));
    let token = certificates.rig.key.sign(&claims());
    let expired = certificates.rig.key.sign(&with(json!({"exp": 1})));
    assert_eq!(call(&arm, &url, THEIRS, None).await, (200, "client certificate arm.test".into()));
    assert_eq!(call(&nobody, &url, OURS, Some(&token)).await, (200, "token of app some-app".into()));
    let (status, body) = call(&nobody, &url, OURS, None).await;
    assert_eq!(status, 401);
    assert!(body.contains("no token and the connection no client certificate"), "{body}");
    // The token says who calls, whoever holds the connection.
    assert_eq!(call(&arm, &url, THEIRS, Some(&token)).await.0, 403);
    assert_eq!(call(&arm, &url, OURS, Some(&expired)).await.0, 401);
    tasks.shutdown().request(Reason::Asked("the test is over".into()));
    tasks.drain(PATIENCE).await.unwrap();
}

#[tokio::test]
async fn a_listener_is_as_open_as_its_callers_are_known() {
    let certificates = Certificates::new();
    let far = ListenerConfig { address: "0.0.0.0:0".parse().unwrap(), ..ListenerConfig::loopback(0) };
    let bind = async |config: Config, listener: &ListenerConfig| {
        let access = Access::build(config, Clock::system(), &mut Registry::default()).unwrap();
        access.bind("the test", listener).await
    };
    let none = Config::default();
    assert!(bind(none.clone(), &ListenerConfig::loopback(0)).await.is_ok());
    for exposure in [Exposure::Loopback, Exposure::Authenticated, Exposure::PlainBehindTrustedProxy] {
        let listener = ListenerConfig { exposure, ..far.clone() };
        assert!(matches!(bind(none.clone(), &listener).await, Err(Error::Open("the test"))), "{listener:?}");
    }
    let both = certificates.rig.config.clone();
    let tokens = Config { mtls: None, ..both.clone() };
    // Known callers, but tokens in the clear; then a decision that was not made; then both.
    let plain = ListenerConfig { exposure: Exposure::Authenticated, ..far.clone() };
    assert!(matches!(bind(tokens.clone(), &plain).await, Err(Error::Bind(_))));
    let undecided = ListenerConfig { tls: certificates.listener().tls, ..far.clone() };
    assert!(matches!(bind(tokens.clone(), &undecided).await, Err(Error::Bind(_))));
    let open = ListenerConfig { exposure: Exposure::Authenticated, ..undecided };
    assert!(bind(tokens, &open).await.is_ok());
    assert!(bind(both.clone(), &open).await.is_ok());
    assert!(matches!(bind(both, &ListenerConfig::loopback(0)).await, Err(Error::NeedsTls("the test"))));
}

#[test]
fn certificates_of_nobody_and_roles_for_nothing_are_mistakes() {
    let certificates = Certificates::new();
    let build = |config: Config| match Access::build(config, Clock::system(), &mut Registry::default()) {
        Ok(_) => None,
        Err(Error::Config(error)) => Some(error),
        Err(error) => panic!("{error}"),
    };
    let config = certificates.rig.config.clone();
    let nobody = Config { arm: Callers::default(), roles: Vec::new(), ..config.clone() };
    assert_eq!(build(nobody), Some(ConfigError::NoSubjects));
    let idle = Role { callers: Callers::default(), all_subscriptions: true, ..Role::default() };
    assert_eq!(build(Config { roles: vec![idle], ..config.clone() }), Some(ConfigError::IdleRole));
    let idle = Role { callers: config.arm.clone(), ..Role::default() };
    assert_eq!(build(Config { roles: vec![idle], ..config }), Some(ConfigError::IdleRole));
}
