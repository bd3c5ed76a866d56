//! Secrets and ConfigMaps that a specification names: read beside the cluster, checked, and copied into the namespace
//! of its control plane.
//!
//! Before a cluster has run, something that is missing or unusable stops it: nothing half-made. Later the copy that
//! exists stays in use, and a condition says what is missing.

use std::collections::BTreeMap;

use futures::future::join_all;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt as _};
use pilothouse_crds::{HostedCluster, HostedClusterSpec};
use pilothouse_informer::ObjectKey;
use pilothouse_pki::{Bundle, PrivateKey};
use serde_json::{Value, json};

use super::blueprint::Blueprint;
use super::extras::Extras;
use super::refusal::{Refusal, Refusals};
use super::{authentication, break_glass, encryption, kubeconfigs, manifests, pki, upstream};
use crate::apply;
use crate::caches::Caches;
use crate::error::{Error, is_missing};
use crate::names;
use crate::secrets;

/// The bytes of a key that secrets are encrypted with.
pub(crate) const ENCRYPTION_KEY_BYTES: usize = 32;

/// What a control plane's namespace has by these names is not to be replaced by a copy.
const RESERVED: [&str; 20] = [
    names::API_SERVER,
    authentication::CONFIG_MAP,
    kubeconfigs::CUSTOM,
    pki::ROOT_AUTHORITY,
    pki::CLIENT_AUTHORITY,
    pki::ADMIN_AUTHORITY,
    break_glass::AUTHORITY,
    pki::SERVING,
    pki::KUBELET_CLIENT,
    pki::ADMIN,
    pki::SERVICE_ACCOUNT,
    encryption::KEY_FILE,
    "pull-secret",
    "ssh-key",
    "user-ca-bundle",
    "admin-kubeconfig",
    "localhost-kubeconfig",
    "service-network-admin-kubeconfig",
    "kube-root-ca.crt",
    "openshift-service-ca.crt",
];

/// What kind of object is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Secret,
    ConfigMap,
}

/// What an object is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    PullSecret,
    SshKey,
    SigningKey,
    TrustBundle,
    /// One of the keys that secrets are encrypted with.
    EncryptionKey,
    /// Part of `spec.configuration`; the copy has the same name.
    Configuration,
    /// The same: the authorities of somebody who issues tokens.
    IssuerAuthority,
}

/// One object that a specification names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reference {
    pub(crate) kind: Kind,
    pub(crate) name: String,
    pub(crate) purpose: Purpose,
    /// Where the specification names it.
    pub(crate) field: String,
}

/// What was found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sources {
    found: Vec<(Reference, Found)>,
    pub(crate) refusals: Refusals,
}

#[derive(Clone, Debug)]
struct Found {
    data: BTreeMap<String, Vec<u8>>,
    /// It carries our mark already.
    marked: bool,
}

// === impl Reference ===

impl Reference {
    /// Everything that a specification names.
    pub(crate) fn all(spec: &HostedClusterSpec, extras: &Extras) -> Vec<Self> {
        let mut all = Vec::new();
        let mut add = |kind, name: &str, purpose, field: &str| {
            if !name.is_empty() {
                all.push(Self { kind, name: name.to_owned(), purpose, field: field.to_owned() });
            }
        };
        add(Kind::Secret, &spec.pull_secret.name, Purpose::PullSecret, "spec.pullSecret");
        add(Kind::Secret, &spec.ssh_key.name, Purpose::SshKey, "spec.sshKey");
        if let Some(key) = &spec.service_account_signing_key {
            add(Kind::Secret, &key.name, Purpose::SigningKey, "spec.serviceAccountSigningKey");
        }
        if let Some(bundle) = &extras.additional_trust_bundle {
            add(Kind::ConfigMap, &bundle.name, Purpose::TrustBundle, "spec.additionalTrustBundle");
        }
        for (field, name) in extras.encryption_keys() {
            add(Kind::Secret, name, Purpose::EncryptionKey, field);
        }
        for (kind, name, field) in of_configuration(&extras.configuration) {
            let of_issuer = field.ends_with(".issuerCertificateAuthority");
            let purpose = if of_issuer { Purpose::IssuerAuthority } else { Purpose::Configuration };
            add(kind, &name, purpose, &field);
        }
        all
    }

