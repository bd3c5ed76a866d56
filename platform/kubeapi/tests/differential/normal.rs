//! Making equal what two servers cannot have in common.
//!
//! An identifier becomes the name of its object, with a number if there were several of that name; a revision becomes a
//! number that counts the object's own. So "the same object" and "nothing was written" still show, and what one object does
//! more does not shift the others. Times, tokens, addresses and random endings become words.

use std::collections::HashMap;
use std::sync::LazyLock;

use regex_lite::Regex;
use serde_json::{Map, Value, json};

use crate::client::Answer;

/// What one scenario has met so far at one server.
#[derive(Debug, Default)]
pub(crate) struct Normal {
    /// What an identifier is called.
    identifiers: HashMap<String, String>,
    /// How many identifiers a name has had.
    names: HashMap<String, usize>,
    /// The revisions of each identifier.
    revisions: HashMap<String, Vec<String>>,
    /// Which cells of a table count seconds. Only the first event of a watch says so.
    ages: Vec<usize>,
}

/// Revisions in texts for people, each with what stands before it.
const REVISIONS: &str = r#"(current: |in record \(|object meta: |resourceVersion\\*":\\*")[0-9]+"#;

static REVISIONS_IN_TEXT: LazyLock<Regex> = LazyLock::new(|| Regex::new(REVISIONS).unwrap());

impl Normal {
    /// The answer as a value to compare. `only` names the places of the body that matter; all do if there are none.
    pub(crate) fn answer(&mut self, answer: Answer, only: &[String]) -> Value {
        let Answer { code, content, warnings, mut body } = answer;
        if !only.is_empty() && code < 300 {
            // Rows alone do not say which of their cells is an age.
            if let Some(whole) = body.as_object_mut() {
                self.hide_ages(whole);
            }
            let picked = only
                .iter()
                .map(|pointer| (pointer.clone(), body.pointer(pointer).cloned().unwrap_or(Value::Null)));
            body = Value::Object(picked.collect());
        }
        self.value("", &mut body);
        let warnings: Vec<_> = warnings.iter().map(|warning| self.text("", warning)).collect();
        json!({ "code": code, "content": content, "warnings": warnings, "body": body })
    }

    fn value(&mut self, key: &str, value: &mut Value) {
        match value {
            Value::Object(object) => self.object(object),
            Value::Array(items) => {
                for item in items.iter_mut() {
                    self.value(key, item);
                }
                if key == "managedFields" {
                    // Their order depends on times that are a second or less apart.
                    items.sort_by_cached_key(|item| item["manager"].to_string() + &item.to_string());
                }
            }
            Value::String(text) => *text = self.text(key, text),
            Value::Number(_) if key == "nodePort" => *value = json!("<node port>"),
            _ => {}
        }
    }

    fn object(&mut self, object: &mut Map<String, Value>) {
        hide_generated_name(object);
        self.hide_ages(object);
        sort_causes(object);
        let identifier = object.get("uid").and_then(Value::as_str).map(str::to_owned);
        if let (Some(identifier), Some(name)) = (&identifier, object.get("name").and_then(Value::as_str)) {
            self.identifier(identifier, name);
        }
        let keys: Vec<String> = object.keys().cloned().collect();
        for key in keys {
            let Some(mut value) = object.remove(&key) else { continue };
            match value.as_str() {
                Some(revision) if key == "resourceVersion" => {
                    value = json!(self.revision(identifier.as_deref(), revision));
                }
                _ => self.value(&key, &mut value),
            }
            // Keys of managed fields hold names of items.
            object.insert(without_random_ending(&key).unwrap_or(key), value);
        }
    }

    fn identifier(&mut self, identifier: &str, name: &str) -> String {
        if let Some(known) = self.identifiers.get(identifier) {
            return known.clone();
        }
        let count = self.names.entry(name.to_owned()).or_default();
        *count += 1;
        let called =
            if *count == 1 { format!("<uid of {name}>") } else { format!("<uid {count} of {name}>") };
        self.identifiers.insert(identifier.to_owned(), called.clone());
        called
    }

