//! Calls to the API server, and which of its answers are only news.

use std::fmt::Display;
use std::future::Future;
use std::sync::LazyLock;

use kube::api::{PatchParams, PostParams};
use kube::core::response::Status;

/// Who the server notes as the author of what is written.
const MANAGER: &str = "pilothouse-controllers";

/// For everything that is created or replaced.
pub(crate) static POST: LazyLock<PostParams> =
    LazyLock::new(|| PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() });

/// For everything that is patched.
pub(crate) static PATCH: LazyLock<PatchParams> =
    LazyLock::new(|| PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() });

/// A call that failed in a way that the next pass may not mend by itself.
#[derive(Debug, thiserror::Error)]
#[error("cannot {what}: {why}")]
pub(crate) struct CallError {
    what: String,
    why: String,
}

/// Makes a call whose object may have changed or vanished meanwhile. That is `None`: the event that says so wakes the
/// pass again.
pub(crate) async fn tolerant<T>(
    what: impl Display,
    call: impl Future<Output = kube::Result<T>>,
) -> Result<Option<T>, CallError> {
    match call.await {
        Ok(answer) => Ok(Some(answer)),
        Err(kube::Error::Api(status)) if is_news(&status) => {
            tracing::debug!(%what, answer = status.message, "overtaken by events");
            Ok(None)
        }
        Err(error) => Err(CallError::new(what, &error)),
    }
}

/// Makes a call that has to succeed.
pub(crate) async fn required<T>(
    what: impl Display,
    call: impl Future<Output = kube::Result<T>>,
) -> Result<T, CallError> {
    call.await.map_err(|error| CallError::new(what, &error))
}

/// Not found, changed, already there, or in a namespace that is on its way out.
fn is_news(status: &Status) -> bool {
    status.is_not_found()
        || status.is_conflict()
        || status.is_already_exists()
        || (status.is_forbidden() && is_terminating(status))
}

fn is_terminating(status: &Status) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    status.message.contains("being terminated")
        || causes.into_iter().any(|cause| cause.reason == "NamespaceTerminating")
}

impl CallError {
    fn new(what: impl Display, error: &kube::Error) -> Self {
        // The client's own text repeats its causes, and an answer's debug form.
        let why = match error {
            kube::Error::Api(status) => status.message.clone(),
            other => other.to_string(),
        };
        Self { what: what.to_string(), why }
    }
}
