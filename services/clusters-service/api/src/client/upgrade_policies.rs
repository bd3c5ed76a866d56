//! Upgrades.

use http::Method;
use pilothouse_http::Context;

use super::{Client, accepted, read};
use crate::{
    ClusterId, Error, List, ListQuery, NewUpgradePolicy, NodePoolId, UpgradePolicy, UpgradePolicyUpdate,
};

/// The path of all of a cluster's control plane.
fn of_cluster(cluster: &ClusterId) -> [&str; 3] {
    ["clusters", cluster.as_str(), "control_plane_upgrade_policies"]
}

/// The path of all of a node pool's.
fn of_node_pool<'a>(cluster: &'a ClusterId, id: &'a NodePoolId) -> [&'a str; 5] {
    ["clusters", cluster.as_str(), "node_pools", id.as_str(), "upgrade_policies"]
}

impl Client {
    /// Asks for a control plane to be upgraded, or finds that the same operation asked before.
    pub async fn upgrade_policy_create(
        &self,
        context: &Context,
        cluster: &ClusterId,
        new: &NewUpgradePolicy,
    ) -> Result<UpgradePolicy, Error> {
        let call = self.call(Method::POST, &of_cluster(cluster));
        read(call.context(context).json(new).idempotent().send().await?).await
    }

    /// Checks what an upgrade of a control plane would be refused for, and changes nothing.
    pub async fn upgrade_policy_preflight(
        &self,
        context: &Context,
        cluster: &ClusterId,
        new: &NewUpgradePolicy,
    ) -> Result<UpgradePolicy, Error> {
        let call = self.dry_run(Method::POST, &of_cluster(cluster));
        read(call.context(context).json(new).idempotent().send().await?).await
    }

    /// The upgrades of a control plane, oldest first unless asked otherwise.
    pub async fn upgrade_policy_list(
        &self,
        context: &Context,
        cluster: &ClusterId,
        query: &ListQuery,
    ) -> Result<List<UpgradePolicy>, Error> {
        self.list(context, &of_cluster(cluster), query).await
    }

    /// One upgrade of a control plane.
    pub async fn upgrade_policy_get(
        &self,
        context: &Context,
        cluster: &ClusterId,
        id: &str,
    ) -> Result<UpgradePolicy, Error> {
        let path = [&of_cluster(cluster)[..], &[id]].concat();
        read(self.call(Method::GET, &path).context(context).send().await?).await
    }

    /// Puts an upgrade of a control plane to another time, or another version.
    pub async fn upgrade_policy_update(
        &self,
        context: &Context,
        cluster: &ClusterId,
        id: &str,
        update: &UpgradePolicyUpdate,
    ) -> Result<UpgradePolicy, Error> {
        let path = [&of_cluster(cluster)[..], &[id]].concat();
        read(self.call(Method::PATCH, &path).context(context).json(update).idempotent().send().await?).await
    }

    /// Takes back an upgrade of a control plane that has not begun; forgets one that is over.
    pub async fn upgrade_policy_delete(
        &self,
        context: &Context,
        cluster: &ClusterId,
        id: &str,
    ) -> Result<(), Error> {
        let path = [&of_cluster(cluster)[..], &[id]].concat();
        accepted(self.call(Method::DELETE, &path).context(context).send().await?).await
    }

    /// Asks for a node pool to be upgraded, or finds that the same operation asked before.
    pub async fn node_pool_upgrade_policy_create(
        &self,
        context: &Context,
        cluster: &ClusterId,
        id: &NodePoolId,
        new: &NewUpgradePolicy,
    ) -> Result<UpgradePolicy, Error> {
        let call = self.call(Method::POST, &of_node_pool(cluster, id));
        read(call.context(context).json(new).idempotent().send().await?).await
    }

    /// Checks what an upgrade of a node pool would be refused for, and changes nothing.
    pub async fn node_pool_upgrade_policy_preflight(
        &self,
        context: &Context,
        cluster: &ClusterId,
        id: &NodePoolId,
        new: &NewUpgradePolicy,
    ) -> Result<UpgradePolicy, Error> {
        let call = self.dry_run(Method::POST, &of_node_pool(cluster, id));
        read(call.context(context).json(new).idempotent().send().await?).await
    }

    /// The upgrades of a node pool, oldest first unless asked otherwise.
    pub async fn node_pool_upgrade_policy_list(
        &self,
        context: &Context,
        cluster: &ClusterId,
        id: &NodePoolId,
        query: &ListQuery,
    ) -> Result<List<UpgradePolicy>, Error> {
        self.list(context, &of_node_pool(cluster, id), query).await
    }
}
