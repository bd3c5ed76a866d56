//! The header with which a balancer says whom it speaks for: PROXY protocol, version 2.
//!
//! It is believed from whom the configuration names, and there it must be the first thing that comes: who may leave it out may
//! also be somebody else. Parser and writer are a library's; what is decided here is how much is read, and when to give up.

use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};

use proxy_header::{ParseConfig, ProxiedAddress, ProxyHeader, Tlv};
use tokio::io::{AsyncRead, AsyncReadExt};

/// What every header begins with.
const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// What one of version 1 begins with.
const SIGNATURE_OF_VERSION_1: [u8; 6] = *b"PROXY ";
/// The signature, the command, the family, and how long the rest is.
const FIXED: usize = 16;
/// Where the command is, in the lower half of a byte, and the one by which a balancer speaks for itself.
const COMMAND: usize = 12;
const LOCAL: u8 = 0;
/// The longest rest that is read. Addresses take at most 216 bytes; the fields behind them are ours to refuse.
const LONGEST: usize = 4096;
/// The field in which a private link says which one it is, and the kind of that within it.
const LINK_FIELD: u8 = 0xEE;
const LINK_ID: u8 = 1;

/// What a balancer said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Announced {
    /// The client; absent if the balancer speaks for itself.
    pub(crate) client: Option<SocketAddr>,
    /// The private link that the client came through.
    pub(crate) link: Option<u32>,
}

/// Why there is nothing to believe.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HeaderError {
    #[error("no PROXY header of version 2, which has to come first from there")]
    Missing,
    #[error("a PROXY header of {0} bytes, which is too long")]
    TooLong(usize),
    #[error("a PROXY header that makes no sense")]
    Malformed(#[source] proxy_header::Error),
    #[error("a PROXY header for a client without an address, which could be anybody")]
    Nobody,
    #[error("the connection ended before the PROXY header did")]
    Left(#[source] io::Error),
}

/// Reads a header, and not a byte more.
pub(crate) async fn read(stream: &mut (impl AsyncRead + Unpin)) -> Result<Announced, HeaderError> {
    let mut bytes = vec![0; FIXED];
    // Whoever does not begin like that is not waited for.
    stream.read_exact(&mut bytes[..1]).await.map_err(HeaderError::Left)?;
    if bytes[0] != SIGNATURE[0] {
        return Err(HeaderError::Missing);
    }
    stream.read_exact(&mut bytes[1..]).await.map_err(HeaderError::Left)?;
    if !bytes.starts_with(&SIGNATURE) {
        return Err(HeaderError::Missing);
    }
    let length = usize::from(u16::from_be_bytes([bytes[14], bytes[15]]));
    if length > LONGEST {
        return Err(HeaderError::TooLong(FIXED + length));
    }
    bytes.resize(FIXED + length, 0);
    stream.read_exact(&mut bytes[FIXED..]).await.map_err(HeaderError::Left)?;
    parse(&bytes)
}

fn parse(bytes: &[u8]) -> Result<Announced, HeaderError> {
    let config = ParseConfig { include_tlvs: true, allow_v1: false, allow_v2: true };
    let (header, _) = ProxyHeader::parse(bytes, config).map_err(HeaderError::Malformed)?;
    let client = header.proxied_address().map(|proxied| canonical(proxied.source));
    // The balancer's own address is not that of a client of whom it says nothing: it may be trusted where the client is not.
    let own = bytes.get(COMMAND).is_some_and(|command| command & 0x0f == LOCAL);
    if client.is_none() && !own {
        return Err(HeaderError::Nobody);
    }
    let mut announced = Announced { client, link: None };
    for field in header.tlvs() {
        if let Tlv::Custom(LINK_FIELD, value) = field.map_err(HeaderError::Malformed)?
            && let [LINK_ID, id @ ..] = value.as_ref()
            && let Ok(id) = <[u8; 4]>::try_from(id)
        {
            announced.link = Some(u32::from_le_bytes(id));
        }
    }
    Ok(announced)
}

/// The header that tells an endpoint who `client` is, where it came in, and which host it asked for.
pub(crate) fn announce(
    client: SocketAddr,
    server: SocketAddr,
    host: &str,
) -> Result<Vec<u8>, proxy_header::Error> {
    let (client, server) = match (canonical(client), canonical(server)) {
        (client @ SocketAddr::V4(_), server @ SocketAddr::V4(_))
        | (client @ SocketAddr::V6(_), server @ SocketAddr::V6(_)) => (client, server),
        // There is one family for both.
        (client, server) => (mapped(client), mapped(server)),
    };
    let host = Tlv::Authority(host.into());
    let header = ProxyHeader::with_tlvs(Some(ProxiedAddress::stream(client, server)), [host]);
    let mut bytes = Vec::with_capacity(128);
    header.encode_v2(&mut bytes)?;
    Ok(bytes)
}

/// Whether this is, or may become, a header of either version.
pub(crate) fn begins(bytes: &[u8]) -> bool {
    let like = |signature: &[u8]| {
        let length = bytes.len().min(signature.len());
        length > 0 && bytes[..length] == signature[..length]
    };
    like(&SIGNATURE) || like(&SIGNATURE_OF_VERSION_1)
}

/// An IPv4 address is one, also in the clothes of IPv6.
pub(crate) fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

fn mapped(address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) => SocketAddrV6::new(ip.to_ipv6_mapped(), address.port(), 0, 0).into(),
        IpAddr::V6(_) => address,
    }
}

#[cfg(test)]
mod tests;
