//! Management clusters.

use http::Method;
use pilothouse_http::Context;

use super::{Client, accepted, read};
use crate::{ClusterId, Error, List, ListQuery, NewProvisionShard, ProvisionShard, ProvisionShardUpdate};

impl Client {
    /// The management cluster that hosts a cluster.
    pub async fn provision_shard(&self, context: &Context, id: &ClusterId) -> Result<ProvisionShard, Error> {
        let call = self.call(Method::GET, &["clusters", id.as_str(), "provision_shard"]);
        read(call.context(context).send().await?).await
    }

    /// All management clusters, in the order of their ids.
    pub async fn provision_shard_list(&self, context: &Context) -> Result<List<ProvisionShard>, Error> {
        self.list(context, &["provision_shards"], &ListQuery::default()).await
    }

    /// One management cluster.
    pub async fn provision_shard_get(&self, context: &Context, id: &str) -> Result<ProvisionShard, Error> {
        read(self.call(Method::GET, &["provision_shards", id]).context(context).send().await?).await
    }

    /// Makes a management cluster known.
    pub async fn provision_shard_create(
        &self,
        context: &Context,
        shard: &NewProvisionShard,
    ) -> Result<ProvisionShard, Error> {
        let call = self.call(Method::POST, &["provision_shards"]).context(context).json(shard);
        read(call.send().await?).await
    }

    /// Changes what is wanted of a management cluster.
    pub async fn provision_shard_update(
        &self,
        context: &Context,
        id: &str,
        update: &ProvisionShardUpdate,
    ) -> Result<ProvisionShard, Error> {
        let call = self.call(Method::PATCH, &["provision_shards", id]).context(context).json(update);
        read(call.idempotent().send().await?).await
    }

    /// Forgets a management cluster that has no clusters.
    pub async fn provision_shard_delete(&self, context: &Context, id: &str) -> Result<(), Error> {
        accepted(self.call(Method::DELETE, &["provision_shards", id]).context(context).send().await?).await
    }
}
