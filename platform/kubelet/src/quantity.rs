//! Quantities of resources, in thousandths.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// The amount of a resource in thousandths, rounded up; nothing where it is not mentioned or no quantity.
pub(crate) fn thousandths(quantities: Option<&BTreeMap<String, Quantity>>, name: &str) -> Option<u128> {
    parse(&quantities?.get(name)?.0)
}

/// A quantity in thousandths, rounded up. What is negative is none.
pub(crate) fn parse(text: &str) -> Option<u128> {
    let text = text.trim().trim_start_matches('+');
    let end = text.find(|letter: char| !(letter.is_ascii_digit() || letter == '.')).unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let (power, factor): (i32, u128) = match suffix {
        "" => (0, 1),
        "n" => (-9, 1),
        "u" => (-6, 1),
        "m" => (-3, 1),
        "k" => (3, 1),
        "M" => (6, 1),
        "G" => (9, 1),
        "T" => (12, 1),
        "P" => (15, 1),
        "E" => (18, 1),
        "Ki" => (0, 1 << 10),
        "Mi" => (0, 1 << 20),
        "Gi" => (0, 1 << 30),
        "Ti" => (0, 1 << 40),
        "Pi" => (0, 1 << 50),
        "Ei" => (0, 1 << 60),
        other => (other.strip_prefix(['e', 'E'])?.parse().ok()?, 1),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || power.abs() > 18 || fraction.len() > 12 {
        return None;
    }
    let digits: u128 = format!("{whole}{fraction}").parse().ok()?;
    let value = digits.checked_mul(factor)?;
    let scale = power + 3 - i32::try_from(fraction.len()).ok()?;
    let ten = 10_u128.checked_pow(scale.unsigned_abs())?;
    if scale >= 0 { value.checked_mul(ten) } else { Some(value.div_ceil(ten)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_in_all_their_forms() {
        for (text, expected) in [
            ("1", Some(1000)),
            ("250m", Some(250)),
            ("0.5", Some(500)),
            ("1.5Gi", Some(1_610_612_736_000)),
            ("64Mi", Some(67_108_864_000)),
            ("1e3", Some(1_000_000)),
            ("100n", Some(1)),
            ("-1", None),
            ("", None),
            ("much", None),
        ] {
            assert_eq!(parse(text), expected, "{text}");
        }
    }
}
