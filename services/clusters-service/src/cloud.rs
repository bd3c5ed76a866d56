//! A small client of the cloud's resource manager: what a cluster needs before it can be installed.
//!
//! Everything is made with `If-None-Match: *`. What is there already is looked at: if it carries the cluster's mark it is
//! brought up to date, as after a crash; if not, it is somebody else's, and is neither changed nor deleted.

use std::collections::{BTreeMap, HashSet};
use std::net::IpAddr;
use std::time::Duration;

use http::header::{IF_MATCH, IF_NONE_MATCH};
use http::{HeaderName, Method, StatusCode};
use pilothouse_arm::ResourceId;
use pilothouse_arm::dns::{RecordData, RecordSet};
use pilothouse_clusters_service_api::{Cluster, LeftBehindObject};
use pilothouse_http::{CallError, Client, Context, Response};
use pilothouse_runtime::fault;
use serde_json::{Value, json};
use tracing::warn;
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

/// The points around a call that changes something in the cloud.
const WRITE: [&str; 2] = ["clusters-service.cloud.before", "clusters-service.cloud.after"];

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
        let paths = Paths::of(cluster);
        work.ensure_group(&paths.group).await?;
        let location = &cluster.region.id;
        let tags = json!({CLUSTER_ID_LABEL: cluster.id});

        let body = json!({"location": "global", "tags": tags, "properties": {"zoneType": "Public"}});
        let made = work.ensure(&paths.zone, DNS_ZONES, &body).await?;
        let servers: Vec<_> = texts(&made["properties"]["nameServers"]);

        let body = json!({"location": location, "tags": tags, "sku": {"name": "Standard"},
                          "properties": {"publicIPAllocationMethod": "Static"}});
        let made = work.ensure(&paths.address, NETWORK, &body).await?;
        let address = made["properties"]["ipAddress"].as_str().and_then(|text| text.parse().ok());
        let unknown = || CloudFailure::Incomplete(paths.address.clone(), "its address");
        let address = address.ok_or_else(unknown)?;

        let frontend = json!({"name": "api", "properties": {"publicIPAddress": {"id": paths.address},
                              "domainNameLabel": format!("api.{}", zone(cluster))}});
        let body = json!({"location": location, "tags": tags, "sku": {"name": "Standard"},
                          "properties": {"frontendIPConfigurations": [frontend]}});
        work.ensure(&paths.balancer, NETWORK, &body).await?;

        let (record, data) = match address {
            IpAddr::V4(address) => (&paths.records[0], RecordData::A(vec![address])),
            IpAddr::V6(address) => (&paths.records[1], RecordData::Aaaa(vec![address])),
        };
        work.ensure(record, DNS_ZONES, &work.record_set(data)).await?;

        for identity in &paths.identities {
            work.ensure(identity, IDENTITIES, &json!({"location": location, "tags": tags})).await?;
        }
        if let Some(delegation) = delegation(self.base_zone.as_ref(), cluster) {
            if servers.is_empty() {
                return Err(CloudFailure::Incomplete(paths.zone, "its name servers"));
            }
            work.ensure(&delegation, DNS_ZONES, &work.record_set(RecordData::Ns(servers))).await?;
        }
        Ok(())
    }

    /// What a cluster once had and has no more, by path. Only looks.
    pub(crate) async fn missing(
        &self,
        cluster: &Cluster,
        context: &Context,
    ) -> Result<Vec<String>, CloudFailure> {
        let work = Work { cloud: self, cluster, context };
        let Paths { group, zone, address, balancer, records, identities } = Paths::of(cluster);
        let Some(content) = work.get(&format!("{group}/resources"), RESOURCE_GROUPS).await? else {
            return Ok(vec![group]);
        };
        let there = content["value"].as_array().into_iter().flatten();
        let there: HashSet<_> =
            there.filter_map(|resource| resource["id"].as_str().map(str::to_lowercase)).collect();
        let resources = [zone, address, balancer].into_iter().chain(identities);
        let mut missing: Vec<_> = resources.filter(|path| !there.contains(&path.to_lowercase())).collect();
        // A group does not list what is in its zones.
        let [ipv4, ipv6] = records;
        if work.get(&ipv4, DNS_ZONES).await?.is_none() && work.get(&ipv6, DNS_ZONES).await?.is_none() {
            missing.push(ipv4);
        }
        if let Some(delegation) = delegation(self.base_zone.as_ref(), cluster)
            && work.get(&delegation, DNS_ZONES).await?.is_none()
        {
            missing.push(delegation);
        }
        Ok(missing)
    }

    /// Deletes what leads to the cluster's names, and the managed resource group with everything in it: each if it is this
    /// cluster's, and the second also if the first cannot be. Safe to repeat.
    pub(crate) async fn delete(&self, cluster: &Cluster, context: &Context) -> Result<(), CloudFailure> {
        let work = Work { cloud: self, cluster, context };
        let undelegated = match delegation(self.base_zone.as_ref(), cluster) {
            Some(delegation) => work.delete_own(&delegation, DNS_ZONES).await,
            None => Ok(()),
        };
        let removed = work.delete_group(group_path(cluster)).await;
        undelegated.and(removed)
    }
}

