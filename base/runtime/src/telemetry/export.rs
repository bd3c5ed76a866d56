//! Traces to a collector, over OTLP.
//!
//! The batch processor has a thread of its own that knows no runtime, while the HTTP client needs one. It gets a
//! small one that belongs to the exporter, not the process's: so traces are sent before that one runs, after it
//! has stopped, and however busy or stuck it is; and flushing cannot wait for itself.

use std::sync::Arc;
use std::time::Duration;

use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::{WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::{OTelSdkError, OTelSdkResult};
use opentelemetry_sdk::trace::{SdkTracerProvider, SpanData, SpanExporter};
use rustls::crypto::CryptoProvider;
use tokio::runtime::{self, Handle, Runtime};
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::{Layer, Registry};

use super::Error;

/// How long sending one batch may take.
const SEND: Duration = Duration::from_secs(10);

/// How long to try to send what is left at the end.
const FLUSH: Duration = Duration::from_secs(5);

/// Where the collector takes traces, below its base URL.
const TRACES: &str = "v1/traces";

/// Crates that take part in exporting. Their spans are not exported, or each export would cause another.
const INVOLVED: [&str; 6] = ["h2", "hyper", "hyper_util", "opentelemetry", "reqwest", "rustls"];

/// Sends spans in the background.
#[derive(Debug)]
pub(super) struct Exporter {
    provider: SdkTracerProvider,
    runtime: Runtime,
}

/// Runs another exporter where there is a reactor.
#[derive(Debug)]
struct OnRuntime<E> {
    exporter: Arc<E>,
    handle: Handle,
}

// === impl Exporter ===

impl Exporter {
    pub(super) fn start(service: &str, endpoint: &str) -> Result<Self, Error> {
        let unusable = |error: Box<dyn std::error::Error + Send + Sync>| Error::Endpoint {
            endpoint: endpoint.to_owned(),
            source: error,
        };
        // The HTTP client panics without one, even where it is only to speak plain HTTP.
        if CryptoProvider::get_default().is_none() {
            return Err(Error::NoCryptoProvider);
        }
        let client =
            reqwest::Client::builder().timeout(SEND).build().map_err(|error| unusable(error.into()))?;
        let runtime = runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("telemetry")
            .enable_all()
            .build()
            .map_err(Error::Threads)?;
        let exporter = opentelemetry_otlp::SpanExporter::builder()
            .with_http()
            .with_http_client(client)
            .with_endpoint(format!("{}/{TRACES}", endpoint.trim_end_matches('/')))
            .with_timeout(SEND)
            .build()
            .map_err(|error| unusable(error.into()))?;
        let exporter = OnRuntime { exporter: Arc::new(exporter), handle: runtime.handle().clone() };
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_resource(Resource::builder().with_service_name(service.to_owned()).build())
            .build();
        Ok(Self { provider, runtime })
    }

    /// The layer that hands spans over.
    pub(super) fn layer(&self) -> impl Layer<Registry> + use<> {
        let tracer = self.provider.tracer("pilothouse");
        tracing_opentelemetry::layer().with_tracer(tracer).with_filter(filter_fn(|metadata| {
            let name = metadata.target().split("::").next().unwrap_or_default();
            *metadata.level() <= tracing::Level::INFO && !INVOLVED.contains(&name)
        }))
    }

    pub(super) fn stop(self) {
        // There is nobody left to tell: the log may say so, the process ends anyway.
        if let Err(error) = self.provider.shutdown_with_timeout(FLUSH) {
            tracing::warn!(%error, "the last traces were not sent");
        }
        // Not by dropping it, which is refused where another runtime is running.
        self.runtime.shutdown_background();
    }
}

// === impl OnRuntime ===

impl<E: SpanExporter + 'static> SpanExporter for OnRuntime<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let exporter = self.exporter.clone();
        let sent = self.handle.spawn(async move { exporter.export(batch).await });
        sent.await.map_err(|error| OTelSdkError::InternalFailure(error.to_string()))?
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        // Called once, before the first export, so nobody else holds it yet.
        if let Some(exporter) = Arc::get_mut(&mut self.exporter) {
            exporter.set_resource(resource);
        }
    }
}
