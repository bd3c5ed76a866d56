//! Reading whom a client wants, without taking the message away from whom it is meant for.
//!
//! The parser is rustls' own. The bytes are kept beside it and are the first thing that the endpoint gets.

use std::io;

use rustls::server::Acceptor;
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::proxy_header;

/// How much is read at once; most first messages fit.
const CHUNK: usize = 2048;

/// The alert with which a server says that it does not know the name.
pub(crate) const UNRECOGNIZED_NAME: [u8; 7] = alert(112);

/// The alert with which a server says that the client may not come.
pub(crate) const ACCESS_DENIED: [u8; 7] = alert(49);

/// The alert with which a server says that it is not the client's fault.
pub(crate) const INTERNAL_ERROR: [u8; 7] = alert(80);

/// A client's first message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ClientHello {
    /// The host that the client wants to talk to, in lower case.
    pub(crate) host: Option<String>,
    /// The message, and whatever came with it.
    pub(crate) bytes: Vec<u8>,
}

/// Why there is none.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HelloError {
    /// It is not TLS. The alert is what TLS has to say to that, if anything.
    #[error("not the beginning of a TLS connection")]
    NotTls {
        alert: Vec<u8>,
        #[source]
        source: rustls::Error,
    },
    /// It is a header that only balancers send, and the client is none that we know.
    #[error("a PROXY header from somebody whose headers are not believed")]
    Announced,
    #[error("longer than {0} bytes")]
    TooLong(usize),
    #[error("the client left before the end of it")]
    Left,
    #[error("the connection broke")]
    Broken(#[source] io::Error),
}

/// A fatal alert, as a record of its own.
const fn alert(description: u8) -> [u8; 7] {
    [21, 3, 3, 0, 2, 2, description]
}

/// Reads up to the end of the first message, or up to `limit` bytes.
pub(crate) async fn read(
    stream: &mut (impl AsyncRead + Unpin),
    limit: usize,
) -> Result<ClientHello, HelloError> {
    let mut acceptor = Acceptor::default();
    let mut bytes = Vec::with_capacity(CHUNK);
    loop {
        let before = bytes.len();
        if before >= limit {
            return Err(HelloError::TooLong(limit));
        }
        let room = CHUNK.min(limit - before);
        bytes.reserve(room);
        let read = (&mut *stream).take(room as u64).read_buf(&mut bytes).await.map_err(HelloError::Broken)?;
        if read == 0 {
            return Err(HelloError::Left);
        }
        let mut fresh = &bytes[before..];
        while !fresh.is_empty() {
            acceptor.read_tls(&mut fresh).map_err(HelloError::Broken)?;
            match acceptor.accept() {
                Ok(None) => {}
                Ok(Some(accepted)) => {
                    let host = accepted.client_hello().server_name().map(str::to_ascii_lowercase);
                    return Ok(ClientHello { host, bytes });
                }
                Err(_) if proxy_header::begins(&bytes) => return Err(HelloError::Announced),
                Err((source, mut said)) => {
                    let mut alert = Vec::new();
                    // Writing to a vector cannot fail.
                    let _ = said.write_all(&mut alert);
                    return Err(HelloError::NotTls { alert, source });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
