//! Who signs what in a hosted cluster.
//!
//! | authority | signs |
//! |---|---|
//! | `root-ca` | servers: the API server |
//! | `cluster-signer-ca` | clients and servers that ask for a certificate: the kubelets; the API server as a client of kubelets |
//! | `system-admin-signer` | the administrator |
//! | `customer-system-admin-signer` | whoever is let in for a day; see `break_glass` |
//!
//! Whoever trusts a server's authority must not thereby let in its clients; and the administrator's way in can be closed
//! without touching the nodes. Payload `light` is one process, so nobody needs an authority for etcd or the
//! aggregator; those that payload `upstream` has are in `upstream/authorities.rs`. All keys are ECDSA P-256: making RSA keys would take longer than starting the control plane.

use std::net::{IpAddr, Ipv4Addr};

use futures::try_join;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use pilothouse_pki::{AlternativeName, Bundle, Identity, LeafRequest, PrivateKey, Subject};

use super::blueprint::Blueprint;
use super::break_glass::{self, BreakGlass};
use super::manifests;
use super::payload::Payload;
use super::publishing::Endpoint;
use super::upstream::authorities::Authorities;
use crate::error::Error;
use crate::names::API_SERVER;
use crate::secrets::{self, Keyring, LEAF_LIFETIME};
use crate::signer::Signer;

pub(crate) const ROOT_AUTHORITY: &str = "root-ca";
pub(crate) const CLIENT_AUTHORITY: &str = "cluster-signer-ca";
pub(crate) const ADMIN_AUTHORITY: &str = "system-admin-signer";
pub(crate) const SERVING: &str = "kas-server-crt";
pub(crate) const KUBELET_CLIENT: &str = "kas-kubelet-client-crt";
/// Who the API server is to kubelets.
pub(super) const KUBELET_CLIENT_USER: &str = "system:kube-apiserver";
pub(crate) const ADMIN: &str = "system-admin-client";
pub(crate) const SERVICE_ACCOUNT: &str = "sa-signing-key";
pub(crate) const SERVICE_ACCOUNT_KEY: &str = "service-account.key";

/// The authorities of a cluster.
pub(crate) struct Signers {
    root: Signer,
    clients: Signer,
    administrators: Signer,
    break_glass: Option<BreakGlass>,
    /// What tells the key that signs tokens from every other; nothing if the user brings it.
    tokens: Option<String>,
    /// Its public half, PEM.
    token_key: String,
    upstream: Option<Authorities>,
}

/// The certificates that other objects are made of.
pub(crate) struct Leaves {
    pub(crate) admin: Identity,
    /// When the first of them is to be renewed.
    pub(crate) due: Timestamp,
}

// === impl Signers ===

impl Signers {
    /// Makes sure of the authorities, and of the key that signs tokens.
    pub(crate) async fn ensure(
        keyring: &Keyring<'_>,
        blueprint: &Blueprint,
        break_glass: &break_glass::Wanted,
    ) -> Result<Self, Error> {
        let metadata = |name| manifests::in_namespace(blueprint, name);
        let signer = |name| Signer::ensure(keyring, metadata(name), &blueprint.lifetimes);
        let upstream = async {
            match blueprint.payload {
                Payload::Light => Ok(None),
                Payload::Upstream => Authorities::ensure(keyring, blueprint).await.map(Some),
            }
        };
        let (root, clients, administrators, break_glass, (tokens, token_key), upstream) = try_join!(
            signer(ROOT_AUTHORITY),
            signer(CLIENT_AUTHORITY),
            signer(ADMIN_AUTHORITY),
            BreakGlass::ensure(keyring, blueprint, break_glass),
            token_key(keyring, blueprint),
            upstream,
        )?;
        Ok(Self { root, clients, administrators, break_glass, tokens, token_key, upstream })
    }

    /// The authorities of payload `upstream`, which has them.
    pub(super) fn upstream(&self) -> Option<&Authorities> {
        self.upstream.as_ref()
    }

    /// Who lets people in for a day, if anybody does yet.
    pub(super) fn break_glass(&self) -> Option<&BreakGlass> {
        self.break_glass.as_ref()
    }

    /// Who signs certificates on request.
    pub(super) fn on_request(&self) -> &Bundle {
        &self.clients.trusted
    }

    /// The public half of the key that signs tokens, PEM.
    pub(super) fn token_key(&self) -> &str {
        &self.token_key
    }

    /// What clients believe a server by.
    pub(crate) fn root(&self) -> &Bundle {
        &self.root.trusted
    }

    /// Whom the API server lets in.
    pub(crate) fn clients(&self) -> Result<Bundle, Error> {
        let mut clients = self.clients.trusted.clone();
        let components = self.upstream.iter().flat_map(|upstream| upstream.components().certificates());
        let break_glass = self.break_glass.iter().flat_map(|signer| signer.trusted().certificates());
        let administrators = self.administrators.trusted.certificates().iter();
        for certificate in administrators.chain(components).chain(break_glass) {
            clients
                .add(certificate.clone())
                .map_err(|source| Error::Certificate { name: ADMIN_AUTHORITY.to_owned(), source })?;
        }
        Ok(clients)
    }

