//! Credentials for a cluster's administrators: asking for one, and making all of them worthless.
//!
//! Nothing secret is stored. What is asked for is a piece of work; the credential itself stays at Clusters Service and is
//! read there when the result of the work is asked for ([`shown`]).

use axum::extract::State;
use axum::response::Response;
use pilothouse_api::hub;
use pilothouse_arm::{CloudError, ErrorCode, ResourceId};
use pilothouse_clusters_service_api::{BreakGlassCredentialId, ClusterId, NewBreakGlassCredential};
use pilothouse_records::{Cluster, CredentialWork, Error, Operation, Request, Stored};
use serde_json::Value;

use crate::accept::{self, ATTEMPTS, accepted, busy};
use crate::answer::{Accepted, Refusal};
use crate::ask::{self, Work};
use crate::body::Sent;
use crate::call::Call;
use crate::cluster::{clusters_service_id, never_made};
use crate::json;
use crate::service::App;

pub(crate) async fn request(State(app): State<App>, sent: Sent) -> Result<Response, Refusal> {
    let Sent { mut call, body } = sent;
    let id = call.above()?;
    if !body.is_empty() {
        json::check(&body)?;
    }
    let wanted = call.version.credential_request(&body)?;
    for _ in 0..ATTEMPTS {
        let (cluster, cluster_id) = settled(&app, &id, "request credentials of").await?;
        match begin_request(&app, &call, &cluster, &cluster_id, &wanted).await {
            Err(Refusal::Records(Error::Conflict(_))) => call.refresh(&app).await?,
            answer => return answer,
        }
    }
    Err(busy(&id))
}

pub(crate) async fn revoke(State(app): State<App>, sent: Sent) -> Result<Response, Refusal> {
    let Sent { mut call, body } = sent;
    let id = call.above()?;
    if !body.is_empty() {
        json::check(&body)?;
    }
    for _ in 0..ATTEMPTS {
        // A mark before the look: what is asked for meanwhile must not escape.
        let membership = app.records.membership(&id).await?;
        let (mut cluster, _) = settled(&app, &id, "revoke credentials of").await?;
        let operation_id = accept::new_id();
        let way = accept::way(&app, &call, operation_id)?;
        let now = app.clock.now();
        let resource = &cluster.resource.id;
        let operation =
            accept::operation(&app, &(&call).into(), operation_id, Request::RevokeCredentials, resource, now);
        let mut change = app.records.change(call.subscription)?;
        for mut under_way in app.records.operation_active_on(&id).await? {
            if under_way.request == Request::RequestCredential {
                let reason = format!(
                    "The request was given up because all credentials are revoked; see operation {operation_id}."
                );
                under_way.cancel(&reason, now);
                change.operation_replace(&under_way)?;
            }
        }
        cluster.revocation = Some(operation_id);
        change
            .subscription_check(call.subscription, &call.told)?
            .membership_check(&membership)?
            .cluster_replace(&cluster)?
            .operation_create(&operation)?;
        match change.commit().await {
            Ok(_) => {
                accepted(&app, &operation);
                return Ok(Accepted::Begun.with(&way));
            }
            Err(Error::Conflict(_)) => call.refresh(&app).await?,
            Err(error) => return Err(error.into()),
        }
    }
    Err(busy(&id))
}

async fn begin_request(
    app: &App,
    call: &Call,
    cluster: &Stored<Cluster>,
    cluster_id: &ClusterId,
    wanted: &hub::CredentialRequest,
) -> Result<Response, Refusal> {
    let operation_id = accept::new_id();
    let way = accept::way(app, call, operation_id)?;
    let ask = NewBreakGlassCredential {
        certificate_signing_request: wanted.certificate_signing_request.clone(),
        properties: Work { operation: operation_id, correlation_id: &call.correlation_id }.properties(),
        ..NewBreakGlassCredential::default()
    };
    match ask::in_time(app.clusters_service.break_glass_preflight(&call.context, cluster_id, &ask)).await {
        Ok(_) => {}
        Err(error) if error.is_not_found() => return Err(never_made(&cluster.resource.id)),
        Err(error) => return Err(error.into()),
    }

    let resource = &cluster.resource.id;
    let now = app.clock.now();
    let mut operation =
        accept::operation(app, &call.into(), operation_id, Request::RequestCredential, resource, now);
    operation.clusters_service_request = Some(accept::kept(&ask));
    operation.credential = Some(CredentialWork {
        certificate_signing_request: wanted.certificate_signing_request.clone(),
        clusters_service_id: None,
    });
    let mut change = app.records.change(call.subscription)?;
    change
        .subscription_check(call.subscription, &call.told)?
        .membership_note(resource)?
        .cluster_check(cluster)?
        .operation_create(&operation)?;
    change.commit().await?;
    accepted(app, &operation);
    Ok(Accepted::Begun.with(&way))
}

/// A cluster on which nothing is under way that would be in the way.
async fn settled(app: &App, id: &ResourceId, verb: &str) -> Result<(Stored<Cluster>, ClusterId), Refusal> {
    let cluster = app.records.cluster_get(id).await?.ok_or_else(|| Refusal::Missing(id.clone()))?;
    let state = cluster.resource.status.provisioning_state;
    let refused = |message: String| CloudError::conflict(&cluster.resource.id, message);
    if !state.is_terminal() {
        return Err(refused(format!("Cannot {verb} resource while resource is \"{state}\"")).into());
    }
    if cluster.revocation.is_some() {
        let message = format!("Cannot {verb} resource while its credentials are being revoked");
        return Err(refused(message).with_retry_after(10).into());
    }
    match clusters_service_id(&cluster) {
        Some(cluster_id) => Ok((cluster, cluster_id)),
        None => Err(refused(format!("Cannot {verb} resource because it was never made")).into()),
    }
}

/// The credential that an operation brought about, as Clusters Service has it now.
pub(crate) async fn shown(app: &App, call: &Call, operation: &Operation) -> Result<Value, Refusal> {
    let gone = || {
        let message = "The credential has expired or was revoked; request another.";
        Refusal::from(CloudError::new(ErrorCode::ResourceNotFound, message).with_target(&operation.resource))
    };
    let cluster = app.records.cluster_get(&operation.resource).await?;
    let cluster_id = cluster.as_deref().and_then(clusters_service_id);
    let work = operation.credential.as_ref();
    let id: Option<BreakGlassCredentialId> =
        work.and_then(|work| work.clusters_service_id.as_ref()?.parse().ok());
    let (Some(cluster_id), Some(id)) = (cluster_id, id) else { return Err(gone()) };
    let found =
        match ask::in_time(app.clusters_service.break_glass_get(&call.context, &cluster_id, &id)).await {
            Err(error) if error.is_not_found() => return Err(gone()),
            found => found?,
        };
    match (found.kubeconfig, found.expiration_timestamp) {
        (Some(kubeconfig), Some(expiration)) if expiration > app.clock.now() => {
            let credential = hub::Credential { kubeconfig: kubeconfig.expose().to_owned(), expiration };
            Ok(call.version.credential_write(&credential))
        }
        _ => Err(gone()),
    }
}
