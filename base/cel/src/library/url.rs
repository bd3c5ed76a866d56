//! URLs, as far as rules take them apart.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::{Outcome, text};
use crate::error::EvaluationError;
use crate::value::Value;

/// The parts of a URL, as they were written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Url {
    scheme: String,
    host: String,
    path: String,
    query: String,
}

impl Url {
    /// Only what is absolute, or at least a path from the root.
    fn parse(text: &str) -> Option<Self> {
        if text.chars().any(|one| one.is_ascii_control() || one == ' ') {
            return None;
        }
        let (rest, query) = text.split_once('?').unwrap_or((text, ""));
        if rest.starts_with('/') {
            return Some(Self { path: rest.to_owned(), query: query.to_owned(), ..Self::default() });
        }
        let (scheme, rest) = rest.split_once(':')?;
        let named = scheme.starts_with(|one: char| one.is_ascii_alphabetic())
            && scheme.chars().all(|one| one.is_ascii_alphanumeric() || "+-.".contains(one));
        if !named {
            return None;
        }
        let Some(rest) = rest.strip_prefix("//") else {
            return rest.starts_with('/').then(|| Self {
                scheme: scheme.to_ascii_lowercase(),
                path: rest.to_owned(),
                query: query.to_owned(),
                ..Self::default()
            });
        };
        let (authority, path) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        let url = Self {
            scheme: scheme.to_ascii_lowercase(),
            host: host.to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
        };
        let is_port = url.port().bytes().all(|byte| byte.is_ascii_digit());
        let bracketed = host.starts_with('[') == host.contains(']');
        (is_port && bracketed).then_some(url)
    }

    /// Where the port starts, if there is one.
    fn colon(&self) -> Option<usize> {
        let after = self.host.rfind(']').map_or(0, |at| at + 1);
        self.host[after..].rfind(':').map(|at| at + after)
    }

    fn port(&self) -> &str {
        self.colon().map_or("", |at| &self.host[at + 1..])
    }

    fn host_name(&self) -> &str {
        let name = self.colon().map_or(self.host.as_str(), |at| &self.host[..at]);
        name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name)
    }

    fn parameters(&self) -> BTreeMap<String, Vec<String>> {
        let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for pair in self.query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            if let (Some(name), Some(value)) = (unescaped(name), unescaped(value)) {
                all.entry(name).or_default().push(value);
            }
        }
        all
    }
}

fn unescaped(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => {
                let digits = [rest.next()?, rest.next()?];
                bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
            }
            other => bytes.push(other),
        }
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

pub(super) fn call<'a>(function: &str, arguments: &[Value<'a>]) -> Option<Outcome<'a>> {
    Some(Ok(match (function, arguments) {
        ("isURL", [value]) => Value::Bool(Url::parse(text(value)?).is_some()),
        ("url", [value]) => {
            let text = text(value)?;
            match Url::parse(text) {
                Some(url) => Value::Url(Rc::new(url)),
                None => {
                    let why = match text.starts_with(':') {
                        true => "missing protocol scheme",
                        false => "invalid URI for request",
                    };
                    let message =
                        format!("URL parse error during conversion from string: parse \"{text}\": {why}");
                    return Some(Err(EvaluationError::Failed(message)));
                }
            }
        }
        ("getScheme", [Value::Url(url)]) => Value::text(url.scheme.as_str()),
        ("getHost", [Value::Url(url)]) => Value::text(url.host.as_str()),
        ("getHostname", [Value::Url(url)]) => Value::text(url.host_name()),
        ("getPort", [Value::Url(url)]) => Value::text(url.port()),
        ("getEscapedPath", [Value::Url(url)]) => Value::text(url.path.as_str()),
        ("getQuery", [Value::Url(url)]) => super::map_of_lists(url.parameters()),
        _ => return None,
    }))
}
