//! A small client of the cloud's resource manager: what a cluster needs before it can be installed.
//!
//! Everything is made with `If-None-Match: *`. What is there already is looked at: if it carries the cluster's mark it is
//! brought up to date, as after a crash; if not, it is somebody else's, and is neither changed nor deleted.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use http::header::{IF_MATCH, IF_NONE_MATCH};
use http::{HeaderName, Method, StatusCode};
use pilothouse_arm::ResourceId;
use pilothouse_arm::dns::{RecordData, RecordSet};
use pilothouse_clusters_service_api::Cluster;
use pilothouse_http::{CallError, Client, Context, Response};
use serde_json::{Value, json};
use url::Url;

use crate::manifests::CLUSTER_ID_LABEL;

/// How long one call may take, retries included.
const DEADLINE: Duration = Duration::from_secs(30);

/// Versions of the resource manager's APIs, by what they are of.
const RESOURCE_GROUPS: &str = "2021-04-01";
const DNS_ZONES: &str = "2018-05-01";
const NETWORK: &str = "2024-05-01";
const IDENTITIES: &str = "2023-01-31";

/// On whose behalf components act in the customer's subscription.
const OPERATORS: [&str; 2] = ["control-plane", "data-plane"];
/// How long records may be kept by whoever asked for them, in seconds. Clusters come and go quickly.
const RECORD_LIFE: u32 = 60;

/// The cloud's resource manager. A cheap handle.
#[derive(Clone, Debug)]
pub(crate) struct Cloud {
    http: Client,
    base: Url,
    /// The zone that clusters' zones are delegated from, if it is ours to write.
    base_zone: Option<ResourceId>,
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
    #[error(
        "`{path}` belongs to {owner} and is left as it is; remove it, or create the cluster with another \
         `dns.baseDomainPrefix`"
    )]
    ForeignResource { path: String, owner: String },
    #[error("`{0}` does not say {1}; it is asked again")]
    Incomplete(String, &'static str),
    #[error("`{0}` was changed by somebody else meanwhile; it is looked at again")]
    Changed(String),
}

impl Cloud {
    pub(crate) fn new(http: Client, base: Url, base_zone: Option<ResourceId>) -> Self {
        Self { http, base, base_zone }
    }

    /// Makes sure of the managed resource group and what is in it, and last of all of the delegation that leads to its
    /// names. Safe to repeat.
    pub(crate) async fn ensure(&self, cluster: &Cluster, context: &Context) -> Result<(), CloudFailure> {
        let work = Work { cloud: self, cluster, context };
        let group = group_path(cluster);
        work.ensure_group(&group).await?;
        let (location, prefix) = (&cluster.region.id, &cluster.domain_prefix);
        let tags = json!({CLUSTER_ID_LABEL: cluster.id});

        let zone = format!("{prefix}.{}", cluster.dns.base_domain);
        let zone_path = format!("{group}/providers/Microsoft.Network/dnsZones/{zone}");
        let body = json!({"location": "global", "tags": tags, "properties": {"zoneType": "Public"}});
        let made = work.ensure(&zone_path, DNS_ZONES, &body).await?;
        let servers: Vec<_> = texts(&made["properties"]["nameServers"]);

        let address_path = format!("{group}/providers/Microsoft.Network/publicIPAddresses/{prefix}-api");
        let body = json!({"location": location, "tags": tags, "sku": {"name": "Standard"},
                          "properties": {"publicIPAllocationMethod": "Static"}});
        let made = work.ensure(&address_path, NETWORK, &body).await?;
        let address = made["properties"]["ipAddress"].as_str().and_then(|text| text.parse().ok());
        let unknown = || CloudFailure::Incomplete(address_path.clone(), "its address");
        let address = address.ok_or_else(unknown)?;

        let balancer = format!("{group}/providers/Microsoft.Network/loadBalancers/{prefix}-api");
        let frontend = json!({"name": "api", "properties": {"publicIPAddress": {"id": address_path},
                              "domainNameLabel": format!("api.{zone}")}});
        let body = json!({"location": location, "tags": tags, "sku": {"name": "Standard"},
                          "properties": {"frontendIPConfigurations": [frontend]}});
        work.ensure(&balancer, NETWORK, &body).await?;

        let (kind, data) = match address {
            IpAddr::V4(address) => ("A", RecordData::A(vec![address])),
            IpAddr::V6(address) => ("AAAA", RecordData::Aaaa(vec![address])),
        };
        work.ensure(&format!("{zone_path}/{kind}/api"), DNS_ZONES, &work.record_set(data)).await?;

        for operator in OPERATORS {
            let identity = format!(
                "{group}/providers/Microsoft.ManagedIdentity/userAssignedIdentities/{prefix}-{operator}"
            );
            work.ensure(&identity, IDENTITIES, &json!({"location": location, "tags": tags})).await?;
        }
        if let Some(delegation) = self.delegation(cluster) {
            if servers.is_empty() {
                return Err(CloudFailure::Incomplete(zone_path, "its name servers"));
            }
            work.ensure(&delegation, DNS_ZONES, &work.record_set(RecordData::Ns(servers))).await?;
        }
        Ok(())
    }

