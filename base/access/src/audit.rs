//! The record of who did what: one line of JSON per request, in the log (target `audit`) and in a file.
//!
//! A record says who, what, on which resource, with which outcome. It has no token, no query and no body: those hold
//! other people's secrets. Requests never wait for the disk: records are handed to a task by a queue, and what cannot be
//! queued or written is counted (`audit_records_lost`).

use std::net::IpAddr;
use std::sync::Arc;

use axum::response::Response;
use http::{HeaderMap, Method};
use jiff::Timestamp;
use pilothouse_arm::{IdentityType, header};
use pilothouse_http::{Context, Peer};
use pilothouse_runtime::{Chain, OnExit, TaskError, Tasks};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;
use serde::Serialize;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Mutex, mpsc, oneshot};
use tracing::{error, info};

use crate::config::AuditConfig;
use crate::gate::Refused;
use crate::principal::{Credential, Principal};

mod file;

use self::file::AuditFile;

/// How many records may wait for the disk: some seconds of a busy service.
const QUEUE: usize = 16 * 1024;
/// How many are written with one call.
const BATCH: usize = 256;

/// Where records go. A cheap handle.
#[derive(Clone, Debug)]
pub struct Audit {
    queue: Option<mpsc::Sender<Order>>,
    /// Until the task takes it.
    writer: Arc<Mutex<Option<Writer>>>,
    metrics: Metrics,
}

#[derive(Debug)]
enum Order {
    Write(String),
    Flush(oneshot::Sender<()>),
}

/// The other end of the queue.
#[derive(Debug)]
struct Writer {
    file: AuditFile,
    orders: mpsc::Receiver<Order>,
    metrics: Metrics,
}

#[derive(Clone, Debug, Default)]
struct Metrics {
    records: Counter,
    lost: Counter,
}

/// Why there is no file for the records.
#[derive(Debug, thiserror::Error)]
#[error("the audit file `{}` cannot be opened; set `audit.file` to one that can be written", .path.display())]
pub struct AuditError {
    /// The file.
    pub path: std::path::PathBuf,
    /// What the system said.
    #[source]
    pub source: std::io::Error,
}

/// One request.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    time: Timestamp,
    operation: String,
    #[serde(rename = "type")]
    kind: Kind,
    resource: String,
    caller: Option<Caller>,
    /// Whom ARM says it calls for.
    #[serde(skip_serializing_if = "Option::is_none")]
    on_behalf_of: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<IpAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<String>,
    decision: Decision,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    outcome: Outcome,
    status: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    correlation_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    client_request_id: Option<String>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Caller {
    name: String,
    #[serde(rename = "type")]
    identity_type: IdentityType,
    credential: Shown,
    arm: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    object_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    app_id: Option<String>,
}

#[derive(Clone, Copy, Debug, Serialize)]
enum Kind {
    Read,
    Create,
    Update,
    Delete,
    Other,
}

#[derive(Clone, Copy, Debug, Serialize)]
enum Shown {
    None,
    Token,
    Certificate,
}

#[derive(Clone, Copy, Debug, Serialize)]
enum Decision {
    Allowed,
    Denied,
}

#[derive(Clone, Copy, Debug, Serialize)]
enum Outcome {
    Success,
    Failure,
}

// === impl Audit ===

impl Audit {
    /// Opens the file, if there is to be one.
    ///
    /// # Errors
    ///
    /// When it cannot be opened. Later failures are counted instead.
    pub fn open(config: &AuditConfig, registry: &mut Registry) -> Result<Self, AuditError> {
        let metrics = Metrics::default();
        registry.register("audit_records", "Requests recorded in the audit log", metrics.records.clone());
        registry.register(
            "audit_records_lost",
            "Audit records that could not be written to the audit file",
            metrics.lost.clone(),
        );
        let Some(path) = &config.file else {
            return Ok(Self { queue: None, writer: Arc::default(), metrics });
        };
        let file = AuditFile::open(path.clone(), config.rotate_at.0, config.keep)
            .map_err(|source| AuditError { path: path.clone(), source })?;
        let (queue, orders) = mpsc::channel(QUEUE);
        let writer = Writer { file, orders, metrics: metrics.clone() };
        Ok(Self { queue: Some(queue), writer: Arc::new(Mutex::new(Some(writer))), metrics })
    }

    /// Writes the records, as a task that may be stopped anywhere after [`Audit::flush`]. The file is opened anew when
    /// the process is sent `SIGHUP`, so that others may move it away.
    pub async fn run(&self, tasks: &Tasks) {
        let Some(writer) = self.writer.lock().await.take() else { return };
        tasks.spawn("audit", OnExit::Expendable, writer.run());
    }

    /// Returns when everything recorded so far has been written, or given up.
    pub async fn flush(&self) {
        let Some(queue) = &self.queue else { return };
        let (done, written) = oneshot::channel();
        if queue.send(Order::Flush(done)).await.is_ok() {
            // The task is gone if this fails, and with it what could be waited for.
            let _ = written.await;
        }
    }

