//! Clusters.

use pilothouse_api::{FieldError, Invalid, Minor, Release, Target, hub};
use pilothouse_arm::{CloudError, OperationId, ProvisioningState, ResourceId};
use pilothouse_clusters_service_api::ClusterId;
use pilothouse_records::{Change, Cluster, Error, Listed, Operation, Records, Reservation, Stored};
use serde_json::Value;
use uuid::Uuid;

use crate::accept;
use crate::answer::Refusal;
use crate::ask::{self, Environment, Work};
use crate::call::Call;
use crate::kind::Kind;
use crate::page::Part;
use crate::service::App;

/// `hcpOpenShiftClusters`.
#[derive(Debug)]
pub(crate) struct Clusters;

impl Kind for Clusters {
    type Hub = hub::Cluster;
    type Record = Cluster;
    const IS_CHILD: bool = false;
    const IS_ONLY_CHILD: bool = false;

    async fn get(records: &Records, id: &ResourceId) -> Result<Option<Stored<Cluster>>, Error> {
        records.cluster_get(id).await
    }

    async fn list(
        records: &Records,
        call: &Call,
        above: &ResourceId,
        part: &Part,
    ) -> Result<Listed<Cluster>, Error> {
        let group = above.resource_group_name();
        records.cluster_list(call.subscription, group, part.limit, part.token.as_deref()).await
    }

    fn show(call: &Call, resource: &hub::Cluster) -> Value {
        call.version.cluster_write(resource)
    }

    fn put(
        call: &Call,
        body: &[u8],
        target: &Target<'_, hub::Cluster>,
        _: Option<&Cluster>,
    ) -> Result<hub::Cluster, Invalid> {
        call.version.cluster_put(body, target)
    }

    fn patch(
        call: &Call,
        body: &[u8],
        target: &Target<'_, hub::Cluster>,
        _: Option<&Cluster>,
    ) -> Result<hub::Cluster, Invalid> {
        call.version.cluster_patch(body, target)
    }

    async fn admit(
        app: &App,
        call: &Call,
        _: Option<&Cluster>,
        wanted: &mut hub::Cluster,
    ) -> Result<Vec<Reservation>, Refusal> {
        let platform = &mut wanted.spec.platform;
        if platform.managed_resource_group.is_none() {
            platform.managed_resource_group = Some(managed_resource_group(wanted.id.name()));
        }
        let fields = reserved(platform);
        taken(app, call, &wanted.id, &fields).await?;
        Ok(fields.into_iter().map(|(_, reservation)| reservation).collect())
    }

    async fn ask_to_create(
        app: &App,
        call: &Call,
        _: Option<&Cluster>,
        wanted: &hub::Cluster,
        operation: OperationId,
    ) -> Result<Value, Refusal> {
        let identity_url = call.identity_url(app.config.identity_url.as_deref())?;
        would_be_made(app, call, wanted, operation, identity_url.as_deref()).await
    }

    async fn ask_to_update(
        app: &App,
        call: &Call,
        _: Option<&Cluster>,
        stored: &Cluster,
        wanted: &hub::Cluster,
        operation: OperationId,
    ) -> Result<Option<Value>, Refusal> {
        let last = &stored.resource;
        if last.spec.version != wanted.spec.version {
            node_pools_keep_up(app, wanted).await?;
        }
        // What did not come to be is asked for again, even if it is the same.
        let done = last.status.provisioning_state == ProvisioningState::Succeeded;
        let work = Work { operation, correlation_id: &call.correlation_id };
        let mut ask = ask::cluster_update(work, done.then_some(&last.spec), &wanted.spec);
        if !done && runs(&last.status.active_versions, &wanted.spec.version) {
            ask.version = None;
        }
        if ask.is_empty() {
            return Ok(None);
        }
        let Some(id) = clusters_service_id(stored) else { return Err(never_made(&wanted.id)) };
        match ask::in_time(app.clusters_service.cluster_update_preflight(&call.context, &id, &ask)).await {
            Ok(_) => Ok(Some(accept::kept(&ask))),
            Err(error) if error.is_not_found() => Err(never_made(&wanted.id)),
            Err(error) => Err(error.into()),
        }
    }

    async fn admit_deletion(_: &App, _: Option<&Cluster>, _: &Cluster) -> Result<(), Refusal> {
        Ok(())
    }

    fn record(
        app: &App,
        call: &Call,
        resource: hub::Cluster,
        operation: OperationId,
        reservations: &[Reservation],
    ) -> Result<Cluster, Refusal> {
        Ok(Cluster {
            identity_url: call.identity_url(app.config.identity_url.as_deref())?,
            reservations: reservations.iter().cloned().collect(),
            ..Cluster::new(resource, operation)
        })
    }

    fn stage_create(change: &mut Change<'_>, record: &Cluster) -> Result<(), Error> {
        change.cluster_create(record).map(drop)
    }

    fn stage_replace(change: &mut Change<'_>, stored: &Stored<Cluster>) -> Result<(), Error> {
        change.cluster_replace(stored).map(drop)
    }

    /// Everything below the cluster goes by the cluster's own operation.
    async fn stage_deletion_below(
        app: &App,
        change: &mut Change<'_>,
        id: &ResourceId,
        operation: &Operation,
    ) -> Result<(), Refusal> {
        for mut node_pool in app.records.node_pool_all(id).await? {
            node_pool.resource.status.provisioning_state = ProvisioningState::Deleting;
            node_pool.active_operation = Some(operation.id);
            change.node_pool_replace(&node_pool)?;
        }
        for mut external_auth in app.records.external_auth_all(id).await? {
            external_auth.resource.status.provisioning_state = ProvisioningState::Deleting;
            external_auth.active_operation = Some(operation.id);
            change.external_auth_replace(&external_auth)?;
        }
        Ok(())
    }
}

