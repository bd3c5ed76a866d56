//! The limit on request bodies.
//!
//! A handler that runs into the limit sees a read error and answers as it sees fit, often with plain text or with a
//! complaint about broken JSON. So the body remembers that it was cut, and the answer is replaced by one that says why.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use axum::body::{Body, HttpBody as _};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use http::StatusCode;
use hyper::body::{Frame, SizeHint};

use super::Stack;
use crate::problem::Problem;

pub(super) async fn body(State(stack): State<Arc<Stack>>, request: Request, next: Next) -> Response {
    let limit = stack.body_limit;
    if request.body().size_hint().lower() > limit {
        return too_large(limit);
    }
    let exceeded = Arc::new(AtomicBool::new(false));
    let request =
        request.map(|inner| Body::new(Limited { inner, remaining: limit, exceeded: Arc::clone(&exceeded) }));
    let response = next.run(request).await;
    if exceeded.load(Ordering::Acquire) { too_large(limit) } else { response }
}

fn too_large(limit: u64) -> Response {
    Problem::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        "RequestBodyTooLarge",
        format!("the request's body has more than the {limit} bytes that are accepted"),
    )
    .into_response()
}

struct Limited {
    inner: Body,
    remaining: u64,
    exceeded: Arc<AtomicBool>,
}

#[derive(Debug, thiserror::Error)]
#[error("the body is larger than the limit")]
struct Exceeded;

impl hyper::body::Body for Limited {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = std::task::ready!(Pin::new(&mut self.inner).poll_frame(context));
        if let Some(Ok(frame)) = &frame {
            let length = frame.data_ref().map_or(0, |data| data.len() as u64);
            match self.remaining.checked_sub(length) {
                Some(remaining) => self.remaining = remaining,
                None => {
                    self.exceeded.store(true, Ordering::Release);
                    return Poll::Ready(Some(Err(axum::Error::new(Exceeded))));
                }
            }
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
