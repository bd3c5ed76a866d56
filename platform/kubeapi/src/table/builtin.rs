//! Which columns and cells each built-in kind has.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    Heading, UNKNOWN, age, autoscaling, batch, count, network, number, or_none, pod, policy, storage, text,
    workload,
};
use crate::catalogue::Resource;

const NAME: Heading = Heading::text("Name");
const AGE: Heading = Heading::text("Age");

pub(super) fn headings(resource: &Resource) -> &'static [Heading] {
    use super::Heading as H;
    match (resource.group.as_ref(), resource.plural.as_ref()) {
        ("", "pods") => {
            const {
                &[
                    NAME,
                    H::text("Ready"),
                    H::text("Status"),
                    H::text("Restarts"),
                    AGE,
                    H::wide("IP"),
                    H::wide("Node"),
                    H::wide("Nominated Node"),
                    H::wide("Readiness Gates"),
                ]
            }
        }
        ("", "nodes") => {
            const {
                &[
                    NAME,
                    H::text("Status"),
                    H::text("Roles"),
                    AGE,
                    H::text("Version"),
                    H::wide("Internal-IP"),
                    H::wide("External-IP"),
                    H::wide("OS-Image"),
                    H::wide("Kernel-Version"),
                    H::wide("Container-Runtime"),
                ]
            }
        }
        ("", "services") => {
            const {
                &[
                    NAME,
                    H::text("Type"),
                    H::text("Cluster-IP"),
                    H::text("External-IP"),
                    H::text("Port(s)"),
                    AGE,
                    H::wide("Selector"),
                ]
            }
        }
        ("", "endpoints") => const { &[NAME, H::text("Endpoints"), AGE] },
        ("", "namespaces") => const { &[NAME, H::text("Status"), AGE] },
        ("", "configmaps") => const { &[NAME, H::text("Data"), AGE] },
        ("", "secrets") => const { &[NAME, H::text("Type"), H::text("Data"), AGE] },
        ("", "serviceaccounts") => const { &[NAME, H::text("Secrets"), AGE] },
        ("", "events") | ("events.k8s.io", "events") => {
            const {
                &[
                    H::text("Last Seen"),
                    H::text("Type"),
                    H::text("Reason"),
                    H::text("Object"),
                    H::wide("Subobject"),
                    H::wide("Source"),
                    H::text("Message"),
                    H::wide("First Seen"),
                    H::wide("Count"),
                    H::wide("Name"),
                ]
            }
        }
        ("", "persistentvolumeclaims") => storage::CLAIM,
        ("", "persistentvolumes") => storage::VOLUME,
        ("storage.k8s.io", "storageclasses") => storage::CLASS,
        ("apps", "deployments") => workload::DEPLOYMENT,
        ("apps", "replicasets") => workload::REPLICA_SET,
        ("apps", "statefulsets") => workload::STATEFUL_SET,
        ("apps", "daemonsets") => workload::DAEMON_SET,
        ("apps", "controllerrevisions") => const { &[NAME, H::text("Controller"), H::text("Revision"), AGE] },
        ("discovery.k8s.io", "endpointslices") => {
            const { &[NAME, H::text("AddressType"), H::text("Ports"), H::text("Endpoints"), AGE] }
        }
        ("coordination.k8s.io", "leases") => const { &[NAME, H::text("Holder"), AGE] },
        ("scheduling.k8s.io", "priorityclasses") => {
            const { &[NAME, H::number("Value"), H::flag("Global-Default"), AGE, H::text("PreemptionPolicy")] }
        }
        ("", "componentstatuses") => {
            const { &[NAME, H::text("Status"), H::text("Message"), H::text("Error")] }
        }
        ("autoscaling", _) => autoscaling::AUTOSCALER,
        ("batch", "jobs") => batch::JOB,
        ("batch", "cronjobs") => batch::CRON_JOB,
        ("", "replicationcontrollers") => workload::REPLICA_SET,
        ("", "podtemplates") => {
            const { &[NAME, H::text("Containers"), H::text("Images"), H::text("Pod Labels")] }
        }
        ("", "resourcequotas") => const { &[NAME, H::text("Request"), H::text("Limit"), AGE] },
        ("", "limitranges") | ("storage.k8s.io", "csistoragecapacities") => {
            const { &[NAME, H::date("Created At")] }
        }
        ("policy", "poddisruptionbudgets") => policy::BUDGET,
        ("certificates.k8s.io", _) => policy::REQUEST,
        ("networking.k8s.io", "ingresses") => policy::INGRESS,
        ("networking.k8s.io", "ingressclasses") => {
            const { &[NAME, H::text("Controller"), H::text("Parameters"), AGE] }
        }
        ("networking.k8s.io", "networkpolicies") => const { &[NAME, H::text("Pod-Selector"), AGE] },
        ("networking.k8s.io", "ipaddresses") => const { &[NAME, H::text("ParentRef")] },
        ("networking.k8s.io", "servicecidrs") => const { &[NAME, H::text("CIDRs"), AGE] },
        ("storage.k8s.io", "csidrivers") => storage::DRIVER,
        ("storage.k8s.io", "csinodes") => const { &[NAME, H::number("Drivers"), AGE] },
        ("storage.k8s.io", "volumeattachments") => storage::ATTACHMENT,
        ("storage.k8s.io", "volumeattributesclasses") => const { &[NAME, H::text("DriverName"), AGE] },
        ("node.k8s.io", "runtimeclasses") => const { &[NAME, H::text("Handler"), AGE] },
        (
            "admissionregistration.k8s.io",
            "validatingwebhookconfigurations" | "mutatingwebhookconfigurations",
        ) => const { &[NAME, H::number("Webhooks"), AGE] },
        ("admissionregistration.k8s.io", "validatingadmissionpolicies") => {
            const { &[NAME, H::number("Validations"), H::text("ParamKind"), AGE] }
        }
        ("admissionregistration.k8s.io", "validatingadmissionpolicybindings") => {
            const { &[NAME, H::text("PolicyName"), H::text("ParamRef"), AGE] }
        }
        ("apiregistration.k8s.io", _) => const { &[NAME, H::text("Service"), H::text("Available"), AGE] },
        ("rbac.authorization.k8s.io", "roles" | "clusterroles")
        | ("apiextensions.k8s.io", "customresourcedefinitions") => const { &[NAME, H::date("Created At")] },
        ("rbac.authorization.k8s.io", "rolebindings" | "clusterrolebindings") => {
            const { &[NAME, H::text("Role"), AGE, H::wide("Users"), H::wide("Groups"), H::wide("ServiceAccounts")] }
        }
        _ => const { &[NAME, AGE] },
    }
}

