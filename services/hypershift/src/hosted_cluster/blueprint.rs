//! What a hosted cluster is to be made of, read off its specification; or why it cannot be made.

use std::net::{IpAddr, Ipv4Addr};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Resource as _;
use pilothouse_crds::{
    AvailabilityPolicy, EtcdManagementType, HostedCluster, PlatformType, PublishedService, PublishingType,
};
use pilothouse_informer::ObjectKey;
use pilothouse_pki::AlternativeName;

use crate::Config;
use crate::names;
use crate::versions::Release;

/// Everything about a control plane that is known before anything of it exists.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Blueprint {
    pub(crate) cluster: ObjectKey,
    pub(crate) owner: Option<OwnerReference>,
    /// The namespace of the control plane.
    pub(crate) namespace: String,
    /// The name the API server is published by.
    pub(crate) host: String,
    pub(crate) release: Release,
    pub(crate) pod_range: String,
    pub(crate) service_range: String,
    /// What `kubernetes.default.svc` resolves to inside the cluster.
    pub(crate) first_service_address: IpAddr,
    pub(crate) issuer: String,
    pub(crate) signing_key: Option<String>,
    pub(crate) storage_size: String,
    pub(crate) storage_class: Option<String>,
    pub(crate) restart_date: Option<String>,
    pub(crate) correlation: Option<String>,
    /// More than one replica was asked for.
    pub(crate) highly_available: bool,
}

/// A specification that cannot be carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// The condition that says so.
    pub(crate) condition: &'static str,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

// === impl Blueprint ===

impl Blueprint {
    /// Reads a specification.
    pub(crate) fn draw(cluster: &HostedCluster, config: &Config) -> Result<Self, Refusal> {
        let key = ObjectKey::of(cluster);
        let spec = &cluster.spec;
        if !is_supported(spec.platform.type_) {
            return Err(Refusal {
                condition: "SupportedHostedCluster",
                reason: "UnsupportedHostedCluster",
                message: format!(
                    "nodes of platform {:?} cannot be made here; use Azure, KubeVirt or None",
                    spec.platform.type_
                ),
            });
        }
        let release = Release::of_image(&spec.release.image).map_err(|error| Refusal {
            condition: "ValidReleaseImage",
            reason: "InvalidImage",
            message: error.to_string(),
        })?;
        if spec.etcd.management_type == EtcdManagementType::Unmanaged {
            return Err(invalid(
                "spec.etcd.managementType Unmanaged: payload `light` keeps its own state; use Managed",
            ));
        }
        let pod_range = range(
            "spec.networking.clusterNetwork",
            spec.networking.cluster_network.iter().map(|entry| &entry.cidr),
        )?;
        let service_range = range(
            "spec.networking.serviceNetwork",
            spec.networking.service_network.iter().map(|entry| &entry.cidr),
        )?;
        if pod_range.overlaps(&service_range) {
            return Err(invalid(format!(
                "spec.networking: pods ({pod_range}) and services ({service_range}) share addresses; choose ranges apart"
            )));
        }
        let host = api_host(cluster, config);
        AlternativeName::dns(&host)
            .map_err(|error| invalid(format!("the API server cannot be published as {error}")))?;
        let storage =
            spec.etcd.managed.as_ref().and_then(|managed| managed.storage.persistent_volume.clone());
        let storage = storage.unwrap_or_default();
        Ok(Self {
            owner: cluster.controller_owner_ref(&()),
            namespace: names::control_plane_namespace(&key),
            cluster: key,
            host,
            release,
            first_service_address: service_range.first(),
            pod_range: pod_range.to_string(),
            service_range: service_range.to_string(),
            issuer: spec.issuer_url.clone(),
            signing_key: spec.service_account_signing_key.as_ref().map(|key| key.name.clone()),
            storage_size: storage.size,
            storage_class: storage.storage_class_name,
            restart_date: names::annotation(&cluster.metadata, names::RESTART_DATE).map(str::to_owned),
            correlation: names::annotation(&cluster.metadata, names::CORRELATION).map(str::to_owned),
            highly_available: spec.controller_availability_policy == AvailabilityPolicy::HighlyAvailable,
        })
    }

