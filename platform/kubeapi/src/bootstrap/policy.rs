//! The roles and bindings that every cluster has, so that whoever is written for Kubernetes finds its permissions.
//!
//! They are data (`policy.json`): the names and rules of Kubernetes 1.34, compared with the real server's by the differential
//! suite. Beside them are a few of our own, whose names begin with `pilothouse:`, for nodes and how they join.

use serde::Deserialize;
use serde_json::{Value, json};

use super::RBAC;
use crate::aggregation;
use crate::config::Config;

/// Roles that carry this label with the value `true` are part of the one that it names.
const JOINS: &str = "rbac.authorization.k8s.io/aggregate-to-";
/// Who may be changed by a new version of the server.
const AUTOUPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";

/// What we add to the policy of Kubernetes begins with this.
const OURS: &str = "pilothouse:";
/// What our nodes do beyond a kubelet: they also lead to Services, and keep the folders of volumes.
const NODE_EXTRAS: &str = "pilothouse:node";
/// And, where they lead to each other's pods, see each other.
const NODE_NEIGHBOURS: &str = "pilothouse:node-neighbours";
/// As metrics collectors call it.
const METRICS_READER: &str = "system:aggregated-metrics-reader";
/// What a node without a certificate may read to find the cluster.
const CLUSTER_INFO: &str = "pilothouse:cluster-info";