pub(super) fn cells(resource: &Resource, object: &Value, now: Timestamp) -> Vec<Value> {
    let name = object["metadata"]["name"].clone();
    let age = age::since(&object["metadata"]["creationTimestamp"], now);
    match (resource.group.as_ref(), resource.plural.as_ref()) {
        ("", "pods") => pod::cells(object, name, age, now),
        ("", "nodes") => network::node(object, name, age),
        ("", "services") => network::service(object, name, age),
        ("", "endpoints") => network::endpoints(object, name, age),
        ("discovery.k8s.io", "endpointslices") => network::endpoint_slice(object, name, age),
        ("", "namespaces") => vec![name, object["status"]["phase"].clone(), age],
        ("", "configmaps") => {
            vec![name, json!(count(object, "/data") + count(object, "/binaryData")), age]
        }
        ("", "secrets") => vec![name, object["type"].clone(), json!(count(object, "/data")), age],
        ("", "serviceaccounts") => vec![name, json!(super::list(object, "/secrets").len()), age],
        ("", "events") => event(object, name, now),
        ("events.k8s.io", "events") => event(&policy::core_event(object), name, now),
        ("", "persistentvolumeclaims") => storage::claim(object, name, age),
        ("", "persistentvolumes") => storage::volume(object, name, age),
        ("storage.k8s.io", "storageclasses") => storage::class(object, name, age),
        ("apps", "deployments") => workload::deployment(object, name, age),
        ("apps", "replicasets") => workload::replica_set(object, name, age),
        ("apps", "statefulsets") => workload::stateful_set(object, name, age),
        ("apps", "daemonsets") => workload::daemon_set(object, name, age),
        ("apps", "controllerrevisions") => {
            vec![name, or_none(controller(object)), json!(number(object, "/revision")), age]
        }
        ("coordination.k8s.io", "leases") => vec![name, json!(text(object, "/spec/holderIdentity")), age],
        ("scheduling.k8s.io", "priorityclasses") => vec![
            name,
            json!(number(object, "/value")),
            json!(object["globalDefault"] == true),
            age,
            json!(text(object, "/preemptionPolicy")),
        ],
        ("", "componentstatuses") => {
            let condition = &object["conditions"][0];
            let healthy = if condition["status"] == "True" { "Healthy" } else { "Unhealthy" };
            vec![name, json!(healthy), json!(text(condition, "/message")), json!(text(condition, "/error"))]
        }
        ("autoscaling", _) => autoscaling::autoscaler(object, name, age),
        ("batch", "jobs") => batch::job(object, name, age, now),
        ("batch", "cronjobs") => batch::cron_job(object, name, age, now),
        ("", "replicationcontrollers") => workload::replication_controller(object, name, age),
        ("", "podtemplates") => workload::pod_template(object, name),
        ("", "resourcequotas") => policy::quota(object, name, age),
        ("", "limitranges") | ("storage.k8s.io", "csistoragecapacities") => {
            vec![name, object["metadata"]["creationTimestamp"].clone()]
        }
        ("policy", "poddisruptionbudgets") => policy::budget(object, name, age),
        ("certificates.k8s.io", _) => policy::request(object, name, age),
        ("networking.k8s.io", plural) => policy::networking(plural, object, name, age),
        ("storage.k8s.io", "csidrivers") => storage::driver(object, name, age),
        ("storage.k8s.io", "csinodes") => vec![name, json!(super::list(object, "/spec/drivers").len()), age],
        ("storage.k8s.io", "volumeattachments") => storage::attachment(object, name, age),
        ("storage.k8s.io", "volumeattributesclasses") => vec![name, json!(text(object, "/driverName")), age],
        ("node.k8s.io", "runtimeclasses") => vec![name, json!(text(object, "/handler")), age],
        ("admissionregistration.k8s.io", plural) => policy::admission(plural, object, name, age),
        ("apiregistration.k8s.io", _) => policy::api_service(object, name, age),
        ("rbac.authorization.k8s.io", "roles" | "clusterroles")
        | ("apiextensions.k8s.io", "customresourcedefinitions") => {
            vec![name, object["metadata"]["creationTimestamp"].clone()]
        }
        ("rbac.authorization.k8s.io", "rolebindings" | "clusterrolebindings") => binding(object, name, age),
        _ => vec![name, age],
    }
}

