//! A Clusters Service that speaks the contract and does nothing by itself: the test says what happens.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use axum::body::Body;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use axum::{Json, Router};
use futures::stream;
use pilothouse_clusters_service_api::{
    Change, Cluster, ClusterId, ClusterState, Cursor, Event, NewCluster, NewNodePool, NodePool, NodePoolId,
    NodePoolStateValue, NodePoolUpdate, properties,
};
use pilothouse_http::{ClientBuilder, Listener, ListenerConfig, Metrics};
use pilothouse_runtime::{Clock, OnExit, Shutdown, Tasks};
use prometheus_client::registry::Registry;
use serde_json::json;
use tokio::sync::watch;

use crate::PATIENCE;

#[derive(Clone)]
pub(crate) struct StandIn {
    inner: Arc<Mutex<Inner>>,
    news: watch::Sender<usize>,
    pub(crate) address: SocketAddr,
}

#[derive(Default)]
struct Inner {
    clusters: BTreeMap<ClusterId, Cluster>,
    node_pools: BTreeMap<(ClusterId, NodePoolId), NodePool>,
    events: Vec<Change>,
    /// How often each operation asked for a creation.
    asked: BTreeMap<String, usize>,
    correlations: Vec<String>,
    /// How many further creations are carried out but answered as if they were not.
    lose_answers: usize,
    refuse: bool,
    /// Every change of a node pool that was asked for, and the operation that asked.
    updates: Vec<(String, NodePoolUpdate)>,
}

impl StandIn {
    pub(crate) async fn start() -> Self {
        let listener =
            Listener::bind("the stand-in", &ListenerConfig::loopback(0), &Clock::system()).await.unwrap();
        let stand_in =
            Self { inner: Arc::default(), news: watch::Sender::new(0), address: listener.local_address() };
        let base = "/api/clusters_mgmt/v1";
        let router = Router::new()
            .route(&format!("{base}/clusters"), get(list).post(create))
            .route(&format!("{base}/clusters/{{id}}"), get(read).delete(delete))
            .route(&format!("{base}/clusters/{{id}}/node_pools"), get(nothing).post(pool_create))
            .route(
                &format!("{base}/clusters/{{id}}/node_pools/{{pool}}"),
                get(pool_read).patch(pool_update).delete(pool_delete),
            )
            .route(&format!("{base}/events"), get(events))
            .with_state(stand_in.clone());
        let tasks = Tasks::new("stand-in", Shutdown::new());
        let metrics = Metrics::new(&mut Registry::default());
        let own = tasks.clone();
        tasks.spawn("listen", OnExit::LogError, async move { listener.serve(router, metrics, &own).await });
        stand_in
    }

    pub(crate) fn client(&self) -> pilothouse_clusters_service_api::Client {
        let http = ClientBuilder::new(PATIENCE).build().unwrap();
        let url = format!("http://{}", self.address).parse().unwrap();
        pilothouse_clusters_service_api::Client::try_new(http, &url).unwrap()
    }

    pub(crate) fn lose_answers(&self, count: usize) {
        self.lock().lose_answers = count;
    }

    pub(crate) fn refuse_creations(&self) {
        self.lock().refuse = true;
    }

    pub(crate) fn allow_everything(&self) {
        self.lock().refuse = false;
    }

    pub(crate) fn clusters(&self) -> Vec<Cluster> {
        self.lock().clusters.values().cloned().collect()
    }

    pub(crate) fn node_pools(&self) -> Vec<NodePool> {
        self.lock().node_pools.values().cloned().collect()
    }

    /// How often creation was asked for, by operation.
    pub(crate) fn asked(&self) -> Vec<usize> {
        self.lock().asked.values().copied().collect()
    }

    /// The changes of node pools that were asked for, by operation.
    pub(crate) fn updates(&self) -> Vec<(String, NodePoolUpdate)> {
        self.lock().updates.clone()
    }

    pub(crate) fn correlations(&self) -> Vec<String> {
        self.lock().correlations.clone()
    }

    pub(crate) fn change(&self, id: &ClusterId, change: impl FnOnce(&mut Cluster)) {
        let mut inner = self.lock();
        let cluster = inner.clusters.get_mut(id).unwrap();
        change(cluster);
        cluster.state = cluster.status.state;
        let cluster = cluster.clone();
        self.announce(inner, Change::Cluster(Box::new(cluster)));
    }

    pub(crate) fn change_pool(&self, change: impl FnOnce(&mut NodePool)) {
        let mut inner = self.lock();
        let node_pool = inner.node_pools.values_mut().next().unwrap();
        change(node_pool);
        let node_pool = node_pool.clone();
        self.announce(inner, Change::NodePool(Box::new(node_pool)));
    }

