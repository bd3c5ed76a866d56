use std::time::Duration;

use pilothouse_arm::{ResourceId, SubscriptionId};
use pilothouse_store::{Container, DocumentId, Lease, Precondition, Transaction};

use crate::cluster::Cluster;
use crate::error::Error;
use crate::node_pool::NodePool;
use crate::operation::Operation;
use crate::records::{CLUSTERS, NODE_POOLS, OPERATIONS, Records, partition};
use crate::stored::Stored;

/// How long an operation can be asked for after it ended.
const OPERATION_KEPT: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Writes to records of one subscription: all of them or none.
#[derive(Debug)]
pub struct Change<'a> {
    records: &'a Records,
    transaction: Transaction,
}

impl Records {
    /// Begins a change to records of one subscription.
    ///
    /// # Errors
    ///
    /// None that depend on what is stored.
    pub fn change(&self, subscription: SubscriptionId) -> Result<Change<'_>, Error> {
        Ok(Change { records: self, transaction: Transaction::new(partition(subscription)?) })
    }
}

fn id(resource: &ResourceId) -> Result<DocumentId, pilothouse_store::Error> {
    DocumentId::try_new(resource.key())
}

impl Change<'_> {
    /// A cluster that must not exist yet.
    pub fn cluster_create(&mut self, cluster: &Cluster) -> Result<&mut Self, Error> {
        self.transaction.create(&CLUSTERS, id(&cluster.resource.id)?, cluster)?;
        Ok(self)
    }

    /// A cluster that must be as it was read.
    pub fn cluster_replace(&mut self, cluster: &Stored<Cluster>) -> Result<&mut Self, Error> {
        let expected = Precondition::Etag(cluster.etag.clone());
        self.transaction.put(&CLUSTERS, id(&cluster.resource.id)?, expected, &cluster.record)?;
        Ok(self)
    }

    /// A cluster that must be as it was read, and is left so.
    pub fn cluster_check(&mut self, cluster: &Stored<Cluster>) -> Result<&mut Self, Error> {
        let expected = Precondition::Etag(cluster.etag.clone());
        self.transaction.check(&CLUSTERS, id(&cluster.resource.id)?, expected);
        Ok(self)
    }

    /// A cluster that must be as it was read, and goes.
    pub fn cluster_delete(&mut self, cluster: &Stored<Cluster>) -> Result<&mut Self, Error> {
        self.delete(&CLUSTERS, &cluster.resource.id, cluster)
    }

    /// A node pool that must not exist yet.
    pub fn node_pool_create(&mut self, node_pool: &NodePool) -> Result<&mut Self, Error> {
        self.transaction.create(&NODE_POOLS, id(&node_pool.resource.id)?, node_pool)?;
        Ok(self)
    }

    /// A node pool that must be as it was read.
    pub fn node_pool_replace(&mut self, node_pool: &Stored<NodePool>) -> Result<&mut Self, Error> {
        let expected = Precondition::Etag(node_pool.etag.clone());
        self.transaction.put(&NODE_POOLS, id(&node_pool.resource.id)?, expected, &node_pool.record)?;
        Ok(self)
    }

    /// A node pool that must be as it was read, and goes.
    pub fn node_pool_delete(&mut self, node_pool: &Stored<NodePool>) -> Result<&mut Self, Error> {
        self.delete(&NODE_POOLS, &node_pool.resource.id, node_pool)
    }

    /// A new operation.
    pub fn operation_create(&mut self, operation: &Operation) -> Result<&mut Self, Error> {
        self.operation(operation, Precondition::Absent)
    }

    /// An operation that must be as it was read. Once it has ended, it is kept for a week.
    pub fn operation_replace(&mut self, operation: &Stored<Operation>) -> Result<&mut Self, Error> {
        self.operation(&operation.record, Precondition::Etag(operation.etag.clone()))
    }

    /// Refuses the whole change unless the lease is still held.
    pub fn fenced_by(&mut self, lease: &Lease) -> &mut Self {
        self.transaction.fenced_by(lease);
        self
    }

    /// Writes everything.
    ///
    /// # Errors
    ///
    /// [`Error::Conflict`] if something is not as it was read; nothing was written then.
    pub async fn commit(&self) -> Result<(), Error> {
        self.records.store.commit(&self.transaction).await?;
        Ok(())
    }

    fn operation(&mut self, operation: &Operation, expected: Precondition) -> Result<&mut Self, Error> {
        let id = DocumentId::try_new(operation.id.to_string())?;
        let document = operation.document();
        if operation.state.is_terminal() {
            self.transaction.put_expiring(&OPERATIONS, id, expected, &document, OPERATION_KEPT)?;
        } else {
            self.transaction.put(&OPERATIONS, id, expected, &document)?;
        }
        Ok(self)
    }

    fn delete<T>(
        &mut self,
        container: &Container,
        resource: &ResourceId,
        stored: &Stored<T>,
    ) -> Result<&mut Self, Error> {
        let expected = Precondition::Etag(stored.etag.clone());
        self.transaction.delete(container, id(resource)?, expected);
        Ok(self)
    }
}