    fn describe(&self, namespace: &str) -> String {
        let kind = match self.kind {
            Kind::Secret => "Secret",
            Kind::ConfigMap => "ConfigMap",
        };
        format!("{}: {kind} {namespace}/{}", self.field, self.name)
    }

    /// The key that must be in it.
    fn key(&self) -> Option<&'static str> {
        match self.purpose {
            Purpose::PullSecret => Some(".dockerconfigjson"),
            Purpose::SshKey => Some("id_rsa.pub"),
            Purpose::SigningKey | Purpose::EncryptionKey => Some("key"),
            Purpose::TrustBundle | Purpose::IssuerAuthority => Some("ca-bundle.crt"),
            Purpose::Configuration => None,
        }
    }

    /// What is wrong with what was found.
    fn check(&self, namespace: &str, data: &BTreeMap<String, Vec<u8>>) -> Result<(), Refusal> {
        let described = self.describe(namespace);
        let same_name = matches!(self.purpose, Purpose::Configuration | Purpose::IssuerAuthority);
        let mut reserved = RESERVED.iter().chain(&upstream::authorities::RESERVED);
        if same_name && reserved.any(|name| *name == self.name) {
            return Err(Refusal::invalid(format!(
                "{described} has the name of something that every control plane has; use another"
            )));
        }
        let Some(key) = self.key() else { return Ok(()) };
        let Some(value) = data.get(key).filter(|value| !value.is_empty()) else {
            return Err(Refusal::invalid(format!("{described} has no key `{key}`")));
        };
        let problem = match self.purpose {
            Purpose::PullSecret => serde_json::from_slice::<Value>(value)
                .ok()
                .filter(Value::is_object)
                .is_none()
                .then(|| "is no Docker configuration in JSON".to_owned()),
            Purpose::SigningKey => {
                PrivateKey::from_pem(value).err().map(|_| "is no private key in PEM".to_owned())
            }
            Purpose::TrustBundle | Purpose::IssuerAuthority => Bundle::from_pem(value)
                .err()
                .map(|_| "holds no certificates of authorities in PEM".to_owned()),
            Purpose::EncryptionKey => (value.len() != ENCRYPTION_KEY_BYTES)
                .then(|| format!("has {} bytes; a key has {ENCRYPTION_KEY_BYTES}", value.len())),
            Purpose::SshKey | Purpose::Configuration => None,
        };
        match problem {
            Some(problem) => Err(Refusal::invalid(format!("{described}: `{key}` {problem}"))),
            None => Ok(()),
        }
    }

    async fn read(&self, client: &Client, cluster: &ObjectKey) -> Result<Option<Found>, Error> {
        let namespace = cluster.namespace_or_empty();
        let failed = |error| Error::management("show", self.describe(namespace), error);
        let mark = mark(cluster);
        let found = match self.kind {
            Kind::Secret => {
                let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
                let found = secrets.get_opt(&self.name).await.map_err(failed)?;
                found.map(|secret| {
                    let marked = secret.annotations().contains_key(&mark);
                    let data = secret.data.unwrap_or_default();
                    Found { data: data.into_iter().map(|(key, value)| (key, value.0)).collect(), marked }
                })
            }
            Kind::ConfigMap => {
                let config_maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
                let found = config_maps.get_opt(&self.name).await.map_err(failed)?;
                found.map(|config_map| {
                    let marked = config_map.annotations().contains_key(&mark);
                    let data = config_map.data.unwrap_or_default();
                    let data = data.into_iter().map(|(key, value)| (key, value.into_bytes())).collect();
                    Found { data, marked }
                })
            }
        };
        Ok(found)
    }
}

// === impl Sources ===

impl Sources {
    /// Reads and checks them, all at once.
    pub(crate) async fn read(
        client: &Client,
        cluster: &ObjectKey,
        references: &[Reference],
    ) -> Result<Self, Error> {
        let namespace = cluster.namespace_or_empty();
        let answers = join_all(references.iter().map(|reference| reference.read(client, cluster))).await;
        let mut sources = Self::default();
        for (reference, answer) in references.iter().zip(answers) {
            let Some(found) = answer? else {
                let wanted = reference.key().map(|key| format!(" with key `{key}`")).unwrap_or_default();
                let described = reference.describe(namespace);
                let message = format!("{described} does not exist; create it{wanted}");
                sources.refusals.add(Refusal::missing(message));
                continue;
            };
            match reference.check(namespace, &found.data) {
                Ok(()) => sources.found.push((reference.clone(), found)),
                Err(refusal) => sources.refusals.add(refusal),
            }
        }
        Ok(sources)
    }

