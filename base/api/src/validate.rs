//! What must hold of a resource beyond the form of its fields.
//!
//! Every check adds to the list and none stops it, so that a caller learns everything at once. What a field alone may
//! look like is not here but beside the field, in the wire types.

mod cidr;
mod cluster;
mod credential;
mod external_auth;
mod node_pool;
mod platform;
mod release;
mod tags;
mod text;

pub(crate) use self::cluster::{cluster, excused, excused_node_pool};
pub(crate) use self::credential::certificate_signing_request;
pub(crate) use self::external_auth::external_auth;
pub(crate) use self::node_pool::node_pool;
