//! Paths in whatever case: routed in lower case, answered as spelled.

use axum::extract::Request;
use http::Uri;
use http::uri::PathAndQuery;

/// The path as the client spelled it, without escapes.
#[derive(Clone, Debug)]
pub(crate) struct Spelled(pub(crate) String);

/// Puts the path into lower case for the router, and keeps how it was spelled.
pub(crate) fn lower(mut request: Request) -> Request {
    let path = request.uri().path();
    // A slash in a name would make two segments of one: it stays escaped, and the path is then no resource id.
    let spelled = Spelled(decoded(path, |byte| byte != b'/'));
    let trimmed = path.strip_suffix('/').filter(|path| !path.is_empty()).unwrap_or(path);
    let lower = match request.uri().query() {
        Some(query) => format!("{}?{query}", trimmed.to_ascii_lowercase()),
        None => trimmed.to_ascii_lowercase(),
    };
    let mut parts = request.uri().clone().into_parts();
    if let Ok(path) = lower.parse::<PathAndQuery>() {
        parts.path_and_query = Some(path);
        if let Ok(uri) = Uri::from_parts(parts) {
            *request.uri_mut() = uri;
        }
    }
    request.extensions_mut().insert(spelled);
    request
}

/// A text without the escapes of those bytes that are wanted. What does not decode stays as it is.
pub(crate) fn decoded(text: &str, wanted: fn(u8) -> bool) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let escape = match rest {
            [b'%', high, low, ..] => std::str::from_utf8(&[*high, *low])
                .ok()
                .and_then(|digits| u8::from_str_radix(digits, 16).ok())
                .filter(|byte| wanted(*byte)),
            _ => None,
        };
        match escape {
            Some(byte) => {
                bytes.push(byte);
                rest = &rest[3..];
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    #[test]
    fn paths_are_routed_in_lower_case_and_kept_as_spelled() {
        let uri = "/Subscriptions/S/resourceGroups/Gr%C3%BCn%20%2f/?Api-Version=X";
        let request = Request::builder().uri(uri).body(Body::empty()).unwrap();
        let lowered = lower(request);
        assert_eq!(
            lowered.uri().to_string(),
            "/subscriptions/s/resourcegroups/gr%c3%bcn%20%2f?Api-Version=X"
        );
        let Spelled(spelled) = lowered.extensions().get::<Spelled>().unwrap();
        assert_eq!(spelled, "/Subscriptions/S/resourceGroups/Grün %2f/");
    }
}
