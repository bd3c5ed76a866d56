use std::fmt;

use pilothouse_arm::{CloudError, ErrorDetails};

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
pub(crate) struct Problems(Vec<FieldError>);

fn fields(count: usize) -> String {
    if count == 1 { "one field".to_owned() } else { format!("{count} fields") }
}

impl Problems {
    fn add(&mut self, target: impl Into<String>, message: String) {
        let problem = FieldError { target: target.into(), message };
        // A value may be found wrong where it is read and again where it is compared.
        if !self.0.contains(&problem) {
            self.0.push(problem);
        }
    }

    pub(crate) fn required(&mut self, target: impl Into<String>) {
        self.add(target, "Required value".to_owned());
    }

    pub(crate) fn null(&mut self, target: impl Into<String>) {
        self.add(target, "Required value: field cannot be null".to_owned());
    }

    pub(crate) fn invalid(
        &mut self,
        target: impl Into<String>,
        value: impl fmt::Debug,
        why: impl fmt::Display,
    ) {
        self.add(target, format!("Invalid value: {value:?}: {why}"));
    }

    pub(crate) fn unsupported(&mut self, target: impl Into<String>, value: &str, supported: &[&str]) {
        let mut supported: Vec<_> = supported.iter().map(|name| format!("{name:?}")).collect();
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
        self.add(target, format!("Too long: may not be more than {most} bytes"));
    }

    pub(crate) fn duplicate(&mut self, target: impl Into<String>, value: impl fmt::Debug) {
        self.add(target, format!("Duplicate value: {value:?}"));
    }

    /// Whether a field, or something in it, was found wrong already.
    pub(crate) fn is_known(&self, target: &str) -> bool {
        self.0.iter().any(|problem| problem.target.starts_with(target))
    }

    /// The value, unless something was found wrong.
    pub(crate) fn finish<T>(self, value: T) -> Result<T, Invalid> {
        if self.0.is_empty() { Ok(value) } else { Err(Invalid(self.0)) }
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
