//! Clusters Service over its protocols: HTTP in front, a stand-in cloud and a stand-in Maestro behind.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod changes;
mod cloud;
mod controller;
mod credentials;
mod external_auths;
mod lives;
mod maestro;
mod requests;
mod restart;
mod scaling;
mod shards;
mod support;
mod switch;
mod upgrades;
mod watch;
