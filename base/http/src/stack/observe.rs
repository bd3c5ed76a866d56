//! One context, one span, one access log line and one set of numbers per request.
//!
//! The line is written when the response's body has been sent or dropped, since only then its length is known. It holds
//! the route's template and not the path, and nothing of the query: both can carry names and secrets of users.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Poll, ready};

use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use bytes::Bytes;
use http::{HeaderValue, StatusCode};
use hyper::body::{Body as _, Frame, SizeHint};
use tokio::time::Instant;
use tracing::{Instrument as _, Span, info, info_span};

use super::Stack;
use crate::callers::Peer;
use crate::context::{Context, REQUEST_ID};
use crate::metrics::{InFlight, Method, Route};

pub(super) async fn observe(State(stack): State<Arc<Stack>>, mut request: Request, next: Next) -> Response {
    let began = Instant::now();
    let in_flight = stack.metrics.began();
    let context = Context::of_request(request.headers(), stack.time_limit);
    let route = Route::matched(request.extensions().get::<MatchedPath>());
    let method = request.method().clone();
    let peer = request.extensions().get::<Peer>();
    let span = info_span!(
        "request",
        request = context.request_id(),
        correlation = context.correlation_id(),
        client_request = context.client_request_id(),
        peer = peer.and_then(Peer::identity).map(tracing::field::display),
    );
    request.extensions_mut().insert(context.clone());

    let mut response = next.run(request).instrument(span.clone()).await;

    // A handler that does its own routing knows better than the router.
    let route = response.extensions().get::<Route>().cloned().unwrap_or(route);
    let status = response.status();
    stack.metrics.answered(Method::from(&method), route.clone(), status, began.elapsed().as_secs_f64());
    if let Ok(value) = HeaderValue::from_str(context.request_id()) {
        response.headers_mut().insert(REQUEST_ID, value);
    }
    let entry = Entry {
        span,
        method,
        route,
        status,
        began,
        bytes: 0,
        complete: response.body().is_end_stream(),
        _in_flight: in_flight,
    };
    response.map(|inner| Body::new(Observed { inner, entry }))
}

/// The access log line, written when dropped.
struct Entry {
    span: Span,
    method: http::Method,
    route: Route,
    status: StatusCode,
    began: Instant,
    bytes: u64,
    complete: bool,
    _in_flight: InFlight,
}

impl Drop for Entry {
    fn drop(&mut self) {
        info!(
            parent: &self.span,
            method = %self.method,
            route = self.route.as_str(),
            status = self.status.as_u16(),
            seconds = self.began.elapsed().as_secs_f64(),
            bytes = self.bytes,
            complete = self.complete,
            "answered"
        );
    }
}

struct Observed {
    inner: Body,
    entry: Entry,
}

impl hyper::body::Body for Observed {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.inner).poll_frame(context));
        match &frame {
            Some(Ok(frame)) => self.entry.bytes += frame.data_ref().map_or(0, |data| data.len() as u64),
            Some(Err(_)) => {}
            None => self.entry.complete = true,
        }
        // Whoever knows the length stops asking at it, and never sees the end.
        if self.inner.is_end_stream() {
            self.entry.complete = true;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
