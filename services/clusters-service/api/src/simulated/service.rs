//! The port and the paths.

use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::{Request, State as Shares};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use axum::{Json, Router};
use bytes::Bytes;
use http::{StatusCode, Uri};
use pilothouse_http::{Listener, ListenerConfig, Metrics};
use pilothouse_pki::{Authority, AuthorityRequest, Subject};
use pilothouse_runtime::{Clock, OnExit, Reason, Shutdown, Tasks};
use prometheus_client::registry::Registry;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use super::calls::{Call, Calls};
use super::faults::{self, Fault, Faults};
use super::refusal::Refusal;
use super::state::State;
use super::{Mode, Shared, Simulated, clusters, credentials, events, external_auths, node_pools, versions};
use crate::{BASES, ClusterId, InvalidId, List, ListQuery};

/// How long a call of the service's own client may take, and a body to arrive.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);
const LARGEST_BODY: usize = 4 << 20;
/// How many items a page has unless asked otherwise.
const PAGE: u32 = 100;

pub(super) type Handles = Shares<Arc<Shared>>;

/// Stops the service.
pub(super) struct Switch(Shutdown);

impl Drop for Switch {
    fn drop(&mut self) {
        self.0.request(Reason::Asked("nobody needs the simulated service any more".into()));
    }
}

impl Simulated {
    /// Starts one on a free port of the loopback.
    ///
    /// # Panics
    ///
    /// When no port can be had.
    pub async fn start(mode: Mode) -> Self {
        Self::start_with(mode, Clock::system()).await
    }

    /// The same with another clock.
    ///
    /// # Panics
    ///
    /// When no port can be had.
    pub async fn start_with(mode: Mode, clock: Clock) -> Self {
        let listener = Listener::bind("simulated clusters service", &ListenerConfig::loopback(0), &clock)
            .await
            .expect("the loopback has a free port");
        let address = listener.local_address();
        let subject = Subject::try_new("simulated clusters service").expect("it is a name");
        let authority = Authority::self_signed(&AuthorityRequest::new(subject), &clock)
            .expect("an authority can be made");
        let shared = Arc::new(Shared {
            state: Mutex::new(State::new(mode)),
            news: watch::Sender::new(0),
            faults: Faults::new(),
            calls: Calls::default(),
            lines: AtomicUsize::new(0),
            clock,
            authority,
        });
        let router = router(Arc::clone(&shared));
        let shutdown = Shutdown::new();
        let tasks = Tasks::new("simulated clusters service", shutdown.clone());
        let metrics = Metrics::new(&mut Registry::default());
        let own = tasks.clone();
        tasks.spawn("serve", OnExit::LogError, async move { listener.serve(router, metrics, &own).await });
        Self { shared, address, _switch: Arc::new(Switch(shutdown)) }
    }
}

fn router(shared: Arc<Shared>) -> Router {
    let paths = Router::new()
        .route("/clusters", get(clusters::list).post(clusters::create))
        .route("/clusters/{cluster}", get(clusters::get).patch(clusters::update).delete(clusters::delete))
        .route("/clusters/{cluster}/status", get(clusters::status))
        .route("/clusters/{cluster}/hypershift", get(clusters::hypershift))
        .route("/clusters/{cluster}/provision_shard", get(clusters::provision_shard))
        .route("/clusters/{cluster}/inflight_checks", get(clusters::inflight_checks))
        .route("/clusters/{cluster}/control_plane_upgrade_policies", get(clusters::upgrade_policies))
        .route("/clusters/{cluster}/node_pools", get(node_pools::list).post(node_pools::create))
        .route(
            "/clusters/{cluster}/node_pools/{node_pool}",
            get(node_pools::get).patch(node_pools::update).delete(node_pools::delete),
        )
        .route("/clusters/{cluster}/node_pools/{node_pool}/status", get(node_pools::status))
        .route(
            "/clusters/{cluster}/node_pools/{node_pool}/upgrade_policies",
            get(node_pools::upgrade_policies),
        )
        .route(
            "/clusters/{cluster}/external_auth_config/external_auths",
            get(external_auths::list).post(external_auths::create),
        )
        .route(
            "/clusters/{cluster}/external_auth_config/external_auths/{external_auth}",
            get(external_auths::get).patch(external_auths::update).delete(external_auths::delete),
        )
        .route("/versions", get(versions::list))
        .route("/versions/{version}", get(versions::get))
        .route("/events", get(events::watch));
    // Only the first base has them.
    let only_first = Router::new()
        .route(
            "/clusters/{cluster}/break_glass_credentials",
            get(credentials::list).post(credentials::create).delete(credentials::revoke),
        )
        .route("/clusters/{cluster}/break_glass_credentials/{credential}", get(credentials::get));
    Router::new()
        .nest(BASES[0], paths.clone().merge(only_first))
        .nest(BASES[1], paths)
        .fallback(no_such_path)
        .layer(from_fn_with_state(Arc::clone(&shared), gate))
        .with_state(shared)
}

