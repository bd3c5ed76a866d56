//! A small Kubernetes-compatible API server over the store.
//!
//! `kubectl`, kube-rs and client-go talk to it unmodified. It is deliberately small: what a management cluster and a
//! light hosted cluster need, and nothing that pretends. What is not built is absent, and answers 404 or 415.
//!
//! # How a request travels
//!
//! A connection is TLS, with or without a client certificate ([`Service`]). The caller becomes a user with groups
//! (`authentication`), the path becomes what is asked for (`request`), RBAC decides (`authorization`), and one file per
//! verb answers (`verbs`). Kinds come from one table (`catalogue`), which custom resource definitions extend while the
//! server runs (`crds`). Everything about an object's content that needs no I/O is pure: `schema`, `patch`, `strategy`,
//! `selector`, `table`, `discovery`, `openapi`.
//!
//! # Storage
//!
//! All objects of one server are documents of one partition of the store; the resource version is the partition's
//! revision. A cache of the encoded objects follows the partition's feed; lists and watches are answered from it. See
//! `docs/decisions/0005-small-kubernetes.md`.
//!
//! # Tasks
//!
//! Owned by `kubeapi`: `objects` (the cache follows the feed), `definitions` (custom resource definitions are accepted and
//! served), `aggregation` (cluster roles gather the rules of others), `nodes` (what each node's pods need is kept in
//! mind), `quotas` (what is used of each is written down), `certificates` (the serving certificate is read again), `issuer's keys` (of each
//! issuer whose tokens are believed), one `connection` each, and one `tunnel` for each connection that leads on to a pod or
//! node. A watch is part of its connection.

mod admission;
mod aggregation;
mod answer;
mod authentication;
mod authorization;
mod bootstrap;
mod bootstrap_tokens;
mod catalogue;
mod components;
mod config;
mod connect;
mod consumption;
mod crds;
mod discovery;
mod error;
mod escalation;
mod evictions;
mod follow;
#[cfg(test)]
mod fuzz;
mod health;
mod metrics;
mod namespaces;
mod openapi;
mod pages;
mod patch;
mod pods;
mod protobuf;
#[cfg(test)]
mod reference;
mod request;
mod reviews;
mod schema;
mod selector;
mod server;
mod service;
mod service_accounts;
mod services;
mod static_tokens;
mod status;
mod storage;
mod strategy;
mod table;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod token_issuers;
mod tokens;
mod types;
mod verbs;
mod version;

pub use config::{Anonymous, Config};
pub use error::Error;
pub use pods::NodeDialer;
pub use service::{Deps, Service};
pub use static_tokens::{StaticTokens, StaticTokensError};
pub use storage::catalog;
pub use token_issuers::{TokenIssuers, TokenIssuersError};
