//! Who signs what among the programs of upstream, beside what every hosted cluster has.
//!
//! | authority | signs |
//! |---|---|
//! | `etcd-signer` | members of etcd, as servers and to each other; the API server as their client |
//! | `kas-aggregator-client-signer` | the API server to servers that extend its API |
//! | `kube-control-plane-signer` | controllers and scheduler, as clients of the API server and as servers of their own health |

use futures::future::try_join_all;
use futures::try_join;
use jiff::Timestamp;
use pilothouse_pki::{AlternativeName, Bundle, LeafRequest, Subject, Usage};

use super::super::blueprint::Blueprint;
use super::super::{manifests, pki};
use super::etcd;
use crate::error::Error;
use crate::secrets::{Keyring, LEAF_LIFETIME};
use crate::signer::Signer;

const ETCD_AUTHORITY: &str = "etcd-signer";
const AGGREGATOR_AUTHORITY: &str = "kas-aggregator-client-signer";
const COMPONENTS_AUTHORITY: &str = "kube-control-plane-signer";

pub(super) const SERVER: &str = "etcd-server-tls";
pub(super) const PEER: &str = "etcd-peer-tls";
pub(super) const ETCD_CLIENT: &str = "etcd-client-tls";
pub(super) const AGGREGATOR: &str = "kas-aggregator-crt";
pub(super) const CONTROLLER_MANAGER_CLIENT: &str = "kube-controller-manager-client";
pub(super) const SCHEDULER_CLIENT: &str = "kube-scheduler-client";

/// Who the API server is to servers that extend its API.
pub(super) const AGGREGATOR_USER: &str = "front-proxy-client";

/// Every Secret of this payload, whose names are nobody else's.
pub(crate) const RESERVED: [&str; 9] = [
    ETCD_AUTHORITY,
    AGGREGATOR_AUTHORITY,
    COMPONENTS_AUTHORITY,
    SERVER,
    PEER,
    ETCD_CLIENT,
    AGGREGATOR,
    CONTROLLER_MANAGER_CLIENT,
    SCHEDULER_CLIENT,
];

/// The authorities of this payload.
pub(crate) struct Authorities {
    etcd: Signer,
    aggregator: Signer,
    components: Signer,
}

// === impl Authorities ===

impl Authorities {
    pub(crate) async fn ensure(keyring: &Keyring<'_>, blueprint: &Blueprint) -> Result<Self, Error> {
        let signer =
            |name| Signer::ensure(keyring, manifests::in_namespace(blueprint, name), &blueprint.lifetimes);
        let (etcd, aggregator, components) =
            try_join!(signer(ETCD_AUTHORITY), signer(AGGREGATOR_AUTHORITY), signer(COMPONENTS_AUTHORITY))?;
        Ok(Self { etcd, aggregator, components })
    }

    /// Whom members of etcd, and their clients, trust.
    pub(crate) fn etcd(&self) -> &Bundle {
        &self.etcd.trusted
    }

    /// By whom servers that extend the API know the API server.
    pub(crate) fn aggregator(&self) -> &Bundle {
        &self.aggregator.trusted
    }

    /// Whom the API server lets in as a part of itself.
    pub(crate) fn components(&self) -> &Bundle {
        &self.components.trusted
    }

    /// Changes with whom members of etcd trust.
    pub(super) fn etcd_fingerprint(&self) -> String {
        fingerprint(&self.etcd.trusted)
    }

    /// Changes with whom anybody trusts.
    pub(crate) fn fingerprint(&self) -> String {
        [&self.etcd, &self.aggregator, &self.components].map(|signer| fingerprint(&signer.trusted)).join(",")
    }

    /// Makes sure of the certificates. Answers when the first of them, or of the authorities, is due.
    pub(crate) async fn leaves(
        &self,
        keyring: &Keyring<'_>,
        blueprint: &Blueprint,
    ) -> Result<Timestamp, Error> {
        let client = |user| pki::client_request(user, []);
        let wanted = [
            (SERVER, member_request(blueprint, "etcd-server", &["localhost", "etcd-client"]), &self.etcd),
            (PEER, member_request(blueprint, "etcd-peer", &[]), &self.etcd),
            (ETCD_CLIENT, client("kube-apiserver-etcd-client"), &self.etcd),
            (AGGREGATOR, client(AGGREGATOR_USER), &self.aggregator),
            (CONTROLLER_MANAGER_CLIENT, manager_request("kube-controller-manager"), &self.components),
            (SCHEDULER_CLIENT, manager_request("kube-scheduler"), &self.components),
        ];
        let leaves = try_join_all(wanted.into_iter().map(|(name, request, signer)| async move {
            let request = request.map_err(|source| Error::Certificate { name: name.to_owned(), source })?;
            let metadata = manifests::in_namespace(blueprint, name);
            let leaf = keyring.leaf_of(metadata, request, &signer.authority, &blueprint.lifetimes).await?;
            Ok::<_, Error>(blueprint.lifetimes.renew_at(leaf.certificate()))
        }))
        .await?;
        let signers = [&self.etcd, &self.aggregator, &self.components].map(|signer| signer.due);
        Ok(leaves.into_iter().chain(signers).min().unwrap_or(Timestamp::MAX))
    }
}

/// Controllers and scheduler serve with what they are clients with: without a certificate they would make one when they start,
/// with RSA keys, which takes longer than all else that they do then.
fn manager_request(name: &str) -> Result<LeafRequest, pilothouse_pki::Error> {
    let names = [AlternativeName::dns(name)?, AlternativeName::dns("localhost")?];
    let request = LeafRequest::server(Subject::try_new(format!("system:{name}"))?, names);
    Ok(request.with_usage(Usage::Client).with_lifetime(LEAF_LIFETIME))
}

/// Members are servers, and clients of each other. They are known by their names, wherever they run.
fn member_request(
    blueprint: &Blueprint,
    name: &str,
    others: &[&str],
) -> Result<LeafRequest, pilothouse_pki::Error> {
    let namespace = &blueprint.namespace;
    let members = etcd::members(blueprint).map(|member| etcd::host(blueprint, &member));
    let members: Vec<_> = members.flat_map(|host| [format!("{host}.cluster.local"), host]).collect();
    let others = others.iter().flat_map(|other| match *other {
        "localhost" => vec!["localhost".to_owned()],
        service => {
            vec![service.to_owned(), format!("{service}.{namespace}"), format!("{service}.{namespace}.svc")]
        }
    });
    let names = members.into_iter().chain(others);
    let names = names.map(AlternativeName::dns).collect::<Result<Vec<_>, _>>()?;
    let request = LeafRequest::server(Subject::try_new(name)?, names).with_usage(Usage::Client);
    Ok(request.with_lifetime(LEAF_LIFETIME))
}

fn fingerprint(bundle: &Bundle) -> String {
    let fingerprints = bundle.certificates().iter().map(|certificate| certificate.fingerprint().to_string());
    fingerprints.collect::<Vec<_>>().join(",")
}
