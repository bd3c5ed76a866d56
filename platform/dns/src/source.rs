//! Where zones and record sets come from.
//!
//! Whoever keeps them hands them over as ARM shows them. The server knows nothing of how they are kept, so that the local
//! cloud, a real one, or a test can stand there.

use std::error::Error as StdError;

use futures::future::BoxFuture;
use pilothouse_arm::ResourceId;
use serde_json::Value;

/// What a source may fail with. It ends in the log.
pub type SourceError = Box<dyn StdError + Send + Sync>;

/// What became known.
#[derive(Clone, Debug, PartialEq)]
pub enum News {
    /// All there is; whatever was known before is forgotten. Zones come before what is in them.
    Everything {
        /// Zones and record sets.
        resources: Vec<(ResourceId, Value)>,
        /// Grows with every change, and over restarts.
        serial: u64,
    },
    /// What has changed since, in order.
    Changes {
        /// Zones and record sets.
        changes: Vec<Change>,
        /// Grows with every change, and over restarts.
        serial: u64,
    },
}

/// What became of one zone or record set.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Which.
    pub id: ResourceId,
    /// As ARM shows it now; nothing once it is gone.
    pub resource: Option<Value>,
}

/// Where zones and record sets come from: first everything, then every change, as soon as it is kept.
pub trait Source: Send + 'static {
    /// Waits for news. May be dropped while it waits: the next call starts at the same place.
    fn next(&mut self) -> BoxFuture<'_, Result<News, SourceError>>;
}
