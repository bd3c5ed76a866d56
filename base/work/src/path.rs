//! Kubernetes' dialect of JSONPath, as far as feedback rules use it.
//!
//! Names (`.status`, `['a.b']`), indexes (`[0]`, `[-1]`), all of them (`[*]`, `.*`) and filters
//! (`[?(@.type=="Available")]`, also `!=` and the bare test for presence). Braces around the whole are taken off.

use std::str::FromStr;

use serde_json::Value;

/// A way through a document.
#[derive(Clone, Debug, PartialEq)]
pub struct Path(Vec<Step>);

/// One field of a document: the names and numbers that lead to it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place(Vec<Key>);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Name(String),
    Index(usize),
}

/// Why a text is no path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{path}` is not a path: {problem} at character {position}")]
pub struct InvalidPath {
    path: String,
    problem: &'static str,
    position: usize,
}

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Name(String),
    /// A name, or an index if it is one: that depends on what is there.
    Pointed(String),
    Index(i64),
    All,
    Filter {
        path: Vec<Step>,
        test: Test,
    },
}

#[derive(Clone, Debug, PartialEq)]
enum Test {
    Present,
    Equal(Value),
    NotEqual(Value),
}

struct Reader<'a> {
    text: &'a str,
    position: usize,
}

// === impl Path ===

impl Path {
    /// Everything the path leads to, in the order of the document.
    pub fn find<'a>(&self, document: &'a Value) -> Vec<&'a Value> {
        walk(&self.0, document)
    }

    /// The path that is written as a JSON pointer.
    pub(crate) fn of_pointer(pointer: &str) -> Self {
        let unescape = |part: &str| part.replace("~1", "/").replace("~0", "~");
        Self(pointer.split('/').skip(1).map(|part| Step::Pointed(unescape(part))).collect())
    }

    /// The fields of a document that the path leads to. The document itself is none.
    pub(crate) fn places(&self, document: &Value) -> Vec<Place> {
        let start = vec![(Vec::new(), document)];
        let found = self.0.iter().fold(start, |found, step| {
            found.into_iter().flat_map(|(place, value)| step.places(&place, value)).collect()
        });
        found.into_iter().map(|(place, _)| Place(place)).filter(|place| !place.0.is_empty()).collect()
    }
}

// === impl Place ===

impl Place {
    pub(crate) fn find<'a>(&self, document: &'a Value) -> Option<&'a Value> {
        self.0.iter().try_fold(document, |value, key| match key {
            Key::Name(name) => value.get(name),
            Key::Index(index) => value.get(index),
        })
    }

    /// Puts a value there, if there is something already.
    pub(crate) fn set(&self, document: &mut Value, value: Value) {
        let place = self.0.iter().try_fold(document, |value, key| match key {
            Key::Name(name) => value.get_mut(name),
            Key::Index(index) => value.get_mut(index),
        });
        if let Some(place) = place {
            *place = value;
        }
    }

    pub(crate) fn remove(&self, document: &mut Value) {
        let Some((last, way)) = self.0.split_last() else { return };
        let holder = way.iter().try_fold(document, |value, key| match key {
            Key::Name(name) => value.get_mut(name),
            Key::Index(index) => value.get_mut(index),
        });
        match (holder, last) {
            (Some(Value::Object(map)), Key::Name(name)) => drop(map.remove(name)),
            (Some(Value::Array(list)), Key::Index(index)) if *index < list.len() => drop(list.remove(*index)),
            _ => {}
        }
    }

    /// The names that lead to it, if it is not inside a list.
    pub(crate) fn names(&self) -> Option<Vec<&str>> {
        self.0
            .iter()
            .map(|key| match key {
                Key::Name(name) => Some(name.as_str()),
                Key::Index(_) => None,
            })
            .collect()
    }
}

fn walk<'a>(steps: &[Step], document: &'a Value) -> Vec<&'a Value> {
    steps
        .iter()
        .fold(vec![document], |found, step| found.into_iter().flat_map(|value| step.follow(value)).collect())
}

