//! What a kubelet may do: only what its own node and the pods bound to it need.
//!
//! Of kinds that hold other people's secrets and settings a node sees what its pods name (`references`). What it may write is
//! decided here only as far as a name in the path allows; the content is looked at by `admission::nodes`. All other kinds
//! follow the fixed rules of the role `system:node`, which is bound to nobody.

use std::sync::OnceLock;

use super::references::References;
use super::{Attributes, ResourceAttributes, Rule};
use crate::authentication::User;
use crate::bootstrap;
use crate::storage::Cache;

const PREFIX: &str = "system:node:";
const GROUP: &str = "system:nodes";
/// Where leases of nodes are.
pub(crate) const LEASES: &str = "kube-node-lease";

/// The name of the node that somebody is.
pub(crate) fn node_name(user: &User) -> Option<&str> {
    user.name.strip_prefix(PREFIX).filter(|name| !name.is_empty() && user.is_in(GROUP))
}

/// Whether a node may do this because it is that node.
pub(super) fn allows(
    references: &References,
    cache: &Cache,
    node: &str,
    attributes: &Attributes<'_>,
) -> bool {
    let Attributes::Resource(wanted) = attributes else { return false };
    let reads = matches!(wanted.verb, "get" | "list" | "watch");
    let related = || wanted.name.is_some_and(|name| references.relate(cache, node, &wanted.key(name)));
    // On creation nobody knows the name yet.
    let own = || wanted.verb == "create" || wanted.name == Some(node);
    let writes = matches!(wanted.verb, "create" | "update" | "patch" | "delete");
    match (wanted.group, wanted.resource, wanted.subresource) {
        ("", "secrets" | "configmaps", part) => {
            reads && part.is_none() && wanted.namespace.is_some() && related()
        }
        ("", "persistentvolumeclaims", Some("status")) => {
            matches!(wanted.verb, "update" | "patch") && related()
        }
        ("", "persistentvolumeclaims" | "persistentvolumes", part)
        | ("resource.k8s.io", "resourceclaims", part)
        | ("storage.k8s.io", "volumeattachments", part) => {
            wanted.verb == "get" && part.is_none() && related()
        }
        ("", "serviceaccounts", None) => wanted.verb == "get" && related(),
        ("", "serviceaccounts", Some(part)) => part == "token" && wanted.verb == "create" && related(),
        ("coordination.k8s.io", "leases", part) => {
            (writes || wanted.verb == "get") && part.is_none() && wanted.namespace == Some(LEASES) && own()
        }
        ("storage.k8s.io", "csinodes", part) => (writes || wanted.verb == "get") && part.is_none() && own(),
        ("resource.k8s.io", "resourceslices", part) => {
            part.is_none()
                && match wanted.verb {
                    "create" => true,
                    "get" | "update" | "patch" | "delete" => related(),
                    _ => wanted.selects("spec.nodeName", node),
                }
        }
        ("", "nodes", None) => match wanted.verb {
            "create" | "update" | "patch" => true,
            _ => reads && wanted.name == Some(node),
        },
        ("", "nodes", Some(part)) => part == "status" && matches!(wanted.verb, "update" | "patch"),
        ("", "pods", None) => match wanted.verb {
            "get" => related(),
            "list" | "watch" => wanted.selects("spec.nodeName", node),
            verb => matches!(verb, "create" | "delete"),
        },
        ("", "pods", Some(part)) => match part {
            "status" => matches!(wanted.verb, "update" | "patch"),
            part => part == "eviction" && wanted.verb == "create",
        },
        _ => rules().iter().any(|rule| rule.allows(attributes)),
    }
}

/// Why a node may not, in the words of the real server; nothing where the rules alone have decided.
pub(crate) fn reason(node: &str, wanted: &ResourceAttributes<'_>) -> Option<String> {
    let reads = matches!(wanted.verb, "get" | "list" | "watch");
    Some(match (wanted.group, wanted.resource, wanted.subresource) {
        ("", "nodes", None) if reads => match wanted.name {
            None => format!("node '{node}' cannot read all nodes, only its own Node object"),
            Some(name) => format!("node '{node}' cannot read '{name}', only its own Node object"),
        },
        ("", "pods", None) if matches!(wanted.verb, "list" | "watch") => {
            "can only list/watch pods with spec.nodeName field selector".to_owned()
        }
        ("", "secrets" | "configmaps", None) if !reads => "can only read resources of this type".to_owned(),
        ("", "secrets" | "configmaps", None) if wanted.namespace.is_none() => {
            "can only read namespaced object of this type".to_owned()
        }
        ("", "secrets" | "configmaps", None) if wanted.name.is_none() => "No Object name found".to_owned(),
        ("", "persistentvolumeclaims" | "persistentvolumes" | "pods", None)
        | ("resource.k8s.io", "resourceclaims", None)
        | ("storage.k8s.io", "volumeattachments", None)
            if wanted.verb != "get" =>
        {
            "can only get individual resources of this type".to_owned()
        }
        (
            "",
            "secrets"
            | "configmaps"
            | "persistentvolumeclaims"
            | "persistentvolumes"
            | "serviceaccounts"
            | "pods",
            None,
        )
        | ("", "serviceaccounts", Some("token"))
        | ("resource.k8s.io", "resourceclaims", None)
        | ("storage.k8s.io", "volumeattachments", None) => {
            format!("no relationship found between node '{node}' and this object")
        }
        ("coordination.k8s.io", "leases", None) if wanted.namespace != Some(LEASES) => {
            format!("can only access leases in the {LEASES:?} system namespace")
        }
        ("coordination.k8s.io", "leases", None) if wanted.name.is_some() => {
            "can only access node lease with the same name as the requesting node".to_owned()
        }
        ("storage.k8s.io", "csinodes", None) if wanted.name.is_some() => {
            "can only access CSINode with the same name as the requesting node".to_owned()
        }
        _ => return None,
    })
}