/// What a cluster may have in the cloud, for whoever has to look for it there: the group stands for everything in it.
pub(crate) fn left_behind(cluster: &Cluster, base_zone: Option<&ResourceId>) -> Vec<LeftBehindObject> {
    let object = |kind: &str, name: String| LeftBehindObject { kind: kind.to_owned(), namespace: None, name };
    let delegation = delegation(base_zone, cluster).map(|path| object("RecordSet", path));
    std::iter::once(object("ResourceGroup", group_path(cluster))).chain(delegation).collect()
}

/// Where what a cluster has is.
struct Paths {
    group: String,
    zone: String,
    address: String,
    balancer: String,
    /// Of the API's name, for either kind of address; there is one of them.
    records: [String; 2],
    identities: [String; OPERATORS.len()],
}

/// What is done for one cluster.
struct Work<'a> {
    cloud: &'a Cloud,
    cluster: &'a Cluster,
    context: &'a Context,
}

// === impl Paths ===

impl Paths {
    fn of(cluster: &Cluster) -> Self {
        let (group, prefix) = (group_path(cluster), &cluster.domain_prefix);
        let network = format!("{group}/providers/Microsoft.Network");
        let zone = format!("{network}/dnsZones/{}", zone(cluster));
        let identities = format!("{group}/providers/Microsoft.ManagedIdentity/userAssignedIdentities");
        Self {
            address: format!("{network}/publicIPAddresses/{prefix}-api"),
            balancer: format!("{network}/loadBalancers/{prefix}-api"),
            records: ["A", "AAAA"].map(|kind| format!("{zone}/{kind}/api")),
            identities: OPERATORS.map(|operator| format!("{identities}/{prefix}-{operator}")),
            group,
            zone,
        }
    }
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
            StatusCode::PRECONDITION_FAILED if self.own_group(path).await?.is_some() => Ok(()),
            StatusCode::PRECONDITION_FAILED => Err(CloudFailure::Changed(path.to_owned())),
            _ => Err(refused(Method::PUT, path.to_owned(), answer).await),
        }
    }

    /// Which state of the group this is, if there is one; an error if it is not this cluster's.
    ///
    /// That the same ARM resource manages it is not enough: it may be left over from a cluster of that name, or be one that
    /// somebody says so of. The mark is what only this cluster has put there.
    async fn own_group(&self, path: &str) -> Result<Option<String>, CloudFailure> {
        let Some(group) = self.get(path, RESOURCE_GROUPS).await? else { return Ok(None) };
        let azure = &self.cluster.azure;
        let found = group["managedBy"].as_str().unwrap_or_default();
        let mark = group["tags"][CLUSTER_ID_LABEL].as_str();
        if found.eq_ignore_ascii_case(&azure.resource_id()) {
            if mark == Some(self.cluster.id.as_str()) {
                return Ok(Some(group["etag"].as_str().unwrap_or("*").to_owned()));
            }
            let owner = mark.map_or_else(|| "somebody else".to_owned(), |id| format!("cluster {id}"));
            return Err(CloudFailure::Foreign { group: azure.managed_resource_group_name.clone(), owner });
        }
        let owner = if found.is_empty() { "somebody else" } else { found }.to_owned();
        Err(CloudFailure::Foreign { group: azure.managed_resource_group_name.clone(), owner })
    }

    /// Deletes the managed resource group with everything in it, if it is the cluster's.
    async fn delete_group(&self, group: String) -> Result<(), CloudFailure> {
        let etag = match self.own_group(&group).await {
            Ok(Some(etag)) => etag,
            Ok(None) => return Ok(()),
            // Somebody else's group was refused when the cluster was made, and is none of ours now.
            Err(CloudFailure::Foreign { owner, .. }) => {
                warn!(cluster = %self.cluster.id, group, owner, "the managed resource group is not this cluster's, and stays");
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        // As it was read: between the two somebody may have put another group into its place.
        let read = Some((IF_MATCH, etag.as_str()));
        let answer = self.call(Method::DELETE, &group, RESOURCE_GROUPS, None, read).await?;
        match answer.status() {
            StatusCode::OK | StatusCode::NO_CONTENT | StatusCode::NOT_FOUND => Ok(()),
            StatusCode::PRECONDITION_FAILED => Err(CloudFailure::Changed(group)),
            // Accepted is not done: the next look finds out.
            StatusCode::ACCEPTED => {
                Err(CloudFailure::StillThere(self.cluster.azure.managed_resource_group_name.clone()))
            }
            _ => Err(refused(Method::DELETE, group, answer).await),
        }
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
        let writes = method != Method::GET;
        let mut call = self.cloud.http.call(method, url).context(self.context).deadline(DEADLINE);
        if let Some((name, value)) = condition {
            call = call.header(name, value);
        }
        if let Some(body) = body {
            call = call.json(body);
        }
        let answer = call.send();
        Ok(if writes { fault::around(WRITE, answer).await? } else { answer.await? })
    }
}

fn texts(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(|text| text.as_str().map(str::to_owned)).collect()
}

/// The record set of the region's zone that leads to the cluster's.
fn delegation(base_zone: Option<&ResourceId>, cluster: &Cluster) -> Option<String> {
    // One that was made in another domain was delegated by somebody else.
    let zone = base_zone.filter(|zone| zone.name().eq_ignore_ascii_case(&cluster.dns.base_domain))?;
    Some(zone.child("NS", &cluster.domain_prefix).into())
}

/// The domain of a cluster.
fn zone(cluster: &Cluster) -> String {
    format!("{}.{}", cluster.domain_prefix, cluster.dns.base_domain)
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
