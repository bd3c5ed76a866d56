//! What calls may cost, and how large what they answer can get.

use super::{Estimate, Estimator, Size, Step, is_scalar, sum, walk};
use crate::ast::{Expression, Kind, Literal};
use crate::types::Type;

/// Every named format costs as much as the dearest of them.
const FORMAT: u64 = 32;

impl<'a> Estimator<'a> {
    pub(super) fn call(&mut self, function: &str, arguments: &[&Expression], result: &Type) -> Estimate<'a> {
        let estimates: Vec<Estimate<'a>> = arguments.iter().map(|one| self.of(one)).collect();
        let given = sum(estimates.iter().map(|one| one.cost));
        let sizes: Vec<Size> =
            estimates.iter().zip(arguments).map(|(one, argument)| one.size(&argument.result)).collect();
        let kinds: Vec<&Type> = arguments.iter().map(|one| &one.result).collect();
        let (own, size) = match function {
            "isSorted" | "sum" | "min" | "max" => (self.walked(&estimates[0], kinds[0], sizes[0]), None),
            "indexOf" | "lastIndexOf" if matches!(kinds[0], Type::List(_)) => {
                (self.walked(&estimates[0], kinds[0], sizes[0]), None)
            }
            "join" => {
                let joined = self.joined(&estimates[0], sizes[0], sizes.get(1).copied());
                (walk(joined), Some(Size::up_to(joined)))
            }
            "split" => {
                let limit = match arguments.get(2).map(|limit| &limit.kind) {
                    Some(Kind::Literal(Literal::Int(limit))) => u64::try_from(*limit).ok(),
                    _ => None,
                };
                (walk(sizes[0].most).saturating_mul(2), Some(Size::up_to(limit.unwrap_or(sizes[0].most))))
            }
            _ => price(function, &sizes, &kinds),
        };
        let cost = given.saturating_add(own);
        match size {
            Some(size) => Estimate::sized(cost, size),
            None if is_scalar(result) => Estimate::sized(cost, Size { least: 1, most: 1 }),
            None => Estimate::made(cost),
        }
    }

    /// Every item is looked at, and text among them is walked over.
    fn walked(&self, list: &Estimate<'a>, kind: &Type, size: Size) -> u64 {
        let each = match kind {
            Type::List(list) if is_scalar(&list.item) => 0,
            _ => walk(self.item(list)),
        };
        size.most.saturating_mul(each.saturating_add(1))
    }

    fn joined(&self, list: &Estimate<'a>, size: Size, separator: Option<Size>) -> u64 {
        let items = size.most.saturating_mul(self.item(list));
        let between = separator.map_or(0, |separator| separator.most);
        items.saturating_add(between.saturating_mul(size.most.saturating_sub(1)))
    }

    /// How large an item of a list can be, if that is known.
    fn item(&self, list: &Estimate<'a>) -> u64 {
        match list.path {
            super::Path::At(Some(extent)) => extent.step(&Step::Item).map_or(u64::MAX, |item| item.most),
            _ => u64::MAX,
        }
    }
}

/// The price of a call, and the size of the answer where it follows from the arguments.
fn price(function: &str, sizes: &[Size], kinds: &[&Type]) -> (u64, Option<Size>) {
    let most = |place: usize| sizes.get(place).map_or(0, |size| size.most);
    let walks = |place: usize| walk(most(place));
    let is = |place: usize, wanted: &Type| kinds.get(place).is_some_and(|kind| *kind == wanted);
    let walkable = |place: usize| is(place, &Type::String) || is(place, &Type::Bytes);
    let dynamic = |place: usize| is(place, &Type::Dyn);
    let pattern = || walk(most(0).saturating_add(1)).saturating_mul(most(1).div_ceil(4));
    let same = sizes.first().map(|size| Size::up_to(size.most));
    match function {
        "_==_" | "_!=_" => (walk(compared(sizes, kinds)), None),
        "_<_" | "_<=_" | "_>_" | "_>=_" if walkable(0) || walkable(1) => (walk(most(0).min(most(1))), None),
        "_<_" | "_<=_" | "_>_" | "_>=_" if dynamic(0) && dynamic(1) => {
            (walk(most(0).min(most(1))).max(1), None)
        }
        "_+_" => match (sizes, walkable(0) || walkable(1)) {
            ([one, other], true) => (walk(one.plus(*other).most), Some(one.plus(*other))),
            ([one, other], false) if matches!(kinds[0], Type::List(_)) => (1, Some(one.plus(*other))),
            ([one, other], false) if dynamic(0) || dynamic(1) => {
                (walk(one.plus(*other).most).max(1), Some(one.plus(*other)))
            }
            _ => (1, None),
        },
        "@in" => (if matches!(kinds.get(1), Some(Type::Map(_))) { 1 } else { most(1) }, None),
        "contains" => (walks(0).saturating_mul(walks(1)), None),
        "startsWith" | "endsWith" => (walks(1), None),
        "matches" => (pattern(), None),
        "find" => (pattern(), same),
        "findAll" => (pattern(), same),
        "lowerAscii" | "upperAscii" | "trim" | "substring" => (walks(0), same),
        "indexOf" | "lastIndexOf" => (walks(0), None),
        "replace" => (walks(0).saturating_mul(2), replaced(sizes)),
        "strings.quote" => (walks(0), Some(Size::up_to(most(0).saturating_mul(2).saturating_add(2)))),
        "format" => (walks(0), None),
        "bytes" if is(0, &Type::String) => (walks(0), Some(Size::up_to(most(0).saturating_mul(4)))),
        "string" if is(0, &Type::Bytes) || dynamic(0) => (walks(0), same),
        "dyn" => (1, same),
        "url" => (walks(0), same),
        "isIP" | "isCIDR" | "isQuantity" | "quantity" | "cidr" | "semver" | "isSemver" => (walks(0), None),
        "ip" if is(0, &Type::String) => (walks(0), None),
        "ip.isCanonical" => (walks(0).saturating_mul(2), None),
        "containsIP" => (if walkable(1) { walks(1).saturating_add(4) } else { 4 }, None),
        "containsCIDR" => (if walkable(1) { walks(1).saturating_add(7) } else { 7 }, None),
        "validate" => (walks(1).saturating_mul(FORMAT), None),
        "sets.contains" | "sets.intersects" => (most(0).saturating_mul(most(1)).saturating_add(1), None),
        "sets.equivalent" => (most(0).saturating_mul(most(1)).saturating_mul(2).saturating_add(1), None),
        _ => (1, None),
    }
}

/// How much of two values is looked at. Of two addresses on the web it is the second.
fn compared(sizes: &[Size], kinds: &[&Type]) -> u64 {
    match (sizes, kinds) {
        ([_, other], [_, Type::Opaque("kubernetes.URL")]) => other.most,
        ([one, other], _) => one.most.min(other.most),
        _ => u64::MAX,
    }
}

/// Nothing is found as often as nothing: around every character.
fn replaced(sizes: &[Size]) -> Option<Size> {
    let [text, wanted, instead, ..] = sizes else { return None };
    let most = match wanted.least {
        0 => text.most.saturating_add(1).saturating_mul(instead.most).saturating_add(text.most),
        least => (text.most / least).saturating_mul(instead.most).max(text.most),
    };
    Some(Size::up_to(most))
}
