use std::error::Error as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::response::IntoResponse;
use axum::routing::any;
use http::header::{LOCATION, RETRY_AFTER};
use http::{Method, StatusCode};
use pilothouse_http::{ClientBuilder, Context, Failure};
use tokio::net::TcpListener;

use crate::support::{PATIENCE, Running, client};

#[derive(Clone, Default)]
struct Counted {
    calls: Arc<AtomicU32>,
}

impl Counted {
    /// Says "not now" `failures` times, then yes.
    fn app(&self, failures: u32, status: StatusCode, retry_after: Option<&'static str>) -> Router {
        let answer = async move |State(counted): State<Self>| {
            if counted.calls.fetch_add(1, Ordering::SeqCst) >= failures {
                return "ok".into_response();
            }
            let mut answer = status.into_response();
            if let Some(value) = retry_after {
                answer.headers_mut().insert(RETRY_AFTER, value.parse().unwrap());
            }
            answer
        };
        Router::new().route("/", any(answer)).with_state(self.clone())
    }

    fn calls(&self) -> u32 {
        self.calls.load(Ordering::SeqCst)
    }
}

#[tokio::test]
async fn calls_that_may_be_repeated_are_and_others_are_not() {
    let busy = StatusCode::SERVICE_UNAVAILABLE;
    for (method, expected) in [
        (Method::GET, 3),
        (Method::HEAD, 3),
        (Method::PUT, 3),
        (Method::DELETE, 3),
        (Method::OPTIONS, 3),
        (Method::POST, 1),
        (Method::PATCH, 1),
    ] {
        let counted = Counted::default();
        let running = Running::start(counted.app(2, busy, None)).await;
        let answer = client().call(method.clone(), running.url("/")).send().await.unwrap();
        assert_eq!(counted.calls(), expected, "{method}");
        assert_eq!(answer.attempts(), expected);
        assert_eq!(answer.status(), if expected == 1 { busy } else { StatusCode::OK }, "{method}");
        running.stopped().await;
    }
}

#[tokio::test]
async fn a_post_marked_as_idempotent_is_repeated_with_its_body() {
    let counted = Counted::default();
    let running = Running::start(counted.app(1, StatusCode::BAD_GATEWAY, None)).await;
    let answer = client().post(running.url("/")).json(&[1, 2]).idempotent().send().await.unwrap();
    assert_eq!((answer.status(), counted.calls()), (StatusCode::OK, 2));
    running.stopped().await;
}

#[tokio::test]
async fn an_answer_that_means_no_is_given_back_at_once() {
    for status in [StatusCode::INTERNAL_SERVER_ERROR, StatusCode::NOT_FOUND, StatusCode::CONFLICT] {
        let counted = Counted::default();
        let running = Running::start(counted.app(u32::MAX, status, None)).await;
        let answer = client().get(running.url("/")).send().await.unwrap();
        assert_eq!((answer.status(), counted.calls()), (status, 1));
        running.stopped().await;
    }
}

#[tokio::test]
async fn a_peer_that_stays_busy_is_given_up_and_its_last_answer_given_back() {
    let counted = Counted::default();
    let running = Running::start(counted.app(u32::MAX, StatusCode::TOO_MANY_REQUESTS, None)).await;
    let answer = client().get(running.url("/")).send().await.unwrap();
    assert_eq!((answer.status(), counted.calls()), (StatusCode::TOO_MANY_REQUESTS, 5));
    running.stopped().await;
}

#[tokio::test]
async fn a_peer_that_asks_for_time_gets_it_if_there_is_enough() {
    let busy = StatusCode::SERVICE_UNAVAILABLE;
    let counted = Counted::default();
    let running = Running::start(counted.app(1, busy, Some("1"))).await;
    let began = tokio::time::Instant::now();
    let answer = client().get(running.url("/")).send().await.unwrap();
    assert_eq!((answer.status(), counted.calls()), (StatusCode::OK, 2));
    assert!(began.elapsed() >= Duration::from_secs(1), "asked again after {:?}", began.elapsed());
    running.stopped().await;

    let counted = Counted::default();
    let running = Running::start(counted.app(u32::MAX, busy, Some("3600"))).await;
    let answer = client().get(running.url("/")).send().await.unwrap();
    assert_eq!((answer.status(), counted.calls()), (busy, 1), "an hour is more than was left");
    running.stopped().await;
}

