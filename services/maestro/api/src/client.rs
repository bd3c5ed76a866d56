//! Clients of both interfaces.

mod rest;
mod source;

pub use self::rest::RestClient;
pub use self::source::{SourceClient, Subscription};
