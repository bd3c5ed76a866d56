//! Whether a cluster answers, as seen by everybody who asks it something.
//!
//! Nobody asks for this alone: an operator keeps a dozen watches, and each of them comes back again and again when it is cut
//! off. What the last request met is what is known.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use pilothouse_http::{Health, Verdict};
use pilothouse_runtime::{Chain, fault};
use tracing::{error, info};

/// What a cluster's clients met when they last asked it. A cheap handle.
#[derive(Clone, Debug, Default)]
pub struct Reachability {
    trouble: Arc<Mutex<Option<String>>>,
}

// === impl Reachability ===

impl Reachability {
    /// What the last request met instead of an answer.
    pub fn trouble(&self) -> Option<String> {
        self.lock().clone()
    }

    /// A client that takes note of how each of its requests ends, and says so when that is another way than before.
    pub(crate) fn of(&self, client: Client) -> Client {
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
                        error!(trouble, "nothing can be done until the management cluster is back")
                    }
                    (Some(_), None) => info!("the management cluster is back"),
                    _ => {}
                }
                outcome
            }
        });
        Client::new(noting, namespace)
    }

    /// The same where the cluster is a part of this process, which says itself what becomes of it.
    pub(crate) fn of_part(&self, client: Client) -> Client {
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

    /// Has a page of health say whether the cluster answers, and how bad it is if it does not.
    pub fn report(&self, health: &Health, check: &str, without: fn(String) -> Verdict) {
        let seen = self.clone();
        health.register(check, move || match seen.trouble() {
            None => Verdict::ready("the management cluster answers"),
            Some(trouble) => without(trouble),
        });
    }

    /// What was in the way before, and what is now.
    fn note<B>(&self, outcome: &Result<Response<B>, kube::Error>) -> (Option<String>, Option<String>) {
        let trouble = match outcome {
            Ok(answer) if answer.status().is_server_error() => {
                Some(format!("the management cluster answers {}", answer.status()))
            }
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

    fn answer(status: StatusCode) -> Result<Response<()>, kube::Error> {
        let mut answer = Response::new(());
        *answer.status_mut() = status;
        Ok(answer)
    }

    #[test]
    fn the_last_request_counts() {
        let reachability = Reachability::default();
        assert_eq!(reachability.trouble(), None);
        let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
        reachability.note::<()>(&Err(kube::Error::Service(refused.into())));
        assert!(reachability.trouble().is_some_and(|trouble| trouble.contains("connection refused")));
        reachability.note(&answer(StatusCode::SERVICE_UNAVAILABLE));
        assert!(reachability.trouble().is_some_and(|trouble| trouble.contains("503")));
        // A refusal is an answer.
        reachability.note(&answer(StatusCode::FORBIDDEN));
        assert_eq!(reachability.trouble(), None);
    }
}
