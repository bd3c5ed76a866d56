//! How soon many watchers have read an event.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use http::StatusCode;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::connection::{Connection, Request};
use super::load;
use super::server::Server;
use crate::harness::Samples;

const PATIENCE: Duration = Duration::from_secs(60);
const NAMESPACE: &str = "watched";
/// What an event is recognised by, wherever in the stream it stands.
const MARK: &str = "mark-";
const DIGITS: usize = 6;
/// Connections that are opened at the same time.
const OPENING: usize = 16;

/// Milliseconds from when a write was sent until each watcher had read it.
pub(super) async fn measure(server: &Server, watchers: usize, events: usize) -> anyhow::Result<Samples> {
    load::once(server, &load::namespace(NAMESPACE), StatusCode::CREATED).await?;
    let path = format!("{}?watch=true", load::collection(NAMESPACE));
    let connections: Vec<Connection> = stream::iter(0..watchers)
        .map(|_| async {
            let mut connection = server.connect().await?;
            connection.begin(&Request::get(&path)).await?;
            anyhow::Ok(connection)
        })
        .buffer_unordered(OPENING)
        .try_collect()
        .await
        .context("a watch cannot be begun")?;
    let (seen_tx, mut seen_rx) = mpsc::unbounded_channel();
    let mut tasks = JoinSet::new();
    for connection in connections {
        tasks.spawn(follow(connection, seen_tx.clone()));
    }
    let mut writer = server.connect().await?;
    let mut latencies = Samples::default();
    for number in 0..events {
        let body = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": format!("event-{number}") },
            "data": { "content": format!("{MARK}{number:06}") },
        });
        let request = Request::with_body("POST", &load::collection(NAMESPACE), &body.to_string());
        let start = Instant::now();
        let answer = writer.call(&request).await?;
        ensure!(answer.status == StatusCode::CREATED, "{}", answer.status);
        for _ in 0..watchers {
            let seen = timeout(PATIENCE, seen_rx.recv()).await.context("a watcher did not see an event")?;
            let (which, at): (usize, Instant) = seen.context("nobody watches any more")?;
            ensure!(which == number, "a watcher saw event {which} while {number} was written");
            latencies.push_milliseconds(at.duration_since(start));
        }
    }
    Ok(latencies)
}

/// Reads until it is aborted, and tells of every mark.
async fn follow(
    mut connection: Connection,
    seen_tx: mpsc::UnboundedSender<(usize, Instant)>,
) -> anyhow::Result<()> {
    loop {
        let read = connection.next().await?;
        let now = Instant::now();
        while let Some((number, end)) = mark(read) {
            read.drain(..end);
            if seen_tx.send((number, now)).is_err() {
                return Ok(());
            }
        }
        // A mark may have been cut in two.
        let keep = read.len().min(MARK.len() + DIGITS);
        read.drain(..read.len() - keep);
    }
}

/// The number of the first whole mark, and where it ends.
fn mark(bytes: &[u8]) -> Option<(usize, usize)> {
    let start = bytes.windows(MARK.len()).position(|window| window == MARK.as_bytes())? + MARK.len();
    let digits = bytes.get(start..start + DIGITS)?;
    Some((std::str::from_utf8(digits).ok()?.parse().ok()?, start + DIGITS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_counts_once_it_is_whole() {
        assert_eq!(mark(b"..mark-000017\"}"), Some((17, 13)));
        assert_eq!(mark(b"..mark-0000"), None);
    }
}
