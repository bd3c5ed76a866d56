//! Load: HTTP/1.1 over connections that are kept.
//!
//! The client is written for this: one write and usually one read a request, nothing parsed but the status and the length. What
//! it costs is taken from the processors that the provider could use, so it has to be little.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use http::StatusCode;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::harness::Samples;

/// A request as it goes over the wire.
#[derive(Clone, Debug)]
pub(super) struct Request(Arc<[u8]>);

/// An answer.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) body: Vec<u8>,
}

/// One connection, kept from request to request.
#[derive(Debug)]
pub(super) struct Connection {
    stream: TcpStream,
    /// What has been read of the present answer.
    read: Vec<u8>,
}

/// Where load goes, and what every answer has to be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    address: SocketAddr,
    connections: usize,
    expected: StatusCode,
}

/// What came of it. Latencies in milliseconds.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) rate: f64,
    pub(super) latencies: Samples,
}

/// Makes the next request.
pub(super) type Next = Arc<dyn Fn() -> Request + Send + Sync>;

impl Request {
    pub(super) fn get(path: &str) -> Self {
        Self(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").into_bytes().into())
    }

    pub(super) fn put(path: &str, body: &str) -> Self {
        let length = body.len();
        let text = format!(
            "PUT {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        Self(text.into_bytes().into())
    }
}

impl Connection {
    pub(super) async fn open(address: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address).await.context("the provider does not accept")?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, read: Vec::with_capacity(16 * 1024) })
    }

    pub(super) async fn call(&mut self, Request(bytes): &Request) -> anyhow::Result<Answer> {
        self.stream.write_all(bytes).await?;
        self.read.clear();
        let head = loop {
            if let Some(end) = self.read.windows(4).position(|four| four == b"\r\n\r\n") {
                break end + 4;
            }
            self.read_more().await?;
        };
        let (status, length) = parse(&self.read[..head])?;
        while self.read.len() < head + length {
            self.read_more().await?;
        }
        Ok(Answer { status, body: self.read[head..head + length].to_vec() })
    }

    async fn read_more(&mut self) -> anyhow::Result<()> {
        let count = self.stream.read_buf(&mut self.read).await?;
        ensure!(count > 0, "the provider closed the connection in the middle of an answer");
        Ok(())
    }
}

/// Status and length of an answer.
fn parse(head: &[u8]) -> anyhow::Result<(StatusCode, usize)> {
    let head = std::str::from_utf8(head).context("the answer's head is no text")?;
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).context("the answer has no status")?;
    let length = lines.find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
    });
    Ok((status.parse()?, length.with_context(|| format!("the answer has no length: {head}"))?))
}

impl Load {
    pub(super) fn new(address: SocketAddr, connections: usize, expected: StatusCode) -> Self {
        Self { address, connections, expected }
    }

    /// Every connection sends the next request when the last is answered.
    pub(super) async fn as_fast_as_possible(self, duration: Duration, next: Next) -> anyhow::Result<Outcome> {
        self.run(duration, move |_, _| (None, next())).await
    }

    /// So many requests a second altogether. A latency counts from when its request was due, or from when it was sent if
    /// that was later only because timers are coarse.
    pub(super) async fn paced(self, rate: u32, duration: Duration, next: Next) -> anyhow::Result<Outcome> {
        let connections = u32::try_from(self.connections)?;
        let gap = Duration::from_secs(1) / rate;
        self.run(duration, move |connection, count| (Some(gap * (count * connections + connection)), next()))
            .await
    }

    /// `request` gives, for a connection and a number, when a request is due and what it is.
    async fn run(
        self,
        duration: Duration,
        request: impl Fn(u32, u32) -> (Option<Duration>, Request) + Clone + Send + Sync + 'static,
    ) -> anyhow::Result<Outcome> {
        let mut opened = Vec::new();
        for _ in 0..self.connections {
            opened.push(Connection::open(self.address).await?);
        }
        let start = Instant::now();
        let mut tasks = JoinSet::new();
        for (connection, mut stream) in (0_u32..).zip(opened) {
            let request = request.clone();
            tasks.spawn(async move {
                let mut latencies = Vec::new();
                for count in 0.. {
                    let (due, request) = request(connection, count);
                    let mut began = Instant::now();
                    if let Some(due) = due.map(|due| start + due) {
                        if due > began {
                            sleep_until(due).await;
                            began = Instant::now();
                        } else {
                            began = due;
                        }
                    }
                    if start.elapsed() >= duration {
                        break;
                    }
                    let answer = stream.call(&request).await?;
                    latencies.push(began.elapsed());
                    if answer.status != self.expected {
                        bail!("{}: {}", answer.status, String::from_utf8_lossy(&answer.body));
                    }
                }
                Ok(latencies)
            });
        }
        let mut outcome = Outcome::default();
        while let Some(ended) = tasks.join_next().await {
            for latency in ended?? {
                outcome.latencies.push_milliseconds(latency);
            }
        }
        outcome.rate = f64::from(u32::try_from(outcome.latencies.len())?) / start.elapsed().as_secs_f64();
        Ok(outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_read_for_status_and_length() {
        let head = b"HTTP/1.1 201 Created\r\ncontent-type: x\r\nContent-Length: 12\r\n\r\n";
        assert_eq!(parse(head).unwrap(), (StatusCode::CREATED, 12));
        assert!(parse(b"HTTP/1.1 200 OK\r\n\r\n").is_err());
    }
}
