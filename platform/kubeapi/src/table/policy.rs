//! Budgets, quotas, certificates, ingresses and admission in one line.

use serde_json::{Value, json};

use super::workload::selected;
use super::{Heading, UNKNOWN, list, number, or_none, plain, text};

pub(super) const BUDGET: &[Heading] = &[
    Heading::text("Name"),
    Heading::text("Min Available"),
    Heading::text("Max Unavailable"),
    Heading::number("Allowed Disruptions"),
    Heading::text("Age"),
];

pub(super) const REQUEST: &[Heading] = &[
    Heading::text("Name"),
    Heading::text("Age"),
    Heading::text("SignerName"),
    Heading::text("Requestor"),
    Heading::text("RequestedDuration"),
    Heading::text("Condition"),
];

pub(super) const INGRESS: &[Heading] = &[
    Heading::text("Name"),
    Heading::text("Class"),
    Heading::text("Hosts"),
    Heading::text("Address"),
    Heading::text("Ports"),
    Heading::text("Age"),
];

/// How many hosts are named before the rest is counted.
const MOST_HOSTS: usize = 3;

pub(super) fn budget(object: &Value, name: Value, age: Value) -> Vec<Value> {
    let amount = |key: &str| match &object["spec"][key] {
        Value::Null => json!("N/A"),
        value => json!(plain(value)),
    };
    let allowed = number(object, "/status/disruptionsAllowed");
    vec![name, amount("minAvailable"), amount("maxUnavailable"), json!(allowed), age]
}

pub(super) fn quota(object: &Value, name: Value, age: Value) -> Vec<Value> {
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    for (resource, hard) in object["status"]["hard"].as_object().into_iter().flatten() {
        let used = object["status"]["used"].get(resource).and_then(Value::as_str).unwrap_or("0");
        let shown = format!("{resource}: {used}/{}", plain(hard));
        if resource.starts_with("limits.") { limits.push(shown) } else { requests.push(shown) }
    }
    vec![name, json!(requests.join(", ")), json!(limits.join(", ")), age]
}

pub(super) fn request(object: &Value, name: Value, age: Value) -> Vec<Value> {
    let kinds: Vec<_> = list(object, "/status/conditions").iter().map(|one| text(one, "/type")).collect();
    let mut condition = match () {
        () if kinds.contains(&"Denied") => "Denied".to_owned(),
        () if kinds.contains(&"Approved") => "Approved".to_owned(),
        () => "Pending".to_owned(),
    };
    if kinds.contains(&"Failed") {
        condition.push_str(",Failed");
    }
    if !text(object, "/status/certificate").is_empty() {
        condition.push_str(",Issued");
    }
    let duration = object["spec"]["expirationSeconds"].as_i64();
    vec![
        name,
        age,
        json!(text(object, "/spec/signerName")),
        json!(text(object, "/spec/username")),
        duration.map_or_else(|| or_none(""), |seconds| json!(super::age::short(seconds))),
        json!(condition),
    ]
}

pub(super) fn networking(plural: &str, object: &Value, name: Value, age: Value) -> Vec<Value> {
    match plural {
        "ingresses" => ingress(object, name, age),
        "ingressclasses" => {
            let parameters = &object["spec"]["parameters"];
            let kind = match text(parameters, "/apiGroup") {
                "" => text(parameters, "/kind").to_owned(),
                group => format!("{}.{group}", text(parameters, "/kind")),
            };
            let shown = match parameters.is_object() {
                true => format!("{kind}/{}", text(parameters, "/name")),
                false => String::new(),
            };
            vec![name, json!(text(object, "/spec/controller")), or_none(shown), age]
        }
        "networkpolicies" => vec![name, selected(&object["spec"]["podSelector"]), age],
        "ipaddresses" => {
            let parent = &object["spec"]["parentRef"];
            let places = ["/resource", "/namespace", "/name"].map(|part| text(parent, part));
            let places: Vec<_> = places.into_iter().filter(|part| !part.is_empty()).collect();
            vec![name, json!(places.join("/"))]
        }
        "servicecidrs" => {
            let ranges: Vec<_> = list(object, "/spec/cidrs").iter().filter_map(Value::as_str).collect();
            vec![name, json!(ranges.join(",")), age]
        }
        _ => vec![name, age],
    }
}

