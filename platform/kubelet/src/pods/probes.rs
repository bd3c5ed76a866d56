//! Asking containers how they are.
//!
//! Until a probe succeeds for the first time it is repeated after milliseconds, later after a sixteenth of the time that has
//! passed, growing to its period: whoever waits for a program to become ready waits for the program, not for us. Failures on
//! the way count once a period, as they would without that haste.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use http::{HeaderName, HeaderValue, Request};
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::{Container, HTTPGetAction, Probe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite};
use tokio::net::TcpStream;
use tokio::net::unix::pipe;
use tokio::time::{Instant, sleep, timeout};

use super::session::Session;
use crate::shim::protocol::{Outcome, Request as ShimRequest};

mod grpc;
mod trusting;

/// The shortest pause of a probe that has not succeeded yet.
const EAGER: Duration = Duration::from_millis(5);
/// Which share of the time since the first question is the pause before the next: by no more is a success heard too late.
const SHARE: u32 = 16;

/// Whom a probe asks.
#[derive(Clone)]
pub(crate) struct Subject {
    pub(crate) address: Ipv4Addr,
    pub(crate) container: Arc<Container>,
    /// Of the pod.
    pub(crate) folder: PathBuf,
}

/// What a series of answers comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Succeeded,
    /// So often in a row that it counts, with what was observed last.
    Failed(String),
}

/// Asks for as long as the caller keeps polling, and reports every verdict that differs from the last. Failures that count
/// are told as they come, but not that of a program that has hardly begun.
pub(crate) async fn watch(
    subject: &Subject,
    probe: &Probe,
    mut failed: impl FnMut(&str),
    mut report: impl FnMut(Verdict) -> bool,
) {
    let seconds = |value: Option<i32>, default: u64| {
        Duration::from_secs(
            value.and_then(|value| u64::try_from(value).ok()).filter(|value| *value > 0).unwrap_or(default),
        )
    };
    let count = |value: Option<i32>, default: u32| {
        value.and_then(|value| u32::try_from(value).ok()).unwrap_or(default).max(1)
    };
    let period = seconds(probe.period_seconds, 10);
    let limit = seconds(probe.timeout_seconds, 1);
    let (needed, allowed) = (count(probe.success_threshold, 1), count(probe.failure_threshold, 3));
    if let Some(delay) = probe.initial_delay_seconds.and_then(|delay| u64::try_from(delay).ok()) {
        sleep(Duration::from_secs(delay)).await;
    }
    let (mut successes, mut failures) = (0, 0);
    let begun = Instant::now();
    let mut succeeded_once = false;
    let mut counted: Option<Instant> = None;
    let mut last: Option<Verdict> = None;
    loop {
        let answer =
            timeout(limit, ask(subject, probe, limit)).await.unwrap_or_else(|_| Err(overdue(probe, limit)));
        let verdict = match answer {
            Ok(()) => {
                failures = 0;
                successes += 1;
                succeeded_once = true;
                (successes >= needed).then_some(Verdict::Succeeded)
            }
            Err(observed) => {
                successes = 0;
                if counted.is_none_or(|at| at.elapsed() >= period) {
                    if counted.is_some() || succeeded_once || allowed == 1 {
                        failed(&observed);
                    }
                    counted = Some(Instant::now());
                    failures += 1;
                }
                (failures >= allowed).then_some(Verdict::Failed(observed))
            }
        };
        let differs = |last: &Option<Verdict>, new: &Verdict| {
            last.as_ref().is_none_or(|last| std::mem::discriminant(last) != std::mem::discriminant(new))
        };
        if let Some(verdict) = verdict
            && differs(&last, &verdict)
        {
            last = Some(verdict.clone());
            if !report(verdict) {
                return;
            }
        }
        sleep(if succeeded_once { period } else { pause(begun.elapsed(), period) }).await;
    }
}

/// How long to wait before a probe is repeated that has not succeeded in this time.
fn pause(waited: Duration, period: Duration) -> Duration {
    (waited / SHARE).max(EAGER).min(period)
}

async fn ask(subject: &Subject, probe: &Probe, limit: Duration) -> Result<(), String> {
    if let Some(action) = &probe.http_get {
        get(subject, action).await
    } else if let Some(action) = &probe.tcp_socket {
        connect(address(subject, action.host.as_deref(), &action.port)?).await.map(drop)
    } else if let Some(action) = &probe.exec {
        execute(subject, action.command.clone().unwrap_or_default(), limit).await
    } else if let Some(action) = &probe.grpc {
        let address = address(subject, None, &IntOrString::Int(action.port))?;
        let service = action.service.as_deref().unwrap_or_default();
        grpc::check(connect(address).await?, &address.to_string(), service).await
    } else {
        Err("this kind of probe is not available here; use httpGet, tcpSocket, grpc or exec".to_owned())
    }
}

/// In the words of whoever waits no longer.
fn overdue(probe: &Probe, limit: Duration) -> String {
    match &probe.exec {
        Some(action) => {
            let command = action.command.as_deref().unwrap_or_default().join(" ");
            format!("command timed out: \"{command}\" timed out after {}s", limit.as_secs())
        }
        None => format!("context deadline exceeded: no answer within {}s", limit.as_secs()),
    }
}

