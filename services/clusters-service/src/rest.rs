//! The REST paths. Each handler reads a request, calls [`Clusters`] and writes the answer; it decides nothing.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{Path, RawQuery, Request, State};
use axum::middleware::{Next, from_fn, map_request};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use axum::{Extension, Router};
use http::header::CONTENT_TYPE;
use http::uri::PathAndQuery;
use http::{StatusCode, Uri};
use pilothouse_clusters_service_api::{BASES, ListQuery};
use pilothouse_http::{Context, Stack};
use pilothouse_runtime::Shutdown;
use pilothouse_runtime::reconcile::Handle;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::clusters::{Clusters, Mode};
use crate::error::Impossible;
use crate::links;
use crate::refusal::Refusal;

mod break_glass_credentials;
mod clusters;
mod events;
mod external_auths;
mod mode;
mod node_pools;
mod provision_shards;
mod upgrade_policies;
mod versions;

/// What handlers share.
pub(crate) struct Rest {
    pub(crate) clusters: Clusters,
    /// What asks management clusters whether they are there.
    pub(crate) shards: Handle<String>,
    pub(crate) shutdown: Shutdown,
}

type Shared = State<Arc<Rest>>;

/// All paths, below both bases unless they say otherwise.
pub(crate) fn router(rest: Rest, stack: Stack) -> Router {
    let rest = Arc::new(rest);
    let paths = Router::new()
        .route("/clusters", get(clusters::list).post(clusters::create))
        .route("/clusters/{cluster}", get(clusters::get).patch(clusters::update).delete(clusters::delete))
        .route("/clusters/{cluster}/status", get(clusters::status))
        .route("/clusters/{cluster}/hypershift", get(clusters::hypershift))
        .route("/clusters/{cluster}/provision_shard", get(provision_shards::of_cluster))
        .route("/clusters/{cluster}/inflight_checks", get(clusters::inflight_checks))
        .route("/clusters/{cluster}/inflight_checks/{check}", get(clusters::inflight_check))
        .route("/clusters/{cluster}/autoscaler", get(clusters::autoscaler))
        .merge(upgrades("/clusters/{cluster}/control_plane_upgrade_policies"))
        // What they are called where there is nothing but clusters to upgrade.
        .merge(upgrades("/clusters/{cluster}/upgrade_policies"))
        .route(
            "/clusters/{cluster}/external_auth_config/external_auths",
            get(external_auths::list).post(external_auths::create),
        )
        .route(
            "/clusters/{cluster}/external_auth_config/external_auths/{external_auth}",
            get(external_auths::get).patch(external_auths::update).delete(external_auths::delete),
        )
        .route("/clusters/{cluster}/node_pools", get(node_pools::list).post(node_pools::create))
        .route(
            "/clusters/{cluster}/node_pools/{node_pool}",
            get(node_pools::get).patch(node_pools::update).delete(node_pools::delete),
        )
        .route("/clusters/{cluster}/node_pools/{node_pool}/status", get(node_pools::status))
        .route(
            "/clusters/{cluster}/node_pools/{node_pool}/upgrade_policies",
            get(upgrade_policies::of_node_pool_list).post(upgrade_policies::of_node_pool_create),
        )
        .route(
            "/clusters/{cluster}/node_pools/{node_pool}/upgrade_policies/{policy}",
            get(upgrade_policies::of_node_pool_get)
                .patch(upgrade_policies::of_node_pool_update)
                .delete(upgrade_policies::of_node_pool_delete),
        )
        .route("/versions", get(versions::list))
        .route("/versions/{version}", get(versions::get))
        .route("/provision_shards", get(provision_shards::list).post(provision_shards::create))
        .route(
            "/provision_shards/{shard}",
            get(provision_shards::get).patch(provision_shards::update).delete(provision_shards::delete),
        )
        .route("/events", get(events::watch));
    // Only the first base has these.
    let credentials = Router::new()
        .route(
            "/clusters/{cluster}/break_glass_credentials",
            get(break_glass_credentials::list)
                .post(break_glass_credentials::create)
                .delete(break_glass_credentials::revoke),
        )
        .route("/clusters/{cluster}/break_glass_credentials/{credential}", get(break_glass_credentials::get));
    let router = Router::new().nest(BASES[0], paths.clone().merge(credentials)).nest(BASES[1], paths);
    let router =
        router.fallback(no_such_path).method_not_allowed_fallback(method_not_allowed).with_state(rest);
    let router = router.layer(from_fn(with_links));
    // Around everything, because a path has to be put in order before it is routed.
    Router::new().fallback_service(stack.around(router)).layer(map_request(collapse_slashes))
}

