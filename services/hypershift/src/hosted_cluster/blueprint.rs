//! What a hosted cluster is to be made of, read off its specification; or everything that is wrong with it.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use k8s_openapi::api::core::v1::Toleration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Resource as _;
use pilothouse_cel::Quantity;
use pilothouse_crds::{AvailabilityPolicy, EtcdManagementType, HostedCluster, PlatformType};
use pilothouse_informer::ObjectKey;

use super::access::Access;
use super::authentication::Providers;
use super::extras::Extras;
use super::networks::Networks;
use super::payload::Payload;
use super::publishing::Publishing;
use super::references::Reference;
use super::refusal::{Refusal, Refusals};
use super::upgrade::{self, Pool};
use super::{duration, encryption, publishing};
use crate::Config;
use crate::names;
use crate::secrets::Lifetimes;
use crate::versions::Release;

/// The longest name of a namespace.
const LONGEST_NAMESPACE: usize = 63;

/// Everything about a control plane that is known before anything of it exists.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Blueprint {
    pub(crate) cluster: ObjectKey,
    pub(crate) owner: Option<OwnerReference>,
    /// The namespace of the control plane.
    pub(crate) namespace: String,
    pub(crate) publishing: Publishing,
    /// From where the API server may be reached.
    pub(crate) access: Access,
    /// One more name of the API server, by which its owner publishes it.
    pub(crate) custom_name: Option<String>,
    /// Which programs the control plane consists of.
    pub(crate) payload: Payload,
    /// What the cluster as a whole is to run.
    pub(crate) release: Release,
    /// What its control plane is to run: the same, unless asked for otherwise.
    pub(crate) control_plane_release: Release,
    pub(crate) pod_range: String,
    pub(crate) service_range: String,
    /// What `kubernetes.default.svc` resolves to inside the cluster.
    pub(crate) first_service_address: IpAddr,
    pub(crate) issuer: String,
    /// The user brings the key that signs tokens.
    pub(crate) brings_signing_key: bool,
    /// What tells that key from every other, once it was read.
    pub(crate) signing_key: Option<String>,
    /// Its public half, PEM, once it was read.
    pub(crate) signing_key_public: Option<String>,
    pub(crate) storage_size: String,
    pub(crate) storage_class: Option<String>,
    pub(crate) restart_date: Option<String>,
    pub(crate) correlation: Option<String>,
    /// More than one replica was asked for.
    pub(crate) highly_available: bool,
    /// Whose tokens are to be believed beside its own.
    pub(crate) token_issuers: Option<Providers>,
    /// The file that says so, once it was written.
    pub(crate) authentication: Option<String>,
    /// Everything that the specification names.
    pub(crate) references: Vec<Reference>,
    /// The keys that secrets are to be encrypted with.
    pub(crate) encryption: encryption::Wanted,
    /// The key that encrypts: the one that is asked for, unless that could not be had.
    pub(crate) encrypts_with: Option<String>,
    /// The key that follows it when every server knows it.
    pub(crate) incoming_key: Option<String>,
    /// What tells the authorities and keys of the cluster from all others, once they were made.
    pub(crate) signers: Option<String>,
    pub(crate) lifetimes: Lifetimes,
    /// On the pods of the control plane.
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) node_selector: BTreeMap<String, String>,
    pub(crate) tolerations: Vec<Toleration>,
    pub(crate) priority_class: String,
    /// What its container requests, where that is not the usual.
    pub(crate) requests: BTreeMap<String, String>,
    /// What was asked for and is not done; the cluster goes on with what it has.
    pub(crate) complaints: Refusals,
}

// === impl Blueprint ===

