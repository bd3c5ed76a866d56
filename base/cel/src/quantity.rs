//! Amounts as Kubernetes writes them: `500m`, `1Gi`, `2e3`.
//!
//! Two spellings of one amount are one amount, so there is one canonical spelling: the largest suffix with which the
//! number stays whole, in the family (binary, decimal, exponent) in which it was given.

use std::cmp::Ordering;
use std::fmt;

/// The smallest part that is kept.
const SCALE: i128 = 1_000_000_000;
/// Larger amounts are cut to this.
const LARGEST: i128 = (i64::MAX as i128) * SCALE;

const DECIMAL: &[(&str, i32)] = &[
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
const BINARY: &[(&str, u32)] = &[("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];

/// An amount, with the family of its spelling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quantity {
    billionths: i128,
    family: Family,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    Decimal,
    Binary,
    Exponent,
}

/// What is said about a text that is no amount.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// It does not even look like one.
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Format,
    /// What stands behind the number is no unit.
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

impl Quantity {
    /// Whether it is more, however the two are spelled.
    pub fn exceeds(self, other: Self) -> bool {
        self.billionths > other.billionths
    }

    /// Which of the two is more, however they are spelled.
    pub fn compare(self, other: Self) -> Ordering {
        self.billionths.cmp(&other.billionths)
    }

    /// The number, if it is a whole one.
    pub fn as_integer(self) -> Option<i64> {
        self.is_whole().then(|| i64::try_from(self.billionths / SCALE).ok()).flatten()
    }

    /// In thousandths. A part of one counts as one: a promise is not made smaller.
    pub fn thousandths(self) -> i128 {
        const THOUSANDTH: i128 = SCALE / 1000;
        self.billionths.div_euclid(THOUSANDTH) + i128::from(self.billionths.rem_euclid(THOUSANDTH) > 0)
    }

    /// One, nothing, or minus one.
    pub fn sign(self) -> i64 {
        i64::try_from(self.billionths.signum()).unwrap_or_default()
    }

    /// A whole number of something.
    pub fn whole(count: i64) -> Self {
        Self { billionths: i128::from(count) * SCALE, family: Family::Decimal }
    }

    /// Nothing, in the same family.
    pub fn zero(self) -> Self {
        Self { billionths: 0, family: self.family }
    }

    /// Whether there is no fraction.
    pub fn is_whole(self) -> bool {
        self.billionths % SCALE == 0
    }

    /// Whether it is nothing.
    pub fn is_zero(self) -> bool {
        self.billionths == 0
    }

    /// The sum, spelled like the first that is more than nothing.
    pub fn plus(self, other: Self) -> Self {
        let family = if self.is_zero() { other.family } else { self.family };
        Self { billionths: self.billionths.saturating_add(other.billionths).min(LARGEST), family }
    }

    /// The difference, spelled like the first.
    pub fn minus(self, other: Self) -> Self {
        Self { billionths: self.billionths.saturating_sub(other.billionths), family: self.family }
    }

    /// About how much it is.
    #[expect(clippy::cast_precision_loss, reason = "for ratios, which are shown with six digits")]
    pub fn as_f64(self) -> f64 {
        self.billionths as f64 / SCALE as f64
    }

    /// Reads an amount.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        let digits_from = text.strip_prefix(['+', '-']).unwrap_or(text);
        let length = digits_from.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
        let (digits, suffix) = digits_from.split_at(length);
        if !digits.bytes().any(|byte| byte.is_ascii_digit()) || digits.matches('.').count() > 1 {
            return Err(QuantityError::Format);
        }
        let (family, binary, decimal) = unit(suffix)?;
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let mut amount: i128 = 0;
        for digit in whole.bytes().chain(fraction.bytes()) {
            amount = amount.saturating_mul(10).saturating_add(i128::from(digit - b'0'));
        }
        let places = i32::try_from(fraction.len()).unwrap_or(i32::MAX);
        let exponent = decimal.saturating_sub(places).saturating_add(9);
        let scaled = amount.saturating_mul(1_i128 << binary);
        let amount = match u32::try_from(exponent) {
            Ok(up) => 10_i128.checked_pow(up).map_or(i128::MAX, |power| scaled.saturating_mul(power)),
            // Less than can be kept is rounded away from zero: a promise is not made smaller.
            Err(_) => match 10_i128.checked_pow(exponent.unsigned_abs()) {
                Some(power) => scaled / power + i128::from(scaled % power != 0),
                None => i128::from(scaled != 0),
            },
        };
        let amount = if amount == i128::MAX && scaled == 0 { 0 } else { amount.min(LARGEST) };
        let sign = if text.starts_with('-') { -1 } else { 1 };
        Ok(Self { billionths: amount * sign, family })
    }
}

/// The family of a suffix, and what it multiplies by: a power of two and one of ten.
fn unit(suffix: &str) -> Result<(Family, u32, i32), QuantityError> {
    if let Some((_, power)) = DECIMAL.iter().find(|(name, _)| *name == suffix) {
        return Ok((Family::Decimal, 0, *power));
    }
    if let Some((_, power)) = BINARY.iter().find(|(name, _)| *name == suffix) {
        return Ok((Family::Binary, *power, 0));
    }
    if let Some(power) = suffix.strip_prefix(['e', 'E']) {
        return power.parse().map(|power| (Family::Exponent, 0, power)).map_err(|_| QuantityError::Suffix);
    }
    let known = |byte: u8| b"eEinumkKMGTP+-0123456789".contains(&byte);
    Err(if suffix.bytes().all(known) { QuantityError::Suffix } else { QuantityError::Format })
}

impl fmt::Display for Quantity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.billionths == 0 {
            return formatter.write_str("0");
        }
        let small = self.billionths.abs() < 1024 * SCALE;
        if self.family == Family::Binary && !small {
            let mut amount = self.billionths / SCALE;
            amount += i128::from(self.billionths % SCALE > 0);
            let mut suffix = "";
            for (name, _) in BINARY {
                if amount % 1024 != 0 {
                    break;
                }
                amount /= 1024;
                suffix = name;
            }
            return write!(formatter, "{amount}{suffix}");
        }
        let (mut amount, mut power) = (self.billionths, -9);
        while amount % 1000 == 0 && power < 18 {
            amount /= 1000;
            power += 3;
        }
        if self.family == Family::Exponent {
            return match power {
                0 => write!(formatter, "{amount}"),
                power => write!(formatter, "{amount}e{power}"),
            };
        }
        let suffix = DECIMAL.iter().find(|(_, one)| *one == power).map_or("", |(name, _)| name);
        write!(formatter, "{amount}{suffix}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousandths_are_rounded_up() {
        for (text, expected) in [
            ("1", 1000),
            ("250m", 250),
            ("0.5", 500),
            ("1.5Gi", 1_610_612_736_000),
            ("1e3", 1_000_000),
            ("100n", 1),
            ("-1", -1000),
            ("-100n", 0),
        ] {
            assert_eq!(Quantity::parse(text).unwrap().thousandths(), expected, "{text}");
        }
    }

    #[test]
    fn one_amount_has_one_spelling() {
        for (given, expected) in [
            ("1", "1"),
            ("1000m", "1"),
            ("0.5", "500m"),
            (".5", "500m"),
            ("1500", "1500"),
            ("1000", "1k"),
            ("1000000k", "1G"),
            ("1.5Gi", "1536Mi"),
            ("0.5Ki", "512"),
            ("1024Ki", "1Mi"),
            ("1Ei", "1Ei"),
            ("2e3", "2e3"),
            ("100e1", "1e3"),
            ("-5m", "-5m"),
            ("0.0000000001", "1n"),
            ("0", "0"),
            ("0e400", "0"),
            ("99999999999999999999E", "9223372036854775807"),
        ] {
            assert_eq!(Quantity::parse(given).map(|one| one.to_string()).as_deref(), Ok(expected), "{given}");
        }
    }

    #[test]
    fn what_is_no_amount_is_said_to_be_none() {
        for text in ["", "x", "1x", "1..2", "--1", "1 Gi", "."] {
            assert_eq!(Quantity::parse(text), Err(QuantityError::Format), "{text}");
        }
        assert_eq!(Quantity::parse("1mi"), Err(QuantityError::Suffix));
    }
}
