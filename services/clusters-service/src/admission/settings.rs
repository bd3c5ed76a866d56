//! Settings of clusters that may be given and, most of them, changed.

use std::collections::BTreeMap;
use std::net::IpAddr;

use pilothouse_clusters_service_api::{
    AllowMode, Autoscaler, CidrBlockAccess, GracePeriod, NewCluster, RegistryConfig, properties,
};

use crate::refusal::Refusal;

/// More than a week is no limit any more.
const LONGEST_DRAIN: u32 = 10_080;
const SINGLE_REPLICA_FIELD: &str = "properties.hosted_cluster_single_replica";

/// What a new cluster says of all of them.
pub(super) fn check(new: &NewCluster) -> Result<(), Refusal> {
    if new.fips == Some(true) {
        let problem =
            "the payload `light` uses cryptography that was not validated; leave it out, or say `false`";
        return Err(Refusal::not_yet("fips", problem));
    }
    payload(&new.properties)?;
    availability(&new.properties)?;
    drain(new.node_drain_grace_period.as_ref())?;
    access(new.api.cidr_block_access.as_ref())?;
    mirrors(new.registry_config.as_ref())?;
    autoscaler(new.autoscaler.as_ref())
}

fn payload(properties: &BTreeMap<String, String>) -> Result<(), Refusal> {
    match properties.get(properties::PAYLOAD).map(String::as_str) {
        None | Some("light" | "upstream") => Ok(()),
        Some(other) => {
            let problem = format!("`{other}` is no payload; there are `light` and `upstream`");
            Err(Refusal::field("properties.payload", problem))
        }
    }
}

fn availability(properties: &BTreeMap<String, String>) -> Result<(), Refusal> {
    match properties.get(properties::SINGLE_REPLICA).map(String::as_str) {
        None | Some("true" | "false") => Ok(()),
        Some(other) => {
            let problem = format!("`{other}` is neither `true` nor `false`");
            Err(Refusal::field(SINGLE_REPLICA_FIELD, problem))
        }
    }
}

/// What one payload keeps, the other cannot read; nor can members be added to what was made to be one.
pub(super) fn same_choices(
    before: &BTreeMap<String, String>,
    update: &BTreeMap<String, String>,
) -> Result<(), Refusal> {
    let choices =
        [(properties::PAYLOAD, "properties.payload"), (properties::SINGLE_REPLICA, SINGLE_REPLICA_FIELD)];
    for (name, field) in choices {
        let (running, asked) = (before.get(name), update.get(name));
        if asked.is_some() && asked != running {
            return Err(Refusal::field(field, "it is chosen when a cluster is made; make another one"));
        }
    }
    Ok(())
}

pub(super) fn drain(period: Option<&GracePeriod>) -> Result<(), Refusal> {
    let Some(period) = period else { return Ok(()) };
    if period.unit != "minutes" {
        return Err(Refusal::field("node_drain_grace_period.unit", "it must be `minutes`"));
    }
    if period.value > LONGEST_DRAIN {
        let problem = format!("at most {LONGEST_DRAIN} minutes are possible; 0 is no limit");
        return Err(Refusal::field("node_drain_grace_period.value", problem));
    }
    Ok(())
}

pub(super) fn access(access: Option<&CidrBlockAccess>) -> Result<(), Refusal> {
    let Some(access) = access else { return Ok(()) };
    const FIELD: &str = "api.cidr_block_access.allow.values";
    let values = &access.allow.values;
    if access.allow.mode == AllowMode::AllowList && values.is_empty() {
        return Err(Refusal::field(FIELD, "nobody could reach the API; name a range, or allow all"));
    }
    match values.iter().find(|value| !is_range(value)) {
        Some(value) => Err(Refusal::field(FIELD, format!("`{value}` is neither an address nor a range"))),
        None => Ok(()),
    }
}

/// `203.0.113.7` or `203.0.113.0/24`.
fn is_range(text: &str) -> bool {
    let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
    match (address.parse::<IpAddr>(), bits.map(str::parse::<u8>)) {
        (Ok(_), None) => true,
        (Ok(address), Some(Ok(bits))) => bits <= if address.is_ipv4() { 32 } else { 128 },
        _ => false,
    }
}

pub(super) fn mirrors(config: Option<&RegistryConfig>) -> Result<(), Refusal> {
    let mut mirrors = config.iter().flat_map(|config| &config.image_digest_mirrors);
    match mirrors.find(|mirror| mirror.source.is_empty() || mirror.mirrors.is_empty()) {
        Some(mirror) => {
            let problem = format!("source `{}` needs a name and at least one mirror", mirror.source);
            Err(Refusal::field("registry_config.image_digest_mirrors", problem))
        }
        None => Ok(()),
    }
}

pub(super) fn autoscaler(autoscaler: Option<&Autoscaler>) -> Result<(), Refusal> {
    let Some(autoscaler) = autoscaler else { return Ok(()) };
    if let Some(time) = &autoscaler.max_node_provision_time
        && !is_duration(time)
    {
        let problem = format!("`{time}` is not a time such as `15m` or `900s`");
        return Err(Refusal::field("autoscaler.max_node_provision_time", problem));
    }
    if autoscaler.max_pod_grace_period.is_some_and(|seconds| seconds < 0) {
        return Err(Refusal::field("autoscaler.max_pod_grace_period", "it cannot be negative"));
    }
    Ok(())
}

/// Numbers, each with its unit.
fn is_duration(text: &str) -> bool {
    let units = |character| matches!(character, 'h' | 'm' | 's');
    let parts: Vec<_> = text.split_inclusive(units).collect();
    !parts.is_empty()
        && parts
            .iter()
            .all(|part| part.strip_suffix(units).is_some_and(|number| number.parse::<u32>().is_ok()))
}
