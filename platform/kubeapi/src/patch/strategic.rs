//! Strategic merge: a merge patch that knows which lists have keys.
//!
//! Directives: `$patch` (replace, delete, merge) in maps and list items, `$retainKeys`, `$deleteFromPrimitiveList/F`,
//! `$setElementOrder/F`. Null deletes a key. A list without a strategy is replaced.

use serde_json::{Map, Value};

use super::shape::Shape;
use crate::status::Failure;

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM: &str = "$deleteFromPrimitiveList/";
const ORDER: &str = "$setElementOrder/";

/// Changes the object by the patch.
pub(super) fn merge(object: &mut Value, patch: &Value, shape: Shape<'_>) -> Result<(), Failure> {
    let Some(patch) = patch.as_object() else { return Err(malformed("a map was expected")) };
    match patch.get(PATCH).and_then(Value::as_str) {
        Some("replace") => {
            let mut replaced = patch.clone();
            replaced.remove(PATCH);
            *object = Value::Object(replaced);
            return Ok(());
        }
        Some("delete") => {
            *object = Value::Object(Map::new());
            return Ok(());
        }
        Some("merge") | None => {}
        Some(other) => return Err(malformed(&format!("unknown patch type: {other}"))),
    }
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    let Some(fields) = object.as_object_mut() else { return Ok(()) };
    if let Some(kept) = patch.get(RETAIN_KEYS).and_then(Value::as_array) {
        fields.retain(|name, _| kept.iter().any(|one| one == name));
    }
    for (name, value) in patch {
        if let Some(list) = name.strip_prefix(DELETE_FROM)
            && let (Some(Value::Array(items)), Some(gone)) = (fields.get_mut(list), value.as_array())
        {
            items.retain(|item| !gone.contains(item));
        }
    }
    for (name, value) in patch.iter().filter(|(name, _)| !name.starts_with('$')) {
        merge_field(fields, name, value, shape)?;
    }
    for (name, order) in patch {
        if let (Some(list), Some(order)) = (name.strip_prefix(ORDER), order.as_array()) {
            arrange(fields, list, order, shape.patch_key(list));
        }
    }
    Ok(())
}

fn merge_field(
    fields: &mut Map<String, Value>,
    name: &str,
    value: &Value,
    shape: Shape<'_>,
) -> Result<(), Failure> {
    match value {
        Value::Null => {
            fields.remove(name);
        }
        Value::Object(_) => {
            let place = fields.entry(name).or_insert_with(|| Value::Object(Map::new()));
            merge(place, value, shape.field(name))?;
            // A map that was deleted by directive is gone, not empty.
            if value[PATCH] == "delete" {
                fields.remove(name);
            }
        }
        Value::Array(items) => match shape.patch_key(name) {
            Some(key) => {
                let place = fields.entry(name).or_insert_with(|| Value::Array(Vec::new()));
                merge_keyed(place, items, key, shape.items_of(name))?;
            }
            None if shape.is_union(name) => {
                let place = fields.entry(name).or_insert_with(|| Value::Array(Vec::new()));
                if let Some(present) = place.as_array_mut() {
                    for item in items {
                        if !present.contains(item) {
                            present.push(item.clone());
                        }
                    }
                }
            }
            None => {
                fields.insert(name.to_owned(), value.clone());
            }
        },
        _ => {
            fields.insert(name.to_owned(), value.clone());
        }
    }
    Ok(())
}

fn merge_keyed(place: &mut Value, patch: &[Value], key: &str, shape: Shape<'_>) -> Result<(), Failure> {
    if !place.is_array() {
        *place = Value::Array(Vec::new());
    }
    let Some(items) = place.as_array_mut() else { return Ok(()) };
    if patch.iter().any(|item| item[PATCH] == "replace") {
        items.clear();
    }
    for change in patch {
        let Some(identity) = change.get(key) else {
            if change[PATCH] == "replace" {
                continue;
            }
            return Err(malformed(&format!("map: {change} does not contain declared merge key: {key}")));
        };
        if change[PATCH] == "delete" {
            items.retain(|item| item.get(key) != Some(identity));
            continue;
        }
        match items.iter_mut().find(|item| item.get(key) == Some(identity)) {
            Some(item) => merge(item, change, shape)?,
            None => {
                let mut added = Value::Object(Map::new());
                merge(&mut added, change, shape)?;
                items.push(added);
            }
        }
    }
    Ok(())
}

/// Puts a list in the order the client wants; items the client does not know stay behind the ones they followed.
fn arrange(fields: &mut Map<String, Value>, list: &str, order: &[Value], key: Option<&str>) {
    let Some(Value::Array(items)) = fields.get_mut(list) else { return };
    let identity = |item: &Value| match key {
        Some(key) => item[key].clone(),
        None => item.clone(),
    };
    let wanted: Vec<_> = order.iter().map(identity).collect();
    let present = std::mem::take(items);
    *items = interleave(present, |item| wanted.iter().position(|one| *one == identity(item)));
}

/// Sorts the ranked items by rank, and leaves the others where they stood relative to them.
pub(super) fn interleave(items: Vec<Value>, rank: impl Fn(&Value) -> Option<usize>) -> Vec<Value> {
    let mut ranked: Vec<(usize, Value)> = Vec::new();
    // Per item without rank: the rank of the ranked one it follows.
    let mut others: Vec<(Option<usize>, Value)> = Vec::new();
    let mut last = None;
    for item in items {
        match rank(&item) {
            Some(rank) => {
                last = Some(rank);
                ranked.push((rank, item));
            }
            None => others.push((last, item)),
        }
    }
    ranked.sort_by_key(|(rank, _)| *rank);
    let mut arranged = Vec::with_capacity(ranked.len() + others.len());
    let mut take = |after: Option<usize>, arranged: &mut Vec<Value>| {
        let (taken, left): (Vec<_>, Vec<_>) =
            std::mem::take(&mut others).into_iter().partition(|(last, _)| *last == after);
        others = left;
        arranged.extend(taken.into_iter().map(|(_, item)| item));
    };
    take(None, &mut arranged);
    for (rank, item) in ranked {
        arranged.push(item);
        take(Some(rank), &mut arranged);
    }
    arranged
}

fn malformed(why: &str) -> Failure {
    Failure::bad_request(format!("the strategic merge patch cannot be applied: {why}"))
}
