//! Amounts of resources: `100m`, `1.5Gi`, `2e3`.

use std::cmp::Ordering;
use std::rc::Rc;

use super::{Outcome, text};
use crate::error::EvaluationError;
use crate::value::Value;

/// An exact amount, in billionths. Nothing finer is kept: it is rounded up, as Kubernetes does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Quantity {
    billionths: i128,
}

const WHOLE: i128 = 1_000_000_000;

impl Quantity {
    /// Reads an amount. Nothing if it is none.
    fn parse(text: &str) -> Option<Self> {
        let (negative, rest) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let end = rest.find(|one: char| !one.is_ascii_digit() && one != '.').unwrap_or(rest.len());
        let (number, suffix) = rest.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return None;
        }
        let (base, power) = scale(suffix)?;
        let digits = [whole, fraction].concat();
        let digits = digits.trim_start_matches('0');
        if digits.len() > 30 {
            return None;
        }
        let value: i128 = if digits.is_empty() { 0 } else { digits.parse().ok()? };
        // value / 10^fraction * base^power, in billionths, rounded up.
        let mut numerator = value.checked_mul(WHOLE)?;
        let mut denominator = 10_i128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
        let factor = base.checked_pow(power.unsigned_abs())?;
        match power < 0 {
            true => denominator = denominator.checked_mul(factor)?,
            false => numerator = numerator.checked_mul(factor)?,
        }
        let up = numerator / denominator + i128::from(numerator % denominator != 0);
        Some(Self { billionths: if negative { -up } else { up } })
    }

    /// A whole amount.
    fn whole(value: i64) -> Self {
        Self { billionths: i128::from(value) * WHOLE }
    }

    fn as_integer(self) -> Option<i64> {
        (self.billionths % WHOLE == 0).then(|| i64::try_from(self.billionths / WHOLE).ok()).flatten()
    }
}

/// The suffix as a power.
fn scale(suffix: &str) -> Option<(i128, i32)> {
    const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    const DECIMAL: [(&str, i32); 10] = [
        ("n", -9),
        ("u", -6),
        ("m", -3),
        ("", 0),
        ("k", 3),
        ("M", 6),
        ("G", 9),
        ("T", 12),
        ("P", 15),
        ("E", 18),
    ];
    if let Some(place) = BINARY.iter().position(|one| *one == suffix) {
        return Some((1024, i32::try_from(place).ok()? + 1));
    }
    if let Some((_, power)) = DECIMAL.iter().find(|(one, _)| *one == suffix) {
        return Some((10, *power));
    }
    let exponent = suffix.strip_prefix(['e', 'E'])?;
    let power: i32 = exponent.parse().ok()?;
    (-18..=18).contains(&power).then_some((10, power))
}

pub(super) fn call<'a>(function: &str, arguments: &[Value<'a>]) -> Option<Outcome<'a>> {
    if let ([value], "quantity" | "isQuantity") = (arguments, function) {
        let parsed = Quantity::parse(text(value)?);
        return Some(match (function, parsed) {
            ("isQuantity", parsed) => Ok(Value::Bool(parsed.is_some())),
            (_, Some(parsed)) => Ok(Value::Quantity(Rc::new(parsed))),
            (_, None) => Err(EvaluationError::failed(
                "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
            )),
        });
    }
    let (Value::Quantity(subject), rest) = arguments.split_first()? else { return None };
    let subject = **subject;
    let other = match rest {
        [] => None,
        [Value::Quantity(other)] => Some(**other),
        [Value::Int(other)] if matches!(function, "add" | "sub") => Some(Quantity::whole(*other)),
        _ => return None,
    };
    Some(Ok(match (function, other) {
        ("sign", None) => Value::Int(i64::try_from(subject.billionths.signum()).unwrap_or_default()),
        ("isInteger", None) => Value::Bool(subject.as_integer().is_some()),
        ("asInteger", None) => match subject.as_integer() {
            Some(value) => Value::Int(value),
            None => return Some(Err(EvaluationError::failed("cannot convert value to integer"))),
        },
        #[expect(clippy::cast_precision_loss, reason = "approximate by name")]
        ("asApproximateFloat", None) => Value::Double(subject.billionths as f64 / WHOLE as f64),
        ("isGreaterThan", Some(other)) => Value::Bool(subject > other),
        ("isLessThan", Some(other)) => Value::Bool(subject < other),
        ("compareTo", Some(other)) => Value::Int(match subject.cmp(&other) {
            Ordering::Less => -1,
            Ordering::Equal => 0,
            Ordering::Greater => 1,
        }),
        ("add" | "sub", Some(other)) => {
            let sum = match function {
                "add" => subject.billionths.checked_add(other.billionths),
                _ => subject.billionths.checked_sub(other.billionths),
            };
            match sum {
                Some(billionths) => Value::Quantity(Rc::new(Quantity { billionths })),
                None => return Some(Err(EvaluationError::failed("quantity overflow"))),
            }
        }
        _ => return None,
    }))
}
