//! The status of a work, from what happened to its manifests: pure.

use jiff::Timestamp;
use pilothouse_crds::{
    Condition, ConditionStatus, ManifestCondition, ManifestResourceMeta, ManifestResourceStatus,
    ManifestWorkStatus, StatusFeedback, set_condition,
};

use crate::feedback::Found;
use crate::rule::{self, Verdict};

/// What happened to one manifest.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) meta: ManifestResourceMeta,
    /// Otherwise why it could not be applied.
    pub(crate) applied: Result<(), String>,
    pub(crate) presence: Presence,
    /// What the rules found; `None` if there are no rules.
    pub(crate) feedback: Option<Found>,
    /// What came of its rules.
    pub(crate) verdicts: Vec<Verdict>,
}

/// Whether an object is there.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    Present,
    Absent,
    /// It could not be asked, and this is why.
    Unknown(String),
    /// Its resource is not known.
    NoResource,
}

/// The new status. Of the former one the transition times are kept, and the conditions that are made elsewhere.
pub(crate) fn assemble(
    before: &ManifestWorkStatus,
    generation: i64,
    outcomes: Vec<Outcome>,
    now: Timestamp,
) -> ManifestWorkStatus {
    let failed = outcomes.iter().filter(|outcome| outcome.applied.is_err()).count();
    let absent = outcomes.iter().filter(|outcome| outcome.presence != Presence::Present).count();
    let is_unknown =
        |outcome: &Outcome| matches!(outcome.presence, Presence::Unknown(_) | Presence::NoResource);
    let unknown = outcomes.iter().any(is_unknown);
    let total = outcomes.len();

    let mut conditions = before.conditions.clone();
    let mut set = |type_: &str, status, reason: &str, message: String| {
        let condition = Condition::new(type_, status, reason, message, now).of_generation(Some(generation));
        set_condition(&mut conditions, condition);
    };
    if failed == 0 {
        let message = "Apply manifest work complete".to_owned();
        set("Applied", ConditionStatus::True, "AppliedManifestWorkComplete", message);
    } else {
        let message = "Failed to apply manifest work".to_owned();
        set("Applied", ConditionStatus::False, "AppliedManifestWorkFailed", message);
    }
    if absent == 0 {
        let message = "All resources are available".to_owned();
        set("Available", ConditionStatus::True, "ResourcesAvailable", message);
    } else if unknown {
        let message = format!("{absent} of {total} resources have unknown status");
        set("Available", ConditionStatus::Unknown, "ResourcesStatusUnknown", message);
    } else {
        let message = format!("{absent} of {total} resources are not available");
        set("Available", ConditionStatus::False, "ResourcesNotAvailable", message);
    }

    let verdicts: Vec<_> = outcomes.iter().flat_map(|outcome| &outcome.verdicts).cloned().collect();
    aggregate(&mut conditions, &verdicts, generation, now);

    let manifests = outcomes
        .into_iter()
        .map(|outcome| {
            let same = |known: &&ManifestCondition| is_same(&known.resource_meta, &outcome.meta);
            let known = before.resource_status.manifests.iter().find(same).cloned().unwrap_or_default();
            manifest(known, generation, outcome, now)
        })
        .collect();
    ManifestWorkStatus { conditions, resource_status: ManifestResourceStatus { manifests } }
}

/// Sets the conditions of the work that its rules make, and takes away those of rules that it no longer has.
fn aggregate(conditions: &mut Vec<Condition>, verdicts: &[Verdict], generation: i64, now: Timestamp) {
    let is_asked_for = |type_: &str| verdicts.iter().any(|verdict| verdict.type_ == type_);
    conditions.retain(|known| known.reason != rule::AGGREGATED || is_asked_for(&known.type_));
    let mut types: Vec<_> = verdicts.iter().map(|verdict| verdict.type_.as_str()).collect();
    types.sort_unstable();
    types.dedup();
    for type_ in types {
        let said: Vec<_> =
            verdicts.iter().filter(|verdict| verdict.type_ == type_).map(|verdict| verdict.status).collect();
        let status = rule::aggregate(type_, &said);
        let count = said.iter().filter(|said| **said == status).count();
        let message = format!("{count} of {} manifests have {type_}={}", said.len(), status.as_str());
        let condition = Condition::new(type_, status, rule::AGGREGATED, message, now);
        set_condition(conditions, condition.of_generation(Some(generation)));
    }
}

fn is_same(one: &ManifestResourceMeta, other: &ManifestResourceMeta) -> bool {
    (&one.group, &one.kind, &one.name, &one.namespace)
        == (&other.group, &other.kind, &other.name, &other.namespace)
}

