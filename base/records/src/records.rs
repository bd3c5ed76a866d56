use std::sync::LazyLock;

use pilothouse_arm::SubscriptionId;
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

pub(crate) static SUBSCRIPTIONS: LazyLock<Container> = LazyLock::new(|| Container::new("subscriptions"));
pub(crate) static CLUSTERS: LazyLock<Container> =
    LazyLock::new(|| Container::new("clusters").with_index("clusters-service", "/clustersServiceId"));
pub(crate) static NODE_POOLS: LazyLock<Container> = LazyLock::new(|| Container::new("node-pools"));
pub(crate) static OPERATIONS: LazyLock<Container> = LazyLock::new(|| {
    Container::new("operations").with_index("phase", "/phase").with_index("active-on", "/activeOn")
});

/// What the store of the resource provider must be opened with.
///
/// # Errors
///
/// Never for these declarations; the store checks them all the same.
pub fn catalog() -> Result<Catalog, pilothouse_store::Error> {
    Catalog::try_new([SUBSCRIPTIONS.clone(), CLUSTERS.clone(), NODE_POOLS.clone(), OPERATIONS.clone()])
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
            Err(error @ pilothouse_store::Error::TooOld { .. }) => return Err(Error::Continuation(error)),
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
