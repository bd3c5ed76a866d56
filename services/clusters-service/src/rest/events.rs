//! The watch: one JSON object a line, for as long as the caller likes.
//!
//! Without a cursor it begins with everything there is, as of one revision, and a bookmark at that revision; then, or
//! with a cursor at once, come the changes behind it. A change that does not show, such as the service's own notes on a
//! cluster, is not told. While nothing happens an empty line goes out from time to time, so that both sides notice a
//! connection that is dead.
//!
//! Whoever says `cluster=ID` is told of that one and of what belongs to it. Nothing else is read to begin with.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::pin;
use std::time::Duration;

use super::{Bytes, Context, Extension, RawQuery, Response, Shared, State, pairs};
use axum::body::Body;
use axum::response::IntoResponse as _;
use futures::{Stream, stream};
use http::header::CONTENT_TYPE;
use pilothouse_clusters_service_api::{Change, ClusterId, Cursor, Event, ExternalAuth};
use pilothouse_runtime::{Chain, Shutdown};
use pilothouse_store::{Error as StoreError, Feed, Revision};
use tracing::warn;

use crate::links;
use crate::record::{ClusterRecord, CredentialRecord};
use crate::records::{Entry, Records};
use crate::refusal::Refusal;

/// How often a watch on which nothing happens shows that it is still there.
const HEARTBEAT: Duration = pilothouse_clusters_service_api::HEARTBEAT;

struct Watch {
    feed: Feed,
    shutdown: Shutdown,
    /// Lines not yet handed out.
    waiting: VecDeque<Bytes>,
    /// Everything up to here has been told.
    told: Revision,
    /// Where links lead: below the base that was asked.
    base: &'static str,
    /// The one that is told of; all of them unless given.
    cluster: Option<ClusterId>,
}

pub(super) async fn watch(
    State(rest): Shared,
    Extension(context): Extension<Context>,
    RawQuery(query): RawQuery,
) -> Response {
    let pairs = pairs(query.as_deref());
    let given = |wanted: &str| pairs.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.as_str());
    let begun = async {
        let records = &rest.clusters.records;
        let cluster = given("cluster").map(cluster_id).transpose()?;
        match given("after").filter(|text| !text.is_empty()) {
            Some(text) => resumed(records, text, cluster, &rest.shutdown).await,
            None => from_the_beginning(records, cluster, &rest.shutdown).await,
        }
    };
    match begun.await {
        Ok(watch) => {
            ([(CONTENT_TYPE, "application/x-ndjson")], Body::from_stream(watch.lines())).into_response()
        }
        Err(refusal) => rest.refuse(&context, refusal),
    }
}

fn cluster_id(text: &str) -> Result<ClusterId, Refusal> {
    let problem = |_| "it is not the id of a cluster; leave it out to be told of all".to_owned();
    text.parse().map_err(problem).map_err(|problem| Refusal::Query { name: "cluster", problem })
}

async fn from_the_beginning(
    records: &Records,
    cluster: Option<ClusterId>,
    shutdown: &Shutdown,
) -> Result<Watch, Refusal> {
    let (clusters, revision) = match &cluster {
        Some(id) => records.cluster_alone(id).await?,
        None => records.cluster_list(None).await?,
    };
    let node_pools = records.node_pool_list_at(revision, cluster.as_ref()).await?;
    let credentials = records.credential_list_at(revision, cluster.as_ref()).await?;
    let clusters = clusters.into_iter().flat_map(|record| {
        let auths = external_auths(None, Some(&record));
        std::iter::once(Change::Cluster(Box::new(record.cluster))).chain(auths)
    });
    let node_pools = node_pools.into_iter().map(|record| Change::NodePool(Box::new(record.node_pool)));
    let credentials = credentials.into_iter().map(credential);
    let base = links::base();
    let mut waiting: VecDeque<Bytes> = clusters
        .chain(node_pools)
        .chain(credentials)
        .map(|change| line(&Event { cursor: None, change }, base))
        .collect();
    waiting.push_back(line(&Event { cursor: Some(cursor(revision)), change: Change::Bookmark }, base));
    let (feed, shutdown) = (records.feed(revision), shutdown.clone());
    Ok(Watch { feed, shutdown, waiting, told: revision, base, cluster })
}

