//! Answers, packed for whoever can unpack them.

use std::io::Write as _;

use axum::body::Body;
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH};
use http::{HeaderMap, HeaderValue};

/// What is smaller is sent as it is.
const WORTH_IT: usize = 1_024;

pub(super) async fn pack(request: Request, next: Next) -> Response {
    let wanted = takes_gzip(request.headers());
    let response = next.run(request).await;
    if !wanted || response.headers().contains_key(CONTENT_ENCODING) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    // It was made in memory, and has its end.
    let Ok(plain) = axum::body::to_bytes(body, usize::MAX).await else {
        return Response::from_parts(parts, Body::empty());
    };
    if plain.len() < WORTH_IT {
        return Response::from_parts(parts, Body::from(plain));
    }
    let packed = {
        let plain = plain.clone();
        // Some are large, and others wait for this task.
        tokio::task::spawn_blocking(move || {
            let mut encoder = GzEncoder::new(Vec::with_capacity(plain.len() / 4), Compression::fast());
            encoder.write_all(&plain)?;
            encoder.finish()
        })
        .await
    };
    let Ok(Ok(packed)) = packed else { return Response::from_parts(parts, Body::from(plain)) };
    parts.headers.remove(CONTENT_LENGTH);
    parts.headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    Response::from_parts(parts, Body::from(packed))
}

fn takes_gzip(headers: &HeaderMap) -> bool {
    let offered = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    offered.flat_map(|value| value.split(',')).any(|one| {
        let (name, quality) = one.split_once(';').unwrap_or((one, ""));
        let refused = quality.trim().strip_prefix("q=").is_some_and(|number| number.parse() == Ok(0.0));
        name.trim().eq_ignore_ascii_case("gzip") && !refused
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_is_taken_by_those_who_say_so() {
        for (text, expected) in [
            ("gzip", true),
            ("deflate, gzip;q=1.0, *;q=0.5", true),
            ("GZIP", true),
            ("gzip;q=0", false),
            ("deflate", false),
            ("", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT_ENCODING, text.parse().unwrap());
            assert_eq!(takes_gzip(&headers), expected, "{text}");
        }
    }
}
