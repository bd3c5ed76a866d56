//! What an engine keeps at hand whose every writer is in this process: documents that were read lately, and the newest
//! changes. Its one writer says before and after every commit what becomes of them.

use std::sync::Arc;

use crate::engine::{Maintenance, State};
use crate::plan::Plan;

mod present;
mod recent;

pub(crate) use present::{Changing, Present};
pub(crate) use recent::Recent;

/// A cheap handle.
#[derive(Clone, Debug)]
pub(crate) struct AtHand {
    pub(crate) present: Arc<Present>,
    pub(crate) recent: Arc<Recent>,
}

/// A commit under way. Dropped without [`Committing::done`], it may or may not have taken place.
#[derive(Debug)]
#[must_use]
pub(crate) struct Committing {
    changing: Changing,
    recent: Arc<Recent>,
    outcome_is_known: bool,
}

impl AtHand {
    pub(crate) fn new() -> Self {
        Self { present: Present::new(), recent: Arc::default() }
    }

    /// A plan is about to be committed.
    pub(crate) fn committing(&self, plan: &Plan) -> Committing {
        self.recent.committing();
        let changing = self.present.changing(plan.versions.iter().map(|version| &version.key));
        Committing { changing, recent: self.recent.clone(), outcome_is_known: false }
    }

    /// The database is about to be maintained.
    pub(crate) fn maintaining(&self, maintenance: &Maintenance) -> Option<Changing> {
        // What becomes of the history is not followed here; a mark only adds to it.
        if !matches!(maintenance, Maintenance::Mark { .. }) {
            self.recent.forget();
        }
        // All else leaves the present documents as they are.
        matches!(maintenance, Maintenance::Reseal { .. }).then(|| self.present.changing_all())
    }
}

impl Committing {
    /// It is durable. `before` is where the store stood.
    pub(crate) fn done(mut self, before: State, plan: &Plan) {
        self.recent.committed(before, plan, |key| self.changing.former(key).cloned());
        self.changing.replace(plan.versions.iter().filter_map(|version| version.document()));
        self.outcome_is_known = true;
    }
}

impl Drop for Committing {
    fn drop(&mut self) {
        if !self.outcome_is_known {
            self.recent.forget();
        }
    }
}
