//! Which nodes a pod may be on by what it and they say: labels, fields and taints.
//!
//! Read by the scheduler for every pod, and by daemon sets, which place theirs themselves.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PodSpec, Taint, Toleration,
};

/// Whether the node has the labels that the pod asks for, by its selector and its required affinity.
pub(crate) fn is_wanted(spec: &PodSpec, node: &Node) -> bool {
    let labels = node.metadata.labels.as_ref();
    let has = |(key, value): (&String, &String)| labels.and_then(|labels| labels.get(key)) == Some(value);
    let selected = spec.node_selector.as_ref().is_none_or(|wanted| wanted.iter().all(has));
    selected && required(spec).is_none_or(|selector| selects(selector, node))
}

/// The affinity that a node has to meet.
pub(crate) fn required(spec: &PodSpec) -> Option<&NodeSelector> {
    let affinity = spec.affinity.as_ref()?.node_affinity.as_ref()?;
    affinity.required_during_scheduling_ignored_during_execution.as_ref()
}

/// Whether any term takes the node.
pub(crate) fn selects(selector: &NodeSelector, node: &Node) -> bool {
    selector.node_selector_terms.iter().any(|term| takes(term, node))
}

/// Whether the term takes the node. An empty one takes none.
pub(crate) fn takes(term: &NodeSelectorTerm, node: &Node) -> bool {
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    let none = BTreeMap::new();
    let labels = node.metadata.labels.as_ref().unwrap_or(&none);
    let label = |requirement: &NodeSelectorRequirement| {
        holds(requirement, labels.get(&requirement.key).map(String::as_str))
    };
    let field = |requirement: &NodeSelectorRequirement| {
        let name = node.metadata.name.as_deref();
        holds(requirement, name.filter(|_| requirement.key == "metadata.name"))
    };
    (!expressions.is_empty() || !fields.is_empty())
        && expressions.iter().all(label)
        && fields.iter().all(field)
}

fn holds(requirement: &NodeSelectorRequirement, found: Option<&str>) -> bool {
    let values = requirement.values.as_deref().unwrap_or_default();
    let listed = || found.is_some_and(|found| values.iter().any(|value| value == found));
    let compared = |compare: fn(i64, i64) -> bool| {
        let bound = values.first().and_then(|value| value.parse().ok());
        let number = found.and_then(|found| found.parse().ok());
        number.zip(bound).is_some_and(|(number, bound)| compare(number, bound))
    };
    match requirement.operator.as_str() {
        "In" => listed(),
        "NotIn" => !listed(),
        "Exists" => found.is_some(),
        "DoesNotExist" => found.is_none(),
        "Gt" => compared(|number, bound| number > bound),
        "Lt" => compared(|number, bound| number < bound),
        _ => false,
    }
}

/// The taints of a node.
pub(crate) fn taints(node: &Node) -> &[Taint] {
    node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default()
}

/// The first taint with one of these effects that nothing tolerates.
pub(crate) fn untolerated<'a>(
    taints: &'a [Taint],
    tolerations: &[Toleration],
    effects: &[&str],
) -> Option<&'a Taint> {
    taints.iter().find(|taint| {
        effects.contains(&taint.effect.as_str())
            && !tolerations.iter().any(|toleration| tolerates(toleration, taint))
    })
}

pub(crate) fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let effect = toleration.effect.as_deref().filter(|effect| !effect.is_empty());
    let key = toleration.key.as_deref().filter(|key| !key.is_empty());
    if effect.is_some_and(|effect| effect != taint.effect) || key.is_some_and(|key| key != taint.key) {
        return false;
    }
    match toleration.operator.as_deref() {
        Some("Exists") => true,
        // Without a key only "Exists" means something.
        _ => {
            key.is_some() && toleration.value.as_deref().unwrap_or("") == taint.value.as_deref().unwrap_or("")
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn node() -> Node {
        serde_json::from_value(json!({ "metadata": {
            "name": "one", "labels": { "zone": "a", "cores": "8" },
        } }))
        .unwrap()
    }

    fn wants(term: Value) -> bool {
        let spec = json!({ "containers": [], "affinity": { "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [term] },
        } } });
        is_wanted(&serde_json::from_value(spec).unwrap(), &node())
    }

    #[test]
    fn term_takes_nodes_by_labels_and_by_name() {
        let expression = |key: &str, operator: &str, values: &[&str]| json!({ "matchExpressions": [{ "key": key, "operator": operator, "values": values }] });
        for (term, expected) in [
            (expression("zone", "In", &["a", "b"]), true),
            (expression("zone", "NotIn", &["a"]), false),
            (expression("rack", "NotIn", &["a"]), true),
            (expression("rack", "Exists", &[]), false),
            (expression("rack", "DoesNotExist", &[]), true),
            (expression("cores", "Gt", &["7"]), true),
            (expression("cores", "Lt", &["8"]), false),
            (expression("zone", "Gt", &["7"]), false),
            (json!({}), false),
            (
                json!({ "matchFields": [{ "key": "metadata.name", "operator": "In", "values": ["one"] }] }),
                true,
            ),
            (
                json!({ "matchFields": [{ "key": "metadata.name", "operator": "In", "values": ["two"] }] }),
                false,
            ),
        ] {
            assert_eq!(wants(term.clone()), expected, "{term}");
        }
    }
}
