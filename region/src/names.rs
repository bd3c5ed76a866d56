//! Names from the cloud to whoever answers for them: the two know nothing of one another.

use futures::FutureExt as _;
use futures::future::BoxFuture;
use pilothouse_cloud::{NameFeed, NameNews};
use pilothouse_dns::{Change, News, Source, SourceError};
use pilothouse_store::Store;

/// The zones and record sets of a local cloud, followed in its store.
#[derive(Debug)]
pub struct CloudNames {
    feed: NameFeed,
}

impl CloudNames {
    /// Of a store opened with [`pilothouse_cloud::catalog`] or [`pilothouse_cloud::names_catalog`].
    pub fn new(store: Store) -> Self {
        Self { feed: NameFeed::new(store) }
    }
}

impl Source for CloudNames {
    fn next(&mut self) -> BoxFuture<'_, Result<News, SourceError>> {
        async { Ok(news(self.feed.next().await?)) }.boxed()
    }
}

fn news(found: NameNews) -> News {
    let NameNews { is_everything, resources, serial } = found;
    if is_everything {
        let there = |(id, resource): (_, Option<_>)| Some((id, resource?));
        return News::Everything { resources: resources.into_iter().filter_map(there).collect(), serial };
    }
    let changed = |(id, resource)| Change { id, resource };
    News::Changes { changes: resources.into_iter().map(changed).collect(), serial }
}
