//! The language of `search`.
//!
//! Two dialects meet in it: comparisons of columns, and PostgreSQL's operators into JSON
//! (`payload->'metadata'->'labels'->>'k'='v'`, `@>`). Both are read by one parser into one tree, which is evaluated over
//! documents; from the tree also follows which index narrows the search down.
//!
//! As in SQL, what is missing is neither equal nor unequal to anything.

use std::cmp::Ordering;

use serde_json::Value;

mod parse;

pub(super) use self::parse::parse;

/// A search that can be evaluated.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Expression {
    And(Box<Expression>, Box<Expression>),
    Or(Box<Expression>, Box<Expression>),
    Not(Box<Expression>),
    Compare {
        field: Field,
        comparison: Comparison,
        value: Literal,
    },
    In {
        field: Field,
        values: Vec<Literal>,
    },
    Between {
        field: Field,
        low: Literal,
        high: Literal,
    },
    IsNull(Field),
    /// A comparison of what is calculated.
    Calculated {
        formula: Formula,
        comparison: Comparison,
        value: Literal,
    },
    Contains {
        field: Field,
        value: Value,
    },
}

/// A number that follows from columns.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Formula {
    Field(Field),
    Number(f64),
    Operation(Box<Formula>, Operator, Box<Formula>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Plus,
    Minus,
    Times,
    Over,
    Modulo,
}

/// A column, and a way into it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) column: String,
    pub(super) path: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Like { any_case: bool },
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Literal {
    Text(String),
    Number(f64),
}

/// Why a text is no search.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("failed to parse the search query: {problem} at character {position}")]
pub(super) struct InvalidSearch {
    pub(super) problem: String,
    pub(super) position: usize,
}

impl Expression {
    /// Whether a row is selected.
    pub(super) fn selects(&self, row: &Value) -> bool {
        self.evaluate(row) == Some(true)
    }

    fn evaluate(&self, row: &Value) -> Option<bool> {
        match self {
            Self::And(one, other) => match (one.evaluate(row), other.evaluate(row)) {
                (Some(false), _) | (_, Some(false)) => Some(false),
                (Some(true), Some(true)) => Some(true),
                _ => None,
            },
            Self::Or(one, other) => match (one.evaluate(row), other.evaluate(row)) {
                (Some(true), _) | (_, Some(true)) => Some(true),
                (Some(false), Some(false)) => Some(false),
                _ => None,
            },
            Self::Not(inner) => inner.evaluate(row).map(|holds| !holds),
            Self::Compare { field, comparison, value } => Some(comparison.holds(field.of(row)?, value)),
            Self::In { field, values } => {
                let found = field.of(row)?;
                Some(values.iter().any(|value| Comparison::Equal.holds(found, value)))
            }
            Self::Between { field, low, high } => {
                let found = field.of(row)?;
                Some(
                    Comparison::GreaterOrEqual.holds(found, low)
                        && Comparison::LessOrEqual.holds(found, high),
                )
            }
            Self::IsNull(field) => Some(field.of(row).is_none()),
            Self::Calculated { formula, comparison, value } => {
                Some(comparison.holds(&Value::from(formula.of(row)?), value))
            }
            Self::Contains { field, value } => Some(contains(field.of(row)?, value)),
        }
    }

    /// A field that has to have this value in every row that is selected.
    pub(super) fn requires(&self, field: &Field) -> Option<&str> {
        match self {
            Self::And(one, other) => one.requires(field).or_else(|| other.requires(field)),
            Self::Compare { field: found, comparison: Comparison::Equal, value: Literal::Text(text) }
                if found == field =>
            {
                Some(text)
            }
            _ => None,
        }
    }

    /// Something below `parent` that has to have this value in every row that is selected: its name, and the value.
    pub(super) fn requires_below(&self, parent: &Field) -> Option<(&str, &str)> {
        match self {
            Self::And(one, other) => one.requires_below(parent).or_else(|| other.requires_below(parent)),
            Self::Compare { field, comparison: Comparison::Equal, value: Literal::Text(text) } => {
                let (name, path) = field.path.split_last()?;
                (field.column == parent.column && path == parent.path).then_some((name, text))
            }
            // `labels @> {"k":"v"}` is `labels ->> 'k' = 'v'`.
            Self::Contains { field, value } if field == parent => {
                let mut members = value.as_object()?.iter();
                members.find_map(|(name, value)| Some((name.as_str(), value.as_str()?)))
            }
            _ => None,
        }
    }
}

