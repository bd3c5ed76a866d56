use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use pilothouse_runtime::Shutdown;
use serde::Serialize;

/// The named checks behind `/readyz`. A cheap handle, passed to every component that has something to say.
#[derive(Clone)]
pub struct Health {
    checks: Arc<RwLock<BTreeMap<String, Check>>>,
}

type Check = Arc<dyn Fn() -> Verdict + Send + Sync>;

/// What a check found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Verdict {
    status: Status,
    detail: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
enum Status {
    Ready,
    Warning,
    Failed,
}

impl Health {
    /// With one check: a process that is being stopped is not ready, so that nobody sends it new work.
    pub fn new(shutdown: Shutdown) -> Self {
        let health = Self { checks: Arc::default() };
        health.register("shutdown", move || {
            if shutdown.is_requested() {
                Verdict::failed("the process is being stopped")
            } else {
                Verdict::ready("not requested")
            }
        });
        health
    }

    /// Adds a check, or replaces the one of that name. It is called for every look at the page and must not block:
    /// report what a loop last saw, do not go and look.
    pub fn register(&self, name: impl Into<String>, check: impl Fn() -> Verdict + Send + Sync + 'static) {
        self.checks.write().unwrap_or_else(PoisonError::into_inner).insert(name.into(), Arc::new(check));
    }

    /// Takes a check away: there is nothing any more that it could say something about.
    pub fn withdraw(&self, name: &str) {
        self.checks.write().unwrap_or_else(PoisonError::into_inner).remove(name);
    }

    /// Runs one check; `None` if there is none by that name.
    pub fn verdict(&self, name: &str) -> Option<Verdict> {
        let check = self.checks.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
        check.map(|check| check())
    }

    /// Runs all checks, in order of their names.
    pub fn verdicts(&self) -> BTreeMap<String, Verdict> {
        // Copied out first: a check may itself register one.
        let checks = self.checks.read().unwrap_or_else(PoisonError::into_inner).clone();
        checks.into_iter().map(|(name, check)| (name, check())).collect()
    }

    /// Whether no check fails.
    pub fn is_ready(&self) -> bool {
        self.verdicts().values().all(Verdict::is_ready)
    }
}

impl fmt::Debug for Health {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let checks = self.checks.read().unwrap_or_else(PoisonError::into_inner);
        formatter.debug_set().entries(checks.keys()).finish()
    }
}

impl Verdict {
    /// All is well.
    pub fn ready(detail: impl Into<String>) -> Self {
        Self { status: Status::Ready, detail: detail.into() }
    }

    /// It works, but somebody should look.
    pub fn warning(detail: impl Into<String>) -> Self {
        Self { status: Status::Warning, detail: detail.into() }
    }

    /// It does not work.
    pub fn failed(detail: impl Into<String>) -> Self {
        Self { status: Status::Failed, detail: detail.into() }
    }

    /// Whether the component can do its work, with a warning or without.
    pub fn is_ready(&self) -> bool {
        self.status != Status::Failed
    }

    /// What was found, for people.
    pub fn detail(&self) -> &str {
        &self.detail
    }
}

/// As in the pages of Kubernetes: `+` works, `!` works with a warning, `-` does not.
impl fmt::Display for Verdict {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = match self.status {
            Status::Ready => '+',
            Status::Warning => '!',
            Status::Failed => '-',
        };
        write!(formatter, "[{sign}] {}", self.detail)
    }
}
