//! From the tree and the variables to a value.
//!
//! What an evaluation costs is counted as Kubernetes counts it, so that a rule that is too expensive there is too expensive
//! here. Beside it real work is counted, for the few things that are cheap by that count and are not.

use crate::ast::{Access, Expression, Fold, FoldKind, Kind, Literal};
use crate::check::TYPE_NAMES;
use crate::error::EvaluationError;
use crate::library;
use crate::value::{Map, Text, Value};

type Outcome<'a> = Result<Value<'a>, EvaluationError>;

/// Steps beyond which an evaluation is given up whatever it costs by the count.
const MOST_WORK: u64 = 20_000_000;

const LIST_COST: u64 = 10;
const MAP_COST: u64 = 30;

pub(crate) struct Evaluator<'a> {
    variables: Vec<(&'a str, Value<'a>)>,
    cost: u64,
    limit: u64,
    work: u64,
}

impl<'a> Evaluator<'a> {
    pub(crate) fn new(variables: Vec<(&'a str, Value<'a>)>, limit: u64) -> Self {
        Self { variables, cost: 0, limit, work: 0 }
    }

    pub(crate) fn cost(&self) -> u64 {
        self.cost
    }

    pub(crate) fn charge(&mut self, cost: u64) -> Result<(), EvaluationError> {
        self.cost = self.cost.saturating_add(cost);
        match self.cost > self.limit {
            true => Err(EvaluationError::CostLimit),
            false => Ok(()),
        }
    }

    pub(crate) fn work(&mut self, steps: u64) -> Result<(), EvaluationError> {
        self.work = self.work.saturating_add(steps);
        match self.work > MOST_WORK {
            true => Err(EvaluationError::CostLimit),
            false => Ok(()),
        }
    }

    pub(crate) fn value(&mut self, expression: &'a Expression) -> Outcome<'a> {
        match &expression.kind {
            Kind::Literal(literal) => Ok(match literal {
                Literal::Null => Value::Null,
                Literal::Bool(value) => Value::Bool(*value),
                Literal::Int(value) => Value::Int(*value),
                Literal::Uint(value) => Value::Uint(*value),
                Literal::Double(value) => Value::Double(*value),
                Literal::String(text) => Value::String(Text::Borrowed(text)),
                Literal::Bytes(bytes) => Value::Bytes(bytes.as_ref().into()),
            }),
            Kind::Identifier(name) => {
                self.charge(1)?;
                self.variable(name)
            }
            Kind::Select { operand, field, access } => {
                let value = self.value(operand)?;
                if *access != Access::Presence {
                    self.charge(1)?;
                }
                select(&value, field, *access)
            }
            Kind::Index { operand, index, optional } => {
                let (value, index) = (self.value(operand)?, self.value(index)?);
                self.charge(1)?;
                self::index(&value, &index, *optional)
            }
            Kind::Call { function, target, arguments, regex } => {
                let mut values = Vec::with_capacity(arguments.len() + 1);
                if let Some(target) = target {
                    values.push(self.value(target)?);
                }
                for argument in arguments {
                    values.push(self.value(argument)?);
                }
                library::call(self, function, regex.as_deref(), &values)
            }
            Kind::And(terms) => self.logical(terms, false),
            Kind::Or(terms) => self.logical(terms, true),
            Kind::Conditional(parts) => {
                let [condition, then, otherwise] = parts.as_ref();
                match self.value(condition)? {
                    Value::Bool(true) => self.value(then),
                    Value::Bool(false) => self.value(otherwise),
                    _ => Err(EvaluationError::NoSuchOverload { function: None }),
                }
            }
            Kind::List(items) => {
                let mut values = Vec::with_capacity(items.len());
                for (optional, item) in items {
                    match (self.value(item)?, *optional) {
                        (Value::Optional(inner), true) => {
                            values.extend(inner.map(|value| value.as_ref().clone()))
                        }
                        (value, _) => values.push(value),
                    }
                }
                self.charge(LIST_COST)?;
                Ok(Value::list(values))
            }
            Kind::Map(entries) => {
                let mut made = std::collections::BTreeMap::new();
                for (optional, key, value) in entries {
                    let (key, value) = (self.value(key)?, self.value(value)?);
                    let key = key.key().ok_or_else(|| EvaluationError::failed("unsupported key type"))?;
                    match (value, *optional) {
                        (Value::Optional(inner), true) => {
                            if let Some(value) = inner {
                                made.insert(key, value.as_ref().clone());
                            }
                        }
                        (value, _) => {
                            if made.insert(key, value).is_some() {
                                return Err(EvaluationError::failed("Failed with repeated key"));
                            }
                        }
                    }
                }
                self.charge(MAP_COST)?;
                Ok(Value::Map(Map::Made(made.into())))
            }
            Kind::Fold(fold) => self.fold(fold),
            Kind::Optional { operand, variable, body, flat } => match self.value(operand)? {
                Value::Optional(None) => Ok(Value::Optional(None)),
                Value::Optional(Some(inner)) => {
                    self.variables.push((variable, inner.as_ref().clone()));
                    let value = self.value(body);
                    self.variables.pop();
                    Ok(if *flat { value? } else { Value::some(value?) })
                }
                _ => Err(EvaluationError::overload("optMap")),
            },
        }
    }

    fn variable(&self, name: &str) -> Outcome<'a> {
        if let Some((_, value)) = self.variables.iter().rfind(|(one, _)| *one == name) {
            return Ok(value.clone());
        }
        match TYPE_NAMES.iter().find(|one| **one == name) {
            Some(name) => Ok(Value::Type(name)),
            None => Err(EvaluationError::failed(format!("no such attribute(s): {name}"))),
        }
    }

