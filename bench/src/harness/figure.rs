//! One measured value and what is wanted of it.

use serde::Serialize;

/// A value with its unit and, perhaps, a budget.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Figure {
    name: String,
    value: f64,
    unit: &'static str,
    budget: Option<Budget>,
    /// None without a budget.
    met: Option<bool>,
    note: String,
}

/// What is wanted of a value.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Budget {
    AtLeast(f64),
    AtMost(f64),
    Below(f64),
}

impl Figure {
    pub(crate) fn new(name: impl Into<String>, value: f64, unit: &'static str) -> Self {
        Self { name: name.into(), value, unit, budget: None, met: None, note: String::new() }
    }

    #[must_use]
    pub(crate) fn budget(mut self, budget: Budget) -> Self {
        self.budget = Some(budget);
        self.met = Some(budget.is_met(self.value));
        self
    }

    #[must_use]
    pub(crate) fn note(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The same in a table of several benchmarks, under the name that it has there.
    pub(crate) fn taken_from(&self, benchmark: &str, name: &str) -> Self {
        let separator = if self.note.is_empty() { "" } else { "; " };
        let note = format!("{benchmark}: {}{separator}{}", self.name, self.note);
        Self { name: name.to_owned(), note, ..self.clone() }
    }

    /// As a row of the table.
    pub(super) fn cells(&self) -> [String; 6] {
        [
            self.name.clone(),
            rounded(self.value),
            self.unit.to_owned(),
            self.budget.map(Budget::text).unwrap_or_default(),
            self.met.map(|met| if met { "yes" } else { "MISSED" }).unwrap_or_default().to_owned(),
            self.note.clone(),
        ]
    }
}

impl Budget {
    fn is_met(self, value: f64) -> bool {
        match self {
            Self::AtLeast(bound) => value >= bound,
            Self::AtMost(bound) => value <= bound,
            Self::Below(bound) => value < bound,
        }
    }

    fn text(self) -> String {
        match self {
            Self::AtLeast(bound) => format!("≥ {bound}"),
            Self::AtMost(bound) => format!("≤ {bound}"),
            Self::Below(bound) => format!("< {bound}"),
        }
    }
}

/// Three significant digits, and all of those before the point. What is not known is a dash.
pub(crate) fn rounded(value: f64) -> String {
    if value.is_nan() {
        return "–".to_owned();
    }
    let decimals = match value.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        _ => 3,
    };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_are_met_at_or_before_their_bound() {
        for (budget, value, met) in [
            (Budget::AtLeast(15.0), 15.0, true),
            (Budget::AtLeast(15.0), 14.9, false),
            (Budget::AtMost(1.5), 1.5, true),
            (Budget::Below(2.0), 2.0, false),
            (Budget::Below(2.0), f64::NAN, false),
        ] {
            let cells = Figure::new("figure", value, "ms").budget(budget).cells();
            assert_eq!(cells[4], if met { "yes" } else { "MISSED" }, "{budget:?} {value}");
        }
    }

    #[test]
    fn values_are_rounded_to_what_can_be_known() {
        for (value, text) in
            [(23_456.7, "23457"), (45.67, "45.7"), (4.567, "4.57"), (0.0456, "0.046"), (f64::NAN, "–")]
        {
            assert_eq!(rounded(value), text);
        }
    }
}
