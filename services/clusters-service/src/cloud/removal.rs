//! Away with what a cluster has in the cloud, but with nothing that is somebody else's.
//!
//! Whose something is, its mark says. What has lost it is not deleted, and not forgotten either: a deletion that left it behind
//! without a word would have succeeded in nothing.

use http::header::IF_MATCH;
use http::{Method, StatusCode};
use pilothouse_http::Context;
use tracing::warn;

use super::{Cloud, CloudFailure, DNS_ZONES, RESOURCE_GROUPS, Work, delegation, group_path, mark, refused};
use crate::manifests::CLUSTER_ID_LABEL;
use crate::record::ClusterRecord;

impl Cloud {
    /// Deletes what leads to the cluster's names, and the managed resource group with everything in it: each if it is this
    /// cluster's, and the second also if the first cannot be. Safe to repeat.
    pub(crate) async fn delete(&self, record: &ClusterRecord, context: &Context) -> Result<(), CloudFailure> {
        let cluster = &record.cluster;
        let work = Work { cloud: self, cluster, context };
        let undelegated = match delegation(self.base_zone.as_ref(), cluster) {
            Some(delegation) => work.delete_own(&delegation, DNS_ZONES, record.cloud_prepared).await,
            None => Ok(()),
        };
        let removed = work.delete_group(group_path(cluster), record.cloud_prepared).await;
        undelegated.and(removed)
    }
}

impl Work<'_> {
    /// Deletes the managed resource group with everything in it, if it is the cluster's. `prepared`: the cluster had one.
    async fn delete_group(&self, group: String, prepared: bool) -> Result<(), CloudFailure> {
        let etag = match self.own_group(&group).await {
            Ok(Some(etag)) => etag,
            Ok(None) => return Ok(()),
            Err(CloudFailure::Foreign { owner, .. }) => {
                if self.was_own_group(&group, prepared).await? {
                    return Err(self.unmarked(group));
                }
                warn!(cluster = %self.cluster.id, group, owner, "the managed resource group is not this cluster's, and stays");
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        // As it was read: between the two somebody may have put another group into its place.
        let read = Some((IF_MATCH, etag.as_str()));
        let answer = self.call(Method::DELETE, &group, RESOURCE_GROUPS, None, read).await?;
        match answer.status() {
            StatusCode::OK | StatusCode::NO_CONTENT | StatusCode::NOT_FOUND => Ok(()),
            StatusCode::PRECONDITION_FAILED => Err(CloudFailure::Changed(group)),
            // Accepted is not done: the next look finds out.
            StatusCode::ACCEPTED => {
                Err(CloudFailure::StillThere(self.cluster.azure.managed_resource_group_name.clone()))
            }
            _ => Err(refused(Method::DELETE, group, answer).await),
        }
    }

    /// Whether a group that does not carry the cluster's mark is the cluster's all the same: what it made is still in it, or
    /// nobody else has it. Somebody else's group was refused when the cluster was made.
    async fn was_own_group(&self, path: &str, prepared: bool) -> Result<bool, CloudFailure> {
        let content = self.content(path).await?.unwrap_or_default();
        if content.iter().any(|resource| self.is_own(resource)) {
            return Ok(true);
        }
        let group = self.get(path, RESOURCE_GROUPS).await?.unwrap_or_default();
        let managed_by = group["managedBy"].as_str().unwrap_or_default();
        let is_marked = group["tags"][CLUSTER_ID_LABEL].is_string();
        Ok(prepared && !is_marked && managed_by.eq_ignore_ascii_case(&self.cluster.azure.resource_id()))
    }

    fn unmarked(&self, path: String) -> CloudFailure {
        CloudFailure::Unmarked { path, id: self.cluster.id.to_string() }
    }

    /// Deletes a resource if it is the cluster's. `prepared`: the cluster had one.
    async fn delete_own(&self, path: &str, version: &str, prepared: bool) -> Result<(), CloudFailure> {
        let Some(found) = self.get(path, version).await? else { return Ok(()) };
        let etag = match self.own_etag(path, &found) {
            Ok(etag) => etag,
            // Nobody says that it is his, and the cluster made one.
            Err(CloudFailure::ForeignResource { .. }) if prepared && mark(&found).is_none() => {
                return Err(self.unmarked(path.to_owned()));
            }
            // It was refused when the cluster was made, and is none of ours now.
            Err(CloudFailure::ForeignResource { owner, .. }) => {
                warn!(cluster = %self.cluster.id, path, owner, "a record set is not this cluster's, and stays");
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let answer = self.call(Method::DELETE, path, version, None, Some((IF_MATCH, &etag))).await?;
        match answer.status() {
            StatusCode::OK | StatusCode::NO_CONTENT | StatusCode::NOT_FOUND => Ok(()),
            StatusCode::PRECONDITION_FAILED => Err(CloudFailure::Changed(path.to_owned())),
            _ => Err(refused(Method::DELETE, path.to_owned(), answer).await),
        }
    }
}
