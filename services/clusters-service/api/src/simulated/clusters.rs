//! Clusters of the simulated service.

use axum::extract::State as Shares;
use axum::extract::{Path, RawQuery};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use http::StatusCode;
use jiff::Timestamp;
use serde_json::json;

use super::refusal::Refusal;
use super::service::{Handles, answer, body, cluster_id, created, is_dry_run, list_query, page};
use super::state::{Kept, State};
use super::{Resource, search, versions};
use crate::{
    BASES, Change, Cluster, ClusterId, ClusterState, ClusterStatus, ClusterUpdate, DOMAIN_PREFIX, Dns,
    Enabled, InflightCheck, NewCluster, Reference, UpgradePolicy,
};

/// Below which all names are.
const BASE_DOMAIN: &str = "simulated.test";

impl State {
    pub(super) fn cluster_create(
        &mut self,
        new: NewCluster,
        dry_run: bool,
        now: Timestamp,
    ) -> Result<Cluster, Refusal> {
        for (field, value) in [
            ("name", &new.name),
            ("azure.subscription_id", &new.azure.subscription_id),
            ("azure.resource_group_name", &new.azure.resource_group_name),
            ("azure.resource_name", &new.azure.resource_name),
            ("azure.managed_resource_group_name", &new.azure.managed_resource_group_name),
        ] {
            if value.is_empty() {
                return Err(Refusal::field("InvalidField", field, "it is required"));
            }
        }
        let resource = new.azure.resource_id();
        if let Some(id) = self.of_resource.get(&resource) {
            let kept = &self.clusters[id];
            let cluster = kept.again(&format!("a cluster for `{resource}`"), &new.properties)?.clone();
            return Ok(cluster);
        }
        let version = versions::known(new.version.clone())?;
        let prefix = match &new.domain_prefix {
            Some(prefix) if prefix.is_empty() => {
                return Err(Refusal::field("InvalidField", DOMAIN_PREFIX, "it is empty; leave it out"));
            }
            Some(prefix) if self.prefixes.contains(prefix) => {
                let problem = format!("`{prefix}` is taken in this region");
                return Err(Refusal::field("DomainPrefixTaken", DOMAIN_PREFIX, &problem));
            }
            Some(prefix) => prefix.clone(),
            None => self.free_prefix(&new.name),
        };
        let number = self.next_number();
        let id = match &new.id {
            Some(id) => id.clone(),
            None => format!("{number:0>32}").parse().expect("32 digits are an id"),
        };
        if self.clusters.contains_key(&id) {
            return Err(Refusal::conflict(format!("cluster id `{id}` is taken")));
        }
        let cluster = Cluster {
            kind: "Cluster".to_owned(),
            href: format!("{}/clusters/{id}", BASES[0]),
            id,
            name: new.name,
            creation_timestamp: now,
            region: new.region.unwrap_or_else(|| Reference::new("simulated")),
            cloud_provider: Reference::new("azure"),
            product: Reference::new("aro"),
            hypershift: Enabled { enabled: true },
            ccs: Enabled { enabled: true },
            domain_prefix: prefix,
            dns: Dns { base_domain: BASE_DOMAIN.to_owned() },
            version,
            network: new.network,
            api: crate::Api { url: None, ..new.api },
            fips: new.fips,
            ingresses: new.ingresses,
            image_registry: new.image_registry,
            registry_config: new.registry_config,
            autoscaler: new.autoscaler,
            node_drain_grace_period: new.node_drain_grace_period,
            properties: new.properties,
            azure: new.azure,
            state: ClusterState::Validating,
            status: ClusterStatus { description: "accepted".to_owned(), ..ClusterStatus::default() },
        };
        if dry_run {
            return Ok(cluster);
        }
        let id = cluster.id.clone();
        self.of_resource.insert(resource, id.clone());
        self.prefixes.insert(cluster.domain_prefix.clone());
        self.clusters.insert(id.clone(), Kept::new(cluster.clone(), &cluster.properties));
        self.tell(Change::Cluster(Box::new(cluster.clone())));
        self.walk(&Resource::Cluster(id), now);
        Ok(cluster)
    }