    /// Changes with whatever a process reads when it starts and not again: whom it trusts, and what it signs with.
    pub(crate) fn fingerprint(&self) -> String {
        let signers = [&self.root, &self.clients, &self.administrators];
        let trusted = signers.into_iter().flat_map(|signer| signer.trusted.certificates());
        let fingerprints = trusted.map(|certificate| certificate.fingerprint().to_string());
        let of_upstream = self.upstream.as_ref().map(Authorities::fingerprint);
        // The API server of upstream reads again whom it lets in, and asks at every request; ours does so when it starts, and
        // only a new process has no connections of those who are not let in any more.
        let break_glass = self.break_glass.as_ref().filter(|_| self.upstream.is_none());
        let break_glass = break_glass.map(BreakGlass::fingerprint);
        fingerprints
            .chain(self.tokens.clone())
            .chain(of_upstream)
            .chain(break_glass)
            .collect::<Vec<_>>()
            .join(",")
    }

    /// Makes sure of the certificates.
    pub(crate) async fn leaves(
        &self,
        keyring: &Keyring<'_>,
        blueprint: &Blueprint,
        endpoint: &Endpoint,
        service: IpAddr,
    ) -> Result<Leaves, Error> {
        let request = |name: &str, request: Result<LeafRequest, pilothouse_pki::Error>| {
            request.map_err(|source| Error::Certificate { name: name.to_owned(), source })
        };
        let serving = request(SERVING, serving_request(blueprint, endpoint, service))?;
        let kubelet_client = request(KUBELET_CLIENT, kubelet_client_request(blueprint.payload))?;
        let admin = request(ADMIN, client_request("system:admin", ["system:masters"]))?;
        let lifetimes = &blueprint.lifetimes;
        let leaf = |name, request, authority| {
            let metadata: ObjectMeta = manifests::in_namespace(blueprint, name);
            keyring.leaf_of(metadata, request, authority, lifetimes)
        };
        let of_upstream = async {
            match &self.upstream {
                Some(upstream) => upstream.leaves(keyring, blueprint).await,
                None => Ok(Timestamp::MAX),
            }
        };
        let (serving, kubelet_client, admin, of_upstream) = try_join!(
            leaf(SERVING, serving, &self.root.authority),
            leaf(KUBELET_CLIENT, kubelet_client, &self.clients.authority),
            leaf(ADMIN, admin, &self.administrators.authority),
            of_upstream,
        )?;
        let leaves = [&serving, &kubelet_client, &admin].map(|leaf| lifetimes.renew_at(leaf.certificate()));
        let signers = [self.root.due, self.clients.due, self.administrators.due];
        let break_glass = self.break_glass.as_ref().map(BreakGlass::due);
        let due = leaves
            .into_iter()
            .chain(signers)
            .chain([of_upstream])
            .chain(break_glass)
            .min()
            .unwrap_or(Timestamp::MAX);
        Ok(Leaves { admin, due })
    }
}

/// The fingerprint and the public half of the key that signs tokens. If the user brings the key it is copied, and not ours
/// to make; then it has a fingerprint elsewhere.
async fn token_key(keyring: &Keyring<'_>, blueprint: &Blueprint) -> Result<(Option<String>, String), Error> {
    if blueprint.brings_signing_key {
        return Ok((None, blueprint.signing_key_public.clone().unwrap_or_default()));
    }
    let kept = match keyring.cached(SERVICE_ACCOUNT) {
        Some(cached) => cached,
        None if blueprint.lifetimes.is_frozen() => keyring.kept(SERVICE_ACCOUNT).await?,
        None => {
            let metadata = manifests::in_namespace(blueprint, SERVICE_ACCOUNT);
            keyring.signing_key(metadata, SERVICE_ACCOUNT_KEY).await?
        }
    };
    let key = PrivateKey::from_pem(secrets::value(&kept, SERVICE_ACCOUNT_KEY)?)
        .map_err(|source| secrets::unusable(&kept, SERVICE_ACCOUNT_KEY, Some(source)))?;
    Ok((Some(key.fingerprint()), key.public_pem()))
}

/// A client certificate for this user in these groups.
pub(crate) fn client_request<const N: usize>(
    user: &str,
    groups: [&str; N],
) -> Result<LeafRequest, pilothouse_pki::Error> {
    let subject = Subject::try_new(user)?.with_organizations(groups)?;
    Ok(LeafRequest::client(subject).with_lifetime(LEAF_LIFETIME))
}

/// The API server calls kubelets. That of payload `light` also calls its own API for the controllers that live in the same
/// process; that of upstream may do with kubelets what its user is bound to, and nothing else.
fn kubelet_client_request(payload: Payload) -> Result<LeafRequest, pilothouse_pki::Error> {
    match payload {
        Payload::Light => client_request(KUBELET_CLIENT_USER, ["kubernetes", "system:masters"]),
        Payload::Upstream => client_request(KUBELET_CLIENT_USER, ["kubernetes"]),
    }
}

fn serving_request(
    blueprint: &Blueprint,
    endpoint: &Endpoint,
    service: IpAddr,
) -> Result<LeafRequest, pilothouse_pki::Error> {
    let in_namespace = format!("{API_SERVER}.{}", blueprint.namespace);
    let in_cluster = format!("{in_namespace}.svc");
    let names = [
        "localhost",
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
        "kubernetes.default.svc.cluster.local",
        API_SERVER,
        &in_namespace,
        &in_cluster,
    ];
    let mut names = names.iter().map(AlternativeName::dns).collect::<Result<Vec<_>, _>>()?;
    names.extend(endpoint.name());
    names.extend(blueprint.custom_name.as_ref().map(AlternativeName::dns).transpose()?);
    names.push(blueprint.first_service_address.into());
    names.push(service.into());
    names.push(IpAddr::from(Ipv4Addr::LOCALHOST).into());
    let subject = Subject::try_new("kubernetes")?.with_organizations(["kubernetes"])?;
    Ok(LeafRequest::server(subject, names).with_lifetime(LEAF_LIFETIME))
}
