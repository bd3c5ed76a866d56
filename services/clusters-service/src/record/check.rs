//! What of the customer's is looked at before a cluster is made.
//!
//! A check that fails is the customer's to mend, and waiting does not help: the cluster is in error at once, and the
//! resource provider shows what the check says.

use jiff::Timestamp;
use pilothouse_clusters_service_api::{Cluster, InflightCheck, InflightCheckState};
use serde_json::{Value, json};

use super::ClusterRecord;

/// That the managed resource group is free, or this cluster's already.
const MANAGED_RESOURCE_GROUP: &str = "managed_resource_group";
/// The code of a cluster whose checks have failed; what they say is asked for by whoever sees it.
pub(crate) const CHECKS_FAILED: &str = "OCM4001";

impl ClusterRecord {
    /// Begins to look at what the customer brought, unless that was begun before.
    pub(crate) fn begin_checks(&mut self, now: Timestamp) {
        if self.checks.is_empty() {
            let check = new(&self.cluster, MANAGED_RESOURCE_GROUP, now);
            self.checks.push(check);
        }
    }

    /// All is well with what the customer brought.
    pub(crate) fn pass_checks(&mut self, now: Timestamp) {
        for check in &mut self.checks {
            if check.state != InflightCheckState::Passed {
                (check.state, check.ended_at) = (InflightCheckState::Passed, Some(now));
                check.details = Value::Null;
            }
        }
    }

    /// The managed resource group is somebody else's: the cluster is in error with what to do, and says so once.
    pub(crate) fn fail_checks(&mut self, error: &str, message: String, now: Timestamp) {
        self.begin_checks(now);
        let details = json!({"error": error});
        for check in self.checks.iter_mut().filter(|check| check.name == MANAGED_RESOURCE_GROUP) {
            if check.state != InflightCheckState::Failed || check.details != details {
                (check.state, check.ended_at) = (InflightCheckState::Failed, Some(now));
                check.details.clone_from(&details);
            }
        }
        self.fail(CHECKS_FAILED, message);
    }
}

fn new(cluster: &Cluster, name: &str, now: Timestamp) -> InflightCheck {
    InflightCheck {
        kind: "InflightCheck".to_owned(),
        id: name.to_owned(),
        href: format!("{}/inflight_checks/{name}", cluster.href),
        name: name.to_owned(),
        state: InflightCheckState::Running,
        started_at: Some(now),
        ..InflightCheck::default()
    }
}
