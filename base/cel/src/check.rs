//! Whether an expression makes sense before there are values: names, fields and the types that functions take.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::ast::{Access, Expression, Fold, FoldKind, Kind, Literal};
use crate::error::Problem;
use crate::library::format_text;
use crate::pattern::Pattern;
use crate::signatures::{OF_WORKS, SIGNATURES};
use crate::types::Type;

/// Names of types, which are values too.
pub(crate) const TYPE_NAMES: [&str; 15] = [
    "bool",
    "int",
    "uint",
    "double",
    "string",
    "bytes",
    "list",
    "map",
    "type",
    "null_type",
    "optional_type",
    "google.protobuf.Timestamp",
    "google.protobuf.Duration",
    "net.IP",
    "net.CIDR",
];

pub(crate) struct Checker {
    variables: Vec<(String, Type)>,
    problems: Vec<Problem>,
    /// Every variable that is given and used.
    pub(crate) used: Vec<String>,
    given: usize,
    /// What `format` is given may be of many types.
    mixed: bool,
    /// The functions of works are offered, too.
    works: bool,
}

impl Checker {
    pub(crate) fn new(variables: &[(&str, Type)]) -> Self {
        let variables: Vec<_> =
            variables.iter().map(|(name, kind)| ((*name).to_owned(), kind.clone())).collect();
        Self {
            given: variables.len(),
            variables,
            problems: Vec::new(),
            used: Vec::new(),
            mixed: false,
            works: false,
        }
    }

    /// For a rule of a work.
    pub(crate) fn for_works(self) -> Self {
        Self { works: true, ..self }
    }

    pub(crate) fn run(&mut self, expression: &mut Expression) -> Result<Type, Vec<Problem>> {
        let kind = self.expression(expression);
        match self.problems.is_empty() {
            true => Ok(kind),
            false => Err(std::mem::take(&mut self.problems)),
        }
    }

    fn problem(&mut self, at: usize, message: String) -> Type {
        self.problems.push(Problem::new(at, message));
        // What is wrong once shall not be reported again by everything around it.
        Type::Dyn
    }

    fn variable(&mut self, name: &str) -> Option<Type> {
        let place = self.variables.iter().rposition(|(one, _)| one == name)?;
        if place < self.given && !self.used.iter().any(|used| used == name) {
            self.used.push(name.to_owned());
        }
        Some(self.variables[place].1.clone())
    }

    fn expression(&mut self, expression: &mut Expression) -> Type {
        self.qualified_names(expression);
        let result = self.inferred(expression);
        expression.result = result.clone();
        result
    }

