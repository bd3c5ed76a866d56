//! Quantities of resources, in thousandths.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use pilothouse_cel::Quantity as Amount;

/// The amount of a resource in thousandths, rounded up; nothing where it is not mentioned or no quantity.
pub(crate) fn thousandths(quantities: Option<&BTreeMap<String, Quantity>>, name: &str) -> Option<u128> {
    parse(&quantities?.get(name)?.0)
}

/// A quantity in thousandths, rounded up. What is negative is none.
pub(crate) fn parse(text: &str) -> Option<u128> {
    u128::try_from(Amount::parse(text).ok()?.thousandths()).ok()
}
