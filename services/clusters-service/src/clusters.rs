//! What callers can do with clusters and node pools: the application behind the REST paths.

use std::sync::Arc;

use pilothouse_clusters_service_api::{
    Cluster, ClusterId, InflightCheck, List, ListQuery, NewCluster, NewNodePool, NodePool, NodePoolId,
    NodePoolUpdate, ReleaseVersion,
};
use pilothouse_http::Context;
use pilothouse_runtime::Clock;
use pilothouse_store::{Conflict, Decision, Error as StoreError};
use serde::Serialize;
use serde_json::Value;

use crate::config::Config;
use crate::record::{ClusterRecord, Deletion, NodePoolRecord};
use crate::records::{NotCreated, Records};
use crate::refusal::Refusal;
use crate::search::{Expression, Order, Subject};
use crate::{admission, catalogue, cluster_id, prefix};

mod abandon;
mod credentials;
mod external_auths;
mod shards;
mod update;
mod upgrade_policies;

pub(crate) use upgrade_policies::Upgraded;

/// How often a creation starts over because somebody else took what it had chosen.
const ATTEMPTS: usize = 10;
/// The same where many are made of one cluster at once, each of which writes it: every time one of them got on.
const TURNS: usize = 100;
/// How many items a page has unless asked otherwise, and at most.
const PAGE: u32 = 100;
const LARGEST_PAGE: u32 = 10_000;

/// Clusters and node pools. A cheap handle.
#[derive(Clone, Debug)]
pub(crate) struct Clusters {
    pub(crate) records: Records,
    pub(crate) config: Arc<Config>,
    pub(crate) clock: Clock,
}

/// Whether a creation, a change or a deletion is carried out or only tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Create,
    DryRun,
}

impl Clusters {
    /// Creates a cluster, or finds the one that the same operation created before.
    pub(crate) async fn cluster_create(
        &self,
        context: &Context,
        mut new: NewCluster,
        mode: Mode,
    ) -> Result<Cluster, Refusal> {
        let origin = admission::origin(&mut new.properties, context.correlation_id());
        let asked_prefix = new.domain_prefix.clone();
        let name = new.azure.resource_name.clone();
        let id = new.id.clone().map_or_else(cluster_id::random, Ok)?;
        let cluster = admission::cluster(new, id, &self.config, self.clock.now())?;
        let mut record = ClusterRecord::new(cluster, origin);

        for attempt in 0..ATTEMPTS {
            let resource = record.cluster.azure.resource_id();
            if let Some(existing) = self.records.cluster_of_resource(&resource).await? {
                return found(existing.value, &record);
            }
            record.cluster.domain_prefix =
                self.choose_prefix(asked_prefix.as_deref(), &name, attempt).await?;
            if mode == Mode::DryRun {
                self.place(&mut record).await?;
                return Ok(record.cluster);
            }
            match self.cluster_write(&mut record).await? {
                Ok(()) => return Ok(record.cluster),
                Err(NotCreated::PrefixTaken) => {
                    if let Some(prefix) = asked_prefix {
                        return Err(Refusal::PrefixTaken(prefix));
                    }
                }
                // Somebody created it in between: look again.
                Err(NotCreated::ResourceTaken) => {}
                Err(NotCreated::IdTaken) => {
                    return Err(Refusal::Conflict(format!("cluster id `{}` is taken", record.cluster.id)));
                }
                Err(NotCreated::SeatTaken) => {
                    return Err(Refusal::Busy("which management cluster has room".to_owned()));
                }
                Err(NotCreated::Store(error)) => return Err(error.into()),
            }
        }
        Err(Refusal::Conflict(format!(
            "no free domain prefix was found for `{name}`; name one in `domain_prefix`"
        )))
    }