    /// Changes when the pods must be replaced. Made from what they run with rather than from the files they read, so
    /// that a new version of this operator that writes those files differently restarts nobody.
    pub(crate) fn config_hash(&self) -> String {
        names::stable_hash([
            self.release.version.as_str(),
            self.release.kubernetes.as_str(),
            self.pod_range.as_str(),
            self.service_range.as_str(),
            self.issuer.as_str(),
            self.restart_date.as_deref().unwrap_or_default(),
        ])
    }
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

/// The name the API server is published by: the one asked for, or `api.<prefix>.<base domain>`.
fn api_host(cluster: &HostedCluster, config: &Config) -> String {
    let spec = &cluster.spec;
    let asked = spec
        .services
        .iter()
        .filter(|service| service.service == PublishedService::ApiServer)
        .map(|service| &service.service_publishing_strategy)
        .filter(|strategy| strategy.type_ == PublishingType::Route)
        .find_map(|strategy| strategy.route.as_ref()?.hostname.clone());
    if let Some(host) = asked.filter(|host| !host.is_empty()) {
        return host;
    }
    let name = cluster.metadata.name.as_deref().unwrap_or_default();
    let base =
        Some(spec.dns.base_domain.as_str()).filter(|base| !base.is_empty()).unwrap_or(&config.base_domain);
    match spec.dns.base_domain_prefix.as_deref().unwrap_or(name) {
        "" => format!("api.{base}"),
        prefix => format!("api.{prefix}.{base}"),
    }
}

fn invalid(message: impl Into<String>) -> Refusal {
    Refusal { condition: "ValidConfiguration", reason: "InvalidConfiguration", message: message.into() }
}

/// A range of IPv4 addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    base: u32,
    length: u32,
}

impl Range {
    fn parse(text: &str) -> Option<Self> {
        let (address, length) = text.split_once('/')?;
        let base = u32::from(address.parse::<Ipv4Addr>().ok()?);
        let length = length.parse().ok().filter(|length| (1..=30).contains(length))?;
        // Bits beyond the prefix are somebody's mistake.
        (base & !Self::mask(length) == 0).then_some(Self { base, length })
    }

    fn mask(length: u32) -> u32 {
        u32::MAX << (32 - length)
    }

    fn overlaps(&self, other: &Self) -> bool {
        let mask = Self::mask(self.length.min(other.length));
        self.base & mask == other.base & mask
    }

    fn first(&self) -> IpAddr {
        Ipv4Addr::from(self.base + 1).into()
    }
}

impl std::fmt::Display for Range {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}/{}", Ipv4Addr::from(self.base), self.length)
    }
}

/// The one range of a list.
fn range<'a>(field: &str, mut ranges: impl Iterator<Item = &'a String>) -> Result<Range, Refusal> {
    let (first, second) = (ranges.next(), ranges.next());
    let Some(text) = first else { return Err(invalid(format!("{field} is empty; name one range"))) };
    if second.is_some() {
        return Err(invalid(format!("{field} has more than one range; payload `light` serves one")));
    }
    Range::parse(text)
        .ok_or_else(|| invalid(format!("{field}: `{text}` is no IPv4 range such as 172.31.0.0/16")))
}

#[cfg(test)]
mod tests {
    use pilothouse_crds::{
        HostedClusterSpec, Platform, PublishingStrategy, Reference, RoutePublishing, ServicePublishing,
    };
    use rstest::rstest;

    use super::*;

    fn cluster() -> HostedCluster {
        let mut cluster = HostedCluster::new(
            "first",
            HostedClusterSpec {
                release: pilothouse_crds::Release { image: "pilothouse/release:4.20.0".into() },
                platform: Platform { type_: PlatformType::None, ..Platform::default() },
                issuer_url: "https://kubernetes.default.svc".into(),
                ..HostedClusterSpec::default()
            },
        );
        cluster.metadata.namespace = Some("ocm-local-1".into());
        cluster
    }