fn ingress(object: &Value, name: Value, age: Value) -> Vec<Value> {
    let rules = list(object, "/spec/rules");
    let hosts: Vec<_> = rules
        .iter()
        .map(|rule| text(rule, "/host"))
        .filter(|host| !host.is_empty())
        .take(MOST_HOSTS)
        .collect();
    let hosts = match hosts.len() {
        0 => "*".to_owned(),
        MOST_HOSTS if rules.len() > MOST_HOSTS => {
            format!("{} + {} more...", hosts.join(","), rules.len() - MOST_HOSTS)
        }
        _ => hosts.join(","),
    };
    let addresses: Vec<_> = list(object, "/status/loadBalancer/ingress")
        .iter()
        .map(|one| if text(one, "/ip").is_empty() { text(one, "/hostname") } else { text(one, "/ip") })
        .collect();
    let ports = if list(object, "/spec/tls").is_empty() { "80" } else { "80, 443" };
    vec![
        name,
        or_none(text(object, "/spec/ingressClassName")),
        json!(hosts),
        json!(addresses.join(",")),
        json!(ports),
        age,
    ]
}

pub(super) fn admission(plural: &str, object: &Value, name: Value, age: Value) -> Vec<Value> {
    let unset = |shown: String| json!(if shown.is_empty() { "<unset>".to_owned() } else { shown });
    match plural {
        "validatingadmissionpolicies" => {
            let kind = &object["spec"]["paramKind"];
            let shown = match kind.is_object() {
                true => format!("{}/{}", text(kind, "/apiVersion"), text(kind, "/kind")),
                false => String::new(),
            };
            vec![name, json!(list(object, "/spec/validations").len()), unset(shown), age]
        }
        "validatingadmissionpolicybindings" => {
            let reference = &object["spec"]["paramRef"];
            let shown = match (text(reference, "/namespace"), text(reference, "/name")) {
                (_, "") => String::new(),
                ("", name) => name.to_owned(),
                (namespace, name) => format!("{namespace}/{name}"),
            };
            vec![name, json!(text(object, "/spec/policyName")), unset(shown), age]
        }
        _ => vec![name, json!(list(object, "/webhooks").len()), age],
    }
}

pub(super) fn api_service(object: &Value, name: Value, age: Value) -> Vec<Value> {
    let service = &object["spec"]["service"];
    let shown = match service.is_object() {
        true => format!("{}/{}", text(service, "/namespace"), text(service, "/name")),
        false => "Local".to_owned(),
    };
    let condition = list(object, "/status/conditions").iter().find(|one| one["type"] == "Available");
    let available = condition.map_or_else(
        || UNKNOWN.to_owned(),
        |one| match text(one, "/status") {
            "True" => "True".to_owned(),
            status => format!("{status} ({})", text(one, "/reason")),
        },
    );
    vec![name, json!(shown), json!(available), age]
}

/// An event of its own group in the words of the core group, as far as a line shows it.
pub(super) fn core_event(event: &Value) -> Value {
    json!({
        "type": event["type"],
        "reason": event["reason"],
        "message": event["note"],
        "involvedObject": event["regarding"],
        "reportingComponent": event["reportingController"],
        "source": event["deprecatedSource"],
        "series": event["series"],
        "count": event["deprecatedCount"],
        "eventTime": event["eventTime"],
        "firstTimestamp": event["deprecatedFirstTimestamp"],
        "lastTimestamp": event["deprecatedLastTimestamp"],
    })
}
