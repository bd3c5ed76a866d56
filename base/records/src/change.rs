use std::time::Duration;

use pilothouse_arm::{ResourceId, SubscriptionId};
use pilothouse_runtime::fault;
use pilothouse_store::{Container, DocumentId, Etag, Lease, Outcome, Precondition, Transaction};
use serde::Serialize;

use crate::action::AdminAction;
use crate::cluster::Cluster;
use crate::error::Error;
use crate::external_auth::ExternalAuth;
use crate::membership::Membership;
use crate::node_pool::NodePool;
use crate::operation::Operation;
use crate::records::{
    ACTIONS, CLUSTERS, EXTERNAL_AUTHS, MEMBERSHIPS, NODE_POOLS, OPERATIONS, RESERVATIONS, Records,
    SUBSCRIPTIONS, partition,
};
use crate::reservation::{Held, Reservation};
use crate::stored::Stored;
use crate::subscription::Subscription;

/// How long an operation can be asked for after it ended.
const OPERATION_KEPT: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// How long it is known what administrators did.
const ACTION_KEPT: Duration = Duration::from_secs(90 * 24 * 60 * 60);

/// Writes to records of one subscription: all of them or none.
#[derive(Debug)]
pub struct Change<'a> {
    records: &'a Records,
    transaction: Transaction,
    /// What each of its parts is about, by key.
    keys: Vec<String>,
}

/// What a change left behind.
#[derive(Clone, Debug)]
pub struct Committed {
    written: Vec<(String, Etag)>,
}

impl Records {
    /// Begins a change to records of one subscription.
    ///
    /// # Errors
    ///
    /// None that depend on what is stored.
    pub fn change(&self, subscription: SubscriptionId) -> Result<Change<'_>, Error> {
        let transaction = Transaction::new(partition(subscription)?);
        Ok(Change { records: self, transaction, keys: Vec::new() })
    }
}