/// How a node joins, as installers of Kubernetes have it: who has a token may ask for a node's certificate and gets it, and a
/// node gets its next one. Each is a binding, its role and the group.
const JOINING: [(&str, &str, &str); 3] = [
    ("pilothouse:node-bootstrap", "system:node-bootstrapper", "system:bootstrappers"),
    (
        "pilothouse:node-approval",
        "system:certificates.k8s.io:certificatesigningrequests:nodeclient",
        "system:bootstrappers",
    ),
    (
        "pilothouse:node-renewal",
        "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient",
        "system:nodes",
    ),
];

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Policy {
    cluster_roles: Vec<Role>,
    cluster_role_bindings: Vec<Binding>,
    roles: Vec<Role>,
    role_bindings: Vec<Binding>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Role {
    #[serde(default)]
    namespace: String,
    name: String,
    /// The role that gathers this one's rules.
    joins: Option<String>,
    /// What this role gathers.
    gathers: Option<String>,
    #[serde(default)]
    rules: Vec<Value>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Binding {
    #[serde(default)]
    namespace: String,
    name: String,
    /// The one of the same name, if nothing is said.
    role: Option<String>,
    subjects: Vec<Subject>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Subject {
    kind: String,
    name: String,
    namespace: Option<String>,
}

/// An object of the policy: which collection, where, what.
pub(super) struct Item {
    pub(super) plural: &'static str,
    pub(super) namespace: String,
    pub(super) object: Value,
}

/// Everything, roles before what binds them.
pub(super) fn items(config: &Config) -> Result<Vec<Item>, serde_json::Error> {
    let mut policy: Policy = serde_json::from_str(include_str!("policy.json"))?;
    policy.cluster_roles.push(node_extras());
    if config.nodes_are_neighbours {
        policy.cluster_roles.push(node_neighbours());
        policy.cluster_role_bindings.push(Binding::to_group(NODE_NEIGHBOURS, None, "system:nodes"));
    }
    policy.cluster_roles.push(metrics_reader());
    policy.cluster_role_bindings.push(Binding::to_group(NODE_EXTRAS, None, "system:nodes"));
    let joining = JOINING.iter().map(|(name, role, group)| Binding::to_group(name, Some(role), group));
    policy.cluster_role_bindings.extend(joining);
    let (role, binding) = cluster_info();
    policy.roles.push(role);
    policy.role_bindings.push(binding);
    policy.cluster_roles.sort_by(|left, right| left.name.cmp(&right.name));
    let mut cluster_roles: Vec<_> = policy.cluster_roles.iter().map(Role::object).collect();
    // From the smallest up: each gathers the one before.
    for name in ["view", "edit", "admin"] {
        if let Some(place) = cluster_roles.iter().position(|role| role["metadata"]["name"] == name) {
            let rules = aggregation::gathered(&cluster_roles[place], &cluster_roles);
            cluster_roles[place]["rules"] = json!(rules);
        }
    }
    let nowhere = |plural| move |object| Item { plural, namespace: String::new(), object };
    let mut items: Vec<_> = cluster_roles.into_iter().map(nowhere("clusterroles")).collect();
    items.extend(policy.roles.iter().map(|role| Item {
        plural: "roles",
        namespace: role.namespace.clone(),
        object: role.object(),
    }));
    let bound = policy.cluster_role_bindings.iter().map(|binding| binding.object("ClusterRole"));
    items.extend(bound.map(nowhere("clusterrolebindings")));
    items.extend(policy.role_bindings.iter().map(|binding| Item {
        plural: "rolebindings",
        namespace: binding.namespace.clone(),
        object: binding.object("Role"),
    }));
    Ok(items)
}

/// What a node may do that is asked for nothing in particular.
pub(crate) fn node_rules() -> Vec<Value> {
    let policy = serde_json::from_str::<Policy>(include_str!("policy.json"));
    let roles = policy.map(|policy| policy.cluster_roles).unwrap_or_default();
    roles.into_iter().find(|role| role.name == "system:node").map(|role| role.rules).unwrap_or_default()
}

/// Ours is not among those that Kubernetes knows, and does not say it is.
fn is_ours(name: &str) -> bool {
    name.starts_with(OURS) || name == METRICS_READER
}

/// Whoever may look at pods may see what they use.
fn metrics_reader() -> Role {
    Role {
        namespace: String::new(),
        name: METRICS_READER.to_owned(),
        joins: Some("view".to_owned()),
        gathers: None,
        rules: vec![
            json!({ "apiGroups": ["metrics.k8s.io"], "resources": ["nodes", "pods"], "verbs": ["get", "list"] }),
        ],
    }
}

fn node_extras() -> Role {
    Role {
        namespace: String::new(),
        name: NODE_EXTRAS.to_owned(),
        joins: None,
        gathers: None,
        rules: vec![
            json!({ "apiGroups": [""], "resources": ["endpoints", "services"], "verbs": ["list", "watch"] }),
            json!({ "apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"] }),
            json!({ "apiGroups": [""], "resources": ["persistentvolumes"], "verbs": ["delete", "list", "watch"] }),
        ],
    }
}

fn node_neighbours() -> Role {
    Role {
        namespace: String::new(),
        name: NODE_NEIGHBOURS.to_owned(),
        joins: None,
        gathers: None,
        rules: vec![json!({ "apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "watch"] })],
    }
}

/// Everybody who is let in at all may read where the cluster is.
fn cluster_info() -> (Role, Binding) {
    let rule = json!({
        "apiGroups": [""],
        "resources": ["configmaps"],
        "resourceNames": ["cluster-info"],
        "verbs": ["get"],
    });
    let role = Role {
        namespace: "kube-public".to_owned(),
        name: CLUSTER_INFO.to_owned(),
        joins: None,
        gathers: None,
        rules: vec![rule],
    };
    let anonymous = Subject { kind: "User".to_owned(), name: "system:anonymous".to_owned(), namespace: None };
    let binding = Binding {
        namespace: role.namespace.clone(),
        name: CLUSTER_INFO.to_owned(),
        role: None,
        subjects: vec![anonymous],
    };
    (role, binding)
}

/// What is stored, with everything that a newer policy adds; nothing if it lacks nothing. Who takes the annotation off a
/// role or binding keeps it as it is.
pub(super) fn updated(plural: &str, stored: &Value, wanted: &Value) -> Option<Value> {
    let annotations = &stored["metadata"]["annotations"];
    let mut new = stored.clone();
    if plural == "clusterrolebindings" && annotations[AUTOUPDATE].is_null() && shared_role_of_nodes(stored) {
        new["subjects"] = wanted["subjects"].clone();
        new["metadata"]["annotations"] = wanted["metadata"]["annotations"].clone();
        return Some(new);
    }
    if annotations[AUTOUPDATE] != "true" {
        return None;
    }
    for (key, value) in wanted["metadata"]["labels"].as_object().into_iter().flatten() {
        new["metadata"]["labels"][key] = value.clone();
    }
    if !wanted["aggregationRule"].is_null() {
        // Its rules are gathered; one that had its own until now gives them up.
        new["aggregationRule"] = wanted["aggregationRule"].clone();
    } else {
        add_missing(&mut new, wanted, "rules");
    }
    add_missing(&mut new, wanted, "subjects");
    (new != *stored).then_some(new)
}

fn add_missing(new: &mut Value, wanted: &Value, field: &str) {
    let Some(wanted) = wanted[field].as_array() else { return };
    let has = new[field].as_array().cloned().unwrap_or_default();
    let missing: Vec<_> = wanted.iter().filter(|one| !has.contains(one)).cloned().collect();
    if !missing.is_empty() {
        new[field] = json!([has, missing].concat());
    }
}

/// Servers before the node authorizer gave all nodes one role with everything that any of them might need.
fn shared_role_of_nodes(stored: &Value) -> bool {
    let subjects = stored["subjects"].as_array().map(Vec::as_slice).unwrap_or_default();
    let bootstrapped = stored["metadata"]["labels"]["kubernetes.io/bootstrapping"] == "rbac-defaults";
    let shared = |subject: &Value| subject["kind"] == "Group" && subject["name"] == "system:nodes";
    stored["metadata"]["name"] == "system:node" && bootstrapped && subjects.iter().any(shared)
}

// === impl Role ===

impl Role {
    fn object(&self) -> Value {
        let mut object = json!({ "metadata": metadata(&self.name), "rules": self.rules });
        if let Some(role) = &self.joins {
            object["metadata"]["labels"][format!("{JOINS}{role}")] = json!("true");
        }
        if let Some(label) = &self.gathers {
            let selector = json!({ "matchLabels": { format!("{JOINS}{label}"): "true" } });
            object["aggregationRule"] = json!({ "clusterRoleSelectors": [selector] });
        }
        object
    }
}

// === impl Binding ===

impl Binding {
    fn to_group(name: &str, role: Option<&str>, group: &str) -> Self {
        let group = Subject { kind: "Group".to_owned(), name: group.to_owned(), namespace: None };
        Self {
            namespace: String::new(),
            name: name.to_owned(),
            role: role.map(str::to_owned),
            subjects: vec![group],
        }
    }

    fn object(&self, kind: &str) -> Value {
        let subject = |subject: &Subject| match &subject.namespace {
            Some(namespace) => json!({ "kind": subject.kind, "name": subject.name, "namespace": namespace }),
            None => json!({ "kind": subject.kind, "name": subject.name, "apiGroup": RBAC }),
        };
        let role = self.role.as_ref().unwrap_or(&self.name);
        let mut object = json!({
            "metadata": metadata(&self.name),
            "roleRef": { "apiGroup": RBAC, "kind": kind, "name": role },
        });
        if !self.subjects.is_empty() {
            object["subjects"] = self.subjects.iter().map(subject).collect();
        }
        object
    }
}

fn metadata(name: &str) -> Value {
    let mut metadata = json!({ "name": name, "annotations": { AUTOUPDATE: "true" } });
    if !is_ours(name) {
        metadata["labels"] = json!({ "kubernetes.io/bootstrapping": "rbac-defaults" });
    }
    metadata
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(plural: &str, name: &str) -> Value {
        let named = |item: &Item| item.plural == plural && item.object["metadata"]["name"] == name;
        items(&Config::default()).unwrap().into_iter().find(named).unwrap().object
    }

    #[test]
    fn an_administrator_has_gathered_everything_that_a_viewer_has() {
        let rules = |name| item("clusterroles", name)["rules"].as_array().unwrap().clone();
        let (view, admin) = (rules("view"), rules("admin"));
        assert!(!view.is_empty() && view.iter().all(|rule| admin.contains(rule)));
        assert!(!node_rules().is_empty());
    }

    #[test]
    fn what_a_newer_policy_adds_is_added_and_nothing_is_taken_away() {
        let wanted = item("clusterroles", "system:volume-scheduler");
        assert_eq!(updated("clusterroles", &wanted, &wanted), None);
        let mut stored = wanted.clone();
        let own = json!({ "apiGroups": ["x"], "resources": ["y"], "verbs": ["get"] });
        stored["rules"] = json!([own]);
        let rules = updated("clusterroles", &stored, &wanted).unwrap()["rules"].as_array().unwrap().clone();
        assert_eq!(rules.first(), Some(&own));
        assert_eq!(&rules[1..], wanted["rules"].as_array().unwrap().as_slice());
        stored["metadata"]["annotations"][AUTOUPDATE] = json!("false");
        assert_eq!(updated("clusterroles", &stored, &wanted), None, "somebody wants it to stay");
    }

    #[test]
    fn nodes_lose_the_role_that_they_all_shared() {
        let wanted = item("clusterrolebindings", "system:node");
        let mut old = wanted.clone();
        old["metadata"].as_object_mut().unwrap().remove("annotations");
        old["subjects"] = json!([{ "kind": "Group", "name": "system:nodes", "apiGroup": RBAC }]);
        let new = updated("clusterrolebindings", &old, &wanted).unwrap();
        assert!(new["subjects"].is_null(), "{new}");
        assert_eq!(updated("clusterrolebindings", &new, &wanted), None);
    }
}
