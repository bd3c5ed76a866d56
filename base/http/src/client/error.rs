use std::error::Error;
use std::fmt;

use http::Method;
use url::Url;

/// Why a client could not be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientBuildError {
    /// The certificates are not usable.
    #[error("the client's certificates were refused by TLS")]
    Tls(#[from] rustls::Error),
    /// The HTTP library refused.
    #[error("the HTTP client could not be set up")]
    Http(#[source] reqwest::Error),
}

/// A call that brought no answer.
#[derive(Debug, thiserror::Error)]
#[error("{method} {url} {failure} after {attempts} attempt{}", if *.attempts == 1 { "" } else { "s" })]
pub struct CallError {
    pub(super) method: Method,
    pub(super) url: String,
    pub(super) attempts: u32,
    pub(super) failure: Failure,
    #[source]
    pub(super) source: Option<Box<dyn Error + Send + Sync>>,
}

/// What went wrong, as far as a caller can act on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Failure {
    /// No connection: the peer is down, or is not who it should be. Nothing was sent.
    Connect,
    /// The deadline passed. The peer may have done what it was asked to.
    Deadline,
    /// The connection broke or the answer made no sense. The peer may have done what it was asked to.
    Broken,
    /// The call could not even be written down: a header or a body that does not encode.
    Invalid,
    /// The answer's body is not what was expected.
    Unreadable,
    /// The client may not go there. Nothing was sent.
    Forbidden,
}

impl CallError {
    /// What went wrong.
    pub fn failure(&self) -> Failure {
        self.failure
    }

    /// How often it was tried.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Connect => "found no connection",
            Self::Deadline => "did not end within its deadline",
            Self::Broken => "broke off",
            Self::Invalid => "could not be sent",
            Self::Unreadable => "brought an unreadable answer",
            Self::Forbidden => "may not go there",
        })
    }
}

/// The URL without what may be secret: user, password, query, fragment.
pub(super) fn shown(url: &Url) -> String {
    let mut shown = url.clone();
    // Both fail only for URLs that cannot have a user in the first place.
    let _ = shown.set_username("");
    let _ = shown.set_password(None);
    shown.set_query(None);
    shown.set_fragment(None);
    shown.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_in_urls_are_not_shown() {
        let url = "https://ada:secret@api.test:8443/a/b?token=secret#secret".parse().unwrap();
        assert_eq!(shown(&url), "https://api.test:8443/a/b");
    }
}
