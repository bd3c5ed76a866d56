//! Which pods of a job are made and deleted.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1::Pod;

use super::{CREATED, Plan, Tally, delay, is_indexed, number, remaining};
use crate::job::pods::{self, Order, Verdict};

impl Tally {
    /// Decides which pods are made and deleted.
    pub(super) fn arrange(
        &self,
        job: &Job,
        spec: &JobSpec,
        suspended: bool,
        now: Timestamp,
        plan: &mut Plan,
    ) {
        if suspended {
            plan.delete.clone_from(&self.active);
            return;
        }
        let parallelism = spec.parallelism.unwrap_or(1).max(0);
        let succeeded = self.succeeded(spec);
        let wanted = match spec.completions {
            None if succeeded > 0 => number(self.active.len()),
            None => parallelism,
            Some(completions) => {
                (completions - succeeded - self.failed_indexes.len()).min(parallelism).max(0)
            }
        };
        let wanted = usize::try_from(wanted).unwrap_or(0);
        let (mut keep, mut surplus) = (self.active.clone(), Vec::new());
        if is_indexed(spec) {
            (keep, surplus) = self.one_per_index(spec);
        }
        if keep.len() > wanted {
            pods::least_missed_first(&mut keep);
            surplus.extend(keep.drain(..keep.len() - wanted));
        }
        plan.delete = surplus;
        let ending = if pods::replaces_only_failed(job) { self.terminating.len() } else { 0 };
        let missing = wanted.saturating_sub(keep.len() + ending).min(CREATED);
        if missing == 0 {
            return;
        }
        if spec.backoff_limit_per_index.is_none() {
            let rest = self.remaining_delay(now);
            if !rest.is_zero() {
                plan.wait(Some(rest));
                return;
            }
        }
        if is_indexed(spec) {
            self.order_indexes(job, spec, &keep, missing, now, plan);
        } else {
            plan.create = vec![Order::default(); missing];
        }
    }

    /// Active pods to keep, and those that work on an index that is done or taken.
    fn one_per_index(&self, spec: &JobSpec) -> (Vec<Arc<Pod>>, Vec<Arc<Pod>>) {
        let mut sorted = self.active.clone();
        pods::least_missed_first(&mut sorted);
        sorted.reverse();
        let mut taken = HashSet::new();
        let end = spec.completions.unwrap_or(0);
        sorted.into_iter().partition(|pod| {
            pods::index_of(pod).is_some_and(|index| {
                let open = !self.succeeded_indexes.contains(index) && !self.failed_indexes.contains(index);
                index < end && open && taken.insert(index)
            })
        })
    }

    fn order_indexes(
        &self,
        job: &Job,
        spec: &JobSpec,
        keep: &[Arc<Pod>],
        missing: usize,
        now: Timestamp,
        plan: &mut Plan,
    ) {
        let mut taken: HashSet<i32> = keep.iter().filter_map(|pod| pods::index_of(pod)).collect();
        if pods::replaces_only_failed(job) {
            taken.extend(self.terminating.iter().filter_map(|pod| pods::index_of(pod)));
        }
        let last =
            if spec.backoff_limit_per_index.is_some() { self.last_failures() } else { BTreeMap::new() };
        for index in 0..spec.completions.unwrap_or(0) {
            if plan.create.len() >= missing {
                return;
            }
            let over = self.succeeded_indexes.contains(index) || self.failed_indexes.contains(index);
            if over || taken.contains(&index) {
                continue;
            }
            let mut order = Order { index: Some(index), failures: None };
            if spec.backoff_limit_per_index.is_some() {
                let mut failures = 0;
                if let Some(pod) = last.get(&index) {
                    let ignored = pods::judge(job, pod) == Verdict::Ignore;
                    failures = pods::failures_of(pod) + i32::from(!ignored);
                    let since = pods::finished_at(pod, now);
                    let rest = remaining(delay(u32::try_from(failures).unwrap_or(0)), since, now);
                    if !rest.is_zero() && failures > 0 {
                        plan.wait(Some(rest));
                        continue;
                    }
                }
                order.failures = Some(failures);
            }
            plan.create.push(order);
        }
    }

    /// The last failed pod of each index.
    pub(super) fn last_failures(&self) -> BTreeMap<i32, &Arc<Pod>> {
        let mut last: BTreeMap<i32, &Arc<Pod>> = BTreeMap::new();
        for pod in &self.new_failed {
            let Some(index) = pods::index_of(pod) else { continue };
            let newer =
                last.get(&index).is_none_or(|other| pods::failures_of(other) <= pods::failures_of(pod));
            if newer {
                last.insert(index, pod);
            }
        }
        last
    }

    /// How long to wait before the next pod, after failures in a row.
    fn remaining_delay(&self, now: Timestamp) -> Duration {
        let last_success = self.succeeded_pods.iter().map(|pod| pods::finished_at(pod, now)).max();
        let failures: Vec<_> = self
            .failed_pods
            .iter()
            .map(|pod| pods::finished_at(pod, now))
            .filter(|at| last_success.is_none_or(|success| *at > success))
            .collect();
        let Some(since) = failures.iter().max() else { return Duration::ZERO };
        remaining(delay(u32::try_from(failures.len()).unwrap_or(u32::MAX)), *since, now)
    }
}
