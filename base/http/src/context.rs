use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::time::Instant;
use uuid::Uuid;

pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
pub(crate) const CORRELATION_ID: HeaderName = HeaderName::from_static("x-ms-correlation-request-id");
pub(crate) const CLIENT_REQUEST_ID: HeaderName = HeaderName::from_static("x-ms-client-request-id");

/// The longest id taken over from a caller. A UUID has 36 characters; some callers add a prefix.
const LONGEST: usize = 128;

/// What travels with a piece of work: which request it belongs to, and by when it has to be done.
///
/// A request extension of every handler behind a [`Stack`](crate::Stack), and passed on by
/// [`Call::context`](crate::Call::context), so that one id follows a request through every process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Context {
    request_id: String,
    correlation_id: Option<String>,
    client_request_id: Option<String>,
    deadline: Instant,
}

impl Context {
    /// A context for work that nobody asked for over HTTP, such as a reconcile pass.
    pub fn new(limit: Duration) -> Self {
        Self {
            request_id: Uuid::now_v7().to_string(),
            correlation_id: None,
            client_request_id: None,
            deadline: Instant::now() + limit,
        }
    }

    /// What a request's headers say. Ids that do not look like ids are ignored: they end up in logs.
    pub(crate) fn of_request(headers: &HeaderMap, limit: Duration) -> Self {
        let sane = |name: &HeaderName| {
            let value = headers.get(name)?.to_str().ok()?;
            let fits = (1..=LONGEST).contains(&value.len())
                && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:/".contains(&byte));
            fits.then(|| value.to_owned())
        };
        let new = Self::new(limit);
        Self {
            request_id: sane(&REQUEST_ID).unwrap_or(new.request_id),
            correlation_id: sane(&CORRELATION_ID),
            client_request_id: sane(&CLIENT_REQUEST_ID),
            deadline: new.deadline,
        }
    }

    /// The same work for the same request, under a correlation id that was stored with it.
    pub fn with_correlation_id(mut self, correlation_id: impl Into<String>) -> Self {
        self.correlation_id = Some(correlation_id.into());
        self
    }

    /// The id of the request, ours or the caller's.
    pub fn request_id(&self) -> &str {
        &self.request_id
    }

    /// The id that ties together all requests of one operation, if the caller sent one.
    pub fn correlation_id(&self) -> Option<&str> {
        self.correlation_id.as_deref()
    }

    /// The id the user's tool gave its request, if any.
    pub fn client_request_id(&self) -> Option<&str> {
        self.client_request_id.as_deref()
    }

    /// By when the work has to be done.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// The headers that carry the context to the next process.
    pub(crate) fn headers(&self) -> impl Iterator<Item = (HeaderName, HeaderValue)> + '_ {
        [
            (REQUEST_ID, Some(self.request_id.as_str())),
            (CORRELATION_ID, self.correlation_id()),
            (CLIENT_REQUEST_ID, self.client_request_id()),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name, HeaderValue::from_str(value?).ok()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(value: &'static str) -> Context {
        let headers = HeaderMap::from_iter([
            (REQUEST_ID, HeaderValue::from_static(value)),
            (CORRELATION_ID, HeaderValue::from_static(value)),
        ]);
        Context::of_request(&headers, Duration::from_secs(1))
    }

    #[tokio::test]
    async fn ids_are_taken_over_only_if_they_could_be_one() {
        let context = of("0194f0c2-7c1a-7000-8000-000000000000");
        assert_eq!(context.request_id(), "0194f0c2-7c1a-7000-8000-000000000000");
        assert_eq!(context.correlation_id(), Some(context.request_id()));
        for odd in ["", "a b", "x\"}", "<script>", "a;b"] {
            let context = of(odd);
            assert_eq!(context.request_id().len(), 36, "`{odd}` was taken over");
            assert_eq!(context.correlation_id(), None);
        }
    }
}