    /// The prefix to try next: the one asked for, else the ARM name itself, else that with a random ending.
    async fn choose_prefix(
        &self,
        asked: Option<&str>,
        name: &str,
        attempt: usize,
    ) -> Result<String, Refusal> {
        if let Some(asked) = asked {
            return match self.records.domain_prefix_owner(asked).await? {
                None => Ok(asked.to_owned()),
                Some(_) => Err(Refusal::PrefixTaken(asked.to_owned())),
            };
        }
        if attempt == 0
            && let Some(own) = prefix::of_name(name)
            && self.records.domain_prefix_owner(&own).await?.is_none()
        {
            return Ok(own);
        }
        Ok(prefix::random(name))
    }

    pub(crate) async fn cluster_get(&self, id: &ClusterId) -> Result<Cluster, Refusal> {
        Ok(self.cluster_record(id).await?.cluster)
    }

    pub(crate) async fn cluster_list(&self, query: ListQuery) -> Result<List<Cluster>, Refusal> {
        let expression = searched(&query, Subject::Clusters)?;
        let order = ordered(&query, Subject::Clusters)?;
        let backwards = order.as_ref().map_or(Some(false), Order::of_ids);
        if let (None, Some(backwards)) = (&expression, backwards) {
            let Window { page, first, size } = window(&query)?;
            let (records, total) = self.records.cluster_page(first, size, backwards).await?;
            let items = records.into_iter().map(|record| record.cluster).collect();
            return Ok(page_of("ClusterList", page, total, items));
        }
        let subscription =
            expression.as_ref().and_then(|expression| expression.required(&["azure", "subscription_id"]));
        let (records, _) = self.records.cluster_list(subscription).await?;
        let clusters = records.into_iter().map(|record| record.cluster);
        list("ClusterList", clusters, expression.as_ref(), &query, Subject::Clusters)
    }