impl Change<'_> {
    /// The subscription must be as it was read, and is left so.
    pub fn subscription_check(
        &mut self,
        id: SubscriptionId,
        subscription: &Stored<Subscription>,
    ) -> Result<&mut Self, Error> {
        let id = DocumentId::try_new(id.to_string())?;
        self.keys.push(String::new());
        self.transaction.check(&SUBSCRIPTIONS, id, as_read(subscription));
        Ok(self)
    }

    /// Something that nobody may have reserved yet. The cluster's own document must name it as well.
    pub fn reservation_create(
        &mut self,
        reservation: &Reservation,
        cluster: &ResourceId,
    ) -> Result<&mut Self, Error> {
        self.keys.push(String::new());
        let held = Held { cluster: cluster.clone() };
        self.transaction.create(&RESERVATIONS, reservation.document_id()?, &held)?;
        Ok(self)
    }

    /// Something below a cluster comes, or work on it begins.
    pub fn membership_note(&mut self, cluster: &ResourceId) -> Result<&mut Self, Error> {
        self.membership_put(cluster, Precondition::Any)
    }

    /// What is below a cluster must be as it was when the mark was taken; and it changes with this.
    pub fn membership_check(&mut self, seen: &Membership) -> Result<&mut Self, Error> {
        self.membership_put(&seen.cluster, seen.as_seen())
    }

    fn membership_put(&mut self, cluster: &ResourceId, expected: Precondition) -> Result<&mut Self, Error> {
        self.keys.push(String::new());
        let id = DocumentId::try_new(cluster.key())?;
        self.transaction.put(&MEMBERSHIPS, id, expected, &serde_json::json!({}))?;
        Ok(self)
    }

    /// A cluster that must not exist yet, nor anything that it reserves be reserved.
    pub fn cluster_create(&mut self, cluster: &Cluster) -> Result<&mut Self, Error> {
        for reservation in &cluster.reservations {
            self.reservation_create(reservation, &cluster.resource.id)?;
        }
        self.put(&CLUSTERS, &cluster.resource.id, Precondition::Absent, &cluster.document())
    }

    /// A cluster that must be as it was read.
    pub fn cluster_replace(&mut self, cluster: &Stored<Cluster>) -> Result<&mut Self, Error> {
        self.put(&CLUSTERS, &cluster.resource.id, as_read(cluster), &cluster.document())
    }

    /// A cluster that must be as it was read, and is left so.
    pub fn cluster_check(&mut self, cluster: &Stored<Cluster>) -> Result<&mut Self, Error> {
        let id = self.part(&cluster.resource.id)?;
        self.transaction.check(&CLUSTERS, id, as_read(cluster));
        Ok(self)
    }

    /// A cluster that must be as it was read, and goes, with what it reserved.
    pub fn cluster_delete(&mut self, cluster: &Stored<Cluster>) -> Result<&mut Self, Error> {
        for reservation in &cluster.reservations {
            self.keys.push(String::new());
            self.transaction.delete(&RESERVATIONS, reservation.document_id()?, Precondition::Any);
        }
        let membership = DocumentId::try_new(cluster.resource.id.key())?;
        self.keys.push(String::new());
        self.transaction.delete(&MEMBERSHIPS, membership, Precondition::Any);
        self.delete(&CLUSTERS, &cluster.resource.id, cluster)
    }

    /// A node pool that must not exist yet.
    pub fn node_pool_create(&mut self, node_pool: &NodePool) -> Result<&mut Self, Error> {
        self.put(&NODE_POOLS, &node_pool.resource.id, Precondition::Absent, node_pool)
    }

    /// A node pool that must be as it was read.
    pub fn node_pool_replace(&mut self, node_pool: &Stored<NodePool>) -> Result<&mut Self, Error> {
        self.put(&NODE_POOLS, &node_pool.resource.id, as_read(node_pool), &node_pool.record)
    }

    /// A node pool that must be as it was read, and goes.
    pub fn node_pool_delete(&mut self, node_pool: &Stored<NodePool>) -> Result<&mut Self, Error> {
        self.delete(&NODE_POOLS, &node_pool.resource.id, node_pool)
    }

    /// An external authentication that must not exist yet.
    pub fn external_auth_create(&mut self, external_auth: &ExternalAuth) -> Result<&mut Self, Error> {
        self.put(&EXTERNAL_AUTHS, &external_auth.resource.id, Precondition::Absent, external_auth)
    }

    /// An external authentication that must be as it was read.
    pub fn external_auth_replace(
        &mut self,
        external_auth: &Stored<ExternalAuth>,
    ) -> Result<&mut Self, Error> {
        let expected = as_read(external_auth);
        self.put(&EXTERNAL_AUTHS, &external_auth.resource.id, expected, &external_auth.record)
    }

    /// An external authentication that must be as it was read, and goes.
    pub fn external_auth_delete(&mut self, external_auth: &Stored<ExternalAuth>) -> Result<&mut Self, Error> {
        self.delete(&EXTERNAL_AUTHS, &external_auth.resource.id, external_auth)
    }

    /// A new operation.
    pub fn operation_create(&mut self, operation: &Operation) -> Result<&mut Self, Error> {
        self.operation(operation, Precondition::Absent)
    }

    /// An operation that must be as it was read. Once it has ended, it is kept for a week.
    pub fn operation_replace(&mut self, operation: &Stored<Operation>) -> Result<&mut Self, Error> {
        self.operation(&operation.record, as_read(operation))
    }

    /// What an administrator did with this very change.
    pub fn action_create(&mut self, action: &AdminAction) -> Result<&mut Self, Error> {
        let id = action.document_id()?;
        self.keys.push(String::new());
        self.transaction.put_expiring(&ACTIONS, id, Precondition::Absent, action, ACTION_KEPT)?;
        Ok(self)
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
    pub async fn commit(&self) -> Result<Committed, Error> {
        fault::point("records.commit.before");
        let committed = self.records.store.commit(&self.transaction).await?;
        fault::point("records.commit.after");
        let outcomes = self.keys.iter().zip(&committed.outcomes);
        let written = outcomes.filter_map(|(key, outcome)| match outcome {
            Outcome::Written(etag) => Some((key.clone(), etag.clone())),
            Outcome::Deleted | Outcome::Unchanged => None,
        });
        Ok(Committed { written: written.collect() })
    }

    fn operation(&mut self, operation: &Operation, expected: Precondition) -> Result<&mut Self, Error> {
        let id = DocumentId::try_new(operation.id.to_string())?;
        let document = operation.document();
        self.keys.push(String::new());
        if operation.state.is_terminal() {
            self.transaction.put_expiring(&OPERATIONS, id, expected, &document, OPERATION_KEPT)?;
        } else {
            self.transaction.put(&OPERATIONS, id, expected, &document)?;
        }
        Ok(self)
    }

    fn put(
        &mut self,
        container: &Container,
        resource: &ResourceId,
        expected: Precondition,
        record: &impl Serialize,
    ) -> Result<&mut Self, Error> {
        let id = self.part(resource)?;
        self.transaction.put(container, id, expected, record)?;
        Ok(self)
    }

    fn delete<T>(
        &mut self,
        container: &Container,
        resource: &ResourceId,
        stored: &Stored<T>,
    ) -> Result<&mut Self, Error> {
        let id = self.part(resource)?;
        self.transaction.delete(container, id, as_read(stored));
        Ok(self)
    }

    /// Notes what the next part is about.
    fn part(&mut self, resource: &ResourceId) -> Result<DocumentId, Error> {
        let key = resource.key();
        let id = DocumentId::try_new(key.clone())?;
        self.keys.push(key);
        Ok(id)
    }
}

impl Committed {
    /// Names the version of a resource that was written; see [`Stored::etag`].
    pub fn etag_of(&self, resource: &ResourceId) -> Option<&str> {
        let key = resource.key();
        self.written.iter().find_map(|(written, etag)| (*written == key).then(|| etag.as_str()))
    }
}

fn as_read<T>(stored: &Stored<T>) -> Precondition {
    Precondition::Etag(stored.etag.clone())
}