    /// `&&` and `||`: one decisive term decides, even beside one that fails.
    fn logical(&mut self, terms: &'a [Expression], decisive: bool) -> Outcome<'a> {
        let mut failed = None;
        for term in terms {
            match self.value(term) {
                Ok(Value::Bool(value)) if value == decisive => return Ok(Value::Bool(decisive)),
                Ok(Value::Bool(_)) => {}
                Ok(_) => failed = failed.or(Some(EvaluationError::NoSuchOverload { function: None })),
                Err(EvaluationError::CostLimit) => return Err(EvaluationError::CostLimit),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        failed.map_or(Ok(Value::Bool(!decisive)), Err)
    }

    fn fold(&mut self, fold: &'a Fold) -> Outcome<'a> {
        let (pairs, is_map) = match self.value(&fold.range)? {
            Value::List(list) => {
                let items = list.items()?;
                let numbered = items.into_iter().zip(0_i64..);
                (numbered.map(|(item, place)| (Value::Int(place), item)).collect::<Vec<_>>(), false)
            }
            Value::Map(map) => (map.entries()?, true),
            _ => return Err(EvaluationError::NoSuchOverload { function: None }),
        };
        self.work(pairs.len() as u64)?;
        let depth = self.variables.len();
        let mut state = State::new(fold.kind);
        for (key, value) in pairs {
            let element = if is_map && fold.second.is_none() { key.clone() } else { value.clone() };
            match &fold.second {
                Some(second) => {
                    self.variables.push((&fold.variable, key.clone()));
                    self.variables.push((second, value));
                }
                None => self.variables.push((&fold.variable, element.clone())),
            }
            let done = self.step(fold, &mut state, key, element);
            self.variables.truncate(depth);
            if done? {
                break;
            }
        }
        self.charge(1)?;
        state.result()
    }

    /// Takes one element in. True when the rest cannot matter.
    fn step(
        &mut self,
        fold: &'a Fold,
        state: &mut State<'a>,
        key: Value<'a>,
        element: Value<'a>,
    ) -> Result<bool, EvaluationError> {
        let holds = match fold.filter.as_ref().map(|filter| self.value(filter)) {
            None => true,
            Some(Ok(Value::Bool(holds))) => holds,
            Some(Err(EvaluationError::CostLimit)) => return Err(EvaluationError::CostLimit),
            // A failure is forgiven if another element decides.
            Some(outcome) => {
                let error = outcome.err().unwrap_or(EvaluationError::NoSuchOverload { function: None });
                if !matches!(fold.kind, FoldKind::All | FoldKind::Exists) {
                    return Err(error);
                }
                state.failed.get_or_insert(error);
                self.charge(3)?;
                return Ok(false);
            }
        };
        match fold.kind {
            FoldKind::All | FoldKind::Exists => {
                self.charge(if fold.kind == FoldKind::All { 3 } else { 4 })?;
                state.decided = holds == (fold.kind == FoldKind::Exists);
                Ok(state.decided)
            }
            FoldKind::ExistsOne => {
                self.charge(if holds { 2 } else { 1 })?;
                state.count += u64::from(holds);
                Ok(false)
            }
            FoldKind::List | FoldKind::Map | FoldKind::Entries if !holds => {
                self.charge(1)?;
                Ok(false)
            }
            FoldKind::List => {
                let made = match &fold.transform {
                    Some(transform) => self.value(transform)?,
                    None => {
                        self.charge(1)?;
                        element
                    }
                };
                self.charge(LIST_COST + 2)?;
                state.items.push(made);
                Ok(false)
            }
            FoldKind::Map => {
                let made = fold.transform.as_ref().map_or(Ok(element), |transform| self.value(transform))?;
                self.charge(2)?;
                let key = key.key().ok_or_else(|| EvaluationError::failed("unsupported key type"))?;
                state.entries.insert(key, made);
                Ok(false)
            }
            FoldKind::Entries => {
                let Some(transform) = &fold.transform else { return Ok(false) };
                let Value::Map(map) = self.value(transform)? else {
                    return Err(EvaluationError::overload("transformMapEntry"));
                };
                self.charge(2)?;
                for (key, value) in map.entries()? {
                    let shown = key.key().ok_or_else(|| EvaluationError::failed("unsupported key type"))?;
                    if state.entries.insert(shown, value).is_some() {
                        return Err(EvaluationError::failed("insert failed: key already exists"));
                    }
                }
                Ok(false)
            }
        }
    }
}

/// What a fold has so far.
struct State<'a> {
    kind: FoldKind,
    decided: bool,
    count: u64,
    items: Vec<Value<'a>>,
    entries: std::collections::BTreeMap<crate::value::Key, Value<'a>>,
    failed: Option<EvaluationError>,
}

impl<'a> State<'a> {
    fn new(kind: FoldKind) -> Self {
        Self { kind, decided: false, count: 0, items: Vec::new(), entries: Default::default(), failed: None }
    }

    fn result(self) -> Outcome<'a> {
        match self.kind {
            FoldKind::All if self.decided => Ok(Value::Bool(false)),
            FoldKind::Exists if self.decided => Ok(Value::Bool(true)),
            FoldKind::All | FoldKind::Exists => {
                let holds = Value::Bool(self.kind == FoldKind::All);
                self.failed.map_or(Ok(holds), Err)
            }
            FoldKind::ExistsOne => Ok(Value::Bool(self.count == 1)),
            FoldKind::List => Ok(Value::list(self.items)),
            FoldKind::Map | FoldKind::Entries => Ok(Value::Map(Map::Made(self.entries.into()))),
        }
    }
}

fn select<'a>(value: &Value<'a>, field: &str, access: Access) -> Outcome<'a> {
    if let Value::Optional(inner) = value {
        let found = match inner {
            Some(inner) => select(inner, field, Access::Optional)?,
            None => Value::Optional(None),
        };
        return Ok(match access {
            Access::Presence => Value::Bool(!matches!(found, Value::Optional(None))),
            Access::Value | Access::Optional => found,
        });
    }
    let Value::Map(map) = value else {
        return Err(EvaluationError::NoSuchOverload { function: None });
    };
    let found = map.field(field)?;
    match access {
        Access::Presence => Ok(Value::Bool(found.is_some())),
        Access::Optional => Ok(found.map_or(Value::Optional(None), Value::some)),
        Access::Value => found.ok_or_else(|| EvaluationError::failed(format!("no such key: {field}"))),
    }
}

