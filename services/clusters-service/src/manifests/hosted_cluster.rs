//! The `HostedCluster`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use pilothouse_clusters_service_api::properties;
use pilothouse_crds::{
    AdvertisedAddress, AvailabilityPolicy, ClusterConfiguration, ClusterNetworkEntry, Dns, HostedCluster,
    HostedClusterSpec, ManifestConfig, Networking, Platform, PlatformType, PublishedService, Reference,
    Release, ResourceIdentifier, RoutePublishing, ServiceNetworkEntry, ServicePublishing,
};
use serde_json::{Value, json};

use super::{
    GENERATION_FEEDBACK, HOSTED_CLUSTER_CONDITIONS, Names, NotWritten, OBSERVED_GENERATION_FEEDBACK,
    Settings, VERSION_FEEDBACK, VERSION_STATE_FEEDBACK, authentication, condition_paths, config, identities,
    image_of, mark, metadata, path, settings,
};
use crate::record::ClusterRecord;

/// Which programs the control plane consists of.
const PAYLOAD_ANNOTATION: &str = "pilothouse.dev/payload";

pub(super) fn manifest(
    record: &ClusterRecord,
    general: &Settings,
    names: &Names,
) -> Result<Value, NotWritten> {
    let cluster = &record.cluster;
    let mut services = ServicePublishing::by_routes();
    for published in services.iter_mut().filter(|published| published.service == PublishedService::ApiServer)
    {
        published.service_publishing_strategy.route =
            Some(RoutePublishing { hostname: Some(api_host(record)) });
    }
    let mut spec = HostedClusterSpec {
        release: Release { image: release_image(record, general) },
        infra_id: Some(cluster.id.to_string()),
        platform: platform(record),
        controller_availability_policy: availability(record),
        infrastructure_availability_policy: availability(record),
        dns: Dns { base_domain: cluster.dns.base_domain.clone(), ..Dns::default() },
        networking: networking(record),
        services,
        pull_secret: Reference::to(names.pull_secret()),
        ssh_key: general.ssh_public_key.as_ref().map(|_| Reference::to(names.ssh_key())).unwrap_or_default(),
        issuer_url: "https://kubernetes.default.svc".to_owned(),
        other: settings::of_cluster(record, names),
        ..HostedClusterSpec::default()
    };
    if let Some(authentication) = authentication::authentication(record, names) {
        spec.configuration =
            Some(ClusterConfiguration { authentication: Some(authentication), ..Default::default() });
    }
    let mut hosted_cluster = HostedCluster::new(&names.hosted_cluster, spec);
    hosted_cluster.metadata = ObjectMeta {
        namespace: Some(names.namespace.clone()),
        ..metadata(&names.hosted_cluster, record, record.latest_origin())
    };
    mark::put(&mut hosted_cluster.metadata.annotations);
    if let Some(payload) = cluster.properties.get(properties::PAYLOAD) {
        let annotations = hosted_cluster.metadata.annotations.get_or_insert_default();
        annotations.insert(PAYLOAD_ANNOTATION.to_owned(), payload.clone());
    }
    serde_json::to_value(hosted_cluster)
}

/// Every part once, unless it was asked for otherwise.
fn availability(record: &ClusterRecord) -> AvailabilityPolicy {
    match record.cluster.properties.get(properties::SINGLE_REPLICA).map(String::as_str) {
        Some("false") => AvailabilityPolicy::HighlyAvailable,
        _ => AvailabilityPolicy::SingleReplica,
    }
}

/// Config maps in the namespace of a hosted cluster.
pub(super) fn config_maps(names: &Names) -> ResourceIdentifier {
    identifier("", "configmaps", "*", &names.namespace)
}

fn identifier(group: &str, resource: &str, name: &str, namespace: &str) -> ResourceIdentifier {
    ResourceIdentifier {
        group: group.to_owned(),
        resource: resource.to_owned(),
        name: name.to_owned(),
        namespace: namespace.to_owned(),
    }
}

/// How the work agent applies what is in the work, and what it feeds back of it.
pub(super) fn feedback(names: &Names) -> Vec<ManifestConfig> {
    let mut paths = condition_paths(&HOSTED_CLUSTER_CONDITIONS);
    paths.push(path("Endpoint-Host", ".status.controlPlaneEndpoint.host"));
    paths.push(path("Endpoint-Port", ".status.controlPlaneEndpoint.port"));
    paths.push(path(VERSION_FEEDBACK, ".status.version.history[0].version"));
    paths.push(path(VERSION_STATE_FEEDBACK, ".status.version.history[0].state"));
    paths.push(path(GENERATION_FEEDBACK, ".metadata.generation"));
    paths.push(path(OBSERVED_GENERATION_FEEDBACK, ".status.version.observedGeneration"));
    paths.push(mark::feedback());
    vec![
        config(identifier("", "namespaces", &names.namespace, ""), Vec::new()),
        config(identifier("", "secrets", "*", &names.namespace), Vec::new()),
        config(
            identifier("hypershift.openshift.io", "hostedclusters", &names.hosted_cluster, &names.namespace),
            paths,
        ),
    ]
}

pub(super) fn release_image(record: &ClusterRecord, settings: &Settings) -> String {
    // Admitted versions have a number.
    let number = record.cluster.version.number().unwrap_or_default();
    image_of(&settings.release_repository, number)
}

/// The cloud that the cluster's machines and addresses are in.
pub(super) fn platform(record: &ClusterRecord) -> Platform {
    let azure = &record.cluster.azure;
    let details = json!({
        "location": record.cluster.region.id,
        "subscriptionID": azure.subscription_id,
        "resourceGroup": azure.managed_resource_group_name,
        "subnetID": azure.subnet_resource_id,
        "securityGroupID": azure.network_security_group_resource_id,
        "topology": settings::topology(&record.cluster),
        "azureAuthenticationConfig": identities::of_cluster(record),
    });
    let details: serde_json::Map<String, Value> = match details {
        Value::Object(members) => members.into_iter().filter(|(_, value)| !value.is_null()).collect(),
        _ => serde_json::Map::new(),
    };
    Platform { type_: PlatformType::Azure, azure: Some(Value::Object(details)), ..Platform::default() }
}

fn api_host(record: &ClusterRecord) -> String {
    format!("api.{}.{}", record.cluster.domain_prefix, record.cluster.dns.base_domain)
}

fn networking(record: &ClusterRecord) -> Networking {
    let network = &record.cluster.network;
    let of_api_server = settings::of_api_server(&record.cluster);
    let range = |cidr: &Option<String>| -> Vec<ServiceNetworkEntry> {
        cidr.iter().map(|cidr| ServiceNetworkEntry { cidr: cidr.clone() }).collect()
    };
    Networking {
        cluster_network: network
            .pod_cidr
            .iter()
            .map(|cidr| ClusterNetworkEntry {
                cidr: cidr.clone(),
                host_prefix: network.host_prefix.map(i32::from),
            })
            .collect(),
        service_network: range(&network.service_cidr),
        machine_network: range(&network.machine_cidr),
        network_type: network.network_type.clone().unwrap_or_default(),
        api_server: (!of_api_server.is_empty())
            .then(|| AdvertisedAddress { other: of_api_server, ..AdvertisedAddress::default() }),
        ..Networking::default()
    }
}
