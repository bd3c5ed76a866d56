//! An MQTT 5 broker in the process that needs one.
//!
//! Between Maestro's server and its agents stands a broker. A region of one machine has this one; a larger one uses
//! Mosquitto, EMQX or a cloud's, and nobody notices, because what is spoken is the protocol and no more.
//!
//! # What it does
//!
//! MQTT 5 with quality of service 0 and 1, wildcards, shared subscriptions (`$share/<group>/<filter>`), the receive maximum
//! in both directions, keep-alive, takeover by client id, and a limit for everything a client could ask too much of.
//! What a message carries (content type, user properties in their order, duplicates included) arrives as it was sent.
//!
//! # What it leaves out, and says so
//!
//! Sessions end with their connection: Maestro's clients begin anew every time and ask for what they missed. So there are
//! no stored messages, no retained ones, no wills and no quality of service 2; the answer to CONNECT says which, and who
//! tries anyway is told why by the reason code. See `docs/decisions/0007-broker.md`.
//!
//! # Who may do what
//!
//! On the loopback anybody may connect, unencrypted. Off it, clients show a certificate, and an [`Authorizer`] decides by
//! what it says, and the topic, about everything they do: by [`Rule`]s, or however its owner likes.
//!
//! # Nobody waits for the slow
//!
//! A subscriber that does not keep up has a queue, limited in messages and bytes. When it is full, the subscriber is
//! disconnected with a reason, and publishers go on.
//!
//! # Tasks
//!
//! One that accepts, and one per connection. At shutdown clients are told, and disconnected.

mod access;
mod config;
mod connection;
mod error;
mod metrics;
mod router;
mod rules;
mod service;
mod topics;

pub use self::access::{Access, Authorizer, Client};
pub use self::config::{Config, Limits};
pub use self::error::Error;
pub use self::metrics::Metrics;
pub use self::rules::Rule;
pub use self::service::{Deps, Service};
