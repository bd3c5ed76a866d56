//! Jobs, cron jobs and disruption budgets.

use serde_json::{Value, json};
use uuid::Uuid;

use super::{ensure_object, fill, immutable_in, pod, text};
use crate::selector::LabelSelector;
use crate::status::Cause;

const MACROS: [&str; 7] = ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];

pub(super) fn job_defaults(object: &mut Value) {
    job_spec_defaults(&mut object["spec"]);
    let labels = object["spec"]["template"]["metadata"]["labels"].clone();
    if object["metadata"]["labels"].is_null() && labels.is_object() {
        object["metadata"]["labels"] = labels;
    }
}

fn job_spec_defaults(spec: &mut Value) {
    ensure_object(spec);
    if spec["completions"].is_null() && spec["parallelism"].is_null() {
        spec["completions"] = json!(1);
        spec["parallelism"] = json!(1);
    }
    fill(spec, "parallelism", json!(1));
    if spec["completions"].is_null()
        && let Some(spec) = spec.as_object_mut()
    {
        spec.remove("completions");
    }
    let each = !spec["backoffLimitPerIndex"].is_null();
    fill(spec, "backoffLimit", if each { json!(i32::MAX) } else { json!(6) });
    fill(spec, "completionMode", json!("NonIndexed"));
    fill(spec, "suspend", json!(false));
    let replaces = if spec["podFailurePolicy"].is_object() { "Failed" } else { "TerminatingOrFailed" };
    fill(spec, "podReplacementPolicy", json!(replaces));
    if let Some(spec) = spec.as_object_mut() {
        spec.retain(|_, value| !value.is_null());
    }
    ensure_object(&mut spec["template"]);
    ensure_object(&mut spec["template"]["metadata"]);
    pod::defaults(&mut spec["template"]["spec"]);
}

pub(super) fn cron_job_defaults(object: &mut Value) {
    let spec = &mut object["spec"];
    ensure_object(spec);
    fill(spec, "concurrencyPolicy", json!("Allow"));
    fill(spec, "suspend", json!(false));
    fill(spec, "successfulJobsHistoryLimit", json!(3));
    fill(spec, "failedJobsHistoryLimit", json!(1));
    let template = &mut spec["jobTemplate"]["spec"]["template"];
    if template.is_object() {
        pod::defaults(&mut template["spec"]);
    }
}

/// A job finds its pods by labels that nobody else has.
pub(super) fn select_own_pods(object: &mut Value, uid: Uuid) {
    if object["spec"]["manualSelector"] == true {
        return;
    }
    let name = object["metadata"]["name"].clone();
    ensure_object(&mut object["spec"]);
    // Labels that the job has from its template stay those of the template.
    let own = &object["metadata"]["labels"];
    let shared = own.is_null() || *own == object["spec"]["template"]["metadata"]["labels"];
    let spec = &mut object["spec"];
    ensure_object(&mut spec["template"]);
    ensure_object(&mut spec["template"]["metadata"]);
    ensure_object(&mut spec["template"]["metadata"]["labels"]);
    let labels = &mut spec["template"]["metadata"]["labels"];
    for prefix in ["", "batch.kubernetes.io/"] {
        labels[format!("{prefix}job-name")] = name.clone();
        labels[format!("{prefix}controller-uid")] = json!(uid.to_string());
    }
    // With one of its own, which is refused later.
    if spec["selector"].is_null() {
        spec["selector"] =
            json!({ "matchLabels": { "batch.kubernetes.io/controller-uid": uid.to_string() } });
    }
    if shared {
        object["metadata"]["labels"] = object["spec"]["template"]["metadata"]["labels"].clone();
    }
}

pub(super) fn validate_job(old: Option<&Value>, new: &Value) -> Vec<Cause> {
    let mut causes = validate_job_spec(&new["spec"], "spec");
    let selector = LabelSelector::from_object(&new["spec"]["selector"]);
    let labels = &new["spec"]["template"]["metadata"]["labels"];
    if selector.is_some_and(|selector| !selector.matches_labels(labels)) {
        let why = "`selector` does not match template `labels`";
        causes.push(Cause::invalid("spec.template.metadata.labels", labels, why));
    }
    if let Some(old) = old {
        let suspended = old["spec"]["suspend"] == true;
        let fixed: &[&str] = match suspended {
            true => &["selector", "completionMode", "podFailurePolicy"],
            false => &["selector", "template", "completionMode", "podFailurePolicy"],
        };
        causes.extend(immutable_in(&old["spec"], &new["spec"], "spec", fixed));
        if new["spec"]["completionMode"] != "Indexed" {
            causes.extend(immutable_in(&old["spec"], &new["spec"], "spec", &["completions"]));
        }
    }
    causes
}

fn validate_job_spec(spec: &Value, path: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    for name in
        ["parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished"]
    {
        if spec[name].as_i64().is_some_and(|number| number < 0) {
            let why = "must be greater than or equal to 0";
            causes.push(Cause::invalid(format!("{path}.{name}"), &spec[name], why));
        }
    }
    if spec["completionMode"] == "Indexed" && spec["completions"].is_null() {
        let why = "when completion mode is Indexed";
        causes.push(Cause::required(format!("{path}.completions"), why));
    }
    let template = format!("{path}.template.spec");
    causes.extend(pod::validation::specification(&spec["template"]["spec"], &template, &[]));
    let policy = &spec["template"]["spec"]["restartPolicy"];
    let place = format!("{template}.restartPolicy");
    match policy.as_str().unwrap_or_default() {
        "Never" | "OnFailure" if policy == "Never" || spec["podFailurePolicy"].is_null() => {}
        "OnFailure" => {
            let why = "only \"Never\" is supported when podFailurePolicy is specified";
            causes.push(Cause::invalid(place, policy, why));
        }
        "" | "Always" => causes.push(Cause::required(place, "valid values: \"OnFailure\", \"Never\"")),
        _ => causes.push(Cause::not_supported(place, policy, ["OnFailure", "Never"])),
    }
    causes
}

