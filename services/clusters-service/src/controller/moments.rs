//! When creations come past their steps, as this replica sees it.
//!
//! What a report says of a step is gone with the next report, and often nothing is written in between. So what was noticed is
//! kept in memory, and goes into the record with the next write that happens anyway. Whoever is killed before has noticed
//! nothing: the moments are for looking at, nothing is decided by them.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use pilothouse_clusters_service_api::{ClusterId, ClusterState, Moments};
use pilothouse_maestro_api::ResourceBundle;

use crate::manifests::{cluster_work_name, managed_cluster_work_name};
use crate::observed::Bundle;
use crate::plan::Plan;
use crate::record::ClusterRecord;

/// 2010-11-04, in milliseconds: where the numbers begin that agents order their reports with.
const EPOCH: i64 = 1_288_834_974_657;
/// How many bits of such a number are below its milliseconds.
const BELOW: u32 = 22;

/// What was noticed of the creations under way.
#[derive(Debug, Default)]
pub(crate) struct Noticed(Mutex<HashMap<ClusterId, Moments>>);

/// What others say when it was.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    /// When Maestro took a bundle.
    posted: Option<Timestamp>,
    /// When the agent made its latest report on it.
    reported: Option<Timestamp>,
}

impl Noticed {
    /// What is known of a creation after another look at it; nothing of a cluster that is not being made.
    pub(super) fn look(
        &self,
        record: &ClusterRecord,
        bundles: &BTreeMap<String, Bundle>,
        times: &BTreeMap<String, Times>,
        now: Timestamp,
    ) -> Option<Moments> {
        let id = &record.cluster.id;
        if !is_being_made(record) {
            self.forget(id);
            return None;
        }
        let mut noticed = self.lock();
        let kept = noticed.entry(id.clone()).or_default();
        *kept = moments(record, record.cluster.status.moments.or(*kept), bundles, times, now);
        Some(*kept)
    }

