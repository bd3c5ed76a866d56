//! Numbers of pods that may be written as a share of others.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// The number, or the share of `whole` that the text names.
pub(crate) fn of(value: &IntOrString, whole: i32, round_up: bool) -> i32 {
    let number = match value {
        IntOrString::Int(number) => i64::from(*number),
        IntOrString::String(text) => {
            let share: i64 = text.trim_end_matches('%').parse().unwrap_or(0);
            let hundredths = share.saturating_mul(i64::from(whole));
            if round_up { (hundredths.saturating_add(99)) / 100 } else { hundredths / 100 }
        }
    };
    i32::try_from(number.max(0)).unwrap_or(i32::MAX)
}
