//! Which lane each cluster waits in: that of its subscription, so that one customer's clusters which hang hold up no other's.
//!
//! Passes know no more than a cluster's id, and a lane has to be the same from the beginning of a pass to its end. So what was
//! learned stays, also of clusters that have gone: a few bytes each.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pilothouse_clusters_service_api::{Cluster, ClusterId};
use pilothouse_runtime::Lane;

/// The lanes of all clusters that this replica has seen. A cheap handle.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lanes(Arc<Mutex<HashMap<ClusterId, Lane>>>);

impl Lanes {
    pub(crate) fn note(&self, cluster: &Cluster) {
        // What is no UUID has come from before that was asked for.
        if let Ok(subscription) = u128::from_str_radix(&cluster.azure.subscription_id.replace('-', ""), 16) {
            self.lock().entry(cluster.id.clone()).or_insert_with(|| Lane::new(subscription));
        }
    }

    pub(crate) fn of(&self, cluster: &ClusterId) -> Lane {
        self.lock().get(cluster).copied().unwrap_or(Lane::COMMON)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ClusterId, Lane>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
