//! Which part of a list is wanted.

use axum::Json;
use axum::response::{IntoResponse as _, Response};
use pilothouse_arm::{CloudError, ErrorCode, Page};
use pilothouse_records::Listed;
use serde_json::Value;

use crate::answer::Refusal;
use crate::call::Call;

/// However many are asked for, a page has no more.
const LARGEST: usize = 100;

/// A part of a list: how much, and from where on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) limit: usize,
    pub(crate) token: Option<String>,
}

impl Part {
    /// As the request asks for it.
    pub(crate) fn of(call: &Call, usual: usize) -> Result<Self, Refusal> {
        let limit = match call.parameter("$top") {
            None => usual,
            Some(text) => size(&text).ok_or_else(|| {
                let message = format!("The parameter '$top' must be a number between 1 and {}.", i32::MAX);
                CloudError::new(ErrorCode::InvalidParameter, message).with_target("$top")
            })?,
        };
        Ok(Self { limit: limit.min(LARGEST), token: call.parameter("$skipToken") })
    }
}

fn size(text: &str) -> Option<usize> {
    // A sign would be read as well, and is none that a number of things has.
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = digits.then(|| text.parse::<i32>().ok()).flatten()?;
    usize::try_from(number).ok().filter(|number| *number > 0)
}

/// A list as it is answered, with the way to its next part.
pub(crate) fn answer<T>(
    call: &Call,
    listed: Listed<T>,
    shown: impl FnMut(T) -> Value,
) -> Result<Response, Refusal> {
    let next_link = listed.next.map(|token| call.next_page(&token)).transpose()?;
    let value: Vec<_> = listed.items.into_iter().map(|stored| stored.record).map(shown).collect();
    Ok(Json(Page { value, next_link }).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_a_page_is_a_positive_number_of_32_bits() {
        for (text, expected) in [("1", Some(1)), ("020", Some(20)), ("2147483647", Some(2_147_483_647))] {
            assert_eq!(size(text), expected, "{text}");
        }
        for text in ["", "0", "-1", "+1", "1.0", "x", " 1", "2147483648", "99999999999999999999"] {
            assert_eq!(size(text), None, "{text}");
        }
    }
}
