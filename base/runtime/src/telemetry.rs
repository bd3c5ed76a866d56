//! Logs to stderr, and traces to a collector if one is configured.
//!
//! [`install`] is called once, early in `main`, and its [`Guard`] is held to the end: dropping it sends what has
//! not been sent. Libraries and tests never call it; they only use `tracing`.
//!
//! People get coloured lines, everything else gets JSON, one object a line, told apart by whether stderr is a
//! terminal; the configuration may say otherwise. Standard output is left to data.
//!
//! Which events are logged is said in the notation of `RUST_LOG`, in order of preference by the
//! configuration, [`LOG_VARIABLE`], or `RUST_LOG`. A filter that cannot be understood is an error: whoever sets
//! one wants to see something, and would otherwise look for it in vain.

use std::env::{self, VarError};
use std::io::{self, IsTerminal};

use serde::{Deserialize, Serialize};
use tracing::Subscriber;
use tracing_subscriber::filter::{self, EnvFilter};
use tracing_subscriber::fmt::writer::BoxMakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt};

mod export;
mod journal;
#[cfg(test)]
mod tests;

use export::Exporter;
pub use journal::{Journal, Keeper, Origin};

/// Which events to log, in the notation of `RUST_LOG`.
pub const LOG_VARIABLE: &str = "PILOTHOUSE_LOG";

/// How to write the log: one of [`Format`].
pub const LOG_FORMAT_VARIABLE: &str = "PILOTHOUSE_LOG_FORMAT";

/// The variable that everybody else reads, if ours says nothing.
const COMMON_LOG_VARIABLE: &str = "RUST_LOG";

/// What is logged if nobody says otherwise. The Kubernetes client calls every failed call an error, also those that its caller
/// expects and deals with; whoever called says what matters.
const DEFAULT_FILTER: &str = "info,kube_client=off";

/// What is logged, how, and where traces go.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// How events are written.
    pub format: Format,
    /// Which events are logged; `None` leaves it to the environment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
    /// Where traces are sent: the base URL of a collector that speaks OTLP over HTTP, such as
    /// `http://localhost:4318`. `None` sends none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub otlp_endpoint: Option<String>,
    /// Who else is told, beside the log.
    #[serde(skip)]
    pub journal: Option<Journal>,
}

/// How events are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// As text on a terminal, as JSON otherwise.
    #[default]
    Auto,
    /// For people.
    Text,
    /// For machines: one JSON object a line.
    Json,
}

/// Why telemetry cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The filter cannot be understood.
    #[error("`{filter}` from {origin} is not a log filter")]
    Filter {
        /// The filter.
        filter: String,
        /// Who says so.
        origin: &'static str,
        /// Why it is none.
        source: filter::ParseError,
    },
    /// The filter is no text.
    #[error("the environment variable {0} is not valid UTF-8")]
    NotText(&'static str),
    /// The collector's address cannot be used.
    #[error("cannot send traces to `{endpoint}`")]
    Endpoint {
        /// The address.
        endpoint: String,
        /// Why not.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// HTTPS needs a crypto provider, and none has been installed for the process.
    #[error("install a crypto provider for the process before telemetry that sends traces")]
    NoCryptoProvider,
    /// Exporting has threads of its own, and they cannot be started.
    #[error("cannot start the threads that send traces")]
    Threads(#[source] io::Error),
    /// There already is telemetry in this process.
    #[error("telemetry has already been set up in this process")]
    AlreadyInstalled,
}

/// Keeps telemetry working; sends what is left when dropped.
#[derive(Debug)]
#[must_use = "traces are sent only as long as this is held"]
pub struct Guard {
    exporter: Option<Exporter>,
}

/// Sets up telemetry for the whole process, which calls itself `service`.
///
/// # Errors
///
/// When the configuration cannot be used, or telemetry is already set up.
pub fn install(service: &str, config: &Config) -> Result<Guard, Error> {
    let log = log_layer(config, io::stderr().is_terminal(), BoxMakeWriter::new(io::stderr))?;
    let exporter =
        config.otlp_endpoint.as_deref().map(|endpoint| Exporter::start(service, endpoint)).transpose()?;
    let traces = exporter.as_ref().map(Exporter::layer);
    let journal = config.journal.clone().map(journal::layer).transpose()?;
    tracing_subscriber::registry()
        .with(traces)
        .with(log)
        .with(journal)
        .try_init()
        .map_err(|_already_set| Error::AlreadyInstalled)?;
    Ok(Guard { exporter })
}

// === impl Guard ===

impl Guard {
    /// Sends what has not been sent; the same as dropping it, with a name. Blocks for some seconds at most.
    pub fn flush(self) {
        drop(self);
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(exporter) = self.exporter.take() {
            exporter.stop();
        }
    }
}

/// The layer that writes events, filtered; spans that are filtered out here may still be exported.
fn log_layer<S>(
    config: &Config,
    terminal: bool,
    writer: BoxMakeWriter,
) -> Result<impl Layer<S> + use<S>, Error>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    let filter = choose_filter(config.filter.as_deref(), |name| env::var(name))?;
    let text = match config.format {
        Format::Auto => terminal,
        Format::Text => true,
        Format::Json => false,
    };
    // Otherwise it would say on standard error that it cannot write there, and panic: terminals are closed, and pipes end.
    let layer = fmt::layer().with_writer(writer).log_internal_errors(false);
    let layer = if text {
        layer.with_ansi(terminal).boxed()
    } else {
        layer.json().flatten_event(true).with_current_span(false).with_span_list(true).boxed()
    };
    Ok(layer.with_filter(filter))
}

fn choose_filter(
    configured: Option<&str>,
    variable: impl Fn(&str) -> Result<String, VarError>,
) -> Result<EnvFilter, Error> {
    let parse = |filter: &str, origin| {
        EnvFilter::try_new(filter).map_err(|error| Error::Filter {
            filter: filter.to_owned(),
            origin,
            source: error,
        })
    };
    if let Some(filter) = configured {
        return parse(filter, "the configuration");
    }
    for name in [LOG_VARIABLE, COMMON_LOG_VARIABLE] {
        match variable(name) {
            // Set to nothing is how shells unset.
            Ok(filter) if filter.trim().is_empty() => {}
            Ok(filter) => return parse(&filter, name),
            Err(VarError::NotPresent) => {}
            Err(VarError::NotUnicode(_)) => return Err(Error::NotText(name)),
        }
    }
    parse(DEFAULT_FILTER, "the default")
}