async fn resumed(
    records: &Records,
    text: &str,
    cluster: Option<ClusterId>,
    shutdown: &Shutdown,
) -> Result<Watch, Refusal> {
    let after =
        text.strip_prefix('r').and_then(|digits| u64::from_str_radix(digits, 16).ok()).ok_or_else(|| {
            Refusal::Query { name: "after", problem: "it is not a cursor of this service".to_owned() }
        })?;
    let after = Revision::from_number(after);
    let mut watch = Watch {
        feed: records.feed(after),
        shutdown: shutdown.clone(),
        waiting: VecDeque::new(),
        told: after,
        base: links::base(),
        cluster,
    };
    // The first read is made before the answer begins, so that "too old" is a status and not a broken stream.
    match watch.feed.ready().await {
        Ok(batch) => watch.take(&batch)?,
        Err(StoreError::TooOld { .. } | StoreError::NotYet { .. }) => return Err(Refusal::CursorTooOld),
        Err(error) => return Err(error.into()),
    }
    Ok(watch)
}

impl Watch {
    /// The answer's body. It ends at shutdown, and when the store's history has gone on without it.
    fn lines(self) -> impl Stream<Item = Result<Bytes, Infallible>> + Send {
        stream::unfold(self, |mut watch| async move {
            let line = watch.next().await?;
            Some((Ok(line), watch))
        })
    }

    async fn next(&mut self) -> Option<Bytes> {
        // Since the last line: what happens meanwhile and is not told shows nobody that the watch is still there.
        let mut heartbeat = pin!(tokio::time::sleep(HEARTBEAT));
        loop {
            if let Some(line) = self.waiting.pop_front() {
                return Some(line);
            }
            let batch = tokio::select! {
                batch = self.feed.next() => batch,
                () = self.shutdown.requested() => return None,
                () = &mut heartbeat => return Some(Bytes::from_static(b"\n")),
            };
            if let Err(error) = batch.and_then(|batch| self.take(&batch)) {
                warn!(error = %Chain(&error), "a watch ends, its reader comes back by itself");
                return None;
            }
        }
    }

    fn take(&mut self, batch: &pilothouse_store::Batch) -> Result<(), StoreError> {
        let mut changes = Vec::new();
        for change in &batch.changes {
            let shown = shown(Entry::of(change)?).into_iter().filter(|shown| self.tells_of(shown));
            changes.extend(shown.map(|shown| (change.revision, shown)));
        }
        let mut changes = changes.into_iter().peekable();
        while let Some((revision, change)) = changes.next() {
            // Whoever comes back with a cursor must still get the rest of what one transaction tells; what it does not
            // tell is no rest.
            if changes.peek().is_none_or(|(next, _)| *next != revision) {
                self.told = revision;
            }
            self.waiting.push_back(line(&Event { cursor: Some(cursor(self.told)), change }, self.base));
        }
        self.told = batch.changes.last().map_or(self.told, |last| last.revision);
        Ok(())
    }
}

impl Watch {
    fn tells_of(&self, change: &Change) -> bool {
        self.cluster.as_ref().is_none_or(|cluster| change.cluster_id() == Some(cluster))
    }
}

/// What a reader sees of an entry, if it changed anything they can see.
fn shown(entry: Option<Entry>) -> Vec<Change> {
    match entry {
        Some(Entry::Cluster { before, after }) => {
            let mut shown = external_auths(before.as_deref(), after.as_deref());
            match (before, after) {
                (Some(before), Some(after)) if before.cluster == after.cluster => {}
                (_, Some(after)) => shown.push(Change::Cluster(Box::new(after.cluster))),
                (Some(before), None) => shown.push(Change::ClusterDeleted(before.cluster.id)),
                (None, None) => {}
            }
            shown
        }
        Some(Entry::NodePool { before, after }) => match (before, after) {
            (Some(before), Some(after)) if before.node_pool == after.node_pool => Vec::new(),
            (_, Some(after)) => vec![Change::NodePool(Box::new(after.node_pool))],
            (Some(before), None) => {
                vec![Change::NodePoolDeleted(before.node_pool.cluster_id, before.node_pool.id)]
            }
            (None, None) => Vec::new(),
        },
        Some(Entry::Credential { before, after: Some(after) }) => match before {
            Some(before) if before.credential == after.credential => Vec::new(),
            _ => vec![credential(*after)],
        },
        // One that is forgotten was over long before.
        Some(Entry::Credential { after: None, .. } | Entry::Shard { .. }) | None => Vec::new(),
    }
}

