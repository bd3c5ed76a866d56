//! The typed layer over the store.
//!
//! Everything lies in one partition, because a cluster's creation has to be one transaction with two reservations:
//! its domain prefix, unique in the region, and its ARM resource, which makes creating twice create once. Both are
//! documents of their own whose id is the reserved name, so the store itself refuses the second one. The same transaction
//! counts the cluster on its management cluster, see `shards`.

use std::sync::Arc;
use std::time::Duration;

use pilothouse_clusters_service_api::{BreakGlassCredentialId, ClusterId, ClusterState, NodePoolId};
use pilothouse_store::{
    Catalog, Conflict, Container, Continue, Decision, Document, DocumentId, Error, Etag, Feed, Lease,
    Partition, Precondition, Query, Revision, Store, Transaction,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::sync::{Mutex, MutexGuard};

use crate::record::{ClusterRecord, CredentialRecord, NodePoolRecord, ShardRecord};

mod shards;
#[cfg(test)]
mod tests;

pub(crate) use shards::Seats;
use shards::{SHARD_USAGE, SHARDS, is_counted_elsewhere, is_shard_changed};

const CLUSTERS: &str = "clusters";
const NODE_POOLS: &str = "node-pools";
const CREDENTIALS: &str = "credentials";
const DOMAIN_PREFIXES: &str = "domain-prefixes";
const ARM_RESOURCES: &str = "arm-resources";
const GONE_CLUSTERS: &str = "gone-clusters";
const SUBSCRIPTION: &str = "subscription";
const CLUSTER: &str = "cluster";
const PARTITION: &str = "region";
/// How long it is remembered that a cluster was deleted here: what is found of it so much later is somebody's to judge.
const REMEMBERED: Duration = Duration::from_secs(30 * 24 * 3600);
/// How often a count is begun again because another replica was faster: there are few of them, and each time one got on.
pub(crate) const COUNTS: usize = 50;

/// What a store must be opened with to be this service's.
///
/// # Panics
///
/// Never: the declarations do not depend on anything.
pub fn catalog() -> Catalog {
    Catalog::try_new([
        clusters(),
        node_pools(),
        credentials(),
        Container::new(DOMAIN_PREFIXES),
        Container::new(ARM_RESOURCES),
        Container::new(GONE_CLUSTERS),
        Container::new(SHARDS),
        Container::new(SHARD_USAGE),
    ])
    .expect("the declarations are valid")
}

/// The key of a cluster's secrets is kept here as well: its manifests are made of it.
fn clusters() -> Container {
    Container::new(CLUSTERS)
        .with_index(SUBSCRIPTION, "/cluster/azure/subscription_id")
        .with_secret("/prepared/encryption_key")
}

fn node_pools() -> Container {
    Container::new(NODE_POOLS).with_index(CLUSTER, "/node_pool/cluster_id")
}

/// The key of a credential is the one secret of it.
fn credentials() -> Container {
    Container::new(CREDENTIALS).with_index(CLUSTER, "/credential/cluster_id").with_secret("/key")
}

/// All documents of the service. A cheap handle.
#[derive(Clone, Debug)]
pub(crate) struct Records {
    store: Store,
    partition: Partition,
    clusters: Container,
    node_pools: Container,
    credentials: Container,
    domain_prefixes: Container,
    arm_resources: Container,
    /// What was deleted here, and not merely lost: only of these may anything be removed without a record.
    gone_clusters: Container,
    shards: Container,
    shard_usage: Container,
    /// Held by whoever counts clusters.
    turns: Arc<Mutex<()>>,
}

/// A document's content, and the version it was read at.
#[derive(Clone, Debug)]
pub(crate) struct Stored<T> {
    pub(crate) value: T,
    pub(crate) etag: Etag,
}

/// Why a cluster was not created.
#[derive(Debug)]
pub(crate) enum NotCreated {
    /// Another cluster has the domain prefix.
    PrefixTaken,
    /// The ARM resource has a cluster.
    ResourceTaken,
    /// A cluster has the id.
    IdTaken,
    /// Another replica counted a cluster on the management cluster first, or that is not as it was when it was chosen.
    SeatTaken,
    Store(Error),
}

/// Something that happened to a document that somebody follows.
pub(crate) enum Entry {
    Cluster { before: Option<Box<ClusterRecord>>, after: Option<Box<ClusterRecord>> },
    NodePool { before: Option<Box<NodePoolRecord>>, after: Option<Box<NodePoolRecord>> },
    Shard { before: Option<Box<ShardRecord>>, after: Option<Box<ShardRecord>> },
    Credential { before: Option<Box<CredentialRecord>>, after: Option<Box<CredentialRecord>> },
}

/// A name that is not to be had, and whose it is or was.
#[derive(Serialize, Deserialize)]
struct Reservation {
    cluster_id: ClusterId,
}

/// What is read of a cluster that is only to be counted.
#[derive(Deserialize)]
struct Counted {
    cluster: CountedCluster,
}

#[derive(Deserialize)]
struct CountedCluster {
    state: ClusterState,
}

impl Records {
    pub(crate) fn try_new(store: Store) -> Result<Self, Error> {
        Ok(Self {
            store,
            partition: Partition::try_new(PARTITION)?,
            clusters: clusters(),
            node_pools: node_pools(),
            credentials: credentials(),
            domain_prefixes: Container::new(DOMAIN_PREFIXES),
            arm_resources: Container::new(ARM_RESOURCES),
            gone_clusters: Container::new(GONE_CLUSTERS),
            shards: Container::new(SHARDS),
            shard_usage: Container::new(SHARD_USAGE),
            turns: Arc::default(),
        })
    }

    pub(crate) async fn cluster_get(&self, id: &ClusterId) -> Result<Option<Stored<ClusterRecord>>, Error> {
        self.get(&self.clusters, &DocumentId::try_new(id.as_str())?).await
    }

    /// The cluster that stands for an ARM resource.
    pub(crate) async fn cluster_of_resource(
        &self,
        resource: &str,
    ) -> Result<Option<Stored<ClusterRecord>>, Error> {
        match self.get::<Reservation>(&self.arm_resources, &DocumentId::try_new(resource)?).await? {
            Some(reservation) => self.cluster_get(&reservation.value.cluster_id).await,
            None => Ok(None),
        }
    }

    /// Who has a domain prefix.
    pub(crate) async fn domain_prefix_owner(&self, prefix: &str) -> Result<Option<ClusterId>, Error> {
        let found = self.get::<Reservation>(&self.domain_prefixes, &DocumentId::try_new(prefix)?).await?;
        Ok(found.map(|reservation| reservation.value.cluster_id))
    }

    /// All clusters, or those of one subscription, and the revision the list is of.
    pub(crate) async fn cluster_list(
        &self,
        subscription: Option<&str>,
    ) -> Result<(Vec<ClusterRecord>, Revision), Error> {
        let mut query = Query::partition(&self.clusters, &self.partition);
        if let Some(subscription) = subscription {
            query = query.matching(SUBSCRIPTION, subscription.to_lowercase());
        }
        self.list(query).await
    }

    /// In which state each cluster was at a revision. What is secret of them is not opened for it.
    pub(crate) async fn cluster_states_at(&self, revision: Revision) -> Result<Vec<ClusterState>, Error> {
        let query = Query::partition(&self.clusters, &self.partition).at(revision).sealed();
        let records: Vec<Counted> = self.list(query).await?.0;
        Ok(records.into_iter().map(|record| record.cluster.state).collect())
    }

    /// One cluster, if it is there, and the revision at which that is so.
    pub(crate) async fn cluster_alone(
        &self,
        id: &ClusterId,
    ) -> Result<(Vec<ClusterRecord>, Revision), Error> {
        let query = Query::partition(&self.clusters, &self.partition).prefix(id.as_str());
        let (mut records, revision) = self.list::<ClusterRecord>(query).await?;
        records.retain(|record| record.cluster.id == *id);
        Ok((records, revision))
    }

    /// One page of all clusters in the order of their ids, or backwards, and how many there are in all. Of other pages' no
    /// more than their ids is read, so that going through all pages reads every cluster once.
    pub(crate) async fn cluster_page(
        &self,
        first: usize,
        size: usize,
        backwards: bool,
    ) -> Result<(Vec<ClusterRecord>, usize), Error> {
        let query = Query::partition(&self.clusters, &self.partition);
        let (ids, revision) = self.store.ids(query.clone()).await?;
        let total = ids.len();
        let last = first.saturating_add(size).min(total);
        if first >= last {
            return Ok((Vec::new(), total));
        }
        let (begin, end) = if backwards { (total - last, total - first) } else { (first, last) };
        // As it was when they were counted.
        let mut query = query.limit(end - begin).at(revision);
        if let Some(before) = begin.checked_sub(1) {
            query = query.from(Continue::behind(revision, &self.partition, &ids[before]));
        }
        let page = self.store.list(query).await?;
        let mut records: Vec<_> = page.documents.iter().map(Document::parse).collect::<Result<_, _>>()?;
        if backwards {
            records.reverse();
        }
        Ok((records, total))
    }

    pub(crate) async fn node_pool_get(
        &self,
        cluster: &ClusterId,
        id: &NodePoolId,
    ) -> Result<Option<Stored<NodePoolRecord>>, Error> {
        self.get(&self.node_pools, &node_pool_id(cluster, id)?).await
    }

    /// The node pools of one cluster, each at its version.
    pub(crate) async fn node_pool_list(
        &self,
        cluster: &ClusterId,
    ) -> Result<Vec<Stored<NodePoolRecord>>, Error> {
        let query = Query::partition(&self.node_pools, &self.partition).matching(CLUSTER, cluster.as_str());
        self.documents(query).await?.0.iter().map(stored).collect()
    }

    /// All node pools, or those of one cluster, as they were at a revision.
    pub(crate) async fn node_pool_list_at(
        &self,
        revision: Revision,
        cluster: Option<&ClusterId>,
    ) -> Result<Vec<NodePoolRecord>, Error> {
        let query = Query::partition(&self.node_pools, &self.partition).at(revision);
        Ok(self.list(of_cluster(query, cluster)).await?.0)
    }

    /// Until this is dropped nobody else of this process counts clusters.
    pub(crate) async fn turn(&self) -> MutexGuard<'_, ()> {
        self.turns.lock().await
    }

    /// Creates a cluster with everything it reserves, counted on its management cluster, or nothing.
    pub(crate) async fn cluster_create(
        &self,
        record: &ClusterRecord,
        seats: &Seats,
    ) -> Result<(), NotCreated> {
        let committed = async {
            let cluster = &record.cluster;
            let reservation = Reservation { cluster_id: cluster.id.clone() };
            let mut transaction = Transaction::new(self.partition.clone());
            transaction.create(
                &self.arm_resources,
                DocumentId::try_new(cluster.azure.resource_id())?,
                &reservation,
            )?;
            transaction.create(
                &self.domain_prefixes,
                DocumentId::try_new(&cluster.domain_prefix)?,
                &reservation,
            )?;
            transaction.create(&self.clusters, DocumentId::try_new(cluster.id.as_str())?, record)?;
            self.count_one_more(&mut transaction, seats)?;
            // It may have been forgotten, or put into maintenance, since it was chosen.
            let shard = DocumentId::try_new(&seats.shard.value.shard.id)?;
            transaction.check(&self.shards, shard, Precondition::Etag(seats.shard.etag.clone()));
            self.store.commit(&transaction).await
        };
        match committed.await {
            Ok(_) => Ok(()),
            Err(error) if is_counted_elsewhere(&error) || is_shard_changed(&error) => {
                Err(NotCreated::SeatTaken)
            }
            Err(Error::Conflict(Conflict::Exists { container, .. })) => Err(match container.as_str() {
                DOMAIN_PREFIXES => NotCreated::PrefixTaken,
                ARM_RESOURCES => NotCreated::ResourceTaken,
                _ => NotCreated::IdTaken,
            }),
            Err(error) => Err(NotCreated::Store(error)),
        }
    }

    /// Creates a node pool of a cluster that is still as it was read. Whatever is decided about that cluster by the node pools
    /// that it had is not written any more.
    pub(crate) async fn node_pool_create(
        &self,
        cluster: &Stored<ClusterRecord>,
        record: &NodePoolRecord,
    ) -> Result<(), Error> {
        let NodePoolRecord { node_pool, .. } = record;
        let mut transaction = Transaction::new(self.partition.clone());
        self.touch(&mut transaction, cluster)?;
        transaction.create(&self.node_pools, node_pool_id(&node_pool.cluster_id, &node_pool.id)?, record)?;
        self.store.commit(&transaction).await.map(drop)
    }

    /// Writes a cluster as it was read: what was decided by the same reading, and is written later, is decided again.
    fn touch(&self, transaction: &mut Transaction, cluster: &Stored<ClusterRecord>) -> Result<(), Error> {
        let id = DocumentId::try_new(cluster.value.cluster.id.as_str())?;
        transaction.put(&self.clusters, id, Precondition::Etag(cluster.etag.clone()), &cluster.value)?;
        Ok(())
    }

    /// Changes a node pool that is still as it was read, of a cluster that is so too.
    pub(crate) async fn node_pool_change(
        &self,
        cluster: &Stored<ClusterRecord>,
        record: &NodePoolRecord,
        etag: &Etag,
    ) -> Result<(), Error> {
        let NodePoolRecord { node_pool, .. } = record;
        let mut transaction = Transaction::new(self.partition.clone());
        let cluster_id = DocumentId::try_new(node_pool.cluster_id.as_str())?;
        transaction.check(&self.clusters, cluster_id, Precondition::Etag(cluster.etag.clone()));
        let id = node_pool_id(&node_pool.cluster_id, &node_pool.id)?;
        transaction.put(&self.node_pools, id, Precondition::Etag(etag.clone()), record)?;
        self.store.commit(&transaction).await.map(drop)
    }

    /// Changes a cluster, whatever it has become meanwhile.
    pub(crate) async fn cluster_update(
        &self,
        id: &ClusterId,
        change: impl FnMut(&mut ClusterRecord) -> Decision,
    ) -> Result<ClusterRecord, Error> {
        let id = DocumentId::try_new(id.as_str())?;
        self.store.update(&self.clusters, &self.partition, &id, change).await
    }

    /// Changes a node pool, whatever it has become meanwhile.
    pub(crate) async fn node_pool_update(
        &self,
        cluster: &ClusterId,
        id: &NodePoolId,
        change: impl FnMut(&mut NodePoolRecord) -> Decision,
    ) -> Result<NodePoolRecord, Error> {
        self.store.update(&self.node_pools, &self.partition, &node_pool_id(cluster, id)?, change).await
    }

    /// Writes what a pass over a cluster found, if nobody else has written meanwhile: all or nothing.
    pub(crate) async fn save(
        &self,
        cluster: Option<(&ClusterRecord, &Etag)>,
        node_pools: &[(&NodePoolRecord, &Etag)],
        credentials: &[(&CredentialRecord, &Etag)],
    ) -> Result<(), Error> {
        let mut transaction = Transaction::new(self.partition.clone());
        if let Some((record, etag)) = cluster {
            let id = DocumentId::try_new(record.cluster.id.as_str())?;
            transaction.put(&self.clusters, id, Precondition::Etag(etag.clone()), record)?;
        }
        self.put_all(&mut transaction, node_pools, credentials)?;
        if transaction.is_empty() {
            return Ok(());
        }
        self.store.commit(&transaction).await.map(drop)
    }

    /// The same for a plan that is about to be carried out: also what it does not change must be as it was read, and the
    /// lease under which it was made must still hold.
    pub(crate) async fn save_planned(
        &self,
        lease: &Lease,
        (read, etag): (&ClusterRecord, &Etag),
        cluster: Option<&ClusterRecord>,
        node_pools: &[(&NodePoolRecord, &Etag)],
        credentials: &[(&CredentialRecord, &Etag)],
    ) -> Result<(), Error> {
        let mut transaction = Transaction::new(self.partition.clone());
        let id = DocumentId::try_new(read.cluster.id.as_str())?;
        let expected = Precondition::Etag(etag.clone());
        match cluster {
            Some(record) => transaction.put(&self.clusters, id, expected, record)?,
            None => transaction.check(&self.clusters, id, expected),
        };
        self.put_all(&mut transaction, node_pools, credentials)?;
        transaction.fenced_by(lease);
        self.store.commit(&transaction).await.map(drop)
    }

    fn put_all(
        &self,
        transaction: &mut Transaction,
        node_pools: &[(&NodePoolRecord, &Etag)],
        credentials: &[(&CredentialRecord, &Etag)],
    ) -> Result<(), Error> {
        for (record, etag) in node_pools {
            let id = node_pool_id(&record.node_pool.cluster_id, &record.node_pool.id)?;
            transaction.put(&self.node_pools, id, Precondition::Etag((*etag).clone()), record)?;
        }
        for (record, etag) in credentials {
            let id = credential_id(&record.credential.cluster_id, &record.credential.id)?;
            transaction.put(&self.credentials, id, Precondition::Etag((*etag).clone()), record)?;
        }
        Ok(())
    }

    /// Whether a cluster was deleted here. One that has no record and was not is lost, or somebody else's.
    pub(crate) async fn cluster_is_gone(&self, id: &ClusterId) -> Result<bool, Error> {
        let id = DocumentId::try_new(id.as_str())?;
        Ok(self.store.get(&self.gone_clusters, &self.partition, &id).await?.is_some())
    }

    /// Forgets a cluster, but for its having been here, and gives back what it reserved.
    pub(crate) async fn cluster_remove(&self, cluster: &Stored<ClusterRecord>) -> Result<(), Error> {
        let Cluster { id, azure, prefix } = Cluster::of(&cluster.value)?;
        let _turn = self.turn().await;
        for attempt in 1.. {
            let mut transaction = Transaction::new(self.partition.clone());
            transaction.delete(&self.clusters, id.clone(), Precondition::Etag(cluster.etag.clone()));
            let gone = Reservation { cluster_id: cluster.value.cluster.id.clone() };
            transaction.put_expiring(
                &self.gone_clusters,
                id.clone(),
                Precondition::Any,
                &gone,
                REMEMBERED,
            )?;
            transaction.delete(&self.domain_prefixes, prefix.clone(), Precondition::Any);
            transaction.delete(&self.arm_resources, azure.clone(), Precondition::Any);
            self.count_one_fewer(&mut transaction, &cluster.value.shard).await?;
            match self.store.commit(&transaction).await {
                Err(error) if is_counted_elsewhere(&error) && attempt < COUNTS => {}
                outcome => return outcome.map(drop),
            }
        }
        Ok(())
    }

    /// Forgets a node pool.
    pub(crate) async fn node_pool_remove(&self, node_pool: &Stored<NodePoolRecord>) -> Result<(), Error> {
        let NodePoolRecord { node_pool: shown, .. } = &node_pool.value;
        let id = node_pool_id(&shown.cluster_id, &shown.id)?;
        let expected = Precondition::Etag(node_pool.etag.clone());
        self.store.delete(&self.node_pools, &self.partition, id, expected).await.map(drop)
    }

    pub(crate) async fn credential_get(
        &self,
        cluster: &ClusterId,
        id: &BreakGlassCredentialId,
    ) -> Result<Option<Stored<CredentialRecord>>, Error> {
        self.get(&self.credentials, &credential_id(cluster, id)?).await
    }

    /// The credentials of one cluster, each at its version.
    pub(crate) async fn credential_list(
        &self,
        cluster: &ClusterId,
    ) -> Result<Vec<Stored<CredentialRecord>>, Error> {
        let query = Query::partition(&self.credentials, &self.partition).matching(CLUSTER, cluster.as_str());
        self.documents(query).await?.0.iter().map(stored).collect()
    }

    /// All credentials, or those of one cluster, as they were at a revision.
    pub(crate) async fn credential_list_at(
        &self,
        revision: Revision,
        cluster: Option<&ClusterId>,
    ) -> Result<Vec<CredentialRecord>, Error> {
        let query = Query::partition(&self.credentials, &self.partition).at(revision);
        Ok(self.list(of_cluster(query, cluster)).await?.0)
    }

    /// Creates a credential of a cluster that is still as it was read. Whatever is decided about all credentials that it had is
    /// not written any more.
    pub(crate) async fn credential_create(
        &self,
        cluster: &Stored<ClusterRecord>,
        record: &CredentialRecord,
    ) -> Result<(), Error> {
        let shown = &record.credential;
        let mut transaction = Transaction::new(self.partition.clone());
        self.touch(&mut transaction, cluster)?;
        transaction.create(&self.credentials, credential_id(&shown.cluster_id, &shown.id)?, record)?;
        self.store.commit(&transaction).await.map(drop)
    }

    /// Forgets a credential.
    pub(crate) async fn credential_remove(&self, credential: &CredentialRecord) -> Result<(), Error> {
        let shown = &credential.credential;
        let id = credential_id(&shown.cluster_id, &shown.id)?;
        self.store.delete(&self.credentials, &self.partition, id, Precondition::Any).await.map(drop)
    }

    /// The newest revision.
    pub(crate) async fn revision(&self) -> Result<Revision, Error> {
        self.store.revision().await
    }

    /// Everything that happens after a revision.
    pub(crate) fn feed(&self, after: Revision) -> Feed {
        self.store.partition_feed(&self.partition, after)
    }

    async fn get<T: DeserializeOwned>(
        &self,
        container: &Container,
        id: &DocumentId,
    ) -> Result<Option<Stored<T>>, Error> {
        self.store.get(container, &self.partition, id).await?.as_ref().map(stored).transpose()
    }

    async fn list<T: DeserializeOwned>(&self, query: Query) -> Result<(Vec<T>, Revision), Error> {
        let (documents, revision) = self.documents(query).await?;
        let values = documents.iter().map(Document::parse).collect::<Result<_, _>>()?;
        Ok((values, revision))
    }

    async fn documents(&self, query: Query) -> Result<(Vec<Document>, Revision), Error> {
        let mut page = self.store.list(query.clone()).await?;
        let mut documents = page.documents;
        while let Some(next) = page.next {
            page = self.store.list(query.clone().from(next)).await?;
            documents.append(&mut page.documents);
        }
        Ok((documents, page.revision))
    }
}

