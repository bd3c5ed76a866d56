//! Manifests over MQTT: the server that keeps them and the agent that applies them.
//!
//! A source (Clusters Service) publishes bundles of manifests to the [`server`] by gRPC. The server keeps them in its store
//! and sends each to the management cluster it is for, over an MQTT broker or to an agent that has dialled it by gRPC. There
//! the [`agent`] applies it with the engine of `base/work`, and reports every change of status back the same way; the
//! server stores the status and streams it to the source. The words on the wire are those of Maestro, so that either side
//! can be replaced by the original.
//!
//! # Nothing is lost
//!
//! * **Accepted means kept.** A bundle and the note that it has to be sent are one transaction. The note goes only when the
//!   broker has acknowledged the message. Whatever dies in between, the note is found again and sent again.
//! * **Messages may get lost, states do not.** Sessions with the broker are clean: what was on its way when a connection
//!   broke is gone. So whoever connects first says what it has, the agent with versions and the server with hashes of
//!   statuses, and is sent what differs. Every message says a whole state with a version, and older ones are ignored.
//! * **The agent remembers, and need not.** What it was told is in a store of its own, so that after a restart it goes on
//!   where it was. What it applied is recorded in the cluster itself, too; with its store lost, what it should apply comes with
//!   the answer to its first question.
//!
//! # Tasks
//!
//! See the [`server`] and the [`agent`]; both have the one of their connection, `mqtt` or `grpc`.

pub mod agent;
mod link;
mod sequence;
pub mod server;
mod status_hash;
mod topic;

pub use self::link::{BrokerConfig, BrokerKind, ClientTls};
