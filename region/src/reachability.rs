//! Whether a cluster answers, as pages of health show it.

use pilothouse_http::{Health, Verdict};
use pilothouse_informer::Reachability;

/// Has a page of health say whether a cluster answers, and how bad it is if it does not.
pub(crate) fn report(
    reachability: &Reachability,
    health: &Health,
    check: &str,
    without: fn(String) -> Verdict,
) {
    let seen = reachability.clone();
    health.register(check, move || match seen.trouble() {
        None => Verdict::ready("the management cluster answers"),
        Some(trouble) => without(trouble),
    });
}
