//! What can be wrong with an expression, before and while it is evaluated.

use std::fmt;

/// What is wrong at one place of an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) at: usize,
    pub(crate) message: String,
}

impl Problem {
    pub(crate) fn new(at: usize, message: impl Into<String>) -> Self {
        Self { at, message: message.into() }
    }
}

/// An expression that cannot be used, shown with the places at fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct CompileError {
    text: String,
    problems: Vec<Problem>,
}

impl CompileError {
    pub(crate) fn new(text: &str, mut problems: Vec<Problem>) -> Self {
        problems.sort_by_key(|problem| problem.at);
        Self { text: text.to_owned(), problems }
    }
}

impl fmt::Display for CompileError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, problem) in self.problems.iter().enumerate() {
            if place > 0 {
                formatter.write_str("\n")?;
            }
            let before: String = self.text.chars().take(problem.at).collect();
            let line = before.matches('\n').count();
            let column = before.rsplit('\n').next().unwrap_or_default().chars().count();
            let shown = self.text.split('\n').nth(line).unwrap_or_default().replace('\t', " ");
            let dots: String =
                shown.chars().take(column).map(|one| if one.is_ascii() { '.' } else { '．' }).collect();
            let mark = if shown.chars().nth(column).is_none_or(|one| one.is_ascii()) { '^' } else { '＾' };
            let message = &problem.message;
            write!(
                formatter,
                "ERROR: <input>:{}:{}: {message}\n | {shown}\n | {dots}{mark}",
                line + 1,
                column + 1
            )?;
        }
        Ok(())
    }
}

/// Why an expression has no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EvaluationError {
    /// The work exceeds the bound.
    #[error("operation cancelled: actual cost limit exceeded")]
    CostLimit,
    /// A function was given what it does not take. Only values whose type is not known beforehand can be wrong this way.
    #[error("no such overload{}", function.as_deref().map(|name| format!(": {name}")).unwrap_or_default())]
    NoSuchOverload {
        /// The function, where it is known.
        function: Option<String>,
    },
    /// Anything else, in words.
    #[error("{0}")]
    Failed(String),
}

impl EvaluationError {
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self::Failed(message.into())
    }

    pub(crate) fn overload(function: &str) -> Self {
        Self::NoSuchOverload { function: Some(function.to_owned()) }
    }
}
