//! A walk over the members of a JSON text, in the order in which they stand there.
//!
//! Whoever reads an object takes the first or the last of two members of one name, and never both. What was meant is not
//! known, so services tell their callers; for that they need the text, not what a parser made of it.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

/// One member of an object somewhere in a JSON text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member<'a> {
    /// Where it stands, as in `spec.items[0].name`.
    pub path: &'a str,
    /// Whether the same object had one of this name before.
    pub repeated: bool,
}

/// Tells of every member of every object in `text`, each before what is below it. An error says where the text stops
/// being JSON; what stands before has been told by then.
pub fn members(text: &[u8], mut tell: impl FnMut(Member<'_>)) -> serde_json::Result<()> {
    let mut reader = serde_json::Deserializer::from_slice(text);
    Value { path: &mut String::new(), tell: &mut tell }.deserialize(&mut reader)?;
    reader.end()
}

/// One value on the way through the text.
struct Value<'walk, F> {
    path: &'walk mut String,
    tell: &'walk mut F,
}

impl<F> Value<'_, F> {
    fn below(&mut self) -> Value<'_, F> {
        Value { path: self.path, tell: self.tell }
    }
}

impl<'de, F: FnMut(Member<'_>)> DeserializeSeed<'de> for Value<'_, F> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, F: FnMut(Member<'_>)> Visitor<'de> for Value<'_, F> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<(), A::Error> {
        let length = self.path.len();
        for index in 0_usize.. {
            use fmt::Write as _;
            // Writing to a string cannot fail.
            let _ = write!(self.path, "[{index}]");
            let more = items.next_element_seed(self.below());
            self.path.truncate(length);
            if more?.is_none() {
                break;
            }
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut members: A) -> Result<(), A::Error> {
        let length = self.path.len();
        let mut seen: BTreeSet<Cow<'de, str>> = BTreeSet::new();
        while let Some(name) = members.next_key::<Cow<'de, str>>()? {
            if length > 0 {
                self.path.push('.');
            }
            self.path.push_str(&name);
            let repeated = !seen.insert(name);
            (self.tell)(Member { path: self.path, repeated });
            let value = members.next_value_seed(self.below());
            self.path.truncate(length);
            value?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_told_in_their_order_with_their_places() {
        let text = br#"{"a": {"b": 1, "b": [{"c": null}, {"c": -1.5e3}]}, "A": true, "a": "x"}"#;
        let mut told = Vec::new();
        members(text, |member| told.push((member.path.to_owned(), member.repeated))).unwrap();
        let expected = [
            ("a", false),
            ("a.b", false),
            ("a.b", true),
            ("a.b[0].c", false),
            ("a.b[1].c", false),
            ("A", false),
            ("a", true),
        ];
        assert_eq!(told, expected.map(|(path, repeated)| (path.to_owned(), repeated)));
    }

    #[test]
    fn a_text_that_stops_being_json_says_where() {
        let mut told = 0;
        let error = members(br#"{"a": 1, "b": }"#, |_| told += 1).unwrap_err();
        assert_eq!((told, error.column()), (2, 15));
        assert!(members(b"{} {}", |_| ()).is_err());
    }
}
