//! What a node may write: itself, and what concerns its own pods.
//!
//! Authorization lets a node come this far by the name in the path; here the content is looked at. A node that somebody has
//! broken into must not be able to draw other people's pods to itself, to speak for another node, or to get tokens of pods
//! that run elsewhere.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pilothouse_pki::SigningRequest;
use serde_json::Value;

use super::{items, text};
use crate::authentication::User;
use crate::authorization::{Attributes, LEASES, ResourceAttributes, node_name};
use crate::catalogue::Resource;
use crate::server::Server;
use crate::status::Failure;

mod labels;
mod mirror;
mod tokens;

/// What is about to be written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change<'a> {
    pub(crate) resource: &'a Resource,
    pub(crate) subresource: Option<&'a str>,
    pub(crate) new: &'a Value,
    pub(crate) old: Option<&'a Value>,
}

/// Whether a user who is a node may write this. Everybody else may, as far as this goes.
pub(crate) fn admit_write(server: &Server, user: &User, change: &Change<'_>) -> Result<(), Failure> {
    let Some(node) = node_name(user) else { return Ok(()) };
    let Change { resource, subresource, new, old } = *change;
    let verdict = match (resource.group.as_ref(), resource.plural.as_ref(), subresource, old) {
        ("", "pods", None, None) => mirror::admit(server.storage.cache(), node, new),
        ("", "pods", Some("status"), Some(old)) => pod_status(node, old, new),
        ("", "pods", _, _) => Err(format!("node {node:?} can only create and delete mirror pods")),
        ("", "nodes", _, old) => own_node(&server.config.node_label_domains, node, new, old),
        ("", "persistentvolumeclaims", Some("status"), Some(old)) => claim_status(node, old, new),
        ("", "persistentvolumeclaims", _, _) => Err("may only update PVC status".to_owned()),
        ("coordination.k8s.io", "leases", _, _) => lease(node, new),
        ("storage.k8s.io", "csinodes", _, _) => match text(new, "/metadata/name") == node {
            true => Ok(()),
            false => Err("can only access CSINode with the same name as the requesting node".to_owned()),
        },
        ("resource.k8s.io", "resourceslices", _, None) => slice("create", node, new),
        ("certificates.k8s.io", _, None, None) => certificate(node, new),
        _ => Ok(()),
    };
    verdict.map_err(|why| Failure::forbidden(resource, text(new, "/metadata/name"), why))
}

/// Whether a user who is a node may delete this.
pub(crate) fn admit_deletion(user: &User, resource: &Resource, old: &Value) -> Result<(), Failure> {
    let Some(node) = node_name(user) else { return Ok(()) };
    let verdict = match (resource.group.as_ref(), resource.plural.as_ref()) {
        ("", "pods") if text(old, "/spec/nodeName") != node => {
            Err(format!("node {node:?} can only delete pods with spec.nodeName set to itself"))
        }
        ("", "persistentvolumes") => released(node, old),
        ("coordination.k8s.io", "leases") => lease(node, old),
        ("resource.k8s.io", "resourceslices") => slice("delete", node, old),
        _ => Ok(()),
    };
    verdict.map_err(|why| Failure::forbidden(resource, text(old, "/metadata/name"), why))
}

/// Whether a user who is a node may evict this pod.
pub(crate) fn admit_eviction(user: &User, resource: &Resource, pod: &Value) -> Result<(), Failure> {
    match node_name(user) {
        Some(node) if text(pod, "/spec/nodeName") != node => {
            let why = format!("node {node} can only evict pods with spec.nodeName set to itself");
            Err(Failure::forbidden(resource, text(pod, "/metadata/name"), why))
        }
        _ => Ok(()),
    }
}

