//! Structured inputs from bytes. The same bytes give the same input, and a small change of the bytes a similar one.

use serde_json::{Map, Number, Value, json};

use crate::types::{Field, Holds, Message, Type};

/// Deeper than any object is.
const DEEPEST: usize = 6;

/// Words that mean something somewhere.
const WORDS: &[&str] = &[
    "",
    "a",
    "b",
    "name",
    "web",
    "nginx",
    "x-y.z",
    "app",
    "app.kubernetes.io/name",
    "Always",
    "TCP",
    "1",
    "0",
    "100m",
    "$patch",
    "null",
    "~1",
    "é\u{1F600}",
    "-",
    "spec",
    "\n",
];

#[derive(Debug)]
pub(super) struct Source<'a> {
    bytes: &'a [u8],
}

impl<'a> Source<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    pub(super) fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.bytes.split_first() else { return 0 };
        self.bytes = rest;
        *first
    }

    /// One of so many.
    pub(super) fn choice(&mut self, count: usize) -> usize {
        usize::from(self.byte()) % count.max(1)
    }

    pub(super) fn one_of<'t, T>(&mut self, all: &'t [T]) -> &'t T {
        &all[self.choice(all.len())]
    }

    pub(super) fn flag(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    /// Few, unless there is a lot to come.
    pub(super) fn count(&mut self) -> usize {
        if self.bytes.is_empty() { 0 } else { self.choice(4) }
    }

    pub(super) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.bytes)
    }

    pub(super) fn text(&mut self) -> String {
        match self.choice(8) {
            0 => {
                let length = self.choice(12).min(self.bytes.len());
                let (text, rest) = self.bytes.split_at(length);
                self.bytes = rest;
                String::from_utf8_lossy(text).into_owned()
            }
            1 => self.byte().to_string(),
            _ => (*self.one_of(WORDS)).to_owned(),
        }
    }

    /// Anything.
    pub(super) fn json(&mut self, depth: usize) -> Value {
        let leaf = depth >= DEEPEST || self.bytes.is_empty();
        match self.choice(if leaf { 5 } else { 7 }) {
            0 => Value::Null,
            1 => json!(self.flag()),
            2 => json!(i64::from(self.byte()) - 100),
            3 => json!(self.text()),
            4 => Number::from_f64(f64::from(self.byte()) / 8.0).map_or(Value::Null, Value::Number),
            5 => (0..self.count()).map(|_| self.json(depth + 1)).collect(),
            _ => (0..self.count()).map(|_| (self.text(), self.json(depth + 1))).collect::<Map<_, _>>().into(),
        }
    }

    /// An object of a built-in type, with values that protobuf and JSON have alike.
    pub(super) fn object(&mut self, message: &'static Message, depth: usize) -> Map<String, Value> {
        let mut object = Map::new();
        self.fill(message, &mut object, depth);
        object
    }

    fn fill(&mut self, message: &'static Message, object: &mut Map<String, Value>, depth: usize) {
        if depth > DEEPEST || message.fields.is_empty() {
            return;
        }
        for _ in 0..=self.count() {
            let field = self.one_of(&message.fields);
            if field.name.is_empty() {
                if let Some(inner) = field.of.message() {
                    self.fill(inner, object, depth + 1);
                }
                continue;
            }
            if let Some(value) = self.field(field, depth) {
                object.insert(field.name.to_owned(), value);
            }
        }
    }

    fn field(&mut self, field: &'static Field, depth: usize) -> Option<Value> {
        match field.holds {
            Holds::One => self.value(&field.of, depth),
            Holds::List => {
                let items: Vec<_> = (0..=self.count()).filter_map(|_| self.value(&field.of, depth)).collect();
                (!items.is_empty()).then(|| items.into())
            }
            Holds::Map => {
                let entries: Map<_, _> = (0..=self.count())
                    .filter_map(|_| Some((self.text(), self.value(&field.of, depth)?)))
                    .collect();
                (!entries.is_empty()).then(|| entries.into())
            }
        }
    }

    /// Never the zero of its type, which protobuf does not tell from nothing.
    fn value(&mut self, of: &'static Type, depth: usize) -> Option<Value> {
        Some(match of {
            Type::Text => json!(format!("t{}", self.text())),
            Type::Integer32 => json!(i32::from(self.byte()) + 1),
            Type::Integer64 => json!((i64::from(self.byte()) + 1) << (self.byte() % 40)),
            Type::Flag => json!(true),
            Type::Time => json!(format!("20{:02}-01-02T03:04:05Z", self.choice(100))),
            Type::Quantity => json!(format!("{}Mi", self.byte())),
            Type::IntegerOrText => {
                if self.flag() {
                    json!(i32::from(self.byte()) + 1)
                } else {
                    json!(format!("{}%", self.byte()))
                }
            }
            Type::Message(_) => {
                let message = of.message()?;
                if depth >= DEEPEST {
                    return None;
                }
                Value::Object(self.object(message, depth + 1))
            }
            // What has a form of its own in protobuf is left to the samples.
            _ => return None,
        })
    }
}
