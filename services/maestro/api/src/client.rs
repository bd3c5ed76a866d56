//! Clients of both interfaces.

mod channel;
mod rest;
mod source;

pub use self::channel::{Dial, EventChannel, Events};
pub use self::rest::RestClient;
pub use self::source::{SourceClient, Subscription};
