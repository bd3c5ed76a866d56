//! Environment variables as a tree of keys.

use std::collections::BTreeMap;
use std::ffi::OsString;

use super::error::{Error, Origin};
use super::node::{Node, Value};
use super::{ENVIRONMENT_PREFIX, RESERVED_VARIABLES, TEST_PREFIX};

/// Separates levels in a name. A single underscore is part of a key.
const LEVEL: &str = "__";

/// The variable that sets `path`, unless that leads through a list.
pub(super) fn variable(path: &[String]) -> Option<String> {
    let is_index = |key: &String| key.bytes().all(|byte| byte.is_ascii_digit());
    if path.iter().any(is_index) {
        return None;
    }
    Some(format!("{ENVIRONMENT_PREFIX}{}", path.join(LEVEL).to_uppercase()))
}

/// What the variables with our prefix set.
pub(super) fn tree(variables: Vec<(OsString, OsString)>) -> Result<Node, Error> {
    let mut ours = BTreeMap::new();
    for (name, value) in variables {
        // A name that is no text does not begin with our prefix in any way that matters.
        let Ok(name) = name.into_string() else { continue };
        let ours_to_read = name.starts_with(ENVIRONMENT_PREFIX)
            && !name.starts_with(TEST_PREFIX)
            && !RESERVED_VARIABLES.contains(&name.as_str());
        if !ours_to_read {
            continue;
        }
        let Ok(value) = value.into_string() else { return Err(Error::NotText(name)) };
        ours.insert(name, value);
    }

    let mut root = Node::empty();
    for (name, value) in ours {
        let path = name[ENVIRONMENT_PREFIX.len()..].to_lowercase();
        insert(&mut root, &path, &name, value)?;
    }
    Ok(root)
}

fn insert(node: &mut Node, path: &str, name: &str, value: String) -> Result<(), Error> {
    let origin = Origin::Variable(name.to_owned());
    let (key, rest) = match path.split_once(LEVEL) {
        Some((key, rest)) => (key, Some(rest)),
        None => (path, None),
    };
    let below = match &mut node.value {
        Value::Table(table) => table.get_mut(key),
        _ => None,
    };
    match (below, rest) {
        (Some(below), Some(rest)) if matches!(below.value, Value::Table(_)) => {
            insert(below, rest, name, value)
        }
        (Some(below), _) => Err(Error::Conflict(first_variable(below), name.to_owned())),
        (None, rest) => {
            let mut new = match rest {
                Some(_) => Node { value: Value::Table(BTreeMap::new()), origin: origin.clone() },
                None => Node { value: Value::Text(value.clone()), origin },
            };
            if let Some(rest) = rest {
                insert(&mut new, rest, name, value)?;
            }
            if let Value::Table(table) = &mut node.value {
                table.insert(key.to_owned(), new);
            }
            Ok(())
        }
    }
}

fn first_variable(node: &Node) -> String {
    match &node.origin {
        Origin::Variable(name) => name.clone(),
        origin => origin.to_string(),
    }
}