    fn inferred(&mut self, expression: &mut Expression) -> Type {
        let at = expression.at;
        match &mut expression.kind {
            Kind::Literal(literal) => match literal {
                Literal::Null => Type::Null,
                Literal::Bool(_) => Type::Bool,
                Literal::Int(_) => Type::Int,
                Literal::Uint(_) => Type::Uint,
                Literal::Double(_) => Type::Double,
                Literal::String(_) => Type::String,
                Literal::Bytes(_) => Type::Bytes,
            },
            Kind::Identifier(name) => match self.variable(name) {
                Some(kind) => kind,
                None if TYPE_NAMES.contains(&name.as_ref()) => Type::Type,
                None => {
                    let message = format!("undeclared reference to '{name}' (in container '')");
                    self.problem(at, message)
                }
            },
            Kind::Select { operand, field, access } => {
                let of = self.expression(operand);
                let found = self.field(at, &of, field);
                match access {
                    Access::Value => found,
                    Access::Presence => Type::Bool,
                    Access::Optional => match found {
                        Type::Optional(_) => found,
                        other => Type::optional(other),
                    },
                }
            }
            Kind::Index { operand, index, optional } => {
                let of = self.expression(operand);
                let by = self.expression(index);
                let found = self.item(at, &of, &by, *optional);
                match (optional, found) {
                    (true, found @ Type::Optional(_)) | (false, found) => found,
                    (true, found) => Type::optional(found),
                }
            }
            Kind::Call { function, target, arguments, regex } => {
                let member = target.is_some();
                let mut kinds: Vec<Type> = target.iter_mut().map(|target| self.expression(target)).collect();
                let outside = std::mem::replace(&mut self.mixed, member && function.as_ref() == "format");
                kinds.extend(arguments.iter_mut().map(|argument| self.expression(argument)));
                self.mixed = outside;
                *regex = self.pattern(function, target.is_some(), arguments);
                self.literals(function, arguments);
                if let ("format", Some(target)) = (function.as_ref(), target.as_deref()) {
                    self.clauses(at, target, arguments);
                }
                self.call(at, function, member, &kinds)
            }
            Kind::And(terms) => self.logical(at, "_&&_", terms),
            Kind::Or(terms) => self.logical(at, "_||_", terms),
            Kind::Conditional(parts) => {
                let [condition, then, otherwise] = parts.as_mut();
                let kinds = [self.expression(condition), self.expression(then), self.expression(otherwise)];
                let mut bound = BTreeMap::new();
                let a = Type::Parameter('A');
                if kinds[0].fits(&Type::Bool, &mut bound)
                    && kinds[1].fits(&a, &mut bound)
                    && kinds[2].fits(&a, &mut bound)
                {
                    return a.resolved(&bound);
                }
                self.no_overload(at, "_?_:_", false, &kinds)
            }
            Kind::List(items) => {
                let mut item: Option<Type> = None;
                for (optional, expression) in items {
                    let kind = self.expression(expression);
                    let kind = match (&kind, *optional) {
                        (Type::Optional(inner), true) => inner.as_ref().clone(),
                        _ => kind,
                    };
                    item = Some(self.same(expression.at, item, kind));
                }
                Type::list(item.unwrap_or(Type::Dyn))
            }
            Kind::Map(entries) => {
                let (mut keys, mut values): (Option<Type>, Option<Type>) = (None, None);
                for (optional, key, value) in entries {
                    let kind = self.expression(key);
                    keys = Some(self.same(key.at, keys, kind));
                    let kind = match (self.expression(value), *optional) {
                        (Type::Optional(inner), true) => inner.as_ref().clone(),
                        (kind, _) => kind,
                    };
                    values = Some(self.same(value.at, values, kind));
                }
                Type::map(keys.unwrap_or(Type::Dyn), values.unwrap_or(Type::Dyn))
            }
            Kind::Fold(fold) => self.fold(at, fold),
            Kind::Optional { operand, variable, body, flat } => {
                let inner = match self.expression(operand) {
                    Type::Optional(inner) => inner.as_ref().clone(),
                    Type::Dyn => Type::Dyn,
                    other => return self.no_overload(at, "optMap", true, &[other]),
                };
                self.variables.push((variable.to_string(), inner));
                let result = self.expression(body);
                self.variables.pop();
                if *flat { result } else { Type::optional(result) }
            }
        }
    }

    /// `optional.of(x)` is a function of that name and no call on a variable; `google.protobuf.Duration` is one name.
    fn qualified_names(&mut self, expression: &mut Expression) {
        let is_known = |name: &str, checker: &Self| checker.variables.iter().any(|(one, _)| one == name);
        match &mut expression.kind {
            Kind::Call { function, target, .. } => {
                let Some(Kind::Identifier(space)) = target.as_ref().map(|target| &target.kind) else {
                    return;
                };
                let name = format!("{space}.{function}");
                if !is_known(space, self) && SIGNATURES.contains_key(name.as_str()) {
                    *function = name.into();
                    *target = None;
                }
            }
            Kind::Select { .. } => {
                if let Some(name) = dotted(expression)
                    && TYPE_NAMES.contains(&name.as_str())
                    && !name.split('.').next().is_some_and(|space| is_known(space, self))
                {
                    expression.kind = Kind::Identifier(name.into());
                }
            }
            _ => {}
        }
    }

    fn field(&mut self, at: usize, of: &Type, field: &str) -> Type {
        match of {
            Type::Dyn => Type::Dyn,
            Type::Map(map) => map.1.clone(),
            Type::Object(object) => match object.fields.get(field) {
                Some(found) => found.kind.clone(),
                None => self.problem(at, format!("undefined field '{field}'")),
            },
            Type::Optional(inner) => match self.field(at, &inner.clone(), field) {
                already @ Type::Optional(_) => already,
                inner => Type::optional(inner),
            },
            other => {
                let message = format!("type '{other}' does not support field selection");
                self.problem(at, message)
            }
        }
    }

