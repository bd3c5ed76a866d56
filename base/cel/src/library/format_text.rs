//! `format`: `%s`, `%d`, `%f` and their like.

use super::conversions::shortest;
use super::{Outcome, strings, time};
use crate::error::EvaluationError;
use crate::types::Type;
use crate::value::{List, Value};

pub(super) fn format<'a>(pattern: &str, values: &List<'a>) -> Outcome<'a> {
    let mut made = String::with_capacity(pattern.len());
    let mut characters = pattern.chars().peekable();
    let mut next = 0;
    while let Some(character) = characters.next() {
        if character != '%' {
            made.push(character);
            continue;
        }
        let mut precision = None;
        if characters.next_if_eq(&'.').is_some() {
            let mut digits = String::new();
            while let Some(digit) = characters.next_if(char::is_ascii_digit) {
                digits.push(digit);
            }
            precision = digits.parse::<usize>().ok().map(|digits| digits.min(100));
        }
        let Some(clause) = characters.next() else {
            return Err(EvaluationError::failed("unexpected end of string"));
        };
        if clause == '%' {
            made.push('%');
            continue;
        }
        let Some(value) = values.get(next)? else {
            return Err(EvaluationError::failed(format!("index {next} out of range")));
        };
        next += 1;
        clause_of(&mut made, clause, precision, &value)?;
        if made.len() > strings::LONGEST {
            return Err(EvaluationError::CostLimit);
        }
    }
    Ok(Value::text(made))
}

/// What a written pattern asks for: its clauses in order. What is said about one that is none.
pub(crate) fn clauses(pattern: &str) -> Result<Vec<char>, String> {
    let mut characters = pattern.chars().peekable();
    let mut found = Vec::new();
    while let Some(character) = characters.next() {
        if character != '%' {
            continue;
        }
        if characters.next_if_eq(&'.').is_some() {
            while characters.next_if(char::is_ascii_digit).is_some() {}
        }
        match characters.next() {
            None => return Err("unexpected end of string".to_owned()),
            Some('%') => {}
            Some(clause) if "sdfebxXo".contains(clause) => found.push(clause),
            Some(clause) => {
                return Err(format!(
                    "could not parse formatting clause: unrecognized formatting clause \"{clause}\""
                ));
            }
        }
    }
    Ok(found)
}

/// Why a value of this type cannot be shown by a clause.
pub(crate) fn misuse(clause: char, kind: &Type) -> Option<String> {
    let (fits, what) = match clause {
        'd' => (matches!(kind, Type::Int | Type::Uint), "decimal clause can only be used on integers"),
        'f' => (matches!(kind, Type::Double), "fixed-point clause can only be used on doubles"),
        'e' => (matches!(kind, Type::Double), "scientific clause can only be used on doubles"),
        'o' => (matches!(kind, Type::Int | Type::Uint), "octal clause can only be used on integers"),
        'b' => (
            matches!(kind, Type::Int | Type::Uint | Type::Bool),
            "only integers and bools can be formatted as binary",
        ),
        'x' | 'X' => (
            matches!(kind, Type::Int | Type::Uint | Type::String | Type::Bytes),
            "only integers, byte buffers, and strings can be formatted as hex",
        ),
        _ => return None,
    };
    let fits = fits || kind.is_dyn();
    (!fits).then(|| format!("error during formatting: {what}, was given {kind}"))
}

fn clause_of(
    made: &mut String,
    clause: char,
    precision: Option<usize>,
    value: &Value<'_>,
) -> Result<(), EvaluationError> {
    let refused = || {
        let kind = value.type_name();
        EvaluationError::failed(format!("error during formatting: {clause} clause can not be used on {kind}"))
    };
    match (clause, value) {
        ('s', value) => shown(made, value)?,
        ('d', Value::Int(number)) => made.push_str(&number.to_string()),
        ('d', Value::Uint(number)) => made.push_str(&number.to_string()),
        ('d', Value::Double(number)) if !number.is_finite() => made.push_str(&special(*number)),
        ('f' | 'e', number) => {
            #[expect(clippy::cast_precision_loss, reason = "shown as a fraction")]
            let number = match number {
                Value::Double(number) => *number,
                Value::Int(number) => *number as f64,
                Value::Uint(number) => *number as f64,
                _ => return Err(refused()),
            };
            let digits = precision.unwrap_or(6);
            match clause {
                _ if !number.is_finite() => made.push_str(&special(number)),
                'f' => made.push_str(&grouped(&format!("{number:.digits$}"))),
                _ => made.push_str(&scientific(number)),
            }
        }
        ('b', Value::Bool(value)) => made.push(if *value { '1' } else { '0' }),
        ('b', Value::Int(number)) => made.push_str(&signed(*number, |number| format!("{number:b}"))),
        ('b', Value::Uint(number)) => made.push_str(&format!("{number:b}")),
        ('o', Value::Int(number)) => made.push_str(&signed(*number, |number| format!("{number:o}"))),
        ('o', Value::Uint(number)) => made.push_str(&format!("{number:o}")),
        ('x', Value::Int(number)) => made.push_str(&signed(*number, |number| format!("{number:x}"))),
        ('X', Value::Int(number)) => made.push_str(&signed(*number, |number| format!("{number:X}"))),
        ('x', Value::Uint(number)) => made.push_str(&format!("{number:x}")),
        ('X', Value::Uint(number)) => made.push_str(&format!("{number:X}")),
        ('x' | 'X', Value::String(text)) => hexadecimal(made, text.as_str().as_bytes(), clause),
        ('x' | 'X', Value::Bytes(bytes)) => hexadecimal(made, bytes, clause),
        ('d' | 'b' | 'o' | 'x' | 'X', _) => return Err(refused()),
        _ => {
            let message =
                format!("could not parse formatting clause: unrecognized formatting clause \"{clause}\"");
            return Err(EvaluationError::failed(message));
        }
    }
    Ok(())
}