    /// A list has the revision of the moment, which others move: it has no identifier.
    fn revision(&mut self, identifier: Option<&str>, revision: &str) -> String {
        match identifier {
            Some(identifier) if !revision.is_empty() => {
                let known = self.revisions.entry(identifier.to_owned()).or_default();
                let place = known.iter().position(|one| one == revision).unwrap_or_else(|| {
                    known.push(revision.to_owned());
                    known.len() - 1
                });
                format!("<revision {}>", place + 1)
            }
            None if revision.parse::<u64>().is_ok() => "<revision>".to_owned(),
            _ => revision.to_owned(),
        }
    }

    fn text(&mut self, key: &str, text: &str) -> String {
        match key {
            "continue" if !text.is_empty() => return "<continue>".to_owned(),
            "token" => return "<token>".to_owned(),
            "clusterIP" | "clusterIPs" if text.parse::<std::net::IpAddr>().is_ok() => {
                return "<cluster address>".to_owned();
            }
            _ => {}
        }
        // Identifiers first: they may begin with digits.
        let text: String = split(text).map(|word| self.word(word)).collect();
        REVISIONS_IN_TEXT.replace_all(&text, "$1<revision>").into_owned()
    }

    fn word(&mut self, word: &str) -> String {
        if word.len() == 36 && uuid::Uuid::try_parse(word).is_ok() {
            return self.identifier(word, "something");
        }
        if word.len() >= 20 && word.parse::<jiff::Timestamp>().is_ok() {
            return if word.contains('.') {
                "<time with a fraction>".to_owned()
            } else {
                "<time>".to_owned()
            };
        }
        if word.len() == 64 && word.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return "<digest>".to_owned();
        }
        without_random_ending(word).unwrap_or_else(|| word.to_owned())
    }

    /// The cells of a table that count seconds.
    fn hide_ages(&mut self, table: &mut Map<String, Value>) {
        if table.get("kind") != Some(&json!("Table")) {
            return;
        }
        if let Some(columns) = table.get("columnDefinitions").and_then(Value::as_array) {
            self.ages = (0..columns.len()).filter(|index| columns[*index]["name"] == "Age").collect();
        }
        for row in table.get_mut("rows").and_then(Value::as_array_mut).into_iter().flatten() {
            for index in &self.ages {
                let cell = row.pointer_mut(&format!("/cells/{index}"));
                let is_age = |cell: &&mut Value| {
                    cell.as_str().is_some_and(|age| age.starts_with(|letter: char| letter.is_ascii_digit()))
                };
                if let Some(cell) = cell.filter(is_age) {
                    *cell = json!("<age>");
                }
            }
        }
    }
}

/// The real server finds mistakes in the order of a hash map. Its message repeats them in the same order.
fn sort_causes(status: &mut Map<String, Value>) {
    if status.get("reason") != Some(&json!("Invalid")) {
        return;
    }
    let Some(causes) = status.get_mut("details").and_then(|details| details["causes"].as_array_mut()) else {
        return;
    };
    let joined = |causes: &[Value]| {
        let texts = causes.iter().map(|cause| {
            let text = |key: &str| cause[key].as_str().unwrap_or_default();
            format!("{}: {}", text("field"), text("message"))
        });
        format!("[{}]", texts.collect::<Vec<_>>().join(", "))
    };
    let before = joined(causes);
    causes.sort_by_cached_key(ToString::to_string);
    let after = joined(causes);
    if let Some(Value::String(message)) = status.get_mut("message") {
        *message = message.replace(&before, &after);
    }
}

/// A text in which a volume of a service account's token is named.
fn without_random_ending(text: &str) -> Option<String> {
    const PREFIX: &str = "kube-api-access-";
    let start = text.find(PREFIX)? + PREFIX.len();
    let rest = text.get(start + 5..)?;
    Some(format!("{}<random>{rest}", &text[..start]))
}

/// Words, and what stands between them.
fn split(text: &str) -> impl Iterator<Item = &str> {
    let boundary = |letter: char| !(letter.is_ascii_alphanumeric() || "-:.".contains(letter));
    text.split_inclusive(boundary).flat_map(move |piece| {
        let end = piece.trim_end_matches(boundary).len();
        [&piece[..end], &piece[end..]]
    })
}

