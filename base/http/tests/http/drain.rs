use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::routing::get;
use http::Version;
use pilothouse_http::{Exposure, Limits, ListenerConfig};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

use crate::support::{Certificates, PATIENCE, Running, client, eventually, exchange, response};

/// A handler that says when it began and answers when it may.
#[derive(Clone)]
struct Gate {
    began: Arc<Semaphore>,
    may_end: Arc<Semaphore>,
}

impl Gate {
    fn new() -> Self {
        Self { began: Arc::new(Semaphore::new(0)), may_end: Arc::new(Semaphore::new(0)) }
    }

    fn app(&self) -> Router {
        async fn wait(State(gate): State<Gate>) -> &'static str {
            gate.began.add_permits(1);
            gate.may_end.acquire().await.unwrap().forget();
            "finished"
        }
        Router::new().route("/wait", get(wait)).route("/", get(async || "ok")).with_state(self.clone())
    }

    async fn began(&self) {
        self.began.acquire().await.unwrap().forget();
    }
}

#[tokio::test]
async fn what_was_accepted_is_finished_and_nothing_new_is_accepted() {
    let gate = Gate::new();
    let running = Running::start(gate.app()).await;
    let address = running.address;
    let mut stream = TcpStream::connect(address).await.unwrap();
    let waiting = exchange(&mut stream, "GET /wait HTTP/1.1\r\nhost: a\r\n\r\n");
    let test = async {
        gate.began().await;
        running.stop();
        eventually(|| async { TcpStream::connect(address).await.is_err() }).await;
        gate.may_end.add_permits(1);
    };
    let (answer, ()) = tokio::join!(waiting, test);
    assert!(answer.ends_with("finished"), "{answer}");
    assert!(answer.to_lowercase().contains("connection: close"), "{answer}");
    running.stopped().await;
}

#[tokio::test]
async fn streams_of_http_2_are_finished_too() {
    let certificates = Certificates::new();
    let gate = Gate::new();
    let config = certificates.config(false, Exposure::Loopback);
    let running = Running::with(gate.app(), &config, Limits::default()).await;
    let url: url::Url = format!("https://localhost:{}/wait", running.address.port()).parse().unwrap();
    let client = certificates.client_builder().build().unwrap();
    let waiting = client.get(url).send();
    let test = async {
        gate.began().await;
        running.stop();
        let address = running.address;
        eventually(|| async { TcpStream::connect(address).await.is_err() }).await;
        gate.may_end.add_permits(1);
    };
    let (answer, ()) = tokio::join!(waiting, test);
    let answer = answer.unwrap();
    assert_eq!(answer.version(), Version::HTTP_2);
    assert_eq!(answer.bytes().await.unwrap(), "finished");
    running.stopped().await;
}

#[tokio::test]
async fn a_connection_that_had_not_asked_yet_may_still_ask() {
    let running = Running::start(Gate::new().app()).await;
    let mut early = TcpStream::connect(running.address).await.unwrap();
    running.until_numbers_say("test_http_connections 1").await;
    running.stop();
    let address = running.address;
    eventually(|| async { TcpStream::connect(address).await.is_err() }).await;
    let answer = exchange(&mut early, "GET / HTTP/1.1\r\nhost: a\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    running.stopped().await;
}

#[tokio::test]
async fn what_waits_in_the_queue_is_accepted_before_the_port_is_given_up() {
    let gate = Gate::new();
    let running = Running::start(gate.app()).await;
    // On a single thread the accept loop has not run since, so both happen before it looks.
    let early = std::net::TcpStream::connect(running.address).unwrap();
    running.stop();
    early.set_nonblocking(true).unwrap();
    let mut early = TcpStream::from_std(early).unwrap();
    let answer = exchange(&mut early, "GET / HTTP/1.1\r\nhost: a\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    running.stopped().await;
}

#[tokio::test]
async fn idle_connections_do_not_hold_up_the_end() {
    let running = Running::start(Gate::new().app()).await;
    let mut idle = TcpStream::connect(running.address).await.unwrap();
    exchange(&mut idle, "GET / HTTP/1.1\r\nhost: a\r\n\r\n").await;
    let began = tokio::time::Instant::now();
    running.stopped().await;
    assert!(began.elapsed() < Duration::from_secs(10), "waited for an idle connection");
}

#[tokio::test]
async fn after_the_deadline_the_rest_is_cut() {
    let gate = Gate::new();
    let limits = Limits { drain: Duration::from_millis(100), ..Limits::default() };
    let running = Running::with(gate.app(), &ListenerConfig::loopback(0), limits).await;
    let client = client();
    let call = client.get(running.url("/wait")).send();
    let test = async {
        gate.began().await;
        running.stop();
        running.tasks.drain(PATIENCE).await.unwrap();
    };
    let (answer, ()) = tokio::join!(call, test);
    answer.unwrap_err();
}

#[tokio::test]
async fn a_half_sent_request_is_waited_for() {
    use tokio::io::AsyncWriteExt as _;
    let running = Running::start(Gate::new().app()).await;
    let mut stream = TcpStream::connect(running.address).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nho").await.unwrap();
    running.until_numbers_say("test_http_connections 1").await;
    running.stop();
    stream.write_all(b"st: a\r\n\r\n").await.unwrap();
    assert!(response(&mut stream).await.starts_with("HTTP/1.1 200"));
    running.stopped().await;
}
