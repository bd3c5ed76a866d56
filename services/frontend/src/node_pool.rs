//! Node pools.

use pilothouse_api::{FieldError, Invalid, NodePoolName, Target, hub};
use pilothouse_arm::{CloudError, OperationId, ProvisioningState, ResourceId};
use pilothouse_clusters_service_api::{ClusterId, NodePoolId};
use pilothouse_records::{Change, Cluster, Error, Listed, NodePool, Operation, Records, Reservation, Stored};
use serde_json::Value;

use crate::accept;
use crate::answer::Refusal;
use crate::ask::{self, Work};
use crate::call::Call;
use crate::cluster::{clusters_service_id, never_made, taken};
use crate::kind::Kind;
use crate::page::Part;
use crate::service::App;

/// `hcpOpenShiftClusters/nodePools`.
#[derive(Debug)]
pub(crate) struct NodePools;

impl Kind for NodePools {
    type Hub = hub::NodePool;
    type Record = NodePool;
    const IS_CHILD: bool = true;
    const IS_ONLY_CHILD: bool = false;

    async fn get(records: &Records, id: &ResourceId) -> Result<Option<Stored<NodePool>>, Error> {
        records.node_pool_get(id).await
    }

    async fn list(
        records: &Records,
        _: &Call,
        above: &ResourceId,
        part: &Part,
    ) -> Result<Listed<NodePool>, Error> {
        records.node_pool_list(above, part.limit, part.token.as_deref()).await
    }

    fn show(call: &Call, resource: &hub::NodePool) -> Value {
        call.version.node_pool_write(resource)
    }

    fn put(
        call: &Call,
        body: &[u8],
        target: &Target<'_, hub::NodePool>,
        parent: Option<&Cluster>,
    ) -> Result<hub::NodePool, Invalid> {
        call.version.node_pool_put(body, target, of(parent)?)
    }

    fn patch(
        call: &Call,
        body: &[u8],
        target: &Target<'_, hub::NodePool>,
        parent: Option<&Cluster>,
    ) -> Result<hub::NodePool, Invalid> {
        call.version.node_pool_patch(body, target, of(parent)?)
    }

    /// Pools of one cluster may share subnets; the cluster holds them for all.
    async fn admit(
        app: &App,
        call: &Call,
        parent: Option<&Cluster>,
        wanted: &mut hub::NodePool,
    ) -> Result<Vec<Reservation>, Refusal> {
        let Some(cluster) = parent else { return Ok(Vec::new()) };
        let platform = &mut wanted.spec.platform;
        if platform.subnet_id.is_none() {
            platform.subnet_id = cluster.resource.spec.platform.subnet_id.clone();
        }
        let own = cluster.resource.spec.platform.subnet_id.as_ref();
        let Some(subnet) = platform.subnet_id.as_ref().filter(|subnet| Some(*subnet) != own) else {
            return Ok(Vec::new());
        };
        let reservation = Reservation::subnet(subnet);
        if cluster.reservations.contains(&reservation) {
            return Ok(Vec::new());
        }
        let field = [("properties.platform.subnetId", reservation.clone())];
        taken(app, call, &cluster.resource.id, &field).await?;
        Ok(vec![reservation])
    }

    async fn ask_to_create(
        app: &App,
        call: &Call,
        parent: Option<&Cluster>,
        wanted: &hub::NodePool,
        operation: OperationId,
    ) -> Result<Value, Refusal> {
        let cluster = made(parent, &wanted.id)?;
        let id = id(&wanted.id)?;
        let work = Work { operation, correlation_id: &call.correlation_id };
        let ask = ask::node_pool_new(work, id, wanted);
        match ask::in_time(app.clusters_service.node_pool_preflight(&call.context, &cluster, &ask)).await {
            Ok(_) => Ok(accept::kept(&ask)),
            Err(error) if error.is_not_found() => Err(homeless(&wanted.id)),
            Err(error) => Err(error.into()),
        }
    }

