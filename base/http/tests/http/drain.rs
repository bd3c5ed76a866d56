use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::routing::get;
use http::Version;
use pilothouse_http::{Exposure, Limits, ListenerConfig};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
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

/// Limits under which whoever has connected is about to ask, however slow the machine is.
fn patient() -> Limits {
    Limits { silence: PATIENCE, ..Limits::default() }
}

#[tokio::test]
async fn a_connection_that_had_not_asked_yet_may_still_ask() {
    let running = Running::with(Gate::new().app(), &ListenerConfig::loopback(0), patient()).await;
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
    let running = Running::with(gate.app(), &ListenerConfig::loopback(0), patient()).await;
    // On a single thread the accept loop has not run since, so both happen before it looks.
    let early = std::net::TcpStream::connect(running.address).unwrap();
    running.stop();
    early.set_nonblocking(true).unwrap();
    let mut early = TcpStream::from_std(early).unwrap();
    let answer = exchange(&mut early, "GET / HTTP/1.1\r\nhost: a\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    running.stopped().await;
}

/// Stops a server that has open connections, and says how many of them had to be cut.
async fn cut_at_the_end(running: Running) -> String {
    running.stop();
    running.tasks.drain(PATIENCE).await.unwrap();
    let numbers = running.numbers();
    let cut = numbers.lines().find_map(|line| line.strip_prefix("test_http_connections_cut_total "));
    cut.unwrap().to_owned()
}

/// For connections that have to end by themselves: one that does not is cut at once.
fn impatient() -> Limits {
    Limits { silence: Duration::ZERO, drain: Duration::from_secs(2), ..Limits::default() }
}

#[tokio::test]
async fn idle_connections_do_not_hold_up_the_end() {
    let certificates = Certificates::new();
    let config = certificates.config(false, Exposure::Loopback);
    let running = Running::with(Gate::new().app(), &config, impatient()).await;
    let url: url::Url = format!("https://localhost:{}/", running.address.port()).parse().unwrap();
    let client = certificates.client_builder().build().unwrap();
    let answer = client.get(url).send().await.unwrap();
    assert_eq!(answer.version(), Version::HTTP_2);
    assert_eq!(answer.bytes().await.unwrap(), "ok");
    running.until_numbers_say("test_http_connections 1").await;
    assert_eq!(cut_at_the_end(running).await, "0");

    let running = Running::with(Gate::new().app(), &ListenerConfig::loopback(0), impatient()).await;
    let mut idle = TcpStream::connect(running.address).await.unwrap();
    exchange(&mut idle, "GET / HTTP/1.1\r\nhost: a\r\n\r\n").await;
    assert_eq!(cut_at_the_end(running).await, "0");
}

#[tokio::test]
async fn connections_made_ahead_of_need_do_not_hold_up_the_end() {
    let plain = Running::with(Gate::new().app(), &ListenerConfig::loopback(0), impatient()).await;
    let _silent = TcpStream::connect(plain.address).await.unwrap();
    // Speaks HTTP/2 and has nothing to ask.
    let mut ready = TcpStream::connect(plain.address).await.unwrap();
    ready.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
    // Answered with the server's settings, so its preface has arrived.
    ready.read_u8().await.unwrap();
    plain.until_numbers_say("test_http_connections 2").await;
    let answers = async {
        let mut heard = Vec::new();
        // Until the server says goodbye, as any client does; it asks whether everything has arrived before it goes.
        while ready.read_buf(&mut heard).await.unwrap() > 0 {
            if let Some(ping) = ping_in(&heard) {
                ready.write_all(&ping).await.unwrap();
                heard.clear();
            }
        }
    };
    let (cut, ()) = tokio::join!(cut_at_the_end(plain), answers);
    assert_eq!(cut, "0");

    let certificates = Certificates::new();
    let config = certificates.config(false, Exposure::Loopback);
    let secured = Running::with(Gate::new().app(), &config, impatient()).await;
    let _no_handshake = TcpStream::connect(secured.address).await.unwrap();
    let _nothing_asked = crate::tls::connect(&certificates, &secured).await;
    secured.until_numbers_say("test_http_connections 2").await;
    assert_eq!(cut_at_the_end(secured).await, "0");
}

/// The answer to a ping, if one is among these bytes: a frame of eight bytes of type 6.
fn ping_in(heard: &[u8]) -> Option<[u8; 17]> {
    let start = heard.windows(9).position(|head| head == [0, 0, 8, 6, 0, 0, 0, 0, 0])?;
    let mut answer: [u8; 17] = heard.get(start..start + 17)?.try_into().ok()?;
    answer[4] = 1;
    Some(answer)
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
    let running = Running::with(Gate::new().app(), &ListenerConfig::loopback(0), patient()).await;
    let mut stream = TcpStream::connect(running.address).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nho").await.unwrap();
    running.until_numbers_say("test_http_connections 1").await;
    running.stop();
    stream.write_all(b"st: a\r\n\r\n").await.unwrap();
    assert!(response(&mut stream).await.starts_with("HTTP/1.1 200"));
    running.stopped().await;
}