/// The rules of the role `system:node`, read once.
fn rules() -> &'static [Rule] {
    static RULES: OnceLock<Vec<Rule>> = OnceLock::new();
    RULES.get_or_init(|| {
        let rules = bootstrap::node_rules();
        rules.into_iter().filter_map(|rule| serde_json::from_value(rule).ok()).collect()
    })
}

impl ResourceAttributes<'_> {
    /// The key in the cache of an object of this kind and namespace.
    fn key(&self, name: &str) -> String {
        let namespace = self.namespace.unwrap_or_default();
        match self.group {
            "" => format!("{}/{namespace}/{name}", self.resource),
            group => format!("{}.{group}/{namespace}/{name}", self.resource),
        }
    }

    /// Whether only objects with this value are asked for.
    fn selects(&self, field: &str, value: &str) -> bool {
        self.fields.is_some_and(|fields| {
            fields.split(',').any(|clause| {
                clause.split_once('=').is_some_and(|(of, wanted)| {
                    of.trim() == field && wanted.strip_prefix('=').unwrap_or(wanted).trim() == value
                })
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::registry::Registry;

    use super::*;
    use crate::metrics::Metrics;

    fn wanted<'a>(verb: &'a str, group: &'a str, path: &'a str) -> ResourceAttributes<'a> {
        // `namespace/resource/name/subresource`, each of them empty if there is none.
        let mut parts = path.split('/').map(|part| Some(part).filter(|part| !part.is_empty()));
        let mut next = || parts.next().flatten();
        let (namespace, resource) = (next(), next().unwrap_or_default());
        let (name, subresource) = (next(), next());
        ResourceAttributes { verb, group, resource, subresource, namespace, name, fields: None }
    }

    /// Of what needs no index.
    fn may(attributes: ResourceAttributes<'_>) -> bool {
        let cache = Cache::new(Metrics::new(&mut Registry::default()));
        allows(&References::default(), &cache, "north", &Attributes::Resource(attributes))
    }

    #[test]
    fn a_node_touches_only_itself_as_far_as_the_path_tells() {
        const LEASE: &str = "coordination.k8s.io";
        for (verb, group, path, expected) in [
            ("get", "", "/nodes/north", true),
            ("watch", "", "/nodes/north", true),
            ("get", "", "/nodes/south", false),
            ("list", "", "/nodes", false),
            ("delete", "", "/nodes/north", false),
            ("patch", "", "/nodes/north/status", true),
            ("get", LEASE, "kube-node-lease/leases/north", true),
            ("create", LEASE, "kube-node-lease/leases", true),
            ("update", LEASE, "kube-node-lease/leases/south", false),
            ("list", LEASE, "kube-node-lease/leases", false),
            ("get", LEASE, "kube-system/leases/north", false),
            ("get", "storage.k8s.io", "/csinodes/south", false),
            ("list", "", "a/secrets", false),
            ("list", "", "/pods", false),
            ("create", "", "a/pods", true),
            ("create", "", "a/pods/x/binding", false),
            ("list", "", "/services", true),
            ("create", "", "a/events", true),
            ("create", "", "a/configmaps", false),
            ("create", "certificates.k8s.io", "/certificatesigningrequests", true),
        ] {
            assert_eq!(may(wanted(verb, group, path)), expected, "{verb} {group} {path}");
        }
    }

    #[test]
    fn a_node_lists_pods_only_by_its_own_name() {
        for (fields, expected) in [
            ("spec.nodeName=north", true),
            ("status.phase!=Failed,spec.nodeName==north", true),
            ("spec.nodeName=south", false),
            ("spec.nodeName!=north", false),
        ] {
            let list = ResourceAttributes { fields: Some(fields), ..wanted("watch", "", "/pods") };
            assert_eq!(may(list), expected, "{fields}");
        }
    }

    #[test]
    fn who_is_a_node_says_so_in_name_and_group() {
        let user = |name: &str, groups: &[&str]| User {
            name: name.to_owned(),
            groups: groups.iter().map(|&group| group.to_owned()).collect(),
            ..User::default()
        };
        assert_eq!(node_name(&user("system:node:north", &["system:nodes"])), Some("north"));
        for (name, groups) in [
            ("system:node:north", &[][..]),
            ("north", &["system:nodes"]),
            ("system:node:", &["system:nodes"]),
        ] {
            assert_eq!(node_name(&user(name, groups)), None, "{name}");
        }
    }
}
