use std::fmt;
use std::str::FromStr;

use jiff::civil::Date;
use serde::{Deserialize, Serialize};

/// The version of a contract: a date, and whether it is a preview of it. A preview comes before the release of its day.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ApiVersion {
    date: Date,
    released: bool,
}

/// Not a date, or not one in the form that api-versions have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an api-version; it has the form 2026-10-01 or 2026-10-01-preview")]
pub struct MalformedApiVersion(String);

impl ApiVersion {
    /// The release of that day.
    pub const fn release(year: i16, month: i8, day: i8) -> Self {
        Self { date: Date::constant(year, month, day), released: true }
    }

    /// The preview of that day.
    pub const fn preview(year: i16, month: i8, day: i8) -> Self {
        Self { date: Date::constant(year, month, day), released: false }
    }

    /// Whether it is a preview.
    pub fn is_preview(self) -> bool {
        !self.released
    }
}

impl FromStr for ApiVersion {
    type Err = MalformedApiVersion;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (date, released) = match text.strip_suffix("-preview") {
            Some(date) => (date, false),
            None => (text, true),
        };
        match date.parse::<Date>() {
            // The parser takes other spellings of a date too.
            Ok(parsed) if parsed.to_string() == date => Ok(Self { date: parsed, released }),
            _ => Err(MalformedApiVersion(text.to_owned())),
        }
    }
}

impl TryFrom<String> for ApiVersion {
    type Error = MalformedApiVersion;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<ApiVersion> for String {
    fn from(version: ApiVersion) -> Self {
        version.to_string()
    }
}

impl fmt::Display for ApiVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}{}", self.date, if self.released { "" } else { "-preview" })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn versions_are_in_order_of_their_days_and_previews_come_first() {
        let texts = ["2024-06-10-preview", "2026-09-01-preview", "2026-10-01-preview", "2026-10-01"];
        let versions = texts.map(|text| text.parse::<ApiVersion>().unwrap());
        assert!(versions.is_sorted());
        assert_eq!(versions.map(|version| version.to_string()), texts);
        assert_eq!(versions[3], ApiVersion::release(2026, 10, 1));
        assert!(versions[0].is_preview());
        for text in ["", "2.0", "2024-6-10", "2024-06-10-Preview", "20240610", "2024-06-10T00:00:00"] {
            assert!(text.parse::<ApiVersion>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again_and_is_in_order(
            one in (2000_i16..2100, 1_i8..13, 1_i8..29, any::<bool>()),
            other in (2000_i16..2100, 1_i8..13, 1_i8..29, any::<bool>()),
        ) {
            let version = |(year, month, day, released)| if released {
                ApiVersion::release(year, month, day)
            } else {
                ApiVersion::preview(year, month, day)
            };
            let made = version(one);
            prop_assert_eq!(made.to_string().parse::<ApiVersion>().unwrap(), made);
            prop_assert_eq!(made.is_preview(), !one.3);
            prop_assert_eq!(made.cmp(&version(other)), one.cmp(&other));
        }

        #[test]
        fn no_other_text_is_taken(text in "\\PC{0,30}|[12][0-9]{3}-?(0[1-9]|1[0-2])-?[0-2][1-8](-preview|-Preview|T00| )?") {
            if let Ok(version) = text.parse::<ApiVersion>() {
                prop_assert_eq!(version.to_string(), text);
            }
        }
    }
}
