//! From one type to another, and how large things are.

use super::{Outcome, time};
use crate::error::EvaluationError;
use crate::value::Value;

pub(crate) fn call<'a>(function: &str, arguments: &[Value<'a>]) -> Option<Outcome<'a>> {
    let [value] = arguments else { return None };
    Some(match function {
        "type" => Ok(Value::Type(value.type_name())),
        "dyn" => Ok(value.clone()),
        "size" => match value {
            Value::String(_) | Value::Bytes(_) | Value::List(_) | Value::Map(_) => {
                Ok(Value::Int(i64::try_from(value.size()).unwrap_or(i64::MAX)))
            }
            _ => return None,
        },
        "bool" => match value {
            Value::Bool(_) => Ok(value.clone()),
            Value::String(text) => match text.as_str() {
                "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Value::Bool(true)),
                "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Value::Bool(false)),
                _ => Err(refused("string", "bool")),
            },
            _ => return None,
        },
        "bytes" => match value {
            Value::Bytes(_) => Ok(value.clone()),
            Value::String(text) => Ok(Value::Bytes(text.as_str().as_bytes().into())),
            _ => return None,
        },
        "int" => int(value)?,
        "uint" => uint(value)?,
        "double" => double(value)?,
        "string" => string(value)?,
        "duration" => match value {
            Value::Duration(_) => Ok(value.clone()),
            Value::Int(seconds) => Ok(Value::Duration(jiff::SignedDuration::from_secs(*seconds))),
            Value::String(text) => time::duration(text.as_str()).map(Value::Duration).ok_or_else(|| {
                EvaluationError::failed(format!("time: invalid duration \"{}\"", text.as_str()))
            }),
            _ => return None,
        },
        "timestamp" => match value {
            Value::Timestamp(_) => Ok(value.clone()),
            Value::Int(seconds) => jiff::Timestamp::from_second(*seconds)
                .map(Value::Timestamp)
                .map_err(|_| EvaluationError::failed("timestamp overflow")),
            Value::String(text) => time::timestamp(text.as_str())
                .map(Value::Timestamp)
                .ok_or_else(|| refused("string", "timestamp")),
            _ => return None,
        },
        _ => return None,
    })
}

fn refused(from: &str, to: &str) -> EvaluationError {
    EvaluationError::failed(format!("type conversion error from '{from}' to '{to}'"))
}

fn overflow<'a>() -> Outcome<'a> {
    Err(EvaluationError::failed("integer overflow"))
}

fn int<'a>(value: &Value<'a>) -> Option<Outcome<'a>> {
    Some(match value {
        Value::Int(_) => Ok(value.clone()),
        Value::Uint(number) => {
            i64::try_from(*number).map_or_else(|_| overflow(), |number| Ok(Value::Int(number)))
        }
        #[expect(
            clippy::cast_possible_truncation,
            reason = "in range, and towards zero as the language says"
        )]
        Value::Double(number) if number.abs() < 9_223_372_036_854_775_807.0 => Ok(Value::Int(*number as i64)),
        Value::Double(_) => overflow(),
        Value::String(text) => text.as_str().parse().map(Value::Int).map_err(|_| refused("string", "int")),
        Value::Timestamp(moment) => Ok(Value::Int(moment.as_second())),
        Value::Duration(span) => {
            i64::try_from(span.as_nanos()).map_or_else(|_| overflow(), |nanos| Ok(Value::Int(nanos)))
        }
        _ => return None,
    })
}

fn uint<'a>(value: &Value<'a>) -> Option<Outcome<'a>> {
    let overflow = || Err(EvaluationError::failed("unsigned integer overflow"));
    Some(match value {
        Value::Uint(_) => Ok(value.clone()),
        Value::Int(number) => {
            u64::try_from(*number).map_or_else(|_| overflow(), |number| Ok(Value::Uint(number)))
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "in range, and towards zero as the language says"
        )]
        Value::Double(number) if (0.0..18_446_744_073_709_551_615.0).contains(number) => {
            Ok(Value::Uint(*number as u64))
        }
        Value::Double(_) => overflow(),
        Value::String(text) => text.as_str().parse().map(Value::Uint).map_err(|_| refused("string", "uint")),
        _ => return None,
    })
}

#[expect(clippy::cast_precision_loss, reason = "as the language converts them")]
fn double<'a>(value: &Value<'a>) -> Option<Outcome<'a>> {
    Some(match value {
        Value::Double(_) => Ok(value.clone()),
        Value::Int(number) => Ok(Value::Double(*number as f64)),
        Value::Uint(number) => Ok(Value::Double(*number as f64)),
        Value::String(text) => {
            text.as_str().parse().map(Value::Double).map_err(|_| refused("string", "double"))
        }
        _ => return None,
    })
}

fn string<'a>(value: &Value<'a>) -> Option<Outcome<'a>> {
    Some(Ok(match value {
        Value::String(_) => value.clone(),
        Value::Bool(value) => Value::text(value.to_string()),
        Value::Int(value) => Value::text(value.to_string()),
        Value::Uint(value) => Value::text(value.to_string()),
        Value::Double(value) => Value::text(shortest(*value)),
        Value::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => Value::text(text),
            Err(_) => {
                return Some(Err(EvaluationError::failed(
                    "invalid UTF-8 in bytes, cannot convert to string",
                )));
            }
        },
        Value::Duration(span) => Value::text(time::shown(*span)),
        Value::Timestamp(moment) => Value::text(moment.to_string()),
        Value::Ip(address) => Value::text(address.to_string()),
        Value::Range(range) => Value::text(range.to_string()),
        _ => return None,
    }))
}

/// As Go's `%g` with the fewest digits.
pub(super) fn shortest(value: f64) -> String {
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let text = format!("{value:e}");
    match text.split_once('e') {
        Some((_, exponent)) if (-4..6).contains(&exponent.parse().unwrap_or(0)) => format!("{value}"),
        Some((digits, exponent)) => {
            let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |rest| ('-', rest));
            format!("{digits}e{sign}{exponent:0>2}")
        }
        None => text,
    }
}
