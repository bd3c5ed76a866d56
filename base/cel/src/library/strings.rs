//! Text. Places are counted in characters.

use super::{Outcome, format_text, list, text};
use crate::error::EvaluationError;
use crate::evaluate::Evaluator;
use crate::value::Value;

/// No function makes more text than this: the price is that of the input, and the output could be much larger.
pub(super) const LONGEST: usize = 8 << 20;

pub(super) fn call<'a>(
    evaluator: &mut Evaluator<'a>,
    function: &str,
    arguments: &[Value<'a>],
) -> Option<Outcome<'a>> {
    if let ("join", [values, rest @ ..]) = (function, arguments) {
        return Some(join(evaluator, list(values)?.items(), rest.first().and_then(text).unwrap_or_default()));
    }
    if let ("strings.quote", [value]) = (function, arguments) {
        return Some(Ok(Value::text(format_text::quoted(text(value)?))));
    }
    let [Value::String(subject), rest @ ..] = arguments else { return None };
    let subject = subject.as_str();
    Some(match (function, rest) {
        ("contains", [part]) => Ok(Value::Bool(subject.contains(text(part)?))),
        ("startsWith", [part]) => Ok(Value::Bool(subject.starts_with(text(part)?))),
        ("endsWith", [part]) => Ok(Value::Bool(subject.ends_with(text(part)?))),
        ("lowerAscii", []) => Ok(Value::text(subject.to_ascii_lowercase())),
        ("upperAscii", []) => Ok(Value::text(subject.to_ascii_uppercase())),
        ("trim", []) => Ok(Value::text(subject.trim())),
        ("charAt", [Value::Int(place)]) => char_at(subject, *place),
        ("substring", [Value::Int(start)]) => substring(subject, *start, None),
        ("substring", [Value::Int(start), Value::Int(end)]) => substring(subject, *start, Some(*end)),
        ("indexOf", [part]) => index_of(subject, text(part)?, 0),
        ("indexOf", [part, Value::Int(from)]) => index_of(subject, text(part)?, *from),
        ("lastIndexOf", [part]) => last_index_of(subject, text(part)?, None),
        ("lastIndexOf", [part, Value::Int(from)]) => last_index_of(subject, text(part)?, Some(*from)),
        ("replace", [from, to]) => replace(subject, text(from)?, text(to)?, -1),
        ("replace", [from, to, Value::Int(limit)]) => replace(subject, text(from)?, text(to)?, *limit),
        ("split", [separator]) => Ok(split(subject, text(separator)?, -1)),
        ("split", [separator, Value::Int(limit)]) => Ok(split(subject, text(separator)?, *limit)),
        ("format", [values]) => format_text::format(subject, list(values)?),
        _ => return None,
    })
}

fn out_of_range<'a>(place: i64) -> Outcome<'a> {
    Err(EvaluationError::failed(format!("index out of range: {place}")))
}

fn char_at<'a>(subject: &str, place: i64) -> Outcome<'a> {
    let length = subject.chars().count();
    match usize::try_from(place) {
        Ok(at) if at == length => Ok(Value::text("")),
        Ok(at) if at < length => {
            Ok(Value::text(subject.chars().nth(at).map(String::from).unwrap_or_default()))
        }
        _ => out_of_range(place),
    }
}

fn substring<'a>(subject: &str, start: i64, end: Option<i64>) -> Outcome<'a> {
    let length = i64::try_from(subject.chars().count()).unwrap_or(i64::MAX);
    let last = end.unwrap_or(length);
    if end.is_some() && start > last {
        return Err(EvaluationError::failed(format!("invalid substring range. start: {start}, end: {last}")));
    }
    if !(0..=length).contains(&start) {
        return out_of_range(start);
    }
    if !(0..=length).contains(&last) {
        return out_of_range(last);
    }
    let (skip, take) = (usize::try_from(start).unwrap_or(0), usize::try_from(last - start).unwrap_or(0));
    Ok(Value::text(subject.chars().skip(skip).take(take).collect::<String>()))
}

fn index_of<'a>(subject: &str, part: &str, from: i64) -> Outcome<'a> {
    let length = subject.chars().count();
    let Some(skip) = usize::try_from(from).ok().filter(|skip| *skip <= length) else {
        return out_of_range(from);
    };
    let start = subject.char_indices().nth(skip).map_or(subject.len(), |(byte, _)| byte);
    let found = subject[start..].find(part).map(|byte| subject[..start + byte].chars().count());
    Ok(Value::Int(found.and_then(|place| i64::try_from(place).ok()).unwrap_or(-1)))
}

fn last_index_of<'a>(subject: &str, part: &str, from: Option<i64>) -> Outcome<'a> {
    let length = subject.chars().count();
    let end = match from {
        None => subject.len(),
        Some(from) => match usize::try_from(from).ok().filter(|place| *place <= length) {
            None => return out_of_range(from),
            // The part may start at the place and reach beyond.
            Some(place) => {
                let start = subject.char_indices().nth(place).map_or(subject.len(), |(byte, _)| byte);
                let end = (start + part.len()).min(subject.len());
                (end..=subject.len()).find(|byte| subject.is_char_boundary(*byte)).unwrap_or(subject.len())
            }
        },
    };
    let found = subject[..end].rfind(part).map(|byte| subject[..byte].chars().count());
    Ok(Value::Int(found.and_then(|place| i64::try_from(place).ok()).unwrap_or(-1)))
}

fn replace<'a>(subject: &str, from: &str, to: &str, limit: i64) -> Outcome<'a> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let times = subject.matches(from).take(limit).count();
    if times.saturating_mul(to.len()).saturating_add(subject.len()) > LONGEST {
        return Err(EvaluationError::CostLimit);
    }
    Ok(Value::text(subject.replacen(from, to, limit)))
}

fn split<'a>(subject: &str, separator: &str, limit: i64) -> Value<'a> {
    let limit = match usize::try_from(limit) {
        Ok(0) => return Value::list(Vec::new()),
        Ok(limit) => limit,
        Err(_) => usize::MAX,
    };
    if separator.is_empty() {
        // Between all characters, and not before the first nor after the last.
        let characters: Vec<char> = subject.chars().collect();
        let single = characters.len().min(limit.saturating_sub(1));
        let mut parts: Vec<String> = characters[..single].iter().map(char::to_string).collect();
        if single < characters.len() {
            parts.push(characters[single..].iter().collect());
        }
        return super::texts(parts);
    }
    super::texts(subject.splitn(limit, separator).map(str::to_owned))
}

fn join<'a>(
    evaluator: &mut Evaluator<'a>,
    items: Result<Vec<Value<'a>>, EvaluationError>,
    separator: &str,
) -> Outcome<'a> {
    let items = items?;
    evaluator.work(items.len() as u64)?;
    let mut joined = String::new();
    for (place, item) in items.iter().enumerate() {
        if place > 0 {
            joined.push_str(separator);
        }
        joined.push_str(text(item).ok_or_else(|| EvaluationError::overload("join"))?);
        if joined.len() > LONGEST {
            return Err(EvaluationError::CostLimit);
        }
    }
    Ok(Value::text(joined))
}
