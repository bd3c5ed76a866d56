use pilothouse_arm::ResourceId;
use pilothouse_store::{Feed, Query, Revision};

use super::{ACTIVE, Operation};
use crate::cluster::Cluster;
use crate::error::Error;
use crate::records::{CLUSTERS, OPERATIONS, Records};

/// Follows all operations.
#[derive(Debug)]
pub struct OperationFeed {
    records: Records,
    feed: Feed,
}

/// What a look at the operations' feed brought.
#[derive(Debug)]
pub enum Followed {
    /// These operations were made or changed.
    Changed(Vec<Operation>),
    /// Something was missed: look at all of them.
    Missed,
}

/// Follows the holds on clusters.
#[derive(Debug)]
pub struct HoldFeed {
    records: Records,
    feed: Feed,
}

/// What a look at the holds' feed brought.
#[derive(Debug)]
pub enum Holds {
    /// These clusters were put on hold or released.
    Changed(Vec<ResourceId>),
    /// Something was missed: look at all of them.
    Missed,
}

impl Records {
    /// Follows all operations from now on.
    pub async fn operation_feed(&self) -> Result<OperationFeed, Error> {
        let now = self.store.list(Query::all(&OPERATIONS).limit(1)).await?.revision;
        self.feed_after(now)
    }

    fn feed_after(&self, after: Revision) -> Result<OperationFeed, Error> {
        Ok(OperationFeed { records: self.clone(), feed: self.store.container_feed(&OPERATIONS, after)? })
    }

    /// Follows the holds on clusters from now on.
    pub async fn hold_feed(&self) -> Result<HoldFeed, Error> {
        let now = self.store.list(Query::all(&CLUSTERS).limit(1)).await?.revision;
        Ok(HoldFeed { records: self.clone(), feed: self.store.container_feed(&CLUSTERS, now)? })
    }
}

impl OperationFeed {
    /// All operations that had not ended at the moment this feed goes on from.
    pub async fn active(&self) -> Result<Vec<Operation>, Error> {
        let query = Query::all(&OPERATIONS).matching("phase", ACTIVE).at(self.feed.revision());
        let found = self.records.all::<Operation>(query).await?;
        Ok(found.into_iter().map(|stored| stored.record).collect())
    }

    /// Waits for the next changes. May be dropped while it waits; nothing is lost.
    pub async fn next(&mut self) -> Result<Followed, Error> {
        match self.feed.next().await {
            Ok(batch) => {
                let changed = batch.changes.iter().filter_map(|change| change.after.as_ref());
                Ok(Followed::Changed(
                    changed
                        .map(|document| document.parse())
                        .collect::<Result<_, pilothouse_store::Error>>()?,
                ))
            }
            Err(pilothouse_store::Error::TooOld { .. } | pilothouse_store::Error::NotYet { .. }) => {
                *self = self.records.operation_feed().await?;
                Ok(Followed::Missed)
            }
            Err(error) => Err(error.into()),
        }
    }
}

impl HoldFeed {
    /// Waits for the next changes. May be dropped while it waits; nothing is lost.
    pub async fn next(&mut self) -> Result<Holds, Error> {
        loop {
            let batch = match self.feed.next().await {
                Ok(batch) => batch,
                Err(pilothouse_store::Error::TooOld { .. } | pilothouse_store::Error::NotYet { .. }) => {
                    *self = self.records.hold_feed().await?;
                    return Ok(Holds::Missed);
                }
                Err(error) => return Err(error.into()),
            };
            let mut changed = Vec::new();
            for change in &batch.changes {
                // A cluster that comes or goes comes or goes with an operation.
                let (Some(before), Some(after)) = (&change.before, &change.after) else { continue };
                let (before, after): (Cluster, Cluster) = (before.parse()?, after.parse()?);
                if before.hold != after.hold {
                    changed.push(after.resource.id);
                }
            }
            if !changed.is_empty() {
                return Ok(Holds::Changed(changed));
            }
        }
    }
}
