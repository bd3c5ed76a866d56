//! What the nodes of a pool cannot give themselves: labels that decide which pods they get, and what shows their visitors who
//! they are. The API server of upstream lets no node choose the one, and its controllers leave the other to whoever knows the
//! machines.

use std::collections::BTreeMap;
use std::net::IpAddr;

use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use pilothouse_pki::{AlternativeName, SigningRequest};
use serde_json::json;
use tracing::info;

use super::fleet::{Hosted, Member};
use super::{NodePools, Template};
use crate::error::{Error, has_reason, is_missing};
use crate::hosted_nodes::KUBELET_SERVING;

const NODE_PREFIX: &str = "system:node:";
const NODES: &str = "system:nodes";

/// Labels of these domains a node may not give itself, apart from some that it has by its nature.
const RESERVED_DOMAINS: [&str; 2] = ["kubernetes.io", "k8s.io"];
/// Some that it may.
const OWN_DOMAINS: [&str; 2] = ["kubelet.kubernetes.io", "node.kubernetes.io"];

// === impl NodePools ===

impl NodePools {
    /// Approves what the pool's nodes ask for, if it is theirs.
    pub(super) async fn approve_requests(
        &self,
        template: &Template<'_>,
        members: &[Member],
        hosted: &Hosted,
    ) -> Result<(), Error> {
        let Some(requests) = self.nodes.requests(template.cluster) else { return Ok(()) };
        for request in requests.list() {
            let user = request.spec.username.as_deref().unwrap_or_default();
            let name = user.strip_prefix(NODE_PREFIX).unwrap_or_default();
            let Some(member) = members.iter().find(|member| member.name() == name) else { continue };
            if is_answered(&request) || !is_its_own(&request, name, address_of(member)) {
                continue;
            }
            self.approve(template, &request, hosted).await?;
            info!(cluster = %template.cluster, node = name, "approved what the node shows its visitors");
        }
        Ok(())
    }

    async fn approve(
        &self,
        template: &Template<'_>,
        request: &CertificateSigningRequest,
        hosted: &Hosted,
    ) -> Result<(), Error> {
        let patch = json!({
            // Whoever has answered it in the meantime is not overruled.
            "metadata": { "resourceVersion": request.metadata.resource_version },
            "status": { "conditions": [{
                "type": "Approved",
                "status": "True",
                "reason": "MachineKnown",
                "message": "the node's machine has this name and address",
            }] },
        });
        let requests: Api<CertificateSigningRequest> = Api::all(hosted.client.clone());
        let (name, parameters) = (request.name_any(), PatchParams::default());
        match requests.patch_approval(&name, &parameters, &Patch::Merge(patch)).await {
            Ok(_) => Ok(()),
            // Somebody has answered it, or it is gone; the watch says which.
            Err(error) if has_reason(&error, "Conflict") || is_missing(&error) => Ok(()),
            Err(error) => Err(Error::Hosted {
                cluster: template.cluster.to_string(),
                action: format!("approve certificate request {name}"),
                source: error.into(),
            }),
        }
    }

    /// Gives nodes the labels of their pool that they may not give themselves.
    pub(super) async fn label_nodes(
        &self,
        template: &Template<'_>,
        members: &[Member],
        hosted: &Hosted,
    ) -> Result<(), Error> {
        let (_, reserved) = template.labels();
        for member in members {
            let Some(node) = &member.node else { continue };
            let missing: BTreeMap<_, _> = reserved
                .iter()
                .filter(|(key, value)| node.labels().get(**key).map(String::as_str) != Some(**value))
                .collect();
            if missing.is_empty() {
                continue;
            }
            let nodes: Api<Node> = Api::all(hosted.client.clone());
            let patch = json!({ "metadata": { "labels": missing } });
            match nodes.patch(&member.name(), &PatchParams::default(), &Patch::Merge(patch)).await {
                Ok(_) => {}
                Err(error) if is_missing(&error) => {}
                Err(error) => {
                    return Err(Error::Hosted {
                        cluster: template.cluster.to_string(),
                        action: format!("label node {}", member.name()),
                        source: error.into(),
                    });
                }
            }
        }
        Ok(())
    }
}

/// Whether a node may not give itself this label.
pub(super) fn is_reserved(label: &str) -> bool {
    let Some((domain, _)) = label.split_once('/') else { return false };
    let within = |of: &str| domain == of || domain.strip_suffix(of).is_some_and(|rest| rest.ends_with('.'));
    RESERVED_DOMAINS.into_iter().any(within) && !OWN_DOMAINS.into_iter().any(within)
}

fn is_answered(request: &CertificateSigningRequest) -> bool {
    let conditions = request.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| ["Approved", "Denied"].contains(&condition.type_.as_str()))
}

/// Whether a request is of this node, for the name and the address of its machine and no other.
fn is_its_own(request: &CertificateSigningRequest, node: &str, address: Option<IpAddr>) -> bool {
    let spec = &request.spec;
    let from_node = spec.groups.iter().flatten().any(|group| group == NODES);
    let usages: Vec<_> = spec.usages.iter().flatten().map(String::as_str).collect();
    let for_visitors = usages.contains(&"server auth")
        && usages
            .iter()
            .all(|usage| ["server auth", "digital signature", "key encipherment"].contains(usage));
    let Ok(asked) = SigningRequest::from_pem(&spec.request.0) else { return false };
    let subject = asked.subject();
    let own_subject =
        subject.common_name() == format!("{NODE_PREFIX}{node}") && subject.organizations() == [NODES];
    let own_name = |name: &AlternativeName| match name {
        AlternativeName::Dns(name) => name == node,
        AlternativeName::Ip(asked) => Some(*asked) == address,
        _ => false,
    };
    spec.signer_name == KUBELET_SERVING
        && from_node
        && for_visitors
        && own_subject
        && asked.names().iter().all(own_name)
}

/// Where the member's machine is, as the management cluster says.
fn address_of(member: &Member) -> Option<IpAddr> {
    member.pod.as_ref()?.status.as_ref()?.pod_ip.as_deref()?.parse().ok()
}

#[cfg(test)]
mod tests;
