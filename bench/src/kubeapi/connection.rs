//! A client that costs little: HTTP/1.1 over TLS, on connections that are kept.
//!
//! One write and usually one read a request, nothing parsed but the status and the length. The same client for both
//! servers; what it costs is taken from the processors that they could use.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use http::StatusCode;
use pilothouse_pki::{Bundle, Identity};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// The end of an answer's head, and of the last chunk of a body.
const END: &[u8] = b"\r\n\r\n";

/// Who asks, and whom they believe.
#[derive(Clone)]
pub(super) struct Caller(TlsConnector);

/// A request as it goes over the wire.
#[derive(Clone, Debug)]
pub(super) struct Request(Arc<[u8]>);

/// An answer.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    /// As it came: a body in chunks has their lengths in it.
    pub(super) body: Vec<u8>,
}

/// One connection, kept from request to request.
#[derive(Debug)]
pub(super) struct Connection {
    stream: TlsStream<TcpStream>,
    /// What has been read of the present answer.
    read: Vec<u8>,
}

/// How long a body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Length {
    Known(usize),
    Chunks,
}

impl Caller {
    pub(super) fn try_new(identity: &Identity, authorities: &Path) -> anyhow::Result<Self> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(Bundle::load(authorities)?.der().cloned());
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_client_auth_cert(identity.chain_der(), identity.key().to_der())?;
        Ok(Self(TlsConnector::from(Arc::new(config))))
    }

    pub(super) async fn connect(&self, address: SocketAddr) -> anyhow::Result<Connection> {
        let stream = TcpStream::connect(address).await.context("the server does not accept")?;
        stream.set_nodelay(true)?;
        let name = ServerName::IpAddress(address.ip().into());
        let stream = self.0.connect(name, stream).await.context("no TLS with the server")?;
        Ok(Connection { stream, read: Vec::with_capacity(16 * 1024) })
    }
}

impl Request {
    pub(super) fn get(path: &str) -> Self {
        Self(
            format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\n\r\n")
                .into_bytes()
                .into(),
        )
    }

    pub(super) fn with_body(method: &str, path: &str, body: &str) -> Self {
        let length = body.len();
        let text = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\n\
             Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        Self(text.into_bytes().into())
    }
}

impl Connection {
    pub(super) async fn call(&mut self, request: &Request) -> anyhow::Result<Answer> {
        let (status, head, length) = self.head(request).await?;
        let end = match length {
            Length::Known(length) => {
                while self.read.len() < head + length {
                    self.read_more().await?;
                }
                head + length
            }
            Length::Chunks => {
                // The last chunk is `0`, and nothing comes after it until the next request.
                while !(self.read[head..].ends_with(b"\r\n0\r\n\r\n") || &self.read[head..] == b"0\r\n\r\n") {
                    self.read_more().await?;
                }
                self.read.len()
            }
        };
        Ok(Answer { status, body: self.read[head..end].to_vec() })
    }

    /// Sends a request whose answer never ends; its body is then read by [`next`](Self::next).
    pub(super) async fn begin(&mut self, request: &Request) -> anyhow::Result<()> {
        let (status, head, _) = self.head(request).await?;
        ensure!(status == StatusCode::OK, "{status}: {}", String::from_utf8_lossy(&self.read[head..]));
        self.read.drain(..head);
        Ok(())
    }

    /// Waits for more of a body that never ends. What is there is kept until it is taken.
    pub(super) async fn next(&mut self) -> anyhow::Result<&mut Vec<u8>> {
        self.read_more().await?;
        Ok(&mut self.read)
    }

    async fn head(&mut self, Request(bytes): &Request) -> anyhow::Result<(StatusCode, usize, Length)> {
        self.stream.write_all(bytes).await?;
        // What TLS has taken need not be on its way: the server would wait in vain, and hang up.
        self.stream.flush().await?;
        self.read.clear();
        loop {
            if let Some(end) = self.read.windows(END.len()).position(|four| four == END) {
                let head = end + END.len();
                let (status, length) = parse(&self.read[..head])?;
                return Ok((status, head, length));
            }
            self.read_more().await?;
        }
    }

    async fn read_more(&mut self) -> anyhow::Result<()> {
        let count = self.stream.read_buf(&mut self.read).await?;
        ensure!(count > 0, "the server closed the connection in the middle of an answer");
        Ok(())
    }
}

/// Status and length of an answer.
fn parse(head: &[u8]) -> anyhow::Result<(StatusCode, Length)> {
    let head = std::str::from_utf8(head).context("the answer's head is no text")?;
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).context("the answer has no status")?;
    let length = lines.find_map(|line| {
        let (name, value) = line.split_once(':')?;
        if name.eq_ignore_ascii_case("content-length") {
            return value.trim().parse().ok().map(Length::Known);
        }
        name.eq_ignore_ascii_case("transfer-encoding").then_some(Length::Chunks)
    });
    Ok((status.parse()?, length.with_context(|| format!("the answer has no length: {head}"))?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_read_for_status_and_length() {
        let head = b"HTTP/1.1 201 Created\r\ncontent-type: x\r\nContent-Length: 12\r\n\r\n";
        assert_eq!(parse(head).unwrap(), (StatusCode::CREATED, Length::Known(12)));
        let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        assert_eq!(parse(head).unwrap(), (StatusCode::OK, Length::Chunks));
        assert!(parse(b"HTTP/1.1 200 OK\r\n\r\n").is_err());
    }
}
