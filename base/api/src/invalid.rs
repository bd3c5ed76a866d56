use std::fmt;

use pilothouse_arm::{CloudError, ErrorDetails};
use serde::Serialize;

/// A request that cannot be accepted, with everything that is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} of the request cannot be accepted; correct the fields it names", fields(.0.len()))]
pub struct Invalid(pub Vec<FieldError>);

/// One thing that is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// The field's path: `properties.network.hostPrefix`, `properties.taints[0].key`.
    pub target: String,
    /// What is wrong, in the words of Kubernetes' field errors.
    pub message: String,
}

/// Collects what is wrong while a request is read and validated.
#[derive(Debug, Default)]
pub(crate) struct Problems {
    found: Vec<FieldError>,
    /// How many of them are about the form of the body; see [`Problems::form_is_checked`].
    of_form: usize,
}

fn fields(count: usize) -> String {
    if count == 1 { "one field".to_owned() } else { format!("{count} fields") }
}

impl Problems {
    fn add(&mut self, target: impl Into<String>, message: String) {
        let problem = FieldError { target: target.into(), message };
        if !self.found.contains(&problem) && !self.has_no_form(&problem.target) {
            self.found.push(problem);
        }
    }

    /// Whether a field was taken out for its form, so that nothing else can be said about it.
    fn has_no_form(&self, target: &str) -> bool {
        self.found[..self.of_form].iter().any(|problem| is_at_or_below(target, &problem.target))
    }

    /// From here on nothing is added about fields that were found malformed: they have been taken out, and what stands
    /// in their place was not asked for.
    pub(crate) fn form_is_checked(&mut self) {
        self.of_form = self.found.len();
    }

    pub(crate) fn mismatch(&mut self, target: impl Into<String>, expected: &str, found: &str) {
        let message =
            format!("The request content could not be deserialised: expected {expected}, found {found}.");
        self.add(target, message);
    }

    pub(crate) fn required(&mut self, target: impl Into<String>) {
        self.add(target, "Required value".to_owned());
    }

    pub(crate) fn required_because(&mut self, target: impl Into<String>, why: impl fmt::Display) {
        self.add(target, format!("Required value: {why}"));
    }

    pub(crate) fn null(&mut self, target: impl Into<String>) {
        self.required_because(target, "field cannot be null");
    }

    pub(crate) fn invalid(
        &mut self,
        target: impl Into<String>,
        value: impl Serialize,
        why: impl fmt::Display,
    ) {
        // Cannot fail: texts, numbers and lists of them are shown.
        let value = serde_json::to_string(&value).unwrap_or_default();
        self.add(target, format!("Invalid value: {value}: {why}"));
    }

    pub(crate) fn unsupported(
        &mut self,
        target: impl Into<String>,
        value: &str,
        supported: &[impl AsRef<str>],
    ) {
        let mut supported: Vec<_> = supported.iter().map(|name| format!("{:?}", name.as_ref())).collect();
        supported.sort_unstable();
        self.add(target, format!("Unsupported value: {value:?}: supported values: {}", supported.join(", ")));
    }

    pub(crate) fn forbidden(&mut self, target: impl Into<String>, why: impl fmt::Display) {
        self.add(target, format!("Forbidden: {why}"));
    }

    pub(crate) fn too_many(&mut self, target: impl Into<String>, count: usize, most: usize) {
        self.add(target, format!("Too many: {count}: must have at most {most} items"));
    }

    pub(crate) fn too_long(&mut self, target: impl Into<String>, most: usize) {
        self.add(target, format!("Too long: may not be more than {most} characters"));
    }

    pub(crate) fn duplicate(&mut self, target: impl Into<String>, value: &str) {
        self.add(target, format!("Duplicate value: {value:?}"));
    }

    /// Whether something in a field was taken out because it was malformed, and not merely missing; or the field with
    /// what it is in.
    pub(crate) fn is_malformed(&self, target: &str) -> bool {
        self.has_no_form(target)
            || self.found[..self.of_form].iter().any(|problem| {
                // A list is taken out for any of its items; a member that is missing takes nothing with it.
                let is_missing =
                    problem.message.starts_with("Required value") && !problem.target.ends_with(']');
                is_at_or_below(&problem.target, target) && !is_missing
            })
    }

    /// Whether a field, or something in it, was found wrong already.
    pub(crate) fn is_known(&self, target: &str) -> bool {
        self.found.iter().any(|problem| is_at_or_below(&problem.target, target))
    }

    /// The value, unless something was found wrong.
    pub(crate) fn finish<T>(self, value: T) -> Result<T, Invalid> {
        if self.found.is_empty() { Ok(value) } else { Err(Invalid(self.found)) }
    }
}

fn is_at_or_below(target: &str, ancestor: &str) -> bool {
    match target.strip_prefix(ancestor) {
        Some(rest) => ancestor.is_empty() || rest.is_empty() || rest.starts_with(['.', '[']),
        None => false,
    }
}

impl From<Invalid> for CloudError {
    fn from(Invalid(problems): Invalid) -> Self {
        Self::of_details(
            problems
                .into_iter()
                .map(|FieldError { target, message }| ErrorDetails {
                    // Without one, it is about the body as a whole.
                    target: Some(target).filter(|target| !target.is_empty()),
                    ..ErrorDetails::field("", message)
                })
                .collect(),
        )
    }
}