    /// Deletes what leads to the cluster's names, and the managed resource group with everything in it: each if it is this
    /// cluster's. Safe to repeat.
    pub(crate) async fn delete(&self, cluster: &Cluster, context: &Context) -> Result<(), CloudFailure> {
        let work = Work { cloud: self, cluster, context };
        if let Some(delegation) = self.delegation(cluster) {
            work.delete_own(&delegation, DNS_ZONES).await?;
        }
        let group = group_path(cluster);
        match work.is_own_group(&group).await {
            Ok(true) => {}
            // Somebody else's group was refused when the cluster was made, and is none of ours now.
            Ok(false) | Err(CloudFailure::Foreign { .. }) => return Ok(()),
            Err(error) => return Err(error),
        }
        let answer = work.call(Method::DELETE, &group, RESOURCE_GROUPS, None, None).await?;
        match answer.status() {
            StatusCode::OK | StatusCode::NO_CONTENT | StatusCode::NOT_FOUND => Ok(()),
            // Accepted is not done: the next look finds out.
            StatusCode::ACCEPTED => {
                Err(CloudFailure::StillThere(cluster.azure.managed_resource_group_name.clone()))
            }
            _ => Err(refused(Method::DELETE, group, answer).await),
        }
    }

    /// The record set of the region's zone that leads to the cluster's.
    fn delegation(&self, cluster: &Cluster) -> Option<String> {
        let zone = self.base_zone.as_ref()?;
        // One that was made in another domain was delegated by somebody else.
        let is_ours = zone.name().eq_ignore_ascii_case(&cluster.dns.base_domain);
        is_ours.then(|| zone.child("NS", &cluster.domain_prefix).into())
    }
}

/// What is done for one cluster.
struct Work<'a> {
    cloud: &'a Cloud,
    cluster: &'a Cluster,
    context: &'a Context,
}

// === impl Work ===

