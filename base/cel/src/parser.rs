//! From tokens to the tree, by precedence climbing.

use crate::ast::{Access, Expression, Fold, FoldKind, Kind, Literal};
use crate::error::Problem;
use crate::lexer::{self, Token, TokenKind};

/// How deep an expression may be. Everything that walks the tree recurses, so this bounds the stack.
const DEEPEST: usize = 100;
/// How long it may be, in characters.
const LONGEST: usize = 100_000;

pub(crate) fn parse(text: &str) -> Result<Expression, Problem> {
    if text.len() > LONGEST && text.chars().count() > LONGEST {
        let message = format!(
            "expression code point size exceeds limit: size: {}, limit {LONGEST}",
            text.chars().count()
        );
        return Err(Problem::new(0, message));
    }
    let tokens = lexer::tokens(text)?;
    let mut parser = Parser { tokens, next: 0, depth: 0 };
    let expression = parser.expression()?;
    match parser.peek() {
        TokenKind::End => Ok(expression),
        _ => Err(parser.unexpected()),
    }
}

struct Parser {
    tokens: Vec<Token>,
    next: usize,
    depth: usize,
}

/// Binary operators with the functions they stand for, and how tightly they bind.
const OPERATORS: [(&str, &str, usize); 14] = [
    ("||", "_||_", 0),
    ("&&", "_&&_", 1),
    ("==", "_==_", 2),
    ("!=", "_!=_", 2),
    ("<", "_<_", 2),
    ("<=", "_<=_", 2),
    (">", "_>_", 2),
    (">=", "_>=_", 2),
    ("in", "@in", 2),
    ("+", "_+_", 3),
    ("-", "_-_", 3),
    ("*", "_*_", 4),
    ("/", "_/_", 4),
    ("%", "_%_", 4),
];

impl Parser {
    fn peek(&self) -> &TokenKind {
        self.tokens.get(self.next).map_or(&TokenKind::End, |token| &token.kind)
    }

    fn at(&self) -> usize {
        let last = self.tokens.last().map_or(0, |token| token.at);
        self.tokens.get(self.next).map_or(last, |token| token.at)
    }

    fn takes(&mut self, symbol: &str) -> bool {
        let found = matches!(self.peek(), TokenKind::Symbol(one) if *one == symbol);
        self.next += usize::from(found);
        found
    }

    fn expect(&mut self, symbol: &str) -> Result<(), Problem> {
        match self.takes(symbol) {
            true => Ok(()),
            false => {
                let message =
                    format!("Syntax error: mismatched input '{}' expecting '{symbol}'", self.shown());
                Err(Problem::new(self.at(), message))
            }
        }
    }

    fn shown(&self) -> String {
        match self.peek() {
            TokenKind::Identifier(word) => word.clone(),
            TokenKind::Literal(Literal::Null) => "null".to_owned(),
            TokenKind::Literal(Literal::Bool(value)) => value.to_string(),
            TokenKind::Literal(Literal::Int(value)) => value.to_string(),
            TokenKind::Literal(Literal::Uint(value)) => format!("{value}u"),
            TokenKind::Literal(Literal::Double(value)) => value.to_string(),
            TokenKind::Literal(Literal::String(text)) => format!("'{text}'"),
            TokenKind::Literal(Literal::Bytes(_)) => "b''".to_owned(),
            TokenKind::Symbol(symbol) => (*symbol).to_owned(),
            TokenKind::End => "<EOF>".to_owned(),
        }
    }

    fn unexpected(&self) -> Problem {
        const EXPECTED: &str = "'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER";
        let message = match self.peek() {
            TokenKind::End => format!("Syntax error: mismatched input '<EOF>' expecting {{{EXPECTED}}}"),
            _ => format!("Syntax error: extraneous input '{}' expecting <EOF>", self.shown()),
        };
        Problem::new(self.at(), message)
    }

    /// Counts the levels of the tree on the way down.
    fn deeper<T>(
        &mut self,
        by: usize,
        inner: impl FnOnce(&mut Self) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        self.depth += by;
        if self.depth > DEEPEST {
            return Err(Problem::new(self.at(), format!("expression recursion limit exceeded: {DEEPEST}")));
        }
        let value = inner(self);
        self.depth -= by;
        value
    }

    fn expression(&mut self) -> Result<Expression, Problem> {
        self.deeper(1, |parser| {
            let condition = parser.binary(0)?;
            let at = parser.at();
            if !parser.takes("?") {
                return Ok(condition);
            }
            let then = parser.binary(0)?;
            parser.expect(":")?;
            let otherwise = parser.expression()?;
            Ok(Expression::new(at, Kind::Conditional(Box::new([condition, then, otherwise]))))
        })
    }

