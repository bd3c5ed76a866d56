//! A small client of the cloud's resource manager: what a cluster needs before it can be installed.
//!
//! Everything is made with `If-None-Match: *`. What is there already is looked at: if it carries the cluster's mark it is
//! brought up to date, as after a crash; if not, it is somebody else's, and is neither changed nor deleted.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use futures::future::join;
use http::header::{IF_MATCH, IF_NONE_MATCH};
use http::{HeaderName, Method, StatusCode};
use pilothouse_arm::ResourceId;
use pilothouse_arm::dns::{RecordData, RecordSet};
use pilothouse_clusters_service_api::{Cluster, LeftBehindObject};
use pilothouse_http::{CallError, Client, Context, Response};
use pilothouse_runtime::fault;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value, json};
use url::Url;

use crate::manifests::CLUSTER_ID_LABEL;
use crate::record::{ClusterRecord, Prepared};

mod drift;
mod removal;
mod vault;

/// How long one call may take, retries included.
const DEADLINE: Duration = Duration::from_secs(30);

/// Versions of the resource manager's APIs, by what they are of.
const RESOURCE_GROUPS: &str = "2021-04-01";
const DNS_ZONES: &str = "2018-05-01";
const NETWORK: &str = "2024-05-01";
const IDENTITIES: &str = "2023-01-31";
const VAULTS: &str = "2023-07-01";

/// On whose behalf components act in the customer's subscription.
pub(crate) const OPERATORS: [&str; 2] = ["control-plane", "data-plane"];
/// How much of its id is in the name of a cluster's vault, which may have 24 characters. Its prefix is not, because a real
/// cloud gives away the name of a vault that has gone only later, and the prefix at once.
const VAULT_ID: usize = 20;
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
    /// What every cluster pulls with.
    pull_secret: SecretString,
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
    #[error(
        "`{path}` does not say any more that it is cluster `{id}`'s, which made it, and is not deleted; mark it with \
         `api.openshift.com/id: {id}` again (a group by a tag, a record set in its metadata), or remove it yourself"
    )]
    Unmarked { path: String, id: String },
}

impl Cloud {
    pub(crate) fn new(
        http: Client,
        base: Url,
        base_zone: Option<ResourceId>,
        pull_secret: SecretString,
    ) -> Self {
        Self { http, base, base_zone, pull_secret }
    }

    fn pull_secret(&self) -> &str {
        self.pull_secret.expose_secret()
    }

    /// Makes sure of the managed resource group and what is in it, and last of all of the delegation that leads to its
    /// names. Safe to repeat. Answers what manifests need to know of it.
    ///
    /// What does not need one another is made at once. Whatever fails, the rest is waited for: a request that is still on its
    /// way could arrive after its cluster is deleted.
    pub(crate) async fn ensure(
        &self,
        record: &ClusterRecord,
        context: &Context,
    ) -> Result<Option<Prepared>, CloudFailure> {
        let cluster = &record.cluster;
        let work = Work { cloud: self, cluster, context };
        let paths = Paths::of(cluster);
        work.ensure_group(&paths.group).await?;
        let network = Box::pin(work.ensure_network(&paths));
        let secrets = Box::pin(work.ensure_secrets(&paths, record));
        let (servers, prepared) = join(network, secrets).await;
        let (servers, prepared) = (servers?, prepared?);
        if let Some(delegation) = delegation(self.base_zone.as_ref(), cluster) {
            if servers.is_empty() {
                return Err(CloudFailure::Incomplete(paths.zone, "its name servers"));
            }
            work.ensure(&delegation, DNS_ZONES, &work.record_set(RecordData::Ns(servers))).await?;
        }
        Ok(prepared)
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
    vault: String,
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
            vault: format!("{group}/providers/Microsoft.KeyVault/vaults/{}", vault_name(cluster)),
            group,
            zone,
        }
    }
}

// === impl Work ===