    fn item(&mut self, at: usize, of: &Type, by: &Type, optional: bool) -> Type {
        let name = if optional { "_[?_]" } else { "_[_]" };
        match of {
            Type::Dyn => Type::Dyn,
            Type::List(list) if matches!(by, Type::Int | Type::Dyn) => list.item.clone(),
            Type::Map(map) if by.fits(&map.0, &mut BTreeMap::new()) => map.1.clone(),
            Type::Optional(inner) => Type::optional(self.item(at, &inner.clone(), by, optional)),
            other => self.no_overload(at, name, false, &[other.clone(), by.clone()]),
        }
    }

    fn logical(&mut self, at: usize, name: &str, terms: &mut [Expression]) -> Type {
        let kinds: Vec<Type> = terms.iter_mut().map(|term| self.expression(term)).collect();
        for (place, kind) in kinds.iter().enumerate() {
            if !matches!(kind, Type::Bool | Type::Dyn) {
                let pair = match place {
                    0 => [kind.clone(), kinds[1].clone()],
                    _ => [Type::Bool, kind.clone()],
                };
                return self.no_overload(at, name, false, &pair);
            }
        }
        Type::Bool
    }

    /// The type of several values that have to be of one.
    fn same(&mut self, at: usize, known: Option<Type>, kind: Type) -> Type {
        let Some(known) = known else { return kind };
        if kind.fits(&known, &mut BTreeMap::new()) || known.fits(&kind, &mut BTreeMap::new()) {
            return if known == Type::Null || known.is_dyn() { kind } else { known };
        }
        if self.mixed {
            return Type::Dyn;
        }
        self.problem(at, format!("expected type '{known}' but found '{kind}'"))
    }

    fn call(&mut self, at: usize, function: &str, member: bool, kinds: &[Type]) -> Type {
        // One row stands for all four comparisons.
        let name = if matches!(function, "_<=_" | "_>_" | "_>=_") { "_<_" } else { function };
        let of_works = || OF_WORKS.get(name).filter(|_| self.works);
        let Some(signatures) = SIGNATURES.get(name).or_else(of_works) else {
            let message = format!("undeclared reference to '{function}' (in container '')");
            return self.problem(at, message);
        };
        let mut result: Option<Type> = None;
        for signature in signatures {
            if signature.member != member || signature.parameters.len() != kinds.len() {
                continue;
            }
            let mut bound = BTreeMap::new();
            if !kinds.iter().zip(&signature.parameters).all(|(kind, wanted)| kind.fits(wanted, &mut bound)) {
                continue;
            }
            let one = signature.result.resolved(&bound);
            // Where several ways remain, only a value can tell.
            result = Some(match result {
                Some(known) if known != one => Type::Dyn,
                _ => one,
            });
        }
        match result {
            Some(kind) => kind,
            None => self.no_overload(at, function, member, kinds),
        }
    }

    fn no_overload(&mut self, at: usize, function: &str, member: bool, kinds: &[Type]) -> Type {
        let shown: Vec<_> = kinds.iter().map(Type::to_string).collect();
        let applied = match (member, shown.split_first()) {
            (true, Some((target, rest))) => format!("{target}.({})", rest.join(", ")),
            _ => format!("({})", shown.join(", ")),
        };
        self.problem(at, format!("found no matching overload for '{function}' applied to '{applied}'"))
    }

