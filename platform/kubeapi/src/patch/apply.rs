//! Server-side apply: a manager says what it wants, the server merges it and remembers who decided what.
//!
//! The merged object is the current one with the configuration laid over it, minus what this manager applied last time, no
//! longer asks for, and nobody else has taken up. Where the result changes a field that another manager owns, that is a
//! conflict, unless the caller insists.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::field_set::{Difference, Element, FieldSet, elements, field};
use super::managed_fields::{self, Entry, entry_of, forget_untracked, written};
use super::shape::{Items, Shape};
use super::strategic::interleave;
use super::{Patch, checked};
use crate::catalogue::Resource;
use crate::status::{Cause, Details, Failure};

pub(super) fn apply(
    resource: &Resource,
    current: Option<&Value>,
    patch: &Patch<'_>,
) -> Result<Value, Failure> {
    if patch.manager.is_empty() {
        let cause = Cause::required("fieldManager", "is required for apply patch");
        return Err(Failure::invalid_options("PatchOptions", vec![cause]));
    }
    let shape = Shape::of(resource);
    let mut config = configuration(resource, current, patch)?;
    drop_nulls(&mut config, shape);
    checked::fits(resource, &config)?;

    let mut applied = FieldSet::of(&config, shape);
    forget_untracked(&mut applied);
    let nothing = Value::Object(Map::new());
    let live = current.unwrap_or(&nothing);
    let mut entries = managed_fields::read(live);
    if entries.is_empty() && current.is_some() {
        entries = managed_fields::before_first_apply(resource, patch.subresource, live, patch.now);
    }
    let own = entry_of(&mut entries, patch.manager, true, &resource.api_version(), patch.subresource);
    let previous = std::mem::replace(&mut own.fields, applied);

    let mut object = live.clone();
    merge(&mut object, &config, shape);
    let mut owned = FieldSet::default();
    for entry in &entries {
        owned.add(&entry.fields);
    }
    prune(&mut object, &previous, &owned, shape);

    let difference = managed_fields::changes(resource, patch.subresource, current, &object);
    let is_own = |entry: &Entry| {
        entry.is(patch.manager, true, &resource.api_version(), patch.subresource.unwrap_or_default())
    };
    if !patch.force {
        refuse_conflicts(&entries, &difference, is_own)?;
    }
    for entry in entries.iter_mut().filter(|entry| !is_own(entry)) {
        entry.fields.subtract(&difference.changed);
        entry.fields.subtract(&difference.removed);
    }
    for entry in entries.iter_mut().filter(|entry| is_own(entry)) {
        // The time moves only when something did, so that applying the same again writes nothing.
        if entry.time.is_empty() || entry.fields != previous || !difference.changed.is_empty() {
            entry.time = written(patch.now);
        }
    }
    entries.retain(|entry| !entry.fields.is_empty());
    managed_fields::set(&mut object, &entries);
    Ok(object)
}

/// The body, checked for what no apply may contain and reduced to what this endpoint may change.
fn configuration(resource: &Resource, current: Option<&Value>, patch: &Patch<'_>) -> Result<Value, Failure> {
    let text = std::str::from_utf8(patch.body)
        .map_err(|_| Failure::bad_request("error decoding patch: the body is not UTF-8"))?;
    let mut config: Value = serde_saphyr::from_str(text)
        .map_err(|error| Failure::bad_request(format!("error decoding YAML: {error}")))?;
    let (api_version, kind) = (resource.api_version(), resource.kind.as_ref());
    if config["apiVersion"] != api_version.as_str() || config["kind"] != kind {
        return Err(Failure::bad_request(format!("invalid object type: {}", checked::kind_of(&config))));
    }
    match config["metadata"]["name"].as_str().unwrap_or_default() {
        "" => {
            let url = patch.name;
            return Err(Failure::bad_request(format!(
                "the name of the object ({url} based on URL) was undeterminable: name must be provided"
            )));
        }
        name if name != patch.name => {
            return Err(Failure::bad_request(format!(
                "the name of the object ({name}) does not match the name on the URL ({})",
                patch.name
            )));
        }
        _ => {}
    }
    if config["metadata"]["managedFields"].as_array().is_some_and(|entries| !entries.is_empty()) {
        return Err(Failure::bad_request("metadata.managedFields must be nil"));
    }
    let name = config["metadata"]["name"].as_str().unwrap_or_default();
    if let (Some(asked), Some(current)) = (config["metadata"]["resourceVersion"].as_str(), current)
        && current["metadata"]["resourceVersion"] != asked
    {
        return Err(Failure::modified(resource, name));
    }
    let Some(fields) = config.as_object_mut() else { return Ok(config) };
    match patch.subresource {
        Some("status") => {
            fields.retain(|name, _| matches!(name.as_str(), "apiVersion" | "kind" | "metadata" | "status"))
        }
        _ if resource.status_subresource => {
            fields.remove("status");
        }
        _ => {}
    }
    if let Some(metadata) = fields.get_mut("metadata").and_then(Value::as_object_mut) {
        for server_owned in
            ["managedFields", "resourceVersion", "uid", "creationTimestamp", "generation", "selfLink"]
        {
            metadata.remove(server_owned);
        }
        if patch.subresource == Some("status") {
            metadata.retain(|name, _| matches!(name.as_str(), "name" | "namespace"));
        }
    }
    Ok(config)
}

