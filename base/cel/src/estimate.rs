//! What an expression may cost at most, told before there is any value.
//!
//! A definition whose rules could cost too much is refused when it is written, so the estimate has to be Kubernetes' own: the same
//! schemas are accepted and the same are refused. It follows from how large things can get ([`Extent`], read off the schema), and
//! from a price for every step: one for a name, a field or a call, a tenth of the length for whatever walks over text, and for
//! a fold the price of its body for every element.
//!
//! Only the upper bound is kept. What has no bound is [`u64::MAX`], and sums and products stay there.
//!
//! How large a value is follows from where it comes from, which is its path: the variable it starts at, then fields, items and
//! values. A peculiarity of the count is that the first step of a path is always taken for the root. So an element of a list that
//! was made on the way, which has no path but "an item", counts as large as `self`.

use std::collections::BTreeMap;

use crate::ast::{Access, Expression, Fold, FoldKind, Kind, Literal};
use crate::types::Type;

mod calls;
#[cfg(test)]
mod tests;

/// How large a value can get: characters of text, items of a list, entries of a map. Nothing else has a size.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Extent {
    /// At most so many.
    pub most: u64,
    /// What is inside.
    pub parts: Parts,
}

/// How large the parts of a value can get.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Parts {
    /// There are none.
    #[default]
    None,
    /// Of a list.
    Items(Box<Extent>),
    /// Of a map.
    Values(Box<Extent>),
    /// Of an object, by the names that expressions use.
    Fields(BTreeMap<String, Extent>),
}

/// What is known about the value of one expression.
#[derive(Debug, Clone)]
struct Estimate<'a> {
    cost: u64,
    path: Path<'a>,
    /// Known without a path: of what is written out or made on the way.
    size: Option<Size>,
}

#[derive(Debug, Clone, Copy)]
struct Size {
    least: u64,
    most: u64,
}

#[derive(Debug, Clone, Copy)]
enum Path<'a> {
    /// Made on the way.
    None,
    /// Here, or somewhere that the schema says nothing about.
    At(Option<&'a Extent>),
}

/// One step of a path.
enum Step<'s> {
    Item,
    Key,
    Value,
    Field(&'s str),
}

const LIST: u64 = 10;
const MAP: u64 = 30;

/// What the expression may cost, where `self` and every other variable given is as large as `root`.
pub(crate) fn cost(expression: &Expression, root: &Extent) -> u64 {
    Estimator { root, variables: Vec::new() }.of(expression).cost
}

struct Estimator<'a> {
    root: &'a Extent,
    /// Those of folds, with where they come from. The names that were given stand for the root.
    variables: Vec<(Box<str>, Path<'a>)>,
}

// === impl Extent ===

impl Extent {
    /// Of something without parts.
    pub fn of(most: u64) -> Self {
        Self { most, parts: Parts::None }
    }

    fn step(&self, step: &Step<'_>) -> Option<&Self> {
        /// Keys are taken for nothing.
        static KEY: Extent = Extent { most: 0, parts: Parts::None };
        match (&self.parts, step) {
            (Parts::Items(inner), Step::Item) | (Parts::Values(inner), Step::Value) => Some(inner),
            (Parts::Values(_), Step::Key) => Some(&KEY),
            (Parts::Fields(fields), Step::Field(name)) => fields.get(*name),
            _ => None,
        }
    }
}

// === impl Size ===

impl Size {
    fn exactly(size: usize) -> Self {
        Self { least: size as u64, most: size as u64 }
    }

    fn up_to(most: u64) -> Self {
        Self { least: 0, most }
    }

    fn plus(self, other: Self) -> Self {
        Self { least: self.least.saturating_add(other.least), most: self.most.saturating_add(other.most) }
    }

    fn or(self, other: Self) -> Self {
        Self { least: self.least.min(other.least), most: self.most.max(other.most) }
    }
}

// === impl Estimate ===

impl Estimate<'_> {
    /// Made on the way, and as large as its type says.
    fn made(cost: u64) -> Self {
        Self { cost, path: Path::None, size: None }
    }

    fn sized(cost: u64, size: Size) -> Self {
        Self { cost, path: Path::None, size: Some(size) }
    }

    fn size(&self, kind: &Type) -> Size {
        match (self.size, self.path) {
            (Some(size), _) => size,
            (None, Path::At(Some(extent))) => Size::up_to(extent.most),
            (None, _) if is_scalar(kind) => Size { least: 1, most: 1 },
            (None, _) => Size::up_to(u64::MAX),
        }
    }
}

fn is_scalar(kind: &Type) -> bool {
    matches!(
        kind,
        Type::Null
            | Type::Bool
            | Type::Int
            | Type::Uint
            | Type::Double
            | Type::Duration
            | Type::Timestamp
            | Type::Opaque(_)
    )
}

/// What walking over something costs.
fn walk(size: u64) -> u64 {
    size.div_ceil(10)
}

fn sum(costs: impl IntoIterator<Item = u64>) -> u64 {
    costs.into_iter().fold(0, u64::saturating_add)
}

// === impl Estimator ===

