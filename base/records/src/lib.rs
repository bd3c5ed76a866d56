//! Typed documents of the resource provider over the store.
//!
//! What is stored, and why:
//!
//! * [`Subscription`]: whether a subscription may use the provider, as ARM told it.
//! * [`Cluster`] and [`NodePool`]: the hub model of a resource, and what ties it to the work on it: the operation that
//!   holds it, and its id at Clusters Service.
//! * [`Operation`]: one piece of work from its acceptance to its end: who asked, under which correlation id, what is
//!   to be sent to Clusters Service, every step so far, and the cause if it failed. Kept for a week after it ended.
//!
//! What is *not* stored: anything that can be asked of Clusters Service again, credentials, and the wire form of a
//! request.
//!
//! All documents of a subscription are in its partition, so that a resource and its operation are written in one
//! transaction ([`Change`]): whoever sees one sees the other. Queries are methods of [`Records`], one file per kind.

mod action;
mod change;
mod cluster;
mod error;
mod external_auth;
mod membership;
mod node_pool;
mod operation;
mod records;
mod reservation;
mod stored;
mod subscription;

pub use self::action::AdminAction;
pub use self::change::{Change, Committed};
pub use self::cluster::{Cluster, Hold};
pub use self::error::Error;
pub use self::external_auth::ExternalAuth;
pub use self::membership::Membership;
pub use self::node_pool::NodePool;
pub use self::operation::feed::{Followed, HoldFeed, Holds, OperationFeed};
pub use self::operation::{CredentialWork, Notification, Operation, OperationFilter, Request, Step, Waiting};
pub use self::records::{Listed, Records, catalog};
pub use self::reservation::Reservation;
pub use self::stored::Stored;
pub use self::subscription::{Subscription, SubscriptionState};
