//! The part of JSONPath that custom resource definitions use.
//!
//! `.spec.x`, `.a['b.c']`, `.a.b\.c`, `[0]`, `[-1]`, `[*]`, `..x` is not in it; a filter compares one path with one literal or
//! asks for its presence: `.status.conditions[?(@.type=="Ready")].status`.

use serde_json::Value;

/// A parsed path.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct JsonPath {
    steps: Vec<Step>,
}

#[derive(Debug, Clone, PartialEq)]
enum Step {
    Field(Box<str>),
    /// Negative counts from the end.
    Index(i64),
    All,
    Filter(Box<Filter>),
}

#[derive(Debug, Clone, PartialEq)]
struct Filter {
    path: JsonPath,
    /// Absent: the path need only lead somewhere.
    comparison: Option<(Comparison, Value)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

// === impl JsonPath ===

impl JsonPath {
    /// `None` where the path is wrong or beyond the subset.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let text = text.strip_prefix('{').and_then(|inner| inner.strip_suffix('}')).unwrap_or(text);
        let (path, rest) = Self::parse_steps(text.strip_prefix('$').unwrap_or(text))?;
        rest.is_empty().then_some(path)
    }

    /// Everything the path leads to.
    pub(crate) fn all<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        let mut found = vec![value];
        for step in &self.steps {
            found = found.into_iter().flat_map(|one| step.of(one)).collect();
        }
        found
    }

    pub(crate) fn first<'a>(&self, value: &'a Value) -> Option<&'a Value> {
        self.all(value).into_iter().next()
    }

    /// Puts a value where the path of plain fields leads, making objects on the way. `false` where it cannot.
    pub(crate) fn set(&self, value: &mut Value, new: Value) -> bool {
        let mut place = value;
        for step in &self.steps {
            let Step::Field(name) = step else { return false };
            if place.is_null() {
                *place = Value::Object(serde_json::Map::new());
            }
            let Some(object) = place.as_object_mut() else { return false };
            place = object.entry(name.as_ref()).or_insert(Value::Null);
        }
        *place = new;
        true
    }

    /// Steps until something that is none, and what is left.
    fn parse_steps(mut text: &str) -> Option<(Self, &str)> {
        let mut steps = Vec::new();
        loop {
            if let Some(rest) = text.strip_prefix('.') {
                if rest.starts_with('[') {
                    text = rest;
                    continue;
                }
                if let Some(rest) = rest.strip_prefix('*') {
                    steps.push(Step::All);
                    text = rest;
                    continue;
                }
                let (name, rest) = field_name(rest)?;
                steps.push(Step::Field(name.into()));
                text = rest;
            } else if let Some(rest) = text.strip_prefix('[') {
                let (step, rest) = bracket(rest)?;
                steps.push(step);
                text = rest;
            } else {
                return Some((Self { steps }, text));
            }
        }
    }
}

/// A field after a dot; a backslash takes the next character as it is.
fn field_name(text: &str) -> Option<(String, &str)> {
    let mut name = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => name.push(characters.next()?.1),
            '.' | '[' | ']' | ')' | '=' | '!' | '<' | '>' | ' ' => {
                return (!name.is_empty()).then_some((name, &text[at..]));
            }
            character => name.push(character),
        }
    }
    (!name.is_empty()).then_some((name, ""))
}

/// What stands between brackets; `text` begins after the opening one.
fn bracket(text: &str) -> Option<(Step, &str)> {
    if let Some(rest) = text.strip_prefix("?(") {
        let (filter, rest) = filter(rest.trim_start())?;
        return Some((Step::Filter(Box::new(filter)), rest.strip_prefix(")")?.strip_prefix(']')?));
    }
    if let Some(rest) = text.strip_prefix("*]") {
        return Some((Step::All, rest));
    }
    if text.starts_with(['\'', '"']) {
        let (name, rest) = quoted(text)?;
        return Some((Step::Field(name.into()), rest.strip_prefix(']')?));
    }
    let (index, rest) = text.split_once(']')?;
    Some((Step::Index(index.trim().parse().ok()?), rest))
}

fn filter(text: &str) -> Option<(Filter, &str)> {
    let (path, rest) = JsonPath::parse_steps(text.strip_prefix('@')?)?;
    let rest = rest.trim_start();
    for (symbol, comparison) in [
        ("==", Comparison::Equal),
        ("!=", Comparison::NotEqual),
        ("<=", Comparison::LessOrEqual),
        (">=", Comparison::GreaterOrEqual),
        ("<", Comparison::Less),
        (">", Comparison::Greater),
    ] {
        if let Some(rest) = rest.strip_prefix(symbol) {
            let (literal, rest) = literal(rest.trim_start())?;
            return Some((Filter { path, comparison: Some((comparison, literal)) }, rest.trim_start()));
        }
    }
    Some((Filter { path, comparison: None }, rest))
}

fn literal(text: &str) -> Option<(Value, &str)> {
    if text.starts_with(['\'', '"']) {
        let (text, rest) = quoted(text)?;
        return Some((Value::String(text), rest));
    }
    let end = text.find([')', ' '])?;
    Some((serde_json::from_str(&text[..end]).ok()?, &text[end..]))
}

fn quoted(text: &str) -> Option<(String, &str)> {
    let quote = text.chars().next()?;
    let mut plain = String::new();
    let mut characters = text.char_indices().skip(1);
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => plain.push(characters.next()?.1),
            character if character == quote => return Some((plain, &text[at + 1..])),
            character => plain.push(character),
        }
    }
    None
}

// === impl Step ===

impl Step {
    fn of<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        match (self, value) {
            (Self::Field(name), _) => value.get(name.as_ref()).into_iter().collect(),
            (Self::Index(index), Value::Array(items)) => {
                let place = if *index < 0 { *index + items.len() as i64 } else { *index };
                usize::try_from(place).ok().and_then(|place| items.get(place)).into_iter().collect()
            }
            (Self::All, Value::Array(items)) => items.iter().collect(),
            (Self::All, Value::Object(fields)) => fields.values().collect(),
            (Self::Filter(filter), Value::Array(items)) => {
                items.iter().filter(|item| filter.accepts(item)).collect()
            }
            _ => Vec::new(),
        }
    }
}

// === impl Filter ===

impl Filter {
    fn accepts(&self, item: &Value) -> bool {
        let Some(found) = self.path.first(item) else { return false };
        let Some((comparison, literal)) = &self.comparison else { return true };
        let order = match (found, literal) {
            (Value::Number(left), Value::Number(right)) => left.as_f64().partial_cmp(&right.as_f64()),
            (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
            _ => None,
        };
        match comparison {
            Comparison::Equal => found == literal || order.is_some_and(|order| order.is_eq()),
            Comparison::NotEqual => found != literal && !order.is_some_and(|order| order.is_eq()),
            Comparison::Less => order.is_some_and(|order| order.is_lt()),
            Comparison::LessOrEqual => order.is_some_and(|order| order.is_le()),
            Comparison::Greater => order.is_some_and(|order| order.is_gt()),
            Comparison::GreaterOrEqual => order.is_some_and(|order| order.is_ge()),
        }
    }
}
