//! The watch: everything there is, a bookmark, and then what happens.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::body::Body;
use axum::extract::RawQuery;
use axum::extract::State as Shares;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures::stream;
use http::header::CONTENT_TYPE;
use tokio::sync::watch;

use super::refusal::Refusal;
use super::service::{Handles, pairs};
use super::{Shared, state::State};
use crate::{Change, ClusterId, Cursor, Event, HEARTBEAT};

struct Watch {
    shared: Arc<Shared>,
    news: watch::Receiver<u64>,
    waiting: VecDeque<Bytes>,
    /// So many changes have been told.
    position: u64,
    /// The generation of watches it belongs to.
    generation: u64,
    /// The one that is told of; all of them unless given.
    cluster: Option<ClusterId>,
}

pub(super) async fn watch(Shares(shared): Handles, RawQuery(query): RawQuery) -> Response {
    let pairs = pairs(query.as_deref());
    let given = |wanted: &str| pairs.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.as_str());
    let cluster = match given("cluster").map(str::parse::<ClusterId>).transpose() {
        Ok(cluster) => cluster,
        Err(_) => return Refusal::query("cluster", "it is not the id of a cluster").into_response(),
    };
    let news = shared.news.subscribe();
    let begun = {
        let state = shared.lock();
        let generation = state.watches;
        match given("after").filter(|text| !text.is_empty()) {
            Some(text) => resumed(&state, text).map(|position| (VecDeque::new(), position, generation)),
            None => Ok((everything(&state, cluster.as_ref()), state.told(), generation)),
        }
    };
    let (waiting, position, generation) = match begun {
        Ok(begun) => begun,
        Err(refusal) => return refusal.into_response(),
    };
    let watch = Watch { shared, news, waiting, position, generation, cluster };
    let lines = stream::unfold(watch, |mut watch| async move {
        let line = watch.next().await?;
        watch.shared.lines.fetch_add(1, Ordering::Relaxed);
        Some((Ok::<_, Infallible>(line), watch))
    });
    ([(CONTENT_TYPE, "application/x-ndjson")], Body::from_stream(lines)).into_response()
}

fn everything(state: &State, cluster: Option<&ClusterId>) -> VecDeque<Bytes> {
    let clusters = state.clusters.values().map(|kept| Change::Cluster(Box::new(kept.value.clone())));
    let node_pools = state.node_pools.values().map(|kept| Change::NodePool(Box::new(kept.value.clone())));
    let auths = state.external_auths.values().map(|kept| Change::ExternalAuth(Box::new(kept.value.clone())));
    let credentials = state.credentials.values().map(|kept| {
        Change::BreakGlassCredential(kept.value.cluster_id.clone(), Box::new(kept.value.clone()))
    });
    let all = clusters.chain(node_pools).chain(auths).chain(credentials);
    let all = all.filter(|change| tells_of(cluster, change));
    let mut waiting: VecDeque<_> = all.map(|change| line(&Event { cursor: None, change })).collect();
    waiting.push_back(line(&Event { cursor: Some(cursor(state.told())), change: Change::Bookmark }));
    waiting
}

fn resumed(state: &State, text: &str) -> Result<u64, Refusal> {
    let position = text.strip_prefix('s').and_then(|digits| digits.parse().ok());
    let position = position.ok_or_else(|| Refusal::query("after", "it is not a cursor of this service"))?;
    state.since(position).map(|_| position).ok_or_else(Refusal::gone)
}

impl Watch {
    async fn next(&mut self) -> Option<Bytes> {
        let mut heartbeat = pin!(tokio::time::sleep(HEARTBEAT));
        loop {
            if let Some(line) = self.waiting.pop_front() {
                return Some(line);
            }
            {
                let state = self.shared.lock();
                if state.watches != self.generation {
                    return None;
                }
                // Too far behind: the reader comes back and is told so.
                for (position, change) in state.since(self.position)? {
                    self.position = position;
                    if !tells_of(self.cluster.as_ref(), change) {
                        continue;
                    }
                    let change = change.clone();
                    self.waiting.push_back(line(&Event { cursor: Some(cursor(position)), change }));
                }
            }
            if self.waiting.is_empty() {
                tokio::select! {
                    changed = self.news.changed() => changed.ok()?,
                    () = &mut heartbeat => return Some(Bytes::from_static(b"\n")),
                }
            }
        }
    }
}

fn tells_of(cluster: Option<&ClusterId>, change: &Change) -> bool {
    cluster.is_none_or(|cluster| change.cluster_id() == Some(cluster))
}

fn cursor(position: u64) -> Cursor {
    Cursor::from_text(format!("s{position}"))
}

fn line(event: &Event) -> Bytes {
    let mut line = serde_json::to_vec(event).expect("our own types have a JSON form");
    line.push(b'\n');
    line.into()
}