impl Field {
    pub(super) fn new(column: &str, path: &[&str]) -> Self {
        Self { column: column.to_owned(), path: path.iter().map(|name| (*name).to_owned()).collect() }
    }

    fn of<'a>(&self, row: &'a Value) -> Option<&'a Value> {
        let start = row.get(&self.column)?;
        self.path.iter().try_fold(start, |value, name| value.get(name)).filter(|value| !value.is_null())
    }
}

impl Formula {
    fn of(&self, row: &Value) -> Option<f64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Field(field) => match field.of(row)? {
                Value::Number(number) => number.as_f64(),
                other => text_of(other).parse().ok(),
            },
            Self::Operation(left, operator, right) => {
                let (left, right) = (left.of(row)?, right.of(row)?);
                let result = match operator {
                    Operator::Plus => left + right,
                    Operator::Minus => left - right,
                    Operator::Times => left * right,
                    Operator::Over => left / right,
                    Operator::Modulo => left % right,
                };
                // What is divided by nothing is nothing.
                result.is_finite().then_some(result)
            }
        }
    }
}

impl Comparison {
    fn holds(self, found: &Value, wanted: &Literal) -> bool {
        let ordering = match (found, wanted) {
            (Value::Number(number), wanted) => {
                let wanted = match wanted {
                    Literal::Number(number) => Some(*number),
                    Literal::Text(text) => text.parse().ok(),
                };
                number.as_f64().zip(wanted).and_then(|(found, wanted)| found.partial_cmp(&wanted))
            }
            (found, Literal::Text(text)) => Some(text_of(found).as_str().cmp(text)),
            (found, Literal::Number(number)) => {
                text_of(found).parse().ok().and_then(|found: f64| found.partial_cmp(number))
            }
        };
        match (self, wanted) {
            (Self::Like { any_case }, Literal::Text(pattern)) => like(&text_of(found), pattern, any_case),
            (Self::Like { .. }, Literal::Number(_)) => false,
            (Self::Equal, _) => ordering == Some(Ordering::Equal),
            (Self::NotEqual, _) => ordering != Some(Ordering::Equal),
            (Self::Less, _) => ordering == Some(Ordering::Less),
            (Self::LessOrEqual, _) => matches!(ordering, Some(Ordering::Less | Ordering::Equal)),
            (Self::Greater, _) => ordering == Some(Ordering::Greater),
            (Self::GreaterOrEqual, _) => matches!(ordering, Some(Ordering::Greater | Ordering::Equal)),
        }
    }
}

fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// `%` stands for anything, `_` for one character.
fn like(text: &str, pattern: &str, any_case: bool) -> bool {
    fn matches(text: &[char], pattern: &[char]) -> bool {
        match pattern {
            [] => text.is_empty(),
            ['%', rest @ ..] => (0..=text.len()).any(|start| matches(&text[start..], rest)),
            ['_', rest @ ..] => !text.is_empty() && matches(&text[1..], rest),
            [first, rest @ ..] => text.first() == Some(first) && matches(&text[1..], rest),
        }
    }
    let characters = |text: &str| -> Vec<char> {
        if any_case { text.to_lowercase().chars().collect() } else { text.chars().collect() }
    };
    matches(&characters(text), &characters(pattern))
}

