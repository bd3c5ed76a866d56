//! Bodies: how large they may be, and what they must say they are.

use axum::body::{Body, HttpBody as _};
use axum::extract::{FromRequest, FromRequestParts as _, Request};
use bytes::Bytes;
use futures::StreamExt as _;
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use pilothouse_arm::{CloudError, ErrorCode};

use crate::answer::Refusal;
use crate::call::Call;
use crate::service::App;

/// How many bytes a body may have.
pub(crate) const LARGEST: usize = 4 << 20;

/// A request about resources, with what was sent.
#[derive(Debug)]
pub(crate) struct Sent {
    pub(crate) call: Call,
    pub(crate) body: Bytes,
}

/// A body alone.
#[derive(Debug)]
pub(crate) struct Content(pub(crate) Bytes);

impl FromRequest<App> for Sent {
    type Rejection = Refusal;

    async fn from_request(request: Request, app: &App) -> Result<Self, Refusal> {
        let (mut parts, body) = request.into_parts();
        let body = read(&parts.headers, body).await?;
        Ok(Self { call: Call::from_request_parts(&mut parts, app).await?, body })
    }
}

impl FromRequest<App> for Content {
    type Rejection = Refusal;

    async fn from_request(request: Request, _: &App) -> Result<Self, Refusal> {
        let (parts, body) = request.into_parts();
        read(&parts.headers, body).await.map(Self)
    }
}

async fn read(headers: &HeaderMap, body: Body) -> Result<Bytes, Refusal> {
    if body.size_hint().lower() > LARGEST as u64 {
        discard(body).await;
        return Err(too_large());
    }
    let kind = headers.get(CONTENT_TYPE);
    if kind.is_some_and(|kind| !is_json(kind.as_bytes())) {
        return Err(not_json());
    }
    let body = axum::body::to_bytes(body, LARGEST).await.map_err(|_| too_large())?;
    if kind.is_none() && !body.is_empty() { Err(not_json()) } else { Ok(body) }
}

/// Takes what is too large off the wire, up to as much again: while a caller still sends, it does not hear the answer.
async fn discard(body: Body) {
    let mut chunks = body.into_data_stream();
    let mut taken = 0;
    while taken <= 2 * LARGEST
        && let Some(Ok(chunk)) = chunks.next().await
    {
        taken += chunk.len();
    }
}

/// Parameters, such as the character set, do not matter: JSON has only one.
fn is_json(kind: &[u8]) -> bool {
    let kind = kind.split(|byte| *byte == b';').next().unwrap_or_default();
    kind.trim_ascii().eq_ignore_ascii_case(b"application/json")
}

fn too_large() -> Refusal {
    let message =
        format!("The body of the request has more than {LARGEST} bytes, or did not arrive as a whole.");
    CloudError::new(ErrorCode::InvalidResource, message).into()
}

fn not_json() -> Refusal {
    let message = "The content type of the body must be 'application/json'.";
    CloudError::new(ErrorCode::UnsupportedMediaType, message).into()
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    async fn code(kind: Option<&'static str>, body: Vec<u8>) -> Option<String> {
        let headers = kind.map(|kind| (CONTENT_TYPE, HeaderValue::from_static(kind)));
        match read(&headers.into_iter().collect(), Body::from(body)).await {
            Ok(_) => None,
            Err(Refusal::Said(error)) => Some(error.details().code.clone()),
            Err(other) => panic!("{other}"),
        }
    }

    #[tokio::test]
    async fn bodies_are_json_of_limited_size_or_absent() {
        let unsupported = Some("UnsupportedMediaType".to_owned());
        for (kind, body, expected) in [
            (Some("application/json"), "{}", None),
            (Some("Application/JSON; charset=\"utf-8\""), "{}", None),
            (Some("application/json"), "", None),
            (None, "", None),
            (None, "{}", unsupported.clone()),
            (Some("text/plain"), "{}", unsupported.clone()),
            (Some("text/plain"), "", unsupported.clone()),
            (Some(""), "", unsupported.clone()),
            (Some("application/jsonx"), "{}", unsupported),
        ] {
            assert_eq!(code(kind, body.into()).await, expected, "{kind:?} {body:?}");
        }
        let json = Some("application/json");
        assert_eq!(code(json, vec![b' '; LARGEST]).await, None);
        assert_eq!(code(json, vec![b' '; LARGEST + 1]).await.as_deref(), Some("InvalidResource"));
        // Without a length that is known in advance.
        let chunks = (0..5).map(|_| Ok::<_, std::convert::Infallible>(Bytes::from(vec![b' '; 1 << 20])));
        let stream = Body::from_stream(futures::stream::iter(chunks));
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("application/json"))]);
        assert!(matches!(read(&headers, stream).await, Err(Refusal::Said(_))));
    }
}
