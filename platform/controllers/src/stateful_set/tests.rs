use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{
    RollingUpdateStatefulSetStrategy, StatefulSetSpec, StatefulSetUpdateStrategy,
};

use super::plan::{Replica, plan};
use super::*;

fn set(replicas: i32, policy: &str, partition: i32) -> StatefulSet {
    StatefulSet {
        metadata: ObjectMeta { name: Some("db".to_owned()), ..ObjectMeta::default() },
        spec: Some(StatefulSetSpec {
            replicas: Some(replicas),
            pod_management_policy: Some(policy.to_owned()),
            update_strategy: Some(StatefulSetUpdateStrategy {
                type_: Some("RollingUpdate".to_owned()),
                rolling_update: Some(RollingUpdateStatefulSetStrategy {
                    partition: Some(partition),
                    max_unavailable: None,
                }),
            }),
            service_name: Some("db".to_owned()),
            volume_claim_templates: Some(vec![PersistentVolumeClaim {
                metadata: ObjectMeta { name: Some("data".to_owned()), ..ObjectMeta::default() },
                ..PersistentVolumeClaim::default()
            }]),
            ..StatefulSetSpec::default()
        }),
        status: None,
    }
}

/// Pods by letter: `h`ealthy, `o`ld but healthy, `u`nready, `b`roken and old, `e`nding, `f`inished, `.` none.
fn observed(pods: &str) -> Observed {
    let replica = |(index, letter): (usize, char)| {
        let ordinal = i32::try_from(index).unwrap();
        let pod = Replica {
            name: format!("db-{ordinal}"),
            updated: !matches!(letter, 'o' | 'b'),
            ready: matches!(letter, 'h' | 'o'),
            available: matches!(letter, 'h' | 'o'),
            ending: letter == 'e',
            finished: letter == 'f',
            ..Replica::default()
        };
        (letter != '.').then_some((ordinal, pod))
    };
    Observed { pods: pods.chars().enumerate().filter_map(replica).collect(), look_again: None }
}

/// `+1` makes pod 1, `-2` deletes pod 2.
fn step(set: &StatefulSet, pods: &str) -> String {
    let actions = plan(set, &observed(pods));
    let text = |action: &Action| match action {
        Action::Create(ordinal) => format!("+{ordinal}"),
        Action::Delete { name, .. } => name.replace("db", ""),
    };
    actions.iter().map(text).collect::<Vec<_>>().join(" ")
}

#[test]
fn ordered_set_takes_one_step_at_a_time() {
    for (replicas, pods, expected) in [
        (2, "", "+0"),
        (2, "u", ""),
        (2, "h", "+1"),
        (2, "hh", ""),
        (2, "hf", "-1"),
        (2, "he", ""),
        (2, ".h", "+0"),
        // Fewer: from the end.
        (1, "hhh", "-2"),
        (1, "hhe", ""),
        (0, "h", "-0"),
        // Another template: from the end, while all others are well.
        (3, "ooo", "-2"),
        (3, "oou", ""),
        (3, "ooh", "-1"),
        (3, "ohh", "-0"),
        // A pod that does not work may be replaced at once.
        (3, "oob", "-2"),
    ] {
        assert_eq!(step(&set(replicas, "OrderedReady", 0), pods), expected, "{replicas} {pods}");
    }
}

#[test]
fn parallel_set_makes_and_removes_all_at_once_but_updates_one_by_one() {
    for (replicas, pods, expected) in
        [(3, "", "+0 +1 +2"), (3, "u.u", "+1"), (1, "huh", "-2 -1"), (3, "ooo", "-2"), (3, "ooe", "")]
    {
        assert_eq!(step(&set(replicas, "Parallel", 0), pods), expected, "{replicas} {pods}");
    }
}

#[test]
fn partition_keeps_lower_ordinals_on_their_template() {
    assert_eq!(step(&set(3, "OrderedReady", 2), "ooo"), "-2");
    assert_eq!(step(&set(3, "OrderedReady", 2), "ooh"), "");
}

