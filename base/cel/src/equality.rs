//! When two values are equal. Work is counted, because two large objects are compared at the price of one comparison.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use crate::error::EvaluationError;
use crate::evaluate::Evaluator;
use crate::types::{Identity, ListType};
use crate::value::{List, Map, Value};

impl<'a> Evaluator<'a> {
    pub(crate) fn equal(&mut self, one: &Value<'a>, other: &Value<'a>) -> Result<bool, EvaluationError> {
        self.work(1)?;
        Ok(match (one, other) {
            (Value::Null, Value::Null) => true,
            (Value::List(one), Value::List(other)) => self.equal_lists(one, other)?,
            (Value::Map(one), Value::Map(other)) => self.equal_maps(one, other)?,
            (Value::Optional(None), Value::Optional(None)) => true,
            (Value::Optional(Some(one)), Value::Optional(Some(other))) => self.equal(one, other)?,
            (Value::Type(one), Value::Type(other)) => one == other,
            (Value::Ip(one), Value::Ip(other)) => one == other,
            (Value::Range(one), Value::Range(other)) => one == other,
            (Value::Url(one), Value::Url(other)) => one == other,
            (Value::Quantity(one), Value::Quantity(other)) => one.compare(*other).is_eq(),
            (Value::Version(one), Value::Version(other)) => one.cmp(other).is_eq(),
            (Value::Format(one), Value::Format(other)) => one == other,
            (Value::String(one), Value::String(other)) => {
                self.work(one.as_str().len() as u64 / 64)?;
                one.as_str() == other.as_str()
            }
            _ => one.compare(other).is_some_and(std::cmp::Ordering::is_eq),
        })
    }

    fn equal_lists(&mut self, one: &List<'a>, other: &List<'a>) -> Result<bool, EvaluationError> {
        if one.len() != other.len() {
            return Ok(false);
        }
        if let (List::Json(left, kind), List::Json(right, _)) = (one, other)
            && kind.identity != Identity::Place
        {
            return self.equal_by_identity(kind, left, right);
        }
        for place in 0..one.len() {
            match (one.get(place)?, other.get(place)?) {
                (Some(left), Some(right)) if self.equal(&left, &right)? => {}
                _ => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Sets and keyed lists are equal in any order.
    fn equal_by_identity(
        &mut self,
        kind: &'a ListType,
        one: &'a [Json],
        other: &'a [Json],
    ) -> Result<bool, EvaluationError> {
        self.work((one.len() + other.len()) as u64)?;
        let mut known: BTreeMap<String, &Json> = BTreeMap::new();
        for item in other {
            known.insert(identity(kind, item), item);
        }
        for item in one {
            let Some(same) = known.get(&identity(kind, item)) else { return Ok(false) };
            let (left, right) = (Value::lift(item, &kind.item)?, Value::lift(same, &kind.item)?);
            if !self.equal(&left, &right)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn equal_maps(&mut self, one: &Map<'a>, other: &Map<'a>) -> Result<bool, EvaluationError> {
        let (left, right) = (one.entries()?, other.entries()?);
        self.work((left.len() + right.len()) as u64)?;
        if left.len() != right.len() {
            return Ok(false);
        }
        for (key, value) in left {
            match other.get(&key)? {
                Some(same) if self.equal(&value, &same)? => {}
                _ => return Ok(false),
            }
        }
        Ok(true)
    }

    /// `+` of lists. A set takes nothing in twice, and in a keyed list the later item replaces the earlier.
    pub(crate) fn joined(&mut self, one: &List<'a>, other: &List<'a>) -> Result<Value<'a>, EvaluationError> {
        self.work((one.len() + other.len()) as u64)?;
        let (mut items, added) = (one.items()?, other.items()?);
        let (List::Json(left, kind), List::Json(right, _)) = (one, other) else {
            items.extend(added);
            return Ok(Value::list(items));
        };
        if kind.identity == Identity::Place {
            items.extend(added);
            return Ok(Value::list(items));
        }
        let mut places: BTreeMap<String, usize> =
            left.iter().enumerate().map(|(place, item)| (identity(kind, item), place)).collect();
        for (item, value) in right.iter().zip(added) {
            match places.get(&identity(kind, item)) {
                Some(place) => items[*place] = value,
                None => {
                    places.insert(identity(kind, item), items.len());
                    items.push(value);
                }
            }
        }
        Ok(Value::list(items))
    }
}

fn identity(kind: &ListType, item: &Json) -> String {
    match &kind.identity {
        Identity::Keys(keys) => keys
            .iter()
            .map(|key| item.get(key).unwrap_or(&Json::Null).to_string())
            .collect::<Vec<_>>()
            .join("\n"),
        Identity::Place | Identity::Value => item.to_string(),
    }
}
