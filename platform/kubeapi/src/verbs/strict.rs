//! What a client is told about fields that will not be kept, in the order in which it sent them.
//!
//! A parser of JSON keeps the last of two fields with one name, so duplicates are looked for in the text itself.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

/// More than these are cut off: one mistake in a template makes thousands.
const MOST: usize = 100;

/// Complaints about the unknown fields of a body and about those that come twice. A body that is no JSON has no
/// duplicates: YAML does not allow them.
pub(super) fn complaints(body: &[u8], unknown: &[String]) -> Vec<String> {
    let mut walk =
        Walk { path: String::new(), unknown: unknown.iter().map(String::as_str).collect(), told: Vec::new() };
    let mut reader = serde_json::Deserializer::from_slice(body);
    // Whether it is JSON at all is somebody else's question.
    let _ = Node(&mut walk).deserialize(&mut reader);
    let Walk { unknown: left, mut told, .. } = walk;
    // What a patch made of the object stands nowhere in the patch.
    told.extend(
        unknown.iter().filter(|field| left.contains(field.as_str())).map(|field| unknown_field(field)),
    );
    told.truncate(MOST);
    told
}

fn unknown_field(path: &str) -> String {
    format!("unknown field \"{path}\"")
}

struct Walk<'a> {
    path: String,
    /// Not met yet.
    unknown: BTreeSet<&'a str>,
    told: Vec<String>,
}

struct Node<'walk, 'a>(&'walk mut Walk<'a>);

impl<'de> DeserializeSeed<'de> for Node<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_, '_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value")
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

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let length = self.0.path.len();
        for index in 0_usize.. {
            use fmt::Write as _;
            // Writing to a string cannot fail.
            let _ = write!(self.0.path, "[{index}]");
            let more = items.next_element_seed(Node(self.0));
            self.0.path.truncate(length);
            if more?.is_none() {
                break;
            }
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        let length = self.0.path.len();
        let mut seen: BTreeSet<Cow<'de, str>> = BTreeSet::new();
        while let Some(name) = fields.next_key::<Cow<'de, str>>()? {
            if length > 0 {
                self.0.path.push('.');
            }
            self.0.path.push_str(&name);
            if !self.0.unknown.is_empty() && self.0.unknown.remove(self.0.path.as_str()) {
                self.0.told.push(unknown_field(&self.0.path));
            } else if !seen.insert(name) {
                let told = format!("duplicate field \"{}\"", self.0.path);
                if !self.0.told.contains(&told) && !self.0.told.contains(&unknown_field(&self.0.path)) {
                    self.0.told.push(told);
                }
            }
            let value = fields.next_value_seed(Node(self.0));
            self.0.path.truncate(length);
            value?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_told_in_the_order_in_which_they_were_sent() {
        let body = br#"{"spec":{"z":1,"items":[{"b":1,"b":2,"b":3}],"a":2,"z":3},"spec":{}}"#;
        let unknown = ["spec.a", "spec.elsewhere", "spec.z"].map(str::to_owned);
        assert_eq!(
            complaints(body, &unknown),
            [
                r#"unknown field "spec.z""#,
                r#"duplicate field "spec.items[0].b""#,
                r#"unknown field "spec.a""#,
                r#"duplicate field "spec""#,
                r#"unknown field "spec.elsewhere""#,
            ]
        );
        assert_eq!(complaints(b"kind: Pod", &[]), Vec::<String>::new());
    }
}