/// Whether a user who is a node may have a token for this account: only bound to one of its own pods.
pub(crate) fn admit_token(
    server: &Server,
    user: &User,
    resource: &Resource,
    (namespace, account): (&str, &str),
    request: &Value,
) -> Result<(), Failure> {
    let Some(node) = node_name(user) else { return Ok(()) };
    let refused = |why: String| Err(Failure::forbidden(resource, account, why));
    let reference = &request["spec"]["boundObjectRef"];
    let name = text(reference, "/name");
    if text(reference, "/apiVersion") != "v1" || text(reference, "/kind") != "Pod" || name.is_empty() {
        return refused("node requested token not bound to a pod".to_owned());
    }
    let uid = text(reference, "/uid");
    if uid.is_empty() {
        return refused("node requested token with a pod binding without a uid".to_owned());
    }
    let pod = server.storage.cache().get(&format!("pods/{namespace}/{name}"));
    let Some(pod) = pod.and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok()) else {
        return Err(Failure::not_found(&*server.built_in("", "pods")?, name));
    };
    if text(&pod, "/metadata/uid") != uid {
        return refused(format!(
            "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been \
             deleted and then recreated"
        ));
    }
    if text(&pod, "/spec/nodeName") != node {
        return refused("node requested token bound to a pod scheduled on a different node".to_owned());
    }
    let audience = match items(request, "/spec/audiences") {
        [] => "",
        [one] => one.as_str().unwrap_or_default(),
        _ => return refused("node may only request 0 or 1 audiences".to_owned()),
    };
    let cache = server.storage.cache();
    let wanted = Attributes::Resource(ResourceAttributes {
        verb: "request-serviceaccounts-token-audience",
        resource: audience,
        namespace: Some(namespace),
        name: Some(account),
        ..ResourceAttributes::default()
    });
    if tokens::has_audience(cache, &pod, audience) || server.authorizer.allows(cache, user, &wanted) {
        return Ok(());
    }
    let name = &user.name;
    refused(format!(
        "audience {audience:?} not found in pod spec volume, {name} is not authorized to request tokens for this audience"
    ))
}

fn pod_status(node: &str, old: &Value, new: &Value) -> Result<(), String> {
    if text(old, "/spec/nodeName") != node {
        return Err(format!(
            "node {node:?} can only update pod status for pods with spec.nodeName set to itself"
        ));
    }
    if !labels::are_equal(old, new) {
        return Err(format!("node {node:?} cannot update labels through pod status"));
    }
    for (field, what) in [
        ("resourceClaimStatuses", "resource claim statues"),
        ("extendedResourceClaimStatus", "extended resource claim status"),
    ] {
        if old["status"][field] != new["status"][field] {
            return Err(format!("node {node:?} cannot update {what}"));
        }
    }
    Ok(())
}

fn own_node(domains: &[String], node: &str, new: &Value, old: Option<&Value>) -> Result<(), String> {
    let name = text(new, "/metadata/name");
    if name != node {
        return Err(format!("node {node:?} is not allowed to modify node {name:?}"));
    }
    let forbidden = labels::forbidden(old, new);
    let Some(old) = old else {
        let open = |label: &&str| !domains.iter().any(|domain| labels::is_of(label, domain));
        let forbidden: Vec<_> = forbidden.iter().copied().filter(open).collect();
        if !forbidden.is_empty() {
            let labels = forbidden.join(", ");
            return Err(format!("node {node:?} is not allowed to set the following labels: {labels}"));
        }
        return Ok(());
    };
    if items(old, "/spec/taints") != items(new, "/spec/taints") {
        return Err(format!("node {node:?} is not allowed to modify taints"));
    }
    if items(old, "/metadata/ownerReferences") != items(new, "/metadata/ownerReferences") {
        return Err(format!("node {node:?} is not allowed to modify ownerReferences"));
    }
    if !forbidden.is_empty() {
        let labels = forbidden.into_iter().collect::<Vec<_>>().join(", ");
        return Err(format!("is not allowed to modify labels: {labels}"));
    }
    Ok(())
}

/// How large a volume has become is the node's to say, and nothing else of its claim.
fn claim_status(node: &str, old: &Value, new: &Value) -> Result<(), String> {
    let bare = |claim: &Value| {
        let mut claim = claim.clone();
        if let Some(status) = claim["status"].as_object_mut() {
            for field in ["capacity", "conditions", "allocatedResources", "allocatedResourceStatuses"] {
                status.remove(field);
            }
        }
        if let Some(metadata) = claim["metadata"].as_object_mut() {
            metadata.remove("managedFields");
            metadata.remove("resourceVersion");
        }
        claim
    };
    match bare(old) == bare(new) {
        true => Ok(()),
        false => Err(format!(
            "node {node:?} is not allowed to update fields other than status.quantity and status.conditions"
        )),
    }
}