impl Work<'_> {
    async fn ensure_group(&self, path: &str) -> Result<(), CloudFailure> {
        let cluster = self.cluster;
        let body = json!({"location": cluster.region.id, "managedBy": cluster.azure.resource_id(),
                          "tags": {CLUSTER_ID_LABEL: cluster.id}});
        let new = Some((IF_NONE_MATCH, "*"));
        let answer = self.call(Method::PUT, path, RESOURCE_GROUPS, Some(&body), new).await?;
        match answer.status() {
            status if status.is_success() => Ok(()),
            StatusCode::PRECONDITION_FAILED if self.is_own_group(path).await? => Ok(()),
            StatusCode::PRECONDITION_FAILED => Err(CloudFailure::Changed(path.to_owned())),
            _ => Err(refused(Method::PUT, path.to_owned(), answer).await),
        }
    }

    /// Whether the group exists; an error if it is managed by somebody else.
    async fn is_own_group(&self, path: &str) -> Result<bool, CloudFailure> {
        let Some(group) = self.get(path, RESOURCE_GROUPS).await? else { return Ok(false) };
        let azure = &self.cluster.azure;
        let found = group["managedBy"].as_str().unwrap_or_default();
        if found.eq_ignore_ascii_case(&azure.resource_id()) {
            return Ok(true);
        }
        let owner = if found.is_empty() { "somebody else" } else { found }.to_owned();
        Err(CloudFailure::Foreign { group: azure.managed_resource_group_name.clone(), owner })
    }

    /// Makes a resource, or brings the cluster's own up to date. Answers it as it is then.
    async fn ensure(&self, path: &str, version: &str, body: &Value) -> Result<Value, CloudFailure> {
        let new = Some((IF_NONE_MATCH, "*"));
        let answer = self.call(Method::PUT, path, version, Some(body), new).await?;
        if answer.status().is_success() {
            return Ok(answer.json().await?);
        }
        if answer.status() != StatusCode::PRECONDITION_FAILED {
            return Err(refused(Method::PUT, path.to_owned(), answer).await);
        }
        let Some(found) = self.get(path, version).await? else {
            return Err(CloudFailure::Changed(path.to_owned()));
        };
        let etag = self.own_etag(path, &found)?;
        let answer = self.call(Method::PUT, path, version, Some(body), Some((IF_MATCH, &etag))).await?;
        match answer.status() {
            status if status.is_success() => Ok(answer.json().await?),
            StatusCode::PRECONDITION_FAILED => Err(CloudFailure::Changed(path.to_owned())),
            _ => Err(refused(Method::PUT, path.to_owned(), answer).await),
        }
    }

    /// Deletes a resource if it is the cluster's.
    async fn delete_own(&self, path: &str, version: &str) -> Result<(), CloudFailure> {
        let Some(found) = self.get(path, version).await? else { return Ok(()) };
        let etag = match self.own_etag(path, &found) {
            Ok(etag) => etag,
            // It was refused when the cluster was made, and is none of ours now.
            Err(CloudFailure::ForeignResource { .. }) => return Ok(()),
            Err(error) => return Err(error),
        };
        let answer = self.call(Method::DELETE, path, version, None, Some((IF_MATCH, &etag))).await?;
        match answer.status() {
            StatusCode::OK | StatusCode::NO_CONTENT | StatusCode::NOT_FOUND => Ok(()),
            StatusCode::PRECONDITION_FAILED => Err(CloudFailure::Changed(path.to_owned())),
            _ => Err(refused(Method::DELETE, path.to_owned(), answer).await),
        }
    }

    /// Which state of a resource this is; an error if it does not carry the cluster's mark.
    fn own_etag(&self, path: &str, found: &Value) -> Result<String, CloudFailure> {
        // Record sets have no tags.
        let mark = [&found["tags"], &found["properties"]["metadata"]];
        let mark = mark.iter().find_map(|marks| marks[CLUSTER_ID_LABEL].as_str());
        if mark == Some(self.cluster.id.as_str()) {
            return Ok(found["etag"].as_str().unwrap_or("*").to_owned());
        }
        let owner = mark.map_or_else(|| "somebody else".to_owned(), |id| format!("cluster `{id}`"));
        Err(CloudFailure::ForeignResource { path: path.to_owned(), owner })
    }

    fn record_set(&self, data: RecordData) -> Value {
        let mark = (CLUSTER_ID_LABEL.to_owned(), self.cluster.id.to_string());
        let set = RecordSet { seconds: RECORD_LIFE, data, metadata: BTreeMap::from([mark]) };
        json!({"properties": set.properties()})
    }

    async fn get(&self, path: &str, version: &str) -> Result<Option<Value>, CloudFailure> {
        let answer = self.call(Method::GET, path, version, None, None).await?;
        match answer.status() {
            StatusCode::NOT_FOUND => Ok(None),
            StatusCode::OK => Ok(Some(answer.json().await?)),
            _ => Err(refused(Method::GET, path.to_owned(), answer).await),
        }
    }

    async fn call(
        &self,
        method: Method,
        path: &str,
        version: &str,
        body: Option<&Value>,
        condition: Option<(HeaderName, &str)>,
    ) -> Result<Response, CloudFailure> {
        let mut url = self.cloud.base.clone();
        url.set_path(path);
        url.query_pairs_mut().append_pair("api-version", version);
        let mut call = self.cloud.http.call(method, url).context(self.context).deadline(DEADLINE);
        if let Some((name, value)) = condition {
            call = call.header(name, value);
        }
        if let Some(body) = body {
            call = call.json(body);
        }
        Ok(call.send().await?)
    }
}

fn texts(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(|text| text.as_str().map(str::to_owned)).collect()
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
