//! Who signs what in a hosted cluster.
//!
//! | authority | signs |
//! |---|---|
//! | `root-ca` | servers: the API server, the kubelets |
//! | `cluster-signer-ca` | clients: the administrator, the kubelets, the API server as a client of kubelets |
//!
//! Two, because whoever trusts a server's authority must not thereby let in its clients. All keys are ECDSA P-256: making
//! seven RSA keys would take longer than starting the control plane.

use std::net::{IpAddr, Ipv4Addr};

use futures::try_join;
use pilothouse_pki::{
    AlternativeName, Authority, Bundle, Credential, Identity, Kubeconfig, LeafRequest, Subject,
};

use super::blueprint::Blueprint;
use super::manifests;
use crate::error::Error;
use crate::names::API_SERVER;
use crate::secrets::{Keyring, LEAF_LIFETIME};

pub(crate) const ROOT_AUTHORITY: &str = "root-ca";
pub(crate) const CLIENT_AUTHORITY: &str = "cluster-signer-ca";
pub(crate) const SERVING: &str = "kas-server-crt";
pub(crate) const KUBELET_CLIENT: &str = "kas-kubelet-client-crt";
pub(crate) const ADMIN: &str = "system-admin-client";
pub(crate) const SERVICE_ACCOUNT: &str = "sa-signing-key";
pub(crate) const SERVICE_ACCOUNT_KEY: &str = "service-account.key";

/// What of a cluster's keys and certificates other objects need.
pub(crate) struct Pki {
    pub(crate) root: Authority,
    pub(crate) clients: Authority,
    admin: Identity,
}

// === impl Pki ===

impl Pki {
    /// Makes sure of all of them.
    pub(crate) async fn ensure(keyring: &Keyring<'_>, blueprint: &Blueprint) -> Result<Self, Error> {
        let metadata = |name| manifests::in_namespace(blueprint, name);
        let (root, clients, ()) = try_join!(
            keyring.authority(metadata(ROOT_AUTHORITY)),
            keyring.authority(metadata(CLIENT_AUTHORITY)),
            async {
                // One that was brought along has been copied by now; it is not ours to make.
                match blueprint.signing_key {
                    Some(_) => Ok(()),
                    None => keyring.signing_key(metadata(SERVICE_ACCOUNT), SERVICE_ACCOUNT_KEY).await,
                }
            },
        )?;
        let request = |name: &str, request: Result<LeafRequest, pilothouse_pki::Error>| {
            request.map_err(|source| Error::Certificate { name: name.to_owned(), source })
        };
        let serving = request(SERVING, serving_request(blueprint))?;
        let kubelet_client = request(KUBELET_CLIENT, kubelet_client_request())?;
        let admin = request(ADMIN, client_request("system:admin", ["system:masters"]))?;
        let (_, _, admin) = try_join!(
            keyring.leaf(metadata(SERVING), &serving, &root),
            keyring.leaf(metadata(KUBELET_CLIENT), &kubelet_client, &clients),
            keyring.leaf(metadata(ADMIN), &admin, &clients),
        )?;
        Ok(Self { root, clients, admin })
    }

    /// The administrator's way in through the gateway, without any DNS.
    pub(crate) fn admin_kubeconfig(&self, blueprint: &Blueprint, server: &str) -> Result<String, Error> {
        let name = blueprint.cluster.name.as_str();
        let kubeconfig = Kubeconfig {
            cluster: name,
            user: "admin",
            context: "admin",
            server,
            tls_server_name: Some(&blueprint.host),
            authorities: &trust(&self.root)?,
            namespace: None,
            credential: Credential::Certificate(&self.admin),
        };
        kubeconfig.to_yaml().map(|text| text.to_string()).map_err(Error::Kubeconfig)
    }
}

/// A bundle of one authority.
pub(crate) fn trust(authority: &Authority) -> Result<Bundle, Error> {
    let mut bundle = Bundle::new();
    bundle
        .add(authority.certificate().clone())
        .map_err(|source| Error::Certificate { name: ROOT_AUTHORITY.to_owned(), source })?;
    Ok(bundle)
}

/// A client certificate for this user in these groups.
pub(crate) fn client_request<const N: usize>(
    user: &str,
    groups: [&str; N],
) -> Result<LeafRequest, pilothouse_pki::Error> {
    let subject = Subject::try_new(user)?.with_organizations(groups)?;
    Ok(LeafRequest::client(subject).with_lifetime(LEAF_LIFETIME))
}

/// The API server calls kubelets, and its own API for the controllers that live in the same process.
fn kubelet_client_request() -> Result<LeafRequest, pilothouse_pki::Error> {
    client_request("system:kube-apiserver", ["kubernetes", "system:masters"])
}

fn serving_request(blueprint: &Blueprint) -> Result<LeafRequest, pilothouse_pki::Error> {
    let in_namespace = format!("{API_SERVER}.{}", blueprint.namespace);
    let in_cluster = format!("{in_namespace}.svc");
    let names = [
        blueprint.host.as_str(),
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
    names.push(blueprint.first_service_address.into());
    names.push(IpAddr::from(Ipv4Addr::LOCALHOST).into());
    let subject = Subject::try_new("kubernetes")?.with_organizations(["kubernetes"])?;
    Ok(LeafRequest::server(subject, names).with_lifetime(LEAF_LIFETIME))
}