impl Work<'_> {
    /// The cluster's mark, for what has tags.
    fn tags(&self) -> Value {
        json!({CLUSTER_ID_LABEL: self.cluster.id})
    }

    /// Makes sure of the zone, the address, and what leads from the one to the other. Answers who answers for the zone.
    async fn ensure_network(&self, paths: &Paths) -> Result<Vec<String>, CloudFailure> {
        let body = json!({"location": "global", "tags": self.tags(), "properties": {"zoneType": "Public"}});
        let zone = self.ensure(&paths.zone, DNS_ZONES, &body);
        let (zone, address) = join(zone, self.ensure_address(&paths.address)).await;
        let (zone, address) = (zone?, address?);
        let (record, data) = match address {
            IpAddr::V4(address) => (&paths.records[0], RecordData::A(vec![address])),
            IpAddr::V6(address) => (&paths.records[1], RecordData::Aaaa(vec![address])),
        };
        let set = self.record_set(data);
        let record = self.ensure(record, DNS_ZONES, &set);
        let (record, balancer) = join(record, self.ensure_balancer(paths)).await;
        record?;
        balancer?;
        Ok(texts(&zone["properties"]["nameServers"]))
    }

    async fn ensure_address(&self, path: &str) -> Result<IpAddr, CloudFailure> {
        let body = json!({"location": self.cluster.region.id, "tags": self.tags(), "sku": {"name": "Standard"},
                          "properties": {"publicIPAllocationMethod": "Static"}});
        let made = self.ensure(path, NETWORK, &body).await?;
        let address = made["properties"]["ipAddress"].as_str().and_then(|text| text.parse().ok());
        address.ok_or_else(|| CloudFailure::Incomplete(path.to_owned(), "its address"))
    }

    async fn ensure_balancer(&self, paths: &Paths) -> Result<(), CloudFailure> {
        let frontend = json!({"name": "api", "properties": {"publicIPAddress": {"id": paths.address},
                              "domainNameLabel": format!("api.{}", zone(self.cluster))}});
        let body = json!({"location": self.cluster.region.id, "tags": self.tags(), "sku": {"name": "Standard"},
                          "properties": {"frontendIPConfigurations": [frontend]}});
        self.ensure(&paths.balancer, NETWORK, &body).await.map(drop)
    }

    /// Answers what the identity is known by.
    async fn ensure_identity(&self, path: &str) -> Result<String, CloudFailure> {
        let body = json!({"location": self.cluster.region.id, "tags": self.tags()});
        let made = self.ensure(path, IDENTITIES, &body).await?;
        let client_id = client_id(&made).map(str::to_owned);
        client_id.ok_or_else(|| CloudFailure::Incomplete(path.to_owned(), "its client's id"))
    }

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

    /// Makes a resource, or brings the cluster's own up to date. Answers it as it is then.
    async fn ensure(&self, path: &str, version: &str, body: &Value) -> Result<Value, CloudFailure> {
        match self.create(path, version, body).await? {
            Some(made) => Ok(made),
            None => self.replace(path, version, body).await,
        }
    }

    /// Makes a resource; none if there is one.
    async fn create(&self, path: &str, version: &str, body: &Value) -> Result<Option<Value>, CloudFailure> {
        let new = Some((IF_NONE_MATCH, "*"));
        let answer = self.call(Method::PUT, path, version, Some(body), new).await?;
        match answer.status() {
            status if status.is_success() => Ok(Some(answer.json().await?)),
            StatusCode::PRECONDITION_FAILED => Ok(None),
            _ => Err(refused(Method::PUT, path.to_owned(), answer).await),
        }
    }

    /// Brings a resource up to date, if it is the cluster's.
    async fn replace(&self, path: &str, version: &str, body: &Value) -> Result<Value, CloudFailure> {
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

    /// Which state of a resource this is; an error if it does not carry the cluster's mark.
    fn own_etag(&self, path: &str, found: &Value) -> Result<String, CloudFailure> {
        let mark = mark(found);
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

    /// Everything in a list, however many parts it comes in; none if there is nothing that it would be a list of.
    async fn list(&self, path: &str, version: &str) -> Result<Option<Vec<Value>>, CloudFailure> {
        let mut url = self.url(path, version);
        let mut listed = Vec::new();
        loop {
            let answer = self.send(Method::GET, url.clone(), None, None).await?;
            let mut page: Value = match answer.status() {
                StatusCode::NOT_FOUND => return Ok(None),
                StatusCode::OK => answer.json().await?,
                _ => return Err(refused(Method::GET, path.to_owned(), answer).await),
            };
            if let Some(value) = page["value"].as_array_mut() {
                listed.append(value);
            }
            // At the address that we know it by.
            match page["nextLink"].as_str().and_then(|link| Url::parse(link).ok()) {
                Some(next) if next.query() != url.query() => url.set_query(next.query()),
                _ => return Ok(Some(listed)),
            }
        }
    }

    fn url(&self, path: &str, version: &str) -> Url {
        let mut url = self.cloud.base.clone();
        url.set_path(path);
        url.query_pairs_mut().append_pair("api-version", version);
        url
    }

    async fn call(
        &self,
        method: Method,
        path: &str,
        version: &str,
        body: Option<&Value>,
        condition: Option<(HeaderName, &str)>,
    ) -> Result<Response, CloudFailure> {
        self.send(method, self.url(path, version), body, condition).await
    }

    async fn send(
        &self,
        method: Method,
        url: Url,
        body: Option<&Value>,
        condition: Option<(HeaderName, &str)>,
    ) -> Result<Response, CloudFailure> {
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

/// Whose a resource says that it is. Record sets have no tags.
fn mark(found: &Value) -> Option<&str> {
    [&found["tags"], &found["properties"]["metadata"]]
        .into_iter()
        .find_map(|marks| marks[CLUSTER_ID_LABEL].as_str())
}

/// What an identity is known by, for as long as it exists.
fn client_id(identity: &Value) -> Option<&str> {
    identity["properties"]["clientId"].as_str()
}

fn vault_name(cluster: &Cluster) -> String {
    let id: String = cluster.id.as_str().chars().take(VAULT_ID).collect();
    format!("kv-{id}")
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

/// The directory of the cluster's subscription, if it says which.
pub(crate) fn directory(cluster: &Cluster) -> &str {
    cluster.azure.tenant_id.as_deref().unwrap_or("00000000-0000-0000-0000-000000000000")
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