    fn fold(&mut self, at: usize, fold: &mut Fold) -> Type {
        let range = self.expression(&mut fold.range);
        let (key, value) = match &range {
            Type::List(list) => (Type::Int, list.item.clone()),
            Type::Map(map) => map.as_ref().clone(),
            Type::Dyn => (Type::Dyn, Type::Dyn),
            other => {
                let message = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                self.problem(fold.range.at, message);
                (Type::Dyn, Type::Dyn)
            }
        };
        let depth = self.variables.len();
        match &fold.second {
            Some(second) => {
                self.variables.push((fold.variable.to_string(), key.clone()));
                self.variables.push((second.to_string(), value.clone()));
            }
            None => {
                let of = if matches!(range, Type::Map(_)) { key.clone() } else { value.clone() };
                self.variables.push((fold.variable.to_string(), of));
            }
        }
        if let Some(filter) = &mut fold.filter {
            let kind = self.expression(filter);
            if !matches!(kind, Type::Bool | Type::Dyn) {
                let (place, kinds) = match fold.kind {
                    FoldKind::All | FoldKind::Exists => {
                        let place = filter.at;
                        self.problem(place, format!("expected type 'bool' but found '{kind}'"));
                        (place, None)
                    }
                    FoldKind::ExistsOne => (at, Some([kind, Type::Int, Type::Int])),
                    _ => (at, Some([kind, range.clone(), range.clone()])),
                };
                if let Some(kinds) = kinds {
                    self.no_overload(place, "_?_:_", false, &kinds);
                }
            }
        }
        let made = fold.transform.as_mut().map(|transform| self.expression(transform));
        let element =
            if matches!(range, Type::Map(_)) && fold.second.is_none() { key.clone() } else { value };
        self.variables.truncate(depth);
        match fold.kind {
            FoldKind::All | FoldKind::Exists | FoldKind::ExistsOne => Type::Bool,
            FoldKind::List => Type::list(made.unwrap_or(element)),
            FoldKind::Map => Type::map(key, made.unwrap_or(element)),
            FoldKind::Entries => made.unwrap_or(Type::Dyn),
        }
    }

    /// A pattern that is written out is compiled here, and refused here.
    fn pattern(&mut self, function: &str, member: bool, arguments: &[Expression]) -> Option<Arc<Pattern>> {
        let place = match (function, member) {
            ("matches" | "find" | "findAll", true) => 0,
            ("matches", false) => 1,
            _ => return None,
        };
        let argument = arguments.get(place)?;
        let Kind::Literal(Literal::String(pattern)) = &argument.kind else { return None };
        match Pattern::new(pattern) {
            Ok(regex) => Some(Arc::new(regex)),
            Err(_) => {
                if function == "matches" {
                    self.problem(argument.at, "invalid matches argument".to_owned());
                }
                None
            }
        }
    }

    /// A format that is written out has to fit what is written out for it.
    fn clauses(&mut self, at: usize, target: &Expression, arguments: &[Expression]) {
        let Kind::Literal(Literal::String(pattern)) = &target.kind else { return };
        let clauses = match format_text::clauses(pattern) {
            Ok(clauses) => clauses,
            Err(why) => {
                self.problem(at, why);
                return;
            }
        };
        let [Expression { kind: Kind::List(items), .. }] = arguments else { return };
        for (place, clause) in clauses.iter().enumerate() {
            let Some((_, item)) = items.get(place) else {
                self.problem(at, format!("index {place} out of range"));
                return;
            };
            if let Some(why) = format_text::misuse(*clause, &item.result) {
                self.problem(item.at, why);
                return;
            }
        }
        if items.len() > clauses.len() {
            let why = format!(
                "too many arguments supplied to string.format (expected {}, got {})",
                clauses.len(),
                items.len()
            );
            self.problem(at, why);
        }
    }

    fn literals(&mut self, function: &str, arguments: &[Expression]) {
        if let ("duration", [Expression { at, kind: Kind::Literal(Literal::Int(_)), .. }]) =
            (function, arguments)
        {
            self.problem(*at, "invalid duration argument".to_owned());
        }
        let [Expression { at, kind: Kind::Literal(Literal::String(text)), .. }] = arguments else { return };
        let bad = match function {
            "duration" => crate::library::time::duration(text).is_none(),
            "timestamp" => crate::library::time::timestamp(text).is_none(),
            _ => false,
        };
        if bad {
            self.problem(*at, format!("invalid {function} argument"));
        }
    }
}

fn dotted(expression: &Expression) -> Option<String> {
    match &expression.kind {
        Kind::Identifier(name) => Some(name.to_string()),
        Kind::Select { operand, field, access: Access::Value } => {
            Some(format!("{}.{field}", dotted(operand)?))
        }
        _ => None,
    }
}