fn manifest(
    known: ManifestCondition,
    generation: i64,
    outcome: Outcome,
    now: Timestamp,
) -> ManifestCondition {
    let Outcome { meta, applied, presence, feedback, verdicts } = outcome;
    let mut conditions = known.conditions;
    let is_asked_for = |type_: &str| verdicts.iter().any(|verdict| verdict.type_ == type_);
    conditions.retain(|known| !known.reason.starts_with(rule::REASON) || is_asked_for(&known.type_));
    let applied = match applied {
        Ok(()) => Condition::new(
            "Applied",
            ConditionStatus::True,
            "AppliedManifestComplete",
            "Apply manifest complete",
            now,
        ),
        Err(problem) => Condition::new(
            "Applied",
            ConditionStatus::False,
            "AppliedManifestFailed",
            format!("Failed to apply manifest: {problem}"),
            now,
        ),
    };
    set_condition(&mut conditions, applied.of_generation(Some(generation)));
    let (status, reason, message) = match presence {
        Presence::Present => (ConditionStatus::True, "ResourceAvailable", "Resource is available".to_owned()),
        Presence::Absent => {
            (ConditionStatus::False, "ResourceNotAvailable", "Resource is not available".to_owned())
        }
        Presence::Unknown(problem) => (
            ConditionStatus::Unknown,
            "FetchingResourceFailed",
            format!("Failed to fetch resource: {problem}"),
        ),
        Presence::NoResource => {
            (ConditionStatus::Unknown, "IncompleteResourceMeta", "Resource meta is incomplete".to_owned())
        }
    };
    set_condition(&mut conditions, Condition::new("Available", status, reason, message, now));
    let (status, reason, message, values) = match feedback {
        None => (ConditionStatus::True, "NoStatusFeedbackSynced", String::new(), Vec::new()),
        Some(found) if found.problems.is_empty() => {
            (ConditionStatus::True, "StatusFeedbackSynced", String::new(), found.values)
        }
        Some(found) => (
            ConditionStatus::False,
            "StatusFeedbackSyncFailed",
            format!("Sync status feedback failed with error {}", found.problems.join("; ")),
            found.values,
        ),
    };
    set_condition(&mut conditions, Condition::new("StatusFeedbackSynced", status, reason, message, now));
    for Verdict { type_, status, reason, message } in verdicts {
        let condition = Condition::new(type_, status, reason, message, now);
        set_condition(&mut conditions, condition.of_generation(Some(generation)));
    }
    ManifestCondition { resource_meta: meta, status_feedback: StatusFeedback { values }, conditions }
}

#[cfg(test)]
mod tests {
    use pilothouse_crds::find_condition;

    use super::*;

    fn outcome(name: &str, applied: Result<(), String>, presence: Presence) -> Outcome {
        let meta = ManifestResourceMeta { name: name.to_owned(), ..ManifestResourceMeta::default() };
        Outcome { meta, applied, presence, feedback: None, verdicts: Vec::new() }
    }

    fn said(status: &ManifestWorkStatus, type_: &str) -> (ConditionStatus, String) {
        let condition = find_condition(&status.conditions, type_).unwrap();
        (condition.status, condition.reason.clone())
    }

    #[test]
    fn one_manifest_that_fails_is_enough() {
        let now = Timestamp::UNIX_EPOCH;
        let outcomes =
            vec![outcome("a", Ok(()), Presence::Present), outcome("b", Err("no".into()), Presence::Absent)];
        let status = assemble(&ManifestWorkStatus::default(), 3, outcomes, now);
        assert_eq!(said(&status, "Applied"), (ConditionStatus::False, "AppliedManifestWorkFailed".into()));
        assert_eq!(said(&status, "Available"), (ConditionStatus::False, "ResourcesNotAvailable".into()));
        let available = find_condition(&status.conditions, "Available").unwrap();
        assert_eq!(available.message, "1 of 2 resources are not available");
        let applied = find_condition(&status.resource_status.manifests[1].conditions, "Applied").unwrap();
        assert_eq!(applied.message, "Failed to apply manifest: no");
        assert_eq!(applied.observed_generation, Some(3));
    }

    #[test]
    fn conditions_of_rules_come_and_go_with_them() {
        let now = Timestamp::UNIX_EPOCH;
        let with = |statuses: &[ConditionStatus]| -> Vec<Outcome> {
            let verdict = |status| Verdict {
                type_: "Ready".to_owned(),
                status,
                reason: "ConditionRuleEvaluated",
                message: String::new(),
            };
            let names = ["a", "b"].into_iter().zip(statuses);
            let make = |(name, status): (&str, &ConditionStatus)| Outcome {
                verdicts: vec![verdict(*status)],
                ..outcome(name, Ok(()), Presence::Present)
            };
            names.map(make).collect()
        };
        let both = [ConditionStatus::True, ConditionStatus::False];
        let status = assemble(&ManifestWorkStatus::default(), 1, with(&both), now);
        assert_eq!(said(&status, "Ready"), (ConditionStatus::False, "ConditionRulesAggregated".into()));
        let of_one = &status.resource_status.manifests[0].conditions;
        assert_eq!(find_condition(of_one, "Ready").unwrap().status, ConditionStatus::True);
        let plain = vec![outcome("a", Ok(()), Presence::Present), outcome("b", Ok(()), Presence::Present)];
        let without = assemble(&status, 2, plain, now);
        assert!(find_condition(&without.conditions, "Ready").is_none());
        assert!(find_condition(&without.resource_status.manifests[0].conditions, "Ready").is_none());
    }

    #[test]
    fn same_observation_later_is_the_same_status() {
        let later = Timestamp::from_second(60).unwrap();
        let outcomes = || vec![outcome("a", Ok(()), Presence::Present)];
        let first = assemble(&ManifestWorkStatus::default(), 1, outcomes(), Timestamp::UNIX_EPOCH);
        assert_eq!(assemble(&first, 1, outcomes(), later), first);
        let gone = assemble(&first, 1, vec![outcome("a", Ok(()), Presence::Absent)], later);
        let available = find_condition(&gone.conditions, "Available").unwrap();
        assert_eq!(available.last_transition_time.0, later);
        assert_eq!(said(&gone, "Applied"), said(&first, "Applied"));
    }
}
