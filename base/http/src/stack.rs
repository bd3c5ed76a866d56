//! What surrounds every router.
//!
//! From the outside in:
//!
//! 1. *observe*: gives the request its [`Context`], opens its span, and writes one access log line when the response has
//!    been sent or given up;
//! 2. *panics* become an answer with the request id and nothing of the inside;
//! 3. the *time limit* covers the handler until it has an answer, not the sending of it: a watch may stream for hours;
//! 4. the *body limit* covers everything a handler can read, whether the length was announced or not.
//!
//! They are applied with [`Router::layer`], so they run after routing and know the route's template.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use futures::FutureExt as _;
use http::StatusCode;
use tracing::error;

use crate::context::Context;
use crate::metrics::Metrics;
use crate::problem::Problem;

mod limit;
mod observe;

/// What surrounds every router, with its limits.
#[derive(Clone, Debug)]
pub struct Stack {
    metrics: Metrics,
    body_limit: u64,
    time_limit: Duration,
}

impl Stack {
    /// Bodies of up to 4 MiB and answers within 30 seconds.
    pub fn new(metrics: Metrics) -> Self {
        Self { metrics, body_limit: 4 << 20, time_limit: Duration::from_secs(30) }
    }

    /// How many bytes a request's body may have.
    pub fn with_body_limit(mut self, bytes: u64) -> Self {
        self.body_limit = bytes;
        self
    }

    /// How long a handler may take to come up with an answer.
    pub fn with_time_limit(mut self, limit: Duration) -> Self {
        self.time_limit = limit;
        self
    }

    /// The router with everything around it.
    pub fn around(self, router: Router) -> Router {
        let stack = Arc::new(self);
        // The layer added last is the outermost.
        router
            .layer(from_fn_with_state(Arc::clone(&stack), limit::body))
            .layer(from_fn_with_state(Arc::clone(&stack), time))
            .layer(from_fn_with_state(Arc::clone(&stack), panics))
            .layer(from_fn_with_state(stack, observe::observe))
    }
}

async fn time(State(stack): State<Arc<Stack>>, request: Request, next: Next) -> Response {
    match tokio::time::timeout(stack.time_limit, next.run(request)).await {
        Ok(response) => response,
        Err(_) => Problem::new(
            StatusCode::GATEWAY_TIMEOUT,
            "RequestTimedOut",
            format!("the request was not answered within {} s", stack.time_limit.as_secs_f64()),
        )
        .into_response(),
    }
}

async fn panics(State(_): State<Arc<Stack>>, request: Request, next: Next) -> Response {
    let request_id = request
        .extensions()
        .get::<Context>()
        .map(|context| context.request_id().to_owned())
        .unwrap_or_default();
    // The handler is dropped right after a panic, so nothing sees it half-way.
    match AssertUnwindSafe(next.run(request)).catch_unwind().await {
        Ok(response) => response,
        Err(payload) => {
            error!(error = message(payload.as_ref()), "a handler panicked");
            Problem::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "InternalServerError",
                format!("the request failed for a reason that was recorded; its id is {request_id}"),
            )
            .into_response()
        }
    }
}

fn message(payload: &(dyn Any + Send)) -> &str {
    match (payload.downcast_ref::<&str>(), payload.downcast_ref::<String>()) {
        (Some(text), _) => text,
        (_, Some(text)) => text,
        _ => "without a message",
    }
}
