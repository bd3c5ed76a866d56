//! The headers in which ARM says who its caller is.
//!
//! Whoever may send them can be anybody, so they are taken from ARM alone. For others every `X-Ms-*` header is dropped
//! that is not known to be harmless, rather than those that are known to matter: a header that somebody begins to read
//! tomorrow must not be an open door until this list is updated.

use http::{HeaderMap, HeaderName, HeaderValue};
use jiff::Timestamp;
use pilothouse_arm::{SystemData, header};

use crate::principal::Principal;

const PREFIX: &str = "x-ms-";

/// What anybody may send: ids of requests, and wishes about the answer.
const HARMLESS: [&str; 7] = [
    header::CLIENT_REQUEST_ID,
    header::CORRELATION_REQUEST_ID,
    header::RETURN_CLIENT_REQUEST_ID,
    header::REQUEST_ID,
    "x-ms-date",
    "x-ms-effective-locale",
    "x-ms-version",
];

/// The names of headers that only ARM may send.
pub(crate) fn identity_headers(headers: &HeaderMap) -> Vec<HeaderName> {
    let matters =
        |name: &&HeaderName| name.as_str().starts_with(PREFIX) && !HARMLESS.contains(&name.as_str());
    headers.keys().filter(matters).cloned().collect()
}

/// Replaces what somebody says of itself by what its credentials say.
pub(crate) fn replace(headers: &mut HeaderMap, principal: &Principal, now: Timestamp) {
    for name in identity_headers(headers) {
        headers.remove(name);
    }
    headers.extend(derived(principal, now));
}

/// What ARM would say of somebody, from its credentials.
pub(crate) fn derived(principal: &Principal, now: Timestamp) -> Vec<(HeaderName, HeaderValue)> {
    let system_data = SystemData {
        created_by: Some(principal.name().to_owned()),
        created_by_type: Some(principal.identity_type()),
        created_at: Some(now),
        last_modified_by: Some(principal.name().to_owned()),
        last_modified_by_type: Some(principal.identity_type()),
        last_modified_at: Some(now),
    };
    // Text and times: there is nothing that JSON could refuse.
    let system_data = serde_json::to_string(&system_data).unwrap_or_default();
    [
        (header::CLIENT_PRINCIPAL_NAME, Some(principal.name().to_owned())),
        (header::CLIENT_OBJECT_ID, principal.object_id().map(str::to_owned)),
        (header::HOME_TENANT_ID, principal.tenant_id().map(str::to_owned)),
        (header::SYSTEM_DATA, Some(ascii(&system_data))),
    ]
    .into_iter()
    .filter_map(|(name, value)| {
        Some((HeaderName::from_static(name), HeaderValue::from_str(&value?.replace(unprintable, "?")).ok()?))
    })
    .collect()
}

fn unprintable(character: char) -> bool {
    !matches!(character, ' '..='~')
}

/// JSON in letters that a header may have.
fn ascii(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for character in json.chars() {
        if character.is_ascii() {
            text.push(character);
        } else {
            for unit in character.encode_utf16(&mut [0; 2]) {
                text.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    text
}