impl Entry {
    /// What a change of the store means; `None` for reservations and counts.
    pub(crate) fn of(change: &pilothouse_store::Change) -> Result<Option<Self>, Error> {
        Ok(match &*change.container {
            CLUSTERS => {
                let (before, after) = both(change)?;
                Some(Self::Cluster { before, after })
            }
            NODE_POOLS => {
                let (before, after) = both(change)?;
                Some(Self::NodePool { before, after })
            }
            SHARDS => {
                let (before, after) = both(change)?;
                Some(Self::Shard { before, after })
            }
            CREDENTIALS => {
                let (before, after) = both(change)?;
                Some(Self::Credential { before, after })
            }
            _ => None,
        })
    }
}

type Both<T> = (Option<Box<T>>, Option<Box<T>>);

fn both<T: DeserializeOwned>(change: &pilothouse_store::Change) -> Result<Both<T>, Error> {
    let parse = |document: &Option<Document>| document.as_ref().map(Document::parse).transpose();
    Ok((parse(&change.before)?, parse(&change.after)?))
}

/// The ids of a cluster's documents.
struct Cluster {
    id: DocumentId,
    azure: DocumentId,
    prefix: DocumentId,
}

impl Cluster {
    fn of(record: &ClusterRecord) -> Result<Self, Error> {
        Ok(Self {
            id: DocumentId::try_new(record.cluster.id.as_str())?,
            azure: DocumentId::try_new(record.cluster.azure.resource_id())?,
            prefix: DocumentId::try_new(&record.cluster.domain_prefix)?,
        })
    }
}

fn of_cluster(query: Query, cluster: Option<&ClusterId>) -> Query {
    match cluster {
        Some(id) => query.matching(CLUSTER, id.as_str()),
        None => query,
    }
}

fn stored<T: DeserializeOwned>(document: &Document) -> Result<Stored<T>, Error> {
    Ok(Stored { value: document.parse()?, etag: document.etag.clone() })
}

fn node_pool_id(cluster: &ClusterId, id: &NodePoolId) -> Result<DocumentId, Error> {
    DocumentId::try_new(format!("{cluster}/{id}"))
}

fn credential_id(cluster: &ClusterId, id: &BreakGlassCredentialId) -> Result<DocumentId, Error> {
    DocumentId::try_new(format!("{cluster}/{id}"))
}
