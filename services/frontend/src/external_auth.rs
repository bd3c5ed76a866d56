//! External authentications: whose tokens a cluster accepts.

use pilothouse_api::{ExternalAuthName, FieldError, Invalid, Target, hub};
use pilothouse_arm::{OperationId, ProvisioningState, ResourceId};
use pilothouse_clusters_service_api::ExternalAuthId;
use pilothouse_records::{
    Change, Cluster, Error, ExternalAuth, Listed, Operation, Records, Reservation, Stored,
};
use serde_json::Value;

use crate::accept;
use crate::answer::Refusal;
use crate::ask::{self, Work};
use crate::call::Call;
use crate::cluster::{clusters_service_id, never_made};
use crate::kind::Kind;
use crate::node_pool::{homeless, made};
use crate::page::Part;
use crate::service::App;

/// `hcpOpenShiftClusters/externalAuths`.
#[derive(Debug)]
pub(crate) struct ExternalAuths;

impl Kind for ExternalAuths {
    type Hub = hub::ExternalAuth;
    type Record = ExternalAuth;
    const IS_CHILD: bool = true;
    const IS_ONLY_CHILD: bool = true;

    async fn get(records: &Records, id: &ResourceId) -> Result<Option<Stored<ExternalAuth>>, Error> {
        records.external_auth_get(id).await
    }

    async fn list(
        records: &Records,
        _: &Call,
        above: &ResourceId,
        part: &Part,
    ) -> Result<Listed<ExternalAuth>, Error> {
        records.external_auth_list(above, part.limit, part.token.as_deref()).await
    }

    fn show(call: &Call, resource: &hub::ExternalAuth) -> Value {
        call.version.external_auth_write(resource)
    }

    fn put(
        call: &Call,
        body: &[u8],
        target: &Target<'_, hub::ExternalAuth>,
        _: Option<&Cluster>,
    ) -> Result<hub::ExternalAuth, Invalid> {
        call.version.external_auth_put(body, target)
    }

    fn patch(
        call: &Call,
        body: &[u8],
        target: &Target<'_, hub::ExternalAuth>,
        _: Option<&Cluster>,
    ) -> Result<hub::ExternalAuth, Invalid> {
        call.version.external_auth_patch(body, target)
    }

    /// One per cluster.
    async fn admit(
        app: &App,
        _: &Call,
        parent: Option<&Cluster>,
        wanted: &mut hub::ExternalAuth,
    ) -> Result<Vec<Reservation>, Refusal> {
        let Some(cluster) = parent else { return Ok(Vec::new()) };
        let others = app.records.external_auth_all(&cluster.resource.id).await?;
        let Some(other) = others.iter().find(|other| other.resource.id != wanted.id) else {
            return Ok(Vec::new());
        };
        let message = format!(
            "Forbidden: a cluster has one external auth at most, and this one has '{}'; delete or change that one",
            other.resource.id.name()
        );
        Err(Invalid(vec![FieldError { target: "name".to_owned(), message }]).into())
    }

    async fn ask_to_create(
        app: &App,
        call: &Call,
        parent: Option<&Cluster>,
        wanted: &hub::ExternalAuth,
        operation: OperationId,
    ) -> Result<Value, Refusal> {
        let cluster = made(parent, &wanted.id)?;
        let work = Work { operation, correlation_id: &call.correlation_id };
        let ask = ask::external_auth_new(work, id(&wanted.id)?, &wanted.spec);
        match ask::in_time(app.clusters_service.external_auth_preflight(&call.context, &cluster, &ask)).await
        {
            Ok(_) => Ok(accept::kept(&ask)),
            Err(error) if error.is_not_found() => Err(homeless(&wanted.id)),
            Err(error) => Err(error.into()),
        }
    }

    async fn ask_to_update(
        app: &App,
        call: &Call,
        parent: Option<&Cluster>,
        stored: &ExternalAuth,
        wanted: &hub::ExternalAuth,
        operation: OperationId,
    ) -> Result<Option<Value>, Refusal> {
        // What did not come to be is asked for again, even if it is the same.
        let done = stored.resource.status.provisioning_state == ProvisioningState::Succeeded;
        if done && stored.resource.spec == wanted.spec {
            return Ok(None);
        }
        let work = Work { operation, correlation_id: &call.correlation_id };
        let ask = ask::external_auth_update(work, done.then_some(&stored.resource.spec), &wanted.spec);
        let cluster = parent.and_then(clusters_service_id).ok_or_else(|| never_made(&wanted.id))?;
        let id = id(&wanted.id)?;
        match ask::in_time(app.clusters_service.external_auth_update_preflight(
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

    async fn admit_deletion(_: &App, _: Option<&Cluster>, _: &ExternalAuth) -> Result<(), Refusal> {
        Ok(())
    }

    fn record(
        _: &App,
        _: &Call,
        resource: hub::ExternalAuth,
        operation: OperationId,
        _: &[Reservation],
    ) -> Result<ExternalAuth, Refusal> {
        Ok(ExternalAuth::new(resource, operation))
    }

    fn stage_create(change: &mut Change<'_>, record: &ExternalAuth) -> Result<(), Error> {
        change.external_auth_create(record).map(drop)
    }

    fn stage_replace(change: &mut Change<'_>, stored: &Stored<ExternalAuth>) -> Result<(), Error> {
        change.external_auth_replace(stored).map(drop)
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

fn id(external_auth: &ResourceId) -> Result<ExternalAuthId, Refusal> {
    external_auth.name().to_ascii_lowercase().parse().map_err(|_| {
        let message = format!("Invalid value: {:?}: {}", external_auth.name(), ExternalAuthName::RULE);
        Invalid(vec![FieldError { target: "id".to_owned(), message }]).into()
    })
}
