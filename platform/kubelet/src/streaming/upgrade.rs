//! Agreeing on a protocol.

use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use http::header::{
    CONNECTION, HeaderMap, HeaderName, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL,
    UPGRADE,
};
use http::{HeaderValue, StatusCode};

use super::websocket;

const VERSION: HeaderName = HeaderName::from_static("x-stream-protocol-version");
const ACCEPTED: HeaderName = HeaderName::from_static("x-accepted-stream-protocol-versions");

/// What client and server will speak.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// With the part that was agreed on.
    WebSocket(&'static str),
    Spdy,
}

/// The part of a protocol that programs are talked to in, newest first.
pub(crate) const COMMANDS: Offered =
    Offered { websocket: &["v5.channel.k8s.io", "v4.channel.k8s.io"], spdy: &["v4.channel.k8s.io"] };
/// SPDY inside a websocket is what clients prefer.
pub(crate) const TUNNEL: &str = "SPDY/3.1+portforward.k8s.io";
pub(crate) const PORTS: Offered =
    Offered { websocket: &[TUNNEL, "v4.channel.k8s.io"], spdy: &["portforward.k8s.io"] };

/// What we understand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offered {
    websocket: &'static [&'static str],
    spdy: &'static [&'static str],
}

/// Chooses a protocol, and makes the answer that begins it.
///
/// # Errors
///
/// With the answer to a request that asks for nothing we understand.
#[expect(clippy::result_large_err, reason = "the error is the answer")]
pub(crate) fn agree(headers: &HeaderMap, offered: Offered) -> Result<(Protocol, Response), Response> {
    let refuse = |status: StatusCode, why: String| Err((status, why).into_response());
    let asked = |name: &HeaderName| all(headers, name).map(str::to_ascii_lowercase).collect::<Vec<_>>();
    let wants = |protocol: &str| {
        asked(&CONNECTION).iter().any(|one| one == "upgrade")
            && asked(&UPGRADE).iter().any(|one| one == protocol)
    };
    let mut answer = Response::new(Body::empty());
    *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    if wants("websocket") {
        let Some(key) = headers.get(SEC_WEBSOCKET_KEY).and_then(|key| key.to_str().ok()) else {
            return refuse(StatusCode::BAD_REQUEST, "unable to upgrade: the websocket has no key".to_owned());
        };
        let wanted: Vec<_> = all(headers, &SEC_WEBSOCKET_PROTOCOL).collect();
        let Some(chosen) = offered.websocket.iter().copied().find(|one| wanted.contains(one)) else {
            let why = format!("unable to upgrade: none of {wanted:?} is among {:?}", offered.websocket);
            return refuse(StatusCode::FORBIDDEN, why);
        };
        answer.headers_mut().insert(UPGRADE, HeaderValue::from_static("websocket"));
        answer.headers_mut().insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(chosen));
        if let Ok(accept) = HeaderValue::from_str(&websocket::accept(key)) {
            answer.headers_mut().insert(SEC_WEBSOCKET_ACCEPT, accept);
        }
        return Ok((Protocol::WebSocket(chosen), answer));
    }
    if wants("spdy/3.1") {
        let wanted: Vec<_> = all(headers, &VERSION).collect();
        let Some(chosen) = offered.spdy.iter().copied().find(|one| wanted.contains(one)) else {
            let why = format!(
                "unable to upgrade: unable to negotiate protocol: client supports {wanted:?}, server accepts {:?}",
                offered.spdy
            );
            let mut refused = (StatusCode::FORBIDDEN, why).into_response();
            for accepted in offered.spdy {
                refused.headers_mut().append(ACCEPTED, HeaderValue::from_static(accepted));
            }
            return Err(refused);
        };
        answer.headers_mut().insert(UPGRADE, HeaderValue::from_static("SPDY/3.1"));
        answer.headers_mut().insert(VERSION, HeaderValue::from_static(chosen));
        return Ok((Protocol::Spdy, answer));
    }
    refuse(StatusCode::BAD_REQUEST, "unable to upgrade: missing upgrade headers in request".to_owned())
}

/// Every word under a name, whether in one header or in several.
fn all<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn newest_protocol_both_know_is_chosen() {
        let web = headers(&[
            ("connection", "keep-alive, Upgrade"),
            ("upgrade", "websocket"),
            ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
            ("sec-websocket-protocol", "v4.channel.k8s.io, v5.channel.k8s.io"),
        ]);
        let (protocol, answer) = agree(&web, COMMANDS).unwrap();
        assert_eq!(protocol, Protocol::WebSocket("v5.channel.k8s.io"));
        assert_eq!(answer.headers()[SEC_WEBSOCKET_ACCEPT], "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        let spdy = headers(&[
            ("connection", "Upgrade"),
            ("upgrade", "SPDY/3.1"),
            ("x-stream-protocol-version", "v5.channel.k8s.io"),
            ("x-stream-protocol-version", "v4.channel.k8s.io"),
        ]);
        let (protocol, answer) = agree(&spdy, COMMANDS).unwrap();
        assert_eq!(
            (protocol, answer.headers()[&VERSION].as_bytes()),
            (Protocol::Spdy, &b"v4.channel.k8s.io"[..])
        );
        assert_eq!(agree(&spdy, PORTS).unwrap_err().status(), StatusCode::FORBIDDEN);
        assert_eq!(agree(&HeaderMap::new(), PORTS).unwrap_err().status(), StatusCode::BAD_REQUEST);
    }
}