    fn changed(change: impl FnOnce(&mut HostedCluster)) -> HostedCluster {
        let mut cluster = cluster();
        change(&mut cluster);
        cluster
    }

    #[test]
    fn a_plain_cluster_gets_the_usual_names_and_ranges() {
        let blueprint = Blueprint::draw(&cluster(), &Config::default()).unwrap();
        assert_eq!(blueprint.namespace, "ocm-local-1-first");
        assert_eq!(blueprint.host, "api.first.pilothouse.test");
        assert_eq!(blueprint.first_service_address.to_string(), "172.31.0.1");
        assert_eq!(blueprint.pod_range, "10.132.0.0/14");
        assert_eq!(blueprint.storage_size, "8Gi");
    }

    #[rstest]
    #[case(|c: &mut HostedCluster| c.spec.dns.base_domain = "example.test".into(), "api.first.example.test")]
    #[case(|c: &mut HostedCluster| c.spec.dns.base_domain_prefix = Some("other".into()), "api.other.pilothouse.test")]
    #[case(|c: &mut HostedCluster| c.spec.dns.base_domain_prefix = Some(String::new()), "api.pilothouse.test")]
    #[case(|c: &mut HostedCluster| c.spec.services = vec![ServicePublishing {
        service: PublishedService::ApiServer,
        service_publishing_strategy: PublishingStrategy {
            type_: PublishingType::Route,
            route: Some(RoutePublishing { hostname: Some("my.example.test".into()) }),
            load_balancer: None,
            node_port: None,
        },
    }], "my.example.test")]
    fn the_host_is_the_one_asked_for(#[case] change: fn(&mut HostedCluster), #[case] host: &str) {
        assert_eq!(Blueprint::draw(&changed(change), &Config::default()).unwrap().host, host);
    }

    #[rstest]
    #[case(|c: &mut HostedCluster| c.spec.platform.type_ = PlatformType::Aws, "SupportedHostedCluster")]
    #[case(|c: &mut HostedCluster| c.spec.release.image = "pilothouse/release:4.99.0".into(), "ValidReleaseImage")]
    #[case(|c: &mut HostedCluster| c.spec.networking.service_network[0].cidr = "nonsense".into(), "ValidConfiguration")]
    #[case(|c: &mut HostedCluster| c.spec.networking.service_network[0].cidr = "172.31.0.1/16".into(), "ValidConfiguration")]
    #[case(|c: &mut HostedCluster| c.spec.networking.service_network[0].cidr = "10.133.0.0/16".into(), "ValidConfiguration")]
    #[case(|c: &mut HostedCluster| c.spec.networking.cluster_network.clear(), "ValidConfiguration")]
    #[case(|c: &mut HostedCluster| c.spec.etcd.management_type = EtcdManagementType::Unmanaged, "ValidConfiguration")]
    #[case(|c: &mut HostedCluster| c.spec.dns.base_domain = "a b".into(), "ValidConfiguration")]
    fn what_cannot_be_made_is_refused_by_the_right_condition(
        #[case] change: fn(&mut HostedCluster),
        #[case] condition: &str,
    ) {
        assert_eq!(Blueprint::draw(&changed(change), &Config::default()).unwrap_err().condition, condition);
    }

    #[test]
    fn pods_are_replaced_for_a_new_release_or_restart_and_for_nothing_else() {
        let hash =
            |cluster: &HostedCluster| Blueprint::draw(cluster, &Config::default()).unwrap().config_hash();
        let restart = |c: &mut HostedCluster| {
            c.metadata.annotations = Some([(names::RESTART_DATE.to_owned(), "now".to_owned())].into());
        };
        let before = hash(&cluster());
        assert_ne!(hash(&changed(|c| c.spec.release.image = "pilothouse/release:4.20.8".into())), before);
        assert_ne!(hash(&changed(restart)), before);
        assert_eq!(hash(&changed(|c| c.spec.pull_secret = Reference::to("other"))), before);
        assert_eq!(hash(&changed(|c| c.spec.dns.base_domain_prefix = Some("x".into()))), before);
    }
}
