//! Cached watches of a Kubernetes API that wake reconcilers.
//!
//! Whoever reconciles Kubernetes objects needs the same two things of a resource: what is there now, without asking the
//! server, and a word when something changes. An [`Informer`] is both: a watch that keeps a cache, and calls back after
//! every change with the object that changed, so that the callback can wake the right key of a
//! [`Controller`](pilothouse_runtime::Controller).
//!
//! * **The cache comes first.** When a callback runs, the cache already holds the change. A pass that it wakes never
//!   sees an older state than the event that woke it.
//! * **Events are hints.** The callback is given the object for finding the key, nothing else should be taken from it. After a
//!   lost connection the watch begins anew with a list, and every object in it is announced again, also those that
//!   vanished in between.
//! * **Nobody waits for ever in silence.** A watch that fails is tried again by [`Policy::RECONNECT`](pilothouse_runtime::backoff::Policy::RECONNECT), and the first failure of a
//!   series is logged.
//!
//! * **A connection carries many watches.** A [`client`] made here opens as few as the server allows.
//! * **Whether anybody answers is known to whoever asks.** A [`Reachability`] makes clients that take note of it.
//!
//! # Tasks
//!
//! One per informer, named by its owner. It ends with the shutdown.

mod connection;
mod informer;
mod key;
mod reachability;

pub use self::connection::{ConnectionError, Requests, Streamed, client, connector, requests};
pub use self::informer::{Builder, Informer};
pub use self::key::ObjectKey;
pub use self::reachability::Reachability;

#[doc(no_inline)]
pub use kube::runtime::watcher;
