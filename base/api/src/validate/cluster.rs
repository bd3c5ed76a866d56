use super::cidr::Cidr;
use super::{immutable, platform, text};
use crate::hub;
use crate::invalid::Problems;
use crate::name::ClusterName;
use crate::release::{Minor, OLDEST};
use crate::version::Version;

/// Checks a cluster that is to be made, or to replace `existing`.
pub(crate) fn cluster(
    version: Version,
    cluster: &hub::Cluster,
    existing: Option<&hub::Cluster>,
    problems: &mut Problems,
) {
    let hub::Cluster { id, location: _, tags: _, system_data: _, identity: _, spec, status: _ } = cluster;
    if existing.is_none() && ClusterName::try_new(id.name()).is_none() {
        problems.invalid("id", id.name(), ClusterName::RULE);
    }
    let hub::ClusterSpec {
        version: profile,
        base_domain_prefix,
        network,
        api,
        ingress: _,
        platform: _,
        autoscaling,
        node_drain_timeout_minutes,
        etcd,
        image_registry: _,
        image_digest_mirrors,
        crypto_restrictions: _,
    } = spec;
    version_profile(profile, existing.map(|cluster| &cluster.spec.version), problems);
    if let Some(prefix) = base_domain_prefix {
        dns_prefix(prefix, problems);
    }
    network_ranges(network, problems);
    authorized_cidrs(api, problems);
    autoscaling_limits(autoscaling, problems);
    drain_timeout(*node_drain_timeout_minutes, problems);
    customer_key(version, etcd, problems);
    mirrors(image_digest_mirrors, problems);
    platform::cluster(version, cluster, problems);
    if let Some(existing) = existing {
        immutable::cluster(version, cluster, existing, problems);
    }
}

fn version_profile(
    version: &hub::VersionProfile,
    existing: Option<&hub::VersionProfile>,
    problems: &mut Problems,
) {
    channel_group(&version.channel_group, problems);
    let target = "properties.version.id";
    let Some(id) = &version.id else { return };
    let Ok(minor) = id.parse::<Minor>() else {
        return problems.invalid(target, id, "must be a minor version, such as 4.20");
    };
    if minor < OLDEST {
        return problems.invalid(target, id, format_args!("must be at least {OLDEST}"));
    }
    if minor.major >= 5 {
        return problems.invalid(target, id, "must be a version of OpenShift 4");
    }
    let before = existing.and_then(|version| version.id.as_ref()?.parse::<Minor>().ok());
    if let Some(before) = before {
        if minor < before {
            problems.invalid(target, id, format_args!("must not be older than {before}, which it is now"));
        } else if minor.minor > before.minor + 1 {
            problems.invalid(target, id, format_args!("must not skip a minor version; it is {before} now"));
        }
    }
}

pub(super) fn channel_group(group: &str, problems: &mut Problems) {
    const GROUPS: [&str; 2] = ["fast", "stable"];
    if !GROUPS.contains(&group) {
        problems.unsupported("properties.version.channelGroup", group, &GROUPS);
    }
}

fn dns_prefix(prefix: &str, problems: &mut Problems) {
    let target = "properties.dns.baseDomainPrefix";
    if prefix.len() > 15 {
        problems.too_long(target, 15);
    } else if !text::is_dns_prefix(prefix) {
        problems.invalid(
            target,
            prefix,
            "must begin with a letter, consist of lower-case letters, digits and '-', and not end with '-'",
        );
    }
}

fn network_ranges(network: &hub::Network, problems: &mut Problems) {
    let hub::Network { network_type: _, pod_cidr, service_cidr, machine_cidr, host_prefix } = network;
    let mut ranges: Vec<(&str, Cidr)> = Vec::new();
    for (name, text) in [("machineCidr", machine_cidr), ("serviceCidr", service_cidr), ("podCidr", pod_cidr)]
    {
        let target = format!("properties.network.{name}");
        match Cidr::parse(text) {
            None => {
                problems.invalid(target, text, "must be an IPv4 range in network form, such as 10.128.0.0/14")
            }
            Some(range) => {
                for (other, _) in ranges.iter().filter(|(_, other)| other.overlaps(range)) {
                    problems.invalid(&target, text, format_args!("must not overlap with {other}"));
                }
                ranges.push((name, range));
            }
        }
    }
    if !(23..=26).contains(host_prefix) {
        problems.invalid("properties.network.hostPrefix", host_prefix, "must be between 23 and 26");
    }
}

