//! What Clusters Service is asked for: pure functions from the hub model to its own words.
//!
//! What is as usual is left out on creation. A change says what differs from what is stored; with nothing to compare, as
//! after a change that did not come to be, it says everything that can be changed.

mod cluster;
mod external_auth;
mod node_pool;

use std::collections::BTreeMap;
use std::time::Duration;

use pilothouse_api::{Minor, hub};
use pilothouse_arm::{CloudError, OperationId};
use pilothouse_clusters_service_api as clusters_service;
use pilothouse_clusters_service_api::properties;
use tracing::warn;

use crate::answer::Refusal;

pub(crate) use self::cluster::{Environment, cluster_new, cluster_update};
pub(crate) use self::external_auth::{external_auth_new, external_auth_update};
pub(crate) use self::node_pool::{node_pool_new, node_pool_update};

/// How long Clusters Service has to answer, well within the time that the caller's own request has.
const PATIENCE: Duration = Duration::from_secs(5);

/// Clusters Service's answer, if it comes in time.
pub(crate) async fn in_time<T>(
    answer: impl Future<Output = Result<T, clusters_service::Error>>,
) -> Result<T, Unanswered> {
    match tokio::time::timeout(PATIENCE, answer).await {
        Ok(answer) => answer.map_err(Unanswered::Error),
        Err(_) => Err(Unanswered::Late),
    }
}

/// Why there is no good answer.
#[derive(Debug)]
pub(crate) enum Unanswered {
    /// It said no, or could not be asked.
    Error(clusters_service::Error),
    /// It took too long.
    Late,
}

impl Unanswered {
    /// Whether it does not know what it was asked about.
    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self, Self::Error(error) if error.is_not_found())
    }
}

impl From<Unanswered> for Refusal {
    fn from(unanswered: Unanswered) -> Self {
        match unanswered {
            Unanswered::Error(error) => error.into(),
            Unanswered::Late => {
                warn!("Clusters Service took too long to answer");
                let message =
                    "Clusters Service took too long to answer, and nothing was accepted; try again later.";
                CloudError::unavailable(message).into()
            }
        }
    }
}

/// The work that a request to Clusters Service belongs to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work<'a> {
    pub(crate) operation: OperationId,
    pub(crate) correlation_id: &'a str,
}

impl Work<'_> {
    pub(crate) fn properties(self) -> BTreeMap<String, String> {
        BTreeMap::from([
            (properties::OPERATION_ID.to_owned(), self.operation.to_string()),
            (properties::CORRELATION_ID.to_owned(), self.correlation_id.to_owned()),
        ])
    }
}

/// The release that a cluster's version stands for: the newest of a minor, or the very one that is named.
fn control_plane(version: &hub::VersionProfile) -> clusters_service::Version {
    let number = match &version.id {
        None => Minor::DEFAULT.newest_release(),
        Some(id) => id.parse::<Minor>().map_or_else(|()| id.clone(), Minor::newest_release),
    };
    clusters_service::Version::of_channel(&number, &version.channel_group)
}

fn minutes(number: i32) -> clusters_service::GracePeriod {
    clusters_service::GracePeriod::minutes(u32::try_from(number).unwrap_or(0))
}

#[cfg(test)]
mod tests;