    async fn ask_to_update(
        app: &App,
        call: &Call,
        parent: Option<&Cluster>,
        stored: &NodePool,
        wanted: &hub::NodePool,
        operation: OperationId,
    ) -> Result<Option<Value>, Refusal> {
        // What did not come to be is asked for again, even if it is the same.
        let done = stored.resource.status.provisioning_state == ProvisioningState::Succeeded;
        let work = Work { operation, correlation_id: &call.correlation_id };
        let ask = ask::node_pool_update(work, done.then_some(&stored.resource.spec), &wanted.spec);
        if is_empty(&ask) {
            return Ok(None);
        }
        let cluster = parent.and_then(clusters_service_id).ok_or_else(|| never_made(&wanted.id))?;
        let id = id(&wanted.id)?;
        match ask::in_time(app.clusters_service.node_pool_update_preflight(
            &call.context,
            &cluster,
            &id,
            &ask,
        ))
        .await
        {
            Ok(_) => Ok(Some(accept::kept(&ask))),
            Err(error) if error.is_not_found() => Err(never_made(&wanted.id)),
            Err(error) => Err(error.into()),
        }
    }

    /// The last node pool stays until the cluster goes.
    async fn admit_deletion(app: &App, parent: Option<&Cluster>, stored: &NodePool) -> Result<(), Refusal> {
        let Some(cluster) = parent else { return Ok(()) };
        let others = app.records.node_pool_all(&cluster.resource.id).await?;
        let stays = |pool: &Stored<NodePool>| {
            pool.resource.id != stored.resource.id
                && pool.resource.status.provisioning_state != ProvisioningState::Deleting
        };
        if others.iter().any(stays) {
            return Ok(());
        }
        let message =
            "Forbidden: the last node pool of a cluster cannot be deleted; delete the cluster instead";
        Err(Invalid(vec![FieldError { target: "name".to_owned(), message: message.to_owned() }]).into())
    }

    fn record(
        _: &App,
        _: &Call,
        resource: hub::NodePool,
        operation: OperationId,
        _: &[Reservation],
    ) -> Result<NodePool, Refusal> {
        Ok(NodePool::new(resource, operation))
    }

    fn stage_create(change: &mut Change<'_>, record: &NodePool) -> Result<(), Error> {
        change.node_pool_create(record).map(drop)
    }

    fn stage_replace(change: &mut Change<'_>, stored: &Stored<NodePool>) -> Result<(), Error> {
        change.node_pool_replace(stored).map(drop)
    }

    async fn stage_deletion_below(
        _: &App,
        _: &mut Change<'_>,
        _: &ResourceId,
        _: &Operation,
    ) -> Result<(), Refusal> {
        Ok(())
    }
}

/// The cluster that a child lies below, in the hub model. The flow has looked it up before anything is read.
fn of(parent: Option<&Cluster>) -> Result<&hub::Cluster, Invalid> {
    parent.map(|cluster| &cluster.resource).ok_or_else(|| Invalid(Vec::new()))
}

/// The id at Clusters Service of a cluster that something is to be made in.
pub(crate) fn made(parent: Option<&Cluster>, child: &ResourceId) -> Result<ClusterId, Refusal> {
    parent.and_then(clusters_service_id).ok_or_else(|| homeless(child))
}

/// Clusters Service does not know the cluster that something is to be made in.
pub(crate) fn homeless(child: &ResourceId) -> Refusal {
    let message =
        "Cannot create resource because the parent resource was never made; delete it and make it anew";
    let cluster = child.parent().unwrap_or_else(|| child.clone());
    CloudError::conflict(&cluster, message).into()
}

fn id(pool: &ResourceId) -> Result<NodePoolId, Refusal> {
    pool.name().to_ascii_lowercase().parse().map_err(|_| {
        let message = format!("Invalid value: {:?}: {}", pool.name(), NodePoolName::RULE);
        Invalid(vec![FieldError { target: "id".to_owned(), message }]).into()
    })
}

fn is_empty(ask: &pilothouse_clusters_service_api::NodePoolUpdate) -> bool {
    let pilothouse_clusters_service_api::NodePoolUpdate {
        replicas,
        autoscaling,
        version,
        node_drain_grace_period,
        labels,
        taints,
        properties: _,
    } = ask;
    replicas.is_none()
        && autoscaling.is_none()
        && version.is_none()
        && node_drain_grace_period.is_none()
        && labels.is_none()
        && taints.is_none()
}