pub(super) fn validate_cron_job(new: &Value) -> Vec<Cause> {
    let spec = &new["spec"];
    let mut causes = Vec::new();
    match text(spec, "/schedule") {
        "" => causes.push(Cause::required("spec.schedule", "")),
        schedule => {
            if let Some(why) = schedule_problem(schedule) {
                causes.push(Cause::invalid("spec.schedule", &spec["schedule"], why));
            }
        }
    }
    let policy = &spec["concurrencyPolicy"];
    if !matches!(policy.as_str(), Some("Allow" | "Forbid" | "Replace")) {
        causes.push(Cause::not_supported("spec.concurrencyPolicy", policy, ["Allow", "Forbid", "Replace"]));
    }
    for name in ["startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"] {
        if spec[name].as_i64().is_some_and(|number| number < 0) {
            let why = "must be greater than or equal to 0";
            causes.push(Cause::invalid(format!("spec.{name}"), &spec[name], why));
        }
    }
    if text(new, "/metadata/name").len() > 52 {
        let why = "must be no more than 52 characters";
        causes.push(Cause::invalid("metadata.name", &new["metadata"]["name"], why));
    }
    causes.extend(validate_job_spec(&spec["jobTemplate"]["spec"], "spec.jobTemplate.spec"));
    causes
}

/// Why a text says no times.
fn schedule_problem(schedule: &str) -> Option<String> {
    if let Some(every) = schedule.strip_prefix("@every ") {
        let duration = every.trim();
        let fits = !duration.is_empty()
            && duration.starts_with(|first: char| first.is_ascii_digit())
            && duration.ends_with(['h', 'm', 's']);
        return (!fits)
            .then(|| format!("failed to parse duration {schedule}: time: invalid duration {duration:?}"));
    }
    if schedule.starts_with('@') {
        return (!MACROS.contains(&schedule)).then(|| format!("unrecognized descriptor: {schedule}"));
    }
    let fields: Vec<_> = schedule.split_whitespace().collect();
    if fields.len() != 5 {
        return Some(format!("expected exactly 5 fields, found {}: [{}]", fields.len(), fields.join(" ")));
    }
    const RANGES: [(u32, u32); 5] = [(0, 59), (0, 23), (1, 31), (1, 12), (0, 6)];
    const MONTHS: &str = "jan feb mar apr may jun jul aug sep oct nov dec";
    const DAYS: &str = "sun mon tue wed thu fri sat";
    for (place, (field, (least, most))) in fields.iter().zip(RANGES).enumerate() {
        let names = match place {
            3 => MONTHS,
            4 => DAYS,
            _ => "",
        };
        for part in field.split(',') {
            let (range, step) = part.split_once('/').unwrap_or((part, "1"));
            if step.parse::<u32>().map_or(true, |step| step == 0) {
                return Some(format!("failed to parse int from {step}: invalid syntax"));
            }
            if matches!(range, "*" | "?") {
                continue;
            }
            for end in range.splitn(2, '-') {
                let lower = end.to_ascii_lowercase();
                if !names.is_empty() && names.split(' ').any(|name| name == lower) {
                    continue;
                }
                match end.parse::<u32>() {
                    Err(_) => return Some(format!("failed to parse int from {end}: invalid syntax")),
                    Ok(number) if number < least => {
                        return Some(format!("beginning of range ({number}) below minimum ({least}): {end}"));
                    }
                    Ok(number) if number > most => {
                        return Some(format!("end of range ({number}) above maximum ({most}): {end}"));
                    }
                    Ok(_) => {}
                }
            }
        }
    }
    None
}

pub(super) fn validate_budget(new: &Value) -> Vec<Cause> {
    let spec = &new["spec"];
    let mut causes = Vec::new();
    if !spec["minAvailable"].is_null() && !spec["maxUnavailable"].is_null() {
        let shown = format!(
            "{{\"MinAvailable\":{},\"Selector\":{},\"MaxUnavailable\":{},\"UnhealthyPodEvictionPolicy\":{}}}",
            spec["minAvailable"],
            spec["selector"],
            spec["maxUnavailable"],
            spec["unhealthyPodEvictionPolicy"]
        );
        let why = "minAvailable and maxUnavailable cannot be both set";
        causes.push(Cause::new("FieldValueInvalid", format!("Invalid value: {shown}: {why}"), "spec"));
    }
    for name in ["minAvailable", "maxUnavailable"] {
        let value = &spec[name];
        let why = match value {
            Value::Number(number) if number.as_i64().is_some_and(|number| number < 0) => {
                "must be greater than or equal to 0"
            }
            Value::String(text) => match text.strip_suffix('%').map(str::parse::<u32>) {
                Some(Ok(percent)) if percent <= 100 => continue,
                Some(Ok(_)) => "must not be greater than 100%",
                _ => {
                    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', \
                     regex used for validation is '[0-9]+%')"
                }
            },
            _ => continue,
        };
        causes.push(Cause::invalid(format!("spec.{name}"), value, why));
    }
    let policy = &spec["unhealthyPodEvictionPolicy"];
    if !matches!(policy.as_str(), None | Some("IfHealthyBudget" | "AlwaysAllow")) {
        let known = ["AlwaysAllow", "IfHealthyBudget"];
        causes.push(Cause::not_supported("spec.unhealthyPodEvictionPolicy", policy, known));
    }
    causes
}
