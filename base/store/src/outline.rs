//! A document's text, taken apart only as far as somebody looks.
//!
//! Indexes and secrets concern a few fields. What lies beside them is often most of the document, and is passed on as the
//! text it is: it is neither read into a tree nor written anew.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::wiped::Wiped;

/// A value in a document.
#[derive(Debug)]
pub(crate) enum Outline<'a> {
    /// As it stands there.
    Text(&'a str),
    Object(Vec<(String, Outline<'a>)>),
    Array(Vec<Outline<'a>>),
    /// What was sealed there, as JSON.
    Opened(Wiped),
    /// What is sealed there now, as JSON.
    Sealed(String),
}

struct Members<'a>(Vec<(String, Outline<'a>)>);

struct Elements<'a>(Vec<Outline<'a>>);

impl<'a> Outline<'a> {
    /// Of a text that must be JSON: all of it is looked at once, so that no document is kept that nobody can read.
    pub(crate) fn try_new(text: &'a str) -> Result<Self, serde_json::Error> {
        serde_json::from_str::<&RawValue>(text).map(|whole| Self::Text(whole.get()))
    }

    /// Takes an object or array apart, once. Anything else stays as it is.
    pub(crate) fn unfold(&mut self) -> Result<(), serde_json::Error> {
        let Self::Text(text) = *self else { return Ok(()) };
        match text.as_bytes().first() {
            Some(b'{') => *self = Self::Object(serde_json::from_str::<Members<'a>>(text)?.0),
            Some(b'[') => *self = Self::Array(serde_json::from_str::<Elements<'a>>(text)?.0),
            _ => {}
        }
        Ok(())
    }

    /// The value as JSON.
    pub(crate) fn write(&self, out: &mut String) {
        match self {
            Self::Text(text) => out.push_str(text),
            Self::Opened(text) => out.push_str(text),
            Self::Sealed(text) => out.push_str(text),
            Self::Object(members) => {
                out.push('{');
                for (number, (name, value)) in members.iter().enumerate() {
                    if number > 0 {
                        out.push(',');
                    }
                    out.push_str(&serde_json::Value::from(name.as_str()).to_string());
                    out.push(':');
                    value.write(out);
                }
                out.push('}');
            }
            Self::Array(elements) => {
                out.push('[');
                for (number, value) in elements.iter().enumerate() {
                    if number > 0 {
                        out.push(',');
                    }
                    value.write(out);
                }
                out.push(']');
            }
        }
    }

    /// How long it is as JSON, unless names have to be escaped.
    pub(crate) fn length(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Opened(text) => text.len(),
            Self::Sealed(text) => text.len(),
            // Quotes, a colon and a comma for each.
            Self::Object(members) => {
                2 + members.iter().map(|(name, value)| name.len() + 4 + value.length()).sum::<usize>()
            }
            Self::Array(elements) => 2 + elements.iter().map(|value| value.length() + 1).sum::<usize>(),
        }
    }

    /// What a text says, if it is one.
    pub(crate) fn string(&self) -> Option<Cow<'_, str>> {
        match self {
            Self::Text(text) => string(text),
            _ => None,
        }
    }

    /// Text, a number or a truth value, as text.
    pub(crate) fn scalar(&self) -> Option<String> {
        let Self::Text(text) = self else { return None };
        match text.as_bytes().first() {
            Some(b'"') => serde_json::from_str(text).ok(),
            Some(b't' | b'f' | b'-' | b'0'..=b'9') => {
                serde_json::from_str::<serde_json::Value>(text).ok().map(|value| value.to_string())
            }
            _ => None,
        }
    }
}

/// What a JSON string says, which is mostly what stands there.
pub(crate) fn string(json: &str) -> Option<Cow<'_, str>> {
    let inner = json.strip_prefix('"')?;
    match inner.strip_suffix('"') {
        // One after the other: looking for a single character is done in large steps.
        Some(inner) if !inner.contains('\\') && !inner.contains('"') => Some(Cow::Borrowed(inner)),
        _ => serde_json::from_str(json).ok().map(Cow::Owned),
    }
}

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;

        impl<'de> Visitor<'de> for Read {
            type Value = Members<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, &'de RawValue>()? {
                    members.push((name, Outline::Text(value.get())));
                }
                // The last of a name counts, as for everybody else who reads it.
                let last: HashMap<&str, usize> =
                    members.iter().enumerate().map(|(place, (name, _))| (name.as_str(), place)).collect();
                if last.len() < members.len() {
                    let places: HashSet<usize> = last.into_values().collect();
                    let mut place = 0..;
                    members.retain(|_| place.next().is_some_and(|place| places.contains(&place)));
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(Read)
    }
}

impl<'de> Deserialize<'de> for Elements<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;

        impl<'de> Visitor<'de> for Read {
            type Value = Elements<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an array")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Self::Value, A::Error> {
                let mut elements = Vec::new();
                while let Some(value) = sequence.next_element::<&'de RawValue>()? {
                    elements.push(Outline::Text(value.get()));
                }
                Ok(Elements(elements))
            }
        }

        deserializer.deserialize_seq(Read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_looked_at_stays_as_it_was_written() {
        let text = r#" {"b": [1.50, {"x" : "\u00e9"}], "a\"b": {"c":true}, "b2":null} "#;
        let mut outline = Outline::try_new(text).unwrap();
        outline.unfold().unwrap();
        let Outline::Object(members) = &mut outline else { panic!("{outline:?}") };
        members[1].1 = Outline::Sealed("7".to_owned());
        members[0].1.unfold().unwrap();
        let mut written = String::new();
        outline.write(&mut written);
        assert_eq!(written, r#"{"b":[1.50,{"x" : "\u00e9"}],"a\"b":7,"b2":null}"#);
        assert!((written.len() - 1..=written.len() + 2).contains(&outline.length()), "{}", outline.length());
    }

    #[test]
    fn strings_say_what_they_say() {
        for (json, expected) in [
            (r#""""#, Some("")),
            (r#""abc""#, Some("abc")),
            (r#""a\"b\u00e9""#, Some("a\"bé")),
            (r#""a"#, None),
            (r#"""#, None),
            (r#""a\""#, None),
            (r#""a"b""#, None),
            ("7", None),
            ("", None),
        ] {
            assert_eq!(string(json).as_deref(), expected, "{json}");
        }
    }

    #[test]
    fn only_the_last_of_several_members_of_one_name_is_there() {
        let mut outline = Outline::try_new(r#"{"a":"first","b":1,"a":"last"}"#).unwrap();
        outline.unfold().unwrap();
        let mut written = String::new();
        outline.write(&mut written);
        assert_eq!(written, r#"{"b":1,"a":"last"}"#);
    }

    #[test]
    fn text_that_is_no_document_is_refused() {
        for text in ["", "{", r#"{"a":}"#, "[1,]", "{} {}", "\"a\u{1}\""] {
            assert!(Outline::try_new(text).is_err(), "{text}");
        }
    }
}
