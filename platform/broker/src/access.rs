use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use pilothouse_http::PeerIdentity;

/// Who is connected.
#[derive(Clone, Debug)]
pub struct Client {
    /// What it calls itself.
    pub id: String,
    /// Where it is.
    pub address: SocketAddr,
    /// What its certificate says; `None` without TLS.
    pub identity: Option<PeerIdentity>,
}

/// What a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access<'a> {
    /// To be here, under its id: whoever is connected under the same one is put out.
    Connect,
    /// To send to a topic.
    Publish(&'a str),
    /// To be sent what a filter selects, without the prefix of shared subscriptions.
    Subscribe(&'a str),
}

/// Decides who may do what. A cheap handle.
#[derive(Clone)]
pub struct Authorizer(Arc<Decide>);

type Decide = dyn Fn(&Client, Access<'_>) -> bool + Send + Sync;

impl Authorizer {
    /// Asks `decide` about everything. It is called for every message, and must not block.
    pub fn new(decide: impl Fn(&Client, Access<'_>) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(decide))
    }

    /// Lets everybody do everything.
    pub fn open() -> Self {
        Self::new(|_, _| true)
    }

    pub(crate) fn allows(&self, client: &Client, access: Access<'_>) -> bool {
        (self.0)(client, access)
    }
}

impl fmt::Debug for Authorizer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Authorizer").finish_non_exhaustive()
    }
}