#[tokio::test]
async fn a_peer_that_is_down_is_tried_again_and_then_named() {
    let port = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let url: url::Url = format!("http://ada:secret@127.0.0.1:{port}/a?token=secret").parse().unwrap();
    let error = client().get(url.clone()).send().await.unwrap_err();
    assert_eq!((error.failure(), error.attempts()), (Failure::Connect, 5));
    assert_eq!(
        error.to_string(),
        format!("GET http://127.0.0.1:{port}/a found no connection after 5 attempts")
    );
    assert!(error.source().is_some());
    assert!(!format!("{error:?}").contains("secret"), "{error:?}");
    let error = client().post(url).send().await.unwrap_err();
    assert_eq!(error.attempts(), 1);
}

#[tokio::test]
async fn no_call_outlives_its_deadline() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url: url::Url = format!("http://{}/", listener.local_addr().unwrap()).parse().unwrap();
    let short = Duration::from_millis(50);
    // Connected by the kernel, answered by nobody.
    let error = client().get(url.clone()).deadline(short).send().await.unwrap_err();
    assert_eq!((error.failure(), error.attempts()), (Failure::Deadline, 1));
    let by_client = ClientBuilder::new(short).build().unwrap();
    assert_eq!(by_client.get(url.clone()).send().await.unwrap_err().failure(), Failure::Deadline);
    // The request on whose behalf the call is made ends earlier than the call would.
    let context = Context::new(short);
    let call = client().get(url).context(&context).send();
    let error = tokio::time::timeout(PATIENCE / 2, call).await.unwrap().unwrap_err();
    assert_eq!(error.failure(), Failure::Deadline);
}

#[tokio::test]
async fn the_deadline_covers_the_body_unless_it_is_a_stream() {
    use axum::body::{Body, Bytes};
    use futures::StreamExt as _;
    let endless = async || {
        let first = futures::stream::iter([Ok::<_, std::io::Error>(Bytes::from("first"))]);
        Body::from_stream(first.chain(futures::stream::pending()))
    };
    let running = Running::start(Router::new().route("/", any(endless))).await;
    let call = || client().get(running.url("/")).deadline(Duration::from_millis(300));
    let error = call().send().await.unwrap().bytes().await.unwrap_err();
    assert_eq!(error.failure(), Failure::Deadline);

    let mut stream = call().streaming().send().await.unwrap();
    assert_eq!(stream.chunk().await.unwrap().unwrap(), "first");
    let next = tokio::time::timeout(Duration::from_millis(600), stream.chunk()).await;
    assert!(next.is_err(), "still open long after the deadline: {next:?}");
    drop(stream);
    running.stopped().await;
}

#[tokio::test]
async fn redirects_are_answers() {
    let app = Router::new()
        .route("/", any(async || (StatusCode::FOUND, [(LOCATION, "/elsewhere")])))
        .route("/elsewhere", any(async || "followed"));
    let running = Running::start(app).await;
    let answer = client().get(running.url("/")).send().await.unwrap();
    assert_eq!(answer.status(), StatusCode::FOUND);
    running.stopped().await;
}

#[tokio::test]
async fn what_cannot_be_sent_or_read_is_told() {
    let running = Running::start(Router::new().route("/", any(async || "not JSON"))).await;
    let error = client().get(running.url("/")).bearer("line\nbreak").send().await.unwrap_err();
    assert_eq!(error.failure(), Failure::Invalid);
    let answer = client().get(running.url("/")).send().await.unwrap();
    let error = answer.json::<serde_json::Value>().await.unwrap_err();
    assert_eq!(error.failure(), Failure::Unreadable);
    running.stopped().await;
}

#[tokio::test]
async fn a_client_of_strangers_addresses_does_not_reach_this_machine() {
    let counted = Counted::default();
    let running = Running::start(counted.app(0, StatusCode::OK, None)).await;
    let careful = ClientBuilder::new(PATIENCE).public_addresses_only().build().unwrap();
    let by_address = careful.post(running.url("/")).send().await.unwrap_err();
    assert_eq!(by_address.failure(), Failure::Forbidden, "{by_address}");
    let by_name = format!("http://localhost:{}/", running.address.port()).parse().unwrap();
    let by_name = careful.post(by_name).send().await.unwrap_err();
    assert_eq!(by_name.failure(), Failure::Connect, "{by_name}");
    let told = pilothouse_runtime::Chain(&by_name).to_string();
    assert!(told.contains("`localhost` leads to no address outside of this network"), "{told}");

    let strict = ClientBuilder::new(PATIENCE).https_only().build().unwrap();
    assert!(strict.post(running.url("/")).send().await.is_err());
    assert_eq!(counted.calls(), 0);
}