    /// Everything that binds at least this tightly.
    fn binary(&mut self, least: usize) -> Result<Expression, Problem> {
        let mut left = self.unary()?;
        let mut length = 0;
        loop {
            let at = self.at();
            let found = match self.peek() {
                TokenKind::Symbol(symbol) => OPERATORS.iter().find(|(one, _, _)| one == symbol),
                _ => None,
            };
            let Some((_, function, level)) = found.filter(|(_, _, level)| *level >= least) else {
                return Ok(left);
            };
            self.next += 1;
            // Each leans on the one before, so a chain is as deep as it is long. Terms of `&&` and `||` stand side by side.
            length += usize::from(*level > 1);
            let right = self.deeper(length, |parser| parser.binary(level + 1))?;
            left = match (*function, left) {
                ("_||_", Expression { at, kind: Kind::Or(mut terms), .. })
                | ("_&&_", Expression { at, kind: Kind::And(mut terms), .. }) => {
                    terms.push(right);
                    let kind = if *level == 0 { Kind::Or(terms) } else { Kind::And(terms) };
                    Expression::new(at, kind)
                }
                ("_||_", left) => Expression::new(at, Kind::Or(vec![left, right])),
                ("_&&_", left) => Expression::new(at, Kind::And(vec![left, right])),
                (function, left) => call(at, function, None, vec![left, right]),
            };
        }
    }

    fn unary(&mut self) -> Result<Expression, Problem> {
        let at = self.at();
        if self.takes("!") {
            let operand = self.deeper(1, Self::unary)?;
            return Ok(call(at, "!_", None, vec![operand]));
        }
        if self.takes("-") {
            let mut operand = self.deeper(1, Self::unary)?;
            match &mut operand.kind {
                Kind::Literal(Literal::Int(value)) => *value = value.wrapping_neg(),
                Kind::Literal(Literal::Double(value)) => *value = -*value,
                _ => return Ok(call(at, "-_", None, vec![operand])),
            }
            operand.at = at;
            return Ok(operand);
        }
        self.member()
    }

    fn member(&mut self) -> Result<Expression, Problem> {
        let mut operand = self.primary()?;
        let mut length = 0;
        loop {
            length += 1;
            let at = self.at();
            if self.takes(".") {
                let optional = self.takes("?");
                operand = self.deeper(length, |parser| parser.selected(operand, at, optional))?;
            } else if self.takes("[") {
                let optional = self.takes("?");
                operand = self.deeper(length, |parser| parser.indexed(operand, at, optional))?;
            } else if self.takes("[?") {
                operand = self.deeper(length, |parser| parser.indexed(operand, at, true))?;
            } else {
                return Ok(operand);
            }
        }
    }

    fn selected(&mut self, operand: Expression, at: usize, optional: bool) -> Result<Expression, Problem> {
        let field = match self.peek() {
            TokenKind::Identifier(word) => word.clone(),
            TokenKind::Symbol("in") => "in".to_owned(),
            _ => {
                let message = format!("Syntax error: no viable alternative at input '.{}'", self.shown());
                return Err(Problem::new(self.at(), message));
            }
        };
        self.next += 1;
        let open = self.at();
        if !optional && self.takes("(") {
            let arguments = self.arguments(")")?;
            return member_call(open, operand, &field, arguments);
        }
        let access = if optional { Access::Optional } else { Access::Value };
        Ok(Expression::new(at, Kind::Select { operand: Box::new(operand), field: field.into(), access }))
    }

    fn indexed(&mut self, operand: Expression, at: usize, optional: bool) -> Result<Expression, Problem> {
        let index = self.expression()?;
        self.expect("]")?;
        Ok(Expression::new(at, Kind::Index { operand: Box::new(operand), index: Box::new(index), optional }))
    }

    fn arguments(&mut self, end: &str) -> Result<Vec<Expression>, Problem> {
        let mut arguments = Vec::new();
        if self.takes(end) {
            return Ok(arguments);
        }
        loop {
            arguments.push(self.expression()?);
            if !self.takes(",") {
                self.expect(end)?;
                return Ok(arguments);
            }
        }
    }

    fn primary(&mut self) -> Result<Expression, Problem> {
        let at = self.at();
        let token = self.peek().clone();
        match token {
            TokenKind::Literal(literal) => {
                self.next += 1;
                if matches!(literal, Literal::Int(i64::MIN)) && !self.negated() {
                    return Err(Problem::new(at, "invalid int literal"));
                }
                Ok(Expression::new(at, Kind::Literal(literal)))
            }
            TokenKind::Identifier(word) => {
                self.next += 1;
                self.named(at, word)
            }
            TokenKind::Symbol("(") => {
                self.next += 1;
                let inner = self.expression()?;
                self.expect(")")?;
                Ok(inner)
            }
            TokenKind::Symbol("[" | "[?") => self.list(at),
            TokenKind::Symbol("{" | "{?") => self.map(at),
            // A name from the root.
            TokenKind::Symbol(".") => {
                self.next += 1;
                self.primary()
            }
            _ => Err(self.unexpected()),
        }
    }