    fn free_prefix(&mut self, name: &str) -> String {
        let short: String = name.chars().take(10).collect();
        let short = short.trim_end_matches('-').to_owned();
        if !self.prefixes.contains(&short) {
            return short;
        }
        format!("{short}-{:x}", self.next_number())
    }

    fn cluster_update(
        &mut self,
        id: &ClusterId,
        update: ClusterUpdate,
        dry_run: bool,
        now: Timestamp,
    ) -> Result<Cluster, Refusal> {
        let mut after = self.staying(id)?.clone();
        let ClusterUpdate {
            node_drain_grace_period,
            api,
            registry_config,
            autoscaler,
            azure,
            version,
            properties,
        } = update;
        if !self.clusters[id].is_new(&properties) {
            return Ok(after);
        }
        if after.state != ClusterState::Ready && after.state != ClusterState::Error {
            return Err(Refusal::conflict(format!("cluster `{id}` is not ready; wait until it is")));
        }
        let before = after.clone();
        after.node_drain_grace_period = node_drain_grace_period.or(after.node_drain_grace_period);
        after.api.cidr_block_access =
            api.and_then(|api| api.cidr_block_access).or(after.api.cidr_block_access);
        after.registry_config = registry_config.or(after.registry_config);
        after.autoscaler = autoscaler.or(after.autoscaler);
        if let Some(wanted) = azure.as_ref().and_then(|azure| azure.key_version()) {
            let encryption = after.azure.etcd_encryption.as_mut();
            let kms =
                encryption.and_then(|etcd| etcd.data_encryption.customer_managed.as_mut()?.kms.as_mut());
            let Some(kms) = kms else {
                let problem = "the cluster is not encrypted with a key of the customer's";
                return Err(Refusal::field("InvalidField", "azure.etcd_encryption", problem));
            };
            kms.active_key.key_version = wanted.to_owned();
        }
        if let Some(version) = version {
            after.version = versions::upgrade(&after.version, version)?;
        }
        let changed = before != after;
        after.properties.extend(properties.clone());
        if changed {
            after.enter(ClusterState::Updating, "the change was accepted".to_owned());
        }
        if dry_run {
            return Ok(after);
        }
        let kept = self.clusters.get_mut(id).ok_or_else(|| Refusal::not_found("Cluster", id.as_str()))?;
        kept.changed(&properties);
        kept.value = after.clone();
        self.tell(Change::Cluster(Box::new(after.clone())));
        self.walk(&Resource::Cluster(id.clone()), now);
        Ok(after)
    }

    fn cluster_delete(&mut self, id: &ClusterId, now: Timestamp) -> Result<(), Refusal> {
        self.cluster(id)?;
        let Some(kept) = self.clusters.get_mut(id) else { return Ok(()) };
        if kept.value.state != ClusterState::Uninstalling {
            kept.value.enter(ClusterState::Uninstalling, "its deletion was asked for".to_owned());
            let told = Change::Cluster(Box::new(kept.value.clone()));
            self.tell(told);
        }
        self.walk(&Resource::Cluster(id.clone()), now);
        Ok(())
    }
}

impl Cluster {
    /// Enters a state, with what goes along with it.
    pub(super) fn enter(&mut self, state: ClusterState, description: String) {
        self.state = state;
        self.status.state = state;
        self.status.description = description;
        if state != ClusterState::Error {
            self.status.provision_error_code = None;
            self.status.provision_error_message = None;
        }
        if state == ClusterState::Ready {
            self.status.dns_ready = true;
            self.status.oidc_ready = true;
            let url = format!("https://api.{}.{}:443", self.domain_prefix, self.dns.base_domain);
            self.api.url.get_or_insert(url);
        }
    }
}