impl<'a> Estimator<'a> {
    fn of(&mut self, expression: &Expression) -> Estimate<'a> {
        match &expression.kind {
            Kind::Literal(literal) => Estimate {
                cost: 0,
                path: Path::None,
                size: match literal {
                    Literal::String(text) => Some(Size::exactly(text.len())),
                    Literal::Bytes(bytes) => Some(Size::exactly(bytes.len())),
                    _ => None,
                },
            },
            Kind::Identifier(name) => {
                let known = self.variables.iter().rfind(|(one, _)| one == name);
                let path = known.map_or(Path::At(Some(self.root)), |(_, path)| *path);
                Estimate { cost: 1, path, size: None }
            }
            Kind::Select { operand, field, access } => self.select(operand, field, *access),
            Kind::Index { operand, index, optional } => {
                let (of, by) = (self.of(operand), self.of(index));
                let path = match (&operand.result, of.path) {
                    _ if *optional => Path::None,
                    (Type::List(_) | Type::Map(_), Path::None) => Path::None,
                    (Type::Map(_), path) => self.further(path, &Step::Value),
                    (_, path) => self.further(path, &Step::Item),
                };
                Estimate { cost: sum([of.cost, by.cost, 1]), path, size: None }
            }
            Kind::Call { function, target, arguments, .. } => {
                let all: Vec<&Expression> = target.as_deref().into_iter().chain(arguments).collect();
                self.call(function, &all, &expression.result)
            }
            Kind::And(terms) | Kind::Or(terms) => {
                Estimate::made(sum(terms.iter().map(|term| self.of(term).cost)))
            }
            Kind::Conditional(parts) => {
                let [condition, then, otherwise] = parts.as_ref();
                let condition = self.of(condition).cost;
                let (one, other) = (self.of(then), self.of(otherwise));
                let cost = condition.saturating_add(one.cost.max(other.cost));
                Estimate::sized(cost, one.size(&then.result).or(other.size(&otherwise.result)))
            }
            Kind::List(items) => {
                let cost = sum(items.iter().map(|(_, item)| self.of(item).cost)).saturating_add(LIST);
                Estimate::sized(cost, Size::exactly(items.len()))
            }
            Kind::Map(entries) => {
                let costs = entries.iter().flat_map(|(_, key, value)| [key, value]);
                let cost = sum(costs.map(|part| self.of(part).cost)).saturating_add(MAP);
                Estimate::sized(cost, Size::exactly(entries.len()))
            }
            Kind::Fold(fold) => self.fold(fold),
            Kind::Optional { operand, variable, body, flat } => {
                // Whether there is a value is asked first, then the value is bound by a fold over nothing.
                let operand = self.of(operand).cost;
                self.variables.push((variable.clone(), Path::None));
                let body = self.of(body).cost;
                self.variables.pop();
                let wrapped = u64::from(!flat);
                Estimate::made(sum([operand, 1, LIST, operand, 1, body, wrapped]))
            }
        }
    }

    fn further(&self, path: Path<'a>, step: &Step<'_>) -> Path<'a> {
        match path {
            Path::None => Path::At(Some(self.root)),
            Path::At(extent) => Path::At(extent.and_then(|extent| extent.step(step))),
        }
    }

    fn select(&mut self, operand: &Expression, field: &str, access: Access) -> Estimate<'a> {
        let of = self.of(operand);
        match access {
            Access::Presence => Estimate::made(of.cost),
            Access::Optional => Estimate::made(of.cost.saturating_add(1)),
            Access::Value => {
                // A field of something unknown is found by the value itself.
                let own = u64::from(!operand.result.is_dyn());
                let path = match operand.result {
                    Type::Optional(_) => Path::None,
                    _ => self.further(of.path, &Step::Field(field)),
                };
                Estimate { cost: of.cost.saturating_add(own), path, size: None }
            }
        }
    }

    fn fold(&mut self, fold: &Fold) -> Estimate<'a> {
        let range = self.of(&fold.range);
        let count = range.size(&fold.range.result).most;
        let is_map = matches!(fold.range.result, Type::Map(_));
        let (key, value) = match is_map {
            true => (self.further(range.path, &Step::Key), self.further(range.path, &Step::Value)),
            false => (Path::None, self.further(range.path, &Step::Item)),
        };
        let depth = self.variables.len();
        match &fold.second {
            Some(second) => {
                self.variables.push((fold.variable.clone(), key));
                self.variables.push((second.clone(), value));
            }
            None => self.variables.push((fold.variable.clone(), if is_map { key } else { value })),
        }
        let filter = fold.filter.as_ref().map_or(0, |filter| self.of(filter).cost);
        let made = fold.transform.as_ref().map_or(1, |transform| self.of(transform).cost);
        self.variables.truncate(depth);
        // Before, for every element, and afterwards: looking at what there is so far, asking whether to go on, adding to it.
        let (before, each, after) = match fold.kind {
            FoldKind::All => (0, filter.saturating_add(3), 1),
            FoldKind::Exists => (0, filter.saturating_add(4), 1),
            FoldKind::ExistsOne => (0, filter.saturating_add(2), 2),
            FoldKind::List => (LIST, sum([filter, made, LIST, 2]), 1),
            FoldKind::Map => (MAP, sum([filter, made, 3]), 1),
            FoldKind::Entries => (MAP, sum([filter, made, 2]), 1),
        };
        let cost = sum([range.cost, before, each.saturating_mul(count), after]);
        match fold.kind {
            FoldKind::All | FoldKind::Exists | FoldKind::ExistsOne => Estimate::made(cost),
            FoldKind::List | FoldKind::Map | FoldKind::Entries => Estimate::sized(cost, Size::up_to(count)),
        }
    }
}
