//! Whether somebody already has what is about to be granted.
//!
//! Who may write roles could otherwise give themselves everything. A rule is taken apart into its smallest pieces, and each
//! has to be covered by one rule that the user has.

use serde_json::Value;

use super::{Authorizer, Rule, covers};
use crate::authentication::User;
use crate::storage::Cache;

impl Authorizer {
    /// What of these rules the user does not have in a namespace, in words. Empty where nothing is missing.
    pub(crate) fn missing(&self, cache: &Cache, user: &User, namespace: &str, wanted: &Value) -> Vec<String> {
        let wanted: Vec<Rule> = wanted
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|rule| serde_json::from_value(rule.clone()).ok())
            .collect();
        let compiled = self.current(cache);
        let within = compiled.namespaces.get(namespace).into_iter().flatten();
        let held: Vec<&Rule> = compiled
            .cluster
            .iter()
            .chain(within)
            .filter(|grant| grant.concerns(user))
            .flat_map(|grant| grant.rules.iter())
            .collect();
        let pieces = wanted.iter().flat_map(pieces);
        compact(pieces.filter(|piece| !held.iter().any(|rule| rule.includes(piece))).collect())
    }
}

impl Rule {
    /// Whether this rule allows all that a piece does.
    fn includes(&self, piece: &Self) -> bool {
        let all = |held: &[String], wanted: &[String]| {
            held.iter().any(|one| one == "*") || wanted.iter().all(|one| held.contains(one))
        };
        let resource = |wanted: &String| {
            let below = wanted.split_once('/').map(|(_, part)| format!("*/{part}"));
            self.resources.contains(wanted) || below.is_some_and(|below| self.resources.contains(&below))
        };
        all(&self.verbs, &piece.verbs)
            && all(&self.api_groups, &piece.api_groups)
            && (self.resources.iter().any(|one| one == "*") || piece.resources.iter().all(resource))
            && piece.paths.iter().all(|path| self.paths.iter().any(|held| covers(held, path)))
            && (self.resource_names.is_empty()
                || (!piece.resource_names.is_empty()
                    && piece.resource_names.iter().all(|name| self.resource_names.contains(name))))
    }

    fn shown(&self) -> String {
        let parts: Vec<String> = [
            ("APIGroups", &self.api_groups),
            ("Resources", &self.resources),
            ("NonResourceURLs", &self.paths),
            ("ResourceNames", &self.resource_names),
            ("Verbs", &self.verbs),
        ]
        .into_iter()
        .filter(|(_, words)| !words.is_empty())
        .map(|(name, words)| format!("{name}:{}", quoted(words)))
        .collect();
        format!("{{{}}}", parts.join(", "))
    }
}

/// A list of words as messages show them.
pub(crate) fn quoted(words: &[String]) -> String {
    format!("[{}]", words.iter().map(|word| format!("{word:?}")).collect::<Vec<_>>().join(" "))
}

/// Each with one verb, one resource and at most one name.
fn pieces(rule: &Rule) -> Vec<Rule> {
    let one = |word: &String| vec![word.clone()];
    let mut pieces = Vec::new();
    for group in &rule.api_groups {
        for resource in &rule.resources {
            for verb in &rule.verbs {
                let piece = Rule {
                    verbs: one(verb),
                    api_groups: one(group),
                    resources: one(resource),
                    ..Rule::default()
                };
                match rule.resource_names.as_slice() {
                    [] => pieces.push(piece),
                    names => pieces
                        .extend(names.iter().map(|name| Rule { resource_names: one(name), ..piece.clone() })),
                }
            }
        }
    }
    for path in &rule.paths {
        pieces.extend(rule.verbs.iter().map(|verb| Rule {
            verbs: one(verb),
            paths: one(path),
            ..Rule::default()
        }));
    }
    pieces
}

/// Pieces that differ only in the verb become one, and all are put into words.
fn compact(pieces: Vec<Rule>) -> Vec<String> {
    let mut kept: Vec<Rule> = Vec::new();
    for mut piece in pieces {
        let same = |one: &&mut Rule| {
            piece.paths.is_empty()
                && one.api_groups == piece.api_groups
                && one.resources == piece.resources
                && one.resource_names == piece.resource_names
                && one.paths.is_empty()
        };
        match kept.iter_mut().find(same) {
            Some(known) => known.verbs.append(&mut piece.verbs),
            None => kept.push(piece),
        }
    }
    let mut shown: Vec<String> = kept.iter().map(Rule::shown).collect();
    shown.sort();
    shown.dedup();
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(text: &str) -> Rule {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn a_piece_is_covered_by_one_rule_or_not_at_all() {
        let held = rule(r#"{"verbs":["get","list"],"apiGroups":[""],"resources":["pods","*/scale"]}"#);
        for (wanted, expected) in [
            (r#"{"verbs":["get"],"apiGroups":[""],"resources":["pods"]}"#, true),
            (r#"{"verbs":["get"],"apiGroups":[""],"resources":["pods"],"resourceNames":["a"]}"#, true),
            (r#"{"verbs":["get"],"apiGroups":[""],"resources":["a/scale"]}"#, true),
            (r#"{"verbs":["*"],"apiGroups":[""],"resources":["pods"]}"#, false),
            (r#"{"verbs":["get"],"apiGroups":["apps"],"resources":["pods"]}"#, false),
            (r#"{"verbs":["get"],"nonResourceURLs":["/x"]}"#, false),
        ] {
            assert_eq!(held.includes(&rule(wanted)), expected, "{wanted}");
        }
        let named = rule(r#"{"verbs":["get"],"apiGroups":[""],"resources":["pods"],"resourceNames":["a"]}"#);
        assert!(!named.includes(&rule(r#"{"verbs":["get"],"apiGroups":[""],"resources":["pods"]}"#)));
    }

    #[test]
    fn what_is_missing_is_said_once_for_all_verbs() {
        let wanted = rule(r#"{"verbs":["get","list"],"apiGroups":[""],"resources":["pods"]}"#);
        assert_eq!(
            compact(pieces(&wanted)),
            [r#"{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}"#]
        );
    }
}
