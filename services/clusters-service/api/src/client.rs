use futures::Stream;
use http::{Method, StatusCode};
use pilothouse_http::{Call, Context, Response};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use url::Url;

use crate::{
    BASES, Cluster, ClusterId, ClusterUpdate, Cursor, Error, ErrorBody, Event, InflightCheck, LeftBehind,
    List, ListQuery, NewCluster, NewNodePool, NodePool, NodePoolId, NodePoolUpdate, ReleaseVersion, watch,
};

mod break_glass_credentials;
mod external_auths;
mod provision_shards;
mod upgrade_policies;

/// Talks to Clusters Service. A cheap handle over one pool of connections.
///
/// Every call takes the [`Context`] of the work it belongs to: its correlation id travels along, its deadline holds.
#[derive(Clone, Debug)]
pub struct Client {
    http: pilothouse_http::Client,
    base: Url,
}

impl Client {
    /// A client of the service at `address`, such as `http://127.0.0.1:8001`.
    ///
    /// # Errors
    ///
    /// When nothing can be appended to the address.
    pub fn try_new(http: pilothouse_http::Client, address: &Url) -> Result<Self, Error> {
        if address.cannot_be_a_base() {
            return Err(Error::Address(address.to_string()));
        }
        let mut base = address.clone();
        base.set_path(BASES[0]);
        base.set_query(None);
        Ok(Self { http, base })
    }

    /// Creates a cluster, or finds the one that the same operation created before.
    pub async fn cluster_create(&self, context: &Context, cluster: &NewCluster) -> Result<Cluster, Error> {
        // The service recognises the operation, so sending it twice is harmless.
        let call = self.call(Method::POST, &["clusters"]).context(context).json(cluster).idempotent();
        read(call.send().await?).await
    }

    /// Checks what creating a cluster would be refused for, and changes nothing. The answer is the cluster as it
    /// would be.
    pub async fn cluster_preflight(&self, context: &Context, cluster: &NewCluster) -> Result<Cluster, Error> {
        let call = self.dry_run(Method::POST, &["clusters"]).context(context).json(cluster).idempotent();
        read(call.send().await?).await
    }

    /// Asks for a cluster to be changed, or finds that the same operation asked before. It is done when the cluster is
    /// ready again.
    pub async fn cluster_update(
        &self,
        context: &Context,
        id: &ClusterId,
        update: &ClusterUpdate,
    ) -> Result<Cluster, Error> {
        let call = self.call(Method::PATCH, &["clusters", id.as_str()]);
        read(call.context(context).json(update).idempotent().send().await?).await
    }

    /// Checks what changing a cluster would be refused for, and changes nothing.
    pub async fn cluster_update_preflight(
        &self,
        context: &Context,
        id: &ClusterId,
        update: &ClusterUpdate,
    ) -> Result<Cluster, Error> {
        let call = self.dry_run(Method::PATCH, &["clusters", id.as_str()]);
        read(call.context(context).json(update).idempotent().send().await?).await
    }

    /// What of the customer's was looked at before the cluster was made.
    pub async fn cluster_inflight_checks(
        &self,
        context: &Context,
        id: &ClusterId,
    ) -> Result<List<InflightCheck>, Error> {
        self.list(context, &["clusters", id.as_str(), "inflight_checks"], &ListQuery::default()).await
    }

    /// One release, by its id such as `openshift-v4.20.8`.
    pub async fn version_get(&self, context: &Context, id: &str) -> Result<ReleaseVersion, Error> {
        read(self.call(Method::GET, &["versions", id]).context(context).send().await?).await
    }

    /// The releases that a query matches, oldest first.
    pub async fn version_list(
        &self,
        context: &Context,
        query: &ListQuery,
    ) -> Result<List<ReleaseVersion>, Error> {
        self.list(context, &["versions"], query).await
    }

    /// One cluster.
    pub async fn cluster_get(&self, context: &Context, id: &ClusterId) -> Result<Cluster, Error> {
        read(self.call(Method::GET, &["clusters", id.as_str()]).context(context).send().await?).await
    }

