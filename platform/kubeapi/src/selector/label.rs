//! Label selectors: `a=b`, `a!=b`, `a in (b,c)`, `a notin (b)`, `a`, `!a`, joined by commas; and the same as an object.

use serde_json::Value;

use crate::status::Failure;
use crate::strategy::names;

/// All requirements must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LabelSelector {
    requirements: Vec<Requirement>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Requirement {
    key: String,
    condition: Condition,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Condition {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    Absent,
    GreaterThan(i64),
    LessThan(i64),
}

// === impl LabelSelector ===

impl LabelSelector {
    /// The text of a `labelSelector` parameter.
    pub(crate) fn parse(text: &str) -> Result<Self, Failure> {
        let tokens = tokens(text);
        let mut parser = Parser { tokens: &tokens, at: 0, key: String::new(), complaint: None };
        parser.selector().ok_or_else(|| {
            let found = tokens.get(parser.at).map_or("", Token::text);
            Failure::bad_request(parser.complaint.unwrap_or_else(|| {
                format!(
                    "unable to parse requirement: found '{found}', expected: in, notin, =, ==, !=, gt, lt"
                )
            }))
        })
    }

    /// A `metav1.LabelSelector`. One that is empty selects everything; an absent one, nothing.
    pub(crate) fn from_object(selector: &Value) -> Option<Self> {
        let mut requirements = Vec::new();
        for (key, value) in selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten() {
            let values = vec![value.as_str()?.to_owned()];
            requirements.push(Requirement { key: key.clone(), condition: Condition::In(values) });
        }
        for expression in selector.get("matchExpressions").and_then(Value::as_array).into_iter().flatten() {
            let values = || -> Vec<String> {
                let values = expression["values"].as_array().map(Vec::as_slice).unwrap_or_default();
                values.iter().filter_map(Value::as_str).map(str::to_owned).collect()
            };
            let condition = match expression["operator"].as_str()? {
                "In" => Condition::In(values()),
                "NotIn" => Condition::NotIn(values()),
                "Exists" => Condition::Exists,
                "DoesNotExist" => Condition::Absent,
                _ => return None,
            };
            requirements.push(Requirement { key: expression["key"].as_str()?.to_owned(), condition });
        }
        Some(Self { requirements })
    }

    pub(crate) fn matches(&self, object: &Value) -> bool {
        self.matches_labels(&object["metadata"]["labels"])
    }

    pub(crate) fn matches_labels(&self, labels: &Value) -> bool {
        self.requirements.iter().all(|requirement| {
            let value = labels.get(&requirement.key).and_then(Value::as_str);
            requirement.condition.holds(value)
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }
}

impl std::fmt::Display for LabelSelector {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (place, Requirement { key, condition }) in self.requirements.iter().enumerate() {
            let comma = if place == 0 { "" } else { "," };
            match condition {
                Condition::In(values) if values.len() == 1 => {
                    write!(formatter, "{comma}{key}={}", values[0])?
                }
                Condition::In(values) => write!(formatter, "{comma}{key} in ({})", values.join(","))?,
                Condition::NotIn(values) if values.len() == 1 => {
                    write!(formatter, "{comma}{key}!={}", values[0])?
                }
                Condition::NotIn(values) => write!(formatter, "{comma}{key} notin ({})", values.join(","))?,
                Condition::Exists => write!(formatter, "{comma}{key}")?,
                Condition::Absent => write!(formatter, "{comma}!{key}")?,
                Condition::GreaterThan(bound) => write!(formatter, "{comma}{key}>{bound}")?,
                Condition::LessThan(bound) => write!(formatter, "{comma}{key}<{bound}")?,
            }
        }
        Ok(())
    }
}

// === impl Condition ===

impl Condition {
    fn holds(&self, value: Option<&str>) -> bool {
        let listed = |values: &[String]| value.is_some_and(|value| values.iter().any(|one| one == value));
        let number = || value.and_then(|value| value.parse::<i64>().ok());
        match self {
            Self::In(values) => listed(values),
            Self::NotIn(values) => !listed(values),
            Self::Exists => value.is_some(),
            Self::Absent => value.is_none(),
            Self::GreaterThan(bound) => number().is_some_and(|number| number > *bound),
            Self::LessThan(bound) => number().is_some_and(|number| number < *bound),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Word(String),
    Symbol(&'static str),
}

impl Token {
    fn text(&self) -> &str {
        match self {
            Self::Word(word) => word,
            Self::Symbol(symbol) => symbol,
        }
    }
}

fn tokens(text: &str) -> Vec<Token> {
    const SYMBOLS: &[&str] = &["==", "!=", "=", "!", "(", ")", ",", ">", "<"];
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        if let Some(symbol) = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
            tokens.push(Token::Symbol(symbol));
            rest = &rest[symbol.len()..];
        } else {
            let end = rest
                .find(|character: char| character.is_whitespace() || "=!(),<>".contains(character))
                .unwrap_or(rest.len());
            tokens.push(Token::Word(rest[..end].to_owned()));
            rest = &rest[end..];
        }
        rest = rest.trim_start();
    }
    tokens
}

struct Parser<'a> {
    tokens: &'a [Token],
    at: usize,
    /// The key of the requirement that is being read.
    key: String,
    /// What is wrong, where more can be said than what was found.
    complaint: Option<String>,
}

impl Parser<'_> {
    fn selector(&mut self) -> Option<LabelSelector> {
        let mut requirements = Vec::new();
        while self.at < self.tokens.len() {
            requirements.push(self.requirement()?);
            if self.at < self.tokens.len() {
                self.symbol(",")?;
                // A comma promises another requirement.
                self.tokens.get(self.at)?;
            }
        }
        Some(LabelSelector { requirements })
    }

    fn requirement(&mut self) -> Option<Requirement> {
        if self.symbol("!").is_some() {
            let key = self.key()?;
            return Some(Requirement { key, condition: Condition::Absent });
        }
        let key = self.key()?;
        let condition = match self.tokens.get(self.at) {
            None | Some(Token::Symbol(",")) => Condition::Exists,
            Some(Token::Symbol("=" | "==")) => {
                self.at += 1;
                Condition::In(vec![self.value()?])
            }
            Some(Token::Symbol("!=")) => {
                self.at += 1;
                Condition::NotIn(vec![self.value()?])
            }
            Some(Token::Symbol(">")) => {
                self.at += 1;
                Condition::GreaterThan(self.bound()?)
            }
            Some(Token::Symbol("<")) => {
                self.at += 1;
                Condition::LessThan(self.bound()?)
            }
            Some(Token::Word(word)) if word == "in" => {
                self.at += 1;
                Condition::In(self.values()?)
            }
            Some(Token::Word(word)) if word == "notin" => {
                self.at += 1;
                Condition::NotIn(self.values()?)
            }
            Some(_) => return None,
        };
        Some(Requirement { key, condition })
    }

    fn values(&mut self) -> Option<Vec<String>> {
        if self.symbol("(").is_none() {
            return self.complain(format!("found '{}' expected: '('", self.found()));
        }
        let mut values = Vec::new();
        loop {
            values.push(self.value()?);
            if self.symbol(")").is_some() {
                return Some(values);
            }
            if self.symbol(",").is_none() {
                return self.complain(format!("found '{}', expected: ',' or ')'", self.found()));
            }
        }
    }

    fn found(&self) -> &str {
        self.tokens.get(self.at).map_or("", Token::text)
    }

    fn complain<T>(&mut self, why: String) -> Option<T> {
        self.complaint = Some(format!("unable to parse requirement: {why}"));
        None
    }

    fn bound(&mut self) -> Option<i64> {
        let word = self.word()?;
        match word.parse() {
            Ok(bound) => Some(bound),
            Err(_) => {
                let why = "for 'Gt', 'Lt' operators, the value must be an integer";
                self.complain(format!("values[0]: Invalid value: {word:?}: {why}"))
            }
        }
    }

    /// May be empty: `a=` and `a in (,b)`.
    fn value(&mut self) -> Option<String> {
        let value = self.word().unwrap_or_default();
        match names::label_value_problem(&value) {
            None => Some(value),
            Some(why) => {
                let key = &self.key;
                self.complain(format!("values[0][{key}]: Invalid value: {value:?}: {why}"))
            }
        }
    }

    fn key(&mut self) -> Option<String> {
        if !matches!(self.tokens.get(self.at), Some(Token::Word(_))) {
            let found = self.found();
            self.complaint = Some(match self.at.checked_sub(1).map(|before| &self.tokens[before]) {
                Some(Token::Symbol("!")) => {
                    format!("unable to parse requirement: found '{found}', expected: identifier")
                }
                _ => format!("found '{found}', expected: !, identifier, or 'end of string'"),
            });
            return None;
        }
        let key = self.word()?;
        if let Some(why) = names::label_key_problem(&key) {
            return self.complain(format!("<nil>: Invalid value: {key:?}: {why}"));
        }
        self.key.clone_from(&key);
        Some(key)
    }

    fn word(&mut self) -> Option<String> {
        match self.tokens.get(self.at)? {
            Token::Word(word) => {
                self.at += 1;
                Some(word.clone())
            }
            Token::Symbol(_) => None,
        }
    }

    fn symbol(&mut self, expected: &str) -> Option<()> {
        match self.tokens.get(self.at)? {
            Token::Symbol(symbol) if *symbol == expected => {
                self.at += 1;
                Some(())
            }
            _ => None,
        }
    }
}
