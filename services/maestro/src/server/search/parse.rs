//! From text to tree.

use serde_json::Value;

use super::{Comparison, Expression, Field, Formula, InvalidSearch, Literal, Operator};

/// What can be compared.
const COLUMNS: [&str; 11] = [
    "id",
    "name",
    "source",
    "consumer_name",
    "version",
    "type",
    "payload",
    "status",
    "created_at",
    "updated_at",
    "deleted_at",
];
/// Columns that are JSON, into which arrows lead.
const DOCUMENTS: [&str; 3] = ["payload", "status", "labels"];
const PRODUCTS: [(&str, Operator); 3] =
    [("*", Operator::Times), ("/", Operator::Over), ("%", Operator::Modulo)];
const SUMS: [(&str, Operator); 2] = [("+", Operator::Plus), ("-", Operator::Minus)];
/// How deep parentheses and negations may nest.
const DEPTH: usize = 32;

/// Reads a search.
pub(in crate::server) fn parse(text: &str) -> Result<Expression, InvalidSearch> {
    let mut parser = Parser { text, position: 0, depth: 0 };
    let expression = parser.any()?;
    parser.spaces();
    if parser.rest().is_empty() { Ok(expression) } else { Err(parser.failed("something is left over")) }
}

struct Parser<'a> {
    text: &'a str,
    position: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn any(&mut self) -> Result<Expression, InvalidSearch> {
        let mut left = self.all()?;
        while self.word("or") {
            left = Expression::Or(Box::new(left), Box::new(self.all()?));
        }
        Ok(left)
    }

    fn all(&mut self) -> Result<Expression, InvalidSearch> {
        let mut left = self.one()?;
        while self.word("and") {
            left = Expression::And(Box::new(left), Box::new(self.one()?));
        }
        Ok(left)
    }

    fn one(&mut self) -> Result<Expression, InvalidSearch> {
        self.depth += 1;
        if self.depth > DEPTH {
            return Err(self.failed("it is nested too deeply"));
        }
        let expression = if self.word("not") {
            Expression::Not(Box::new(self.one()?))
        } else if self.symbol("(") {
            let inner = self.any()?;
            self.expect(")")?;
            inner
        } else {
            self.comparison()?
        };
        self.depth -= 1;
        Ok(expression)
    }

    fn comparison(&mut self) -> Result<Expression, InvalidSearch> {
        let field = self.field()?;
        if self.symbol("@>") {
            let start = self.position;
            let Literal::Text(text) = self.literal()? else {
                return Err(self.failed("a JSON text is expected"));
            };
            let value: Value = serde_json::from_str(&text).map_err(|_| {
                self.position = start;
                self.failed("this is no JSON")
            })?;
            return Ok(Expression::Contains { field, value });
        }
        if self.word("is") {
            let negated = self.word("not");
            let expression = if self.word("null") {
                Expression::IsNull(field)
            } else {
                Expression::Compare { field, comparison: Comparison::Equal, value: self.literal()? }
            };
            return Ok(negate(expression, negated));
        }
        if self.operator(&PRODUCTS).is_some() || self.operator(&SUMS).is_some() {
            return self.calculation(field);
        }
        let negated = self.word("not");
        if self.word("in") {
            self.expect("(")?;
            let mut values = vec![self.literal()?];
            while self.symbol(",") {
                values.push(self.literal()?);
            }
            self.expect(")")?;
            return Ok(negate(Expression::In { field, values }, negated));
        }
        if self.word("between") {
            let low = self.literal()?;
            if !self.word("and") {
                return Err(self.failed("`and` is expected"));
            }
            let high = self.literal()?;
            return Ok(negate(Expression::Between { field, low, high }, negated));
        }
        for (word, any_case) in [("like", false), ("ilike", true)] {
            if self.word(word) {
                let comparison = Comparison::Like { any_case };
                let value = self.literal()?;
                return Ok(negate(Expression::Compare { field, comparison, value }, negated));
            }
        }
        if negated {
            return Err(self.failed("`in`, `like`, `ilike` or `between` is expected"));
        }
        let comparison = self.sign()?;
        let value = self.literal()?;
        Ok(Expression::Compare { field, comparison, value })
    }

    fn sign(&mut self) -> Result<Comparison, InvalidSearch> {
        // The longer ones first.
        let symbols = [
            ("<=", Comparison::LessOrEqual),
            (">=", Comparison::GreaterOrEqual),
            ("<>", Comparison::NotEqual),
            ("!=", Comparison::NotEqual),
            ("=", Comparison::Equal),
            ("<", Comparison::Less),
            (">", Comparison::Greater),
        ];
        let found = symbols.into_iter().find(|(symbol, _)| self.symbol(symbol));
        found.map(|(_, comparison)| comparison).ok_or_else(|| self.failed("a comparison is expected"))
    }

    /// A formula that begins with a field, and what it is compared with.
    fn calculation(&mut self, field: Field) -> Result<Expression, InvalidSearch> {
        let mut formula = self.product(Formula::Field(field))?;
        while let Some((symbol, operator)) = self.operator(&SUMS) {
            self.symbol(symbol);
            let next = self.factor()?;
            let next = self.product(next)?;
            formula = Formula::Operation(Box::new(formula), operator, Box::new(next));
        }
        let comparison = self.sign()?;
        let value = self.literal()?;
        Ok(Expression::Calculated { formula, comparison, value })
    }

    fn product(&mut self, first: Formula) -> Result<Formula, InvalidSearch> {
        let mut formula = first;
        while let Some((symbol, operator)) = self.operator(&PRODUCTS) {
            self.symbol(symbol);
            formula = Formula::Operation(Box::new(formula), operator, Box::new(self.factor()?));
        }
        Ok(formula)
    }

    fn factor(&mut self) -> Result<Formula, InvalidSearch> {
        self.spaces();
        if !self.rest().starts_with(|c: char| c.is_ascii_digit()) {
            return self.field().map(Formula::Field);
        }
        let text = self.take(|c| !(c.is_ascii_digit() || c == '.'));
        text.parse().map(Formula::Number).map_err(|_| self.failed("a number is expected"))
    }

    /// The operator that comes next; it stays where it is.
    fn operator(&mut self, among: &[(&'static str, Operator)]) -> Option<(&'static str, Operator)> {
        self.spaces();
        among.iter().copied().find(|(symbol, _)| self.rest().starts_with(symbol))
    }

    fn field(&mut self) -> Result<Field, InvalidSearch> {
        self.spaces();
        let start = self.position;
        let name = match self.identifier()? {
            "resources" | "consumers" if self.skip(".") => self.identifier()?,
            name => name,
        };
        let column = name.to_lowercase();
        if column.is_empty() || !(COLUMNS.contains(&column.as_str()) || column == "labels") {
            self.position = start;
            return Err(self.failed(&format!("there is no column `{name}`")));
        }
        let mut path = Vec::new();
        loop {
            let last = if self.symbol("->>") {
                if path.is_empty() && column != "labels" {
                    return Err(self.failed("`->` has to come before `->>`"));
                }
                true
            } else if self.symbol("->") {
                false
            } else {
                break;
            };
            if !DOCUMENTS.contains(&column.as_str()) {
                return Err(self.failed(&format!("`{column}` is no document")));
            }
            self.spaces();
            path.push(self.quoted()?);
            if last {
                break;
            }
        }
        Ok(Field { column, path })
    }

    /// A name, which may be in one of three kinds of quotes.
    fn identifier(&mut self) -> Result<&'a str, InvalidSearch> {
        for (open, close) in [("\"", "\""), ("`", "`"), ("[", "]")] {
            if self.skip(open) {
                let name = self.take(|c| close.starts_with(c));
                return if self.skip(close) {
                    Ok(name)
                } else {
                    Err(self.failed("a quoted name does not end"))
                };
            }
        }
        Ok(self.take(|c| !(c.is_ascii_alphanumeric() || c == '_')))
    }

    fn literal(&mut self) -> Result<Literal, InvalidSearch> {
        self.spaces();
        if self.rest().starts_with('\'') {
            return self.quoted().map(Literal::Text);
        }
        let text = self.take(|c| c.is_whitespace() || "'(),".contains(c));
        if text.is_empty() {
            return Err(self.failed("a value is expected"));
        }
        Ok(text.parse().map_or_else(|_| Literal::Text(text.to_owned()), Literal::Number))
    }

    /// A text in quotes; a quote in it is doubled, or has a backslash before it.
    fn quoted(&mut self) -> Result<String, InvalidSearch> {
        if !self.skip("'") {
            return Err(self.failed("a quoted text is expected"));
        }
        let mut text = String::new();
        loop {
            text.push_str(self.take(|c| c == '\'' || c == '\\'));
            if self.skip("\\'") || self.skip("''") {
                text.push('\'');
            } else if self.skip("\\") {
                text.push('\\');
            } else if self.skip("'") {
                return Ok(text);
            } else {
                return Err(self.failed("a quoted text does not end"));
            }
        }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.position..]
    }

    fn spaces(&mut self) {
        self.take(|c| !c.is_whitespace());
    }

    fn take(&mut self, end: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let length = rest.find(end).unwrap_or(rest.len());
        self.position += length;
        &rest[..length]
    }

    fn skip(&mut self, token: &str) -> bool {
        let found = self.rest().starts_with(token);
        if found {
            self.position += token.len();
        }
        found
    }

    fn symbol(&mut self, symbol: &str) -> bool {
        self.spaces();
        self.skip(symbol)
    }

    /// A word, in any case, that does not go on.
    fn word(&mut self, word: &str) -> bool {
        self.spaces();
        let rest = self.rest();
        let found = rest.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word))
            && !rest[word.len()..].starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.');
        if found {
            self.position += word.len();
        }
        found
    }

    fn expect(&mut self, symbol: &str) -> Result<(), InvalidSearch> {
        if self.symbol(symbol) { Ok(()) } else { Err(self.failed(&format!("`{symbol}` is expected"))) }
    }

    fn failed(&self, problem: &str) -> InvalidSearch {
        InvalidSearch { problem: problem.to_owned(), position: self.position }
    }
}

fn negate(expression: Expression, negated: bool) -> Expression {
    if negated { Expression::Not(Box::new(expression)) } else { expression }
}
