//! Opaque JSON documents with etags, revisions, a change feed and leases, over memory, SQLite and PostgreSQL.
//!
//! Everything Pilothouse remembers goes through here: the resource provider's documents and operations,
//! Clusters Service, Maestro, and the objects of the embedded Kubernetes. Each of those has a database of its
//! own. The store knows nothing of what the documents mean; the typed layer is above it.
//!
//! # What is promised
//!
//! - **Documents** live in a [`Container`], under a [`Partition`] and a [`DocumentId`]. A write says what it
//!   expects to find ([`Precondition`]), and a refusal says what was there instead ([`Conflict`]).
//! - **A [`Transaction`]** writes any number of documents, in any containers, of one partition: all or none, as
//!   one [`Revision`]. Revisions grow in commit order. When [`Store::commit`] returns, the change is on disk
//!   and every later read sees it.
//! - **Reads** are of one instant. [`Store::list`] pages in the order of partition and id, by prefix or by a
//!   declared index, and all pages of a list are of the first one's revision. Any read can be made at any
//!   revision that is still kept.
//! - **A [`Feed`]** follows one partition, or one container across all partitions: every change once, in order,
//!   with the document before and after, from any revision still kept; [`Error::TooOld`] says when to list
//!   again. Waiting readers are woken by the commit, not by a timer.
//! - **Expiry** is a delete with a revision of its own; until it is committed, the document is there.
//! - **A [`Lease`]** has one holder by the database's clock, and a token that fences off the former one. Replicas share
//!   a service's work by leases on [`Parts`] of it.
//! - **Secrets** are sealed before they reach an engine: no database, log file or backup has them in clear.
//!
//! ```
//! # use pilothouse_runtime::Shutdown;
//! use pilothouse_store::{Catalog, Container, DocumentId, Location, Options, Partition, Query, Store};
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let clusters = Container::new("clusters").with_index("state", "/state");
//! let catalog = Catalog::try_new([clusters.clone()])?;
//! let store = Store::open(Options::new(Location::memory(), catalog, Shutdown::new())).await?;
//!
//! let subscription = Partition::try_new("11111111-2222-3333-4444-555555555555")?;
//! let body = serde_json::json!({"state": "Accepted"});
//! let made = store.create(&clusters, &subscription, DocumentId::try_new("first")?, &body).await?;
//!
//! let page = store.list(Query::all(&clusters).matching("state", "Accepted")).await?;
//! let mut feed = store.partition_feed(&subscription, page.revision);   // what comes after that list
//! # assert_eq!((page.documents.len(), page.revision), (1, made.revision));
//! # assert!(feed.ready().await?.changes.is_empty());
//! # Ok::<(), pilothouse_store::Error>(())
//! # }).unwrap();
//! ```
//!
//! # How it is built
//!
//! [`Store`] prepares: it checks names, extracts index entries, seals secrets. An engine keeps rows. Between
//! them is one pure function, `plan`, that decides what a batch of commands does; all engines run it, so they
//! cannot disagree on a precondition. The SQL engines share their statements as well (`sql/`). On SQLite, where
//! nobody else writes, documents that were read lately and the newest changes are kept at hand (`at_hand`).
//!
//! Tasks, all named and owned by the store: one that commits (SQL engines), one that deletes what has expired,
//! one that compacts, and two that listen to other processes (PostgreSQL).

#![expect(clippy::duplicate_mod, reason = "the files in sql/ are compiled once for each dialect, see sql.rs")]

mod at_hand;
mod check;
mod committer;
mod container;
mod declare;
mod document;
mod engine;
mod error;
mod expiry;
mod feed;
mod keyring;
mod lease;
mod location;
mod memory;
mod name;
mod outline;
mod parts;
mod pattern;
mod plan;
mod postgres;
mod query;
mod retention;
mod revision;
mod rotate;
mod seal;
mod sql;
mod sqlite;
mod store;
mod transaction;
mod wake;
mod wiped;

pub use check::{Problem, Report};
pub use container::{Catalog, Container};
pub use document::Document;
pub use error::{Conflict, Error};
pub use feed::{Batch, Cause, Change, Feed};
pub use keyring::Keyring;
pub use lease::Lease;
pub use location::{Durability, Location};
pub use name::{DocumentId, LeaseName, Partition};
pub use parts::{Grant, Parts, Turn};
pub use query::{Continue, Page, Query};
pub use retention::Retention;
pub use revision::{Cursor, Etag, Revision};
pub use rotate::Rotation;
pub use sql::SCHEMA_VERSION;
pub use store::{Decision, Options, Store};
pub use transaction::{Committed, Outcome, Precondition, Transaction};
