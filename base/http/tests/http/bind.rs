use std::error::Error as _;

use axum::Router;
use axum::routing::get;
use pilothouse_http::{BindError, Exposure, Limits, Listener, ListenerConfig, Refusal};
use pilothouse_runtime::Clock;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;

use crate::support::{Certificates, Running, exchange};

#[tokio::test]
async fn a_taken_port_is_an_error_that_says_who_needs_it() {
    let clock = Clock::system();
    let first = Listener::bind("the portal", &ListenerConfig::loopback(0), &clock).await.unwrap();
    let port = first.local_address().port();
    assert_ne!(port, 0);
    let error = Listener::bind("the frontend", &ListenerConfig::loopback(port), &clock).await.unwrap_err();
    assert!(matches!(error, BindError::Taken { .. }));
    assert_eq!(
        error.to_string(),
        format!(
            "port {port} for the frontend is taken on 127.0.0.1; stop whoever has it or choose another port"
        )
    );
}

#[tokio::test]
async fn off_the_loopback_a_listener_without_protection_is_refused() {
    let mut config = ListenerConfig { address: "0.0.0.0:0".parse().unwrap(), ..ListenerConfig::loopback(0) };
    let refused = async |config: &ListenerConfig| match Listener::bind(
        "the frontend",
        config,
        &Clock::system(),
    )
    .await
    {
        Err(BindError::Exposed { refusal, .. }) => Some(refusal),
        Err(error) => panic!("{error}: {:?}", error.source()),
        Ok(_) => None,
    };
    assert_eq!(refused(&config).await, Some(Refusal::NotLoopback));
    config.exposure = Exposure::Authenticated;
    assert_eq!(refused(&config).await, Some(Refusal::NeedsTls));
    config.tls = Some(Certificates::new().files(false));
    // The directory is gone by now: the rule is checked before the files, and this time they are looked at.
    let error = Listener::bind("the frontend", &config, &Clock::system()).await.unwrap_err();
    assert!(matches!(error, BindError::Certificate { .. }), "{error}");
    let certificates = Certificates::new();
    config.tls = Some(certificates.files(false));
    assert_eq!(refused(&config).await, None);
}

#[test]
fn a_config_reads_as_it_is_documented() {
    let config: ListenerConfig = serde_json::from_str(
        r#"{"address": "0.0.0.0:8443",
            "tls": {"certificate": "tls.crt", "key": "tls.key", "client_authorities": "clients.crt"},
            "exposure": {"callers": ["frontend", "backend"]}}"#,
    )
    .unwrap();
    assert!(matches!(config.exposure, Exposure::Callers(_)));
    let config: ListenerConfig = serde_json::from_str(r#"{"address": "127.0.0.1:0"}"#).unwrap();
    assert_eq!(config, ListenerConfig::loopback(0));
    assert!(serde_json::from_str::<ListenerConfig>(r#"{"address": "127.0.0.1:0", "adress": ""}"#).is_err());
}

#[tokio::test]
async fn a_connection_beyond_the_limit_waits_until_another_ends() {
    let limits = Limits { connections: 1, ..Limits::default() };
    let app = Router::new().route("/", get(async || "ok"));
    let running = Running::with(app, &ListenerConfig::loopback(0), limits).await;
    const REQUEST: &str = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";
    let mut first = TcpStream::connect(running.address).await.unwrap();
    exchange(&mut first, REQUEST).await;
    let mut second = TcpStream::connect(running.address).await.unwrap();
    running.until_numbers_say("test_http_connections 1").await;
    let mut waiting = Box::pin(exchange(&mut second, REQUEST));
    // The first connection still works while the second waits, so the second is not being served.
    tokio::select! {
        biased;
        answer = &mut waiting => panic!("served beyond the limit: {answer}"),
        _ = exchange(&mut first, REQUEST) => {}
    }
    drop(first);
    assert!(waiting.as_mut().await.contains("200 OK"));
    drop(waiting);
    drop(second);
    running.stopped().await;
}

#[tokio::test]
async fn a_client_that_dawdles_over_its_headers_is_cut() {
    let limits = Limits { headers: std::time::Duration::from_millis(150), ..Limits::default() };
    let app = Router::new().route("/", get(async || "ok"));
    let running = Running::with(app, &ListenerConfig::loopback(0), limits).await;
    for beginning in ["", "GET / HTTP/1.1\r\nhost:", "PRI * HT"] {
        let mut stream = TcpStream::connect(running.address).await.unwrap();
        tokio::io::AsyncWriteExt::write_all(&mut stream, beginning.as_bytes()).await.unwrap();
        let mut rest = Vec::new();
        let ended =
            tokio::time::timeout(crate::support::PATIENCE, stream.read_to_end(&mut rest)).await.unwrap();
        // Closed, politely or not, without an answer to a request that was never complete.
        assert!(ended.is_err() || !String::from_utf8_lossy(&rest).contains("200"), "{beginning:?}");
    }
    running.stopped().await;
}