    /// Asks for a cluster to be deleted; asking again changes nothing.
    pub(crate) async fn cluster_delete(&self, id: &ClusterId, mode: Mode) -> Result<(), Refusal> {
        let now = self.clock.now();
        let updated = self.records.cluster_update(id, |record| {
            if record.deletion.is_some() || mode == Mode::DryRun {
                return Decision::Keep;
            }
            record.deletion = Some(Deletion { requested_at: now });
            let state = pilothouse_clusters_service_api::ClusterState::Uninstalling;
            record.enter(state, "its deletion was asked for; its node pools go first", now);
            Decision::Write
        });
        match updated.await {
            Ok(_) => Ok(()),
            Err(StoreError::Conflict(Conflict::Missing { .. })) => {
                Err(Refusal::cluster_not_found(id.as_str()))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// What of the customer's was looked at.
    pub(crate) async fn inflight_checks(&self, id: &ClusterId) -> Result<List<InflightCheck>, Refusal> {
        let checks = self.cluster_record(id).await?.checks;
        let size = u32::try_from(checks.len()).unwrap_or(u32::MAX);
        Ok(List { kind: "InflightCheckList".to_owned(), page: 1, size, total: size, items: checks })
    }

    /// One of these, by its id.
    pub(crate) async fn inflight_check(
        &self,
        id: &ClusterId,
        check: String,
    ) -> Result<InflightCheck, Refusal> {
        let mut checks = self.cluster_record(id).await?.checks.into_iter();
        let found = checks.find(|found| found.id == check);
        found.ok_or(Refusal::NotFound { kind: "Inflight check", id: check })
    }

    /// The releases that a query matches, oldest first.
    pub(crate) fn version_list(&self, query: &ListQuery) -> Result<List<ReleaseVersion>, Refusal> {
        let expression = searched(query, Subject::Versions)?;
        let all = catalogue::all(&self.config).into_iter();
        list("VersionList", all, expression.as_ref(), query, Subject::Versions)
    }

    /// Creates a node pool, or finds the one that the same operation created before.
    pub(crate) async fn node_pool_create(
        &self,
        context: &Context,
        cluster: &ClusterId,
        mut new: NewNodePool,
        mode: Mode,
    ) -> Result<NodePool, Refusal> {
        let origin = admission::origin(&mut new.properties, context.correlation_id());
        for _ in 0..TURNS {
            let Some(stored) = self.records.cluster_get(cluster).await? else {
                return Err(Refusal::cluster_not_found(cluster.as_str()));
            };
            if let Some(existing) = self.records.node_pool_get(cluster, &new.id).await? {
                let NodePoolRecord { node_pool, origin: former, deletion, .. } = existing.value;
                if former.operation_id.is_some() && former.operation_id == origin.operation_id {
                    return Ok(node_pool);
                }
                return Err(taken("node pool", new.id.as_str(), deletion.is_some()));
            }
            if stored.value.deletion.is_some() {
                let reason = format!("cluster `{cluster}` is being deleted; it takes no more node pools");
                return Err(Refusal::Conflict(reason));
            }
            let node_pool =
                admission::node_pool(new.clone(), &stored.value.cluster, &self.config, self.clock.now())?;
            if mode == Mode::DryRun {
                return Ok(node_pool);
            }
            let record = NodePoolRecord::new(node_pool, origin.clone());
            match self.records.node_pool_create(&stored, &record).await {
                Ok(()) => return Ok(record.node_pool),
                // The cluster, or the pool, was written in between: look again.
                Err(StoreError::Conflict(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(Refusal::Busy(format!("cluster `{cluster}`")))
    }

    pub(crate) async fn node_pool_get(
        &self,
        cluster: &ClusterId,
        id: &NodePoolId,
    ) -> Result<NodePool, Refusal> {
        match self.records.node_pool_get(cluster, id).await? {
            Some(stored) => Ok(stored.value.node_pool),
            None => Err(Refusal::node_pool_not_found(id.as_str())),
        }
    }

    pub(crate) async fn node_pool_list(
        &self,
        cluster: &ClusterId,
        query: ListQuery,
    ) -> Result<List<NodePool>, Refusal> {
        self.cluster_record(cluster).await?;
        let expression = searched(&query, Subject::NodePools)?;
        let stored = self.records.node_pool_list(cluster).await?;
        let node_pools = stored.into_iter().map(|stored| stored.value.node_pool);
        list("NodePoolList", node_pools, expression.as_ref(), &query, Subject::NodePools)
    }

    /// Asks for a node pool to be changed. The same operation again changes nothing.
    pub(crate) async fn node_pool_update(
        &self,
        context: &Context,
        cluster: &ClusterId,
        id: &NodePoolId,
        mut update: NodePoolUpdate,
        mode: Mode,
    ) -> Result<NodePool, Refusal> {
        let origin = admission::origin(&mut update.properties, context.correlation_id());
        for _ in 0..ATTEMPTS {
            let Some(owner) = self.records.cluster_get(cluster).await? else {
                return Err(Refusal::cluster_not_found(cluster.as_str()));
            };
            let update = admission::node_pool_update(update.clone(), &owner.value.cluster, &self.config)?;
            if owner.value.deletion.is_some() {
                let reason = format!("cluster `{cluster}` is being deleted; its node pools go with it");
                return Err(Refusal::Conflict(reason));
            }
            let Some(stored) = self.records.node_pool_get(cluster, id).await? else {
                return Err(Refusal::node_pool_not_found(id.as_str()));
            };
            if stored.value.deletion.is_some() {
                return Err(taken("node pool", id.as_str(), true));
            }
            let mut after = stored.value.clone();
            if !after.change(&update, &origin, self.clock.now()) {
                return Ok(stored.value.node_pool);
            }
            if mode == Mode::DryRun {
                return Ok(after.node_pool);
            }
            match self.records.node_pool_change(&owner, &after, &stored.etag).await {
                Ok(()) => return Ok(after.node_pool),
                // The cluster, or the pool, was written in between: look again.
                Err(StoreError::Conflict(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(Refusal::Busy(format!("cluster `{cluster}`")))
    }

    /// Asks for a node pool to be deleted; asking again changes nothing.
    pub(crate) async fn node_pool_delete(
        &self,
        cluster: &ClusterId,
        id: &NodePoolId,
        mode: Mode,
    ) -> Result<(), Refusal> {
        let now = self.clock.now();
        let updated = self.records.node_pool_update(cluster, id, |record| {
            if record.deletion.is_some() || mode == Mode::DryRun {
                return Decision::Keep;
            }
            record.deletion = Some(Deletion { requested_at: now });
            let state = pilothouse_clusters_service_api::NodePoolStateValue::Uninstalling;
            record.enter(state, "its deletion was asked for", now);
            Decision::Write
        });
        updated.await.map(drop).map_err(|error| node_pool_error(error, id))
    }

    async fn cluster_record(&self, id: &ClusterId) -> Result<ClusterRecord, Refusal> {
        match self.records.cluster_get(id).await? {
            Some(stored) => Ok(stored.value),
            None => Err(Refusal::cluster_not_found(id.as_str())),
        }
    }
}

/// The cluster an ARM resource has already: the answer if it is the same operation's.
fn found(existing: ClusterRecord, asked: &ClusterRecord) -> Result<Cluster, Refusal> {
    let same =
        existing.origin.operation_id.is_some() && existing.origin.operation_id == asked.origin.operation_id;
    if same {
        return Ok(existing.cluster);
    }
    Err(taken("a cluster for", &asked.cluster.azure.resource_id(), existing.deletion.is_some()))
}

fn node_pool_error(error: StoreError, id: &NodePoolId) -> Refusal {
    match error {
        StoreError::Conflict(Conflict::Missing { .. }) => Refusal::node_pool_not_found(id.as_str()),
        error => error.into(),
    }
}

fn taken(kind: &str, name: &str, deleting: bool) -> Refusal {
    if deleting {
        return Refusal::Conflict(format!("{kind} `{name}` is being deleted; wait until it is gone"));
    }
    Refusal::Conflict(format!("{kind} `{name}` exists, made by another operation"))
}

/// What is searched for, if anything is.
fn searched(query: &ListQuery, subject: Subject) -> Result<Option<Expression>, Refusal> {
    let search = query.search.as_deref().filter(|text| !text.trim().is_empty());
    Ok(search.map(|text| Expression::parse(text, subject)).transpose()?)
}

fn list<T: Serialize>(
    kind: &str,
    items: impl Iterator<Item = T>,
    expression: Option<&Expression>,
    query: &ListQuery,
    subject: Subject,
) -> Result<List<T>, Refusal> {
    let order = ordered(query, subject)?;
    let Window { page, first, size } = window(query)?;
    // As JSON only where something looks into them.
    let looked_into = expression.is_some() || order.is_some();
    let as_json =
        |item: &T| if looked_into { serde_json::to_value(item).unwrap_or_default() } else { Value::Null };
    let mut found: Vec<(Value, T)> = items
        .map(|item| (as_json(&item), item))
        .filter(|(json, _)| expression.is_none_or(|expression| expression.matches(json)))
        .collect();
    if let Some(order) = order {
        found.sort_by(|(left, _), (right, _)| order.compare(left, right));
    }
    let total = found.len();
    let items = found.into_iter().skip(first).take(size).map(|(_, item)| item).collect();
    Ok(page_of(kind, page, total, items))
}

/// In which order, if one was asked for.
fn ordered(query: &ListQuery, subject: Subject) -> Result<Option<Order>, Refusal> {
    let order = query.order.as_deref().filter(|text| !text.trim().is_empty());
    Ok(order.map(|text| Order::parse(text, subject)).transpose()?)
}

/// Which part of a list is asked for.
struct Window {
    page: u32,
    first: usize,
    size: usize,
}

fn window(query: &ListQuery) -> Result<Window, Refusal> {
    let page = query.page.unwrap_or(1);
    if page == 0 {
        return Err(Refusal::Query { name: "page", problem: "pages are counted from one".to_owned() });
    }
    let size = query.size.unwrap_or(PAGE).min(LARGEST_PAGE) as usize;
    Ok(Window { page, first: (page as usize - 1).saturating_mul(size), size })
}

fn page_of<T>(kind: &str, page: u32, total: usize, items: Vec<T>) -> List<T> {
    let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    List { kind: kind.to_owned(), page, size: number(items.len()), total: number(total), items }
}
