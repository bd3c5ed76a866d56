//! What each part of a process says, for somebody who keeps the parts apart.
//!
//! A process in which several services live has one log. A [`Journal`] hands the same lines to a [`Keeper`], with whose they
//! are: the crate that said it, and the task it was said in.

use std::fmt;
use std::io;
use std::sync::{Arc, OnceLock};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use super::{DEFAULT_FILTER, Error, choose_filter};

/// Keeps lines. Must not say anything itself: that would be another line.
pub trait Keeper: Send + Sync {
    /// Takes a line with its end.
    fn keep(&self, origin: &Origin<'_>, line: &[u8]);
}

/// Where a line comes from.
#[derive(Clone, Copy, Debug)]
pub struct Origin<'a> {
    /// The module that said it.
    pub target: &'a str,
    /// Whose task it was said in; see [`Tasks`](crate::Tasks).
    pub owner: Option<&'a str>,
    /// That task.
    pub task: Option<&'a str>,
}

/// The way to a keeper, who may come later; until then nothing is kept. A cheap handle.
#[derive(Clone)]
pub struct Journal {
    filter: String,
    keeper: Arc<OnceLock<Box<dyn Keeper>>>,
}

/// The task of a span, if it is one's.
#[derive(Clone, Debug, Default)]
struct Task {
    owner: Option<String>,
    name: Option<String>,
}

/// Remembers of every task's span whose it is.
struct Owners;

/// Writes lines as `format` does, for the keeper alone.
struct Sorted<F> {
    format: F,
    journal: Journal,
}

// === impl Journal ===

impl Journal {
    /// Of what this filter lets through, in the notation of `RUST_LOG`; by default what a log is of by default.
    pub fn new(filter: Option<&str>) -> Self {
        Self { filter: filter.unwrap_or(DEFAULT_FILTER).to_owned(), keeper: Arc::default() }
    }

    /// Begins to keep. The first keeper stays.
    pub fn begin(&self, keeper: impl Keeper + 'static) {
        // Said twice by nobody: a process has one region.
        let _ = self.keeper.set(Box::new(keeper));
    }
}

impl Default for Journal {
    fn default() -> Self {
        Self::new(None)
    }
}

impl fmt::Debug for Journal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Journal").field("filter", &self.filter).finish_non_exhaustive()
    }
}

impl PartialEq for Journal {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.keeper, &other.keeper)
    }
}

impl Eq for Journal {}

/// The layer that tells a journal.
pub(super) fn layer<S>(journal: Journal) -> Result<impl Layer<S> + use<S>, Error>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    let filter = choose_filter(Some(&journal.filter), |_| Err(std::env::VarError::NotPresent))?;
    let lines = tracing_subscriber::fmt::layer()
        .json()
        .flatten_event(true)
        .with_current_span(false)
        .with_span_list(true)
        .with_writer(io::sink)
        .map_event_format(|format| Sorted { format, journal });
    Ok(Owners.and_then(lines).with_filter(filter))
}

// === impl Owners ===

impl<S: Subscriber + for<'span> LookupSpan<'span>> Layer<S> for Owners {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut task = Task::default();
        attributes.record(&mut task);
        if let (Some(span), Some(_)) = (context.span(id), &task.owner) {
            span.extensions_mut().insert(task);
        }
    }
}

// === impl Task ===

impl Visit for Task {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "owner" => self.owner = Some(format!("{value:?}")),
            "task" => self.name = Some(format!("{value:?}")),
            _ => {}
        }
    }
}

// === impl Sorted ===

impl<S, N, F> FormatEvent<S, N> for Sorted<F>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
    N: for<'writer> FormatFields<'writer> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        _nowhere: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let Some(keeper) = self.journal.keeper.get() else { return Ok(()) };
        let mut line = String::new();
        self.format.format_event(context, Writer::new(&mut line), event)?;
        let task = context
            .event_scope()
            .and_then(|mut spans| spans.find_map(|span| span.extensions().get::<Task>().cloned()))
            .unwrap_or_default();
        let target = event.metadata().target();
        let origin = Origin { target, owner: task.owner.as_deref(), task: task.name.as_deref() };
        keeper.keep(&origin, line.as_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    /// What was kept: owner, task and line.
    #[derive(Clone, Default)]
    struct Shelf(Arc<Mutex<Vec<(String, String, serde_json::Value)>>>);

    impl Keeper for Shelf {
        fn keep(&self, origin: &Origin<'_>, line: &[u8]) {
            let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
            let line = serde_json::from_slice(line).unwrap();
            self.0.lock().unwrap().push((text(origin.owner), text(origin.task), line));
        }
    }

    fn told(filter: Option<&str>, events: impl FnOnce(&Journal)) -> Vec<(String, String, serde_json::Value)> {
        let (journal, shelf) = (Journal::new(filter), Shelf::default());
        let subscriber = tracing_subscriber::registry().with(layer(journal.clone()).unwrap());
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!("before anybody keeps");
            journal.begin(shelf.clone());
            events(&journal);
        });
        shelf.0.lock().unwrap().clone()
    }

    #[test]
    fn lines_come_with_the_task_they_were_said_in() {
        let kept = told(None, |_| {
            let task = tracing::info_span!("task", owner = %"gateway", task = %"connection").entered();
            let _request = tracing::info_span!("request", host = "api.first").entered();
            tracing::info!(peer = "ada", "served");
            tracing::debug!("not asked for");
            drop(task);
            tracing::warn!("nobody's");
        });
        let whose: Vec<_> = kept.iter().map(|(owner, task, _)| (owner.as_str(), task.as_str())).collect();
        assert_eq!(whose[0], ("gateway", "connection"));
        assert_eq!(
            (kept[0].2["message"].as_str(), kept[0].2["peer"].as_str()),
            (Some("served"), Some("ada"))
        );
        assert_eq!(kept[1].2["message"], "nobody's");
        assert_eq!(kept.len(), 2, "{kept:?}");
    }

    #[test]
    fn filter_says_what_is_kept() {
        let kept = told(Some("debug"), |_| tracing::debug!("asked for"));
        assert_eq!(kept.len(), 1, "{kept:?}");
    }
}
