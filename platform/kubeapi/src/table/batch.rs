//! Jobs and cron jobs in one line.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::workload::{containers_at, selected};
use super::{Heading, age, list, number, or_none, text};

pub(super) const JOB: &[Heading] = &[
    Heading::text("Name"),
    Heading::text("Status"),
    Heading::text("Completions"),
    Heading::text("Duration"),
    Heading::text("Age"),
    Heading::wide("Containers"),
    Heading::wide("Images"),
    Heading::wide("Selector"),
];

pub(super) const CRON_JOB: &[Heading] = &[
    Heading::text("Name"),
    Heading::text("Schedule"),
    Heading::text("Timezone"),
    Heading::flag("Suspend"),
    Heading::number("Active"),
    Heading::text("Last Schedule"),
    Heading::text("Age"),
    Heading::wide("Containers"),
    Heading::wide("Images"),
    Heading::wide("Selector"),
];

pub(super) fn job(object: &Value, name: Value, age: Value, now: Timestamp) -> Vec<Value> {
    let succeeded = number(object, "/status/succeeded");
    let completions = match (object["spec"]["completions"].as_i64(), number(object, "/spec/parallelism")) {
        (Some(wanted), _) => format!("{succeeded}/{wanted}"),
        (None, parallel) if parallel > 1 => format!("{succeeded}/1 of {parallel}"),
        (None, _) => format!("{succeeded}/1"),
    };
    let time = |pointer: &str| text(object, pointer).parse::<Timestamp>().ok();
    let duration = time("/status/startTime").map_or_else(String::new, |start| {
        let end = time("/status/completionTime").unwrap_or(now);
        age::short(end.as_second() - start.as_second())
    });
    let (containers, images) = containers_at(object, "/spec/template/spec/containers");
    vec![
        name,
        json!(status(object)),
        json!(completions),
        json!(duration),
        age,
        containers,
        images,
        selected(&object["spec"]["selector"]),
    ]
}

fn status(object: &Value) -> &'static str {
    let holds = |kind: &str| {
        list(object, "/status/conditions").iter().any(|one| one["type"] == kind && one["status"] == "True")
    };
    let deleting = object["metadata"]["deletionTimestamp"].is_string();
    match () {
        () if holds("Complete") => "Complete",
        () if holds("Failed") => "Failed",
        () if deleting => "Terminating",
        () if holds("Suspended") => "Suspended",
        () if holds("FailureTarget") => "FailureTarget",
        () if holds("SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    }
}

pub(super) fn cron_job(object: &Value, name: Value, age: Value, now: Timestamp) -> Vec<Value> {
    let last = match object["status"]["lastScheduleTime"].is_string() {
        true => age::since(&object["status"]["lastScheduleTime"], now),
        false => or_none(""),
    };
    let suspended = if object["spec"]["suspend"] == true { "True" } else { "False" };
    let (containers, images) = containers_at(object, "/spec/jobTemplate/spec/template/spec/containers");
    vec![
        name,
        json!(text(object, "/spec/schedule")),
        or_none(text(object, "/spec/timeZone")),
        json!(suspended),
        json!(list(object, "/status/active").len()),
        last,
        age,
        containers,
        images,
        selected(&object["spec"]["jobTemplate"]["spec"]["selector"]),
    ]
}
