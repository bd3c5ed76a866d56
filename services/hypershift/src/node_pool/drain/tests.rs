use rstest::rstest;

use super::*;

#[rstest]
#[case(None, Some(60), false)]
#[case(Some(0), None, false)]
#[case(Some(0), Some(0), false)] // zero is no limit
#[case(Some(0), Some(60), true)]
#[case(Some(50), Some(60), false)]
fn a_drain_ends_when_its_time_is_over(
    #[case] since: Option<i64>,
    #[case] limit: Option<u64>,
    #[case] over: bool,
) {
    let since = since.map(|second| Timestamp::from_second(second).unwrap());
    let now = Timestamp::from_second(100).unwrap();
    assert_eq!(is_over(since, limit.map(Duration::from_secs), now), over);
}

#[rstest]
#[case(json!({ "status": { "phase": "Running" } }), true, true)]
#[case(json!({ "status": { "phase": "Succeeded" } }), true, false)]
#[case(json!({ "metadata": { "annotations": { MIRROR: "x" } } }), true, false)]
#[case(json!({ "metadata": { "ownerReferences": [
    { "apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u" },
] } }), true, false)]
#[case(json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } }), true, true)]
#[case(json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } }), false, false)]
fn pods_that_work_here_and_could_elsewhere_have_to_go(
    #[case] pod: serde_json::Value,
    #[case] alive: bool,
    #[case] expected: bool,
) {
    assert_eq!(has_to_go(&serde_json::from_value(pod).unwrap(), alive), expected);
}
