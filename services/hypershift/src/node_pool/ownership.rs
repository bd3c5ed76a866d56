//! How a pool becomes ours, and how it is let go.

use std::collections::BTreeSet;

use kube::api::{Patch, PatchParams};
use kube::{Resource as _, ResourceExt as _};
use pilothouse_crds::{HostedCluster, NodePool};
use pilothouse_informer::ObjectKey;
use pilothouse_runtime::Next;
use serde_json::json;
use tokio::time::timeout;
use tracing::info;

use super::fleet::Hosted;
use super::observation::is_available;
use super::removal::{Farewell, drain_limit};
use super::{LOOK_AGAIN, NodePools, describe};
use crate::error::{Error, is_missing};
use crate::names::{self, FINALIZER};

impl NodePools {
    /// Takes everything away that a pool made, and then lets it go.
    pub(super) async fn delete(
        &self,
        key: &ObjectKey,
        cluster_key: &ObjectKey,
        cluster: Option<&HostedCluster>,
        pool: NodePool,
    ) -> Result<Next, Error> {
        if !pool.finalizers().iter().any(|finalizer| finalizer == FINALIZER) {
            return Ok(Next::Done);
        }
        // A cluster that goes takes its nodes with it, and may no longer answer.
        let stays =
            cluster.filter(|cluster| cluster.metadata.deletion_timestamp.is_none() && is_available(cluster));
        let hosted =
            stays.and_then(|_| self.nodes.of(cluster_key)).map(|(nodes, client)| Hosted { nodes, client });
        let namespace = names::control_plane_namespace(cluster_key);
        let farewell = Farewell {
            cluster: cluster_key,
            hosted: hosted.as_ref(),
            drain_limit: drain_limit(&pool),
            insistent: true,
        };
        if let Some(next) = self.remove_all(key, &namespace, &farewell).await? {
            return Ok(next);
        }
        if timeout(LOOK_AGAIN, self.revoke(key, &namespace, hosted.as_ref())).await.is_err() {
            info!(pool = %key, "the tokens of its nodes are left to end by themselves");
        }
        self.idle.forget(key);
        self.dismiss_strangers(key, &namespace).await?;
        self.drop_secrets(key, &namespace, &BTreeSet::new()).await?;
        let finalizers: Vec<_> =
            pool.finalizers().iter().filter(|finalizer| *finalizer != FINALIZER).cloned().collect();
        let patch = json!({
            "metadata": { "finalizers": finalizers, "resourceVersion": pool.metadata.resource_version },
        });
        match self.pools(key).patch(&key.name, &PatchParams::default(), &Patch::Merge(patch)).await {
            Ok(_) => info!(pool = %key, "deleted"),
            Err(error) if is_missing(&error) => {}
            Err(error) => return Err(Error::management("release", describe(key), error)),
        }
        Ok(Next::Done)
    }

    /// Puts our finalizer on the pool before the first worker is made, and makes it go with its cluster.
    pub(super) async fn claim(
        &self,
        key: &ObjectKey,
        pool: NodePool,
        cluster: &HostedCluster,
    ) -> Result<NodePool, Error> {
        let owner = cluster.owner_ref(&());
        let owned = pool
            .owner_references()
            .iter()
            .any(|known| Some(&known.uid) == owner.as_ref().map(|owner| &owner.uid));
        let claimed = pool.finalizers().iter().any(|finalizer| finalizer == FINALIZER);
        if claimed && owned {
            return Ok(pool);
        }
        let mut finalizers = pool.finalizers().to_vec();
        if !claimed {
            finalizers.push(FINALIZER.to_owned());
        }
        let mut owners = pool.owner_references().to_vec();
        if !owned {
            owners.extend(owner);
        }
        let patch = json!({ "metadata": {
            "finalizers": finalizers,
            "ownerReferences": owners,
            "resourceVersion": pool.metadata.resource_version,
        } });
        self.pools(key)
            .patch(&key.name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .map_err(|error| Error::management("change", describe(key), error))
    }
}
