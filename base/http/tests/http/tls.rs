use std::sync::Arc;
use std::time::Duration;

use axum::routing::get;
use axum::{Extension, Router};
use http::{StatusCode, Version};
use pilothouse_http::{
    AllowedCallers, CertificateSource, Exposure, Failure, Limits, Listener, Peer, Reloaded,
};
use pilothouse_pki::{Certificate, LeafRequest, Subject};
use pilothouse_runtime::{Clock, Shutdown, Tasks};
use rustls::client::WantsClientCert;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ConfigBuilder, HandshakeKind, RootCertStore};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::support::{Certificates, PATIENCE, Running, eventually, exchange};

const REQUEST: &str = "GET / HTTP/1.1\r\nhost: localhost\r\n\r\n";

fn app() -> Router {
    async fn who(Extension(peer): Extension<Peer>) -> String {
        peer.identity().map_or_else(|| "nobody".to_owned(), ToString::to_string)
    }
    Router::new().route("/", get(who))
}

/// A client that trusts these authorities, and has yet to say whether it shows a certificate.
fn trusting(certificates: &Certificates) -> ConfigBuilder<ClientConfig, WantsClientCert> {
    let mut roots = RootCertStore::empty();
    roots.add(certificates.authority.certificate().der().clone()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
}

/// A server that asks for certificates and also lets those in that show none.
async fn start_inviting(certificates: &Certificates) -> Running {
    let source = CertificateSource::load(certificates.files(false), Clock::system()).unwrap();
    let inviting = source.inviting(certificates.bundle()).unwrap();
    let address = "127.0.0.1:0".parse().unwrap();
    let listener = Listener::bind_with("the test", address, Exposure::Authenticated, inviting).await.unwrap();
    Running::serve(listener, app(), |stack| stack)
}

pub(crate) async fn connect(certificates: &Certificates, running: &Running) -> TlsStream<TcpStream> {
    let config = trusting(certificates).with_no_client_auth();
    let stream = TcpStream::connect(running.address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
}

fn serial(stream: &TlsStream<TcpStream>) -> String {
    let certificate = stream.get_ref().1.peer_certificates().unwrap()[0].clone().into_owned();
    Certificate::from_der(certificate).unwrap().serial().to_owned()
}

async fn start(certificates: &Certificates) -> (Running, CertificateSource) {
    let config = certificates.config(false, Exposure::Loopback);
    let listener = Listener::bind("the test", &config, &Clock::system()).await.unwrap();
    let source = listener.certificates().unwrap().clone();
    (Running::serve(listener, app(), |stack| stack), source)
}

#[tokio::test]
async fn a_new_certificate_is_seen_by_new_connections_while_old_ones_go_on() {
    let certificates = Certificates::new();
    let (running, source) = start(&certificates).await;
    let mut old = connect(&certificates, &running).await;
    assert!(exchange(&mut old, REQUEST).await.contains("nobody"));
    assert_eq!(source.reload().unwrap(), Reloaded::Unchanged);

    certificates.files(false);
    assert_eq!(source.reload().unwrap(), Reloaded::Changed);

    let mut new = connect(&certificates, &running).await;
    assert_ne!(serial(&old), serial(&new));
    assert!(exchange(&mut new, REQUEST).await.contains("200 OK"));
    assert!(exchange(&mut old, REQUEST).await.contains("200 OK"), "the old connection still works");
    drop((old, new));
    running.stopped().await;
}

#[tokio::test]
async fn files_that_cannot_be_used_leave_the_old_certificate_and_a_warning() {
    let certificates = Certificates::new();
    let (running, source) = start(&certificates).await;
    let before = serial(&connect(&certificates, &running).await);
    assert!(source.verdict().to_string().starts_with("[+] good until"));

    // As if a crash had come between writing the key and writing the certificate.
    std::fs::write(certificates.path("tls.key"), certificates.server().key().to_pem().as_bytes()).unwrap();
    source.reload().unwrap_err();
    assert_eq!(serial(&connect(&certificates, &running).await), before);
    let verdict = source.verdict();
    assert!(verdict.is_ready() && verdict.to_string().starts_with("[!]"), "{verdict}");
    assert!(verdict.detail().contains("does not belong to certificate"), "{verdict}");

    certificates.files(false);
    assert_eq!(source.reload().unwrap(), Reloaded::Changed);
    assert!(source.verdict().to_string().starts_with("[+]"));
    running.stopped().await;
}

async fn is_replaced(source: &CertificateSource, certificates: &Certificates, patience: Duration) {
    let longer = LeafRequest::server(Subject::try_new("server").unwrap(), [])
        .with_lifetime(Duration::from_secs(30 * 24 * 60 * 60));
    let identity = certificates.authority.issue(&longer, &Clock::system()).unwrap();
    identity.write(&certificates.path("tls.crt"), &certificates.path("tls.key")).unwrap();
    pilothouse_test_support::eventually("the changed file is noticed", patience, || async {
        let good_until = source.not_after();
        if good_until == identity.certificate().not_after() { Ok(()) } else { Err(good_until.to_string()) }
    })
    .await;
}

/// Long before anybody would look without having been told.
#[tokio::test]
async fn a_changed_file_is_noticed_when_it_changes() {
    let certificates = Certificates::new();
    let source = CertificateSource::load(certificates.files(false), Clock::system()).unwrap();
    let tasks = Tasks::new("test", Shutdown::new());
    source.watch(&tasks);
    is_replaced(&source, &certificates, PATIENCE).await;
    tasks.drain(PATIENCE).await.unwrap();
}

#[tokio::test]
async fn a_changed_file_is_noticed_without_being_told() {
    let certificates = Certificates::new();
    let source = CertificateSource::load(certificates.files(false), Clock::system()).unwrap();
    let tasks = Tasks::new("test", Shutdown::new());
    source.look_regularly(&tasks);
    // No sockets here, so the half minute can be skipped.
    tokio::time::pause();
    is_replaced(&source, &certificates, 10 * PATIENCE).await;
    tasks.drain(PATIENCE).await.unwrap();
}

#[tokio::test]
async fn an_expired_certificate_is_not_ready() {
    let certificates = Certificates::new();
    let (clock, hands) = Clock::manual(Clock::system().now());
    let source = CertificateSource::load(certificates.files(false), clock).unwrap();
    assert!(source.verdict().is_ready());
    hands.advance(Duration::from_secs(8 * 24 * 60 * 60));
    assert!(!source.verdict().is_ready());
}

#[tokio::test]
async fn only_listed_callers_are_answered() {
    let certificates = Certificates::new();
    let exposure = Exposure::Callers(AllowedCallers::new(["frontend", "spiffe://region/backend"]));
    let running = Running::with(app(), &certificates.config(true, exposure), Limits::default()).await;
    let url: url::Url = format!("https://localhost:{}/", running.address.port()).parse().unwrap();
    let call = async |identity| {
        let client = certificates.client_builder().with_identity(identity).build().unwrap();
        let response = client.get(url.clone()).send().await.unwrap();
        (response.status(), String::from_utf8(response.bytes().await.unwrap().to_vec()).unwrap())
    };
    assert_eq!(call(certificates.client("frontend")).await, (StatusCode::OK, "frontend".into()));
    let by_uri = LeafRequest::client(Subject::try_new("anything").unwrap())
        .with_names(["spiffe://region/backend".parse().unwrap()]);
    let by_uri = certificates.authority.issue(&by_uri, &Clock::system()).unwrap();
    assert_eq!(call(by_uri).await, (StatusCode::OK, "anything".into()));

    let (status, body) = call(certificates.client("portal")).await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(body["error"]["code"], "CallerNotAllowed");
    assert_eq!(body["error"]["message"], "`portal` is not among the allowed callers of the test");

    // A stranger's certificate, and none at all, do not get as far as HTTP.
    let stranger = Certificates::new().client("frontend");
    let client = certificates.client_builder().with_identity(stranger).build().unwrap();
    client.get(url.clone()).send().await.unwrap_err();
    let client = certificates.client_builder().build().unwrap();
    client.get(url).send().await.unwrap_err();
    running.until_numbers_say("test_http_refused_total{reason=\"Caller\"} 1").await;
    running.stopped().await;
}

#[tokio::test]
async fn authorities_of_clients_are_replaced_like_certificates() {
    let certificates = Certificates::new();
    let next = Certificates::new();
    let config = certificates.config(true, Exposure::Loopback);
    let listener = Listener::bind("the test", &config, &Clock::system()).await.unwrap();
    let source = listener.certificates().unwrap().clone();
    let running = Running::serve(listener, app(), |stack| stack);
    let url: url::Url = format!("https://localhost:{}/", running.address.port()).parse().unwrap();
    let call = async |identity| {
        let client = certificates.client_builder().with_identity(identity).build().unwrap();
        client.get(url.clone()).deadline(Duration::from_secs(5)).send().await.is_ok()
    };
    assert!(call(certificates.client("a")).await);
    assert!(!call(next.client("a")).await);
    next.bundle().write(&certificates.path("clients.crt")).unwrap();
    assert_eq!(source.reload().unwrap(), Reloaded::Changed);
    assert!(!call(certificates.client("a")).await);
    assert!(call(next.client("a")).await);
    running.stopped().await;
}

#[tokio::test]
async fn both_protocols_are_spoken_and_the_better_one_is_chosen() {
    let certificates = Certificates::new();
    let (running, _) = start(&certificates).await;
    let client = certificates.client_builder().build().unwrap();
    let url = format!("https://localhost:{}/", running.address.port()).parse().unwrap();
    let response = client.get(url).send().await.unwrap();
    assert_eq!((response.status(), response.version()), (StatusCode::OK, Version::HTTP_2));
    let mut plain = connect(&certificates, &running).await;
    assert!(exchange(&mut plain, REQUEST).await.starts_with("HTTP/1.1 200"));
    drop(plain);
    running.stopped().await;
}

#[tokio::test]
async fn a_client_trusts_its_own_authorities_only() {
    let certificates = Certificates::new();
    let (running, _) = start(&certificates).await;
    let url: url::Url = format!("https://localhost:{}/?secret=1", running.address.port()).parse().unwrap();
    let stranger = Certificates::new();
    for builder in [
        stranger.client_builder(),
        pilothouse_http::ClientBuilder::new(PATIENCE),
        pilothouse_http::ClientBuilder::new(PATIENCE).with_system_authorities(),
    ] {
        let client = builder.build().unwrap();
        let error = client.call(http::Method::POST, url.clone()).send().await.unwrap_err();
        assert_eq!(error.failure(), Failure::Connect);
        assert!(!format!("{error} {error:?}").contains("secret"), "{error:?}");
    }
    running.stopped().await;
}

#[tokio::test]
async fn a_renewed_client_certificate_is_shown_on_new_connections() {
    let certificates = Certificates::new();
    let running =
        Running::with(app(), &certificates.config(true, Exposure::Loopback), Limits::default()).await;
    let url: url::Url = format!("https://localhost:{}/", running.address.port()).parse().unwrap();
    let files = pilothouse_http::TlsFiles {
        certificate: certificates.path("client.crt"),
        key: certificates.path("client.key"),
        client_authorities: None,
    };
    let renew = |name: &str| certificates.client(name).write(&files.certificate, &files.key).unwrap();
    renew("before");
    let source = CertificateSource::load(files.clone(), Clock::system()).unwrap();
    let ask = async || {
        // A new client has no connection yet.
        let client = certificates.client_builder().with_identity_from(source.clone()).build().unwrap();
        client.get(url.clone()).send().await.unwrap().bytes().await.unwrap()
    };
    assert_eq!(ask().await, "before");
    renew("after");
    source.reload().unwrap();
    assert_eq!(ask().await, "after");
    running.stopped().await;
}

#[tokio::test]
async fn a_connection_ends_with_the_certificate_it_was_opened_with() {
    let certificates = Certificates::new();
    let (clock, hands) = Clock::manual(Clock::system().now());
    let config = certificates.config(true, Exposure::Loopback);
    let listener = Listener::bind("the test", &config, &clock).await.unwrap();
    let running = Running::serve(listener, app(), |stack| stack);
    let url: url::Url = format!("https://localhost:{}/", running.address.port()).parse().unwrap();
    let files = pilothouse_http::TlsFiles {
        certificate: certificates.path("client.crt"),
        key: certificates.path("client.key"),
        client_authorities: None,
    };
    let renew = |name: &str, lifetime: Duration| {
        let request = LeafRequest::client(Subject::try_new(name).unwrap()).with_lifetime(lifetime);
        let identity = certificates.authority.issue(&request, &Clock::system()).unwrap();
        identity.write(&files.certificate, &files.key).unwrap();
    };
    let hour = Duration::from_secs(60 * 60);
    renew("before", hour);
    let source = CertificateSource::load(files.clone(), Clock::system()).unwrap();
    let client = certificates.client_builder().with_identity_from(source.clone()).build().unwrap();
    let ask = async || client.get(url.clone()).send().await.unwrap().bytes().await.unwrap();
    assert_eq!(ask().await, "before");
    renew("after", 3 * hour);
    source.reload().unwrap();
    assert_eq!(ask().await, "before", "there is a connection, and its certificate is good");

    hands.advance(2 * hour);
    eventually(|| async { ask().await == "after" }).await;
    running.stopped().await;
}

#[tokio::test]
async fn only_sessions_of_those_without_a_certificate_are_resumed() {
    let certificates = Certificates::new();
    let running = start_inviting(&certificates).await;
    let builder = trusting(&certificates);
    let ada = certificates.client("ada");
    let with_certificate =
        builder.clone().with_client_auth_cert(ada.chain_der(), ada.key().to_der()).unwrap();
    for (config, who, kind) in [
        (builder.with_no_client_auth(), "nobody", HandshakeKind::Resumed),
        (with_certificate, "ada", HandshakeKind::Full),
    ] {
        let connector = TlsConnector::from(Arc::new(config));
        let connect = async || {
            let stream = TcpStream::connect(running.address).await.unwrap();
            let name = ServerName::try_from("localhost").unwrap();
            let mut stream = connector.connect(name, stream).await.unwrap();
            assert!(exchange(&mut stream, REQUEST).await.contains(who));
            stream.get_ref().1.handshake_kind().unwrap()
        };
        assert_eq!(connect().await, HandshakeKind::Full, "{who}");
        assert_eq!(connect().await, kind, "{who}");
    }
    running.stopped().await;
}

#[tokio::test]
async fn invited_clients_may_show_a_certificate_and_need_not() {
    let certificates = Certificates::new();
    let running = start_inviting(&certificates).await;
    let url: url::Url = format!("https://localhost:{}/", running.address.port()).parse().unwrap();
    let ask = async |builder: pilothouse_http::ClientBuilder| {
        let response = builder.build().unwrap().get(url.clone()).send().await?;
        Ok::<_, pilothouse_http::CallError>(response.bytes().await.unwrap())
    };
    let shown = ask(certificates.client_builder().with_identity(certificates.client("ada"))).await;
    assert_eq!(shown.unwrap(), "ada");
    let nobody = ask(certificates.client_builder()).await.unwrap();
    assert_eq!(nobody, "nobody");
    let stranger = Certificates::new().client("ada");
    ask(certificates.client_builder().with_identity(stranger)).await.unwrap_err();
    running.stopped().await;
}
