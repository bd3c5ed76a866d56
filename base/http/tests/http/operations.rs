use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::StatusCode;
use http::header::CONTENT_TYPE;
use pilothouse_http::{Health, Operations, Response, Verdict};
use pilothouse_runtime::{Reason, Shutdown};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};

use crate::support::{PATIENCE, Running};

struct Pages {
    running: Running,
    broken: Arc<AtomicBool>,
    shutdown: Shutdown,
}

impl Pages {
    async fn start() -> Self {
        let shutdown = Shutdown::new();
        let health = Health::new(shutdown.clone());
        let broken = Arc::new(AtomicBool::new(false));
        let store = Arc::clone(&broken);
        health.register("store", move || {
            if store.load(Ordering::Relaxed) {
                Verdict::failed("the disk is full")
            } else {
                Verdict::ready("last write 2 s ago")
            }
        });
        health.register("certificate", || Verdict::warning("not replaced"));
        let mut registry = Registry::default();
        registry.register("passes", "Passes made", Counter::<u64>::default());
        let router = Operations::new(health, Arc::new(registry))
            .with_page("tasks", || json!([{ "task": "listen" }]))
            .router();
        Self { running: Running::start(router).await, broken, shutdown }
    }

    /// Without retries: 503 is an answer here.
    async fn get(&self, path: &str) -> Response {
        let client = crate::support::client();
        tokio::time::timeout(PATIENCE, client.get(self.running.url(path)).send()).await.unwrap().unwrap()
    }

    async fn text(&self, path: &str) -> (StatusCode, String) {
        let answer = self.get(path).await;
        (answer.status(), String::from_utf8(answer.bytes().await.unwrap().to_vec()).unwrap())
    }

    async fn json(&self, path: &str) -> (StatusCode, Value) {
        let (status, text) = self.text(path).await;
        (status, serde_json::from_str(&text).unwrap())
    }
}

#[tokio::test]
async fn readiness_names_each_check() {
    let pages = Pages::start().await;
    let (status, body) = pages.json("/readyz").await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(
        body,
        json!({ "ready": true, "checks": {
            "certificate": { "status": "warning", "detail": "not replaced" },
            "shutdown": { "status": "ready", "detail": "not requested" },
            "store": { "status": "ready", "detail": "last write 2 s ago" },
        } })
    );
    assert_eq!(
        pages.text("/readyz?verbose").await.1,
        "certificate: [!] not replaced\nshutdown: [+] not requested\nstore: [+] last write 2 s ago\nready\n"
    );
    pages.running.stopped().await;
}

#[tokio::test]
async fn one_failing_check_is_enough_and_can_be_asked_for_alone() {
    let pages = Pages::start().await;
    pages.broken.store(true, Ordering::Relaxed);
    let (status, body) = pages.json("/readyz").await;
    assert_eq!((status, &body["ready"]), (StatusCode::SERVICE_UNAVAILABLE, &json!(false)));
    assert!(pages.text("/readyz?verbose").await.1.ends_with("store: [-] the disk is full\nnot ready\n"));
    let (status, body) = pages.json("/readyz/store").await;
    assert_eq!((status, &body["detail"]), (StatusCode::SERVICE_UNAVAILABLE, &json!("the disk is full")));
    assert_eq!(pages.json("/readyz/certificate").await.0, StatusCode::OK);
    assert_eq!(pages.json("/readyz/other").await.0, StatusCode::NOT_FOUND);
    // It is alive all the same.
    assert_eq!(pages.text("/livez").await, (StatusCode::OK, "ok\n".into()));
    pages.running.stopped().await;
}

#[tokio::test]
async fn a_process_that_stops_is_not_ready() {
    let pages = Pages::start().await;
    pages.shutdown.request(Reason::Asked("over".into()));
    assert_eq!(pages.json("/readyz/shutdown").await.0, StatusCode::SERVICE_UNAVAILABLE);
    pages.running.stopped().await;
}

#[tokio::test]
async fn numbers_and_pages_are_shown() {
    let pages = Pages::start().await;
    let answer = pages.get("/metrics").await;
    assert!(answer.headers()[CONTENT_TYPE].to_str().unwrap().starts_with("application/openmetrics-text"));
    let text = String::from_utf8(answer.bytes().await.unwrap().to_vec()).unwrap();
    assert!(text.contains("passes_total 0") && text.ends_with("# EOF\n"), "{text}");
    assert_eq!(pages.json("/debug").await.1, json!({ "pages": ["tasks"] }));
    assert_eq!(pages.json("/debug/tasks").await.1, json!([{ "task": "listen" }]));
    assert_eq!(pages.json("/debug/other").await.0, StatusCode::NOT_FOUND);
    pages.running.stopped().await;
}
