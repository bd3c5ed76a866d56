//! What the API server asks of residents: what they print, and the way to their ports.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, Query, RawQuery, Request, State};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{any, get};
use http::StatusCode;
use kube::ResourceExt as _;
use pilothouse_informer::ObjectKey;
use pilothouse_runtime::Tasks;

use super::Lodged;
use super::pods::Pods;
use crate::access::Access;
use crate::logs::{Reader, Wanted, Writer};
use crate::server::{check, forward_to, printed};
use crate::streaming::port_forward::{self, Door};

#[derive(Clone)]
struct Context {
    pods: Pods,
    tasks: Tasks,
}

pub(super) fn router(pods: Pods, tasks: Tasks, access: Access) -> Router {
    let nothing_to_enter = || any(nothing_to_enter);
    Router::new()
        .route("/containerLogs/{namespace}/{pod}/{container}", get(container_logs))
        .route("/portForward/{namespace}/{pod}", get(forward).post(forward))
        .route("/exec/{namespace}/{pod}/{container}", nothing_to_enter())
        .route("/attach/{namespace}/{pod}/{container}", nothing_to_enter())
        .with_state(Context { pods, tasks })
        .layer(from_fn_with_state(Arc::new(access), check))
        .route("/healthz", get(|| async { "ok" }))
}

async fn container_logs(
    State(context): State<Context>,
    Path((namespace, pod, container)): Path<(String, String, String)>,
    Query(wanted): Query<Wanted>,
) -> Response {
    let key = ObjectKey::namespaced(namespace, pod);
    let shown = context.pods.get(&key);
    let lodged = shown.as_ref().and_then(|pod| context.pods.resident(pod));
    let Some(lodged) = lodged.filter(|lodged| lodged.resident.container == container) else {
        let why = format!("container {container} of pod {key} is not on this node");
        return (StatusCode::NOT_FOUND, why).into_response();
    };
    let Some(path) = lodged.printed.path(wanted.previous) else {
        let pod = &key.name;
        let why = format!("previous terminated container \"{container}\" in pod \"{pod}\" not found");
        return (StatusCode::BAD_REQUEST, why).into_response();
    };
    // Nobody writes the log of a former life any more.
    let wanted = Wanted { follow: wanted.follow && !wanted.previous, ..wanted };
    let now = context.pods.now();
    printed(Reader { path, writer: Writer::ThisProcess, wanted, now }, &context.tasks)
}

async fn forward(
    State(context): State<Context>,
    Path((namespace, pod)): Path<(String, String)>,
    query: RawQuery,
    request: Request,
) -> Response {
    let pod = context.pods.get(&ObjectKey::namespaced(namespace, pod));
    let Some((pod, Lodged { resident, .. })) = pod.and_then(|pod| {
        let lodged = context.pods.resident(&pod)?;
        Some((pod, lodged))
    }) else {
        return (StatusCode::NOT_FOUND, "pod does not exist").into_response();
    };
    let addresses = resident.ports.clone();
    forward_to(&context.tasks, &query, request, async move |ports, protocol, io| {
        let (name, uid) = (pod.name_any(), pod.uid().unwrap_or_default());
        let place = port_forward::Place { door: Door::Addresses(&addresses), pod: &name, uid: &uid };
        port_forward::over(protocol, place, &ports, io).await
    })
}

async fn nothing_to_enter() -> Response {
    // Without a colon: clients would take it for an object.
    let why = "no program can be run in this pod, which is a part of the process that hosts the cluster";
    (StatusCode::BAD_REQUEST, why).into_response()
}
