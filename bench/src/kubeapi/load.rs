//! Load: connections that send the next request when the last is answered.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::bail;
use http::StatusCode;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::connection::Request;
use super::server::Server;
use crate::harness::Samples;

/// Connections at once.
pub(super) const CONNECTIONS: usize = 32;
/// What an object carries, in bytes.
const CONTENT: usize = 512;

/// What came of it. Latencies in milliseconds.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) rate: f64,
    pub(super) latencies: Samples,
}

/// A collection of ConfigMaps.
pub(super) fn collection(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/configmaps")
}

pub(super) fn create(namespace: &str, name: &str) -> Request {
    let body = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": { "name": name, "labels": { "app": "bench", "part": name } },
        "data": { "content": "x".repeat(CONTENT) },
    });
    Request::with_body("POST", &collection(namespace), &body.to_string())
}

pub(super) fn namespace(name: &str) -> Request {
    let body = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
    Request::with_body("POST", "/api/v1/namespaces", &body.to_string())
}

/// One request, which has to be answered so.
pub(super) async fn once(
    server: &Server,
    request: &Request,
    expected: StatusCode,
) -> anyhow::Result<Vec<u8>> {
    let answer = server.connect().await?.call(request).await?;
    if answer.status != expected {
        bail!("{}: {}", answer.status, String::from_utf8_lossy(&answer.body));
    }
    Ok(answer.body)
}

/// As fast as possible for a while; with a `limit`, until so many were asked at the most.
pub(super) async fn run(
    server: &Server,
    duration: Duration,
    limit: usize,
    expected: StatusCode,
    request: impl Fn(usize) -> Request + Send + Sync + 'static,
) -> anyhow::Result<Outcome> {
    let mut opened = Vec::new();
    for _ in 0..CONNECTIONS {
        opened.push(server.connect().await?);
    }
    let (next, request) = (Arc::new(AtomicUsize::new(0)), Arc::new(request));
    let start = Instant::now();
    let mut tasks = JoinSet::new();
    for mut connection in opened {
        let (next, request) = (Arc::clone(&next), Arc::clone(&request));
        tasks.spawn(async move {
            let mut latencies = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= limit || start.elapsed() >= duration {
                    return Ok(latencies);
                }
                let request = request(number);
                let began = Instant::now();
                let answer = connection.call(&request).await?;
                latencies.push(began.elapsed());
                if answer.status != expected {
                    bail!("{}: {}", answer.status, String::from_utf8_lossy(&answer.body));
                }
            }
        });
    }
    let mut outcome = Outcome::default();
    while let Some(ended) = tasks.join_next().await {
        for latency in ended?? {
            outcome.latencies.push_milliseconds(latency);
        }
    }
    outcome.rate = f64::from(u32::try_from(outcome.latencies.len())?) / start.elapsed().as_secs_f64();
    Ok(outcome)
}
