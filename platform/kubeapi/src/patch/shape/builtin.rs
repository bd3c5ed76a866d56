//! The exceptions of the built-in kinds.
//!
//! Keyed lists name their keys; server-side apply and strategic merge do not always agree on them (the ports of a container
//! are told apart by number and protocol in the one, by number alone in the other).

use super::{Field, Key, List, Patch, Type};

const fn object(name: &'static str, of: &'static Type) -> Field {
    Field { name, of, list: List::Atomic, patch: Patch::Replace }
}

const fn keyed(name: &'static str, keys: &'static [Key], patch: &'static str, of: &'static Type) -> Field {
    Field { name, of, list: List::Map(keys), patch: Patch::Merge(patch) }
}

const fn set(name: &'static str, patch: Patch) -> Field {
    Field { name, of: &PLAIN, list: List::Set, patch }
}

const fn fields(fields: &'static [Field]) -> Type {
    Type { fields, atomic: false }
}

const NAME: &[Key] = &[("name", None)];
const TYPE: &[Key] = &[("type", None)];
const IP: &[Key] = &[("ip", None)];

/// Nothing exceptional.
static PLAIN: Type = fields(&[]);
/// One value, whatever it contains: selectors and references.
static WHOLE: Type = Type { fields: &[], atomic: true };

static METADATA: Type =
    fields(&[set("finalizers", Patch::Union), keyed("ownerReferences", &[("uid", None)], "uid", &WHOLE)]);

/// The status of most kinds: its conditions are told apart by type.
static STATUS: Type = fields(&[keyed("conditions", TYPE, "type", &PLAIN)]);

static ENV: Type = fields(&[object("valueFrom", &ENV_SOURCE)]);
static ENV_SOURCE: Type = fields(&[
    object("configMapKeyRef", &WHOLE),
    object("fieldRef", &WHOLE),
    object("resourceFieldRef", &WHOLE),
    object("secretKeyRef", &WHOLE),
]);
static RESOURCES: Type = fields(&[keyed("claims", NAME, "name", &PLAIN)]);

static CONTAINER: Type = fields(&[
    keyed("env", NAME, "name", &ENV),
    keyed("ports", &[("containerPort", None), ("protocol", Some("TCP"))], "containerPort", &PLAIN),
    keyed("volumeMounts", &[("mountPath", None)], "mountPath", &PLAIN),
    keyed("volumeDevices", &[("devicePath", None)], "devicePath", &PLAIN),
    object("resources", &RESOURCES),
]);

static POD_SPEC: Type = fields(&[
    keyed("containers", NAME, "name", &CONTAINER),
    keyed("initContainers", NAME, "name", &CONTAINER),
    keyed("ephemeralContainers", NAME, "name", &CONTAINER),
    keyed("volumes", NAME, "name", &PLAIN),
    keyed("imagePullSecrets", NAME, "name", &WHOLE),
    keyed("hostAliases", IP, "ip", &PLAIN),
    keyed("schedulingGates", NAME, "name", &PLAIN),
    keyed("resourceClaims", NAME, "name", &PLAIN),
    keyed(
        "topologySpreadConstraints",
        &[("topologyKey", None), ("whenUnsatisfiable", None)],
        "topologyKey",
        &SPREAD,
    ),
    object("nodeSelector", &WHOLE),
]);
static SPREAD: Type = fields(&[object("labelSelector", &WHOLE)]);

static POD_STATUS: Type = fields(&[
    keyed("conditions", TYPE, "type", &PLAIN),
    keyed("podIPs", IP, "ip", &PLAIN),
    Field { name: "hostIPs", of: &PLAIN, list: List::Atomic, patch: Patch::Merge("ip") },
]);
static POD: Type =
    fields(&[object("metadata", &METADATA), object("spec", &POD_SPEC), object("status", &POD_STATUS)]);

