//! New node pools and their changes.

use jiff::Timestamp;
use pilothouse_clusters_service_api::{
    Autoscaling, Cluster, ManagementUpgrade, NewNodePool, NodePool, NodePoolState, NodePoolStateValue,
    NodePoolStatus, NodePoolUpdate, Taint, Version,
};

use super::{LARGEST_SKEW, numbers, served, settings};
use crate::config::Config;
use crate::refusal::Refusal;

/// More machines than one pool may have; as in ARM's own limit.
const MOST_REPLICAS: u32 = 500;

/// Checks a new node pool of a cluster and fills in what was left out.
pub(crate) fn node_pool(
    new: NewNodePool,
    cluster: &Cluster,
    config: &Config,
    now: Timestamp,
) -> Result<NodePool, Refusal> {
    size(new.replicas, new.autoscaling)?;
    known_effects(&new.taints)?;
    settings::drain(new.node_drain_grace_period.as_ref())?;
    possible(&new)?;
    let NewNodePool { id, replicas, autoscaling, auto_repair, version, labels, taints, .. } = new;
    let NewNodePool { availability_zone, subnet, node_drain_grace_period, management_upgrade, .. } = new;
    let NewNodePool { tuning_configs, kubelet_configs, properties, azure_node_pool, .. } = new;
    Ok(NodePool {
        kind: "NodePool".to_owned(),
        href: format!("{}/node_pools/{id}", cluster.href),
        id,
        cluster_id: cluster.id.clone(),
        creation_timestamp: now,
        replicas: replicas.or_else(|| autoscaling.is_none().then_some(0)),
        autoscaling,
        auto_repair,
        version: fitting(version.unwrap_or_else(|| cluster.version.clone()), &cluster.version, config)?,
        labels,
        taints,
        availability_zone,
        subnet,
        node_drain_grace_period,
        tuning_configs,
        kubelet_configs,
        management_upgrade,
        properties,
        azure_node_pool,
        status: NodePoolStatus {
            state: NodePoolState { value: NodePoolStateValue::Validating, last_updated_timestamp: now },
            current_replicas: 0,
            message: "accepted".to_owned(),
        },
    })
}

/// Checks a change of a node pool, and fills in what was left out of it.
pub(crate) fn node_pool_update(
    mut update: NodePoolUpdate,
    cluster: &Cluster,
    config: &Config,
) -> Result<NodePoolUpdate, Refusal> {
    size(update.replicas, update.autoscaling)?;
    known_effects(update.taints.as_deref().unwrap_or_default())?;
    settings::drain(update.node_drain_grace_period.iter().flatten().next())?;
    if let Some(version) = update.version.take() {
        update.version = Some(fitting(version, &cluster.version, config)?);
    }
    Ok(update)
}

/// A version that nodes of this control plane can run: not newer, and not too old.
pub(super) fn fitting(version: Version, limit: &Version, config: &Config) -> Result<Version, Refusal> {
    let version = served(version, config)?;
    if numbers(&version) > numbers(limit) {
        let problem = format!("`{}` is newer than its cluster's `{}`", version.id, limit.id);
        return Err(Refusal::field("version.id", problem));
    }
    let minor = |version: &Version| numbers(version).and_then(|numbers| numbers.get(1).copied());
    if minor(&version).map(|minor| minor + LARGEST_SKEW) < minor(limit) {
        let problem = format!(
            "`{}` is more than {LARGEST_SKEW} minor versions older than its cluster's `{}`",
            version.id, limit.id
        );
        return Err(Refusal::field("version.id", problem));
    }
    Ok(version)
}

fn size(replicas: Option<u32>, autoscaling: Option<Autoscaling>) -> Result<(), Refusal> {
    if replicas.unwrap_or_default() > MOST_REPLICAS {
        return Err(Refusal::field("replicas", format!("at most {MOST_REPLICAS} nodes are possible")));
    }
    let Some(Autoscaling { min_replica, max_replica }) = autoscaling else { return Ok(()) };
    if replicas.is_some() {
        let problem = "the number of nodes is either said in `replicas` or left to scaling";
        return Err(Refusal::field("autoscaling", problem));
    }
    if max_replica > MOST_REPLICAS || max_replica == 0 {
        let problem = format!("it must be between 1 and {MOST_REPLICAS}");
        return Err(Refusal::field("autoscaling.max_replica", problem));
    }
    if min_replica > max_replica {
        return Err(Refusal::field("autoscaling.min_replica", "it is more than `max_replica`"));
    }
    Ok(())
}

