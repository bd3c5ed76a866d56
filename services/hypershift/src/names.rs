//! What things are called: annotations, labels, namespaces.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use pilothouse_informer::ObjectKey;

/// Keeps a cluster or a pool until everything it made is gone.
pub(crate) const FINALIZER: &str = "hypershift.openshift.io/finalizer";
/// On everything a hosted cluster made: `<namespace>/<name>` of the cluster.
pub(crate) const CLUSTER: &str = "hypershift.openshift.io/cluster";
/// On everything a pool made: `<namespace>/<name>` of the pool. On nodes, as a label: the pool's name.
pub(crate) const NODE_POOL: &str = "hypershift.openshift.io/nodePool";
/// On the namespace of a control plane.
pub(crate) const HOSTED_CONTROL_PLANE: &str = "hypershift.openshift.io/hosted-control-plane";
/// On the pods of a control plane: which part of it they are.
pub(crate) const COMPONENT: &str = "hypershift.openshift.io/control-plane-component";
/// On pods: the release they run.
pub(crate) const RELEASE_IMAGE: &str = "hypershift.openshift.io/release-image";
/// Changing it on a hosted cluster restarts its control plane.
pub(crate) const RESTART_DATE: &str = "hypershift.openshift.io/restart-date";
/// An image that may be upgraded to although the cluster says that it is not upgradeable.
pub(crate) const FORCE_UPGRADE_TO: &str = "hypershift.openshift.io/force-upgrade-to";
/// No key or certificate is made or renewed.
pub(crate) const DISABLE_PKI: &str = "hypershift.openshift.io/disable-pki-reconciliation";
/// How long leaf certificates are valid.
pub(crate) const CERTIFICATE_VALIDITY: &str = "hypershift.openshift.io/certificate-validity";
/// The share of its life that a leaf certificate has left when it is renewed.
pub(crate) const CERTIFICATE_RENEWAL: &str = "hypershift.openshift.io/certificate-renewal";
/// The priority classes of parts of a control plane, instead of ours. In payload `light` all parts are one, and the first that
/// is set counts.
pub(crate) const PRIORITY_CLASSES: [&str; 3] = [
    "hypershift.openshift.io/api-critical-priority-class",
    "hypershift.openshift.io/etcd-priority-class",
    "hypershift.openshift.io/control-plane-priority-class",
];
/// What the container of the control plane requests, as `memory=3Gi,cpu=2000m`, instead of what is usual.
pub(crate) const RESOURCE_REQUESTS: &str =
    "resource-request-override.hypershift.openshift.io/kube-apiserver.kube-apiserver";
/// The namespace of the control plane stays, empty, when its cluster goes.
pub(crate) const KEEP_NAMESPACE: &str = "hypershift.openshift.io/skip-delete-hosted-controlplane-namespace";
/// How long a cluster's object stays when everything else is gone.
pub(crate) const DESTROY_GRACE_PERIOD: &str = "hypershift.openshift.io/destroy-grace-period";
/// On a Secret or ConfigMap that a cluster names, with the cluster's name behind it.
pub(crate) const REFERENCED: &str = "referenced-resource.hypershift.openshift.io/";
/// On pods: changes when they must be replaced.
pub(crate) const CONFIG_HASH: &str = "component.hypershift.openshift.io/config-hash";
/// On a hosted cluster: which programs its control plane consists of, `light` or `upstream`.
pub(crate) const PAYLOAD: &str = "pilothouse.dev/payload";
/// The one id that follows the work.
pub(crate) const CORRELATION: &str = "pilothouse.dev/correlation-id";
/// On a worker: the addresses of its own pods, so that the node it runs on can route to them.
pub(crate) const POD_RANGE: &str = "pilothouse.dev/pod-range";
/// On everything this operator makes, so that its watches see nothing else.
pub(crate) const MANAGED_BY: &str = "pilothouse.dev/managed-by";
/// The value of [`MANAGED_BY`].
pub(crate) const OPERATOR: &str = "hypershift";

/// The priority class of what answers requests.
pub(crate) const API_CRITICAL: &str = "hypershift-api-critical";
/// Nodes with this label are preferred by control planes, and with this taint have no other pods.
pub(crate) const CONTROL_PLANE_NODE: &str = "hypershift.openshift.io/control-plane";
/// Service, StatefulSet and Route of an API server.
pub(crate) const API_SERVER: &str = "kube-apiserver";
/// The Route of an API server by the name that the cluster's owner chose.
pub(crate) const CUSTOM_ROUTE: &str = "kube-apiserver-custom";
/// Its port.
pub(crate) const API_PORT: u16 = 6443;

/// The namespace of a cluster's control plane.
pub(crate) fn control_plane_namespace(cluster: &ObjectKey) -> String {
    format!("{}-{}", cluster.namespace_or_empty(), cluster.name.replace('.', "-"))
}

/// The Secret with the administrator's kubeconfig, beside the cluster.
pub(crate) fn admin_kubeconfig(cluster: &str) -> String {
    format!("{cluster}-admin-kubeconfig")
}

/// The Secret with the administrator's kubeconfig for the name that the cluster's owner chose, beside the cluster.
pub(crate) fn custom_admin_kubeconfig(cluster: &str) -> String {
    format!("{cluster}-custom-admin-kubeconfig")
}

/// The cluster that made this object.
pub(crate) fn cluster_of(metadata: &ObjectMeta) -> Option<ObjectKey> {
    annotated_key(metadata, CLUSTER)
}

/// The pool that made this object.
pub(crate) fn node_pool_of(metadata: &ObjectMeta) -> Option<ObjectKey> {
    annotated_key(metadata, NODE_POOL)
}

fn annotated_key(metadata: &ObjectMeta, annotation: &str) -> Option<ObjectKey> {
    let (namespace, name) = metadata.annotations.as_ref()?.get(annotation)?.split_once('/')?;
    Some(ObjectKey::namespaced(namespace, name))
}

/// An annotation's value.
pub(crate) fn annotation<'a>(metadata: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

/// Metadata of an object that a cluster makes.
pub(crate) fn owned_metadata(
    cluster: &ObjectKey,
    namespace: Option<&str>,
    name: &str,
    correlation: Option<&str>,
) -> ObjectMeta {
    let mut annotations = BTreeMap::from([(CLUSTER.to_owned(), cluster.to_string())]);
    if let Some(correlation) = correlation {
        annotations.insert(CORRELATION.to_owned(), correlation.to_owned());
    }
    ObjectMeta {
        namespace: namespace.map(str::to_owned),
        name: Some(name.to_owned()),
        annotations: Some(annotations),
        labels: Some(BTreeMap::from([(MANAGED_BY.to_owned(), OPERATOR.to_owned())])),
        ..ObjectMeta::default()
    }
}

/// A short name for a text, the same on every machine and in every version: pods are rolled when it changes.
pub(crate) fn stable_hash<'a>(parts: impl IntoIterator<Item = &'a str>) -> String {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in parts.into_iter().flat_map(|part| part.bytes().chain([0])) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    format!("{hash:016x}")
}
