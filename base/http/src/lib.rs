//! Listeners, TLS reload, middleware, health pages and the client builder.
//!
//! Every service speaks HTTP through this crate, in both directions, so that the unglamorous promises are made once:
//!
//! * **Ports.** [`Listener::bind`] takes the port before anything else is built, and an error names who needs it and
//!   what to do. Who may reach it is a decision that has to be written down ([`Exposure`]): the default is the loopback;
//!   off it TLS is required, and internal listeners name their callers by client certificate ([`AllowedCallers`]).
//! * **Certificates** come from files ([`CertificateSource`]) and are replaced while the process runs: new connections
//!   get the new one, old ones go on. Files that cannot be used leave the old certificate in place and say so on the
//!   readiness page.
//! * **Serving** ([`Listener::serve`]): HTTP/1.1 and HTTP/2, a limit on connections, no patience with slow senders of
//!   headers, and a drain at shutdown that finishes what was accepted, within its deadline.
//! * **Around every router** ([`Stack::around`]): request id, a [`Context`] that travels on, body limit, time limit,
//!   panics answered as errors, one access log line and one set of numbers per request.
//! * **Operators' pages** ([`Operations`]): `/livez`, `/readyz`, `/metrics`, `/debug/…`. Their router is separate and
//!   belongs on a listener of its own, never on the public one.
//! * **Calling others** ([`Client`]): every call has a deadline, only what may be repeated is retried, no redirects, no
//!   trust in the machine's authorities unless asked for.
//! * **Bodies** ([`members`]): a look at JSON text as it was sent, for what a parser silently drops.
//!
//! # Tasks
//!
//! [`Listener::serve`] is the accept loop; run it as a task that stops the process. Each connection is a task named
//! `connection` of the same owner. [`CertificateSource::watch`] adds one that looks at the files from time to time. Nothing
//! else runs by itself.
//!
//! # Errors on the wire
//!
//! What this crate answers itself (too large, too slow, not allowed, panicked) has the shape of ARM's errors,
//! `{"error":{"code":…,"message":…}}`, and never contains more than the request id and what the caller did.

mod anonymous_sessions;
mod callers;
mod certificates;
mod client;
mod context;
mod exposure;
mod health;
mod listener;
mod members;
mod metrics;
mod operations;
mod problem;
mod server;
mod stack;

pub use self::callers::{AllowedCallers, Peer, PeerIdentity};
pub use self::certificates::{CertificateError, CertificateSource, Reloaded, TlsFiles};
pub use self::client::{Call, CallError, Client, ClientBuildError, ClientBuilder, Failure, Response};
pub use self::context::Context;
pub use self::exposure::{Exposure, Refusal};
pub use self::health::{Health, Verdict};
pub use self::listener::{BindError, Limits, Listener, ListenerConfig};
pub use self::members::{Member, members};
pub use self::metrics::{Metrics, Route};
pub use self::operations::Operations;
pub use self::problem::Problem;
pub use self::stack::Stack;