/// Five letters at the end of a name are random if it was asked for.
fn hide_generated_name(metadata: &mut Map<String, Value>) {
    let Some(prefix) = metadata.get("generateName").and_then(Value::as_str).map(str::to_owned) else {
        return;
    };
    if let Some(Value::String(name)) = metadata.get_mut("name")
        && name.len() == prefix.len() + 5
        && name.starts_with(&prefix)
    {
        *name = format!("{prefix}<random>");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normal(normal: &mut Normal, body: Value) -> Value {
        let answer = Answer { code: 200, content: String::new(), warnings: Vec::new(), body };
        normal.answer(answer, &[])["body"].clone()
    }

    #[test]
    fn identifiers_are_called_by_name_and_revisions_are_counted_for_each_object() {
        let mut seen = Normal::default();
        let object = |uid: &str, revision: &str| json!({ "metadata": { "name": "a", "uid": uid, "resourceVersion": revision } });
        let (one, two) = ("6d7f1f4e-6a3f-4f3f-8f7a-0d7a6f3d2c11", "f1f9c4d2-1d0b-4f58-9e0c-5a7cf3a5e6b7");
        assert_eq!(normal(&mut seen, object(one, "17")), object("<uid of a>", "<revision 1>"));
        assert_eq!(normal(&mut seen, object(two, "40")), object("<uid 2 of a>", "<revision 1>"));
        assert_eq!(normal(&mut seen, object(one, "41")), object("<uid of a>", "<revision 2>"));
        assert_eq!(normal(&mut seen, object(one, "17")), object("<uid of a>", "<revision 1>"));
        let message = json!({ "message": format!("the UID in the precondition: {one}, is not") });
        assert_eq!(normal(&mut seen, message)["message"], "the UID in the precondition: <uid of a>, is not");
        let list = json!({ "metadata": { "resourceVersion": "17" } });
        assert_eq!(normal(&mut seen, list)["metadata"]["resourceVersion"], "<revision>");
    }

    #[test]
    fn times_random_endings_and_ages_become_words_and_all_else_stays() {
        let mut seen = Normal::default();
        let body = json!({
            "metadata": { "name": "job-x7x2z", "generateName": "job-", "creationTimestamp": "2026-01-02T03:04:05Z" },
            "data": { "port": "1:2.3", "renewTime": "2026-01-02T03:04:05.000001Z" },
            "k:{\"name\":\"kube-api-access-d6zdk\"}": "kube-api-access-d6zdk",
        });
        let expected = json!({
            "metadata": { "name": "job-<random>", "generateName": "job-", "creationTimestamp": "<time>" },
            "data": { "port": "1:2.3", "renewTime": "<time with a fraction>" },
            "k:{\"name\":\"kube-api-access-<random>\"}": "kube-api-access-<random>",
        });
        assert_eq!(normal(&mut seen, body), expected);
        let table = json!({ "kind": "Table", "columnDefinitions": [{ "name": "Name" }, { "name": "Age" }], "rows": [{ "cells": ["1s", "4s"] }] });
        assert_eq!(normal(&mut seen, table.clone())["rows"][0]["cells"], json!(["1s", "<age>"]));
        let answer = Answer { code: 200, content: String::new(), warnings: Vec::new(), body: table };
        let rows = &Normal::default().answer(answer, &["/rows".to_owned()])["body"]["/rows"];
        assert_eq!(rows[0]["cells"], json!(["1s", "<age>"]), "also of rows alone");
    }

    #[test]
    fn mistakes_are_sorted_and_revisions_in_messages_are_hidden() {
        let mut seen = Normal::default();
        let status = |causes: [&str; 2]| {
            let list = causes.map(|field| json!({ "field": field, "message": "Required value" }));
            let message =
                format!("is invalid: [{}: Required value, {}: Required value]", causes[0], causes[1]);
            json!({ "reason": "Invalid", "message": message, "details": { "causes": list } })
        };
        assert_eq!(normal(&mut seen, status(["b", "a"])), normal(&mut seen, status(["a", "b"])));
        let message = json!({ "message": r#"{\"resourceVersion\":\"17\"} and 17, current: 516"# });
        assert_eq!(
            normal(&mut seen, message)["message"],
            r#"{\"resourceVersion\":\"<revision>\"} and 17, current: <revision>"#
        );
    }
}
