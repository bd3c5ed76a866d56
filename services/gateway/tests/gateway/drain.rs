//! What happens to connections at the end.

use std::time::Duration;

use pilothouse_gateway::Config;
use pilothouse_runtime::config;
use tokio::net::TcpStream;

use crate::support::{Gateway, PATIENCE, ask};

#[tokio::test(flavor = "multi_thread")]
async fn connections_in_use_are_carried_on_at_shutdown_and_quiet_ones_closed() {
    // Far more than lies between two questions, so that a busy machine does not look like silence.
    let quiet = config::Duration(Duration::from_secs(2));
    // More than the test has patience for, so that only silence can end the connection.
    let drain_timeout = config::Duration(PATIENCE * 10);
    let gateway = Gateway::start(Config { quiet, drain_timeout, ..Config::default() }).await;
    let host = gateway.cluster("first").await;
    let mut open = gateway.connect(&host).await.unwrap();
    assert_eq!(ask(&mut open).await.unwrap(), "first");

    gateway.request_stop();
    while TcpStream::connect(gateway.address).await.is_ok() {
        assert_eq!(ask(&mut open).await.unwrap(), "first", "a busy connection goes on");
    }
    assert_eq!(ask(&mut open).await.unwrap(), "first", "also when nothing more is accepted");
    gateway.until_numbers_say("gateway_connections_total{outcome=\"Drained\"} 1").await;
    gateway.stop().await;
}
