//! Sets of field paths: what a manager owns.
//!
//! A trie in memory, `FieldsV1` on the wire: `f:NAME` for a field, `k:{…}` for an item of a keyed list, `v:VALUE` for an item
//! of a set, `.` for the node itself.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::shape::{Items, Shape};

/// One step of a path, in its wire form.
pub(super) type Element = String;

/// A set of paths below some node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct FieldSet {
    /// The node itself is in the set.
    pub(super) owned: bool,
    pub(super) children: BTreeMap<Element, Self>,
}

/// How one object differs from another.
#[derive(Debug, Default)]
pub(super) struct Difference {
    /// Paths that are new or have another value.
    pub(super) changed: FieldSet,
    pub(super) removed: FieldSet,
}

/// An item of a list or map, as an element of a path.
pub(super) fn field(name: &str) -> Element {
    format!("f:{name}")
}

/// The elements of a list's items, or `None` where the list is one value.
pub(super) fn elements(parent: Shape<'_>, name: &str, items: &[Value]) -> Option<Vec<Element>> {
    match parent.list(name) {
        Items::Atomic => None,
        Items::Set => Some(items.iter().map(|item| format!("v:{item}")).collect()),
        Items::Map => {
            Some(items.iter().map(|item| format!("k:{}", Value::Object(parent.key_of(name, item)))).collect())
        }
    }
}

// === impl FieldSet ===

impl FieldSet {
    /// Every field an applied configuration gives.
    pub(super) fn of(object: &Value, shape: Shape<'_>) -> Self {
        let mut set = Self::default();
        for (name, value) in object.as_object().into_iter().flatten() {
            set.children.insert(field(name), Self::of_field(shape, name, value));
        }
        set
    }

    fn of_field(parent: Shape<'_>, name: &str, value: &Value) -> Self {
        match value {
            Value::Object(map) => {
                let shape = parent.field(name);
                if map.is_empty() || shape.is_atomic_map() { Self::leaf() } else { Self::of(value, shape) }
            }
            Value::Array(items) => match elements(parent, name, items) {
                None => Self::leaf(),
                Some(elements) => {
                    let mut set = Self::default();
                    for (element, item) in elements.into_iter().zip(items) {
                        let mut child = Self::of(item, parent.items_of(name));
                        child.owned = true;
                        set.children.insert(element, child);
                    }
                    // An empty keyed list is nobody's, and would not be written otherwise.
                    set
                }
            },
            _ => Self::leaf(),
        }
    }

    pub(super) fn leaf() -> Self {
        Self { owned: true, children: BTreeMap::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.owned && self.children.values().all(Self::is_empty)
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.owned |= other.owned;
        for (element, theirs) in &other.children {
            self.children.entry(element.clone()).or_default().add(theirs);
        }
    }

    /// Takes away exactly the paths of the other set.
    pub(super) fn subtract(&mut self, other: &Self) {
        self.owned &= !other.owned;
        for (element, theirs) in &other.children {
            if let Some(ours) = self.children.get_mut(element) {
                ours.subtract(theirs);
                if ours.is_empty() {
                    self.children.remove(element);
                }
            }
        }
    }

    pub(super) fn intersection(&self, other: &Self) -> Self {
        let mut both = Self { owned: self.owned && other.owned, children: BTreeMap::new() };
        for (element, ours) in &self.children {
            if let Some(theirs) = other.children.get(element) {
                let child = ours.intersection(theirs);
                if !child.is_empty() {
                    both.children.insert(element.clone(), child);
                }
            }
        }
        both
    }

    /// Removes a node and all below it.
    pub(super) fn forget(&mut self, path: &[&str]) {
        match path {
            [] => {}
            [last] => {
                self.children.remove(*last);
            }
            [first, rest @ ..] => {
                if let Some(child) = self.children.get_mut(*first) {
                    child.forget(rest);
                    if child.is_empty() {
                        self.children.remove(*first);
                    }
                }
            }
        }
    }

    /// Every path, as messages write it: `.spec.ports[port=80,protocol="TCP"].name`.
    pub(super) fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        self.collect("", &mut paths);
        paths
    }

    /// What is at a node comes before what is below.
    fn collect(&self, path: &str, paths: &mut Vec<String>) {
        let children =
            || self.children.iter().map(|(element, child)| (format!("{path}{}", shown(element)), child));
        paths.extend(children().filter(|(_, child)| child.owned).map(|(path, _)| path));
        children().for_each(|(path, child)| child.collect(&path, paths));
    }

    pub(super) fn to_value(&self) -> Value {
        let mut map = Map::new();
        if self.owned && !self.children.is_empty() {
            map.insert(".".to_owned(), Value::Object(Map::new()));
        }
        for (element, child) in &self.children {
            map.insert(element.clone(), child.to_value());
        }
        Value::Object(map)
    }

    /// The set of a whole object; a client may have sent anything, and what is not a path is skipped.
    pub(super) fn from_value(value: &Value) -> Self {
        let mut set = Self::default();
        for (element, inner) in value.as_object().into_iter().flatten() {
            if element == "." {
                set.owned = true;
            } else if element.contains(':') {
                let mut child = Self::from_value(inner);
                child.owned |= child.children.is_empty();
                set.children.insert(canonical(element), child);
            }
        }
        set
    }
}