/// A credential, as a watch tells of it.
fn credential(record: CredentialRecord) -> Change {
    let shown = record.credential;
    Change::BreakGlassCredential(shown.cluster_id.clone(), Box::new(shown))
}

/// What became of the external auths in a cluster's document.
fn external_auths(before: Option<&ClusterRecord>, after: Option<&ClusterRecord>) -> Vec<Change> {
    let all = |record: Option<&ClusterRecord>| -> Vec<ExternalAuth> {
        let records = record.iter().flat_map(|record| &record.external_auths);
        records.map(|record| record.external_auth.clone()).collect()
    };
    let (before, after) = (all(before), all(after));
    let gone = before.iter().filter(|former| !after.iter().any(|auth| auth.id == former.id));
    let gone = gone.map(|auth| Change::ExternalAuthDeleted(auth.cluster_id.clone(), auth.id.clone()));
    let changed = after.iter().filter(|auth| !before.contains(auth));
    gone.chain(changed.map(|auth| Change::ExternalAuth(Box::new(auth.clone())))).collect()
}

fn cursor(revision: Revision) -> Cursor {
    Cursor::from_text(format!("r{:x}", revision.number()))
}

fn line(event: &Event, base: &str) -> Bytes {
    // Our own types always have a JSON form.
    let mut line = links::written(event, base).unwrap_or_default();
    line.push(b'\n');
    line.into()
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use pilothouse_clusters_service_api::ProvisionShardStatus;
    use pilothouse_store::{Decision, Keyring, Location, Options, Store};
    use tokio::time::{sleep, timeout};

    use super::*;
    use crate::config::Shard;
    use crate::record::ShardRecord;

    #[tokio::test(start_paused = true)]
    async fn a_watch_shows_that_it_is_there_while_only_what_it_does_not_tell_happens() {
        let mut options = Options::new(Location::memory(), crate::records::catalog(), Shutdown::new());
        options.keyring = Some(Keyring::ephemeral().unwrap());
        let records = Records::try_new(Store::open(options).await.unwrap()).unwrap();
        let shard = Shard { id: "a".into(), consumer: "a".into(), ..Shard::default() };
        records.shard_create(&ShardRecord::new(shard, Timestamp::UNIX_EPOCH)).await.unwrap();
        let shutdown = Shutdown::new();
        let mut watch = from_the_beginning(&records, None, &shutdown).await.unwrap();
        assert!(watch.next().await.is_some_and(|line| line.starts_with(b"{")), "a bookmark");

        // Management clusters are no business of a watch, however often something is noted of them.
        let busy = async {
            loop {
                sleep(HEARTBEAT.mul_f32(0.7)).await;
                let changed = records.shard_update("a", |record| {
                    record.status = match record.status {
                        ProvisionShardStatus::Active => ProvisionShardStatus::Maintenance,
                        _ => ProvisionShardStatus::Active,
                    };
                    Decision::Write
                });
                changed.await.unwrap();
            }
        };
        let heard = async {
            for _ in 0..3 {
                let line = timeout(HEARTBEAT.mul_f32(1.5), watch.next()).await.expect("a sign of life");
                assert_eq!(line.as_deref(), Some(b"\n".as_slice()));
            }
        };
        tokio::select! {
            () = heard => {}
            () = busy => {}
        }
        shutdown.request(pilothouse_runtime::Reason::Asked("the test is over".to_owned()));
        assert_eq!(watch.next().await, None, "a watch ends with the service");
    }
}
