//! Issuers of tokens that clusters are to trust.

use pilothouse_clusters_service_api::{
    ClusterId, ExternalAuth, ExternalAuthId, ExternalAuthStateValue, ExternalAuthUpdate, List, ListQuery,
    NewExternalAuth,
};
use pilothouse_http::Context;
use pilothouse_store::Decision;

use super::update::cluster_error;
use super::{Clusters, Mode, list, searched, taken};
use crate::admission;
use crate::record::{ClusterRecord, Deletion, ExternalAuthRecord};
use crate::refusal::Refusal;
use crate::search::Subject;

impl Clusters {
    /// Creates an external auth, or finds the one that the same operation created before.
    pub(crate) async fn external_auth_create(
        &self,
        context: &Context,
        cluster: &ClusterId,
        mut new: NewExternalAuth,
        mode: Mode,
    ) -> Result<ExternalAuth, Refusal> {
        let origin = admission::origin(&mut new.properties, context.correlation_id());
        let now = self.clock.now();
        self.external_auth_change(cluster, mode, |record| {
            if let Some(existing) = record.external_auth(&new.id) {
                let again =
                    origin.operation_id.is_some() && existing.origin.operation_id == origin.operation_id;
                if again {
                    return Ok((existing.external_auth.clone(), Decision::Keep));
                }
                return Err(taken("external auth", new.id.as_str(), existing.deletion.is_some()));
            }
            staying(record)?;
            let made = admission::external_auth(new.clone(), &record.cluster, now)?;
            if let Some(other) = record.external_auths.first() {
                let other = &other.external_auth.id;
                let reason = format!(
                    "a cluster trusts one issuer at most, and this one has `{other}`; delete that first"
                );
                return Err(Refusal::Conflict(reason));
            }
            record.external_auths.push(ExternalAuthRecord::new(made.clone(), origin.clone()));
            Ok((made, Decision::Write))
        })
        .await
    }

    pub(crate) async fn external_auth_get(
        &self,
        cluster: &ClusterId,
        id: &ExternalAuthId,
    ) -> Result<ExternalAuth, Refusal> {
        match self.cluster_record(cluster).await?.external_auth(id) {
            Some(found) => Ok(found.external_auth.clone()),
            None => Err(Refusal::external_auth_not_found(id.as_str())),
        }
    }

    pub(crate) async fn external_auth_list(
        &self,
        cluster: &ClusterId,
        query: ListQuery,
    ) -> Result<List<ExternalAuth>, Refusal> {
        let record = self.cluster_record(cluster).await?;
        let expression = searched(&query, Subject::ExternalAuths)?;
        let all = record.external_auths.into_iter().map(|record| record.external_auth);
        list("ExternalAuthList", all, expression.as_ref(), &query, Subject::ExternalAuths)
    }

    /// Asks for an external auth to be changed. The same operation again changes nothing.
    pub(crate) async fn external_auth_update(
        &self,
        context: &Context,
        cluster: &ClusterId,
        id: &ExternalAuthId,
        mut update: ExternalAuthUpdate,
        mode: Mode,
    ) -> Result<ExternalAuth, Refusal> {
        let origin = admission::origin(&mut update.properties, context.correlation_id());
        let now = self.clock.now();
        self.external_auth_change(cluster, mode, |record| {
            staying(record)?;
            let found = found(record, id)?;
            if found.deletion.is_some() {
                return Err(taken("external auth", id.as_str(), true));
            }
            admission::external_auth_update(&update, &found.external_auth)?;
            let decision = if found.change(&update, &origin, now) { Decision::Write } else { Decision::Keep };
            Ok((found.external_auth.clone(), decision))
        })
        .await
    }

    /// Asks for an external auth to be deleted; asking again changes nothing.
    pub(crate) async fn external_auth_delete(
        &self,
        cluster: &ClusterId,
        id: &ExternalAuthId,
        mode: Mode,
    ) -> Result<(), Refusal> {
        let now = self.clock.now();
        let deleted = self.external_auth_change(cluster, mode, |record| {
            let found = found(record, id)?;
            if found.deletion.is_some() {
                return Ok((found.external_auth.clone(), Decision::Keep));
            }
            found.deletion = Some(Deletion { requested_at: now });
            found.enter(ExternalAuthStateValue::Uninstalling, "its deletion was asked for", now);
            Ok((found.external_auth.clone(), Decision::Write))
        });
        deleted.await.map(drop)
    }

    /// Changes a cluster's external auths, whatever it has become meanwhile; only tries to in a dry run.
    async fn external_auth_change(
        &self,
        cluster: &ClusterId,
        mode: Mode,
        mut change: impl FnMut(&mut ClusterRecord) -> Result<(ExternalAuth, Decision), Refusal>,
    ) -> Result<ExternalAuth, Refusal> {
        let mut outcome = None;
        let updated = self.records.cluster_update(cluster, |record| {
            let mut after = record.clone();
            let changed = change(&mut after);
            let decision = match &changed {
                Ok((_, decision)) if mode == Mode::Create => *decision,
                _ => Decision::Keep,
            };
            if decision == Decision::Write {
                *record = after;
            }
            outcome = Some(changed.map(|(external_auth, _)| external_auth));
            decision
        });
        updated.await.map_err(|error| cluster_error(error, cluster))?;
        outcome.unwrap_or_else(|| Err(Refusal::cluster_not_found(cluster.as_str())))
    }
}

fn found<'a>(
    record: &'a mut ClusterRecord,
    id: &ExternalAuthId,
) -> Result<&'a mut ExternalAuthRecord, Refusal> {
    let found = record.external_auths.iter_mut().find(|record| record.external_auth.id == *id);
    found.ok_or_else(|| Refusal::external_auth_not_found(id.as_str()))
}

fn staying(record: &ClusterRecord) -> Result<(), Refusal> {
    match record.deletion {
        None => Ok(()),
        Some(_) => {
            let reason =
                format!("cluster `{}` is being deleted; its external auths go with it", record.cluster.id);
            Err(Refusal::Conflict(reason))
        }
    }
}
