//! Strategic merge: a merge patch that knows which lists have keys.
//!
//! Directives: `$patch` (replace, delete, merge) in maps and list items, `$retainKeys`, `$deleteFromPrimitiveList/F`,
//! `$setElementOrder/F`. Null deletes a key. A list without a strategy is replaced.

use serde_json::{Map, Value};

use super::in_go;
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
        Some(other) => {
            let shown = in_go(&Value::Object(patch.clone()));
            return Err(Failure::unexpected(format!("unknown patch type: {other} in map: {shown}")));
        }
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
    // The order in which lists were, for those whose order the patch speaks of without changing them.
    let ordered: Vec<_> = patch
        .iter()
        .filter_map(|(name, order)| {
            let list = name.strip_prefix(ORDER)?;
            Some((list, order.as_array()?, fields.get(list)?.as_array()?.clone()))
        })
        .collect();
    for (name, value) in patch.iter().filter(|(name, _)| !name.starts_with('$')) {
        merge_field(fields, name, value, shape)?;
    }
    for (list, order, before) in ordered {
        if let Some(Value::Array(items)) = fields.get_mut(list) {
            arrange(items, order, &before, shape.patch_key(list));
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
        // To replace or delete what is not there leaves nothing.
        Value::Object(changes) if changes.contains_key(PATCH) && !fields.contains_key(name) => {
            if value[PATCH] != "delete" {
                let mut discarded = Value::Object(Map::new());
                merge(&mut discarded, value, shape.field(name))?;
                fields.insert(name.to_owned(), Value::Object(Map::new()));
            }
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
                let before = place.as_array().cloned().unwrap_or_default();
                merge_keyed(place, items, key, shape.items_of(name))?;
                if let Some(merged) = place.as_array_mut() {
                    arrange(merged, items, &before, Some(key));
                }
            }
            None if shape.is_union(name) => {
                let place = fields.entry(name).or_insert_with(|| Value::Array(Vec::new()));
                if let Some(present) = place.as_array_mut() {
                    let before = present.clone();
                    for item in items {
                        if !present.contains(item) {
                            present.push(item.clone());
                        }
                    }
                    arrange(present, items, &before, None);
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
            let why = format!("map: {} does not contain declared merge key: {key}", in_go(change));
            return Err(Failure::unexpected(why));
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

/// Puts a list in the order the client wants. Items the client does not mention keep their order, and come before one that it
/// does mention only if they stood before it.
fn arrange(items: &mut Vec<Value>, order: &[Value], before: &[Value], key: Option<&str>) {
    let identity = |item: &Value| match key {
        Some(key) => item[key].clone(),
        None => item.clone(),
    };
    let places = |list: &[Value]| -> Vec<Value> { list.iter().map(identity).collect() };
    let (order, before) = (places(order), places(before));
    let place = |list: &[Value], item: &Value| {
        let identity = identity(item);
        list.iter().position(|one| *one == identity)
    };
    let (mut mentioned, mut others): (Vec<_>, Vec<_>) =
        std::mem::take(items).into_iter().partition(|item| place(&order, item).is_some());
    mentioned.sort_by_key(|item| place(&order, item));
    others.sort_by_key(|item| place(&before, item));
    let mut others = others.into_iter().peekable();
    for item in mentioned {
        let stood = place(&before, &item);
        while let Some(other) = others.next_if(|other| {
            stood.is_some_and(|stood| place(&before, other).is_some_and(|other| other < stood))
        }) {
            items.push(other);
        }
        items.push(item);
    }
    items.extend(others);
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