    /// The key of an object with this name and purpose.
    pub(crate) fn encryption_key(&self, name: &str) -> Option<&[u8]> {
        let found = self
            .found
            .iter()
            .find(|(reference, _)| reference.purpose == Purpose::EncryptionKey && reference.name == name);
        found.and_then(|(_, found)| found.data.get("key")).map(Vec::as_slice)
    }

    /// The authorities of somebody who issues tokens, in PEM.
    pub(crate) fn issuer_authority(&self, name: &str) -> Option<String> {
        let found = self
            .found
            .iter()
            .find(|(reference, _)| reference.purpose == Purpose::IssuerAuthority && reference.name == name);
        let (reference, found) = found?;
        let pem = found.data.get(reference.key()?)?;
        Some(String::from_utf8_lossy(pem).into_owned())
    }

    /// A key that was made here.
    pub(crate) fn add_encryption_key(&mut self, name: String, key: Vec<u8>) {
        let field = String::new();
        let reference = Reference { kind: Kind::Secret, name, purpose: Purpose::EncryptionKey, field };
        let data = BTreeMap::from([("key".to_owned(), key)]);
        self.found.push((reference, Found { data, marked: true }));
    }

    /// What tells the signing key that the user brought from every other.
    pub(crate) fn signing_key_fingerprint(&self) -> Option<String> {
        self.signing_key().map(|key| key.fingerprint())
    }

    /// The public half of that key, PEM.
    pub(crate) fn signing_key_public(&self) -> Option<String> {
        self.signing_key().map(|key| key.public_pem())
    }

    fn signing_key(&self) -> Option<PrivateKey> {
        let (_, found) = self.found.iter().find(|(found, _)| found.purpose == Purpose::SigningKey)?;
        PrivateKey::from_pem(found.data.get("key")?).ok()
    }

    /// Makes sure of the copies, and that the originals say whom they concern.
    pub(crate) async fn copy(
        &self,
        client: &Client,
        caches: &Caches,
        blueprint: &Blueprint,
    ) -> Result<(), Error> {
        let copies = self.found.iter().map(|(reference, found)| async move {
            if !found.marked {
                mark_original(client, &blueprint.cluster, reference).await?;
            }
            copy_one(client, caches, blueprint, reference, found).await
        });
        join_all(copies).await.into_iter().collect()
    }

    /// Takes our mark off the originals again.
    pub(crate) async fn unmark(
        client: &Client,
        cluster: &ObjectKey,
        references: &[Reference],
    ) -> Result<(), Error> {
        let unmarked = references.iter().map(|reference| annotate(client, cluster, reference, Value::Null));
        join_all(unmarked).await.into_iter().collect()
    }
}

/// Whether a cluster names this object.
pub(crate) fn concerns(cluster: &HostedCluster, kind: Kind, name: &str) -> bool {
    let extras = Extras::read(&cluster.spec).unwrap_or_default();
    let references = Reference::all(&cluster.spec, &extras);
    references.iter().any(|reference| reference.kind == kind && reference.name == name)
}

