use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::AllowedCallers;

/// Who may reach a listener. Off the loopback the choice has to be made; there is no way to expose one by accident.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exposure {
    /// Only this machine. With TLS or without.
    #[default]
    Loopback,
    /// Anybody, because every request is authenticated by the service itself. Off the loopback TLS is required, since
    /// credentials travel with the requests.
    Authenticated,
    /// Only peers with a client certificate by one of these names. Off the loopback mutual TLS is required; on it, a
    /// listener without TLS lets the whole machine in.
    Callers(AllowedCallers),
    /// Anybody, in the clear, because something in front (a mesh, a load balancer) authenticates and encrypts. The name
    /// is long so that it is seen in review.
    PlainBehindTrustedProxy,
}

/// Why a listener may not have the address it asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The default exposure on another address.
    #[error(
        "without authentication it may only listen on the loopback; use 127.0.0.1 or [::1], or set its exposure"
    )]
    NotLoopback,
    /// Credentials would travel in the clear.
    #[error("off the loopback it needs TLS; set `tls.certificate` and `tls.key`")]
    NeedsTls,
    /// Callers cannot be told apart.
    #[error("its callers are told apart by client certificates; set `tls.client_authorities`")]
    NeedsClientAuthorities,
}

/// What a listener has in terms of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protection {
    Plain,
    Tls,
    MutualTls,
}

impl Exposure {
    /// Whether a listener so protected may have `address`.
    pub(crate) fn admits(&self, address: SocketAddr, protection: Protection) -> Result<(), Refusal> {
        let loopback = address.ip().to_canonical().is_loopback();
        match (self, protection) {
            (Self::PlainBehindTrustedProxy, _) => Ok(()),
            (Self::Loopback, _) if loopback => Ok(()),
            (Self::Loopback, _) => Err(Refusal::NotLoopback),
            (Self::Authenticated, Protection::Plain) if !loopback => Err(Refusal::NeedsTls),
            (Self::Authenticated, _) => Ok(()),
            (Self::Callers(_), Protection::MutualTls) => Ok(()),
            (Self::Callers(_), Protection::Tls) => Err(Refusal::NeedsClientAuthorities),
            (Self::Callers(_), Protection::Plain) if loopback => Ok(()),
            (Self::Callers(_), Protection::Plain) => Err(Refusal::NeedsTls),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn off_the_loopback_nothing_is_open_without_a_reason() {
        let callers = || Exposure::Callers(AllowedCallers::new(["frontend"]));
        let (near, far) = ("127.0.0.1:0".parse().unwrap(), "0.0.0.0:0".parse().unwrap());
        let mapped = "[::ffff:127.0.0.1]:0".parse().unwrap();
        use {Protection as P, Refusal as R};
        for (exposure, address, protection, expected) in [
            (Exposure::Loopback, near, P::Plain, Ok(())),
            (Exposure::Loopback, mapped, P::Plain, Ok(())),
            (Exposure::Loopback, far, P::Plain, Err(R::NotLoopback)),
            (Exposure::Loopback, far, P::MutualTls, Err(R::NotLoopback)),
            (Exposure::Loopback, "[::]:0".parse().unwrap(), P::Tls, Err(R::NotLoopback)),
            (Exposure::Authenticated, near, P::Plain, Ok(())),
            (Exposure::Authenticated, far, P::Plain, Err(R::NeedsTls)),
            (Exposure::Authenticated, far, P::Tls, Ok(())),
            (callers(), near, P::Plain, Ok(())),
            (callers(), near, P::Tls, Err(R::NeedsClientAuthorities)),
            (callers(), far, P::Plain, Err(R::NeedsTls)),
            (callers(), far, P::Tls, Err(R::NeedsClientAuthorities)),
            (callers(), far, P::MutualTls, Ok(())),
            (Exposure::PlainBehindTrustedProxy, far, P::Plain, Ok(())),
        ] {
            assert_eq!(
                exposure.admits(address, protection),
                expected,
                "{exposure:?} {address} {protection:?}"
            );
        }
    }
}
