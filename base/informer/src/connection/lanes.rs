//! Connections that share what a server allows in one of them.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use pilothouse_runtime::fault;
use tower::util::Oneshot;
use tower::{Service, ServiceExt as _};

/// How many requests and watches go on in one connection: what every server of HTTP/2 is asked to allow.
const STREAMS: usize = 100;

/// Clients that each have one connection. The first one with room is taken, and those at the end go when they have nothing left
/// to do. A cheap handle.
pub(super) struct Lanes<C> {
    open: Arc<Open<C>>,
}

struct Open<C> {
    make: Box<dyn Fn() -> C + Send + Sync>,
    lanes: Mutex<Vec<Lane<C>>>,
}

struct Lane<C> {
    client: C,
    /// Everything that goes on in it has a clone.
    token: Arc<()>,
}

/// The body of an answer, which counts as long as it is there.
#[derive(Debug)]
pub struct Streamed {
    body: Incoming,
    _token: Arc<()>,
}

// === impl Lanes ===

impl<C: Clone> Lanes<C> {
    pub(super) fn new(make: impl Fn() -> C + Send + Sync + 'static) -> Self {
        Self { open: Arc::new(Open { make: Box::new(make), lanes: Mutex::default() }) }
    }

    /// A client with room for one more, and what to hold for as long as it goes on.
    fn take(&self) -> (C, Arc<()>) {
        let mut lanes = self.open.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        let room = lanes.iter().position(|lane| lane.streams() < STREAMS).unwrap_or_else(|| {
            lanes.push(Lane { client: (self.open.make)(), token: Arc::default() });
            lanes.len() - 1
        });
        let taken = (lanes[room].client.clone(), lanes[room].token.clone());
        while lanes.len() > room + 1 && lanes.last().is_some_and(|lane| lane.streams() == 0) {
            lanes.pop();
        }
        taken
    }
}

impl<C> Clone for Lanes<C> {
    fn clone(&self) -> Self {
        Self { open: self.open.clone() }
    }
}

impl<C> Lane<C> {
    fn streams(&self) -> usize {
        Arc::strong_count(&self.token) - 1
    }
}

impl<C, B> Service<Request<B>> for Lanes<C>
where
    C: Service<Request<B>, Response = Response<Incoming>> + Clone + Send + 'static,
    C::Future: Send,
    B: Send + 'static,
{
    type Response = Response<Streamed>;
    type Error = C::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, C::Error>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), C::Error>> {
        // Each request has a client of its own, which is waited for with it.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (client, token) = self.take();
        let (method, path) = (request.method(), request.uri().path());
        let write = (!method.is_safe()).then(|| fault::Name::kubernetes_write(method.as_str(), path));
        let answer: Oneshot<C, Request<B>> = client.oneshot(request);
        Box::pin(async move {
            let answer = match write {
                Some(write) => fault::around_named(write, answer).await?,
                None => answer.await?,
            };
            Ok(answer.map(|body| Streamed { body, _token: token }))
        })
    }
}

// === impl Streamed ===

impl Body for Streamed {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connection_that_is_full_gets_a_second_one_beside_it_for_as_long_as_that_is_needed() {
        let made = Arc::new(Mutex::new(0));
        let counter = made.clone();
        let lanes = Lanes::new(move || {
            let mut made = counter.lock().unwrap();
            *made += 1;
            *made
        });
        let mut first: Vec<_> = (0..STREAMS).map(|_| lanes.take()).collect();
        assert!(first.iter().all(|(client, _)| *client == 1));
        let second = lanes.take();
        assert_eq!(second.0, 2);
        first.pop();
        assert_eq!(lanes.take().0, 1, "the first one has room again");
        drop(second);
        first.push(lanes.take());
        assert_eq!(lanes.open.lanes.lock().unwrap().len(), 1, "the second one is no longer needed");
        assert_eq!(*made.lock().unwrap(), 2);
    }
}
