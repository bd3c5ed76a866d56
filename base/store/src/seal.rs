//! Sealing a document's secrets on its way to an engine, and opening them on the way back.

use std::sync::Arc;

use serde_json::Value;

use crate::container::{Prepared, Secrecy};
use crate::outline::{self, Outline};
use crate::pattern::Pattern;
use crate::transaction::Key;
use crate::wiped::Wiped;
use crate::{Error, Keyring};

/// Why secrets could not be gone through.
enum Stopped {
    Form(serde_json::Error),
    Refused(Error),
}

/// The body as an engine may see it, and the id of the key that sealed part of it.
pub(crate) fn seal(
    container: &Prepared,
    key: &Key,
    body: &mut Outline<'_>,
    keyring: Option<&Keyring>,
) -> Result<(Arc<str>, Option<String>), Error> {
    let mut used = None;
    if container.has_secrets() {
        let keyring = keyring.ok_or_else(|| no_keyring("sealed"))?;
        each_secret(key, container.specification.sealed, &container.secrets, body, |pointer, value| {
            let mut plain;
            let text = match &*value {
                Outline::Text(text) => *text,
                other => {
                    plain = Wiped::with_capacity(other.length());
                    other.write(plain.text_mut());
                    &*plain
                }
            };
            let (sealed, id) = keyring.seal(&place(key, pointer), text.as_bytes())?;
            *value = Outline::Sealed(quoted(sealed, &id));
            used = Some(id);
            Ok(())
        })?;
    }
    // There is nothing in it that others may not see.
    let mut text = String::with_capacity(body.length());
    body.write(&mut text);
    Ok((text.into(), used))
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
    // Whether it is JSON shows when it is taken apart.
    let mut outline = Outline::Text(&body);
    each_secret(key, container.specification.sealed, &container.secrets, &mut outline, |pointer, value| {
        open_one(key, pointer, value, keyring)
    })?;
    Ok(written(&outline))
}

/// One value that was sealed, as its owner wrote it. It is at `pointer`, and `sealed` is what stands there, as JSON.
pub(crate) fn open_value(
    key: &Key,
    pointer: &str,
    sealed: &str,
    keyring: Option<&Keyring>,
) -> Result<Wiped, Error> {
    let failed = |problem: String| Error::Sealing { action: "opened", problem };
    let keyring = keyring.ok_or_else(|| no_keyring("opened"))?;
    let Some(sealed) = outline::string(sealed) else {
        return Err(failed(format!("the value at `{pointer}` of {key} is not sealed")));
    };
    let mut plain = keyring.open_sealed(&place(key, pointer), &sealed)?;
    String::from_utf8(std::mem::take(&mut *plain))
        .map(Wiped::new)
        .map_err(|_| failed(format!("the value at `{pointer}` of {key} is not text")))
}

/// The body with everything opened that `secrecy` may have sealed: a declaration that was interrupted leaves
/// some documents as they were before, and some as they will be.
pub(crate) fn open_where_sealed(
    secrecy: &Secrecy,
    key: &Key,
    body: &str,
    keyring: Option<&Keyring>,
) -> Result<Arc<str>, Error> {
    let patterns =
        secrecy.secrets.iter().map(|path| Pattern::try_new(path)).collect::<Result<Vec<_>, _>>()?;
    let mut outline = outline(key, body)?;
    each_secret(key, secrecy.sealed, &patterns, &mut outline, |pointer, value| {
        if is_sealed(value) { open_one(key, pointer, value, keyring) } else { Ok(()) }
    })?;
    Ok(written(&outline))
}

/// The pointer of a secret that an engine has in clear, if there is one.
pub(crate) fn first_in_clear(
    container: &Prepared,
    key: &Key,
    body: &mut Outline<'_>,
) -> Result<Option<String>, Error> {
    let mut found = None;
    each_secret(key, container.specification.sealed, &container.secrets, body, |pointer, value| {
        if !is_sealed(value) && found.is_none() {
            found = Some(pointer.to_owned());
        }
        Ok(())
    })?;
    Ok(found)
}

/// A stored body, to be looked into.
pub(crate) fn outline<'a>(key: &Key, body: &'a str) -> Result<Outline<'a>, Error> {
    Outline::try_new(body).map_err(|error| misshapen(key, error))
}

fn misshapen(key: &Key, source: serde_json::Error) -> Error {
    Error::Form { container: key.container.to_string(), id: key.id.clone(), path: ".".to_owned(), source }
}

fn written(body: &Outline<'_>) -> Arc<str> {
    let mut text = Wiped::with_capacity(body.length());
    body.write(text.text_mut());
    Arc::from(&*text)
}

/// Gives every value that is to be secret to `change`, with its pointer.
fn each_secret(
    key: &Key,
    whole: bool,
    patterns: &[Pattern],
    body: &mut Outline<'_>,
    mut change: impl FnMut(&str, &mut Outline<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    if whole {
        return change("", body);
    }
    let mut change =
        |pointer: &str, value: &mut Outline<'_>| change(pointer, value).map_err(Stopped::Refused);
    let gone_through = patterns.iter().try_for_each(|pattern| pattern.for_each_mut(body, &mut change));
    gone_through.map_err(|stopped| match stopped {
        Stopped::Form(error) => misshapen(key, error),
        Stopped::Refused(error) => error,
    })
}

fn open_one(
    key: &Key,
    pointer: &str,
    value: &mut Outline<'_>,
    keyring: Option<&Keyring>,
) -> Result<(), Error> {
    let sealed = match value {
        Outline::Text(text) => *text,
        // Nothing that was taken apart is a text.
        _ => "",
    };
    *value = Outline::Opened(open_value(key, pointer, sealed, keyring)?);
    Ok(())
}

/// What was sealed, as JSON. All of it but the key's id is letters and digits, and need not be looked through.
fn quoted(mut sealed: String, id: &str) -> String {
    let is_plain = id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if !is_plain {
        return Value::from(sealed).to_string();
    }
    sealed.insert(0, '"');
    sealed.push('"');
    sealed
}

fn is_sealed(value: &Outline<'_>) -> bool {
    value.string().is_some_and(|text| Keyring::is_sealed(&text))
}

/// Sealed into the secret, so that it cannot be moved to another document or field.
fn place(key: &Key, pointer: &str) -> String {
    format!("{key}#{pointer}")
}

fn no_keyring(action: &'static str) -> Error {
    Error::Sealing { action, problem: "the store was opened without a keyring".to_owned() }
}

impl From<serde_json::Error> for Stopped {
    fn from(error: serde_json::Error) -> Self {
        Self::Form(error)
    }
}