    /// Records a request.
    pub fn record(&self, record: Record) {
        self.metrics.records.inc();
        // Text, numbers and times: there is nothing that JSON could refuse.
        let line = serde_json::to_string(&record).unwrap_or_default();
        info!(target: "audit", record = line, "request");
        if let Some(queue) = &self.queue
            && queue.try_send(Order::Write(line)).is_err()
        {
            self.metrics.lost.inc();
        }
    }
}

impl Writer {
    async fn run(self) -> Result<(), TaskError> {
        let Self { mut file, mut orders, metrics } = self;
        let mut hangup = signal(SignalKind::hangup())?;
        let mut batch = Vec::new();
        let mut failing = false;
        loop {
            let reopen = tokio::select! {
                // Records first: those of before the signal belong into the old file.
                biased;
                received = orders.recv_many(&mut batch, BATCH) => {
                    if received == 0 {
                        return Ok(());
                    }
                    false
                }
                _ = hangup.recv() => true,
            };
            let (mut text, mut lines, mut flushed) = (String::new(), 0, Vec::new());
            for order in batch.drain(..) {
                match order {
                    Order::Write(line) => {
                        text.push_str(&line);
                        text.push('\n');
                        lines += 1;
                    }
                    Order::Flush(done) => flushed.push(done),
                }
            }
            // A disk may take its time; the runtime's threads have other things to do.
            let (returned, outcome) = tokio::task::spawn_blocking(move || {
                let outcome = if reopen { file.reopen() } else { file.append(text.as_bytes()) };
                (file, outcome)
            })
            .await?;
            file = returned;
            match outcome {
                Ok(()) => failing = false,
                Err(cause) => {
                    metrics.lost.inc_by(lines);
                    // Once per outage, not once per record.
                    if !failing {
                        error!(error = %Chain(&cause), "audit records cannot be written");
                    }
                    failing = true;
                }
            }
            for done in flushed {
                // Nobody may be waiting any more.
                let _ = done.send(());
            }
        }
    }
}

// === impl Record ===

impl Record {
    pub(crate) fn new(method: &Method, path: &str, headers: &HeaderMap, time: Timestamp) -> Self {
        Self {
            time,
            operation: format!("{method} {path}"),
            kind: Kind::of(method),
            resource: path.to_owned(),
            caller: None,
            on_behalf_of: text(headers, header::CLIENT_PRINCIPAL_NAME),
            address: None,
            agent: text(headers, http::header::USER_AGENT.as_str()),
            decision: Decision::Allowed,
            reason: None,
            outcome: Outcome::Failure,
            status: 0,
            request_id: None,
            correlation_id: None,
            client_request_id: None,
        }
    }

    pub(crate) fn by(mut self, principal: Option<&Principal>, peer: Option<&Peer>) -> Self {
        // What somebody says of itself is not worth recording.
        self.on_behalf_of = self.on_behalf_of.filter(|_| principal.is_some_and(Principal::believes_headers));
        self.address = peer.map(|peer| peer.address().ip());
        self.caller = principal.map(|principal| Caller {
            name: principal.name().to_owned(),
            identity_type: principal.identity_type(),
            credential: match principal.credential() {
                Credential::None => Shown::None,
                Credential::Token => Shown::Token,
                Credential::Certificate => Shown::Certificate,
            },
            arm: principal.is_arm(),
            tenant_id: principal.tenant_id().map(str::to_owned),
            object_id: principal.object_id().map(str::to_owned),
            app_id: principal.app_id().map(str::to_owned),
        });
        self
    }

    pub(crate) fn within(mut self, context: Option<&Context>) -> Self {
        if let Some(context) = context {
            self.request_id = Some(context.request_id().to_owned());
            self.correlation_id = context.correlation_id().map(str::to_owned);
            self.client_request_id = context.client_request_id().map(str::to_owned);
        }
        self
    }

    pub(crate) fn refused(mut self, refused: &Refused) -> Self {
        self.decision = Decision::Denied;
        self.reason = Some(match refused {
            Refused::Denied(denial) => denial.to_string(),
            Refused::Unknown(error) => error.to_string(),
        });
        self
    }

    pub(crate) fn answered(mut self, response: &Response) -> Self {
        let status = response.status();
        self.status = status.as_u16();
        self.outcome = if status.is_client_error() || status.is_server_error() {
            Outcome::Failure
        } else {
            Outcome::Success
        };
        // A handler may know better than the gate.
        if matches!(self.status, 401 | 403) {
            self.decision = Decision::Denied;
        }
        self
    }
}

impl Kind {
    fn of(method: &Method) -> Self {
        match *method {
            Method::GET | Method::HEAD | Method::OPTIONS => Self::Read,
            Method::POST => Self::Create,
            Method::PUT | Method::PATCH => Self::Update,
            Method::DELETE => Self::Delete,
            _ => Self::Other,
        }
    }
}

fn text(headers: &HeaderMap, name: &str) -> Option<String> {
    /// The longest text taken over from a caller.
    const LONGEST: usize = 256;
    let value = headers.get(name)?.to_str().ok()?;
    Some(value.chars().take(LONGEST).collect())
}
