//! Applying manifests to a Kubernetes API and reading feedback from what was applied.
//!
//! A *work* is a list of Kubernetes objects that somebody far away wants in this cluster. Two agents carry works out: that
//! of Maestro, whose works come over MQTT, and that of the multicluster engine, whose works are `ManifestWork` objects of
//! this very cluster. What both do with one is the same and is here:
//!
//! * **[`Engine::apply`]** brings the objects about, each by its update strategy, repairs what drifted, deletes what the
//!   work no longer lists, and answers with the status: conditions, and what the feedback rules found. Over a work
//!   that is already as it should be, a pass reads caches only and writes nothing. A work that names an executor, a service
//!   account, is applied as far as that account could have done it.
//!   Conditions that rules ask for are among the status; a work whose rules say that it is complete is left alone.
//! * **[`Engine::remove`]** deletes what a work applied, and says what is still on its way out.
//!
//! # Who owns what
//!
//! For every work there is an `AppliedManifestWork` in the cluster. It is the owner of what the work applied and lists
//! it, so that an agent that has forgotten everything can still clean up. An object with several such owners stays
//! until the last of them lets go. Its name begins with the hash of the [`Hub`] the work comes from: two agents in one
//! cluster never touch each other's.
//!
//! # Who wakes whom
//!
//! Every resource of which something was applied is watched. When an applied object changes, or is deleted, the engine
//! calls back with the name of the work, and the agent makes another pass. Nothing is polled.
//!
//! # Secrets
//!
//! Manifests contain them. No manifest and no value of one is ever logged, and the API server's complaints about a
//! `Secret` are reported by their reason only, because they may quote it.
//!
//! # Tasks
//!
//! One watch per resource, in the [`Tasks`](pilothouse_runtime::Tasks) that the engine was given.

mod apply;
mod digest;
mod engine;
mod error;
mod executor;
mod feedback;
mod hub;
mod ignore;
mod mapper;
mod merge;
mod object;
mod owner;
mod path;
mod remove;
mod rule;
mod status;
mod watches;
mod written;

pub use self::digest::sha256_hex;
pub use self::engine::{Engine, Options, Removal, Work};
pub use self::error::Error;
pub use self::hub::Hub;
pub use self::path::{InvalidPath, Path};
