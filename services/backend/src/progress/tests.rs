use pilothouse_arm::{OperationId, ResourceId};
use pilothouse_clusters_service_api::Moments;

use super::*;

fn operation() -> Operation {
    let resource: ResourceId =
        "/subscriptions/s/resourceGroups/g/providers/Microsoft.RedHatOpenShift/hcpOpenShiftClusters/c"
            .parse()
            .unwrap();
    let id = OperationId::new(uuid::Uuid::nil());
    Operation::new(id, Request::Create, resource, "here", at(0))
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn observed(phase: Phase, description: &str) -> Observed {
    Observed {
        phase,
        description: description.into(),
        error: None,
        object: "cluster 2a".into(),
        creation: None,
    }
}

/// Number, component and state of each step, with `…` while it is under way.
fn steps(operation: &Operation) -> Vec<String> {
    let shown = |step: &pilothouse_records::Step| {
        let end = if step.finished_at.is_some() { step.state.as_str() } else { "…" };
        format!("{} {} {end}", step.number, step.component)
    };
    operation.steps.iter().map(shown).collect()
}

#[test]
fn a_creation_goes_through_its_steps_in_order() {
    let mut operation = operation();
    let deadline = at(100);
    creating(&mut operation, &observed(Phase::Preparing, "accepted"), at(1), deadline);
    assert_eq!(operation.state, ProvisioningState::Accepted);
    assert_eq!(steps(&operation), ["4 services/backend Succeeded", "5 services/clusters-service …"]);
    creating(&mut operation, &observed(Phase::Installing, "step 7: waiting"), at(2), deadline);
    creating(&mut operation, &observed(Phase::Installing, "step 9: waiting"), at(3), deadline);
    assert_eq!(operation.state, ProvisioningState::Provisioning);
    creating(&mut operation, &observed(Phase::Ready, "it answers"), at(4), deadline);
    assert_eq!(operation.state, ProvisioningState::Succeeded);
    assert_eq!(
        steps(&operation),
        [
            "4 services/backend Succeeded",
            "5 services/clusters-service Succeeded",
            "7 services/maestro Succeeded",
            "9 services/hypershift Succeeded",
            "12 services/clusters-service Succeeded",
            "13 services/backend Succeeded",
            "14 services/frontend Succeeded",
        ]
    );
    assert_eq!(operation.steps[2].started_at, at(2));
    assert_eq!(operation.steps[2].finished_at, Some(at(3)));
}

#[test]
fn a_change_goes_through_its_steps_in_order() {
    let mut operation = Operation { request: Request::Update, ..operation() };
    let deadline = at(100);
    assert!(!is_asked(&operation));
    updating(&mut operation, &observed(Phase::Preparing, "the change was accepted"), at(1), deadline);
    assert!(is_asked(&operation));
    assert_eq!(operation.state, ProvisioningState::Accepted);
    updating(&mut operation, &observed(Phase::Installing, "step 7: waiting"), at(2), deadline);
    updating(&mut operation, &observed(Phase::Installing, "step 9: 1 of 2"), at(3), deadline);
    assert_eq!(operation.state, ProvisioningState::Updating);
    let mut overdue = operation.clone();
    updating(&mut overdue, &observed(Phase::Installing, "step 9: 1 of 2"), deadline, deadline);
    let info = &overdue.error.unwrap().additional_info[0].info;
    assert_eq!(info.remedy, "remove the cause, ask for the change again");
    updating(&mut operation, &observed(Phase::Ready, "2 of 2"), at(4), deadline);
    assert_eq!(operation.state, ProvisioningState::Succeeded);
    assert_eq!(
        steps(&operation),
        [
            "4 services/backend Succeeded",
            "6 services/clusters-service Succeeded",
            "7 services/maestro Succeeded",
            "9 services/hypershift Succeeded",
            "12 services/clusters-service Succeeded",
            "13 services/backend Succeeded",
            "14 services/frontend Succeeded",
        ]
    );
}

#[test]
fn a_look_that_brings_nothing_new_changes_nothing() {
    for phase in [Phase::Preparing, Phase::Installing, Phase::Removing] {
        let mut once = operation();
        creating(&mut once, &observed(phase, "step 6: posting"), at(1), at(100));
        let mut twice = once.clone();
        creating(&mut twice, &observed(phase, "step 6: posting"), at(2), at(100));
        assert_eq!(once, twice, "{phase:?}");
    }
}

#[test]
fn a_failure_is_told_as_whoever_saw_it_told_it() {
    let failure = Failure {
        step: 9,
        component: "services/hypershift".into(),
        object: "cluster 2a".into(),
        observed: "the release image is not known".into(),
        remedy: "choose another version".into(),
    };
    let mut told = observed(Phase::Failed, "");
    told.error = Some(("ReleaseUnknown".into(), failure.to_string()));
    let mut failed = operation();
    creating(&mut failed, &told, at(1), at(100));
    let error = failed.error.clone().unwrap();
    assert_eq!((error.code.as_str(), &error.additional_info[0].info), ("ReleaseUnknown", &failure));
    assert_eq!(failed.state, ProvisioningState::Failed);
    assert_eq!(steps(&failed).last().unwrap(), "9 services/hypershift Failed");

    let mut overdue = operation();
    creating(&mut overdue, &observed(Phase::Installing, "step 9: no answer"), at(100), at(100));
    let error = overdue.error.unwrap();
    assert_eq!(error.code, "DeadlineExceeded");
    let info = &error.additional_info[0].info;
    assert_eq!((info.step, info.component.as_str()), (9, "services/hypershift"));
    assert!(info.observed.contains("last seen: step 9: no answer"), "{info:?}");
}

/// A cluster that is ready, and keeps these moments.
fn ready(began: i64, moments: Moments) -> Observed {
    Observed {
        creation: Some(Creation { began: at(began), moments }),
        ..observed(Phase::Ready, "it answers")
    }
}

/// Number, beginning and end of each step of Clusters Service and below, in seconds.
fn intervals(operation: &Operation) -> Vec<(u8, i64, i64)> {
    let below = operation.steps.iter().filter(|step| (5..=12).contains(&step.number));
    below
        .map(|step| (step.number, step.started_at.as_second(), step.finished_at.unwrap().as_second()))
        .collect()
}

#[test]
fn steps_of_a_creation_last_as_long_as_clusters_service_says() {
    let mut operation = operation();
    creating(&mut operation, &observed(Phase::Preparing, "accepted"), at(1), at(100));
    creating(&mut operation, &observed(Phase::Installing, "step 9: waiting"), at(70), at(100));
    let moments = Moments {
        cloud_prepared: Some(at(12)),
        manifests_posted: Some(at(23)),
        manifests_delivered: Some(at(34)),
        manifests_applied: Some(at(45)),
        control_plane_available: Some(at(56)),
        managed_cluster_available: Some(at(67)),
        reports_read: Some(at(78)),
    };
    creating(&mut operation, &ready(1, moments), at(80), at(100));
    assert_eq!(
        intervals(&operation),
        [
            (5, 1, 12),
            (6, 12, 23),
            (7, 23, 34),
            (8, 34, 45),
            (9, 45, 56),
            (10, 56, 67),
            (11, 67, 78),
            (12, 78, 80)
        ]
    );
    let asked = &operation.steps[0];
    assert_eq!((asked.number, asked.started_at, asked.finished_at), (4, at(0), Some(at(1))));
    assert_eq!(
        steps(&operation)[4..8],
        [
            "8 services/maestro Succeeded",
            "9 services/hypershift Succeeded",
            "10 services/mce Succeeded",
            "11 services/maestro Succeeded"
        ]
    );
}

#[test]
fn a_step_that_was_not_seen_apart_is_part_of_the_next_one() {
    let mut operation = operation();
    let moments = Moments {
        cloud_prepared: Some(at(12)),
        control_plane_available: Some(at(56)),
        reports_read: Some(at(58)),
        ..Moments::default()
    };
    creating(&mut operation, &ready(1, moments), at(60), at(100));
    assert_eq!(intervals(&operation), [(5, 1, 12), (9, 12, 56), (11, 56, 58), (12, 58, 60)]);
}

#[test]
fn a_control_plane_was_there_before_its_managed_cluster_was_whichever_was_reported_first() {
    let mut operation = operation();
    let moments = Moments {
        manifests_applied: Some(at(10)),
        control_plane_available: Some(at(45)),
        managed_cluster_available: Some(at(40)),
        reports_read: Some(at(50)),
        ..Moments::default()
    };
    creating(&mut operation, &ready(1, moments), at(60), at(100));
    assert_eq!(intervals(&operation), [(8, 1, 10), (9, 10, 40), (10, 40, 40), (11, 40, 50), (12, 50, 60)]);
}

#[test]
fn clocks_that_disagree_make_no_step_end_before_the_one_before_it() {
    let mut operation = operation();
    let moments = Moments {
        cloud_prepared: Some(at(12)),
        manifests_posted: Some(at(3)),
        manifests_applied: Some(at(99)),
        control_plane_available: Some(at(20)),
        ..Moments::default()
    };
    creating(&mut operation, &ready(-5, moments), at(60), at(100));
    assert_eq!(intervals(&operation), [(5, 0, 12), (6, 12, 12), (8, 12, 60), (9, 60, 60), (12, 60, 60)]);
}

#[test]
fn moments_alone_are_no_reason_to_write_an_operation() {
    let waiting = observed(Phase::Installing, "step 9: waiting");
    let mut operation = operation();
    creating(&mut operation, &waiting, at(1), at(100));
    let before = operation.clone();
    let moments = Moments { cloud_prepared: Some(at(1)), ..Moments::default() };
    let creation = Some(Creation { began: at(0), moments });
    creating(&mut operation, &Observed { creation, ..waiting }, at(2), at(100));
    assert_eq!(operation, before);
}