    /// The clusters that a query matches.
    pub async fn cluster_list(&self, context: &Context, query: &ListQuery) -> Result<List<Cluster>, Error> {
        self.list(context, &["clusters"], query).await
    }

    /// Asks for a cluster to be deleted. It is gone when [`Self::cluster_get`] or a watch says so.
    pub async fn cluster_delete(&self, context: &Context, id: &ClusterId) -> Result<(), Error> {
        accepted(self.call(Method::DELETE, &["clusters", id.as_str()]).context(context).send().await?).await
    }

    /// Deletes a cluster without waiting for its management cluster, if that is lost or has had its time. The answer is what
    /// may be left there.
    pub async fn cluster_abandon(&self, context: &Context, id: &ClusterId) -> Result<LeftBehind, Error> {
        let mut url = self.url(&["clusters", id.as_str()]);
        url.set_query(Some("best_effort=true"));
        read(self.http.call(Method::DELETE, url).context(context).send().await?).await
    }

    /// Creates a node pool, or finds the one that the same operation created before.
    pub async fn node_pool_create(
        &self,
        context: &Context,
        cluster: &ClusterId,
        node_pool: &NewNodePool,
    ) -> Result<NodePool, Error> {
        let call = self.call(Method::POST, &["clusters", cluster.as_str(), "node_pools"]);
        read(call.context(context).json(node_pool).idempotent().send().await?).await
    }

    /// Checks what creating a node pool would be refused for, and changes nothing.
    pub async fn node_pool_preflight(
        &self,
        context: &Context,
        cluster: &ClusterId,
        node_pool: &NewNodePool,
    ) -> Result<NodePool, Error> {
        let call = self.dry_run(Method::POST, &["clusters", cluster.as_str(), "node_pools"]);
        read(call.context(context).json(node_pool).idempotent().send().await?).await
    }

    /// One node pool.
    pub async fn node_pool_get(
        &self,
        context: &Context,
        cluster: &ClusterId,
        id: &NodePoolId,
    ) -> Result<NodePool, Error> {
        let path = ["clusters", cluster.as_str(), "node_pools", id.as_str()];
        read(self.call(Method::GET, &path).context(context).send().await?).await
    }

    /// The node pools of a cluster.
    pub async fn node_pool_list(
        &self,
        context: &Context,
        cluster: &ClusterId,
        query: &ListQuery,
    ) -> Result<List<NodePool>, Error> {
        self.list(context, &["clusters", cluster.as_str(), "node_pools"], query).await
    }

    /// Asks for a node pool to be changed, or finds that the same operation asked before. It is done when the node pool
    /// is ready again.
    pub async fn node_pool_update(
        &self,
        context: &Context,
        cluster: &ClusterId,
        id: &NodePoolId,
        update: &NodePoolUpdate,
    ) -> Result<NodePool, Error> {
        let path = ["clusters", cluster.as_str(), "node_pools", id.as_str()];
        read(self.call(Method::PATCH, &path).context(context).json(update).idempotent().send().await?).await
    }

    /// Checks what changing a node pool would be refused for, and changes nothing.
    pub async fn node_pool_update_preflight(
        &self,
        context: &Context,
        cluster: &ClusterId,
        id: &NodePoolId,
        update: &NodePoolUpdate,
    ) -> Result<NodePool, Error> {
        let call = self.dry_run(Method::PATCH, &["clusters", cluster.as_str(), "node_pools", id.as_str()]);
        read(call.context(context).json(update).idempotent().send().await?).await
    }

    /// Asks for a node pool to be deleted. It is gone when [`Self::node_pool_get`] or a watch says so.
    pub async fn node_pool_delete(
        &self,
        context: &Context,
        cluster: &ClusterId,
        id: &NodePoolId,
    ) -> Result<(), Error> {
        let path = ["clusters", cluster.as_str(), "node_pools", id.as_str()];
        accepted(self.call(Method::DELETE, &path).context(context).send().await?).await
    }

