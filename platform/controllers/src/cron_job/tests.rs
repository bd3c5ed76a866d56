use serde_json::{Value, json};

use super::*;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn cron(spec: Value, status: Value) -> CronJob {
    let mut whole = json!({ "schedule": "*/10 * * * *", "jobTemplate": { "spec": { "template": {} } } });
    whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    serde_json::from_value(json!({
        "metadata": { "name": "tidy", "creationTimestamp": "2026-01-01T00:00:00Z" },
        "spec": whole,
        "status": status,
    }))
    .unwrap()
}

fn job(name: &str, start: &str, end: Option<&str>) -> Arc<Job> {
    let conditions = end.map(|end| json!([{ "type": end, "status": "True" }]));
    Arc::new(
        serde_json::from_value(json!({
            "metadata": { "name": name, "uid": name },
            "status": { "conditions": conditions, "startTime": start, "completionTime": start },
        }))
        .unwrap(),
    )
}

fn reasons(plan: &Plan) -> Vec<&str> {
    plan.events.iter().map(|(_, reason, _)| *reason).collect()
}

#[test]
fn latest_missed_run_is_made_up_for_unless_it_is_too_late() {
    let last = json!({ "lastScheduleTime": "2026-01-01T00:10:00Z" });
    let now = at("2026-01-01T00:34:00Z");
    let due = plan(&cron(json!({}), last.clone()), &[], now);
    assert_eq!(due.start, Some(at("2026-01-01T00:30:00Z")));
    assert_eq!(due.look_again, Some(Duration::from_secs(360) + MARGIN));
    let late = plan(&cron(json!({ "startingDeadlineSeconds": 60 }), last.clone()), &[], now);
    assert_eq!((late.start, late.look_again), (None, due.look_again));
    let suspended = plan(&cron(json!({ "suspend": true }), last), &[], now);
    assert_eq!((suspended.start, suspended.look_again), (None, None));
    let long = plan(&cron(json!({}), json!({})), &[], at("2026-06-01T00:34:00Z"));
    assert_eq!(long.start, Some(at("2026-06-01T00:30:00Z")));
    assert_eq!(reasons(&long), ["TooManyMissedTimes"]);
}

#[test]
fn runs_that_overlap_follow_the_policy() {
    let now = at("2026-01-01T00:20:00Z");
    let running = [job("tidy-1", "2026-01-01T00:10:00Z", None)];
    let status = json!({ "lastScheduleTime": "2026-01-01T00:10:00Z" });
    let of =
        |policy: &str| plan(&cron(json!({ "concurrencyPolicy": policy }), status.clone()), &running, now);
    assert!(of("Allow").start.is_some() && of("Allow").delete.is_empty());
    let forbidden = of("Forbid");
    assert_eq!((forbidden.start, reasons(&forbidden)), (None, vec!["JobAlreadyActive"]));
    let replaced = of("Replace");
    assert!(replaced.start.is_some() && replaced.status.active.is_none());
    assert_eq!(replaced.delete.len(), 1);
}

#[test]
fn history_is_kept_short_and_success_is_remembered() {
    let status = json!({ "active": [{ "name": "b", "uid": "b" }, { "name": "lost", "uid": "lost" }] });
    let jobs = [
        job("a", "2026-01-01T00:01:00Z", Some("Complete")),
        job("b", "2026-01-01T00:02:00Z", Some("Complete")),
        job("c", "2026-01-01T00:03:00Z", Some("Failed")),
        job("d", "2026-01-01T00:04:00Z", Some("Failed")),
    ];
    let spec = json!({ "successfulJobsHistoryLimit": 1 });
    let plan = plan(&cron(spec, status), &jobs, at("2026-01-01T00:05:00Z"));
    let deleted: Vec<_> = plan.delete.iter().map(|job| job.metadata.name.clone().unwrap()).collect();
    assert_eq!(deleted, ["a", "c"]);
    assert_eq!(plan.status.last_successful_time.as_ref().unwrap().0, at("2026-01-01T00:02:00Z"));
    assert_eq!(plan.status.active, None);
    assert_eq!(reasons(&plan), ["SawCompletedJob", "MissingJob"]);
}

#[test]
fn run_is_named_by_its_minute_and_knows_its_time() {
    let berlin = cron(json!({ "timeZone": "Europe/Berlin" }), json!({}));
    let job = job_of(&berlin, at("2026-01-01T00:10:00Z"));
    assert_eq!(job.metadata.name.as_deref(), Some("tidy-29453770"));
    assert_eq!(job.metadata.annotations.unwrap()[SCHEDULED], "2026-01-01T01:10:00+01:00");
    let unknown = cron(json!({ "timeZone": "Mars/Olympus" }), json!({}));
    let plan = plan(&unknown, &[], at("2026-01-01T00:10:00Z"));
    assert_eq!((plan.start, reasons(&plan)), (None, vec!["UnknownTimeZone"]));
}