fn lease(node: &str, lease: &Value) -> Result<(), String> {
    if text(lease, "/metadata/namespace") != LEASES {
        return Err(format!("can only access leases in the {LEASES:?} system namespace"));
    }
    match text(lease, "/metadata/name") == node {
        true => Ok(()),
        false => Err("can only access node lease with the same name as the requesting node".to_owned()),
    }
}

fn slice(verb: &str, node: &str, slice: &Value) -> Result<(), String> {
    match text(slice, "/spec/nodeName") == node {
        true => Ok(()),
        false => Err(format!("can only {verb} ResourceSlice with the same NodeName as the requesting node")),
    }
}

/// The two signers whose certificates make somebody a node sign only for the node that asks.
fn certificate(node: &str, request: &Value) -> Result<(), String> {
    const SIGNERS: [&str; 2] =
        ["kubernetes.io/kubelet-serving", "kubernetes.io/kube-apiserver-client-kubelet"];
    if !SIGNERS.contains(&text(request, "/spec/signerName")) {
        return Ok(());
    }
    let pem = STANDARD.decode(text(request, "/spec/request")).unwrap_or_default();
    let parsed = SigningRequest::from_pem(&pem).map_err(|error| format!("unable to parse csr: {error}"))?;
    match parsed.subject().common_name() == format!("system:node:{node}") {
        true => Ok(()),
        false => Err(format!("can only create a node CSR with CN=system:node:{node}")),
    }
}

/// The folder of a volume is on a node, so its last act is the node's, and only once nobody claims it.
fn released(node: &str, volume: &Value) -> Result<(), String> {
    let released = text(volume, "/status/phase") == "Released";
    match released && text(volume, "/spec/persistentVolumeReclaimPolicy") == "Delete" {
        true => Ok(()),
        false => Err(format!("node {node:?} can only delete volumes that are released and to be deleted")),
    }
}

/// Keys of labels, in order.
type Keys<'a> = BTreeSet<&'a str>;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_node_changes_itself_but_not_where_it_counts() {
        let node = |labels: Value, taints: Value| json!({ "metadata": { "name": "north", "labels": labels }, "spec": { "taints": taints } });
        let plain = node(json!({ "kubernetes.io/os": "linux" }), json!([]));
        let role = node(json!({ "node-role.kubernetes.io/worker": "" }), json!([]));
        let own = |new: &Value, old: Option<&Value>| own_node(&[], "north", new, old);
        assert_eq!(own(&plain, None), Ok(()));
        let why = "node \"north\" is not allowed to set the following labels: node-role.kubernetes.io/worker";
        assert_eq!(own(&role, None), Err(why.to_owned()));
        // Some clusters let nodes say at registration what they are for; but never change it.
        let roles = ["node-role.kubernetes.io".to_owned()];
        assert_eq!(own_node(&roles, "north", &role, None), Ok(()));
        let why = "is not allowed to modify labels: node-role.kubernetes.io/worker";
        assert_eq!(own_node(&roles, "north", &role, Some(&plain)), Err(why.to_owned()));
        let tainted =
            node(json!({ "kubernetes.io/os": "linux" }), json!([{ "key": "a", "effect": "NoSchedule" }]));
        assert_eq!(own(&tainted, None), Ok(()));
        let why = "node \"north\" is not allowed to modify taints";
        assert_eq!(own(&tainted, Some(&plain)), Err(why.to_owned()));
        let mut owned = plain.clone();
        owned["metadata"]["ownerReferences"] = json!([{ "name": "x" }]);
        let why = "node \"north\" is not allowed to modify ownerReferences";
        assert_eq!(own(&owned, Some(&plain)), Err(why.to_owned()));
        let why = "node \"south\" is not allowed to modify node \"north\"";
        assert_eq!(own_node(&[], "south", &plain, None), Err(why.to_owned()));
    }

    #[test]
    fn of_a_claim_a_node_says_only_how_large_it_is() {
        let old = json!({ "metadata": { "name": "c" }, "spec": { "volumeName": "v" }, "status": { "phase": "Bound" } });
        let mut grown = old.clone();
        grown["status"]["capacity"] = json!({ "storage": "2Gi" });
        assert_eq!(claim_status("north", &old, &grown), Ok(()));
        let mut lost = old.clone();
        lost["status"]["phase"] = json!("Lost");
        assert!(claim_status("north", &old, &lost).is_err());
    }
}
