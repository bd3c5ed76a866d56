//! One bad request, and how it must be refused.

use http::Method;
use serde_json::Value;

use crate::bodies::cluster_id;

/// The version that rows speak, unless they say another.
const VERSION: &str = "2026-10-01";

/// One bad request, and how it must be refused.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    /// What is wrong with it.
    pub(crate) what: String,
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Vec<u8>,
    pub(crate) expected: Expected,
}

/// Status, code, and what the error is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Expected {
    pub(crate) status: u16,
    /// Empty where the answer has no body.
    pub(crate) code: String,
    /// Of the error; or, if there are several, of its details in the order of the alphabet.
    pub(crate) targets: Vec<String>,
}

/// A request about something, in the version that rows speak.
pub(crate) fn request(what: &str, method: Method, path: &str) -> Row {
    let separator = if path.contains('?') { '&' } else { '?' };
    bare(what, method, &format!("{path}{separator}api-version={VERSION}"))
}

/// A request for exactly this path and query.
pub(crate) fn bare(what: &str, method: Method, path: &str) -> Row {
    Row {
        what: what.to_owned(),
        method,
        path: path.to_owned(),
        headers: Vec::new(),
        body: Vec::new(),
        expected: Expected { status: 0, code: String::new(), targets: Vec::new() },
    }
}

/// A PUT of this body.
pub(crate) fn put(what: &str, path: &str, body: &Value) -> Row {
    request(what, Method::PUT, path).json(body)
}

/// A PATCH with this body.
pub(crate) fn patch(what: &str, path: &str, body: &Value) -> Row {
    request(what, Method::PATCH, path).json(body)
}

/// A POST of this body.
pub(crate) fn post(what: &str, path: &str, body: &Value) -> Row {
    request(what, Method::POST, path).json(body)
}

/// A GET.
pub(crate) fn get(what: &str, path: &str) -> Row {
    request(what, Method::GET, path)
}

/// A DELETE.
pub(crate) fn delete(what: &str, path: &str) -> Row {
    request(what, Method::DELETE, path)
}

/// Something in the cluster that is ready.
pub(crate) fn in_ready(rest: &str) -> String {
    format!("{}/{rest}", cluster_id("ready"))
}

impl Row {
    pub(crate) fn json(self, body: &Value) -> Self {
        self.raw(body.to_string()).header("content-type", "application/json")
    }

    pub(crate) fn raw(self, body: impl Into<Vec<u8>>) -> Self {
        Self { body: body.into(), ..self }
    }

    pub(crate) fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// The same in another version.
    pub(crate) fn version(self, version: &str) -> Self {
        let path = self.path.replace(&format!("api-version={VERSION}"), &format!("api-version={version}"));
        Self { path, ..self }
    }

    /// How it is refused, where the error is about nothing in particular.
    pub(crate) fn is(self, status: u16, code: &str) -> Self {
        self.expect(status, code, Vec::new())
    }

    /// How it is refused, and what the error is about.
    pub(crate) fn at(self, status: u16, code: &str, target: &str) -> Self {
        self.expect(status, code, vec![target.to_owned()])
    }

    /// One field of the body is wrong.
    pub(crate) fn wrong(self, field: &str) -> Self {
        self.at(400, "InvalidRequestContent", field)
    }

    /// Several fields of the body are wrong.
    pub(crate) fn all_wrong(self, fields: &[&str]) -> Self {
        let mut targets: Vec<_> = fields.iter().map(|field| (*field).to_owned()).collect();
        targets.sort_unstable();
        self.expect(400, "MultipleErrorsOccurred", targets)
    }

    fn expect(self, status: u16, code: &str, targets: Vec<String>) -> Self {
        Self { expected: Expected { status, code: code.to_owned(), targets }, ..self }
    }
}