async fn copy_one(
    client: &Client,
    caches: &Caches,
    blueprint: &Blueprint,
    reference: &Reference,
    found: &Found,
) -> Result<(), Error> {
    let (name, type_) = match reference.purpose {
        Purpose::PullSecret => ("pull-secret", "kubernetes.io/dockerconfigjson"),
        Purpose::SshKey => ("ssh-key", "Opaque"),
        Purpose::SigningKey => (pki::SERVICE_ACCOUNT, "Opaque"),
        Purpose::TrustBundle => ("user-ca-bundle", ""),
        Purpose::Configuration | Purpose::IssuerAuthority => (reference.name.as_str(), "Opaque"),
        // They are in one file, in the order in which they were in use.
        Purpose::EncryptionKey => return Ok(()),
    };
    let metadata = manifests::in_namespace(blueprint, name);
    let key = ObjectKey::namespaced(&blueprint.namespace, name);
    let data = found.data.iter().filter(|(key, _)| reference.key().is_none_or(|wanted| wanted == *key));
    match reference.kind {
        Kind::Secret => {
            let data: BTreeMap<_, _> = data
                .map(|(key, value)| {
                    let key =
                        if reference.purpose == Purpose::SigningKey { pki::SERVICE_ACCOUNT_KEY } else { key };
                    (key.to_owned(), ByteString(value.clone()))
                })
                .collect();
            let mut copy = secrets::secret(metadata, type_, []);
            copy.data = Some(data);
            let api: Api<Secret> = Api::namespaced(client.clone(), &blueprint.namespace);
            apply::ensure(&api, caches.secrets.get(&key), &copy).await?;
        }
        Kind::ConfigMap => {
            let data = data.map(|(key, value)| (key.clone(), String::from_utf8_lossy(value).into_owned()));
            let copy = ConfigMap { metadata, data: Some(data.collect()), ..ConfigMap::default() };
            let api: Api<ConfigMap> = Api::namespaced(client.clone(), &blueprint.namespace);
            apply::ensure(&api, caches.config_maps.get(&key), &copy).await?;
        }
    }
    Ok(())
}

async fn mark_original(client: &Client, cluster: &ObjectKey, reference: &Reference) -> Result<(), Error> {
    annotate(client, cluster, reference, Value::String("true".to_owned())).await
}

async fn annotate(
    client: &Client,
    cluster: &ObjectKey,
    reference: &Reference,
    value: Value,
) -> Result<(), Error> {
    let namespace = cluster.namespace_or_empty();
    let patch = json!({ "metadata": { "annotations": { mark(cluster): value } } });
    let (parameters, patch) = (PatchParams::default(), Patch::Merge(patch));
    let outcome = match reference.kind {
        Kind::Secret => {
            let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
            api.patch_metadata(&reference.name, &parameters, &patch).await.map(|_| ())
        }
        Kind::ConfigMap => {
            let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
            api.patch_metadata(&reference.name, &parameters, &patch).await.map(|_| ())
        }
    };
    match outcome {
        Err(error) if !is_missing(&error) => {
            Err(Error::management("annotate", reference.describe(namespace), error))
        }
        _ => Ok(()),
    }
}

fn mark(cluster: &ObjectKey) -> String {
    format!("{}{}", names::REFERENCED, cluster.name)
}

/// What `spec.configuration` names: kind, name and field. Copies under these names must not be in the way of anything.
fn of_configuration(configuration: &Value) -> Vec<(Kind, String, String)> {
    let mut named = Vec::new();
    let mut add = |kind, value: &Value, field: String| {
        if let Some(name) = value["name"].as_str() {
            named.push((kind, name.to_owned(), field));
        }
    };
    let each = |value: &Value| value.as_array().cloned().unwrap_or_default();
    for (index, provider) in each(&configuration["authentication"]["oidcProviders"]).iter().enumerate() {
        let field = format!("spec.configuration.authentication.oidcProviders[{index}]");
        let authority = &provider["issuer"]["issuerCertificateAuthority"];
        add(Kind::ConfigMap, authority, format!("{field}.issuer.issuerCertificateAuthority"));
        for client in each(&provider["oidcClients"]) {
            add(Kind::Secret, &client["clientSecret"], format!("{field}.oidcClients.clientSecret"));
        }
    }
    let server = &configuration["apiServer"];
    for certificate in each(&server["servingCerts"]["namedCertificates"]) {
        let field = "spec.configuration.apiServer.servingCerts.namedCertificates".to_owned();
        add(Kind::Secret, &certificate["servingCertificate"], field);
    }
    add(Kind::ConfigMap, &server["clientCA"], "spec.configuration.apiServer.clientCA".to_owned());
    let image = &configuration["image"]["additionalTrustedCA"];
    add(Kind::ConfigMap, image, "spec.configuration.image.additionalTrustedCA".to_owned());
    let proxy = &configuration["proxy"]["trustedCA"];
    add(Kind::ConfigMap, proxy, "spec.configuration.proxy.trustedCA".to_owned());
    named
}