    /// Follows all clusters and what belongs to them: from a cursor, or from the beginning with everything there is.
    ///
    /// The stream ends when the connection does, with [`Error::Silent`] when nothing is heard for several times
    /// [`HEARTBEAT`](crate::HEARTBEAT): watch again from the last cursor seen.
    ///
    /// # Errors
    ///
    /// [`Error::is_gone`] when the cursor is too old: watch again without one.
    pub async fn watch(
        &self,
        after: Option<&Cursor>,
    ) -> Result<impl Stream<Item = Result<Event, Error>> + Send + use<>, Error> {
        self.events(None, after).await
    }

    /// The same of one cluster and what belongs to it. The service reads nothing else to begin with.
    ///
    /// # Errors
    ///
    /// As [`Self::watch`].
    pub async fn watch_cluster(
        &self,
        cluster: &ClusterId,
        after: Option<&Cursor>,
    ) -> Result<impl Stream<Item = Result<Event, Error>> + Send + use<>, Error> {
        self.events(Some(cluster), after).await
    }

    async fn events(
        &self,
        cluster: Option<&ClusterId>,
        after: Option<&Cursor>,
    ) -> Result<impl Stream<Item = Result<Event, Error>> + Send + use<>, Error> {
        let mut url = self.url(&["events"]);
        let cluster = cluster.map(|cluster| ("cluster", cluster.as_str()));
        let after = after.map(|after| ("after", after.as_str()));
        for (name, value) in cluster.into_iter().chain(after) {
            url.query_pairs_mut().append_pair(name, value);
        }
        let response = self.http.get(url).streaming().send().await?;
        if response.status() == StatusCode::OK {
            return Ok(watch::events(response));
        }
        Err(refusal(response).await)
    }

    async fn list<T: DeserializeOwned>(
        &self,
        context: &Context,
        path: &[&str],
        query: &ListQuery,
    ) -> Result<List<T>, Error> {
        let mut url = self.url(path);
        append(&mut url, query);
        read(self.http.get(url).context(context).send().await?).await
    }

    fn call(&self, method: Method, path: &[&str]) -> Call {
        self.http.call(method, self.url(path))
    }

    /// A call that only asks what would be.
    fn dry_run(&self, method: Method, path: &[&str]) -> Call {
        let mut url = self.url(path);
        url.set_query(Some("dryRun=true"));
        self.http.call(method, url)
    }

    fn url(&self, path: &[&str]) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.extend(path);
        }
        url
    }
}

fn append(url: &mut Url, query: &ListQuery) {
    let ListQuery { search, order, page, size } = query;
    let mut pairs = url.query_pairs_mut();
    let texts = [("search", search.clone()), ("order", order.clone())];
    let numbers = [("page", page.map(|page| page.to_string())), ("size", size.map(|size| size.to_string()))];
    for (name, value) in texts.into_iter().chain(numbers) {
        if let Some(value) = value {
            pairs.append_pair(name, &value);
        }
    }
}

async fn read<T: DeserializeOwned>(response: Response) -> Result<T, Error> {
    if !response.status().is_success() {
        return Err(refusal(response).await);
    }
    let status = response.status();
    let body = response.bytes().await?;
    serde_json::from_slice(&body).map_err(|error| Error::Unreadable { status, source: Some(error) })
}

async fn accepted(response: Response) -> Result<(), Error> {
    if response.status().is_success() { Ok(()) } else { Err(refusal(response).await) }
}

async fn refusal(response: Response) -> Error {
    let status = response.status();
    match response.bytes().await {
        Ok(body) => match serde_json::from_slice::<ErrorBody>(&body) {
            Ok(body) => Error::Refused(Box::new(body)),
            Err(error) => match serde_json::from_slice::<Problem>(&body) {
                Ok(Problem { error }) if error.code == CALLER_NOT_ALLOWED => Error::NotAllowed(error.message),
                _ => Error::Unreadable { status, source: Some(error) },
            },
        },
        Err(error) => error.into(),
    }
}

/// How a listener answers that lets in only whom it knows: before the service is asked at all.
#[derive(Deserialize)]
struct Problem {
    error: ProblemDetails,
}

#[derive(Deserialize)]
struct ProblemDetails {
    code: String,
    message: String,
}

const CALLER_NOT_ALLOWED: &str = "CallerNotAllowed";