    pub(crate) fn remove(&self, id: &ClusterId) {
        let mut inner = self.lock();
        inner.clusters.remove(id).unwrap();
        inner.node_pools.retain(|(cluster, _), _| cluster != id);
        self.announce(inner, Change::ClusterDeleted(id.clone()));
    }

    pub(crate) fn remove_pool(&self, cluster: &ClusterId, id: &NodePoolId) {
        let mut inner = self.lock();
        inner.node_pools.remove(&(cluster.clone(), id.clone())).unwrap();
        self.announce(inner, Change::NodePoolDeleted(cluster.clone(), id.clone()));
    }

    /// Makes a cluster that nobody was told about.
    pub(crate) fn make(&self, new: &NewCluster) -> ClusterId {
        let mut inner = self.lock();
        let cluster = made(&mut inner, new);
        let id = cluster.id.clone();
        self.announce(inner, Change::Cluster(Box::new(cluster)));
        id
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap()
    }

    fn announce(&self, mut inner: MutexGuard<'_, Inner>, change: Change) {
        inner.events.push(change);
        self.news.send_replace(inner.events.len());
    }
}

/// The cluster that the same operation made before, or a new one.
fn made(inner: &mut Inner, new: &NewCluster) -> Cluster {
    let same = |cluster: &&Cluster| cluster.azure == new.azure;
    if let Some(cluster) = inner.clusters.values().find(same) {
        return cluster.clone();
    }
    let id = format!("{:032}", inner.clusters.len() + 1);
    let cluster: Cluster = serde_json::from_value(json!({
        "kind": "Cluster", "id": id, "href": format!("/api/clusters_mgmt/v1/clusters/{id}"), "name": new.name,
        "creation_timestamp": "2026-01-01T00:00:00Z", "region": {"id": "here"}, "cloud_provider": {"id": "azure"},
        "product": {"id": "aro"}, "hypershift": {"enabled": true},
        "domain_prefix": new.domain_prefix.clone().unwrap_or_else(|| new.name.clone()),
        "dns": {"base_domain": "pilothouse.test"}, "version": new.version, "network": new.network, "api": new.api,
        "properties": new.properties, "azure": new.azure, "state": "validating",
        "status": {"state": "validating", "description": "accepted"},
    }))
    .unwrap();
    inner.clusters.insert(cluster.id.clone(), cluster.clone());
    cluster
}

fn refusal(status: StatusCode, reason: &str) -> Response {
    let number = status.as_u16();
    let body = json!({"kind": "Error", "status": number, "id": number.to_string(), "href": "", "reason": reason,
                      "code": format!("CLUSTERS-MGMT-{number}"), "operation_id": "x",
                      "timestamp": "2026-01-01T00:00:00Z"});
    (status, Json(body)).into_response()
}

async fn nothing() -> StatusCode {
    StatusCode::NOT_FOUND
}

async fn list(State(stand_in): State<StandIn>) -> Response {
    let items = stand_in.clusters();
    Json(json!({"kind": "ClusterList", "page": 1, "size": items.len(), "total": items.len(), "items": items}))
        .into_response()
}

async fn create(State(stand_in): State<StandIn>, Json(new): Json<NewCluster>) -> Response {
    let mut inner = stand_in.lock();
    if inner.refuse {
        return refusal(StatusCode::BAD_REQUEST, "there is no room for it");
    }
    let operation = new.properties[properties::OPERATION_ID].clone();
    *inner.asked.entry(operation).or_default() += 1;
    inner.correlations.push(new.properties[properties::CORRELATION_ID].clone());
    let cluster = made(&mut inner, &new);
    if inner.lose_answers > 0 {
        inner.lose_answers -= 1;
        return refusal(StatusCode::INTERNAL_SERVER_ERROR, "the answer was lost");
    }
    let answer = (StatusCode::CREATED, Json(cluster.clone())).into_response();
    stand_in.announce(inner, Change::Cluster(Box::new(cluster)));
    answer
}

async fn read(State(stand_in): State<StandIn>, Path(id): Path<ClusterId>) -> Response {
    match stand_in.lock().clusters.get(&id) {
        Some(cluster) => Json(cluster).into_response(),
        None => refusal(StatusCode::NOT_FOUND, "no such cluster"),
    }
}

async fn delete(State(stand_in): State<StandIn>, Path(id): Path<ClusterId>) -> Response {
    if !stand_in.lock().clusters.contains_key(&id) {
        return refusal(StatusCode::NOT_FOUND, "no such cluster");
    }
    stand_in.change(&id, |cluster| cluster.status.state = ClusterState::Uninstalling);
    StatusCode::NO_CONTENT.into_response()
}

