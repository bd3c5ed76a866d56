use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Bytes;
use axum::routing::{get, post};
use axum::{Extension, Router};
use http::{HeaderName, StatusCode};
use pilothouse_http::{Context, Listener, ListenerConfig, Peer, Route, Stack};
use pilothouse_runtime::Clock;
use serde_json::Value;
use tokio::net::TcpStream;
use tracing_subscriber::fmt::MakeWriter;

use crate::support::{Running, client, exchange};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

fn app() -> Router {
    async fn slow() -> &'static str {
        std::future::pending().await
    }
    async fn panics() -> &'static str {
        panic!("the password is hunter2")
    }
    async fn ids(Extension(context): Extension<Context>, Extension(_): Extension<Peer>) -> String {
        format!("{} {:?}", context.request_id(), context.correlation_id())
    }
    Router::new()
        .route("/slow", get(slow))
        .route("/panics", get(panics))
        .route("/ids", get(ids))
        .route("/echo", post(async |body: Bytes| body))
        .route("/items/{id}", get(async || "item"))
        .route("/routed/{*rest}", get(async || (Extension(Route::named("watch pods")), "routed")))
}

async fn start(stack: impl Fn(Stack) -> Stack) -> Running {
    let listener = Listener::bind("the test", &ListenerConfig::loopback(0), &Clock::system()).await.unwrap();
    Running::serve(listener, app(), stack)
}

#[tokio::test]
async fn the_request_id_is_the_callers_or_a_new_one_and_comes_back() {
    let running = start(|stack| stack).await;
    let call = client().get(running.url("/ids")).header(REQUEST_ID, "abc-1").send().await.unwrap();
    assert_eq!(call.headers()[REQUEST_ID], "abc-1");
    assert_eq!(call.bytes().await.unwrap(), "abc-1 None");

    for sent in [None, Some("no id at all")] {
        let mut call = client().get(running.url("/ids"));
        if let Some(sent) = sent {
            call = call.header(REQUEST_ID, sent);
        }
        let answer = call.send().await.unwrap();
        let id = answer.headers()[REQUEST_ID].to_str().unwrap().to_owned();
        assert_eq!(id.parse::<uuid::Uuid>().unwrap().get_version_num(), 7);
        assert_eq!(answer.bytes().await.unwrap(), format!("{id} None"));
    }
    // Even where there is no handler.
    let answer = client().get(running.url("/nowhere")).send().await.unwrap();
    assert_eq!(answer.status(), StatusCode::NOT_FOUND);
    assert!(answer.headers().contains_key(REQUEST_ID));
    running.stopped().await;
}

#[tokio::test]
async fn the_context_travels_on_with_calls() {
    let running = start(|stack| stack).await;
    let context = Context::new(Duration::from_secs(10)).with_correlation_id("operation-7");
    let answer = client().get(running.url("/ids")).context(&context).send().await.unwrap();
    let expected = format!("{} Some(\"operation-7\")", context.request_id());
    assert_eq!(answer.bytes().await.unwrap(), expected);
    running.stopped().await;
}

#[tokio::test]
async fn a_body_beyond_the_limit_is_refused_however_it_is_sent() {
    let running = start(|stack| stack.with_body_limit(10)).await;
    let answer = client().post(running.url("/echo")).body("0123456789").send().await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    let answer = client().post(running.url("/echo")).body("0123456789A").send().await.unwrap();
    assert_eq!(answer.status(), StatusCode::PAYLOAD_TOO_LARGE);
    let body: Value = answer.json().await.unwrap();
    assert_eq!(body["error"]["code"], "RequestBodyTooLarge");
    assert_eq!(body["error"]["message"], "the request's body has more than the 10 bytes that are accepted");

    // Without a length announced, the limit is met while reading.
    let mut stream = TcpStream::connect(running.address).await.unwrap();
    let answer = exchange(
        &mut stream,
        "POST /echo HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\nb\r\n0123456789A\r\n0\r\n\r\n",
    )
    .await;
    assert!(answer.starts_with("HTTP/1.1 413") && answer.contains("RequestBodyTooLarge"), "{answer}");
    drop(stream);
    running.stopped().await;
}

