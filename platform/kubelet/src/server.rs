//! What the API server asks of a node: logs, and being at the programs of its pods.
//!
//! Who asks has shown a certificate of the cluster. The API server itself may do everything; of anybody else the API server is
//! asked whether they may use this node's proxy, which is what all of this amounts to.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Query, RawQuery, Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use pilothouse_http::Peer;
use pilothouse_informer::ObjectKey;
use pilothouse_runtime::{OnExit, Tasks};
use tracing::debug;

use crate::access::Access;
use crate::logs::{self, Reader, Wanted, Writer};
use crate::pods::{Local, Pods};
use crate::shim::protocol::Streams;
use crate::statistics::Statistics;
use crate::streaming::port_forward::{self, Door};
use crate::streaming::upgrade::{self, Protocol};
use crate::streaming::{self, command, spdy, websocket};

#[derive(Clone)]
struct Context {
    pods: Pods,
    statistics: Statistics,
    tasks: Tasks,
}

pub(crate) fn router(pods: Pods, statistics: Statistics, tasks: Tasks, access: Access) -> Router {
    let exec = || get(exec).post(exec);
    let attach = || get(attach).post(attach);
    let forward = || get(forward).post(forward);
    Router::new()
        .route("/containerLogs/{namespace}/{pod}/{container}", get(container_logs))
        .route("/exec/{namespace}/{pod}/{container}", exec())
        .route("/attach/{namespace}/{pod}/{container}", attach())
        .route("/portForward/{namespace}/{pod}", forward())
        .route("/stats/summary", get(summary))
        .route("/metrics/resource", get(resource_metrics))
        .with_state(Arc::new(Context { pods, statistics, tasks }))
        .layer(from_fn_with_state(Arc::new(access), check))
        .route("/healthz", get(|| async { "ok" }))
}

pub(crate) async fn check(State(access): State<Arc<Access>>, request: Request, next: Next) -> Response {
    let (peer, method) = (request.extensions().get::<Peer>().cloned(), request.method().clone());
    match access.allows(peer.as_ref(), &method).await {
        Ok(()) => next.run(request).await,
        Err(refused) => (StatusCode::FORBIDDEN, refused).into_response(),
    }
}

/// The window that rates in an answer are over, in seconds.
const WINDOW: &str = "x-pilothouse-window";

async fn summary(State(context): State<Arc<Context>>) -> Response {
    let (document, window) = context.statistics.summary().await;
    ([(WINDOW, window.as_secs_f64().to_string())], axum::Json(document)).into_response()
}

async fn resource_metrics(State(context): State<Arc<Context>>) -> Response {
    let text = context.statistics.resource_metrics().await;
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response()
}

async fn container_logs(
    State(context): State<Arc<Context>>,
    Path((namespace, pod, container)): Path<(String, String, String)>,
    Query(wanted): Query<Wanted>,
) -> Response {
    let key = ObjectKey::namespaced(namespace, pod);
    let not_found = |text: String| (StatusCode::NOT_FOUND, text).into_response();
    let bad = |text: String| (StatusCode::BAD_REQUEST, text).into_response();
    let Some(local) = context.pods.locals_of(&key).into_iter().next() else {
        return not_found(format!("pod {key} is not on this node"));
    };
    let pod = local.record().name;
    let previous = || format!("previous terminated container \"{container}\" in pod \"{pod}\" not found");
    let Some(known) = local.state().containers.get(&container).cloned() else {
        let reason = local.waiting_reason(&container).unwrap_or_else(|| "ContainerCreating".to_owned());
        return bad(match wanted.previous {
            true => previous(),
            false => format!("container \"{container}\" in pod \"{pod}\" is waiting to start: {reason}"),
        });
    };
    let attempt = match (wanted.previous, known.attempt.checked_sub(1)) {
        (false, _) => known.attempt,
        (true, Some(previous)) => previous,
        (true, None) => return bad(previous()),
    };
    if !logs::path(&local.folder, &container, attempt).exists() {
        return not_found(format!("container {container} of pod {key} has no log"));
    }
    let path = logs::path(&local.folder, &container, attempt);
    let writer = Writer::Container { sandbox: local.sandbox(), name: container, attempt };
    printed(Reader { path, writer, wanted, now: context.pods.now() }, &context.tasks)
}

/// A log, as it is read.
pub(crate) fn printed(reader: Reader, tasks: &Tasks) -> Response {
    ([(CONTENT_TYPE, "text/plain")], Body::from_stream(reader.stream(tasks))).into_response()
}

/// The names in a path, and what follows the question mark.
type Asked = (Path<(String, String, String)>, RawQuery);

async fn exec(State(context): State<Arc<Context>>, (path, query): Asked, request: Request) -> Response {
    let command: Vec<_> =
        parameters(&query).filter(|(name, _)| name == "command").map(|(_, value)| value).collect();
    if command.is_empty() {
        return (StatusCode::BAD_REQUEST, "you must specify a command").into_response();
    }
    visit(&context, path, &query, Some(command), request)
}

async fn attach(State(context): State<Arc<Context>>, (path, query): Asked, request: Request) -> Response {
    visit(&context, path, &query, None, request)
}