fn contains(found: &Value, wanted: &Value) -> bool {
    match (found, wanted) {
        (Value::Object(found), Value::Object(wanted)) => {
            wanted.iter().all(|(name, wanted)| found.get(name).is_some_and(|found| contains(found, wanted)))
        }
        (Value::Array(found), Value::Array(wanted)) => {
            wanted.iter().all(|wanted| found.iter().any(|found| contains(found, wanted)))
        }
        _ => found == wanted,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn row() -> Value {
        json!({"id": "1", "source": "cs", "consumer_name": "c1", "version": 2, "deleted_at": null,
            "payload": {"metadata": {"labels": {"api.openshift.com/id": "abc", "tier": "b"}}}})
    }

    #[test]
    fn searches_of_real_clients_find_what_they_should() {
        for (search, expected) in [
            ("source='cs'", true),
            ("source = 'cs' and consumer_name='c1'", true),
            ("source='cs' and (consumer_name='x' or consumer_name='c1')", true),
            ("source='other'", false),
            ("payload->'metadata'->'labels'->>'api.openshift.com/id'='abc'", true),
            ("payload -> 'metadata' -> 'labels' ->> 'api.openshift.com/id' = 'x'", false),
            (
                r#"source='cs' and payload->'metadata'->'labels'@>'{"tier":"b","api.openshift.com/id":"abc"}'"#,
                true,
            ),
            (r#"payload->'metadata'->'labels'@>'{"tier":"a"}'"#, false),
            ("payload->'metadata'->'labels'->>'tier'in('a','b')", true),
            ("payload->'metadata'->'labels'->>'tier'<>'a'", true),
            ("payload->'metadata'->'labels'->>'tier'<>null", true),
            ("payload->'metadata'->'labels'->>'none'<>null", false),
            ("payload->'metadata'->'labels'->>'none'<>'x'", false),
            ("resources.version > 1 and version <= 2.5", true),
            ("version between 1 and 3 and not source = 'x'", true),
            ("version not in (1, 3)", true),
            ("source like 'c%' and source ilike 'CS'", true),
            ("source not like '_x'", true),
            ("deleted_at is null and source is not null", true),
            ("source = 'it''s'", false),
            (r#""source" = 'cs' and `version` = 2 and [consumer_name] = 'c1'"#, true),
            (r#"resources."source" = 'cs'"#, true),
            ("source is 'cs' and version is not 3", true),
            ("source is not 'cs'", false),
            ("version * 2 + 1 = 5 and version % 2 = 0 and version / 4 < 1 and version - 1 >= 1", true),
            ("version + 2 * 3 = 8", true),
            ("version / 0 > 1", false),
        ] {
            assert_eq!(parse(search).unwrap().selects(&row()), expected, "{search}");
        }
    }

    #[test]
    fn odd_searches_are_refused_with_the_place() {
        for odd in [
            "",
            "source",
            "source=",
            "source='cs",
            "source='a' and",
            "(source='a'",
            "payload->>'a'='b'",
            "secrets='a'",
            "source='a' source='b'",
            "payload->'a'",
            "payload->'a'@>'{'",
            "a.b.c='d'",
            "source ~= 'c'",
            "source ~! 'c'",
            "\"source='cs'",
            "[source = 'cs'",
            "version * = 2",
            "other.version = 2",
            "(((((((((((((((((((((((((((((((((((((((version = 2",
        ] {
            assert!(parse(odd).is_err(), "{odd}");
        }
        let error = parse("source='a' and oops").unwrap_err();
        assert_eq!(
            error.to_string(),
            "failed to parse the search query: there is no column `oops` at character 15"
        );
    }

    #[test]
    fn indexes_follow_from_what_every_row_must_have() {
        let label = Field::new("payload", &["metadata", "labels", "api.openshift.com/id"]);
        let required =
            |search: &str, field: &Field| parse(search).unwrap().requires(field).map(str::to_owned);
        let by_label = "source='cs' and payload->'metadata'->'labels'->>'api.openshift.com/id'='abc'";
        assert_eq!(required(by_label, &label), Some("abc".to_owned()));
        let by_containment = r#"payload->'metadata'->'labels'@>'{"api.openshift.com/id":"abc"}'"#;
        let labels = Field::new("payload", &["metadata", "labels"]);
        for search in [by_label, by_containment] {
            let parsed = parse(search).unwrap();
            assert_eq!(parsed.requires_below(&labels), Some(("api.openshift.com/id", "abc")), "{search}");
        }
        assert_eq!(required(by_label, &Field::new("source", &[])), Some("cs".to_owned()));
        assert_eq!(required("source='a' or source='b'", &Field::new("source", &[])), None);
        assert_eq!(required("not source='a'", &Field::new("source", &[])), None);
    }
}
