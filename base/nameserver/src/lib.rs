//! Questions about names, taken over UDP and TCP, and answers to them as they are sent.
//!
//! Two parts of the system answer for names: every node for those inside its cluster, and the region for those of its
//! clusters. What they know differs in everything; how they are asked does not, and is here: which messages are questions,
//! how much of an answer fits into a datagram, how long somebody may be silent, how much strangers may ask. The format of
//! messages is hickory's.
//!
//! ```text
//!   datagram, connection ──▶ Bound ──▶ message: a question? ──▶ Answers (whoever knows)
//!                              ◀────── message: what fits   ◀──── Answer
//! ```
//!
//! # Tasks
//!
//! Of whoever starts it: `dns` (datagrams), `dns-connections`, and one `dns-connection` per client.

mod answer;
mod message;
mod server;
mod strangers;

pub use answer::{Answer, Answers};
pub use server::Bound;