/// Runs a command in the container, which has to end well. What it printed says why it did not.
pub(super) async fn execute(subject: &Subject, command: Vec<String>, limit: Duration) -> Result<(), String> {
    let request = ShimRequest::Execute {
        container: subject.container.name.clone(),
        command,
        timeout_milliseconds: u64::try_from(limit.as_millis()).unwrap_or(u64::MAX),
    };
    match run(&subject.folder, request).await {
        Ok((Outcome::Exited(0) | Outcome::Done, _)) => Ok(()),
        Ok((Outcome::Exited(code), printed)) if printed.trim().is_empty() => {
            Err(format!("the command ended with code {code}"))
        }
        Ok((Outcome::Exited(_), printed)) => Err(printed),
        Ok((Outcome::Refused(reason), _)) => Err(reason),
        Err(error) => Err(error.to_string()),
    }
}

/// Of what a command prints, as much is kept.
const LARGEST_OUTPUT: usize = 4096;

async fn run(folder: &Path, request: ShimRequest) -> io::Result<(Outcome, String)> {
    let (sender, mut receiver) = pipe::pipe()?;
    let mut session = {
        // What runs there waits for whoever reads, as programs do.
        let sender = sender.into_blocking_fd()?;
        Session::ask(folder, request, &[sender.as_fd()]).await?
    };
    let (mut printed, mut buffer) = (Vec::new(), [0; 4096]);
    let mut keep = |bytes: &[u8]| {
        let room = LARGEST_OUTPUT.saturating_sub(printed.len());
        printed.extend_from_slice(&bytes[..bytes.len().min(room)]);
    };
    let mut is_open = true;
    let outcome = loop {
        tokio::select! {
            biased;
            count = receiver.read(&mut buffer), if is_open => match count? {
                0 => is_open = false,
                count => keep(&buffer[..count]),
            },
            ended = session.outcome() => break ended?,
        }
    };
    // It has ended, perhaps before its last words were noticed. What it left behind may go on printing, and is not waited for.
    while let Ok(count) = nix::unistd::read(&receiver, &mut buffer)
        && count > 0
    {
        keep(&buffer[..count]);
    }
    Ok((outcome, String::from_utf8_lossy(&printed).into_owned()))
}

fn address(subject: &Subject, host: Option<&str>, port: &IntOrString) -> Result<SocketAddr, String> {
    let named = |name: &str| {
        let ports = subject.container.ports.as_deref().unwrap_or_default();
        ports.iter().find(|port| port.name.as_deref() == Some(name)).map(|port| port.container_port)
    };
    let port = match port {
        IntOrString::Int(port) => Some(*port),
        IntOrString::String(name) => name.parse().ok().or_else(|| named(name)),
    };
    let port = port.and_then(|port| u16::try_from(port).ok()).ok_or("the probe's port does not exist")?;
    let host: IpAddr = match host.filter(|host| !host.is_empty()) {
        Some(host) => host.parse().map_err(|_| format!("`{host}` is not an address"))?,
        None => subject.address.into(),
    };
    Ok(SocketAddr::new(host, port))
}

async fn connect(address: SocketAddr) -> Result<TcpStream, String> {
    TcpStream::connect(address).await.map_err(|error| {
        let why = match error.kind() {
            io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
            io::ErrorKind::HostUnreachable => "no route to host".to_owned(),
            _ => error.to_string(),
        };
        format!("dial tcp {address}: connect: {why}")
    })
}

pub(super) async fn get(subject: &Subject, action: &HTTPGetAction) -> Result<(), String> {
    let address = address(subject, action.host.as_deref(), &action.port)?;
    let path = action.path.as_deref().filter(|path| !path.is_empty()).unwrap_or("/");
    let mut request = Request::builder()
        .uri(path)
        .header(http::header::HOST, address.to_string())
        .header(http::header::USER_AGENT, "pilothouse-probe")
        .header(http::header::CONNECTION, "close")
        .body(Body::empty())
        .map_err(|error| error.to_string())?;
    for header in action.http_headers.iter().flatten() {
        let name = HeaderName::try_from(&header.name).map_err(|error| error.to_string())?;
        let value = HeaderValue::try_from(&header.value).map_err(|error| error.to_string())?;
        request.headers_mut().insert(name, value);
    }
    let scheme = if action.scheme.as_deref() == Some("HTTPS") { "https" } else { "http" };
    let stream =
        connect(address).await.map_err(|why| format!("Get \"{scheme}://{address}{path}\": {why}"))?;
    if action.scheme.as_deref() == Some("HTTPS") {
        let stream =
            trusting::connect(stream, address.ip()).await.map_err(|error| format!("{address}: {error}"))?;
        exchange(stream, request).await
    } else {
        exchange(stream, request).await
    }
}

async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Body>,
) -> Result<(), String> {
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| error.to_string())?;
    let mut answer =
        pin!(async move { sender.send_request(request).await.map_err(|error| error.to_string()) });
    // A connection may end in the very moment the answer is there, which is then still to be taken.
    let response = tokio::select! {
        biased;
        answer = &mut answer => answer?,
        _ended = connection => answer.await?,
    };
    let status = response.status();
    if status.is_success() || status.is_redirection() {
        Ok(())
    } else {
        Err(format!("HTTP probe failed with statuscode: {}", status.as_u16()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_starts_is_heard_soon_after_it_is_ready() {
        for (waited, period, expected) in [
            (0, 1000, 5),
            (160, 1000, 10),
            (3200, 1000, 200),
            (16_000, 1000, 1000),
            (3_600_000, 10_000, 10_000),
        ] {
            let [waited, period, expected] = [waited, period, expected].map(Duration::from_millis);
            assert_eq!(pause(waited, period), expected, "after {waited:?} of every {period:?}");
        }
    }
}
