//! Label and field selectors.

use serde_json::{Map, Value, json};

use super::{Source, class, run};
use crate::catalogue::Catalogue;
use crate::selector::{FieldSelector, LabelSelector};

const KEYS: &[&str] = &["a", "b", "app.kubernetes.io/name", "x_y"];
const VALUES: &[&str] = &["", "1", "2", "web"];

/// A requirement, its text, and whether labels meet it.
fn requirement(source: &mut Source<'_>, labels: &Map<String, Value>) -> (String, bool) {
    let key = *source.one_of(KEYS);
    let label = labels.get(key).and_then(Value::as_str);
    let value = *source.one_of(VALUES);
    let values: Vec<_> = (0..=source.choice(3)).map(|_| *source.one_of(VALUES)).collect();
    let list = values.join(if source.flag() { "," } else { " , " });
    match source.choice(7) {
        0 => (key.to_owned(), label.is_some()),
        1 => (format!("!{key}"), label.is_none()),
        2 => (format!("{key}={value}"), label == Some(value)),
        3 => (format!("{key} == {value}"), label == Some(value)),
        4 => (format!("{key}!={value}"), label != Some(value)),
        5 => (format!("{key} in ({list})"), label.is_some_and(|label| values.contains(&label))),
        _ => (format!("{key} notin ({list})"), !label.is_some_and(|label| values.contains(&label))),
    }
}

#[test]
fn selectors_choose_what_they_say_and_nothing_brings_them_down() {
    let catalogue = Catalogue::built_in(34);
    let pods = catalogue.find("", "v1", "pods").unwrap();
    run("selector", |mut source| {
        let labels: Map<_, _> = (0..source.choice(4))
            .map(|_| ((*source.one_of(KEYS)).to_owned(), json!(*source.one_of(VALUES))))
            .collect();
        let object =
            json!({ "metadata": { "name": "web", "labels": labels }, "spec": { "nodeName": "pier" } });
        if source.flag() {
            let parts: Vec<_> = (0..source.choice(4)).map(|_| requirement(&mut source, &labels)).collect();
            let text = parts.iter().map(|(text, _)| text.as_str()).collect::<Vec<_>>().join(",");
            let selector =
                LabelSelector::parse(&text).unwrap_or_else(|failure| panic!("{text}: {failure:?}"));
            let expected = parts.iter().all(|(_, met)| *met);
            assert_eq!(selector.matches(&object), expected, "`{text}` of {labels:?}");
            return format!("{} {expected}", parts.len());
        }
        let text: String = if source.flag() {
            let words = [
                "a",
                "b",
                "=",
                "==",
                "!=",
                "!",
                ",",
                "(",
                ")",
                " in ",
                " notin ",
                "exists",
                "metadata.name",
                "\\",
                "1",
            ];
            (0..source.choice(24)).map(|_| *source.one_of(&words)).collect()
        } else {
            String::from_utf8_lossy(source.rest()).into_owned()
        };
        let label = LabelSelector::parse(&text).map(|selector| selector.matches(&object));
        let field = FieldSelector::parse(&text, pods).map(|selector| selector.matches(pods, &object));
        format!("{} {}", class(&format!("{label:?}")), class(&format!("{field:?}")))
    });
}