#[tokio::test]
async fn a_handler_that_takes_too_long_is_given_up() {
    let running = start(|stack| stack.with_time_limit(Duration::from_millis(50))).await;
    // Once: a client would repeat a GET that timed out at a gateway.
    let answer = client().call(http::Method::POST, running.url("/slow")).send().await.unwrap();
    assert_eq!(answer.status(), StatusCode::METHOD_NOT_ALLOWED);
    let mut stream = TcpStream::connect(running.address).await.unwrap();
    let answer = exchange(&mut stream, "GET /slow HTTP/1.1\r\nhost: a\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 504") && answer.contains("RequestTimedOut"), "{answer}");
    drop(stream);
    running.stopped().await;
}

#[tokio::test]
async fn a_panic_is_answered_without_its_message() {
    let running = start(|stack| stack).await;
    let answer = client().get(running.url("/panics")).header(REQUEST_ID, "abc-2").send().await.unwrap();
    assert_eq!(answer.status(), StatusCode::INTERNAL_SERVER_ERROR);
    let text = String::from_utf8(answer.bytes().await.unwrap().to_vec()).unwrap();
    assert!(text.contains("abc-2") && !text.contains("hunter2"), "{text}");
    // The process lives on.
    let answer = client().get(running.url("/items/1")).send().await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    running.stopped().await;
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

#[tokio::test]
async fn every_request_leaves_one_line_without_what_may_be_secret() {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt().json().with_writer(log.clone()).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let running = start(|stack| stack).await;
    client()
        .get(running.url("/items/classified?token=classified"))
        .header(REQUEST_ID, "abc-3")
        .header(HeaderName::from_static("x-ms-correlation-request-id"), "operation-3")
        .header(HeaderName::from_static("x-ms-client-request-id"), "cli-3")
        .bearer("classified")
        .send()
        .await
        .unwrap()
        .bytes()
        .await
        .unwrap();
    running.until_numbers_say("test_http_requests_in_flight 0").await;
    running.stopped().await;

    let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(!text.contains("classified"), "{text}");
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|line| line["fields"]["message"] == "answered")
        .collect();
    let [line] = lines.as_slice() else { panic!("{lines:?}") };
    let (fields, span) = (&line["fields"], &line["span"]);
    assert_eq!(fields["method"], "GET");
    assert_eq!(fields["route"], "/items/{id}");
    assert_eq!(fields["status"], 200);
    assert_eq!(fields["bytes"], 4);
    assert_eq!(fields["complete"], true);
    assert!(fields["seconds"].as_f64().unwrap() < 20.0);
    assert_eq!(span["request"], "abc-3");
    assert_eq!(span["correlation"], "operation-3");
    assert_eq!(span["client_request"], "cli-3");
}

#[tokio::test]
async fn numbers_go_by_template_and_class() {
    let running = start(|stack| stack).await;
    for path in ["/items/1", "/items/2", "/nowhere/1", "/nowhere/2", "/routed/a/b"] {
        client().get(running.url(path)).send().await.unwrap().bytes().await.unwrap();
    }
    let numbers = running.numbers();
    for line in [
        "test_http_requests_total{method=\"Get\",route=\"/items/{id}\",status=\"2xx\"} 2",
        "test_http_requests_total{method=\"Get\",route=\"unmatched\",status=\"4xx\"} 2",
        "test_http_requests_total{method=\"Get\",route=\"watch pods\",status=\"2xx\"} 1",
        "test_http_request_duration_seconds_count{method=\"Get\",route=\"/items/{id}\"} 2",
    ] {
        assert!(numbers.lines().any(|found| found == line), "no `{line}` in {numbers}");
    }
    running.stopped().await;
}
