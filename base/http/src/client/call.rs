use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;
use tracing::debug;
use url::Url;

use super::Client;
use super::error::{CallError, Failure, shown};
use super::reach;
use super::retry::{asked_delay, is_idempotent, is_passing};
use crate::context::Context;

/// A call being put together. Nothing happens before [`Call::send`].
#[derive(Debug)]
#[must_use = "a call does nothing until it is sent"]
pub struct Call {
    client: Client,
    method: Method,
    url: Url,
    headers: HeaderMap,
    body: Bytes,
    deadline: Instant,
    repeatable: bool,
    streaming: bool,
    /// What could not be encoded is kept until it can be told.
    invalid: bool,
}

/// An answer, whatever its status.
#[derive(Debug)]
pub struct Response {
    inner: reqwest::Response,
    method: Method,
    url: String,
    attempts: u32,
}

impl Call {
    pub(super) fn new(client: Client, method: Method, url: Url) -> Self {
        Self {
            deadline: Instant::now() + client.deadline,
            repeatable: is_idempotent(&method),
            client,
            method,
            url,
            headers: HeaderMap::new(),
            body: Bytes::new(),
            streaming: false,
            invalid: false,
        }
    }

    /// Another deadline than the client's, counted from now.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Instant::now() + deadline;
        self
    }

    /// On behalf of a request: its ids are sent along, and its deadline holds here too if it is earlier.
    pub fn context(mut self, context: &Context) -> Self {
        self.headers.extend(context.headers());
        self.deadline = self.deadline.min(context.deadline());
        self
    }

    /// Adds a header.
    pub fn header(mut self, name: HeaderName, value: &str) -> Self {
        match HeaderValue::from_str(value) {
            Ok(value) => drop(self.headers.insert(name, value)),
            Err(_) => self.invalid = true,
        }
        self
    }

    /// Proves who is asking with a token. It is kept out of every log.
    pub fn bearer(mut self, token: &str) -> Self {
        match HeaderValue::from_str(&format!("Bearer {token}")) {
            Ok(mut value) => {
                value.set_sensitive(true);
                self.headers.insert(AUTHORIZATION, value);
            }
            Err(_) => self.invalid = true,
        }
        self
    }

    /// Sends bytes; say of which kind with [`Call::header`].
    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }

    /// Sends a value as JSON.
    pub fn json(mut self, value: &impl Serialize) -> Self {
        match serde_json::to_vec(value) {
            Ok(body) => {
                self.body = body.into();
                self.headers.entry(CONTENT_TYPE).or_insert(HeaderValue::from_static("application/json"));
            }
            Err(_) => self.invalid = true,
        }
        self
    }

    /// Allows repeating a `POST` or `PATCH` that the peer recognises when it comes twice.
    pub fn idempotent(mut self) -> Self {
        self.repeatable = true;
        self
    }

    /// The deadline covers the answer's headers only: for watches, whose body goes on for as long as both sides like.
    pub fn streaming(mut self) -> Self {
        self.streaming = true;
        self
    }

    /// Sends it, again if need be, until there is an answer or the deadline has passed.
    ///
    /// When a peer that says "not now" asks for more time than is left, its answer is what is given back.
    pub async fn send(self) -> Result<Response, CallError> {
        let mut attempts = 0;
        let mut delays = self.client.policy.delays();
        loop {
            attempts += 1;
            let outcome = self.attempt(attempts).await;
            let asked = match &outcome {
                _ if !self.repeatable => return outcome,
                Ok(answer) if is_passing(answer.status()) => {
                    asked_delay(answer.headers(), self.client.clock.now())
                }
                Ok(_) => return outcome,
                Err(error) if error.failure == Failure::Connect => None,
                Err(_) => return outcome,
            };
            // Not before the peer asked, and not all at once then.
            let Some(delay) = delays.next().map(|delay| delay + asked.unwrap_or_default()) else {
                return outcome;
            };
            if Instant::now() + delay >= self.deadline {
                return outcome;
            }
            debug!(method = %self.method, url = shown(&self.url), attempts, ?delay, "trying again");
            tokio::time::sleep(delay).await;
        }
    }

    async fn attempt(&self, attempts: u32) -> Result<Response, CallError> {
        let failed = |failure, source: Option<reqwest::Error>| CallError {
            method: self.method.clone(),
            url: shown(&self.url),
            attempts,
            failure,
            // Without it: the error's own text would show the query.
            source: source.map(|source| source.without_url().into()),
        };
        if self.client.public_only {
            reach::check(&self.url).map_err(|refused| CallError {
                source: Some(refused.into()),
                ..failed(Failure::Forbidden, None)
            })?;
        }
        if self.invalid {
            return Err(failed(Failure::Invalid, None));
        }
        let mut request = self
            .client
            .inner
            .request(self.method.clone(), self.url.clone())
            .headers(self.headers.clone())
            .body(self.body.clone());
        if !self.streaming {
            // Covers the body too, which is read after this returns.
            request = request.timeout(self.deadline.saturating_duration_since(Instant::now()));
        }
        match tokio::time::timeout_at(self.deadline, request.send()).await {
            Ok(Ok(inner)) => {
                Ok(Response { inner, method: self.method.clone(), url: shown(&self.url), attempts })
            }
            Ok(Err(error)) => Err(failed(failure(&error), Some(error))),
            Err(_) => Err(failed(Failure::Deadline, None)),
        }
    }
}

impl Response {
    /// The status.
    pub fn status(&self) -> StatusCode {
        self.inner.status()
    }

    /// The headers.
    pub fn headers(&self) -> &HeaderMap {
        self.inner.headers()
    }

    /// The protocol it came by.
    pub fn version(&self) -> http::Version {
        self.inner.version()
    }

    /// How many attempts it took.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// The whole body.
    pub async fn bytes(self) -> Result<Bytes, CallError> {
        let Self { inner, method, url, attempts } = self;
        inner.bytes().await.map_err(|error| CallError {
            method,
            url,
            attempts,
            failure: failure(&error),
            source: Some(error.without_url().into()),
        })
    }

    /// The whole body, read as JSON.
    pub async fn json<T: DeserializeOwned>(self) -> Result<T, CallError> {
        let Self { inner, method, url, attempts } = self;
        inner.json().await.map_err(|error| CallError {
            method,
            url,
            attempts,
            failure: if error.is_decode() { Failure::Unreadable } else { failure(&error) },
            source: Some(error.without_url().into()),
        })
    }

    /// The next piece of the body; `None` at its end.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, CallError> {
        self.inner.chunk().await.map_err(|error| CallError {
            method: self.method.clone(),
            url: self.url.clone(),
            attempts: self.attempts,
            failure: failure(&error),
            source: Some(error.without_url().into()),
        })
    }
}

fn failure(error: &reqwest::Error) -> Failure {
    if error.is_connect() {
        Failure::Connect
    } else if error.is_timeout() {
        Failure::Deadline
    } else if error.is_builder() {
        Failure::Invalid
    } else {
        Failure::Broken
    }
}