static TEMPLATE: Type = fields(&[object("metadata", &METADATA), object("spec", &POD_SPEC)]);
static WORKLOAD_SPEC: Type = fields(&[object("selector", &WHOLE), object("template", &TEMPLATE)]);
/// Deployments, replica sets, stateful sets and daemon sets.
static WORKLOAD: Type =
    fields(&[object("metadata", &METADATA), object("spec", &WORKLOAD_SPEC), object("status", &STATUS)]);

static SERVICE_SPEC: Type = fields(&[
    keyed("ports", &[("port", None), ("protocol", Some("TCP"))], "port", &PLAIN),
    object("selector", &WHOLE),
]);
static SERVICE: Type =
    fields(&[object("metadata", &METADATA), object("spec", &SERVICE_SPEC), object("status", &STATUS)]);

static SERVICE_ACCOUNT: Type = fields(&[
    object("metadata", &METADATA),
    keyed("secrets", NAME, "name", &WHOLE),
    Field { name: "imagePullSecrets", of: &PLAIN, list: List::Atomic, patch: Patch::Merge("name") },
]);

static NODE_SPEC: Type = fields(&[set("podCIDRs", Patch::Union)]);
static NODE_STATUS: Type = fields(&[
    keyed("conditions", TYPE, "type", &PLAIN),
    Field {
        name: "addresses",
        of: &PLAIN,
        list: List::Map(&[("type", None), ("address", None)]),
        patch: Patch::Merge("type"),
    },
]);
static NODE: Type =
    fields(&[object("metadata", &METADATA), object("spec", &NODE_SPEC), object("status", &NODE_STATUS)]);

static CLAIM_SPEC: Type =
    fields(&[object("selector", &WHOLE), object("dataSource", &WHOLE), object("dataSourceRef", &PLAIN)]);
static CLAIM: Type =
    fields(&[object("metadata", &METADATA), object("spec", &CLAIM_SPEC), object("status", &STATUS)]);

static VOLUME_SPEC: Type = fields(&[object("claimRef", &PLAIN)]);
static VOLUME: Type = fields(&[object("metadata", &METADATA), object("spec", &VOLUME_SPEC)]);

static BINDING: Type = fields(&[object("metadata", &METADATA), object("roleRef", &WHOLE)]);

static EVENT: Type =
    fields(&[object("metadata", &METADATA), object("involvedObject", &WHOLE), object("related", &WHOLE)]);

static SLICE: Type = fields(&[
    object("metadata", &METADATA),
    Field { name: "endpoints", of: &PLAIN, list: List::Atomic, patch: Patch::Replace },
]);

static DEFINITION_STATUS: Type =
    fields(&[Field { name: "conditions", of: &PLAIN, list: List::Map(TYPE), patch: Patch::Replace }]);
static DEFINITION: Type = fields(&[object("metadata", &METADATA), object("status", &DEFINITION_STATUS)]);

/// Kinds without anything exceptional but their metadata and conditions.
static ANY: Type = fields(&[object("metadata", &METADATA), object("status", &STATUS)]);

pub(super) fn root(group: &str, plural: &str) -> &'static Type {
    match (group, plural) {
        ("", "pods") => &POD,
        ("", "services") => &SERVICE,
        ("", "serviceaccounts") => &SERVICE_ACCOUNT,
        ("", "nodes") => &NODE,
        ("", "persistentvolumeclaims") => &CLAIM,
        ("", "persistentvolumes") => &VOLUME,
        ("", "events") => &EVENT,
        ("apps", "deployments" | "replicasets" | "statefulsets" | "daemonsets") => &WORKLOAD,
        ("discovery.k8s.io", "endpointslices") => &SLICE,
        ("rbac.authorization.k8s.io", "rolebindings" | "clusterrolebindings") => &BINDING,
        ("apiextensions.k8s.io", _) => &DEFINITION,
        _ => &ANY,
    }
}

pub(super) fn metadata() -> &'static Type {
    &METADATA
}
