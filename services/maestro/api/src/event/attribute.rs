use std::fmt;

use jiff::Timestamp;

/// The value of an extension. Over MQTT everything is text; over gRPC numbers and moments keep their kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attribute {
    /// Text, addresses included.
    Text(String),
    /// A number.
    Integer(i32),
    /// Yes or no.
    Boolean(bool),
    /// A moment.
    Moment(Timestamp),
}

/// As MQTT writes it.
impl fmt::Display for Attribute {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => formatter.write_str(text),
            Self::Integer(number) => number.fmt(formatter),
            Self::Boolean(value) => value.fmt(formatter),
            Self::Moment(moment) => moment.fmt(formatter),
        }
    }
}

impl From<&str> for Attribute {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Attribute {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<i32> for Attribute {
    fn from(number: i32) -> Self {
        Self::Integer(number)
    }
}

impl From<Timestamp> for Attribute {
    fn from(moment: Timestamp) -> Self {
        Self::Moment(moment)
    }
}
