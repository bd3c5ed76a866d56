//! What a pod asks for and what a node has, in thousandths.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Node, PodSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// Thousandths of each resource.
pub(super) type Amounts = BTreeMap<String, i128>;

/// What upstream's kubelet runs at most, where a node does not say.
const PODS: i128 = 110_000;

/// The quantity in thousandths, rounded up. `None` if it is none.
pub(super) fn parse(quantity: &Quantity) -> Option<i128> {
    pilothouse_cel::Quantity::parse(&quantity.0).ok().map(pilothouse_cel::Quantity::thousandths)
}

fn amounts(quantities: Option<&BTreeMap<String, Quantity>>) -> Amounts {
    let parsed = |(name, quantity): (&String, &Quantity)| Some((name.clone(), parse(quantity)?));
    quantities.into_iter().flatten().filter_map(parsed).collect()
}

fn of_container(container: &Container) -> Amounts {
    let resources = container.resources.as_ref();
    let mut amounts = amounts(resources.and_then(|resources| resources.limits.as_ref()));
    // A limit alone is a request too.
    amounts.extend(self::amounts(resources.and_then(|resources| resources.requests.as_ref())));
    amounts
}

pub(super) fn add(to: &mut Amounts, amounts: &Amounts) {
    for (name, amount) in amounts {
        *to.entry(name.clone()).or_default() += amount;
    }
}

pub(super) fn subtract(from: &mut Amounts, amounts: &Amounts) {
    for (name, amount) in amounts {
        *from.entry(name.clone()).or_default() -= amount;
    }
    from.retain(|_, amount| *amount != 0);
}

fn raise(to: &mut Amounts, amounts: &Amounts) {
    for (name, amount) in amounts {
        let most = to.entry(name.clone()).or_default();
        *most = (*most).max(*amount);
    }
}

/// What a pod needs at its hungriest: its containers together with those that run beside them, or one that runs before
/// them together with those that were started earlier and stay.
pub(super) fn requests(spec: &PodSpec) -> Amounts {
    let mut running = Amounts::new();
    spec.containers.iter().for_each(|container| add(&mut running, &of_container(container)));
    let (mut beside, mut before) = (Amounts::new(), Amounts::new());
    for container in spec.init_containers.iter().flatten() {
        let own = of_container(container);
        let mut together = beside.clone();
        add(&mut together, &own);
        raise(&mut before, &together);
        if container.restart_policy.as_deref() == Some("Always") {
            add(&mut running, &own);
            beside = together;
        }
    }
    raise(&mut running, &before);
    // What the pod asks for as a whole comes before the sum of its parts.
    running.extend(amounts(spec.resources.as_ref().and_then(|resources| resources.requests.as_ref())));
    add(&mut running, &amounts(spec.overhead.as_ref()));
    running.retain(|_, amount| *amount > 0);
    running
}

/// What a node has for pods.
pub(super) fn allocatable(node: &Node) -> Amounts {
    let status = node.status.as_ref();
    let mut all = amounts(status.and_then(|status| status.capacity.as_ref()));
    all.extend(amounts(status.and_then(|status| status.allocatable.as_ref())));
    all.entry("pods".to_owned()).or_insert(PODS);
    all
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn quantities_are_read_in_every_form() {
        for (text, expected) in [
            ("1", Some(1_000)),
            ("250m", Some(250)),
            ("0.5", Some(500)),
            ("1.5Gi", Some(1_610_612_736_000)),
            ("128Mi", Some(134_217_728_000)),
            ("2k", Some(2_000_000)),
            ("1e3", Some(1_000_000)),
            ("100u", Some(1)),
            ("", None),
            ("1X", None),
        ] {
            assert_eq!(parse(&Quantity(text.to_owned())), expected, "{text}");
        }
    }

    #[test]
    fn pod_needs_what_its_hungriest_moment_needs() {
        let of = |cpu: &str| json!({ "requests": { "cpu": cpu } });
        let needs = |spec: Value| requests(&serde_json::from_value(spec).unwrap()).get("cpu").copied();
        let main = json!([{ "name": "a", "resources": of("1") }, { "name": "b", "resources": of("500m") }]);
        assert_eq!(needs(json!({ "containers": main })), Some(1_500));
        let sidecar = json!({ "name": "s", "restartPolicy": "Always", "resources": of("200m") });
        let init = json!({ "name": "i", "resources": of("2") });
        let spec = json!({ "containers": main, "initContainers": [sidecar, init] });
        assert_eq!(needs(spec), Some(2_200), "the one before runs beside the one that stays");
        let spec =
            json!({ "containers": main, "initContainers": [init, sidecar], "overhead": { "cpu": "100m" } });
        assert_eq!(needs(spec), Some(2_100));
        let limit = json!([{ "name": "a", "resources": { "limits": { "cpu": "3" } } }]);
        assert_eq!(needs(json!({ "containers": limit })), Some(3_000));
    }
}
