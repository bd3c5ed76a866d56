use std::fmt;
use std::net::SocketAddr;

/// Where a connection is wanted to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// An address in the network of whoever serves.
    Address(SocketAddr),
    /// A place whoever serves knows by name.
    Named(String),
}

impl Target {
    /// What a request means: an address if it can be read as one.
    pub fn parse(text: &str) -> Self {
        text.parse().map_or_else(|_| Self::Named(text.to_owned()), Self::Address)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(formatter),
            Self::Named(name) => formatter.write_str(name),
        }
    }
}

impl From<SocketAddr> for Target {
    fn from(address: SocketAddr) -> Self {
        Self::Address(address)
    }
}