impl Blueprint {
    /// Reads a specification. All of it is looked at, so that whoever has to correct it does so once.
    pub(crate) fn draw(cluster: &HostedCluster, pools: &[Pool], config: &Config) -> Result<Self, Refusals> {
        let key = ObjectKey::of(cluster);
        let spec = &cluster.spec;
        let mut refusals = Refusals::default();
        if !is_supported(spec.platform.type_) {
            refusals.add(Refusal::unsupported(format!(
                "nodes of platform {:?} cannot be made here; use Azure, KubeVirt or None",
                spec.platform.type_
            )));
        }
        let mut complaints = Refusals::default();
        let payload = refusals.keep(Payload::of(cluster, config, &mut complaints)).unwrap_or_default();
        let can_be_had = |release: &Release| payload.check(release, config);
        let releases = upgrade::releases(cluster, payload, pools, &mut complaints, can_be_had);
        let releases = refusals.keep(releases);
        if spec.etcd.management_type == EtcdManagementType::Unmanaged {
            refusals.add(Refusal::invalid(format!(
                "spec.etcd.managementType Unmanaged: payload `{}` keeps its own state; use Managed",
                payload.name()
            )));
        }
        let networks = Networks::read(&spec.networking, &mut refusals);
        let services = networks.as_ref().map(|networks| &networks.services);
        let published = Publishing::read(cluster, services, config, &mut refusals);
        let access = Access::read(cluster, &mut refusals);
        let custom_name = spec.kube_api_server_dns_name.clone().filter(|name| !name.is_empty());
        refusals.keep(custom_name.as_deref().map_or(Ok(()), publishing::check_custom_name));
        let extras = refusals.keep(Extras::read(spec)).unwrap_or_default();
        refusals.keep(extras.check_encryption());
        let token_issuers = refusals.keep(Providers::read(&extras.configuration, &spec.issuer_url)).flatten();
        refusals.keep(check_issuer(&spec.issuer_url));
        refusals.keep(check_cluster_id(spec.cluster_id.as_deref()));
        let lifetimes = refusals.keep(lifetimes(cluster));
        refusals.keep(destroy_grace_period(cluster));
        let requests = refusals.keep(requests(cluster)).unwrap_or_default();
        let storage =
            spec.etcd.managed.as_ref().and_then(|managed| managed.storage.persistent_volume.clone());
        let storage = storage.unwrap_or_default();
        refusals.keep(check_size(&storage.size));
        let namespace = names::control_plane_namespace(&key);
        if namespace.len() > LONGEST_NAMESPACE {
            refusals.add(Refusal::invalid(format!(
                "metadata.name: the namespace of the control plane would be `{namespace}`, which is longer than \
                 {LONGEST_NAMESPACE} characters; use a shorter name"
            )));
        }
        let annotation = |key| names::annotation(&cluster.metadata, key).map(str::to_owned);
        let (Some(networks), Some(published), Some((release, control_plane_release)), Some(lifetimes), true) =
            (networks, published, releases, lifetimes, refusals.is_empty())
        else {
            return Err(refusals);
        };
        let encryption = encryption::Wanted::read(&extras, &key.name, payload);
        Ok(Self {
            owner: cluster.controller_owner_ref(&()),
            namespace,
            publishing: published,
            access,
            custom_name,
            payload,
            release,
            control_plane_release,
            first_service_address: networks.services.first(),
            pod_range: networks.pods.to_string(),
            service_range: networks.services.to_string(),
            issuer: spec.issuer_url.clone(),
            brings_signing_key: spec.service_account_signing_key.is_some(),
            signing_key: None,
            signing_key_public: None,
            storage_size: storage.size,
            storage_class: storage.storage_class_name,
            restart_date: annotation(names::RESTART_DATE),
            correlation: annotation(names::CORRELATION),
            highly_available: spec.controller_availability_policy == AvailabilityPolicy::HighlyAvailable,
            token_issuers,
            authentication: None,
            references: Reference::all(spec, &extras),
            encrypts_with: encryption.active().map(str::to_owned),
            incoming_key: None,
            encryption,
            signers: None,
            lifetimes,
            labels: extras.labels,
            node_selector: extras.node_selector,
            tolerations: extras.tolerations,
            priority_class: names::PRIORITY_CLASSES
                .into_iter()
                .find_map(annotation)
                .unwrap_or_else(|| names::API_CRITICAL.to_owned()),
            requests,
            complaints,
            cluster: key,
        })
    }

    /// Several API servers read the file of keys, each when it starts.
    pub(crate) fn shares_keys(&self) -> bool {
        self.highly_available && self.payload == Payload::Upstream
    }

    /// Changes when the pods must be replaced. Made from what they run with rather than from the files they read, so
    /// that a new version of this operator that writes those files differently restarts nobody.
    pub(crate) fn config_hash(&self) -> String {
        let always = [
            self.control_plane_release.version.as_str(),
            self.control_plane_release.kubernetes.as_str(),
            self.pod_range.as_str(),
            self.service_range.as_str(),
            self.issuer.as_str(),
            self.restart_date.as_deref().unwrap_or_default(),
        ];
        let incoming = self.incoming_key.as_ref().map(|key| format!("reads {key}"));
        // What only some clusters have comes last, so that it changes nothing for the others.
        let sometimes = [
            self.signing_key.as_deref(),
            self.encrypts_with.as_deref(),
            self.signers.as_deref(),
            self.authentication.as_deref(),
            incoming.as_deref(),
        ];
        names::stable_hash(always.into_iter().chain(sometimes.into_iter().flatten()))
    }
}