fn authorized_cidrs(api: &hub::Api, problems: &mut Problems) {
    let target = "properties.api.authorizedCidrs";
    let Some(cidrs) = &api.authorized_cidrs else { return };
    if cidrs.is_empty() {
        problems.invalid(target, cidrs, "must have at least one item; leave it out to allow all");
    }
    if cidrs.len() > 500 {
        problems.too_many(target, cidrs.len(), 500);
    }
    for (index, text) in cidrs.iter().enumerate() {
        if Cidr::parse(text).is_none() && text.parse::<std::net::Ipv4Addr>().is_err() {
            problems.invalid(format!("{target}[{index}]"), text, "must be an IPv4 address or range");
        }
    }
}

fn autoscaling_limits(autoscaling: &hub::Autoscaling, problems: &mut Problems) {
    let hub::Autoscaling {
        max_nodes_total,
        max_pod_grace_period_seconds,
        max_node_provision_time_seconds,
        pod_priority_threshold: _,
    } = autoscaling;
    let path = "properties.autoscaling";
    if !(0..=500).contains(max_nodes_total) {
        problems.invalid(format!("{path}.maxNodesTotal"), max_nodes_total, "must be between 0 and 500");
    }
    for (name, value) in [
        ("maxPodGracePeriodSeconds", max_pod_grace_period_seconds),
        ("maxNodeProvisionTimeSeconds", max_node_provision_time_seconds),
    ] {
        if *value < 1 {
            problems.invalid(format!("{path}.{name}"), value, "must be at least 1");
        }
    }
}

pub(super) fn drain_timeout(minutes: i32, problems: &mut Problems) {
    if !(0..=10080).contains(&minutes) {
        problems.invalid("properties.nodeDrainTimeoutMinutes", minutes, "must be between 0 and 10080");
    }
}

fn customer_key(version: Version, etcd: &hub::Etcd, problems: &mut Problems) {
    let Some(key) = &etcd.customer_key else { return };
    let hub::CustomerKey {
        encryption_type: _,
        vault_type: _,
        vault_name,
        visibility: _,
        name,
        version: number,
    } = key;
    let path = "properties.etcd.dataEncryption.customerManaged.kms";
    let vault = match version {
        Version::V20240610Preview => "activeKey.vaultName",
        Version::V20261001 => "vaultName",
    };
    for (field, value) in [(vault, vault_name), ("activeKey.name", name), ("activeKey.version", number)] {
        let target = format!("{path}.{field}");
        if value.len() > 255 {
            problems.too_long(target, 255);
        } else if value.is_empty() && !problems.is_known(&target) {
            problems.required(target);
        }
    }
}

fn mirrors(mirrors: &[hub::ImageDigestMirror], problems: &mut Problems) {
    let path = "properties.imageDigestMirrors";
    if mirrors.len() > 240 {
        problems.too_many(path, mirrors.len(), 240);
    }
    for (index, hub::ImageDigestMirror { source, mirrors }) in mirrors.iter().enumerate() {
        let path = format!("{path}[{index}]");
        registry(&format!("{path}.source"), source, true, problems);
        if mirrors.len() > 255 {
            problems.too_many(format!("{path}.mirrors"), mirrors.len(), 255);
        }
        if mirrors.is_empty() && !problems.is_known(&format!("{path}.mirrors")) {
            problems.required(format!("{path}.mirrors"));
        }
        for (index, mirror) in mirrors.iter().enumerate() {
            registry(&format!("{path}.mirrors[{index}]"), mirror, false, problems);
        }
    }
}

fn registry(target: &str, name: &str, pattern: bool, problems: &mut Problems) {
    if name.len() > 255 {
        problems.too_long(target, 255);
    } else if !problems.is_known(target) && !text::is_registry(name, pattern) {
        problems.invalid(
            target,
            name,
            "must be a registry: host[:port][/path] in lower case, without a scheme",
        );
    }
}
