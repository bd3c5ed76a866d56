//! Sealing a document's secrets on its way to an engine, and opening them on the way back.

use std::sync::Arc;

use serde_json::Value;

use crate::container::{Prepared, Secrecy};
use crate::pattern::Pattern;
use crate::transaction::Key;
use crate::{Error, Keyring};

/// The body as an engine may see it, and the id of the key that sealed part of it.
pub(crate) fn seal(
    container: &Prepared,
    key: &Key,
    body: &Value,
    keyring: Option<&Keyring>,
) -> Result<(Arc<str>, Option<String>), Error> {
    if !container.has_secrets() {
        return Ok((body.to_string().into(), None));
    }
    let keyring = keyring.ok_or_else(|| no_keyring("sealed"))?;
    let mut body = body.clone();
    let mut used = None;
    each_secret(container.specification.sealed, &container.secrets, &mut body, |pointer, value| {
        let plain = zeroize::Zeroizing::new(value.to_string());
        let (sealed, id) = keyring.seal(&place(key, pointer), plain.as_bytes())?;
        *value = Value::String(sealed);
        used = Some(id);
        Ok::<_, Error>(())
    })?;
    Ok((body.to_string().into(), used))
}

/// The body as its owner wrote it.
pub(crate) fn open(
    container: &Prepared,
    key: &Key,
    body: Arc<str>,
    keyring: Option<&Keyring>,
) -> Result<Arc<str>, Error> {
    if !container.has_secrets() {
        return Ok(body);
    }
    let mut value: Value = parse(key, &body)?;
    each_secret(container.specification.sealed, &container.secrets, &mut value, |pointer, value| {
        open_one(key, pointer, value, keyring)
    })?;
    Ok(value.to_string().into())
}

/// The body with everything opened that `secrecy` may have sealed: a declaration that was interrupted leaves
/// some documents as they were before, and some as they will be.
pub(crate) fn open_where_sealed(
    secrecy: &Secrecy,
    key: &Key,
    mut value: Value,
    keyring: Option<&Keyring>,
) -> Result<Value, Error> {
    let patterns =
        secrecy.secrets.iter().map(|path| Pattern::try_new(path)).collect::<Result<Vec<_>, _>>()?;
    each_secret(secrecy.sealed, &patterns, &mut value, |pointer, value| {
        if is_sealed(value) { open_one(key, pointer, value, keyring) } else { Ok(()) }
    })?;
    Ok(value)
}

/// The pointer of a secret that an engine has in clear, if there is one.
pub(crate) fn first_in_clear(container: &Prepared, body: &Value) -> Option<String> {
    let mut body = body.clone();
    let looked =
        each_secret(container.specification.sealed, &container.secrets, &mut body, |pointer, value| {
            if is_sealed(value) { Ok(()) } else { Err(pointer.to_owned()) }
        });
    looked.err()
}

/// A stored body as a value.
pub(crate) fn parse(key: &Key, body: &str) -> Result<Value, Error> {
    serde_json::from_str(body).map_err(|source| Error::Form {
        container: key.container.to_string(),
        id: key.id.clone(),
        path: ".".to_owned(),
        source,
    })
}

/// Gives every value that is to be secret to `change`, with its pointer.
fn each_secret<E>(
    whole: bool,
    patterns: &[Pattern],
    body: &mut Value,
    mut change: impl FnMut(&str, &mut Value) -> Result<(), E>,
) -> Result<(), E> {
    if whole {
        return change("", body);
    }
    patterns.iter().try_for_each(|pattern| pattern.for_each_mut(body, &mut change))
}

fn open_one(key: &Key, pointer: &str, value: &mut Value, keyring: Option<&Keyring>) -> Result<(), Error> {
    let failed = |problem: String| Error::Sealing { action: "opened", problem };
    let keyring = keyring.ok_or_else(|| no_keyring("opened"))?;
    let sealed =
        value.as_str().ok_or_else(|| failed(format!("the value at `{pointer}` of {key} is not sealed")))?;
    let plain = keyring.open_sealed(&place(key, pointer), sealed)?;
    *value = serde_json::from_slice(&plain)
        .map_err(|_| failed(format!("the value at `{pointer}` of {key} is not JSON")))?;
    Ok(())
}

fn is_sealed(value: &Value) -> bool {
    value.as_str().is_some_and(Keyring::is_sealed)
}

/// Sealed into the secret, so that it cannot be moved to another document or field.
fn place(key: &Key, pointer: &str) -> String {
    format!("{key}#{pointer}")
}

fn no_keyring(action: &'static str) -> Error {
    Error::Sealing { action, problem: "the store was opened without a keyring".to_owned() }
}
