//! The right to do something alone for a while.
//!
//! Who holds a lease is decided by the database, by its clock. A holder that is paused past its time cannot
//! know that it lost it, so holding is never proof: every time a lease changes hands its *token* grows, and a
//! transaction [fenced](crate::Transaction::fenced_by) by an old token is refused.

use std::time::Duration;

use tokio::time::Instant;

use crate::LeaseName;

/// A lease as it was granted.
#[derive(Clone, Debug)]
pub struct Lease {
    name: LeaseName,
    holder: String,
    token: u64,
    believed_until: Instant,
}

/// What a fenced transaction is checked against.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fence {
    pub(crate) name: LeaseName,
    pub(crate) token: u64,
}

/// A lease as the database keeps it. The row stays when a lease is released, since its token must never be
/// given out again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LeaseRow {
    pub(crate) holder: String,
    pub(crate) token: u64,
    /// Microseconds since the epoch, by the database's clock.
    pub(crate) expires_at: i64,
}

#[derive(Clone, Debug)]
pub(crate) enum LeaseCommand {
    Acquire { name: LeaseName, holder: String, time_to_live: Duration },
    Renew { fence: Fence, time_to_live: Duration },
    Release { fence: Fence },
}

impl Lease {
    /// `asked_at` is taken before the request leaves, so that the holder's idea of its end is never later
    /// than the database's.
    pub(crate) fn new(
        name: LeaseName,
        holder: String,
        token: u64,
        asked_at: Instant,
        time_to_live: Duration,
    ) -> Self {
        Self { name, holder, token, believed_until: asked_at + time_to_live }
    }

    pub(crate) fn fence(&self) -> Fence {
        Fence { name: self.name.clone(), token: self.token }
    }

    /// What it is on.
    pub fn name(&self) -> &LeaseName {
        &self.name
    }

    /// Who asked for it.
    pub fn holder(&self) -> &str {
        &self.holder
    }

    /// Grows whenever the lease changes hands.
    pub fn token(&self) -> u64 {
        self.token
    }

    /// Until when the holder may believe it, by its own monotonic clock. Renew well before.
    pub fn believed_until(&self) -> Instant {
        self.believed_until
    }
}

impl LeaseCommand {
    pub(crate) fn name(&self) -> &LeaseName {
        match self {
            Self::Acquire { name, .. } => name,
            Self::Renew { fence, .. } | Self::Release { fence } => &fence.name,
        }
    }
}
