//! A small client of the cloud's resource manager: what a cluster needs before it can be installed.

use std::time::Duration;

use http::{Method, StatusCode};
use pilothouse_clusters_service_api::Cluster;
use pilothouse_http::{CallError, Client, Context, Response};
use serde_json::{Value, json};
use url::Url;

/// How long one call may take, retries included.
const DEADLINE: Duration = Duration::from_secs(30);

/// Versions of the resource manager's APIs, by what they are of.
const RESOURCE_GROUPS: &str = "2021-04-01";
const DNS_ZONES: &str = "2018-05-01";
const LOAD_BALANCERS: &str = "2024-05-01";
const IDENTITIES: &str = "2023-01-31";

/// On whose behalf components act in the customer's subscription.
const OPERATORS: [&str; 2] = ["control-plane", "data-plane"];

/// The cloud's resource manager. A cheap handle.
#[derive(Clone, Debug)]
pub(crate) struct Cloud {
    http: Client,
    base: Url,
}

/// Why the cloud did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CloudFailure {
    #[error("the cloud's resource manager did not answer")]
    Call(#[from] CallError),
    #[error("the cloud's resource manager refused {method} {path} with {status}: {message}")]
    Refused { method: Method, path: String, status: StatusCode, message: String },
    #[error("resource group `{0}` is still being deleted")]
    StillThere(String),
    #[error("resource group `{group}` belongs to `{owner}`; name another managed resource group")]
    Foreign { group: String, owner: String },
}

impl Cloud {
    pub(crate) fn new(http: Client, base: Url) -> Self {
        Self { http, base }
    }

    /// Makes sure of the managed resource group and what is in it. Safe to repeat.
    pub(crate) async fn ensure(&self, cluster: &Cluster, context: &Context) -> Result<(), CloudFailure> {
        let group = group_path(cluster);
        let owner = cluster.azure.resource_id();
        self.check_owner(cluster, &group, &owner, context).await?;
        let location = &cluster.region.id;
        let tags = json!({"api.openshift.com/id": cluster.id});
        let body = json!({"location": location, "managedBy": owner, "tags": tags});
        self.put(&group, RESOURCE_GROUPS, &body, context).await?;

        let zone = format!("{}.{}", cluster.domain_prefix, cluster.dns.base_domain);
        let zone_path = format!("{group}/providers/Microsoft.Network/dnsZones/{zone}");
        let body = json!({"location": "global", "tags": tags, "properties": {"zoneType": "Public"}});
        self.put(&zone_path, DNS_ZONES, &body, context).await?;

        let balancer =
            format!("{group}/providers/Microsoft.Network/loadBalancers/{}-api", cluster.domain_prefix);
        let frontend = json!({"name": "api", "properties": {"domainNameLabel": format!("api.{zone}")}});
        let body = json!({"location": location, "tags": tags, "sku": {"name": "Standard"},
                          "properties": {"frontendIPConfigurations": [frontend]}});
        self.put(&balancer, LOAD_BALANCERS, &body, context).await?;

        for operator in OPERATORS {
            let identity = format!(
                "{group}/providers/Microsoft.ManagedIdentity/userAssignedIdentities/{}-{operator}",
                cluster.domain_prefix
            );
            self.put(&identity, IDENTITIES, &json!({"location": location, "tags": tags}), context).await?;
        }
        Ok(())
    }

    /// Deletes the managed resource group, if it is this cluster's, and everything in it. Safe to repeat.
    pub(crate) async fn delete(&self, cluster: &Cluster, context: &Context) -> Result<(), CloudFailure> {
        let group = group_path(cluster);
        match self.check_owner(cluster, &group, &cluster.azure.resource_id(), context).await {
            Ok(true) => {}
            // Somebody else's group was refused when the cluster was made, and is none of ours now.
            Ok(false) | Err(CloudFailure::Foreign { .. }) => return Ok(()),
            Err(error) => return Err(error),
        }
        let answer = self.call(Method::DELETE, &group, RESOURCE_GROUPS, None, context).await?;
        match answer.status() {
            StatusCode::OK | StatusCode::NO_CONTENT | StatusCode::NOT_FOUND => Ok(()),
            // Accepted is not done: the next look finds out.
            StatusCode::ACCEPTED => {
                Err(CloudFailure::StillThere(cluster.azure.managed_resource_group_name.clone()))
            }
            _ => Err(refused(Method::DELETE, group, answer).await),
        }
    }

    /// Whether the group exists; an error if it is managed by somebody else.
    async fn check_owner(
        &self,
        cluster: &Cluster,
        path: &str,
        owner: &str,
        context: &Context,
    ) -> Result<bool, CloudFailure> {
        let answer = self.call(Method::GET, path, RESOURCE_GROUPS, None, context).await?;
        match answer.status() {
            StatusCode::NOT_FOUND => Ok(false),
            StatusCode::OK => {
                let group: Value = answer.json().await?;
                let found = group["managedBy"].as_str().unwrap_or_default();
                if found.eq_ignore_ascii_case(owner) {
                    return Ok(true);
                }
                let group = cluster.azure.managed_resource_group_name.clone();
                let owner = if found.is_empty() { "somebody else" } else { found }.to_owned();
                Err(CloudFailure::Foreign { group, owner })
            }
            _ => Err(refused(Method::GET, path.to_owned(), answer).await),
        }
    }

    async fn put(
        &self,
        path: &str,
        api_version: &str,
        body: &Value,
        context: &Context,
    ) -> Result<(), CloudFailure> {
        let answer = self.call(Method::PUT, path, api_version, Some(body), context).await?;
        if answer.status().is_success() {
            return Ok(());
        }
        Err(refused(Method::PUT, path.to_owned(), answer).await)
    }

    async fn call(
        &self,
        method: Method,
        path: &str,
        api_version: &str,
        body: Option<&Value>,
        context: &Context,
    ) -> Result<Response, CloudFailure> {
        let mut url = self.base.clone();
        url.set_path(path);
        url.query_pairs_mut().append_pair("api-version", api_version);
        let mut call = self.http.call(method, url).context(context).deadline(DEADLINE);
        if let Some(body) = body {
            call = call.json(body);
        }
        Ok(call.send().await?)
    }
}

fn group_path(cluster: &Cluster) -> String {
    let azure = &cluster.azure;
    format!("/subscriptions/{}/resourceGroups/{}", azure.subscription_id, azure.managed_resource_group_name)
}

async fn refused(method: Method, path: String, answer: Response) -> CloudFailure {
    let status = answer.status();
    let body: Value = answer.json().await.unwrap_or_default();
    let message = body["error"]["message"].as_str().unwrap_or("without a reason").to_owned();
    CloudFailure::Refused { method, path, status, message }
}
