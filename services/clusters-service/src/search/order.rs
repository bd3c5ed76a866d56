//! In which order a list comes.

use std::cmp::Ordering;

use serde_json::Value;

use super::{Field, Subject, SyntaxError, key};

/// `<field> [asc|desc]`, more of them behind commas.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Order(Vec<(Field, Direction)>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Ascending,
    Descending,
}

impl Order {
    /// Reads an order.
    pub(crate) fn parse(text: &str, subject: Subject) -> Result<Self, SyntaxError> {
        text.split(',').map(|part| Self::part(part, text, subject)).collect::<Result<_, _>>().map(Self)
    }

    fn part(part: &str, text: &str, subject: Subject) -> Result<(Field, Direction), SyntaxError> {
        let at = part.as_ptr() as usize - text.as_ptr() as usize + 1;
        let refused = |problem: String| SyntaxError { at, problem };
        let mut words = part.split_whitespace();
        let name = words.next().ok_or_else(|| refused("expected a field".to_owned()))?;
        let field = Field::known(name, subject).ok_or_else(|| {
            refused(format!("there is no field `{name}`; the fields are {}", subject.known_fields()))
        })?;
        let direction = match words.next() {
            None => Direction::Ascending,
            Some(word) if word.eq_ignore_ascii_case("asc") => Direction::Ascending,
            Some(word) if word.eq_ignore_ascii_case("desc") => Direction::Descending,
            Some(word) => return Err(refused(format!("`{word}` is neither `asc` nor `desc`"))),
        };
        match words.next() {
            None => Ok((field, direction)),
            Some(word) => Err(refused(format!("expected a comma before `{word}`"))),
        }
    }

    /// Whether ids alone decide, and then whether they go backwards. No two things have the same, so nothing behind them counts.
    pub(crate) fn of_ids(&self) -> Option<bool> {
        let (field, direction) = self.0.first()?;
        field.is(&["id"]).then_some(*direction == Direction::Descending)
    }

    /// Which of two clusters, as JSON, comes first.
    pub(crate) fn compare(&self, left: &Value, right: &Value) -> Ordering {
        self.0.iter().fold(Ordering::Equal, |ordering, (field, direction)| {
            ordering.then_with(|| {
                let found = in_order(field, left, right);
                match direction {
                    Direction::Ascending => found,
                    Direction::Descending => found.reverse(),
                }
            })
        })
    }
}

/// All fields one can sort by are texts or booleans; what is missing comes first.
fn in_order(field: &Field, left: &Value, right: &Value) -> Ordering {
    match (field.of(left), field.of(right)) {
        (Some(Value::String(left)), Some(Value::String(right))) => key::compare(field, left, right),
        (Some(left), Some(right)) => left.to_string().cmp(&right.to_string()),
        (left, right) => left.is_some().cmp(&right.is_some()),
    }
}
