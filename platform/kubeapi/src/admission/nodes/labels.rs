//! Which labels of its own Node object a kubelet may set.

use serde_json::{Map, Value};

use super::Keys;

/// What a kubelet knows of itself.
const KNOWN: [&str; 11] = [
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "node.kubernetes.io/instance-type",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "beta.kubernetes.io/instance-type",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/arch",
];
/// Domains below which a kubelet may set anything.
const OPEN: [&str; 2] = ["kubelet.kubernetes.io", "node.kubernetes.io"];
/// The domain that is there to keep kubelets out.
const RESTRICTED: &str = "node-restriction.kubernetes.io";

/// Labels that differ and that are not for kubelets to change, in order.
pub(super) fn forbidden<'a>(old: Option<&'a Value>, new: &'a Value) -> Keys<'a> {
    let (before, after) = (old.and_then(of), of(new));
    let value = |labels: Option<&'a Map<String, Value>>, key: &str| labels.and_then(|labels| labels.get(key));
    let keys = before.into_iter().chain(after).flat_map(Map::keys);
    keys.filter(|key| value(before, key) != value(after, key))
        .map(String::as_str)
        .filter(|key| is_forbidden(key))
        .collect()
}

pub(super) fn are_equal(old: &Value, new: &Value) -> bool {
    let empty = Map::new();
    of(old).unwrap_or(&empty) == of(new).unwrap_or(&empty)
}

fn of(object: &Value) -> Option<&Map<String, Value>> {
    object["metadata"]["labels"].as_object()
}

fn is_forbidden(key: &str) -> bool {
    let of_kubernetes = is_of(key, "kubernetes.io") || is_of(key, "k8s.io");
    let for_kubelets = KNOWN.contains(&key) || OPEN.iter().any(|domain| is_of(key, domain));
    is_of(key, RESTRICTED) || (of_kubernetes && !for_kubelets)
}

/// Whether a label's domain is this one, or below it.
pub(super) fn is_of(key: &str, domain: &str) -> bool {
    let Some((of, _)) = key.split_once('/') else { return false };
    of.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kubelet_sets_what_it_knows_and_what_is_nobodys() {
        for (key, expected) in [
            ("kubernetes.io/hostname", false),
            ("node.kubernetes.io/anything", false),
            ("a.kubelet.kubernetes.io/anything", false),
            ("example.com/kubernetes.io", false),
            ("notkubernetes.io/a", false),
            ("plain", false),
            ("kubernetes.io/anything", true),
            ("node-role.kubernetes.io/worker", true),
            ("a.k8s.io/b", true),
            ("node-restriction.kubernetes.io/a", true),
            ("a.node-restriction.kubernetes.io/b", true),
        ] {
            assert_eq!(is_forbidden(key), expected, "{key}");
        }
    }
}