fn controller(object: &Value) -> String {
    super::list(object, "/metadata/ownerReferences")
        .iter()
        .find(|owner| owner["controller"] == true)
        .map(|owner| {
            let group = text(owner, "/apiVersion").split_once('/').map_or("", |(group, _)| group);
            let kind = text(owner, "/kind").to_ascii_lowercase();
            let dot = if group.is_empty() { "" } else { "." };
            format!("{kind}{dot}{group}/{}", text(owner, "/name"))
        })
        .unwrap_or_default()
}

fn event(object: &Value, name: Value, now: Timestamp) -> Vec<Value> {
    let first = [&object["firstTimestamp"], &object["eventTime"]].into_iter().find(|time| time.is_string());
    let last = [&object["series"]["lastObservedTime"], &object["lastTimestamp"]]
        .into_iter()
        .find(|time| time.is_string())
        .or(first);
    let seen = |time: Option<&Value>| time.map_or_else(|| json!(UNKNOWN), |time| age::since(time, now));
    let count = object["series"]["count"].as_i64().or_else(|| object["count"].as_i64()).unwrap_or(1);
    let component = match text(object, "/source/component") {
        "" => text(object, "/reportingComponent"),
        component => component,
    };
    let source = match text(object, "/source/host") {
        "" => component.to_owned(),
        host => format!("{component}, {host}"),
    };
    let about = format!(
        "{}/{}",
        text(object, "/involvedObject/kind").to_ascii_lowercase(),
        text(object, "/involvedObject/name")
    );
    vec![
        seen(last),
        object["type"].clone(),
        object["reason"].clone(),
        json!(about),
        json!(text(object, "/involvedObject/fieldPath")),
        json!(source),
        json!(text(object, "/message").trim()),
        seen(first),
        json!(count.to_string()),
        name,
    ]
}

fn binding(object: &Value, name: Value, age: Value) -> Vec<Value> {
    let role = format!("{}/{}", text(object, "/roleRef/kind"), text(object, "/roleRef/name"));
    let subjects = |kind: &str| {
        let names: Vec<_> = super::list(object, "/subjects")
            .iter()
            .filter(|subject| subject["kind"] == kind)
            .map(|subject| match text(subject, "/namespace") {
                "" => text(subject, "/name").to_owned(),
                namespace => format!("{namespace}/{}", text(subject, "/name")),
            })
            .collect();
        json!(names.join(", "))
    };
    vec![name, json!(role), age, subjects("User"), subjects("Group"), subjects("ServiceAccount")]
}
