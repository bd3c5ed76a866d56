//! What the rules of a schema may cost, each by itself and all together.

use serde_json::Value;

use super::extent;
use crate::status::Cause;

/// What one rule may cost, and all of a schema. As upstream.
const RULE: u64 = 10_000_000;
const SCHEMA: u64 = 100_000_000;
/// So many of the dearest rules are named where all together are too much.
const NAMED: usize = 4;

/// What was found so far.
#[derive(Debug, Default)]
pub(super) struct Budget {
    total: u64,
    /// The dearest, the dearest first.
    dearest: Vec<(u64, String)>,
}

/// How often a value occurs in one object.
#[derive(Debug, Clone, Copy)]
pub(super) enum Count {
    AtMost(u64),
    Unbounded,
}

impl Count {
    /// Of what is inside a list or a map of at most so many.
    pub(super) fn times(self, most: &Value) -> Self {
        match (self, most.as_u64()) {
            (Self::AtMost(count), Some(most)) => Self::AtMost(count.saturating_mul(most)),
            _ => Self::Unbounded,
        }
    }

    /// Where nothing bounds it, as many as fit into a request.
    fn of(self, schema: &Value) -> u64 {
        match self {
            Self::AtMost(count) => count,
            Self::Unbounded => extent::most_often(schema),
        }
    }
}

impl Budget {
    /// Takes one expression in. `what` is how messages call it, and `path` where it stands.
    pub(super) fn take(
        &mut self,
        what: &str,
        path: &str,
        cost: u64,
        count: Count,
        schema: &Value,
        causes: &mut Vec<Cause>,
    ) {
        let cost = cost.saturating_mul(count.of(schema));
        self.total = self.total.saturating_add(cost);
        if cost > RULE {
            let why = format!("estimated {what} cost exceeds budget by factor of {}", factor(cost, RULE));
            causes.push(Cause::forbidden(path, &why));
        }
        if cost == 0 {
            return;
        }
        let place = self.dearest.partition_point(|(other, _)| *other >= cost);
        self.dearest.insert(place, (cost, path.to_owned()));
        self.dearest.truncate(NAMED);
    }

    /// What is to be said about all of them.
    pub(super) fn finish(self, path: &str, causes: &mut Vec<Cause>) {
        if self.total <= SCHEMA {
            return;
        }
        for (_, path) in &self.dearest {
            let why =
                "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
            causes.push(Cause::forbidden(path, why));
        }
        let why = format!(
            "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema exceeds budget by factor of {}",
            factor(self.total, SCHEMA)
        );
        causes.push(Cause::forbidden(path, &why));
    }
}

/// How much is too much, and what to do about it.
fn factor(cost: u64, budget: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "shown with a few digits")]
    let factor = cost as f64 / budget as f64;
    let shown = match factor {
        many if many > 100.0 => "more than 100x".to_owned(),
        few if few < 1.5 => format!("{few:.6}x"),
        some => format!("{some:.1}x"),
    };
    format!(
        "{shown} (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )
}
