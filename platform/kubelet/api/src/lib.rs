//! Reaching into and out of a node: connected sockets over a Unix socket.
//!
//! A node lives in a network of its own that nobody outside has an address in. Who wants to talk to one of its pods
//! asks the node's kubelet, over a Unix socket, to open the connection; the kubelet does it from inside and hands the
//! connected socket over as a file descriptor. From then on the two ends talk through the kernel, no byte passes through
//! the kubelet, and the connection outlives it. The same way back, a node reaches the few places outside that were named for
//! it, such as its API server.
//!
//! # Protocol
//!
//! One request per connection, a line of JSON each way:
//!
//! | request | answer |
//! |---|---|
//! | `{"connect":"10.200.0.7:6443"}` | `{"ok":true}` together with the descriptor of a connected TCP socket |
//! | `{"connect":"management-api"}` | the same, for a place the serving side knows by that name |
//! | `{"stop":"pods"}` | `{"ok":true}` once every pod of the node has ended: nodes inside pods first, then the rest |
//! | anything else, or a failure | `{"error":"…"}` |
//!
//! Who may ask is decided by the permissions of the socket's folder.
//!
//! # Tasks
//!
//! [`Acceptor::serve`] is an accept loop, run by its owner as a task; each request is a task `handover` of the same owner.

mod address;
mod descriptor;
mod dialer;
mod protocol;
mod server;
mod target;

pub use self::address::connect_unix;
pub use self::dialer::Dialer;
pub use self::server::{Acceptor, Handler, Places};
pub use self::target::Target;
