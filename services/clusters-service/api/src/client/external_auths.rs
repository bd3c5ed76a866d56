//! Issuers of tokens that a cluster's API trusts.

use http::Method;
use pilothouse_http::Context;

use super::{Client, accepted, read};
use crate::{
    ClusterId, Error, ExternalAuth, ExternalAuthId, ExternalAuthUpdate, List, ListQuery, NewExternalAuth,
};

/// The path of all of a cluster's.
fn all(cluster: &ClusterId) -> [&str; 4] {
    ["clusters", cluster.as_str(), "external_auth_config", "external_auths"]
}

/// The path of one.
fn one<'a>(cluster: &'a ClusterId, id: &'a ExternalAuthId) -> [&'a str; 5] {
    ["clusters", cluster.as_str(), "external_auth_config", "external_auths", id.as_str()]
}

impl Client {
    /// Creates an external auth, or finds the one that the same operation created before.
    pub async fn external_auth_create(
        &self,
        context: &Context,
        cluster: &ClusterId,
        external_auth: &NewExternalAuth,
    ) -> Result<ExternalAuth, Error> {
        let call = self.call(Method::POST, &all(cluster));
        read(call.context(context).json(external_auth).idempotent().send().await?).await
    }

    /// Checks what creating an external auth would be refused for, and changes nothing.
    pub async fn external_auth_preflight(
        &self,
        context: &Context,
        cluster: &ClusterId,
        external_auth: &NewExternalAuth,
    ) -> Result<ExternalAuth, Error> {
        let call = self.dry_run(Method::POST, &all(cluster));
        read(call.context(context).json(external_auth).idempotent().send().await?).await
    }

    /// One external auth.
    pub async fn external_auth_get(
        &self,
        context: &Context,
        cluster: &ClusterId,
        id: &ExternalAuthId,
    ) -> Result<ExternalAuth, Error> {
        read(self.call(Method::GET, &one(cluster, id)).context(context).send().await?).await
    }

    /// The external auths of a cluster.
    pub async fn external_auth_list(
        &self,
        context: &Context,
        cluster: &ClusterId,
        query: &ListQuery,
    ) -> Result<List<ExternalAuth>, Error> {
        self.list(context, &all(cluster), query).await
    }

    /// Asks for an external auth to be changed, or finds that the same operation asked before. It is done when the
    /// external auth is ready again.
    pub async fn external_auth_update(
        &self,
        context: &Context,
        cluster: &ClusterId,
        id: &ExternalAuthId,
        update: &ExternalAuthUpdate,
    ) -> Result<ExternalAuth, Error> {
        let call = self.call(Method::PATCH, &one(cluster, id));
        read(call.context(context).json(update).idempotent().send().await?).await
    }

    /// Checks what changing an external auth would be refused for, and changes nothing.
    pub async fn external_auth_update_preflight(
        &self,
        context: &Context,
        cluster: &ClusterId,
        id: &ExternalAuthId,
        update: &ExternalAuthUpdate,
    ) -> Result<ExternalAuth, Error> {
        let call = self.dry_run(Method::PATCH, &one(cluster, id));
        read(call.context(context).json(update).idempotent().send().await?).await
    }

    /// Asks for an external auth to be deleted. It is gone when [`Self::external_auth_get`] or a watch says so.
    pub async fn external_auth_delete(
        &self,
        context: &Context,
        cluster: &ClusterId,
        id: &ExternalAuthId,
    ) -> Result<(), Error> {
        accepted(self.call(Method::DELETE, &one(cluster, id)).context(context).send().await?).await
    }
}