async fn pool_create(
    State(stand_in): State<StandIn>,
    Path(cluster): Path<ClusterId>,
    Json(new): Json<NewNodePool>,
) -> Response {
    let mut inner = stand_in.lock();
    let node_pool: NodePool = serde_json::from_value(json!({
        "kind": "NodePool", "id": new.id, "href": "", "cluster_id": cluster, "replicas": new.replicas,
        "creation_timestamp": "2026-01-01T00:00:00Z", "auto_repair": new.auto_repair, "version": new.version,
        "azure_node_pool": new.azure_node_pool,
        "status": {"state": {"value": "validating", "last_updated_timestamp": "2026-01-01T00:00:00Z"}},
    }))
    .unwrap();
    let node_pool = inner.node_pools.entry((cluster, new.id)).or_insert(node_pool).clone();
    stand_in.announce(inner, Change::NodePool(Box::new(node_pool.clone())));
    (StatusCode::CREATED, Json(node_pool)).into_response()
}

async fn pool_read(State(stand_in): State<StandIn>, Path(key): Path<(ClusterId, NodePoolId)>) -> Response {
    match stand_in.lock().node_pools.get(&key) {
        Some(node_pool) => Json(node_pool).into_response(),
        None => refusal(StatusCode::NOT_FOUND, "no such node pool"),
    }
}

async fn pool_update(
    State(stand_in): State<StandIn>,
    Path(key): Path<(ClusterId, NodePoolId)>,
    Json(update): Json<NodePoolUpdate>,
) -> Response {
    let mut inner = stand_in.lock();
    if inner.refuse {
        return refusal(StatusCode::BAD_REQUEST, "there is no room for it");
    }
    let operation = update.properties[properties::OPERATION_ID].clone();
    let known = inner.updates.iter().any(|(former, _)| *former == operation);
    inner.updates.push((operation, update.clone()));
    let lost = inner.lose_answers > 0;
    inner.lose_answers = inner.lose_answers.saturating_sub(1);
    let Some(node_pool) = inner.node_pools.get_mut(&key) else {
        return refusal(StatusCode::NOT_FOUND, "no such node pool");
    };
    if !known {
        node_pool.replicas = update.replicas.unwrap_or(node_pool.replicas);
        node_pool.status.state.value = NodePoolStateValue::ValidatingUpdate;
    }
    let node_pool = node_pool.clone();
    if lost {
        return refusal(StatusCode::INTERNAL_SERVER_ERROR, "the answer was lost");
    }
    let answer = Json(node_pool.clone()).into_response();
    stand_in.announce(inner, Change::NodePool(Box::new(node_pool)));
    answer
}

async fn pool_delete(State(stand_in): State<StandIn>, Path(key): Path<(ClusterId, NodePoolId)>) -> Response {
    if !stand_in.lock().node_pools.contains_key(&key) {
        return refusal(StatusCode::NOT_FOUND, "no such node pool");
    }
    stand_in.change_pool(|pool| pool.status.state.value = NodePoolStateValue::Uninstalling);
    StatusCode::NO_CONTENT.into_response()
}

async fn events(State(stand_in): State<StandIn>, Query(query): Query<BTreeMap<String, String>>) -> Response {
    let mut first = Vec::new();
    let position = match query.get("after") {
        Some(after) => after.parse().unwrap(),
        None => {
            let inner = stand_in.lock();
            for cluster in inner.clusters.values() {
                first.push(Event { cursor: None, change: Change::Cluster(Box::new(cluster.clone())) });
            }
            for pool in inner.node_pools.values() {
                first.push(Event { cursor: None, change: Change::NodePool(Box::new(pool.clone())) });
            }
            first.push(Event { cursor: cursor(inner.events.len()), change: Change::Bookmark });
            inner.events.len()
        }
    };
    let state = (stand_in.clone(), stand_in.news.subscribe(), position, first);
    let lines = stream::unfold(state, |(stand_in, mut news, position, first)| async move {
        if !first.is_empty() {
            return Some((lines(&first), (stand_in, news, position, Vec::new())));
        }
        news.wait_for(|count| *count > position).await.ok()?;
        let fresh: Vec<_> = {
            let inner = stand_in.lock();
            let changes = inner.events[position..].iter().cloned().enumerate();
            changes.map(|(index, change)| Event { cursor: cursor(position + index + 1), change }).collect()
        };
        let position = position + fresh.len();
        Some((lines(&fresh), (stand_in, news, position, Vec::new())))
    });
    Body::from_stream(lines).into_response()
}

fn cursor(position: usize) -> Option<Cursor> {
    Some(Cursor::from_text(position.to_string()))
}

fn lines(events: &[Event]) -> Result<String, std::convert::Infallible> {
    Ok(events.iter().map(|event| serde_json::to_string(event).unwrap() + "\n").collect())
}
