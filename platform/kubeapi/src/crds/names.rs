//! Whose names are whose. Within a group nobody may be mistaken for somebody else: one set of names stands in paths and on command
//! lines, the other in objects.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use crate::catalogue::Resource;

/// What a definition gets of the names it asks for.
#[derive(Debug, PartialEq)]
pub(super) struct Verdict {
    pub(super) accepted: Value,
    pub(super) conflict: Option<Conflict>,
}

#[derive(Debug, PartialEq)]
pub(super) struct Conflict {
    pub(super) reason: &'static str,
    pub(super) name: String,
}

/// Every name that a condition is about, with how a conflict is called. What comes later is what is told.
const FIELDS: [(&str, &str); 5] = [
    ("plural", "PluralConflict"),
    ("singular", "SingularConflict"),
    ("shortNames", "ShortNamesConflict"),
    ("kind", "KindConflict"),
    ("listKind", "ListKindConflict"),
];

/// Judges all definitions, the oldest first. Who has a name keeps it.
pub(super) fn judge<'a>(built_in: impl Iterator<Item = &'a Resource>, definitions: &[Value]) -> Vec<Verdict> {
    let kinds: HashSet<(&str, &str)> =
        built_in.map(|resource| (resource.group.as_ref(), resource.kind.as_ref())).collect();
    let mut accepted: Vec<Value> =
        definitions.iter().map(|definition| definition["status"]["acceptedNames"].clone()).collect();
    let mut verdicts = Vec::with_capacity(definitions.len());
    for (place, definition) in definitions.iter().enumerate() {
        let group = definition["spec"]["group"].as_str().unwrap_or_default();
        let others = definitions
            .iter()
            .zip(&accepted)
            .enumerate()
            .filter(|(other, (one, _))| *other != place && one["spec"]["group"] == group)
            .map(|(_, (_, names))| names);
        let (mut resources, mut own_kinds) = (HashSet::new(), HashSet::new());
        for names in others {
            for (field, _) in FIELDS {
                let taken = if is_kind(field) { &mut own_kinds } else { &mut resources };
                taken.extend(all(&names[field]).into_iter().map(str::to_owned));
            }
        }
        let is_taken = |field: &str, name: &str| match is_kind(field) {
            true => own_kinds.contains(name) || kinds.contains(&(group, name)),
            false => resources.contains(name),
        };
        let verdict = one(&definition["spec"]["names"], &accepted[place], is_taken);
        accepted[place] = verdict.accepted.clone();
        verdicts.push(verdict);
    }
    verdicts
}

fn is_kind(field: &str) -> bool {
    matches!(field, "kind" | "listKind")
}

/// A name or several.
fn all(value: &Value) -> Vec<&str> {
    let several = value.as_array().into_iter().flatten().filter_map(Value::as_str);
    value.as_str().into_iter().chain(several).filter(|name| !name.is_empty()).collect()
}

fn one(wanted: &Value, had: &Value, is_taken: impl Fn(&str, &str) -> bool) -> Verdict {
    // These two are there even if they are empty.
    let mut accepted = Map::from_iter([("plural".to_owned(), json!("")), ("kind".to_owned(), json!(""))]);
    let mut conflict = None;
    for (field, reason) in FIELDS {
        let taken = all(&wanted[field]).into_iter().find(|name| is_taken(field, name));
        let got = match taken {
            None => &wanted[field],
            Some(name) => {
                conflict = Some(Conflict { reason, name: name.to_owned() });
                &had[field]
            }
        };
        if !all(got).is_empty() {
            accepted.insert(field.to_owned(), got.clone());
        }
    }
    if !all(&wanted["categories"]).is_empty() {
        accepted.insert("categories".to_owned(), wanted["categories"].clone());
    }
    Verdict { accepted: Value::Object(accepted), conflict }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(plural: &str, kind: &str, more: Value) -> Value {
        let mut names = json!({
            "plural": plural, "singular": plural.trim_end_matches('s'), "kind": kind, "listKind": format!("{kind}List"),
        });
        for (name, value) in more.as_object().into_iter().flatten() {
            names[name] = value.clone();
        }
        json!({ "spec": { "group": "a.example.com", "names": names } })
    }

    fn conflicts(definitions: &[Value]) -> Vec<Option<(&'static str, String)>> {
        let verdicts = judge(std::iter::empty(), definitions);
        verdicts.into_iter().map(|one| one.conflict.map(|one| (one.reason, one.name))).collect()
    }

    #[test]
    fn names_of_somebody_else_are_refused_and_the_rest_is_accepted() {
        let definitions = [
            definition("alphas", "Alpha", json!({ "shortNames": ["al"] })),
            definition("betas", "Alpha", json!({})),
            definition("gammas", "Gamma", json!({ "shortNames": ["al", "g"] })),
            definition("deltas", "Delta", json!({ "singular": "alphas" })),
            definition("iotas", "Iota", json!({ "shortNames": ["iota"] })),
        ];
        let said = |reason, name: &str| Some((reason, name.to_owned()));
        assert_eq!(
            conflicts(&definitions),
            [
                None,
                said("ListKindConflict", "AlphaList"),
                said("ShortNamesConflict", "al"),
                said("SingularConflict", "alphas"),
                None
            ]
        );
        let verdicts = judge(std::iter::empty(), &definitions);
        assert_eq!(verdicts[1].accepted, json!({ "plural": "betas", "singular": "beta", "kind": "" }));
    }

    #[test]
    fn who_has_a_name_keeps_it_from_those_that_are_older() {
        let mut definitions =
            [definition("alphas", "Alpha", json!({})), definition("betas", "Beta", json!({}))];
        definitions[1]["status"]["acceptedNames"] = definitions[1]["spec"]["names"].clone();
        definitions[0]["spec"]["names"]["shortNames"] = json!(["betas"]);
        let expected = ("ShortNamesConflict", "betas".to_owned());
        assert_eq!(conflicts(&definitions), [Some(expected), None]);
    }
}