fn index<'a>(value: &Value<'a>, by: &Value<'_>, optional: bool) -> Outcome<'a> {
    if let Value::Optional(inner) = value {
        return match inner {
            Some(inner) => index(inner, by, true),
            None => Ok(Value::Optional(None)),
        };
    }
    let (found, missing) = match (value, by) {
        (Value::List(list), by) => {
            let place = match by {
                Value::Int(place) => *place,
                Value::Uint(place) => i64::try_from(*place).unwrap_or(i64::MAX),
                #[expect(clippy::cast_possible_truncation, reason = "whole, and in range")]
                Value::Double(place) if place.fract() == 0.0 && place.abs() < 9e18 => *place as i64,
                _ => return Err(EvaluationError::overload("_[_]")),
            };
            let found = usize::try_from(place).ok().map(|place| list.get(place)).transpose()?.flatten();
            (found, format!("index out of bounds: {place}"))
        }
        (Value::Map(map), by) => {
            let shown = by.key().map(|key| key.to_string()).unwrap_or_default();
            (map.get(by)?, format!("no such key: {shown}"))
        }
        _ => return Err(EvaluationError::overload("_[_]")),
    };
    match (found, optional) {
        (found, true) => Ok(found.map_or(Value::Optional(None), Value::some)),
        (Some(found), false) => Ok(found),
        (None, false) => Err(EvaluationError::Failed(missing)),
    }
}
