//! What the API server asks of a node: logs, and whether it is there.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use pilothouse_informer::ObjectKey;
use pilothouse_runtime::Tasks;

use crate::logs::{self, Reader, Wanted};
use crate::pods::Pods;

#[derive(Clone)]
struct Context {
    pods: Pods,
    tasks: Tasks,
}

pub(crate) fn router(pods: Pods, tasks: Tasks) -> Router {
    Router::new()
        .route("/healthz", get(|| async { "ok" }))
        .route("/containerLogs/{namespace}/{pod}/{container}", get(container_logs))
        .with_state(Arc::new(Context { pods, tasks }))
}

async fn container_logs(
    State(context): State<Arc<Context>>,
    Path((namespace, pod, container)): Path<(String, String, String)>,
    Query(wanted): Query<Wanted>,
) -> Response {
    let key = ObjectKey::namespaced(namespace, pod);
    let not_found = |text: String| (StatusCode::NOT_FOUND, text).into_response();
    let Some(local) = context.pods.locals_of(&key).into_iter().next() else {
        return not_found(format!("pod {key} is not on this node"));
    };
    let Some(known) = local.state().containers.get(&container).cloned() else {
        let message = format!("container {container} of pod {key} is waiting to start");
        return (StatusCode::BAD_REQUEST, message).into_response();
    };
    let attempt = match (wanted.previous, known.attempt.checked_sub(1)) {
        (false, _) => known.attempt,
        (true, Some(previous)) => previous,
        (true, None) => {
            return not_found(format!("container {container} of pod {key} has not been restarted"));
        }
    };
    if !logs::path(&local.folder, &container, attempt).exists() {
        return not_found(format!("container {container} of pod {key} has no log"));
    }
    let reader = Reader { local, container, attempt, wanted };
    let body = Body::from_stream(reader.stream(&context.tasks));
    ([(CONTENT_TYPE, "text/plain")], body).into_response()
}