/// Keys of keyed items in sorted order, so that equal ones are the same text.
fn canonical(element: &str) -> Element {
    match element.strip_prefix("k:").map(serde_json::from_str::<Map<String, Value>>) {
        Some(Ok(keys)) => format!("k:{}", Value::Object(keys)),
        _ => element.to_owned(),
    }
}

/// An element as messages write it.
pub(super) fn shown(element: &str) -> String {
    if let Some(name) = element.strip_prefix("f:") {
        return format!(".{name}");
    }
    if let Some(Ok(keys)) = element.strip_prefix("k:").map(serde_json::from_str::<Map<String, Value>>) {
        let keys: Vec<_> = keys.iter().map(|(key, value)| format!("{key}={value}")).collect();
        return format!("[{}]", keys.join(","));
    }
    match element.strip_prefix("v:") {
        Some(value) => format!("[={value}]"),
        None => format!("[{}]", element.trim_start_matches("i:")),
    }
}

// === impl Difference ===

impl Difference {
    /// What must change in `old` to make it `new`.
    pub(super) fn between(old: &Value, new: &Value, shape: Shape<'_>) -> Self {
        let mut difference = Self::default();
        difference.maps(Some(old), Some(new), shape, &mut Vec::new());
        difference
    }

    fn maps(&mut self, old: Option<&Value>, new: Option<&Value>, shape: Shape<'_>, path: &mut Vec<Element>) {
        let empty = Map::new();
        let old = old.and_then(Value::as_object).unwrap_or(&empty);
        let new = new.and_then(Value::as_object).unwrap_or(&empty);
        for (name, before) in old {
            path.push(field(name));
            self.values(Some(before), new.get(name), shape, name, path);
            path.pop();
        }
        for (name, after) in new.iter().filter(|(name, _)| !old.contains_key(*name)) {
            path.push(field(name));
            self.values(None, Some(after), shape, name, path);
            path.pop();
        }
    }

    fn values(
        &mut self,
        old: Option<&Value>,
        new: Option<&Value>,
        parent: Shape<'_>,
        name: &str,
        path: &mut Vec<Element>,
    ) {
        if old == new {
            return;
        }
        // Null is a value of whatever type the other side has.
        let map = |value: Option<&Value>| value.is_none_or(|value| value.is_object() || value.is_null());
        let list = |value: Option<&Value>| value.is_none_or(|value| value.is_array() || value.is_null());
        let shape = parent.field(name);
        if map(old) && map(new) && !shape.is_atomic_map() && !(is_bare(old) && is_bare(new)) {
            self.maps(old, new, shape, path);
            self.presence(old, new, path);
        } else if list(old)
            && list(new)
            && parent.list(name) != Items::Atomic
            && !(is_bare(old) && is_bare(new))
        {
            self.lists(old, new, parent, name, path);
            self.presence(old, new, path);
        } else {
            self.leaf(new, path);
        }
    }

    fn lists(
        &mut self,
        old: Option<&Value>,
        new: Option<&Value>,
        parent: Shape<'_>,
        name: &str,
        path: &mut Vec<Element>,
    ) {
        let items = |value: Option<&Value>| -> BTreeMap<Element, Value> {
            let items = value.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            let elements = elements(parent, name, items).unwrap_or_default();
            elements.into_iter().zip(items.iter().cloned()).collect()
        };
        let (old, new) = (items(old), items(new));
        let shape = parent.items_of(name);
        for element in old.keys().chain(new.keys().filter(|element| !old.contains_key(*element))) {
            let (before, after) = (old.get(element), new.get(element));
            if before == after {
                continue;
            }
            path.push(element.clone());
            if before.or(after).is_some_and(Value::is_object) && !shape.is_atomic_map() {
                self.presence(before, after, path);
                self.maps(before, after, shape, path);
            } else {
                self.leaf(after, path);
            }
            path.pop();
        }
    }

    /// A node that came or went is a path of its own.
    fn presence(&mut self, old: Option<&Value>, new: Option<&Value>, path: &[Element]) {
        match (old, new) {
            (None, Some(_)) => insert(&mut self.changed, path),
            (Some(_), None) => insert(&mut self.removed, path),
            _ => {}
        }
    }

    /// One value as a whole.
    fn leaf(&mut self, new: Option<&Value>, path: &[Element]) {
        match new {
            Some(_) => insert(&mut self.changed, path),
            None => insert(&mut self.removed, path),
        }
    }
}

/// Whether nothing is in it.
fn is_bare(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => true,
        Some(Value::Object(fields)) => fields.is_empty(),
        Some(Value::Array(items)) => items.is_empty(),
        Some(_) => false,
    }
}

fn insert(set: &mut FieldSet, path: &[Element]) {
    let mut node = set;
    for element in path {
        node = node.children.entry(element.clone()).or_default();
    }
    node.owned = true;
}
