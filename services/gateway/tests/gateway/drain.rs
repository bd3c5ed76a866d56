//! What happens to connections at the end.

use std::io::Write;
use std::time::Duration;

use pilothouse_gateway::Config;
use pilothouse_runtime::config;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use crate::support::{Gateway, PATIENCE, ask};

#[tokio::test(flavor = "multi_thread")]
async fn connections_in_use_are_carried_on_at_shutdown_and_quiet_ones_closed() {
    // Far more than lies between two questions, so that a busy machine does not look like silence.
    let quiet = config::Duration(Duration::from_secs(2));
    // More than the test has patience for, so that only silence can end the connection.
    let drain_timeout = config::Duration::from_secs(39);
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

#[tokio::test(flavor = "multi_thread")]
async fn clients_are_served_as_long_as_it_lingers() {
    // More than the test takes: it ends without waiting for it. The most that there can be.
    let (linger, drain_timeout) = (config::Duration::from_secs(38), config::Duration::from_secs(1));
    let gateway = Gateway::start(Config { linger, drain_timeout, ..Config::default() }).await;
    let host = gateway.cluster("first").await;
    let mut open = gateway.connect(&host).await.unwrap();
    assert!(gateway.health.is_ready(), "{:?}", gateway.health.verdicts());
    gateway.request_stop();
    assert!(!gateway.health.is_ready(), "that is what they notice");
    for _ in 0..3 {
        assert_eq!(gateway.who(&host).await, "first", "balancers have not noticed yet");
    }
    // A route that comes late counts, too.
    let late = gateway.cluster("late").await;
    assert_eq!(gateway.who(&late).await, "late");
    assert_eq!(ask(&mut open).await.unwrap(), "first");
}

/// On one thread, so that nothing is accepted in between.
#[tokio::test]
async fn whoever_waits_in_the_queue_at_shutdown_is_answered() {
    /// Asks for a host that nobody has.
    const HELLO: &[u8] = include_bytes!("../../src/client_hello/openssl.bin");
    let gateway = Gateway::start(Config::default()).await;
    let waiting: Vec<_> = (0..8)
        .map(|_| {
            let mut stream = std::net::TcpStream::connect(gateway.address).unwrap();
            stream.write_all(HELLO).unwrap();
            stream.set_nonblocking(true).unwrap();
            stream
        })
        .collect();
    gateway.request_stop();
    for stream in waiting {
        let mut stream = TcpStream::from_std(stream).unwrap();
        let mut said = [0; 7];
        let read = tokio::time::timeout(PATIENCE, stream.read_exact(&mut said)).await.unwrap();
        assert!(read.is_ok(), "{read:?}");
        assert_eq!(said, *b"\x15\x03\x03\0\x02\x02\x70", "a fatal alert: unrecognized_name");
    }
    gateway.stop().await;
}