fn signed(number: i64, show: impl Fn(u64) -> String) -> String {
    let sign = if number < 0 { "-" } else { "" };
    format!("{sign}{}", show(number.unsigned_abs()))
}

fn hexadecimal(made: &mut String, bytes: &[u8], clause: char) {
    for byte in bytes {
        made.push_str(&if clause == 'x' { format!("{byte:02x}") } else { format!("{byte:02X}") });
    }
}

fn special(number: f64) -> String {
    if number.is_nan() {
        "NaN"
    } else if number > 0.0 {
        "Infinity"
    } else {
        "-Infinity"
    }
    .to_owned()
}

/// With a comma between thousands, as people in some places write numbers.
fn grouped(text: &str) -> String {
    let (sign, rest) = text.strip_prefix('-').map_or(("", text), |rest| ("-", rest));
    let (whole, fraction) = rest.split_at(rest.find('.').unwrap_or(rest.len()));
    let mut made = sign.to_owned();
    for (place, digit) in whole.chars().enumerate() {
        if place > 0 && (whole.len() - place) % 3 == 0 {
            made.push(',');
        }
        made.push(digit);
    }
    made + fraction
}

/// `1.5×10³`, with six digits whatever was asked for, and an exponent of at least two.
fn scientific(number: f64) -> String {
    const RAISED: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    let text = format!("{number:.6e}");
    let Some((digits, exponent)) = text.split_once('e') else { return text };
    let (sign, exponent) = exponent.strip_prefix('-').map_or(("", exponent), |rest| ("⁻", rest));
    let raised = format!("{exponent:0>2}");
    let raised = raised.bytes().map(|digit| RAISED[usize::from(digit.saturating_sub(b'0')) % 10]);
    format!("{digits}×10{sign}{}", raised.collect::<String>())
}

/// What `%s` makes of a value.
fn shown(made: &mut String, value: &Value<'_>) -> Result<(), EvaluationError> {
    if made.len() > strings::LONGEST {
        return Err(EvaluationError::CostLimit);
    }
    match value {
        Value::Null => made.push_str("null"),
        Value::Bool(value) => made.push_str(if *value { "true" } else { "false" }),
        Value::Int(value) => made.push_str(&value.to_string()),
        Value::Uint(value) => made.push_str(&value.to_string()),
        Value::Double(value) if !value.is_finite() => made.push_str(&special(*value)),
        Value::Double(value) => made.push_str(&shortest(*value)),
        Value::String(text) => made.push_str(text.as_str()),
        Value::Bytes(bytes) => made.push_str(&String::from_utf8_lossy(bytes)),
        Value::Duration(span) => made.push_str(&time::shown(*span)),
        Value::Timestamp(moment) => made.push_str(&moment.to_string()),
        Value::Type(name) => made.push_str(name),
        Value::List(list) => {
            made.push('[');
            for place in 0..list.len() {
                if place > 0 {
                    made.push_str(", ");
                }
                if let Some(item) = list.get(place)? {
                    shown_inside(made, &item)?;
                }
            }
            made.push(']');
        }
        Value::Map(map) => {
            made.push('{');
            let mut entries = Vec::new();
            for (key, value) in map.entries()? {
                let (mut name, mut text) = (String::new(), String::new());
                shown_inside(&mut name, &key)?;
                shown_inside(&mut text, &value)?;
                entries.push(format!("{name}:{text}"));
            }
            entries.sort();
            made.push_str(&entries.join(", "));
            made.push('}');
        }
        other => {
            let message = format!(
                "error during formatting: string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps, was given {}",
                other.type_name()
            );
            return Err(EvaluationError::Failed(message));
        }
    }
    Ok(())
}

/// What `%s` makes of a value in a list or a map: it tells what it is.
fn shown_inside(made: &mut String, value: &Value<'_>) -> Result<(), EvaluationError> {
    match value {
        Value::String(text) => made.push_str(&quoted(text.as_str())),
        Value::Bytes(bytes) => made.push_str(&format!("b{}", quoted(&String::from_utf8_lossy(bytes)))),
        Value::Duration(span) => made.push_str(&format!("duration({:?})", time::shown(*span))),
        Value::Timestamp(moment) => made.push_str(&format!("timestamp({:?})", moment.to_string())),
        Value::Double(number) if number.is_finite() => made.push_str(&format!("{number:.6}")),
        other => shown(made, other)?,
    }
    Ok(())
}

/// `strings.quote`.
pub(super) fn quoted(text: &str) -> String {
    let mut made = String::with_capacity(text.len() + 2);
    made.push('"');
    for character in text.chars() {
        match character {
            '\u{7}' => made.push_str("\\a"),
            '\u{8}' => made.push_str("\\b"),
            '\u{c}' => made.push_str("\\f"),
            '\n' => made.push_str("\\n"),
            '\r' => made.push_str("\\r"),
            '\t' => made.push_str("\\t"),
            '\u{b}' => made.push_str("\\v"),
            '\\' => made.push_str("\\\\"),
            '"' => made.push_str("\\\""),
            other => made.push(other),
        }
    }
    made.push('"');
    made
}
