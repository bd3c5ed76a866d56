//! Credentials for the administrators of clusters. Only the first of the two bases has them.

use http::Method;
use pilothouse_http::Context;

use super::{Client, accepted, read};
use crate::{
    BreakGlassCredential, BreakGlassCredentialId, ClusterId, Error, List, ListQuery, NewBreakGlassCredential,
};

/// The path of all of a cluster's.
fn all(cluster: &ClusterId) -> [&str; 3] {
    ["clusters", cluster.as_str(), "break_glass_credentials"]
}

impl Client {
    /// Asks for a credential, or finds the one that the same operation asked for before. It can be used when it is
    /// issued.
    pub async fn break_glass_create(
        &self,
        context: &Context,
        cluster: &ClusterId,
        credential: &NewBreakGlassCredential,
    ) -> Result<BreakGlassCredential, Error> {
        let call = self.call(Method::POST, &all(cluster));
        read(call.context(context).json(credential).idempotent().send().await?).await
    }

    /// Checks what asking for a credential would be refused for, and changes nothing.
    pub async fn break_glass_preflight(
        &self,
        context: &Context,
        cluster: &ClusterId,
        credential: &NewBreakGlassCredential,
    ) -> Result<BreakGlassCredential, Error> {
        let call = self.dry_run(Method::POST, &all(cluster));
        read(call.context(context).json(credential).idempotent().send().await?).await
    }

    /// One credential, with its kubeconfig once it is issued.
    pub async fn break_glass_get(
        &self,
        context: &Context,
        cluster: &ClusterId,
        id: &BreakGlassCredentialId,
    ) -> Result<BreakGlassCredential, Error> {
        let path = ["clusters", cluster.as_str(), "break_glass_credentials", id.as_str()];
        read(self.call(Method::GET, &path).context(context).send().await?).await
    }

    /// The credentials of a cluster, without their kubeconfigs.
    pub async fn break_glass_list(
        &self,
        context: &Context,
        cluster: &ClusterId,
        query: &ListQuery,
    ) -> Result<List<BreakGlassCredential>, Error> {
        self.list(context, &all(cluster), query).await
    }

    /// Asks for all credentials of a cluster to be revoked. They are when every one of [`Self::break_glass_list`] says so;
    /// asking again is harmless.
    pub async fn break_glass_revoke_all(&self, context: &Context, cluster: &ClusterId) -> Result<(), Error> {
        accepted(self.call(Method::DELETE, &all(cluster)).context(context).send().await?).await
    }
}