fn known_effects(taints: &[Taint]) -> Result<(), Refusal> {
    let known =
        |taint: &&Taint| matches!(taint.effect.as_str(), "NoSchedule" | "PreferNoSchedule" | "NoExecute");
    match taints.iter().find(|taint| !known(taint)) {
        None => Ok(()),
        Some(taint) => {
            let problem = format!("`{}` is not one of NoSchedule, PreferNoSchedule, NoExecute", taint.effect);
            Err(Refusal::field("taints.effect", problem))
        }
    }
}

/// What nobody below would act on.
fn possible(new: &NewNodePool) -> Result<(), Refusal> {
    if !new.tuning_configs.is_empty() {
        return Err(Refusal::not_yet("tuning_configs", "nodes are not tuned; leave it out"));
    }
    if !new.kubelet_configs.is_empty() {
        return Err(Refusal::not_yet("kubelet_configs", "kubelets have no settings; leave it out"));
    }
    let ManagementUpgrade { upgrade_type, max_unavailable, max_surge } =
        new.management_upgrade.clone().unwrap_or_default();
    if upgrade_type.is_some_and(|found| found != "Replace")
        || max_unavailable.is_some()
        || max_surge.is_some()
    {
        let problem = "nodes are replaced one at a time; leave it out, or say only `\"type\": \"Replace\"`";
        return Err(Refusal::not_yet("management_upgrade", problem));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::tests::admitted;
    use super::*;

    fn pool(change: impl FnOnce(&mut NewNodePool)) -> Result<NodePool, Refusal> {
        let cluster = admitted(|_| {}).unwrap();
        let mut new = NewNodePool { replicas: Some(1), ..NewNodePool::new("workers".parse().unwrap()) };
        change(&mut new);
        node_pool(new, &cluster, &Config::default(), Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn node_pools_have_their_clusters_version_or_an_older_one() {
        let of = |version: Option<&str>| pool(|new| new.version = version.map(Version::of_number));
        assert_eq!(of(None).unwrap().version.number(), Some("4.20.3"));
        assert_eq!(of(Some("4.20.1")).unwrap().version.number(), Some("4.20.1"));
        assert_eq!(of(Some("4.18")).unwrap().version.number(), Some("4.18.0"));
        assert!(of(Some("4.20.10")).unwrap_err().to_string().contains("is newer than its cluster's"));
        assert!(of(Some("4.17.0")).unwrap_err().to_string().contains("more than 2 minor versions older"));
    }

    #[test]
    fn what_could_not_work_is_refused_with_its_field_when_it_is_made_and_when_it_is_changed() {
        let both: [(&str, Value); 6] = [
            ("replicas", json!({"replicas": 501})),
            ("autoscaling", json!({"replicas": 1, "autoscaling": {"min_replica": 1, "max_replica": 2}})),
            ("autoscaling.min_replica", json!({"autoscaling": {"min_replica": 3, "max_replica": 2}})),
            ("autoscaling.max_replica", json!({"autoscaling": {"min_replica": 0, "max_replica": 0}})),
            ("taints.effect", json!({"taints": [{"key": "a", "effect": "Never"}]})),
            ("node_drain_grace_period.value", json!({"node_drain_grace_period": {"value": 10_081}})),
        ];
        let cluster = admitted(|_| {}).unwrap();
        for (field, mut body) in both {
            let update = serde_json::from_value(body.clone()).unwrap();
            let refusal = node_pool_update(update, &cluster, &Config::default()).unwrap_err().to_string();
            assert!(refusal.starts_with(&format!("field `{field}`")), "{refusal}");
            body["id"] = json!("workers");
            let new = serde_json::from_value(body).unwrap();
            let refusal = node_pool(new, &cluster, &Config::default(), Timestamp::UNIX_EPOCH).unwrap_err();
            assert!(refusal.to_string().starts_with(&format!("field `{field}`")), "{refusal}");
        }
        type Change = fn(&mut NewNodePool);
        for (field, change) in [
            ("tuning_configs", (|new| new.tuning_configs.push("t".into())) as Change),
            ("kubelet_configs", |new| new.kubelet_configs.push("k".into())),
            ("management_upgrade", |new| {
                let max_surge = Some("1".into());
                new.management_upgrade =
                    Some(ManagementUpgrade { max_surge, ..ManagementUpgrade::default() });
            }),
        ] {
            let refusal = pool(change).unwrap_err().to_string();
            assert!(refusal.starts_with(&format!("field `{field}` is not possible yet")), "{refusal}");
        }
    }
}
