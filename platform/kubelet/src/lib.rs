//! A node without container runtime: pods as processes in namespaces of their own.
//!
//! # What a node is
//!
//! Four kinds of process, all of them this program:
//!
//! * the **anchor** ([`anchor`]) holds the node's network, mounts and, without root, its user namespace, and does nothing;
//! * the **kubelet** ([`Service`]) enters those namespaces ([`enter`]) and keeps the pods as the API wants them. It may be killed at
//!   any time; its pods do not notice, and the next kubelet takes them over;
//! * a **shim** ([`shim`]) per pod is process 1 of the pod's own namespaces, and owns its processes and logs;
//! * the **containers**, in private roots made of the machine's program folders, read-only, and their volumes.
//!
//! With [`Namespaces::Inherit`] a kubelet lives in the namespaces it is started in: that is a node inside a pod.
//!
//! # Who calls what
//!
//! A binary offers four verbs. `node-anchor`, `node-relay` and `shim` are hidden, and run [`anchor::main`], [`relay::main`] and
//! [`shim::main`] before any thread exists. `kubelet` calls [`enter`] before any thread exists, then builds and runs a [`Service`]. Ending a kubelet leaves its
//! pods; [`Dialer::stop_pods`](pilothouse_kubelet_api::Dialer::stop_pods) on its socket stops them in order, and [`remove`] cleans up where no kubelet
//! runs.
//!
//! # Tasks
//!
//! Of the owner `kubelet`: `pods`, `host-ports`, `services`, `neighbours` and `persistent-volumes` are reconcilers with watches
//! (`watch-…`); `lease` keeps the node alive in the API; `socket` hands over connections into the node's network; `logs` serves the API server, with an
//! `exec`, `attach` or `port-forward` for everybody who is at a pod; `dns` and `dns-connections` answer for names, with a
//! `dns-connection` for who asks over one. Per port of a Service a `service`, per connection to it a `proxied`, and per client of
//! datagrams a `datagrams`. In a node that joined by a token, `certificate` and `serving-certificate` renew what it was given. Of
//! the owner `kubelet-plumbing`, which ends after those: per pod a `shim` (the connection to it), per container `probes` and, while
//! they run, `post-start` and `pre-stop`; per ConfigMap and Secret in a volume a `reference`; `events`; and `netlink`.

mod access;
pub mod anchor;
mod cgroups;
mod client;
mod config;
mod descriptor;
mod dns;
mod enter;
mod error;
mod failure;
mod files;
mod images;
mod join;
mod logs;
mod metrics;
mod namespaces;
mod network;
mod node;
mod persistent_volumes;
mod pods;
mod pressure;
mod process;
mod quantity;
pub mod relay;
mod remove;
pub mod residents;
mod server;
mod service;
mod services;
pub mod shim;
mod statistics;
mod streaming;

pub use self::config::{Capacity, Config, Isolation, Namespaces, OutsideNames, Taint, Tls};
pub use self::enter::{Entered, enter};
pub use self::error::{Error, SystemFailure};
pub use self::images::check_image;
pub use self::join::JoinError;
pub use self::remove::remove;
pub use self::service::{Deps, Service};