fn visit(
    context: &Context,
    Path((namespace, pod, container)): Path<(String, String, String)>,
    query: &RawQuery,
    command: Option<Vec<String>>,
    request: Request,
) -> Response {
    let local = match running(context, ObjectKey::namespaced(namespace, pod)) {
        Ok(local) => local,
        Err(refused) => return refused,
    };
    if !local.state().containers.get(&container).is_some_and(|state| state.is_running()) {
        let why = format!("container not found (\"{container}\")");
        return (StatusCode::INTERNAL_SERVER_ERROR, why).into_response();
    }
    let has = |wanted: &str| parameters(query).any(|(name, value)| name == wanted && value == "1");
    let terminal = has("tty");
    // A terminal has one output.
    let streams = Streams { stdin: has("input"), stdout: has("output"), stderr: has("error") && !terminal };
    if streams == Streams::default() {
        let why = "you must specify at least 1 of stdin, stdout, stderr";
        return (StatusCode::BAD_REQUEST, why).into_response();
    }
    let name = if command.is_some() { "exec" } else { "attach" };
    let wanted = command::Wanted { container, command, streams, terminal };
    switch(&context.tasks, name, request, upgrade::COMMANDS, async move |protocol, io| {
        let (visitor, seat) = streaming::visit();
        let session = command::run(&local.folder, wanted, visitor);
        match protocol {
            Protocol::WebSocket(_) => {
                websocket::serve(websocket::open(io).await, streams, seat, session).await
            }
            Protocol::Spdy => {
                let (connection, opened) = spdy::Connection::new(io)?;
                let session = async {
                    if let Err(error) = spdy::visit::serve(opened, streams, terminal, seat, session).await {
                        debug!(%error, "a visit ended early");
                    }
                };
                Box::pin(connection.run(session)).await
            }
        }
    })
}

async fn forward(
    State(context): State<Arc<Context>>,
    Path((namespace, pod)): Path<(String, String)>,
    query: RawQuery,
    request: Request,
) -> Response {
    let local = match running(&context, ObjectKey::namespaced(namespace, pod)) {
        Ok(local) => local,
        Err(refused) => return refused,
    };
    forward_to(&context.tasks, &query, request, async move |ports, protocol, io| {
        let record = local.record();
        let door = Door::Pod(&local.folder);
        let place = port_forward::Place { door, pod: &record.name, uid: &record.uid };
        port_forward::over(protocol, place, &ports, io).await
    })
}

/// Leads whoever asks to the ports of a pod.
pub(crate) fn forward_to<S>(
    tasks: &Tasks,
    query: &RawQuery,
    request: Request,
    serve: impl FnOnce(Vec<u16>, Protocol, Io) -> S + Send + 'static,
) -> Response
where
    S: Future<Output = std::io::Result<()>> + Send + 'static,
{
    let ports = parameters(query).filter(|(name, _)| name == "port" || name == "ports");
    let ports: Result<Vec<u16>, _> =
        ports.flat_map(|(_, value)| value.split(',').map(str::parse).collect::<Vec<_>>()).collect();
    let Ok(ports) = ports else {
        return (StatusCode::BAD_REQUEST, "unable to parse the ports to forward").into_response();
    };
    switch(tasks, "port-forward", request, upgrade::PORTS, move |protocol, io| serve(ports, protocol, io))
}

/// The pod, if its first process lives.
#[expect(clippy::result_large_err, reason = "the error is the answer")]
fn running(context: &Context, key: ObjectKey) -> Result<Arc<Local>, Response> {
    let locals = context.pods.locals_of(&key);
    let local = locals.into_iter().find(|local| local.sandbox().is_some());
    local.ok_or_else(|| (StatusCode::NOT_FOUND, "pod does not exist").into_response())
}

fn parameters(RawQuery(query): &RawQuery) -> impl Iterator<Item = (String, String)> {
    url::form_urlencoded::parse(query.as_deref().unwrap_or_default().as_bytes()).into_owned()
}

/// What a connection is once it has been taken over.
pub(crate) type Io = TokioIo<hyper::upgrade::Upgraded>;

/// Agrees on a protocol and goes on in it, in a task that lasts as long as the client stays.
fn switch<S>(
    tasks: &Tasks,
    name: &'static str,
    mut request: Request,
    offered: upgrade::Offered,
    serve: impl FnOnce(Protocol, Io) -> S + Send + 'static,
) -> Response
where
    S: Future<Output = std::io::Result<()>> + Send + 'static,
{
    let (protocol, answer) = match upgrade::agree(request.headers(), offered) {
        Ok(agreed) => agreed,
        Err(refused) => return refused,
    };
    let Some(upgrade) = request.extensions_mut().remove::<OnUpgrade>() else {
        return (StatusCode::BAD_REQUEST, "this connection cannot be taken over").into_response();
    };
    let shutdown = tasks.shutdown().clone();
    tasks.spawn(name, OnExit::Expendable, async move {
        let session = async {
            let io = TokioIo::new(upgrade.await?);
            // Clients come and go as they like.
            if let Err(error) = serve(protocol, io).await {
                debug!(%error, session = name, "a session ended early");
            }
            Ok(())
        };
        tokio::select! {
            ended = session => ended,
            () = shutdown.requested() => Ok(()),
        }
    });
    answer
}
