//! How pods that ended become numbers, once each.

use std::collections::HashSet;
use std::sync::Arc;

use k8s_openapi::api::batch::v1::{Job, JobSpec, JobStatus, UncountedTerminatedPods};
use k8s_openapi::api::core::v1::Pod;

use super::{End, Plan, Tally, UNCOUNTED, is_indexed, number, some, uid};
use crate::job::pods;
use crate::pod;

impl Tally {
    /// Writes the numbers, and decides which pods are held no longer.
    pub(super) fn account(
        &mut self,
        job: &Job,
        spec: &JobSpec,
        all: &[Arc<Pod>],
        end: Option<&End>,
        plan: &mut Plan,
        status: &mut JobStatus,
    ) {
        let held: HashSet<String> = match (spec.backoff_limit_per_index, end) {
            // How often an index failed is known from its last pod, until there is another.
            (Some(_), None) => self.held().into_iter().map(ToOwned::to_owned).collect(),
            _ => HashSet::new(),
        };
        let mut failed = self.new_failed.clone();
        if end.is_some_and(|end| !end.success) {
            // What is stopped has failed.
            let known: HashSet<&str> = failed.iter().map(|pod| uid(pod)).collect();
            let stopped: Vec<_> = all
                .iter()
                .filter(|pod| pods::is_tracked(pod) && !pod::is_finished(pod) && !known.contains(uid(pod)))
                .filter(|pod| !self.waiting_failed.iter().any(|other| other == uid(pod)))
                .cloned()
                .collect();
            failed.extend(stopped);
        }
        let mut left_out: HashSet<String> = HashSet::new();
        let room = |lists: usize| lists < UNCOUNTED;
        for pod in &self.new_succeeded {
            if room(self.waiting_succeeded.len() + self.waiting_failed.len()) {
                self.waiting_succeeded.push(uid(pod).to_owned());
            } else {
                left_out.insert(uid(pod).to_owned());
            }
        }
        for pod in failed.iter().filter(|pod| !held.contains(uid(pod))) {
            if room(self.waiting_succeeded.len() + self.waiting_failed.len()) {
                self.waiting_failed.push(uid(pod).to_owned());
            } else {
                left_out.insert(uid(pod).to_owned());
            }
        }
        plan.release = all
            .iter()
            .filter(|pod| {
                let over = pod::is_finished(pod) || pods::is_failed(job, pod) || end.is_some();
                let kept = held.contains(uid(pod)) || left_out.contains(uid(pod));
                pods::is_tracked(pod) && over && !kept
            })
            .cloned()
            .collect();
        let indexed = is_indexed(spec);
        let counted = if indexed { self.succeeded_indexes.len() } else { self.counted_succeeded };
        status.succeeded = some(counted);
        status.failed = some(self.counted_failed);
        status.completed_indexes = self.succeeded_indexes.to_status().filter(|_| indexed);
        status.failed_indexes = match spec.backoff_limit_per_index {
            Some(_) => Some(self.failed_indexes.to_string()),
            None => None,
        };
        let list = |uids: &[String]| (!uids.is_empty()).then(|| uids.to_vec());
        status.uncounted_terminated_pods = Some(UncountedTerminatedPods {
            succeeded: list(&self.waiting_succeeded),
            failed: list(&self.waiting_failed),
        });
        let deleted: HashSet<&str> = plan.delete.iter().map(|pod| uid(pod)).collect();
        let staying: Vec<_> = self.active.iter().filter(|pod| !deleted.contains(uid(pod))).collect();
        status.active = some(number(staying.len() + plan.create.len()));
        status.ready = Some(number(staying.iter().filter(|pod| pod::is_ready(pod)).count()));
        status.terminating = Some(number(self.terminating.len() + deleted.len()));
    }

    /// Uids of failed pods that no replacement has been made for.
    fn held(&self) -> Vec<&str> {
        let replaced = |index: i32, failures: i32| {
            let by_active =
                |pod: &Arc<Pod>| pods::index_of(pod) == Some(index) && pods::failures_of(pod) >= failures;
            self.active.iter().any(by_active)
        };
        self.last_failures()
            .into_iter()
            .filter(|(index, pod)| {
                let over = self.failed_indexes.contains(*index) || self.succeeded_indexes.contains(*index);
                !over && !replaced(*index, pods::failures_of(pod))
            })
            .map(|(_, pod)| uid(pod))
            .collect()
    }
}
