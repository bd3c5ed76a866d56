//! What a record says when an action failed.

use std::time::Duration;

use jiff::Timestamp;
use pilothouse_arm::Failure;
use pilothouse_clusters_service_api::ClusterState;

use super::{Action, plus};
use crate::config::Deadlines;
use crate::record::ClusterRecord;

/// Where in the flow something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Cloud,
    Post,
    Delete,
}

impl Step {
    pub(crate) fn of(action: &Action) -> Self {
        match action {
            Action::PrepareCloud | Action::RestoreCloud => Self::Cloud,
            Action::Create(_) | Action::Update(..) => Self::Post,
            Action::DeleteBundle(_)
            | Action::DeleteCloud
            | Action::RemoveNodePool(_)
            | Action::RemoveCredential(_)
            | Action::RemoveCluster => Self::Delete,
        }
    }

    fn number(self) -> u8 {
        match self {
            Self::Cloud => 5,
            Self::Post | Self::Delete => 6,
        }
    }

    fn code(self) -> &'static str {
        match self {
            Self::Cloud => "CloudResourcesFailed",
            Self::Post => "ManifestsNotPosted",
            Self::Delete => "DeletionFailed",
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Cloud => "preparing the cloud resources",
            Self::Post => "posting the manifests to Maestro",
            Self::Delete => "deleting",
        }
    }

    fn remedy(self) -> &'static str {
        match self {
            Self::Cloud => {
                "check that the cloud's resource manager answers and accepts the managed resource group"
            }
            Self::Post => "check that the Maestro server is up and knows the management cluster",
            Self::Delete => {
                "check the cloud's resource manager and the Maestro server; it is tried again by itself"
            }
        }
    }

    fn deadline(self, deadlines: &Deadlines) -> Duration {
        match self {
            Self::Cloud => deadlines.cloud.0,
            Self::Post => deadlines.install.0,
            Self::Delete => deadlines.delete.0,
        }
    }
}

/// The cluster after something of the customer's was found to be wrong, which waiting does not mend.
pub(crate) fn after_failed_check(mut record: ClusterRecord, observed: &str, now: Timestamp) -> ClusterRecord {
    let failure = Failure {
        step: Step::Cloud.number(),
        component: "services/clusters-service".to_owned(),
        object: format!("cluster {}", record.cluster.id),
        observed: observed.to_owned(),
        remedy: "delete the cluster and make it with a managed resource group that nobody has".to_owned(),
    };
    record.fail_checks(observed, failure.to_string(), now);
    record
}

/// The cluster after an action failed: it says what was tried and what came of it, and is in error once the step's
/// deadline has passed. Deletion has no such end: there is nothing to fall back to.
pub(crate) fn after_failure(
    mut record: ClusterRecord,
    step: Step,
    observed: &str,
    deadlines: &Deadlines,
    now: Timestamp,
) -> ClusterRecord {
    let since = record.since;
    let overdue = now >= plus(since, step.deadline(deadlines));
    let failure = Failure {
        step: step.number(),
        component: "services/clusters-service".to_owned(),
        object: format!("cluster {}", record.cluster.id),
        observed: observed.to_owned(),
        remedy: step.remedy().to_owned(),
    };
    if record.cluster.state == ClusterState::Ready {
        // It was made; that something further cannot be posted now does not unmake it.
        record.describe(format!("it was ready before; {} failed: {observed}", step.words()));
    } else if step == Step::Delete && record.deletion.is_none() {
        // Something of it is to go, such as a node pool or what a credential was signed with; the cluster itself stays,
        // and so does what was said of it in error.
        record.describe(format!("removing what is not needed any more failed; trying again: {observed}"));
    } else if step == Step::Delete {
        let late = if overdue { "overdue; " } else { "" };
        record.enter(ClusterState::Uninstalling, format!("{late}{failure}"), now);
        record.since = since;
    } else if overdue {
        record.fail(step.code(), failure.to_string());
    } else {
        record.describe(format!("step {}: {}; trying again: {observed}", step.number(), step.words()));
    }
    record
}