impl Step {
    fn follow<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        match (self, value) {
            (Self::Pointed(name), Value::Array(list)) => {
                name.parse().ok().and_then(|index: usize| list.get(index)).into_iter().collect()
            }
            (Self::Name(name) | Self::Pointed(name), value) => value.get(name).into_iter().collect(),
            (Self::Index(index), Value::Array(list)) => {
                let length = i64::try_from(list.len()).unwrap_or(i64::MAX);
                let index = if *index < 0 { length + index } else { *index };
                usize::try_from(index).ok().and_then(|index| list.get(index)).into_iter().collect()
            }
            (Self::All | Self::Filter { .. }, value) => {
                let children: Vec<_> = match value {
                    Value::Array(list) => list.iter().collect(),
                    Value::Object(map) => map.values().collect(),
                    _ => Vec::new(),
                };
                children.into_iter().filter(|child| self.admits(child)).collect()
            }
            (Self::Index(_), _) => Vec::new(),
        }
    }

    /// Where the same values are.
    fn places<'a>(&self, place: &[Key], value: &'a Value) -> Vec<(Vec<Key>, &'a Value)> {
        let to = |key: Key| place.iter().cloned().chain([key]).collect::<Vec<_>>();
        let keys: Vec<_> = match value {
            Value::Array(list) => {
                list.iter().enumerate().map(|(at, child)| (Key::Index(at), child)).collect()
            }
            Value::Object(map) => map.iter().map(|(name, child)| (Key::Name(name.clone()), child)).collect(),
            _ => Vec::new(),
        };
        let followed = self.follow(value);
        // By identity: equal values may be in several places, of which only some were meant.
        let is_meant = |child: &Value| followed.iter().any(|found| std::ptr::eq(*found, child));
        keys.into_iter().filter(|(_, child)| is_meant(child)).map(|(key, child)| (to(key), child)).collect()
    }

    fn admits(&self, child: &Value) -> bool {
        let Self::Filter { path, test } = self else { return true };
        let found = walk(path, child);
        match test {
            Test::Present => !found.is_empty(),
            Test::Equal(wanted) => found.first().is_some_and(|value| *value == wanted),
            Test::NotEqual(wanted) => found.first().is_some_and(|value| *value != wanted),
        }
    }
}

impl FromStr for Path {
    type Err = InvalidPath;

    fn from_str(text: &str) -> Result<Self, InvalidPath> {
        let trimmed = text.trim();
        let inner = trimmed.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or(trimmed);
        let mut reader = Reader { text: inner, position: 0 };
        reader.skip("$");
        let read = reader.steps().and_then(|steps| {
            if reader.rest().is_empty() { Ok(Self(steps)) } else { Err("something is left over") }
        });
        read.map_err(|problem| InvalidPath { path: text.to_owned(), problem, position: reader.position })
    }
}

