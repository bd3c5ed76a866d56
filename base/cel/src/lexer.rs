//! From characters to tokens.

use crate::ast::Literal;
use crate::error::Problem;

#[derive(Debug, Clone)]
pub(crate) struct Token {
    pub(crate) at: usize,
    pub(crate) kind: TokenKind,
}

#[derive(Debug, Clone)]
pub(crate) enum TokenKind {
    Identifier(String),
    Literal(Literal),
    /// Operators, brackets and the word `in`.
    Symbol(&'static str),
    End,
}

/// The longest first.
const SYMBOLS: [&str; 27] = [
    "&&", "||", "==", "!=", "<=", ">=", "?.", "[?", "{?", "+", "-", "*", "/", "%", "!", "<", ">", "(", ")",
    "[", "]", "{", "}", ",", ".", "?", ":",
];

/// Words that may not name anything.
const RESERVED: [&str; 17] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

pub(crate) fn is_reserved(word: &str) -> bool {
    RESERVED.contains(&word)
}

pub(crate) fn tokens(text: &str) -> Result<Vec<Token>, Problem> {
    let characters: Vec<char> = text.chars().collect();
    let mut lexer = Lexer { characters: &characters, at: 0 };
    let mut tokens = Vec::new();
    loop {
        lexer.skip_blanks();
        let at = lexer.at;
        let kind = lexer.next()?;
        let last = matches!(kind, TokenKind::End);
        tokens.push(Token { at, kind });
        if last {
            return Ok(tokens);
        }
    }
}

struct Lexer<'a> {
    characters: &'a [char],
    at: usize,
}

