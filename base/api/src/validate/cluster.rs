use super::cidr::Cidr;
use super::{platform, release, tags, text};
use crate::hub;
use crate::invalid::Problems;
use crate::name::ClusterName;
use crate::release::Minor;
use crate::version::{Target, Version};

/// What a request need not say though the form asks for it: the identities of operators in a region that does not need
/// them, and what an older version let a cluster be made without.
pub(crate) fn excused(target: &Target<'_, hub::Cluster>) -> Vec<&'static str> {
    let mut excused = Vec::new();
    if !target.rules.operator_identities {
        excused.push("properties.platform.operatorsAuthentication");
    }
    if let Some(existing) = target.existing {
        if existing.spec.platform.vnet_integration_subnet_id.is_none() {
            excused.push("properties.platform.vnetIntegrationSubnetId");
        }
        if existing.spec.version.id.is_none() {
            excused.extend(["properties.version", "properties.version.id"]);
        }
    }
    excused
}

/// The same of a node pool: one that is there keeps the version it has.
pub(crate) fn excused_node_pool(target: &Target<'_, hub::NodePool>) -> &'static [&'static str] {
    if target.existing.is_some() { &["properties.version", "properties.version.id"] } else { &[] }
}

/// Checks a cluster that is to be made, or to replace what is there.
pub(crate) fn cluster(
    version: Version,
    cluster: &hub::Cluster,
    target: &Target<'_, hub::Cluster>,
    problems: &mut Problems,
) {
    let Target { existing, rules, .. } = target;
    if existing.is_none() && ClusterName::try_new(cluster.id.name()).is_none() {
        problems.invalid("id", cluster.id.name(), ClusterName::RULE);
    }
    let group = cluster.id.resource_group_name().unwrap_or_default();
    if existing.is_none() && !text::is_resource_group(group) {
        problems.invalid(
            "id",
            group,
            "must be a resource group: up to 90 letters, digits and '_-.()', without a dot at the end",
        );
    }
    tags::check(&cluster.tags, problems);
    tags::check_experimental(&cluster.tags, *rules, problems);
    tags::check_choices(&cluster.tags, existing.map(|existing| &existing.tags), problems);
    let hub::ClusterSpec {
        version: profile,
        network,
        api,
        image_digest_mirrors,
        etcd,
        // In the platform's part.
        platform: _,
        // Whatever has the right form is right.
        base_domain_prefix: _,
        ingress: _,
        autoscaling: _,
        node_drain_timeout_minutes: _,
        image_registry: _,
        crypto_restrictions: _,
    } = &cluster.spec;
    release::channel_group(&profile.channel_group, *rules, problems);
    release::of_cluster(profile, *existing, *rules, problems);
    network_ranges(network, problems);
    authorized_cidrs(api, problems);
    mirrors(image_digest_mirrors, problems);
    platform::cluster(version, cluster, *rules, problems);
    if let Some(existing) = existing {
        key_version(etcd, existing, problems);
    }
}

fn network_ranges(network: &hub::Network, problems: &mut Problems) {
    let hub::Network { network_type: _, pod_cidr, service_cidr, machine_cidr, host_prefix: _ } = network;
    let mut ranges: Vec<(&str, Cidr)> = Vec::new();
    for (name, text) in [("machineCidr", machine_cidr), ("serviceCidr", service_cidr), ("podCidr", pod_cidr)]
    {
        let target = format!("properties.network.{name}");
        match Cidr::parse(text) {
            None => {
                problems.invalid(
                    target,
                    text,
                    "must be an IPv4 range in network form, such as 10.128.0.0/14",
                );
            }
            Some(range) => {
                for (other, _) in ranges.iter().filter(|(_, other)| other.overlaps(range)) {
                    problems.invalid(&target, text, format_args!("must not overlap with {other}"));
                }
                ranges.push((name, range));
            }
        }
    }
}

fn authorized_cidrs(api: &hub::Api, problems: &mut Problems) {
    for (index, text) in api.authorized_cidrs.iter().flatten().enumerate() {
        if Cidr::parse(text).is_none() && text.parse::<std::net::Ipv4Addr>().is_err() {
            let target = format!("properties.api.authorizedCidrs[{index}]");
            problems.invalid(target, text, "must be an IPv4 address or a range in network form");
        }
    }
}

/// The first minor whose control plane takes another version of the key.
const ROTATES_KEYS: Minor = Minor { major: 4, minor: 22 };

/// The form says in which versions of the contract a key may be changed; here, in which versions of OpenShift.
fn key_version(etcd: &hub::Etcd, existing: &hub::Cluster, problems: &mut Problems) {
    let (Some(new), Some(old)) = (&etcd.customer_key, &existing.spec.etcd.customer_key) else { return };
    let target = "properties.etcd.dataEncryption.customerManaged.kms.activeKey.version";
    if new.version != old.version
        && !problems.is_known(target)
        && release::control_plane(existing).is_none_or(|(lowest, _)| lowest < ROTATES_KEYS)
    {
        let why = format!("may only be changed when the control plane runs {ROTATES_KEYS} or later");
        problems.forbidden(target, why);
    }
}

fn mirrors(mirrors: &[hub::ImageDigestMirror], problems: &mut Problems) {
    for (index, hub::ImageDigestMirror { source, mirrors }) in mirrors.iter().enumerate() {
        let path = format!("properties.imageDigestMirrors[{index}]");
        registry(&format!("{path}.source"), source, true, problems);
        for (index, mirror) in mirrors.iter().enumerate() {
            registry(&format!("{path}.mirrors[{index}]"), mirror, false, problems);
        }
    }
}

fn registry(target: &str, name: &str, pattern: bool, problems: &mut Problems) {
    if !text::is_registry(name, pattern) {
        problems.invalid(
            target,
            name,
            "must be a registry: host[:port][/path] in lower case, without a scheme",
        );
    }
}