async fn no_such_path(uri: Uri) -> Response {
    Refusal::not_found("Path", uri.path()).into_response()
}

/// Every call passes here: it is noted, and goes wrong if it is to.
async fn gate(Shares(shared): Handles, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let Ok(bytes) = axum::body::to_bytes(body, LARGEST_BODY).await else {
        return faults::refused(413, None, "the body is too large or did not arrive");
    };
    let call = Call::of(&parts, &bytes);
    let resource = call.resource().or_else(|| {
        let id = call.cluster()?.parse::<ClusterId>().ok()?;
        Some(shared.lock().clusters.get(&id)?.value.azure.resource_id())
    });
    let _under_way = shared.calls.begin(&call, resource);
    let run = next.run(Request::from_parts(parts, bytes.into()));
    match shared.faults.take(&call) {
        None => run.await,
        Some(Fault::Refuse { status, target, message }) => faults::refused(status, target, message),
        Some(Fault::Unavailable) => faults::refused(503, None, "the service is not available; try again"),
        Some(Fault::Foreign { status, body }) => faults::foreign(status, body),
        Some(Fault::Disconnect) => faults::cut(),
        Some(Fault::Stall) => {
            shared.faults.stall().await;
            run.await
        }
        Some(Fault::Late(delay)) => {
            let answer = run.await;
            tokio::time::sleep(delay).await;
            answer
        }
        Some(Fault::LoseAnswer) => {
            drop(run.await);
            faults::cut()
        }
        Some(Fault::BreakOff) => faults::broken_off(run.await),
    }
}

pub(super) fn answer<T: Serialize>(status: StatusCode, outcome: Result<T, Refusal>) -> Response {
    match outcome {
        Ok(value) => (status, Json(value)).into_response(),
        Err(refusal) => refusal.into_response(),
    }
}

pub(super) fn created(dry_run: bool) -> StatusCode {
    if dry_run { StatusCode::OK } else { StatusCode::CREATED }
}

/// The body as a value, or where it is not one.
pub(super) fn body<T: DeserializeOwned>(bytes: &Bytes) -> Result<T, Refusal> {
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        Refusal::field("InvalidField", &error.path().to_string(), &error.inner().to_string())
    })
}

/// An id that is none is the id of nothing.
pub(super) fn cluster_id(text: &str) -> Result<ClusterId, Refusal> {
    text.parse().map_err(|_: InvalidId| Refusal::not_found("Cluster", text))
}

pub(super) fn pairs(query: Option<&str>) -> Vec<(String, String)> {
    url::form_urlencoded::parse(query.unwrap_or_default().as_bytes()).into_owned().collect()
}

pub(super) fn is_dry_run(query: Option<&str>) -> bool {
    pairs(query).iter().any(|(name, value)| name == "dryRun" && value == "true")
}

pub(super) fn list_query(query: Option<&str>) -> Result<ListQuery, Refusal> {
    let number = |name: &str, value: &str| {
        value.parse().map(Some).map_err(|_| Refusal::query(name, "it is not a number"))
    };
    let mut wanted = ListQuery::default();
    for (name, value) in pairs(query) {
        match name.as_str() {
            "search" => wanted.search = Some(value),
            "order" | "orderBy" => wanted.order = Some(value),
            "page" => wanted.page = number("page", &value)?,
            "size" => wanted.size = number("size", &value)?,
            _ => {}
        }
    }
    Ok(wanted)
}

/// The wanted page of items that are in order of their age.
pub(super) fn page<T>(kind: &str, mut items: Vec<T>, query: &ListQuery) -> Result<List<T>, Refusal> {
    let page = query.page.unwrap_or(1);
    if page == 0 {
        return Err(Refusal::query("page", "pages are counted from one"));
    }
    if query.order.as_deref().is_some_and(|order| order.trim_end().ends_with(" desc")) {
        items.reverse();
    }
    let size = query.size.unwrap_or(PAGE) as usize;
    let count = |items: usize| u32::try_from(items).unwrap_or(u32::MAX);
    let total = count(items.len());
    let items: Vec<T> = items.into_iter().skip((page as usize - 1).saturating_mul(size)).take(size).collect();
    Ok(List { kind: kind.to_owned(), page, size: count(items.len()), total, items })
}