/// Null says nothing, except where a schema gives it a meaning.
fn drop_nulls(value: &mut Value, shape: Shape<'_>) {
    match value {
        Value::Object(map) => {
            map.retain(|name, inner| !inner.is_null() || shape.field(name).is_nullable());
            for (name, inner) in map.iter_mut() {
                match inner {
                    Value::Array(items) => {
                        items.iter_mut().for_each(|item| drop_nulls(item, shape.items_of(name)));
                    }
                    inner => drop_nulls(inner, shape.field(name)),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| drop_nulls(item, Shape::Free)),
        _ => {}
    }
}

fn merge(live: &mut Value, config: &Value, shape: Shape<'_>) {
    let (Some(map), Some(config)) = (live.as_object_mut(), config.as_object()) else {
        *live = config.clone();
        return;
    };
    for (name, wanted) in config {
        match (map.get_mut(name), wanted) {
            (Some(present @ Value::Object(_)), Value::Object(_)) if !shape.field(name).is_atomic_map() => {
                merge(present, wanted, shape.field(name));
            }
            (Some(Value::Array(present)), Value::Array(wanted)) if shape.list(name) != Items::Atomic => {
                merge_lists(present, wanted, shape, name);
            }
            _ => {
                map.insert(name.clone(), wanted.clone());
            }
        }
    }
}

fn merge_lists(present: &mut Vec<Value>, wanted: &[Value], parent: Shape<'_>, name: &str) {
    let of = |items: &[Value]| elements(parent, name, items).unwrap_or_default();
    let wanted_elements = of(wanted);
    let mut places: BTreeMap<Element, usize> =
        of(present).into_iter().enumerate().map(|(at, one)| (one, at)).collect();
    for (element, item) in wanted_elements.iter().zip(wanted) {
        match places.get(element) {
            Some(&place) => merge(&mut present[place], item, parent.items_of(name)),
            None => {
                places.insert(element.clone(), present.len());
                present.push(item.clone());
            }
        }
    }
    let ranks: BTreeMap<&Element, usize> =
        wanted_elements.iter().enumerate().map(|(rank, one)| (one, rank)).collect();
    *present = interleave(std::mem::take(present), |item| {
        of(std::slice::from_ref(item)).first().and_then(|element| ranks.get(element).copied())
    });
}

/// Takes out what was applied before (`previous`) and belongs to nobody now.
fn prune(value: &mut Value, previous: &FieldSet, owned: &FieldSet, shape: Shape<'_>) {
    let Some(map) = value.as_object_mut() else { return };
    let nobody = FieldSet::default();
    map.retain(|name, inner| {
        let element = field(name);
        let Some(before) = previous.children.get(&element) else { return true };
        let now = owned.children.get(&element).unwrap_or(&nobody);
        if before.owned && now.is_empty() {
            return false;
        }
        match inner {
            Value::Object(fields) if !shape.field(name).is_atomic_map() => {
                let was_empty = fields.is_empty();
                prune(inner, before, now, shape.field(name));
                was_empty || !now.is_empty() || inner.as_object().is_none_or(|fields| !fields.is_empty())
            }
            Value::Array(items) => {
                prune_list(items, before, now, shape, name);
                !now.is_empty() || !items.is_empty()
            }
            _ => true,
        }
    });
}

fn prune_list(items: &mut Vec<Value>, previous: &FieldSet, owned: &FieldSet, parent: Shape<'_>, name: &str) {
    let Some(elements) = elements(parent, name, items) else { return };
    let nobody = FieldSet::default();
    let mut elements = elements.into_iter();
    items.retain_mut(|item| {
        let Some(element) = elements.next() else { return true };
        let Some(before) = previous.children.get(&element) else { return true };
        let now = owned.children.get(&element).unwrap_or(&nobody);
        if before.owned && now.is_empty() {
            return false;
        }
        prune(item, before, now, parent.items_of(name));
        true
    });
}

fn refuse_conflicts(
    entries: &[Entry],
    difference: &Difference,
    is_own: impl Fn(&Entry) -> bool,
) -> Result<(), Failure> {
    let mut conflicts: Vec<(String, Vec<String>)> = entries
        .iter()
        .filter(|entry| !is_own(entry))
        .map(|entry| (entry.described(), entry.fields.intersection(&difference.changed).paths()))
        .filter(|(_, paths)| !paths.is_empty())
        .collect();
    conflicts.sort();
    let causes: Vec<_> = conflicts
        .iter()
        .flat_map(|(who, paths)| paths.iter().map(move |path| (who, path)))
        .map(|(who, path)| Cause::new("FieldManagerConflict", format!("conflict with {who}"), path.as_str()))
        .collect();
    let message = match causes.as_slice() {
        [] => return Ok(()),
        [only] => format!("Apply failed with 1 conflict: {}: {}", only.message, only.field),
        several => {
            let listed: Vec<_> = conflicts
                .iter()
                .map(|(who, paths)| format!("conflicts with {who}:\n- {}", paths.join("\n- ")))
                .collect();
            format!("Apply failed with {} conflicts: {}", several.len(), listed.join("\n"))
        }
    };
    Err(Failure::new(409, "Conflict", message).with_details(Details { causes, ..Details::default() }))
}