    /// Whether the literal just taken has a sign in front of it.
    fn negated(&self) -> bool {
        let before = self.next.checked_sub(2).and_then(|place| self.tokens.get(place));
        before.is_some_and(|token| matches!(token.kind, TokenKind::Symbol("-")))
    }

    fn named(&mut self, at: usize, word: String) -> Result<Expression, Problem> {
        if lexer::is_reserved(&word) {
            return Err(Problem::new(at, format!("reserved identifier: {word}")));
        }
        let open = self.at();
        if !self.takes("(") {
            return Ok(Expression::new(at, Kind::Identifier(word.into())));
        }
        let mut arguments = self.arguments(")")?;
        if word == "has" && arguments.len() == 1 {
            let mut argument = arguments.remove(0);
            let Kind::Select { access, .. } = &mut argument.kind else {
                return Err(Problem::new(argument.at, "invalid argument to has() macro"));
            };
            *access = Access::Presence;
            argument.at = open;
            return Ok(argument);
        }
        Ok(call(open, &word, None, arguments))
    }

    fn list(&mut self, at: usize) -> Result<Expression, Problem> {
        let mut optional = self.takes("[?");
        if !optional {
            self.expect("[")?;
        }
        let mut items = Vec::new();
        loop {
            if !optional && self.takes("]") {
                break;
            }
            optional |= self.takes("?");
            items.push((std::mem::take(&mut optional), self.expression()?));
            if !self.takes(",") {
                self.expect("]")?;
                break;
            }
        }
        Ok(Expression::new(at, Kind::List(items)))
    }

    fn map(&mut self, at: usize) -> Result<Expression, Problem> {
        let mut optional = self.takes("{?");
        if !optional {
            self.expect("{")?;
        }
        let mut entries = Vec::new();
        loop {
            if !optional && self.takes("}") {
                break;
            }
            optional |= self.takes("?");
            let key = self.expression()?;
            self.expect(":")?;
            entries.push((std::mem::take(&mut optional), key, self.expression()?));
            if !self.takes(",") {
                self.expect("}")?;
                break;
            }
        }
        Ok(Expression::new(at, Kind::Map(entries)))
    }
}

fn call(at: usize, function: &str, target: Option<Expression>, arguments: Vec<Expression>) -> Expression {
    let target = target.map(Box::new);
    Expression::new(at, Kind::Call { function: function.into(), target, arguments, regex: None })
}

/// A call on something, which may be one of the macros.
fn member_call(
    at: usize,
    operand: Expression,
    name: &str,
    mut arguments: Vec<Expression>,
) -> Result<Expression, Problem> {
    let shape = match (name, arguments.len()) {
        ("all", 2) => Some((FoldKind::All, false)),
        ("exists", 2) => Some((FoldKind::Exists, false)),
        ("exists_one", 2) => Some((FoldKind::ExistsOne, false)),
        ("map", 2 | 3) | ("filter", 2) => Some((FoldKind::List, false)),
        ("all", 3) => Some((FoldKind::All, true)),
        ("exists", 3) => Some((FoldKind::Exists, true)),
        ("existsOne" | "exists_one", 3) => Some((FoldKind::ExistsOne, true)),
        ("transformList", 3 | 4) => Some((FoldKind::List, true)),
        ("transformMap", 3 | 4) => Some((FoldKind::Map, true)),
        ("transformMapEntry", 3 | 4) => Some((FoldKind::Entries, true)),
        ("optMap" | "optFlatMap", 2) => {
            let body = arguments.remove(1);
            let variable = variable(&arguments[0])?;
            let kind = Kind::Optional {
                operand: Box::new(operand),
                variable,
                body: Box::new(body),
                flat: name == "optFlatMap",
            };
            return Ok(Expression::new(at, kind));
        }
        _ => None,
    };
    let Some((kind, two)) = shape else { return Ok(call(at, name, Some(operand), arguments)) };
    let first = variable(&arguments[0])?;
    let second = if two { Some(variable(&arguments[1])?) } else { None };
    let mut rest = arguments.drain(if two { 2 } else { 1 }..);
    let (one, other) = (rest.next(), rest.next());
    let (filter, transform) = match (kind, other) {
        (FoldKind::All | FoldKind::Exists | FoldKind::ExistsOne, _) => (one, None),
        (FoldKind::List, None) if name == "filter" => (one, None),
        (_, None) => (None, one),
        (_, some) => (one, some),
    };
    let fold = Fold { kind, range: operand, variable: first, second, filter, transform };
    Ok(Expression::new(at, Kind::Fold(Box::new(fold))))
}

fn variable(argument: &Expression) -> Result<Box<str>, Problem> {
    match &argument.kind {
        Kind::Identifier(name) => Ok(name.clone()),
        _ => Err(Problem::new(argument.at, "argument must be a simple name")),
    }
}