impl Lexer<'_> {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.characters.get(self.at + ahead).copied()
    }

    fn starts_with(&self, text: &str) -> bool {
        text.chars().enumerate().all(|(place, character)| self.peek(place) == Some(character))
    }

    fn skip_blanks(&mut self) {
        loop {
            match self.peek(0) {
                Some(' ' | '\t' | '\n' | '\r' | '\u{c}') => self.at += 1,
                Some('/') if self.peek(1) == Some('/') => {
                    while self.peek(0).is_some_and(|character| character != '\n') {
                        self.at += 1;
                    }
                }
                _ => return,
            }
        }
    }

    fn next(&mut self) -> Result<TokenKind, Problem> {
        let Some(first) = self.peek(0) else { return Ok(TokenKind::End) };
        if let Some(text) = self.string()? {
            return Ok(TokenKind::Literal(text));
        }
        if first.is_ascii_digit() || (first == '.' && self.peek(1).is_some_and(|next| next.is_ascii_digit()))
        {
            return self.number();
        }
        if first.is_ascii_alphabetic() || first == '_' {
            let start = self.at;
            while self.peek(0).is_some_and(|character| character.is_ascii_alphanumeric() || character == '_')
            {
                self.at += 1;
            }
            let word: String = self.characters[start..self.at].iter().collect();
            return Ok(match word.as_str() {
                "true" => TokenKind::Literal(Literal::Bool(true)),
                "false" => TokenKind::Literal(Literal::Bool(false)),
                "null" => TokenKind::Literal(Literal::Null),
                "in" => TokenKind::Symbol("in"),
                _ => TokenKind::Identifier(word),
            });
        }
        if first == '`' {
            // Names in backticks are part of the language, and not of what rules may use.
            return Err(Problem::new(self.at, "unsupported syntax: '`'"));
        }
        let Some(symbol) = SYMBOLS.iter().find(|symbol| self.starts_with(symbol)) else {
            return Err(self.unknown(self.at));
        };
        self.at += symbol.len();
        Ok(TokenKind::Symbol(symbol))
    }

    fn unknown(&self, at: usize) -> Problem {
        let shown: String = self.characters[at..].iter().take(1).collect();
        Problem::new(at, format!("Syntax error: token recognition error at: '{shown}'"))
    }

    fn number(&mut self) -> Result<TokenKind, Problem> {
        let start = self.at;
        if self.starts_with("0x") || self.starts_with("0X") {
            self.at += 2;
            let digits = self.take(|character| character.is_ascii_hexdigit());
            return match self.peek(0) {
                Some('u' | 'U') => {
                    self.at += 1;
                    let value = u64::from_str_radix(&digits, 16);
                    value
                        .map(|value| TokenKind::Literal(Literal::Uint(value)))
                        .map_err(|_| invalid(start, "uint"))
                }
                _ => {
                    let value = i64::from_str_radix(&digits, 16);
                    value
                        .map(|value| TokenKind::Literal(Literal::Int(value)))
                        .map_err(|_| invalid(start, "int"))
                }
            };
        }
        let mut text = self.take(|character| character.is_ascii_digit());
        let mut fraction = false;
        if self.peek(0) == Some('.') && self.peek(1).is_some_and(|next| next.is_ascii_digit()) {
            fraction = true;
            text.push('.');
            self.at += 1;
            text.push_str(&self.take(|character| character.is_ascii_digit()));
        }
        let sign = usize::from(matches!(self.peek(1), Some('+' | '-')));
        if matches!(self.peek(0), Some('e' | 'E'))
            && self.peek(1 + sign).is_some_and(|next| next.is_ascii_digit())
        {
            fraction = true;
            text.extend(self.characters[self.at..=self.at + sign].iter());
            self.at += 1 + sign;
            text.push_str(&self.take(|character| character.is_ascii_digit()));
        }
        if fraction {
            let value = text.parse::<f64>();
            return value
                .map(|value| TokenKind::Literal(Literal::Double(value)))
                .map_err(|_| invalid(start, "double"));
        }
        if matches!(self.peek(0), Some('u' | 'U')) {
            self.at += 1;
            let value = text.parse::<u64>();
            return value
                .map(|value| TokenKind::Literal(Literal::Uint(value)))
                .map_err(|_| invalid(start, "uint"));
        }
        // The smallest integer is written with a sign in front of what would be too large by itself.
        match text.parse::<u64>() {
            Ok(value) if value == 1 << 63 => Ok(TokenKind::Literal(Literal::Int(i64::MIN))),
            Ok(value) => i64::try_from(value)
                .map(|value| TokenKind::Literal(Literal::Int(value)))
                .map_err(|_| invalid(start, "int")),
            Err(_) => Err(invalid(start, "int")),
        }
    }

    fn take(&mut self, belongs: impl Fn(char) -> bool) -> String {
        let start = self.at;
        while self.peek(0).is_some_and(&belongs) {
            self.at += 1;
        }
        self.characters[start..self.at].iter().collect()
    }

    /// A string or bytes, in any of their forms.
    fn string(&mut self) -> Result<Option<Literal>, Problem> {
        let start = self.at;
        let (mut raw, mut bytes, mut prefix) = (false, false, 0);
        while prefix < 2 {
            match self.peek(prefix) {
                Some('r' | 'R') if !raw => raw = true,
                Some('b' | 'B') if !bytes => bytes = true,
                _ => break,
            }
            prefix += 1;
        }
        let Some(quote @ ('"' | '\'')) = self.peek(prefix) else { return Ok(None) };
        self.at += prefix;
        let triple = self.peek(1) == Some(quote) && self.peek(2) == Some(quote);
        let length = if triple { 3 } else { 1 };
        self.at += length;
        let mut text = Vec::new();
        loop {
            let closed = (0..length).all(|place| self.peek(place) == Some(quote));
            if closed {
                self.at += length;
                break;
            }
            match self.peek(0) {
                None => return Err(self.unknown(start)),
                Some('\n' | '\r') if !triple => return Err(self.unknown(start)),
                Some('\\') if raw => {
                    // A raw backslash does not end the string either, whatever follows.
                    push(&mut text, '\\');
                    self.at += 1;
                    if let Some(next) = self.peek(0).filter(|_| !triple) {
                        push(&mut text, next);
                        self.at += 1;
                    }
                }
                Some('\\') => self.escape(&mut text, bytes)?,
                Some(character) => {
                    push(&mut text, character);
                    self.at += 1;
                }
            }
        }
        if bytes {
            return Ok(Some(Literal::Bytes(text.into())));
        }
        let text = String::from_utf8(text)
            .map_err(|_| Problem::new(start, "Syntax error: invalid string literal"))?;
        Ok(Some(Literal::String(text.into())))
    }

    fn escape(&mut self, text: &mut Vec<u8>, bytes: bool) -> Result<(), Problem> {
        let at = self.at;
        let refused = || Problem::new(at, "Syntax error: invalid escape sequence");
        let kind = self.peek(1).ok_or_else(refused)?;
        let simple = match kind {
            'a' => Some('\u{7}'),
            'b' => Some('\u{8}'),
            'f' => Some('\u{c}'),
            'n' => Some('\n'),
            'r' => Some('\r'),
            't' => Some('\t'),
            'v' => Some('\u{b}'),
            '\\' | '\'' | '"' | '`' | '?' => Some(kind),
            _ => None,
        };
        if let Some(character) = simple {
            push(text, character);
            self.at += 2;
            return Ok(());
        }
        let (skip, digits, radix) = match kind {
            'x' | 'X' => (2, 2, 16),
            'u' => (2, 4, 16),
            'U' => (2, 8, 16),
            '0'..='3' => (1, 3, 8),
            _ => return Err(refused()),
        };
        let mut code = 0;
        for place in 0..digits {
            let digit = self.peek(skip + place).and_then(|character| character.to_digit(radix));
            code = code * radix + digit.ok_or_else(refused)?;
        }
        self.at += skip + digits;
        match u8::try_from(code) {
            Ok(byte) if bytes && !matches!(kind, 'u' | 'U') => text.push(byte),
            _ => push(text, char::from_u32(code).ok_or_else(refused)?),
        }
        Ok(())
    }
}

fn push(text: &mut Vec<u8>, character: char) {
    text.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
}

fn invalid(at: usize, kind: &str) -> Problem {
    Problem::new(at, format!("invalid {kind} literal"))
}
