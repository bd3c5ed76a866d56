//! From characters to words.

use super::SyntaxError;

/// A word of a search, and where it begins.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Token {
    pub(super) at: usize,
    pub(super) kind: Kind,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    /// A field or a keyword; dots belong to it.
    Word(String),
    Text(String),
    Number(f64),
    Operator(&'static str),
    Open,
    Close,
    Comma,
}

/// Longest first, so that `<=` is not read as `<`.
const OPERATORS: [&str; 8] = ["<=", ">=", "<>", "!=", "==", "=", "<", ">"];

pub(super) fn tokens(text: &str) -> Result<Vec<Token>, SyntaxError> {
    let mut tokens = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start();
        let at = text[..text.len() - rest.len()].chars().count() + 1;
        let Some(first) = rest.chars().next() else {
            return Ok(tokens);
        };
        let (kind, length) = match first {
            '(' => (Kind::Open, 1),
            ')' => (Kind::Close, 1),
            ',' => (Kind::Comma, 1),
            '\'' => quoted(rest, at)?,
            _ if first.is_ascii_digit() || first == '-' => number(rest, at)?,
            _ if first.is_ascii_alphabetic() || first == '_' => {
                let end = rest.find(|c: char| !is_word(c)).unwrap_or(rest.len());
                (Kind::Word(rest[..end].to_owned()), end)
            }
            _ => {
                let operator = OPERATORS
                    .into_iter()
                    .find(|operator| rest.starts_with(operator))
                    .ok_or_else(|| SyntaxError { at, problem: format!("`{first}` has no meaning here") })?;
                (Kind::Operator(operator), operator.len())
            }
        };
        tokens.push(Token { at, kind });
        rest = &rest[length..];
    }
}

fn is_word(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '_' | '.')
}

/// Text up to the next quote that is not doubled.
fn quoted(rest: &str, at: usize) -> Result<(Kind, usize), SyntaxError> {
    let mut text = String::new();
    let mut characters = rest.char_indices().skip(1).peekable();
    while let Some((index, character)) = characters.next() {
        match character {
            '\'' if characters.next_if(|(_, next)| *next == '\'').is_some() => text.push('\''),
            '\'' => return Ok((Kind::Text(text), index + 1)),
            other => text.push(other),
        }
    }
    Err(SyntaxError { at, problem: "the quote is never closed".to_owned() })
}

fn number(rest: &str, at: usize) -> Result<(Kind, usize), SyntaxError> {
    let end = rest
        .char_indices()
        .find(|(index, c)| *index > 0 && !c.is_ascii_digit() && *c != '.')
        .map_or(rest.len(), |(index, _)| index);
    match rest[..end].parse() {
        Ok(number) => Ok((Kind::Number(number), end)),
        Err(_) => Err(SyntaxError { at, problem: format!("`{}` is not a number", &rest[..end]) }),
    }
}
