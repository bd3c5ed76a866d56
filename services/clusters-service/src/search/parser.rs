//! From words to an expression. `not` binds tighter than `and`, `and` tighter than `or`.

use super::lexer::{Kind, Token, tokens};
use super::{Comparison, Expression, Field, Literal, Subject, SyntaxError};

/// Deeper nesting than any person writes; it bounds the recursion.
const DEEPEST: usize = 50;
/// Longer than any search we have seen; it bounds the work.
const LONGEST: usize = 8 << 10;

struct Parser {
    subject: Subject,
    tokens: Vec<Token>,
    next: usize,
    depth: usize,
    end: usize,
}

pub(super) fn parse(text: &str, subject: Subject) -> Result<Expression, SyntaxError> {
    let end = text.chars().count() + 1;
    if text.len() > LONGEST {
        return Err(SyntaxError { at: end, problem: format!("the search is longer than {LONGEST} bytes") });
    }
    let mut parser = Parser { subject, tokens: tokens(text)?, next: 0, depth: 0, end };
    let expression = parser.alternatives()?;
    match parser.tokens.get(parser.next) {
        None => Ok(expression),
        Some(token) => {
            Err(SyntaxError { at: token.at, problem: "expected `and`, `or` or the end".to_owned() })
        }
    }
}

impl Parser {
    fn alternatives(&mut self) -> Result<Expression, SyntaxError> {
        let mut expression = self.conjunction()?;
        while self.takes_keyword("or") {
            expression = Expression::Or(Box::new(expression), Box::new(self.conjunction()?));
        }
        Ok(expression)
    }

    fn conjunction(&mut self) -> Result<Expression, SyntaxError> {
        let mut expression = self.negation()?;
        while self.takes_keyword("and") {
            expression = Expression::And(Box::new(expression), Box::new(self.negation()?));
        }
        Ok(expression)
    }

    fn negation(&mut self) -> Result<Expression, SyntaxError> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(self.expected("less nesting"));
        }
        let expression = if self.takes_keyword("not") {
            Expression::Not(Box::new(self.negation()?))
        } else if self.takes(&Kind::Open) {
            let inner = self.alternatives()?;
            self.expect(&Kind::Close, "`)`")?;
            inner
        } else {
            self.condition()?
        };
        self.depth -= 1;
        Ok(expression)
    }

    fn condition(&mut self) -> Result<Expression, SyntaxError> {
        let field = self.field()?;
        if let Some(Token { kind: Kind::Operator(operator), .. }) = self.tokens.get(self.next) {
            let comparison = comparison(operator);
            self.next += 1;
            return Ok(Expression::Compare(field, comparison, self.literal()?));
        }
        if self.takes_keyword("is") {
            let negated = self.takes_keyword("not");
            if !self.takes_keyword("null") {
                return Err(self.expected("`null`"));
            }
            return Ok(negated_if(negated, Expression::IsNull(field)));
        }
        let negated = self.takes_keyword("not");
        let expression = if self.takes_keyword("like") {
            Expression::Like { field, pattern: self.text()?, any_case: false }
        } else if self.takes_keyword("ilike") {
            Expression::Like { field, pattern: self.text()?, any_case: true }
        } else if self.takes_keyword("in") {
            Expression::In(field, self.literals()?)
        } else if self.takes_keyword("between") {
            let low = self.literal()?;
            if !self.takes_keyword("and") {
                return Err(self.expected("`and`"));
            }
            Expression::Between(field, low, self.literal()?)
        } else {
            return Err(self.expected("an operator such as `=`, `like` or `in`"));
        };
        Ok(negated_if(negated, expression))
    }

    fn field(&mut self) -> Result<Field, SyntaxError> {
        let Some(Token { at, kind: Kind::Word(name) }) = self.tokens.get(self.next) else {
            return Err(self.expected("a field"));
        };
        let field = Field::known(name, self.subject).ok_or_else(|| SyntaxError {
            at: *at,
            problem: format!("there is no field `{name}`; the fields are {}", self.subject.known_fields()),
        })?;
        self.next += 1;
        Ok(field)
    }

    fn literals(&mut self) -> Result<Vec<Literal>, SyntaxError> {
        self.expect(&Kind::Open, "`(`")?;
        let mut literals = vec![self.literal()?];
        while self.takes(&Kind::Comma) {
            literals.push(self.literal()?);
        }
        self.expect(&Kind::Close, "`)`")?;
        Ok(literals)
    }

    fn literal(&mut self) -> Result<Literal, SyntaxError> {
        let literal = match self.tokens.get(self.next).map(|token| &token.kind) {
            Some(Kind::Text(text)) => Literal::Text(text.clone()),
            Some(Kind::Number(number)) => Literal::Number(*number),
            Some(Kind::Word(word)) if word.eq_ignore_ascii_case("true") => Literal::Boolean(true),
            Some(Kind::Word(word)) if word.eq_ignore_ascii_case("false") => Literal::Boolean(false),
            _ => return Err(self.expected("a value; text stands in single quotes")),
        };
        self.next += 1;
        Ok(literal)
    }

    fn text(&mut self) -> Result<String, SyntaxError> {
        match self.literal()? {
            Literal::Text(text) => Ok(text),
            Literal::Number(_) | Literal::Boolean(_) => {
                self.next -= 1;
                Err(self.expected("a pattern in single quotes"))
            }
        }
    }

    fn takes(&mut self, kind: &Kind) -> bool {
        let found = self.tokens.get(self.next).is_some_and(|token| token.kind == *kind);
        self.next += usize::from(found);
        found
    }

    fn takes_keyword(&mut self, keyword: &str) -> bool {
        let found = matches!(self.tokens.get(self.next),
            Some(Token { kind: Kind::Word(word), .. }) if word.eq_ignore_ascii_case(keyword));
        self.next += usize::from(found);
        found
    }

    fn expect(&mut self, kind: &Kind, what: &str) -> Result<(), SyntaxError> {
        if self.takes(kind) { Ok(()) } else { Err(self.expected(what)) }
    }

    fn expected(&self, what: &str) -> SyntaxError {
        let at = self.tokens.get(self.next).map_or(self.end, |token| token.at);
        SyntaxError { at, problem: format!("expected {what}") }
    }
}

fn comparison(operator: &str) -> Comparison {
    match operator {
        "!=" | "<>" => Comparison::NotEqual,
        "<" => Comparison::Less,
        "<=" => Comparison::LessOrEqual,
        ">" => Comparison::Greater,
        ">=" => Comparison::GreaterOrEqual,
        _ => Comparison::Equal,
    }
}

fn negated_if(negated: bool, expression: Expression) -> Expression {
    if negated { Expression::Not(Box::new(expression)) } else { expression }
}