/// Asks Clusters Service whether it would make a cluster. The answer is what it was asked.
pub(crate) async fn would_be_made(
    app: &App,
    call: &Call,
    wanted: &hub::Cluster,
    operation: OperationId,
    identity_url: Option<&str>,
) -> Result<Value, Refusal> {
    let within = Environment { tenant_id: call.tenant_id.as_deref(), identity_url };
    let work = Work { operation, correlation_id: &call.correlation_id };
    let ask = ask::cluster_new(work, within, wanted);
    ask::in_time(app.clusters_service.cluster_preflight(&call.context, &ask)).await?;
    Ok(accept::kept(&ask))
}

/// The id of a cluster at Clusters Service, once it has one.
pub(crate) fn clusters_service_id(cluster: &Cluster) -> Option<ClusterId> {
    cluster.clusters_service_id.as_ref()?.parse().ok()
}

/// Clusters Service does not know what is to be changed.
pub(crate) fn never_made(id: &ResourceId) -> Refusal {
    let message = "Cannot change resource because it was never made; delete it and make it anew";
    CloudError::conflict(id, message).into()
}

/// What a cluster reserves, by the fields that say so.
fn reserved(platform: &hub::Platform) -> Vec<(&'static str, Reservation)> {
    let group = platform.managed_resource_group.as_deref().map(Reservation::managed_resource_group);
    let subnet = platform.subnet_id.as_ref().map(Reservation::subnet);
    let security_group = platform.network_security_group_id.as_ref().map(Reservation::security_group);
    [
        ("properties.platform.managedResourceGroup", group),
        ("properties.platform.subnetId", subnet),
        ("properties.platform.networkSecurityGroupId", security_group),
    ]
    .into_iter()
    .filter_map(|(field, reservation)| Some((field, reservation?)))
    .collect()
}

/// Refuses what another cluster of the subscription has reserved.
pub(crate) async fn taken(
    app: &App,
    call: &Call,
    cluster: &ResourceId,
    fields: &[(&'static str, Reservation)],
) -> Result<(), Refusal> {
    let mut problems = Vec::new();
    for (field, reservation) in fields {
        let holder = app.records.reservation_holder(call.subscription, reservation).await?;
        if let Some(holder) = holder.filter(|holder| holder != cluster) {
            let message = format!("Forbidden: it is in use by cluster '{holder}'");
            problems.push(FieldError { target: (*field).to_owned(), message });
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(Invalid(problems).into()) }
}

/// The name of the group for a cluster's cloud resources, if its owner has none. At most 90 characters, as all groups.
fn managed_resource_group(cluster: &str) -> String {
    let name: String = cluster.chars().take(45).collect();
    format!("aro-hcp-{name}-{}", Uuid::new_v4())
}

fn minor(version: &str) -> Option<Minor> {
    let of_release = || version.parse::<Release>().ok().map(|release| release.minor);
    version.parse().ok().or_else(of_release)
}

/// Whether one of the versions that a control plane runs is the one that is wanted.
fn runs(active: &[String], wanted: &hub::VersionProfile) -> bool {
    let wanted = wanted.id.as_deref().and_then(minor);
    wanted.is_none() || active.iter().any(|version| minor(version) == wanted)
}

/// Nodes may be two minors behind their control plane, and no more.
async fn node_pools_keep_up(app: &App, wanted: &hub::Cluster) -> Result<(), Refusal> {
    const FARTHEST: u32 = 2;
    let Some(wanted_minor) = wanted.spec.version.id.as_deref().and_then(minor) else { return Ok(()) };
    for pool in app.records.node_pool_all(&wanted.id).await? {
        let pool = &pool.resource;
        let versions = pool.status.active_versions.iter().chain(&pool.spec.version.id);
        let behind = |version: Minor| {
            version.major == wanted_minor.major && version.minor + FARTHEST < wanted_minor.minor
        };
        if let Some(version) = versions.filter_map(|version| minor(version)).find(|version| behind(*version))
        {
            let message = format!(
                "Invalid value: \"{wanted_minor}\": node pool '{}' is at {version}, more than {FARTHEST} minors behind; \
                 upgrade it first",
                pool.id.name()
            );
            return Err(
                Invalid(vec![FieldError { target: "properties.version.id".to_owned(), message }]).into()
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_named_for_its_cluster_and_fits() {
        let name = managed_resource_group(&"x".repeat(54));
        assert_eq!((name.len(), &name[..9]), (90, "aro-hcp-x"));
        assert_ne!(managed_resource_group("a"), managed_resource_group("a"));
    }

    #[test]
    fn a_control_plane_runs_what_is_wanted_when_the_minor_is_the_same() {
        let wanted = |id: Option<&str>| hub::VersionProfile {
            id: id.map(str::to_owned),
            ..hub::VersionProfile::default()
        };
        let active = ["4.20.8".to_owned(), "4.21.2".to_owned()];
        assert!(runs(&active, &wanted(Some("4.21"))));
        assert!(runs(&active, &wanted(None)));
        assert!(!runs(&active, &wanted(Some("4.22"))));
        assert!(!runs(&[], &wanted(Some("4.20"))));
    }
}
