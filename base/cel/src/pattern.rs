//! Regular expressions as Go reads them: schemas and rules were written against its engine.
//!
//! Nearly all patterns are for the small engine, which knows nothing of Unicode: neither do Go's `\d`, `\w`, `\s` and `\b`. Only a
//! pattern with a class of Unicode (`\p{Greek}`) is for the large one, which then is told to keep those four as they are.

use std::fmt::Write as _;

/// Go repeats nothing more often than this.
const MOST_REPEATED: u32 = 1000;

/// A compiled pattern.
#[derive(Debug, Clone)]
pub struct Pattern(Engine);

#[derive(Debug, Clone)]
enum Engine {
    Small(regex_lite::Regex),
    Unicode(regex::Regex),
}

/// A text that is no pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PatternError(String);

impl Pattern {
    /// Reads a pattern.
    pub fn new(text: &str) -> Result<Self, PatternError> {
        let reading = Reading::of(text)?;
        let engine = match reading.unicode {
            false => {
                regex_lite::Regex::new(&reading.text).map(Engine::Small).map_err(|error| error.to_string())
            }
            true => regex::Regex::new(&reading.text).map(Engine::Unicode).map_err(|error| error.to_string()),
        };
        engine.map(Self).map_err(|error| PatternError(words(text, &error)))
    }

    /// Whether some part of the text matches.
    pub fn is_match(&self, text: &str) -> bool {
        match &self.0 {
            Engine::Small(regex) => regex.is_match(text),
            Engine::Unicode(regex) => regex.is_match(text),
        }
    }

    /// The parts of the text that match, from left to right.
    pub(crate) fn all<'t>(&self, text: &'t str, limit: usize) -> Vec<&'t str> {
        match &self.0 {
            Engine::Small(regex) => regex.find_iter(text).take(limit).map(|found| found.as_str()).collect(),
            Engine::Unicode(regex) => regex.find_iter(text).take(limit).map(|found| found.as_str()).collect(),
        }
    }
}

/// What is wrong with a pattern, in the words of Go where that is easy.
fn words(pattern: &str, error: &str) -> String {
    let why = match error {
        error if error.contains("')'") => format!("missing closing ): `{pattern}`"),
        error if error.contains("unclosed character class") => {
            format!("missing closing ]: `{}`", &pattern[pattern.rfind('[').unwrap_or_default()..])
        }
        error => error.to_owned(),
    };
    format!("error parsing regexp: {why}")
}

/// A pattern in the words of our engines.
struct Reading {
    text: String,
    unicode: bool,
}

impl Reading {
    fn of(pattern: &str) -> Result<Self, PatternError> {
        let unicode = has_class(pattern);
        let mut made = String::with_capacity(pattern.len());
        let mut rest = pattern.chars().peekable();
        let mut in_class = false;
        while let Some(character) = rest.next() {
            match character {
                '\\' => match rest.next() {
                    // Quoted text, up to the end or to where the quotation ends.
                    Some('Q') => {
                        let rest_of_it: String = rest.clone().collect();
                        let (quoted, _) = rest_of_it.split_once("\\E").unwrap_or((&rest_of_it, ""));
                        made.push_str(&regex_lite::escape(quoted));
                        let taken = quoted.chars().count() + 2;
                        for _ in 0..taken {
                            rest.next();
                        }
                    }
                    Some(escaped) if unicode => plain_class(&mut made, escaped, in_class),
                    Some(escaped) => made.extend(['\\', escaped]),
                    None => made.push('\\'),
                },
                '[' if !in_class => {
                    in_class = true;
                    made.push('[');
                    // A bracket that comes first stands for itself.
                    if rest.next_if_eq(&'^').is_some() {
                        made.push('^');
                    }
                    if rest.next_if_eq(&']').is_some() {
                        made.push_str("\\]");
                    }
                }
                '[' if rest.peek() != Some(&':') => made.push_str("\\["),
                '[' => {
                    // `[:alpha:]`, to its own end.
                    made.push('[');
                    for inner in rest.by_ref() {
                        made.push(inner);
                        if inner == ']' {
                            break;
                        }
                    }
                }
                ']' if in_class => {
                    in_class = false;
                    made.push(']');
                }
                '&' | '~' if in_class && unicode => made.extend(['\\', character]),
                '{' if !in_class => {
                    made.push('{');
                    let digits: String = rest.clone().take_while(|next| *next != '}').collect();
                    let too_often =
                        |count: &str| count.parse::<u32>().is_ok_and(|count| count > MOST_REPEATED);
                    if digits.split(',').any(too_often) {
                        return Err(PatternError(format!(
                            "error parsing regexp: invalid repeat count: `{{{digits}}}`"
                        )));
                    }
                }
                character => made.push(character),
            }
        }
        Ok(Self { text: made, unicode })
    }
}

/// Whether the pattern has a class of Unicode, which starts with a backslash that is not escaped itself.
fn has_class(pattern: &str) -> bool {
    let mut characters = pattern.chars();
    while let Some(character) = characters.next() {
        if character == '\\' && matches!(characters.next(), Some('p' | 'P')) {
            return true;
        }
    }
    false
}

/// What is ASCII to Go is ASCII here.
fn plain_class(made: &mut String, escaped: char, in_class: bool) {
    const DIGIT: &str = "0-9";
    const WORD: &str = "0-9A-Za-z_";
    const BLANK: &str = r"\t\n\x0C\r ";
    let (members, negated) = match escaped {
        'd' => (DIGIT, false),
        'D' => (DIGIT, true),
        'w' => (WORD, false),
        'W' => (WORD, true),
        's' => (BLANK, false),
        'S' => (BLANK, true),
        'b' | 'B' if !in_class => {
            let _ = write!(made, "(?-u:\\{escaped})");
            return;
        }
        other => {
            made.extend(['\\', other]);
            return;
        }
    };
    let _ = match (negated, in_class) {
        (true, _) => write!(made, "[^{members}]"),
        (false, true) => write!(made, "{members}"),
        (false, false) => write!(made, "[{members}]"),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_of_unicode_are_known_and_the_others_stay_plain() {
        for (pattern, text, expected) in [
            (r"^\p{L}+$", "añö", true),
            (r"^\p{Lu}\p{Ll}+$", "Ωmega", true),
            (r"^[\p{Greek}\d]+$", "αβ12", true),
            (r"^[\p{Greek}\d]+$", "αβ१", false),
            (r"^\P{L}$", "1", true),
            (r"^\pN$", "7", true),
            (r"^\w\p{L}$", "éé", false),
            (r"^[^\p{L}\S]$", " ", true),
            (r"^\\p$", r"\p", true),
            (r"^[[:alpha:]]+$", "abc", true),
            (r"^\Qa.b\E+$", "a.bb", true),
            (r"^[]a]+$", "]a", true),
            (r"^\d+$", "१", false),
        ] {
            assert_eq!(Pattern::new(pattern).unwrap().is_match(text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn what_go_does_not_read_is_refused() {
        for pattern in ["(", "a{1001}", "a{1,1001}", "(?=a)", r"\p{Nothing}", r"a\Z", "[a"] {
            assert!(Pattern::new(pattern).is_err(), "{pattern}");
        }
        assert!(Pattern::new("a{1000}").is_ok());
    }
}
