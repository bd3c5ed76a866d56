//! Numbers about HTTP. Every label is an enum or a route template, so what a client sends cannot add a series.

use std::fmt::Write as _;
use std::sync::Arc;

use axum::extract::MatchedPath;
use http::StatusCode;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

/// From a memory read to a request that hits the usual time limit.
const SECONDS: [f64; 12] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0];

/// Numbers about the requests and connections of one component. A cheap handle.
#[derive(Clone, Debug)]
pub struct Metrics {
    requests: Family<RequestLabels, Counter>,
    duration: Family<RouteLabels, Histogram, fn() -> Histogram>,
    in_flight: Gauge,
    pub(crate) connections: Gauge,
    pub(crate) refused: Family<RefusedLabels, Counter>,
    pub(crate) cut: Counter,
}

/// A route's template, such as `/clusters/{id}`: never a path that somebody sent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Route(Arc<str>);

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    method: Method,
    route: Route,
    status: StatusClass,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RouteLabels {
    method: Method,
    route: Route,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct RefusedLabels {
    pub(crate) reason: RefusedReason,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
pub(crate) enum RefusedReason {
    Handshake,
    SlowHeaders,
    Caller,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
pub(crate) enum Method {
    Get,
    Head,
    Post,
    Put,
    Patch,
    Delete,
    Options,
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum StatusClass {
    Informational,
    Success,
    Redirection,
    ClientError,
    ServerError,
}

impl Metrics {
    /// Registers the numbers. Give it a sub-registry with the component's prefix.
    pub fn new(registry: &mut Registry) -> Self {
        let metrics = Self {
            requests: Family::default(),
            duration: Family::new_with_constructor(|| Histogram::new(SECONDS)),
            in_flight: Gauge::default(),
            connections: Gauge::default(),
            refused: Family::default(),
            cut: Counter::default(),
        };
        registry.register("http_requests", "Requests answered", metrics.requests.clone());
        registry.register_with_unit(
            "http_request_duration",
            "Time from the request's headers to the response's headers",
            Unit::Seconds,
            metrics.duration.clone(),
        );
        registry.register(
            "http_requests_in_flight",
            "Requests whose response has not been sent completely",
            metrics.in_flight.clone(),
        );
        registry.register("http_connections", "Open connections", metrics.connections.clone());
        registry.register(
            "http_refused",
            "Connections and requests refused before any handler saw them",
            metrics.refused.clone(),
        );
        registry.register(
            "http_connections_cut",
            "Connections cut at shutdown because they did not end in time",
            metrics.cut.clone(),
        );
        metrics
    }

    pub(crate) fn began(&self) -> InFlight {
        self.in_flight.inc();
        InFlight(self.in_flight.clone())
    }

    pub(crate) fn answered(&self, method: Method, route: Route, status: StatusCode, seconds: f64) {
        self.duration.get_or_create(&RouteLabels { method, route: route.clone() }).observe(seconds);
        let labels = RequestLabels { method, route, status: StatusClass::of(status) };
        self.requests.get_or_create(&labels).inc();
    }

    pub(crate) fn refuse(&self, reason: RefusedReason) {
        self.refused.get_or_create(&RefusedLabels { reason }).inc();
    }
}

/// Counts a request as in flight until dropped.
#[derive(Debug)]
pub(crate) struct InFlight(Gauge);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Route {
    /// A name given by a handler that does its own routing; put it into the response's extensions.
    pub fn named(name: &'static str) -> Self {
        Self(Arc::from(name))
    }

    pub(crate) fn matched(path: Option<&MatchedPath>) -> Self {
        Self(Arc::from(path.map_or("unmatched", MatchedPath::as_str)))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl EncodeLabelValue for Route {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), std::fmt::Error> {
        encoder.write_str(&self.0)
    }
}

impl From<&http::Method> for Method {
    fn from(method: &http::Method) -> Self {
        match *method {
            http::Method::GET => Self::Get,
            http::Method::HEAD => Self::Head,
            http::Method::POST => Self::Post,
            http::Method::PUT => Self::Put,
            http::Method::PATCH => Self::Patch,
            http::Method::DELETE => Self::Delete,
            http::Method::OPTIONS => Self::Options,
            _ => Self::Other,
        }
    }
}

impl StatusClass {
    fn of(status: StatusCode) -> Self {
        match status.as_u16() / 100 {
            1 => Self::Informational,
            2 => Self::Success,
            3 => Self::Redirection,
            4 => Self::ClientError,
            _ => Self::ServerError,
        }
    }
}

impl EncodeLabelValue for StatusClass {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), std::fmt::Error> {
        encoder.write_str(match self {
            Self::Informational => "1xx",
            Self::Success => "2xx",
            Self::Redirection => "3xx",
            Self::ClientError => "4xx",
            Self::ServerError => "5xx",
        })
    }
}