    pub(super) fn forget(&self, id: &ClusterId) {
        self.lock().remove(id);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ClusterId, Moments>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Adds what was noticed to what is written, if something is.
pub(super) fn add(plan: &mut Plan, before: &ClusterRecord, moments: Option<Moments>) {
    if let Some(moments) = moments.filter(|_| plan.cluster != *before) {
        plan.cluster.cluster.status.moments = moments;
    }
}

/// Whether it is on its way to be ready for the first time.
fn is_being_made(record: &ClusterRecord) -> bool {
    let states = [ClusterState::Validating, ClusterState::Pending, ClusterState::Installing];
    record.deletion.is_none() && record.update.is_none() && states.contains(&record.cluster.state)
}

/// What is known after this look, where so much was known before.
fn moments(
    record: &ClusterRecord,
    mut known: Moments,
    bundles: &BTreeMap<String, Bundle>,
    times: &BTreeMap<String, Times>,
    now: Timestamp,
) -> Moments {
    let id = &record.cluster.id;
    let names = [cluster_work_name(id), managed_cluster_work_name(id)];
    let [Some((hosted, hosted_times)), Some((managed, managed_times))] =
        names.map(|name| bundles.get(&name).zip(times.get(&name)))
    else {
        return known;
    };
    // A clock that contradicts ours is no witness; then it was when we saw it.
    let range = record.cluster.creation_timestamp..=now;
    let credible = |moment: Option<Timestamp>| moment.filter(|it| range.contains(it)).unwrap_or(now);
    let reported = credible(hosted_times.reported);
    let managed_reported = credible(managed_times.reported);
    let posted = hosted_times.posted.max(managed_times.posted);
    known.manifests_posted = known.manifests_posted.or_else(|| Some(credible(posted)));

    let delivered = hosted.status.as_ref().is_some_and(|status| status.is_true("Applied"));
    let hosted = hosted.nested_report("HostedCluster");
    let managed = managed.direct_report();
    let available = hosted.is_true("Available");
    // What one report says for the first time of several steps says nothing of all but the last.
    if available {
        known.control_plane_available.get_or_insert(reported);
    } else if hosted.applied {
        known.manifests_applied.get_or_insert(reported);
    } else if delivered && managed.applied {
        let delivered = reported.max(managed_reported);
        known.manifests_delivered.get_or_insert(delivered);
    }
    if managed.is_true("ManagedClusterConditionAvailable") {
        known.managed_cluster_available.get_or_insert(managed_reported);
        if available {
            known.reports_read.get_or_insert(now);
        }
    }
    known
}

impl Times {
    pub(super) fn of(bundle: &ResourceBundle) -> Self {
        let report = bundle.status.as_ref().map(|status| status.sequence_id.as_str());
        Self { posted: bundle.created_at.parse().ok(), reported: report.and_then(moment_of) }
    }
}

/// When a report was made, which is what the number begins with that orders it.
fn moment_of(sequence: &str) -> Option<Timestamp> {
    let number: i64 = sequence.parse().ok()?;
    Timestamp::from_millisecond((number >> BELOW).checked_add(EPOCH)?).ok()
}

#[cfg(test)]
mod tests {
    use pilothouse_clusters_service_api::{Azure, NewCluster, Version};
    use serde_json::{Value, json};

    use super::*;
    use crate::admission;
    use crate::config::Config;
    use crate::record::Origin;

    /// What Maestro has of a cluster that was asked for at second nought.
    struct Model {
        record: ClusterRecord,
        found: BTreeMap<String, ResourceBundle>,
        noticed: Noticed,
    }

    impl Model {
        fn new() -> Self {
            let azure = Azure {
                subscription_id: "11111111-2222-3333-4444-555555555555".into(),
                resource_group_name: "g".into(),
                resource_name: "first".into(),
                managed_resource_group_name: "m".into(),
                ..Azure::default()
            };
            let new = NewCluster {
                name: "first".into(),
                domain_prefix: Some("first".into()),
                version: Version::of_number("4.20.3"),
                azure,
                ..NewCluster::default()
            };
            let id = "0123456789abcdefghijklmnopqrstuv".parse().unwrap();
            let cluster = admission::cluster(new, id, &Config::default(), at(0)).unwrap();
            let record = ClusterRecord::new(cluster, Origin::default());
            Self { record, found: BTreeMap::new(), noticed: Noticed::default() }
        }

        /// The latest of one of the two bundles, reported on when the agent says so.
        fn reported(&mut self, which: usize, moment: i64, status: Value) {
            let id = &self.record.cluster.id;
            let name = [cluster_work_name(id), managed_cluster_work_name(id)][which].clone();
            let mut bundle = json!({
                "id": "", "kind": "ResourceBundle", "href": "", "name": name, "consumer_name": "c", "version": 1,
                "created_at": at(2).to_string(), "updated_at": at(2).to_string(), "status": status,
            });
            if !status.is_null() {
                let sequence = ((at(moment).as_millisecond() - EPOCH) << BELOW).to_string();
                bundle["status"]["SequenceID"] = json!(sequence);
                bundle["status"]["ObservedVersion"] = json!(1);
            }
            self.found.insert(name, serde_json::from_value(bundle).unwrap());
        }

        fn look(&self, now: i64) -> Moments {
            let times = self.found.iter().map(|(name, bundle)| (name.clone(), Times::of(bundle))).collect();
            let found = self.found.iter().map(|(name, bundle)| (name.clone(), Bundle::of(bundle.clone())));
            self.noticed.look(&self.record, &found.collect(), &times, at(now)).unwrap()
        }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    fn condition(kind: &str, status: &str) -> Value {
        json!({"type": kind, "status": status, "reason": "Seen", "message": "",
               "lastTransitionTime": "2026-01-01T00:00:00Z"})
    }

    /// Of the agent, and, inside of it, of the work agent and of the `HostedCluster`.
    fn hosted(inner: Option<&str>) -> Value {
        let Some(available) = inner else { return json!({"conditions": [condition("Applied", "True")]}) };
        let value =
            json!({"name": "Available-Status", "fieldValue": {"type": "String", "string": available}});
        let object =
            json!({"resourceMeta": {"kind": "HostedCluster"}, "statusFeedback": {"values": [value]}});
        let inner = json!({"conditions": [condition("Applied", "True")],
                           "resourceStatus": {"manifests": [object]}});
        wrapped(&inner)
    }

    fn managed(available: &str) -> Value {
        wrapped(&json!({"conditions": [condition("ManagedClusterConditionAvailable", available)]}))
    }

    fn wrapped(status: &Value) -> Value {
        let raw = json!({"name": "status", "fieldValue": {"type": "JsonRaw", "jsonRaw": status.to_string()}});
        json!({"conditions": [condition("Applied", "True")],
               "resourceStatus": [{"resourceMeta": {}, "statusFeedback": {"values": [raw]}}]})
    }

    #[test]
    fn every_step_that_a_report_tells_apart_has_its_moment() {
        let mut model = Model::new();
        assert_eq!(model.look(1), Moments::default());
        model.reported(0, 0, Value::Null);
        assert_eq!(model.look(3), Moments::default());
        model.reported(1, 0, Value::Null);
        let mut expected = Moments { manifests_posted: Some(at(2)), ..Moments::default() };
        assert_eq!(model.look(3), expected);
        model.reported(0, 4, hosted(None));
        assert_eq!(model.look(5), expected);
        model.reported(1, 5, managed("Unknown"));
        expected.manifests_delivered = Some(at(5));
        assert_eq!(model.look(6), expected);
        model.reported(0, 7, hosted(Some("False")));
        expected.manifests_applied = Some(at(7));
        assert_eq!(model.look(8), expected);
        model.reported(0, 9, hosted(Some("True")));
        expected.control_plane_available = Some(at(9));
        assert_eq!(model.look(10), expected);
        model.reported(1, 11, managed("True"));
        expected.managed_cluster_available = Some(at(11));
        expected.reports_read = Some(at(13));
        assert_eq!(model.look(13), expected);
        assert_eq!(model.look(14), expected);
    }

    #[test]
    fn a_report_that_tells_of_several_steps_is_the_moment_of_the_last() {
        let mut model = Model::new();
        model.reported(0, 4, hosted(Some("True")));
        model.reported(1, 3, managed("False"));
        let moments = model.look(5);
        assert_eq!((moments.manifests_delivered, moments.manifests_applied), (None, None));
        assert_eq!(moments.control_plane_available, Some(at(4)));
    }

    #[test]
    fn a_clock_that_contradicts_ours_is_no_witness() {
        let mut model = Model::new();
        model.reported(0, 99, hosted(Some("False")));
        model.reported(1, -99, managed("False"));
        let moments = model.look(1);
        assert_eq!((moments.manifests_posted, moments.manifests_applied), (Some(at(1)), Some(at(1))));
    }

    #[test]
    fn what_was_written_before_a_restart_stays() {
        let mut model = Model::new();
        let written = Moments { cloud_prepared: Some(at(1)), ..Moments::default() };
        model.record.cluster.status.moments = written;
        model.reported(0, 4, hosted(Some("True")));
        model.reported(1, 4, managed("False"));
        assert_eq!(model.look(5).cloud_prepared, Some(at(1)));
        model.noticed.forget(&model.record.cluster.id);
        assert_eq!(model.look(6).control_plane_available, Some(at(4)));
    }

    #[test]
    fn moments_alone_are_no_reason_to_write() {
        let record = Model::new().record;
        let mut plan = Plan {
            actions: Vec::new(),
            cluster: record.clone(),
            node_pools: Vec::new(),
            credentials: Vec::new(),
            look_again: None,
            again: false,
        };
        let moments = Moments { manifests_posted: Some(at(1)), ..Moments::default() };
        add(&mut plan, &record, Some(moments));
        assert_eq!(plan.cluster, record);
        plan.cluster.describe("something else");
        add(&mut plan, &record, Some(moments));
        assert_eq!(plan.cluster.cluster.status.moments, moments);
    }

    #[test]
    fn number_of_the_published_sample_is_of_its_moment() {
        let sample = moment_of("2006924428440506368");
        assert_eq!(sample, Some("2026-01-02T03:04:05.250Z".parse().unwrap()));
        assert_eq!(moment_of("x"), None);
    }
}
