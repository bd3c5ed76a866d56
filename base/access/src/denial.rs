//! Why somebody was not let in, in words that help them and nobody else.

use std::fmt;

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderName, HeaderValue, StatusCode};
use pilothouse_arm::{CloudError, ErrorCode, header};

/// Why somebody was not let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Denial {
    /// No credentials at all.
    Missing(Scheme),
    /// The credentials are no good.
    Token(Fault),
    /// The issuer's keys have never been read, so that nobody's token can be checked.
    KeysUnavailable,
    /// The certificate is good, but nobody is known by it.
    UnknownCertificate(String),
    /// They are who they say, and not an administrator.
    NotAdministrator(String),
    /// They are who they say, and the subscription is not theirs.
    Subscription {
        /// Who.
        name: String,
        /// Which one, as the request names it.
        subscription: String,
    },
}

/// What credentials are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// A token.
    Token,
    /// A client certificate.
    Certificate,
    /// Either.
    Both,
}

/// What is wrong with a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is not a token, or the header is not `Bearer`.
    Malformed,
    /// It is not signed, or in a way that is not accepted.
    Algorithm,
    /// It does not say which key signed it.
    NoKeyId,
    /// The issuer has no such key.
    UnknownKey,
    /// The key did not sign this.
    Signature,
    /// Its time is over.
    Expired,
    /// Its time has not come.
    NotYetValid,
    /// It has no end.
    NoExpiry,
    /// Somebody else issued it.
    Issuer,
    /// It is for somebody else.
    Audience,
    /// The application may not call.
    Application,
}

impl Denial {
    /// As the caller sees it.
    pub fn error(&self) -> CloudError {
        let code = match self {
            Self::Missing(_) | Self::Token(_) => ErrorCode::AuthenticationFailed,
            Self::UnknownCertificate(_) | Self::NotAdministrator(_) | Self::Subscription { .. } => {
                ErrorCode::AuthorizationFailed
            }
            Self::KeysUnavailable => {
                return CloudError::unavailable(format!("Authentication failed: {self}."))
                    .with_retry_after(5);
            }
        };
        let what = match code {
            ErrorCode::AuthenticationFailed => "Authentication",
            _ => "Authorization",
        };
        CloudError::new(code, format!("{what} failed: {self}."))
    }

    fn challenge(&self) -> Option<String> {
        const BEARER: &str = r#"Bearer realm="pilothouse""#;
        const CERTIFICATE: &str = r#"Certificate realm="pilothouse""#;
        match self {
            Self::Missing(Scheme::Token) => Some(BEARER.to_owned()),
            Self::Missing(Scheme::Certificate) => Some(CERTIFICATE.to_owned()),
            Self::Missing(Scheme::Both) => Some(format!("{BEARER}, {CERTIFICATE}")),
            // Our words have neither quotes nor backslashes in them.
            Self::Token(fault) => {
                Some(format!(r#"{BEARER}, error="invalid_token", error_description="{fault}""#))
            }
            Self::KeysUnavailable
            | Self::UnknownCertificate(_)
            | Self::NotAdministrator(_)
            | Self::Subscription { .. } => None,
        }
    }
}

impl fmt::Display for Denial {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(Scheme::Token) => {
                formatter.write_str("the request has no token; send the header 'Authorization: Bearer TOKEN'")
            }
            Self::Missing(Scheme::Certificate) => {
                formatter.write_str("the connection has no client certificate")
            }
            Self::Missing(Scheme::Both) => formatter.write_str(
                "the request has no token and the connection no client certificate; send the header \
                 'Authorization: Bearer TOKEN'",
            ),
            Self::Token(fault) => fault.fmt(formatter),
            Self::KeysUnavailable => {
                formatter.write_str("the keys of the token's issuer cannot be read at the moment; try again")
            }
            Self::UnknownCertificate(subject) => {
                write!(formatter, "the client certificate '{subject}' is not that of a known caller")
            }
            Self::NotAdministrator(name) => write!(formatter, "'{name}' is not an administrator"),
            Self::Subscription { name, subscription } => {
                write!(formatter, "'{name}' may not do this in subscription '{subscription}'")
            }
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Malformed => "the header 'Authorization' does not hold a bearer token",
            Self::Algorithm => "the token is not signed with RS256, ES256 or EdDSA",
            Self::NoKeyId => "the token does not say which key signed it",
            Self::UnknownKey => "the token is signed with a key that its issuer does not have",
            Self::Signature => "the signature of the token is wrong",
            Self::Expired => "the token has expired",
            Self::NotYetValid => "the token is not valid yet",
            Self::NoExpiry => "the token does not say when it expires",
            Self::Issuer => "the token is of another issuer",
            Self::Audience => "the token is for another audience",
            Self::Application => "the application of the token may not call this service",
        })
    }
}

impl IntoResponse for Denial {
    fn into_response(self) -> Response {
        let mut response = respond(&self.error());
        if let Some(challenge) = self.challenge().and_then(|text| HeaderValue::from_str(&text).ok()) {
            response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
        }
        response
    }
}

/// An error in ARM's form.
pub(crate) fn respond(error: &CloudError) -> Response {
    let status = StatusCode::from_u16(error.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = (status, Json(error)).into_response();
    let headers = response.headers_mut();
    if let Ok(code) = HeaderValue::from_str(&error.details().code) {
        headers.insert(HeaderName::from_static(header::ERROR_CODE), code);
    }
    if let Some(seconds) = error.retry_after() {
        headers.insert(RETRY_AFTER, seconds.into());
    }
    response
}
