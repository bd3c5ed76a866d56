//! How a pool asks its workers to be changed.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use pilothouse_crds::{NodePool, ReplaceStrategy, UpgradeType};

use super::plan::Rollout;

/// Which way to round a share that is no whole number.
#[derive(Clone, Copy)]
enum Rounding {
    Up,
    Down,
}

impl Rollout {
    /// What a pool of so many workers asks for.
    pub(super) fn of(pool: &NodePool, replicas: usize) -> Self {
        let management = &pool.spec.management;
        if management.upgrade_type == UpgradeType::InPlace {
            let bounds = management.in_place.clone().unwrap_or_default();
            return Self::InPlace {
                max_unavailable: number(&bounds.max_unavailable, replicas, Rounding::Down),
            };
        }
        let replace = management.replace.clone().unwrap_or_default();
        match replace.strategy.unwrap_or_default() {
            ReplaceStrategy::OnDelete => Self::OnDelete,
            ReplaceStrategy::RollingUpdate => {
                let bounds = replace.rolling_update.unwrap_or_default();
                Self::Rolling {
                    max_surge: number(&bounds.max_surge, replicas, Rounding::Up),
                    max_unavailable: number(&bounds.max_unavailable, replicas, Rounding::Down),
                }
            }
        }
    }
}

/// A number, or a share in percent. What is neither is zero, which stops nothing: a plan makes up for that.
fn number(amount: &IntOrString, replicas: usize, rounding: Rounding) -> usize {
    match amount {
        IntOrString::Int(number) => usize::try_from(*number).unwrap_or_default(),
        IntOrString::String(text) => {
            let share = text.strip_suffix('%').and_then(|share| share.trim().parse::<usize>().ok());
            let hundredths = share.unwrap_or_default().saturating_mul(replicas);
            match rounding {
                Rounding::Up => hundredths.div_ceil(100),
                Rounding::Down => hundredths / 100,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case(json!({ "upgradeType": "Replace" }), Rollout::Rolling { max_surge: 1, max_unavailable: 0 })]
    #[case(
        json!({ "upgradeType": "Replace", "replace": {
            "strategy": "RollingUpdate", "rollingUpdate": { "maxSurge": "25%", "maxUnavailable": "25%" },
        } }),
        Rollout::Rolling { max_surge: 2, max_unavailable: 1 }
    )]
    #[case(json!({ "upgradeType": "Replace", "replace": { "strategy": "OnDelete" } }), Rollout::OnDelete)]
    #[case(json!({ "upgradeType": "InPlace" }), Rollout::InPlace { max_unavailable: 1 })]
    #[case(json!({ "upgradeType": "InPlace", "inPlace": { "maxUnavailable": 3 } }), Rollout::InPlace { max_unavailable: 3 })]
    fn numbers_and_shares_are_read(#[case] management: serde_json::Value, #[case] expected: Rollout) {
        let mut pool = NodePool::default();
        pool.spec.management = serde_json::from_value(management).unwrap();
        assert_eq!(Rollout::of(&pool, 5), expected);
    }
}