// === impl Reader ===

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.position..]
    }

    fn skip(&mut self, token: &str) -> bool {
        let found = self.rest().starts_with(token);
        if found {
            self.position += token.len();
        }
        found
    }

    fn expect(&mut self, token: &'static str, problem: &'static str) -> Result<(), &'static str> {
        if self.skip(token) { Ok(()) } else { Err(problem) }
    }

    fn spaces(&mut self) {
        self.position += self.rest().len() - self.rest().trim_start().len();
    }

    fn until(&mut self, end: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let length = rest.find(end).unwrap_or(rest.len());
        self.position += length;
        &rest[..length]
    }

    fn steps(&mut self) -> Result<Vec<Step>, &'static str> {
        let mut steps = Vec::new();
        loop {
            if self.skip("[") {
                steps.push(self.bracket()?);
                self.expect("]", "a bracket is not closed")?;
            } else if self.skip(".") {
                let name = self.name()?;
                match name.as_str() {
                    "*" => steps.push(Step::All),
                    // The document itself.
                    "" if steps.is_empty() && !self.rest().starts_with('.') => {}
                    "" => return Err("a name is missing"),
                    _ => steps.push(Step::Name(name)),
                }
            } else {
                return Ok(steps);
            }
        }
    }

    /// A name after a dot; a backslash keeps the next character from meaning anything.
    fn name(&mut self) -> Result<String, &'static str> {
        let mut name = String::new();
        loop {
            name.push_str(self.until(|c| ".[]()=!<> \\".contains(c)));
            if !self.skip("\\") {
                return Ok(name);
            }
            let next = self.rest().chars().next().ok_or("nothing follows a backslash")?;
            self.position += next.len_utf8();
            name.push(next);
        }
    }

    fn bracket(&mut self) -> Result<Step, &'static str> {
        self.spaces();
        let step = match self.rest().chars().next() {
            Some('*') => {
                self.skip("*");
                Step::All
            }
            Some('?') => return self.filter(),
            Some('\'' | '"') => Step::Name(self.quoted()?),
            _ => Step::Index(self.until(|c| c == ']').trim().parse().map_err(|_| "this is no index")?),
        };
        self.spaces();
        Ok(step)
    }

    fn filter(&mut self) -> Result<Step, &'static str> {
        self.expect("?(", "a filter begins with `?(`")?;
        self.spaces();
        self.expect("@", "a filter is about `@`")?;
        let path = self.steps()?;
        self.spaces();
        let test = if self.skip("==") {
            Test::Equal(self.literal()?)
        } else if self.skip("!=") {
            Test::NotEqual(self.literal()?)
        } else {
            Test::Present
        };
        self.spaces();
        self.expect(")", "a filter is not closed")?;
        self.spaces();
        Ok(Step::Filter { path, test })
    }

    fn literal(&mut self) -> Result<Value, &'static str> {
        self.spaces();
        if self.rest().starts_with(['\'', '"']) {
            return self.quoted().map(Value::String);
        }
        let text = self.until(|c| c == ')' || c.is_whitespace());
        serde_json::from_str(text).map_err(|_| "this is no value")
    }

    fn quoted(&mut self) -> Result<String, &'static str> {
        let quote = self.rest().chars().next().ok_or("a text is missing")?;
        self.position += quote.len_utf8();
        let text = self.until(|c| c == quote).to_owned();
        if self.rest().is_empty() {
            return Err("a text is not closed");
        }
        self.position += quote.len_utf8();
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn find(path: &str, document: &Value) -> Vec<Value> {
        path.parse::<Path>().unwrap().find(document).into_iter().cloned().collect()
    }

    #[test]
    fn paths_of_feedback_rules_lead_somewhere() {
        let document = json!({"status": {"ready": 3, "conditions": [
            {"type": "Progressing", "status": "False"}, {"type": "Available", "status": "True", "reason": ""}]},
            "metadata": {"labels": {"api.openshift.com/id": "x"}}});
        for (path, expected) in [
            (".status.ready", json!([3])),
            ("{.status.ready}", json!([3])),
            ("$.status['ready']", json!([3])),
            (r#".status.conditions[?(@.type=="Available")].status"#, json!(["True"])),
            (".status.conditions[?(@.type == 'Available')].status", json!(["True"])),
            (".status.conditions[?(@.type!=\"Available\")].type", json!(["Progressing"])),
            (".status.conditions[?(@.reason)].type", json!(["Available"])),
            (".status.conditions[*].status", json!(["False", "True"])),
            (".status.conditions[-1].type", json!(["Available"])),
            (r".metadata.labels.api\.openshift\.com/id", json!(["x"])),
            (".metadata.labels['api.openshift.com/id']", json!(["x"])),
            (".status.missing.deep", json!([])),
            (".status.ready[0]", json!([])),
        ] {
            assert_eq!(Value::from(find(path, &document)), expected, "{path}");
        }
        assert_eq!(find(".", &document), vec![document.clone()]);
    }

    #[test]
    fn errors_say_where() {
        for (path, expected) in [
            (".status[", "`.status[` is not a path: this is no index at character 8"),
            ("status", "`status` is not a path: something is left over at character 0"),
            (".a[?(@.b==\"c)]", "`.a[?(@.b==\"c)]` is not a path: a text is not closed at character 14"),
            (".a..b", "`.a..b` is not a path: a name is missing at character 3"),
        ] {
            assert_eq!(path.parse::<Path>().unwrap_err().to_string(), expected);
        }
    }
}