/// The upgrades of control planes, below this path.
fn upgrades(path: &str) -> Router<Arc<Rest>> {
    Router::new().route(path, get(upgrade_policies::list).post(upgrade_policies::create)).route(
        &format!("{path}/{{policy}}"),
        get(upgrade_policies::get).patch(upgrade_policies::update).delete(upgrade_policies::delete),
    )
}

async fn no_such_path(State(rest): Shared, Extension(context): Extension<Context>, uri: Uri) -> Response {
    rest.refuse(&context, Refusal::NoSuchPath(uri.path().to_owned()))
}

async fn method_not_allowed(State(rest): Shared, Extension(context): Extension<Context>) -> Response {
    rest.refuse(&context, Refusal::Method)
}

async fn with_links(request: Request, next: Next) -> Response {
    let path = request.uri().path().to_owned();
    links::below(&path, next.run(request)).await
}

/// People put an `href`, which begins with a slash, behind an address that ends with one.
async fn collapse_slashes(mut request: Request) -> Request {
    let path = request.uri().path();
    let in_order = !path.contains("//") && (path.len() == 1 || !path.ends_with('/'));
    if in_order {
        return request;
    }
    let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    let mut wanted = format!("/{}", segments.join("/"));
    if let Some(query) = request.uri().query() {
        wanted.push('?');
        wanted.push_str(query);
    }
    let mut parts = request.uri().clone().into_parts();
    if let Ok(path_and_query) = wanted.parse::<PathAndQuery>() {
        parts.path_and_query = Some(path_and_query);
        if let Ok(uri) = Uri::from_parts(parts) {
            *request.uri_mut() = uri;
        }
    }
    request
}

impl Rest {
    fn refuse(&self, context: &Context, refusal: Refusal) -> Response {
        refusal.answer(context, self.clusters.clock.now())
    }

    /// A value with its status, or a refusal.
    fn answer<T: Serialize>(
        &self,
        context: &Context,
        status: StatusCode,
        outcome: Result<T, Refusal>,
    ) -> Response {
        match outcome {
            Ok(value) => match links::written(&value, links::base()) {
                Ok(body) => (status, [(CONTENT_TYPE, "application/json")], body).into_response(),
                Err(_) => self.refuse(context, Impossible("an answer has no JSON form").into()),
            },
            Err(refusal) => self.refuse(context, refusal),
        }
    }
}

/// The body as a value, or where it is not one.
fn body<T: DeserializeOwned>(bytes: &Bytes) -> Result<T, Refusal> {
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    serde_path_to_error::deserialize(&mut deserializer)
        .map_err(|error| Refusal::Body { path: error.path().to_string(), problem: error.inner().to_string() })
}

/// The parameters of a query, decoded.
fn pairs(query: Option<&str>) -> Vec<(String, String)> {
    url::form_urlencoded::parse(query.unwrap_or_default().as_bytes()).into_owned().collect()
}

fn list_query(query: Option<&str>) -> Result<ListQuery, Refusal> {
    let number = |name: &'static str, value: &str| {
        let problem = format!("`{value}` is not a number");
        value.parse().map(Some).map_err(|_| Refusal::Query { name, problem })
    };
    let mut wanted = ListQuery::default();
    for (name, value) in pairs(query) {
        match name.as_str() {
            "search" => wanted.search = Some(value),
            "order" | "orderBy" => wanted.order = Some(value),
            "page" => wanted.page = number("page", &value)?,
            "size" => wanted.size = number("size", &value)?,
            // Others are for later versions of the API; OCM ignores what it does not know.
            _ => {}
        }
    }
    Ok(wanted)
}

fn created(mode: Mode) -> StatusCode {
    match mode {
        Mode::Create => StatusCode::CREATED,
        Mode::DryRun => StatusCode::OK,
    }
}
