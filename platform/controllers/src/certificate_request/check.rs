//! What each signer signs.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use pilothouse_pki::{AlternativeName, SigningRequest};

pub(super) const NODE_CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";
pub(super) const NODE_SERVING: &str = "kubernetes.io/kubelet-serving";
pub(super) const CLIENT: &str = "kubernetes.io/kube-apiserver-client";

/// What nodes are called.
pub(super) const NODE_PREFIX: &str = "system:node:";
const NODES: &str = "system:nodes";

const DIGITAL_SIGNATURE: &str = "digital signature";
const KEY_ENCIPHERMENT: &str = "key encipherment";
const CLIENT_AUTH: &str = "client auth";
const SERVER_AUTH: &str = "server auth";

/// The signers that the cluster's authority serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signer {
    /// A node to the API server.
    NodeClient,
    /// A node to whoever visits it.
    NodeServing,
    /// Anybody to the API server.
    Client,
}

impl Signer {
    pub(super) fn of(name: &str) -> Option<Self> {
        match name {
            NODE_CLIENT => Some(Self::NodeClient),
            NODE_SERVING => Some(Self::NodeServing),
            CLIENT => Some(Self::Client),
            _ => None,
        }
    }
}

/// Whether the signer may sign this.
///
/// # Errors
///
/// With what is wrong, in the words of the real one.
pub(super) fn check(signer: Signer, asked: &SigningRequest, usages: &[String]) -> Result<(), String> {
    match signer {
        Signer::NodeClient => {
            of_nodes(asked)?;
            let problem = asked.names().iter().next().map(|name| match name {
                AlternativeName::Dns(_) => "DNS subjectAltNames are not allowed",
                AlternativeName::Ip(_) => "IP subjectAltNames are not allowed",
                _ => "URI subjectAltNames are not allowed",
            });
            problem.map_or(Ok(()), |problem| Err(problem.to_owned()))?;
            exactly(usages, CLIENT_AUTH)?;
            named_as_node(asked)
        }
        Signer::NodeServing => {
            of_nodes(asked)?;
            let reachable =
                |name: &AlternativeName| matches!(name, AlternativeName::Dns(_) | AlternativeName::Ip(_));
            if !asked.names().iter().any(reachable) {
                return Err("DNS or IP subjectAltName is required".to_owned());
            }
            if !asked.names().iter().all(reachable) {
                return Err("URI subjectAltNames are not allowed".to_owned());
            }
            exactly(usages, SERVER_AUTH)?;
            named_as_node(asked)
        }
        Signer::Client => {
            let allowed = [DIGITAL_SIGNATURE, KEY_ENCIPHERMENT, CLIENT_AUTH];
            if let Some(other) = usages.iter().find(|usage| !allowed.contains(&usage.as_str())) {
                return Err(format!("invalid usage for client certificate: {other}"));
            }
            match usages.iter().any(|usage| usage == CLIENT_AUTH) {
                true => Ok(()),
                false => Err(format!("missing required usage for client certificate: {CLIENT_AUTH}")),
            }
        }
    }
}

fn of_nodes(asked: &SigningRequest) -> Result<(), String> {
    match asked.subject().organizations() {
        [one] if one == NODES => Ok(()),
        _ => Err("subject organization is not system:nodes".to_owned()),
    }
}

fn named_as_node(asked: &SigningRequest) -> Result<(), String> {
    match asked.subject().common_name().strip_prefix(NODE_PREFIX) {
        Some(name) if !name.is_empty() => Ok(()),
        _ => Err(format!("subject common name does not begin with {NODE_PREFIX} ")),
    }
}

/// Signing and this one use; enciphering may be said or not, since only RSA keys do it.
fn exactly(usages: &[String], purpose: &str) -> Result<(), String> {
    let has: BTreeSet<_> = usages.iter().map(String::as_str).collect();
    let with_rsa = BTreeSet::from([purpose, DIGITAL_SIGNATURE, KEY_ENCIPHERMENT]);
    let without = BTreeSet::from([purpose, DIGITAL_SIGNATURE]);
    if has == with_rsa || has == without {
        return Ok(());
    }
    let wanted: Vec<_> = with_rsa.into_iter().collect();
    Err(format!("usages did not match [{}]", wanted.join(" ")))
}

/// Whether it comes from a node, as the API server says and not as it says itself.
pub(super) fn is_from_node(request: &CertificateSigningRequest) -> bool {
    request.spec.groups.iter().flatten().any(|group| group == NODES)
}

/// Whether every address that is asked for is one of the node that asks, and of no other: what a node says of itself must
/// not make it somebody else.
pub(super) fn addresses_are_its_own(asked: &SigningRequest, nodes: &[Arc<Node>]) -> bool {
    let name = asked.subject().common_name().strip_prefix(NODE_PREFIX).unwrap_or_default();
    let has = |node: &Node, wanted: &AlternativeName| {
        let addresses = node.status.iter().flat_map(|status| status.addresses.iter().flatten());
        addresses
            .into_iter()
            .any(|address| address.address.parse().is_ok_and(|has: AlternativeName| has == *wanted))
    };
    asked.names().iter().all(|wanted| {
        let (own, others): (Vec<_>, Vec<_>) =
            nodes.iter().filter(|node| has(node, wanted)).partition(|node| node.name_any() == name);
        !own.is_empty() && others.is_empty()
    })
}
