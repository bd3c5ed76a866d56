//! Whether a cluster answers, as seen by everybody who asks it something.
//!
//! Nobody asks for this alone: an operator keeps a dozen watches, and each of them comes back again and again when it is cut
//! off. What the last request met is what is known.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use pilothouse_runtime::{Chain, fault};
use tracing::{error, info};

/// What a management cluster's clients met when they last asked it. A cheap handle.
#[derive(Clone, Debug, Default)]
pub struct Reachability {
    /// What it is called, where there are several.
    name: Option<Arc<str>>,
    trouble: Arc<Mutex<Option<String>>>,
}

// === impl Reachability ===

impl Reachability {
    /// Of one of several.
    pub fn named(name: &str) -> Self {
        Self { name: Some(name.into()), ..Self::default() }
    }

    /// What the last request met instead of an answer.
    pub fn trouble(&self) -> Option<String> {
        self.lock().clone()
    }

    /// A client that takes note of how each of its requests ends, and says so when that is another way than before. Its writes are
    /// points at which a test may kill the process.
    #[must_use]
    pub fn of(&self, client: Client) -> Client {
        let (seen, namespace) = (self.clone(), client.default_namespace().to_owned());
        let noting = tower::service_fn(move |request: Request<Body>| {
            let (seen, client) = (seen.clone(), client.clone());
            async move {
                let (method, path) = (request.method(), request.uri().path());
                let write = (!method.is_safe()).then(|| fault::Name::kubernetes_write(method.as_str(), path));
                let sent = client.send(request);
                let outcome = match write {
                    Some(write) => fault::around_named(write, sent).await,
                    None => sent.await,
                };
                match seen.note(&outcome) {
                    (None, Some(trouble)) => {
                        let management = seen.name.as_deref();
                        error!(
                            management,
                            trouble, "nothing can be done until the management cluster is back"
                        )
                    }
                    (Some(_), None) => {
                        info!(management = seen.name.as_deref(), "the management cluster is back")
                    }
                    _ => {}
                }
                outcome
            }
        });
        Client::new(noting, namespace)
    }

    /// The same where the cluster is a part of this process, which says itself what becomes of it.
    #[must_use]
    pub fn of_part(&self, client: Client) -> Client {
        let (seen, namespace) = (self.clone(), client.default_namespace().to_owned());
        let noting = tower::service_fn(move |request: Request<Body>| {
            let (seen, client) = (seen.clone(), client.clone());
            async move {
                let outcome = client.send(request).await;
                seen.note(&outcome);
                outcome
            }
        });
        Client::new(noting, namespace)
    }

    /// What was in the way before, and what is now.
    fn note<B>(&self, outcome: &Result<Response<B>, kube::Error>) -> (Option<String>, Option<String>) {
        let trouble = match outcome {
            Ok(answer) if answer.status().is_server_error() => {
                Some(format!("the management cluster answers {}", answer.status()))
            }
            // A refusal is an answer.
            Ok(_) => None,
            Err(error) => Some(format!("the management cluster does not answer: {}", describe(error))),
        };
        let before = std::mem::replace(&mut *self.lock(), trouble.clone());
        (before, trouble)
    }

    fn lock(&self) -> MutexGuard<'_, Option<String>> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The library's errors repeat their causes; what is below the outermost does not.
fn describe(error: &kube::Error) -> String {
    match error {
        kube::Error::Service(cause) => Chain(cause.as_ref()).to_string(),
        kube::Error::HyperError(cause) => Chain(cause).to_string(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use http::StatusCode;

    use super::*;

    #[test]
    fn last_request_counts_and_what_was_before_is_told() {
        let reachability = Reachability::default();
        let note = |outcome: Result<StatusCode, io::ErrorKind>| {
            let answer = |status| {
                let mut answer = Response::new(());
                *answer.status_mut() = status;
                answer
            };
            let lost = |kind| kube::Error::Service(io::Error::from(kind).into());
            reachability.note(&outcome.map(answer).map_err(lost))
        };
        assert_eq!(note(Ok(StatusCode::OK)), (None, None));
        let (before, refused) = note(Err(io::ErrorKind::ConnectionRefused));
        assert!(before.is_none() && refused.as_ref().is_some_and(|told| told.contains("connection refused")));
        let (before, unavailable) = note(Ok(StatusCode::SERVICE_UNAVAILABLE));
        assert!(before == refused && unavailable.as_ref().is_some_and(|told| told.contains("503")));
        assert_eq!(reachability.trouble(), unavailable);
        // A refusal is an answer.
        assert_eq!(note(Ok(StatusCode::FORBIDDEN)), (unavailable, None));
        assert_eq!(reachability.trouble(), None);
    }
}
