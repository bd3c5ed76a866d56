use std::sync::LazyLock;

use pilothouse_arm::{ResourceId, SubscriptionId};
use pilothouse_store::{Catalog, Container, Continue, Document, Partition, Query, Store};
use serde::de::DeserializeOwned;

use crate::error::Error;
use crate::stored::Stored;

/// The resource provider's records in a store. A cheap handle.
#[derive(Clone, Debug)]
pub struct Records {
    pub(crate) store: Store,
}

/// A part of a list.
#[derive(Clone, Debug)]
pub struct Listed<T> {
    /// What is in it.
    pub items: Vec<Stored<T>>,
    /// Where the list goes on, unless this was the end. All parts are of the same moment.
    pub next: Option<String>,
}

pub(crate) static SUBSCRIPTIONS: LazyLock<Container> =
    LazyLock::new(|| Container::new("subscriptions").with_index("deletion-pending", "/deletionPending"));
pub(crate) static CLUSTERS: LazyLock<Container> = LazyLock::new(|| {
    Container::new("clusters")
        .with_index("clusters-service", "/clustersServiceId")
        .with_index("managed-resource-group", "/foundBy/managedResourceGroup")
        .with_index("subnet", "/foundBy/subnets/*")
        .with_index("security-group", "/foundBy/securityGroup")
});
pub(crate) static NODE_POOLS: LazyLock<Container> = LazyLock::new(|| Container::new("node-pools"));
pub(crate) static EXTERNAL_AUTHS: LazyLock<Container> = LazyLock::new(|| Container::new("external-auths"));
pub(crate) static RESERVATIONS: LazyLock<Container> = LazyLock::new(|| Container::new("reservations"));
pub(crate) static MEMBERSHIPS: LazyLock<Container> = LazyLock::new(|| Container::new("memberships"));
pub(crate) static ACTIONS: LazyLock<Container> = LazyLock::new(|| Container::new("admin-actions"));
pub(crate) static OPERATIONS: LazyLock<Container> = LazyLock::new(|| {
    Container::new("operations")
        .with_index("phase", "/phase")
        .with_index("active-on", "/activeOn")
        .with_index("resource", "/resourceKey")
        .with_index("active-resource", "/activeResource")
        .with_index("notification", "/awaiting")
});

/// What the store of the resource provider must be opened with.
///
/// # Errors
///
/// Never for these declarations; the store checks them all the same.
pub fn catalog() -> Result<Catalog, pilothouse_store::Error> {
    Catalog::try_new([
        SUBSCRIPTIONS.clone(),
        CLUSTERS.clone(),
        NODE_POOLS.clone(),
        EXTERNAL_AUTHS.clone(),
        OPERATIONS.clone(),
        ACTIONS.clone(),
        RESERVATIONS.clone(),
        MEMBERSHIPS.clone(),
    ])
}

impl Records {
    /// Records in a store that was opened with [`catalog`].
    pub fn new(store: Store) -> Self {
        Self { store }
    }

    /// The store, for leases.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// What of a container stands below a cluster. An id whose subscription is none has nothing below it.
    pub(crate) fn below(&self, container: &Container, cluster: &ResourceId) -> Result<Option<Query>, Error> {
        let Ok(subscription) = cluster.subscription_id() else { return Ok(None) };
        let query = Query::partition(container, &partition(subscription)?);
        Ok(Some(query.prefix(format!("{}/", cluster.key()))))
    }

    pub(crate) async fn page<T: DeserializeOwned>(
        &self,
        query: Query,
        token: Option<&str>,
    ) -> Result<Listed<T>, Error> {
        let query = match token {
            Some(token) => query.from(Continue::try_from_text(token).map_err(Error::Continuation)?),
            None => query,
        };
        let page = match self.store.list(query).await {
            // A mark that somebody made up may be of no moment that was.
            Err(
                error @ (pilothouse_store::Error::TooOld { .. } | pilothouse_store::Error::NotYet { .. }),
            ) if token.is_some() => {
                return Err(Error::Continuation(error));
            }
            page => page?,
        };
        Ok(Listed {
            items: parsed(&page.documents)?,
            next: page.next.map(|next| next.to_text()).transpose()?,
        })
    }

    /// Every page of a list, for lists that are known to be short.
    pub(crate) async fn all<T: DeserializeOwned>(&self, query: Query) -> Result<Vec<Stored<T>>, Error> {
        let mut found = Vec::new();
        let mut query = query;
        loop {
            let page = self.store.list(query.clone()).await?;
            found.extend(parsed(&page.documents)?);
            match page.next {
                Some(next) => query = query.from(next),
                None => return Ok(found),
            }
        }
    }
}

fn parsed<T: DeserializeOwned>(documents: &[Document]) -> Result<Vec<Stored<T>>, pilothouse_store::Error> {
    documents.iter().map(Stored::of).collect()
}

/// The partition of a subscription.
pub(crate) fn partition(subscription: SubscriptionId) -> Result<Partition, pilothouse_store::Error> {
    Partition::try_new(subscription.to_string())
}

/// As much of a key as an index takes. What is found by it is compared in full.
pub(crate) fn clip(mut key: String) -> String {
    const LONGEST: usize = 500;
    if key.len() > LONGEST {
        key.truncate((0..=LONGEST).rev().find(|end| key.is_char_boundary(*end)).unwrap_or_default());
    }
    key
}
