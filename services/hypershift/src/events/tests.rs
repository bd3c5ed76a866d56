use jiff::Timestamp;
use pilothouse_crds::set_condition;

use super::*;

fn status(conditions: &[(&str, ConditionStatus, &str, &str)]) -> HostedClusterStatus {
    let mut status = HostedClusterStatus::default();
    for (type_, holds, reason, message) in conditions {
        let condition = Condition::new(*type_, *holds, *reason, *message, Timestamp::UNIX_EPOCH);
        set_condition(&mut status.conditions, condition);
    }
    status
}

fn reasons(before: Option<&HostedClusterStatus>, after: &HostedClusterStatus) -> Vec<String> {
    let said = of_cluster(before, Some(after));
    said.into_iter()
        .map(|said| format!("{} {}: {}", if said.warning { "!" } else { "-" }, said.reason, said.message))
        .collect()
}

#[test]
fn a_change_is_said_once_and_the_same_again_not_at_all() {
    let waiting = status(&[("Available", False, "WaitingForAvailable", "no pod yet")]);
    assert_eq!(reasons(None, &waiting), [""; 0], "nobody has to be told that a new cluster is new");
    let available = status(&[("Available", True, "AsExpected", "it is")]);
    assert_eq!(reasons(Some(&waiting), &available), ["- Available: it is"]);
    assert_eq!(reasons(Some(&available), &available), [""; 0]);
    let lost = status(&[("Available", False, "KASLoadBalancerNotReachable", "no answer")]);
    assert_eq!(reasons(Some(&available), &lost), ["! NotAvailable: no answer"]);
    let still = status(&[("Available", False, "KASLoadBalancerNotReachable", "no answer after 5 s")]);
    assert_eq!(reasons(Some(&lost), &still), [""; 0]);
}

#[test]
fn whoever_wrote_a_bad_specification_is_told_each_time_it_is_bad_otherwise() {
    let refused = |message| status(&[("ValidConfiguration", False, "InvalidConfiguration", message)]);
    assert_eq!(reasons(None, &refused("a")), ["! InvalidConfiguration: a"]);
    assert_eq!(reasons(Some(&refused("a")), &refused("a")), [""; 0]);
    assert_eq!(reasons(Some(&refused("a")), &refused("b")), ["! InvalidConfiguration: b"]);
    let right = status(&[("ValidConfiguration", True, "AsExpected", "Configuration passes validation")]);
    assert_eq!(reasons(None, &right), [""; 0]);
    let said = reasons(Some(&refused("b")), &right);
    assert_eq!(said, ["- ValidConfiguration: Configuration passes validation"]);
}

#[test]
fn each_step_of_a_deletion_is_said() {
    let step = |reason, message| status(&[("HostedClusterDestroyed", False, reason, message)]);
    let (first, second) = (step("WaitingForNodePools", "a, b"), step("WaitingForNamespace", "n"));
    assert_eq!(reasons(None, &first), ["- WaitingForNodePools: a, b"]);
    assert_eq!(reasons(Some(&first), &step("WaitingForNodePools", "b")), [""; 0]);
    assert_eq!(reasons(Some(&first), &second), ["- WaitingForNamespace: n"]);
}

#[test]
fn a_pool_says_when_its_nodes_are_ready_and_when_they_change() {
    let status = |conditions: &[(&str, ConditionStatus, &str)]| NodePoolStatus {
        conditions: conditions
            .iter()
            .map(|(type_, holds, message)| {
                NodePoolCondition::new(*type_, *holds, "AsExpected", *message, Timestamp::UNIX_EPOCH)
            })
            .collect(),
        ..NodePoolStatus::default()
    };
    let reasons = |before: &NodePoolStatus, after: &NodePoolStatus| -> Vec<String> {
        of_pool(Some(before), Some(after)).into_iter().map(|said| said.reason).collect()
    };
    let none = NodePoolStatus::default();
    let ready = status(&[("Ready", True, "All is well"), ("UpdatingVersion", False, "")]);
    let updating = status(&[("Ready", False, "1 of 2"), ("UpdatingVersion", True, "a, b")]);
    assert_eq!(reasons(&none, &ready), ["Ready"]);
    assert_eq!(reasons(&ready, &updating), ["NotReady", "UpdatingVersion"]);
    assert_eq!(reasons(&updating, &status(&[("UpdatingVersion", True, "b")])), [""; 0]);
    assert_eq!(reasons(&updating, &ready), ["Ready", "UpdatedVersion"]);
}

#[test]
fn a_long_message_is_cut_between_two_characters() {
    let cut = shortened("ä".repeat(LONGEST));
    assert!(cut.len() <= LONGEST && cut.ends_with('…') && cut.starts_with('ä'), "{}", cut.len());
    assert_eq!(shortened("short".to_owned()), "short");
}