#[test]
fn pod_has_its_name_its_claims_and_its_ordinal() {
    let mut set = set(1, "OrderedReady", 0);
    set.metadata.annotations = Some([("pilothouse.dev/correlation-id".to_owned(), "42".to_owned())].into());
    let pod = pod_of(&set, 3, PodTemplateSpec::default(), "db-xyz");
    let spec = pod.spec.as_ref().unwrap();
    assert_eq!((spec.hostname.as_deref(), spec.subdomain.as_deref()), (Some("db-3"), Some("db")));
    let volume = &spec.volumes.as_ref().unwrap()[0];
    let claim = claims_of(&set, 3).remove(0);
    assert_eq!(claim.metadata.name.as_deref(), Some("data-db-3"));
    assert_eq!(volume.persistent_volume_claim.as_ref().unwrap().claim_name, "data-db-3");
    let labels: BTreeMap<_, _> = pod.metadata.labels.clone().unwrap();
    assert_eq!(labels[POD_INDEX], "3");
    assert_eq!(labels[revision::HASH], "db-xyz");
    assert_eq!(pod.metadata.annotations.as_ref().unwrap()["pilothouse.dev/correlation-id"], "42");
    assert_eq!(ordinal(&set, &pod), Some(3));
}

#[test]
fn current_revision_follows_once_every_pod_has_it() {
    let mut set = set(2, "OrderedReady", 0);
    set.status =
        Some(StatefulSetStatus { current_revision: Some("old".to_owned()), ..StatefulSetStatus::default() });
    let during = status(&set, &observed("oh"), ("new", "old"));
    assert_eq!((during.current_revision.as_deref(), during.updated_replicas), (Some("old"), Some(1)));
    let after = status(&set, &observed("hh"), ("new", "old"));
    assert_eq!((after.current_revision.as_deref(), after.updated_replicas), (Some("new"), Some(2)));
}

#[test]
fn claims_go_with_the_set_or_with_a_pod_that_is_too_many_as_the_policy_says() {
    let mut set = set(2, "OrderedReady", 0);
    set.metadata.uid = Some("set".to_owned());
    let mut pod = pod_of(&set, 2, PodTemplateSpec::default(), "db-xyz");
    pod.metadata.uid = Some("pod".to_owned());
    let mut owners = |deleted: &str, scaled: &str, going: bool| {
        let policy = StatefulSetPersistentVolumeClaimRetentionPolicy {
            when_deleted: Some(deleted.to_owned()),
            when_scaled: Some(scaled.to_owned()),
        };
        set.spec.as_mut().unwrap().persistent_volume_claim_retention_policy = Some(policy);
        claim_owners(&set, going.then_some(&pod)).into_iter().map(|owner| owner.uid).collect::<Vec<_>>()
    };
    assert_eq!(owners("Retain", "Retain", true), Vec::<String>::new());
    assert_eq!(owners("Delete", "Retain", false), ["set"]);
    assert_eq!(owners("Delete", "Retain", true), ["set"]);
    assert_eq!(owners("Retain", "Delete", true), ["pod"]);
    assert_eq!(owners("Retain", "Delete", false), Vec::<String>::new());
}

#[test]
fn partition_counts_from_the_first_ordinal() {
    let mut set = set(3, "OrderedReady", 2);
    set.spec.as_mut().unwrap().ordinals =
        Some(k8s_openapi::api::apps::v1::StatefulSetOrdinals { start: Some(5) });
    assert_eq!((first(&set), partition(&set)), (5, 7));
}

#[test]
fn update_takes_as_many_pods_away_as_may_be_missing() {
    let with = |policy: &str, number: &str| {
        let mut set = set(4, policy, 0);
        let strategy = set.spec.as_mut().unwrap().update_strategy.as_mut().unwrap();
        let number = serde_json::from_str(number).unwrap();
        strategy.rolling_update.as_mut().unwrap().max_unavailable = Some(number);
        set
    };
    let two = with("OrderedReady", "2");
    assert_eq!(step(&two, "oooo"), "-3 -2");
    assert_eq!(step(&two, "ooho"), "-3 -1");
    assert_eq!(step(&two, "ooeh"), "", "in order, the one that is missing comes first");
    let parallel = with("Parallel", "2");
    assert_eq!(step(&parallel, "ooeh"), "-1", "one is missing already");
    assert_eq!(step(&parallel, "oeeh"), "");
    assert_eq!(step(&with("Parallel", "\"50%\""), "oooo"), "-3 -2");
    assert_eq!(step(&with("Parallel", "\"10%\""), "oooo"), "-3", "never less than one");
}