pub(super) async fn list(Shares(shared): Handles, RawQuery(query): RawQuery) -> Response {
    let outcome = list_query(query.as_deref()).and_then(|query| {
        let conditions = search::parse(query.search.as_deref().unwrap_or_default())?;
        let state = shared.lock();
        let clusters = state.clusters.values().map(|kept| &kept.value);
        let found = clusters.filter(|cluster| search::matches(&conditions, cluster)).cloned().collect();
        page("ClusterList", found, &query)
    });
    answer(StatusCode::OK, outcome)
}

pub(super) async fn create(Shares(shared): Handles, RawQuery(query): RawQuery, bytes: Bytes) -> Response {
    let dry_run = is_dry_run(query.as_deref());
    let outcome =
        body(&bytes).and_then(|new| shared.change(|state, now| state.cluster_create(new, dry_run, now)));
    answer(created(dry_run), outcome)
}

pub(super) async fn get(Shares(shared): Handles, Path(id): Path<String>) -> Response {
    answer(StatusCode::OK, cluster_id(&id).and_then(|id| shared.lock().cluster(&id).cloned()))
}

pub(super) async fn status(Shares(shared): Handles, Path(id): Path<String>) -> Response {
    let outcome = cluster_id(&id).and_then(|id| Ok(shared.lock().cluster(&id)?.status.clone()));
    answer(StatusCode::OK, outcome)
}

pub(super) async fn update(
    Shares(shared): Handles,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
    bytes: Bytes,
) -> Response {
    let dry_run = is_dry_run(query.as_deref());
    let outcome = cluster_id(&id).and_then(|id| {
        let update = body(&bytes)?;
        shared.change(|state, now| state.cluster_update(&id, update, dry_run, now))
    });
    answer(StatusCode::OK, outcome)
}

pub(super) async fn delete(Shares(shared): Handles, Path(id): Path<String>) -> Response {
    let outcome = cluster_id(&id).and_then(|id| shared.change(|state, now| state.cluster_delete(&id, now)));
    match outcome {
        Ok(()) => StatusCode::NO_CONTENT.into_response(),
        Err(refusal) => refusal.into_response(),
    }
}

/// Nothing of the customer's is looked at, so nothing is wrong with it.
pub(super) async fn inflight_checks(Shares(shared): Handles, Path(id): Path<String>) -> Response {
    let outcome = cluster_id(&id).and_then(|id| {
        shared.lock().cluster(&id)?;
        page("InflightCheckList", Vec::<InflightCheck>::new(), &crate::ListQuery::default())
    });
    answer(StatusCode::OK, outcome)
}

pub(super) async fn upgrade_policies(Shares(shared): Handles, Path(id): Path<String>) -> Response {
    let outcome = cluster_id(&id).and_then(|id| {
        shared.lock().cluster(&id)?;
        page("ControlPlaneUpgradePolicyList", Vec::<UpgradePolicy>::new(), &crate::ListQuery::default())
    });
    answer(StatusCode::OK, outcome)
}

pub(super) async fn hypershift(Shares(shared): Handles, Path(id): Path<String>) -> Response {
    let outcome = cluster_id(&id).and_then(|id| {
        shared.lock().cluster(&id)?;
        Ok(json!({"enabled": true, "management_cluster": "simulated", "hcp_namespace": format!("ocm-simulated-{id}")}))
    });
    answer(StatusCode::OK, outcome)
}

/// The one management cluster there would be.
pub(super) async fn provision_shard(Shares(shared): Handles, Path(id): Path<String>) -> Response {
    let outcome = cluster_id(&id).and_then(|id| {
        let region = shared.lock().cluster(&id)?.region.clone();
        Ok(crate::ProvisionShard {
            kind: "ProvisionShard".to_owned(),
            id: "simulated".to_owned(),
            href: format!("{}/provision_shards/simulated", BASES[0]),
            topology: "shared".to_owned(),
            region,
            cloud_provider: Reference::new("azure"),
            ..crate::ProvisionShard::default()
        })
    });
    answer(StatusCode::OK, outcome)
}