/// How long the cluster's object stays when everything else is gone.
pub(crate) fn destroy_grace_period(cluster: &HostedCluster) -> Result<Option<Duration>, Refusal> {
    let text = names::annotation(&cluster.metadata, names::DESTROY_GRACE_PERIOD);
    text.map(|text| annotated_duration(names::DESTROY_GRACE_PERIOD, text)).transpose()
}

/// What the container requests, as an annotation says.
fn requests(cluster: &HostedCluster) -> Result<BTreeMap<String, String>, Refusal> {
    let Some(text) = names::annotation(&cluster.metadata, names::RESOURCE_REQUESTS) else {
        return Ok(BTreeMap::new());
    };
    let request = |entry: &str| {
        let (name, amount) = entry.split_once('=')?;
        let (name, amount) = (name.trim(), amount.trim());
        let known = ["cpu", "memory"].contains(&name) && Quantity::parse(amount).is_ok();
        known.then(|| (name.to_owned(), amount.to_owned()))
    };
    text.split(',').map(request).collect::<Option<_>>().ok_or_else(|| {
        Refusal::invalid(format!(
            "annotation {}: `{text}` is no list of requests such as memory=64Mi,cpu=100m",
            names::RESOURCE_REQUESTS
        ))
    })
}

/// How long certificates live, as the annotations say.
fn lifetimes(cluster: &HostedCluster) -> Result<Lifetimes, Refusal> {
    let annotation = |key| names::annotation(&cluster.metadata, key);
    let validity = annotation(names::CERTIFICATE_VALIDITY)
        .map(|text| annotated_duration(names::CERTIFICATE_VALIDITY, text))
        .transpose()?;
    let renewal = annotation(names::CERTIFICATE_RENEWAL).map(|text| {
        let share = text.parse::<f64>().ok().filter(|share| *share > 0.0 && *share < 1.0);
        share.ok_or_else(|| {
            Refusal::invalid(format!(
                "annotation {}: `{text}` is no share of a certificate's life such as 0.3",
                names::CERTIFICATE_RENEWAL
            ))
        })
    });
    let frozen = annotation(names::DISABLE_PKI).is_some_and(|value| value != "false");
    Ok(Lifetimes::new(validity, renewal.transpose()?, frozen))
}

fn annotated_duration(annotation: &str, text: &str) -> Result<Duration, Refusal> {
    duration::parse(text).ok_or_else(|| {
        Refusal::invalid(format!(
            "annotation {annotation}: `{text}` is no duration such as 90s, 10m or 8760h"
        ))
    })
}

fn check_issuer(issuer: &str) -> Result<(), Refusal> {
    let rest = issuer.strip_prefix("https://").filter(|rest| !rest.is_empty() && !rest.contains(['?', '#']));
    match rest {
        Some(_) => Ok(()),
        None => Err(Refusal::invalid(format!(
            "spec.issuerURL: `{issuer}` is no URL such as https://kubernetes.default.svc"
        ))),
    }
}

fn check_cluster_id(id: Option<&str>) -> Result<(), Refusal> {
    match id {
        Some(id) if uuid::Uuid::parse_str(id).is_err() => {
            Err(Refusal::invalid(format!("spec.clusterID: `{id}` is no UUID; leave it out to be given one")))
        }
        _ => Ok(()),
    }
}

fn check_size(size: &str) -> Result<(), Refusal> {
    let digits = size.trim_end_matches(|character: char| character.is_ascii_alphabetic());
    let unit = &size[digits.len()..];
    let known = ["", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].contains(&unit);
    if known && digits.parse::<f64>().is_ok_and(|number| number > 0.0) {
        return Ok(());
    }
    Err(Refusal::invalid(format!(
        "spec.etcd.managed.storage.persistentVolume.size: `{size}` is no amount such as 8Gi"
    )))
}

/// Nodes are processes here, whatever the platform calls its machines.
fn is_supported(platform: PlatformType) -> bool {
    match platform {
        PlatformType::Azure | PlatformType::KubeVirt | PlatformType::None => true,
        PlatformType::Aws
        | PlatformType::IbmCloud
        | PlatformType::Agent
        | PlatformType::PowerVs
        | PlatformType::OpenStack
        | PlatformType::Gcp => false,
    }
}

#[cfg(test)]
mod tests;
