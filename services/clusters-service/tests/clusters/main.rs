//! Clusters Service over its protocols: HTTP in front, a stand-in cloud and a stand-in Maestro behind.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod abandonment;
mod changes;
mod cloud;
mod controller;
mod counts;
mod credentials;
mod dry_runs;
mod external_auths;
#[cfg(debug_assertions)]
mod fairness;
mod faults;
mod identities;
mod links;
mod lives;
mod maestro;
mod moments;
mod pages;
mod properties;
mod replicas;
mod requests;
mod restart;
mod scaling;
mod shards;
mod support;
mod switch;
mod together;
mod upgrades;
mod vaults;
mod watch;
