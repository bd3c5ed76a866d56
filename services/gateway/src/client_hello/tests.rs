use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use super::*;

const LIMIT: usize = 32 * 1024;

/// As sent by curl 7.88 with OpenSSL 3.0 to `api.first.pilothouse.test`.
const CAPTURED: &[u8] = include_bytes!("openssl.bin");

/// What rustls says first to `name`.
fn hello(name: &str) -> Vec<u8> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let mut client = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut bytes = Vec::new();
    while client.wants_write() {
        client.write_tls(&mut bytes).unwrap();
    }
    bytes
}

async fn read_bytes(bytes: &[u8]) -> Result<ClientHello, HelloError> {
    read(&mut &*bytes, LIMIT).await
}

#[tokio::test]
async fn host_is_read_and_every_byte_is_kept() {
    let bytes = hello("API.First.pilothouse.test");
    let read = read_bytes(&bytes).await.unwrap();
    assert_eq!(read.host.as_deref(), Some("api.first.pilothouse.test"));
    assert_eq!(read.bytes, bytes);
}

#[tokio::test]
async fn captured_hello_of_another_library_is_read() {
    let read = read_bytes(CAPTURED).await.unwrap();
    assert_eq!(read.host.as_deref(), Some("api.first.pilothouse.test"));
}

#[tokio::test]
async fn hello_may_arrive_byte_by_byte() {
    let bytes = hello("api.first.pilothouse.test");
    let (mut client, mut server) = tokio::io::duplex(1);
    let sent = bytes.clone();
    let (read, _) = tokio::join!(read(&mut server, LIMIT), async move {
        tokio::io::AsyncWriteExt::write_all(&mut client, &sent).await.unwrap();
        client
    });
    assert_eq!(read.unwrap(), ClientHello { host: Some("api.first.pilothouse.test".to_owned()), bytes });
}

#[tokio::test]
async fn address_is_no_name() {
    assert_eq!(read_bytes(&hello("127.0.0.1")).await.unwrap().host, None);
}

#[tokio::test]
async fn what_is_not_tls_is_answered_with_an_alert_or_nothing() {
    for text in [&b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"[..], &[0; 64], &[22, 3, 1, 0, 4, 1, 0, 0, 0]] {
        assert!(matches!(read_bytes(text).await, Err(HelloError::NotTls { .. })), "{text:?}");
    }
}

#[tokio::test]
async fn every_beginning_of_a_hello_is_incomplete_and_never_a_panic() {
    let bytes = hello("api.first.pilothouse.test");
    for end in 0..bytes.len() {
        assert!(matches!(read_bytes(&bytes[..end]).await, Err(HelloError::Left)), "{end}");
    }
}

#[tokio::test]
async fn endless_hello_is_cut_off() {
    // A handshake message said to be 60,000 bytes long, in records of 16,000.
    let mut bytes = vec![22, 3, 1, 0x3e, 0x80, 1, 0, 0xea, 0x60];
    bytes.resize(5 + 16_000, 0);
    let record = bytes.clone();
    bytes.extend_from_slice(&record);
    bytes.extend_from_slice(&record);
    let read = read(&mut bytes.as_slice(), 20_000).await;
    assert!(matches!(read, Err(HelloError::TooLong(20_000) | HelloError::NotTls { .. })), "{read:?}");
}

#[tokio::test]
async fn headers_of_balancers_are_known_for_what_they_are() {
    for header in [&b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0"[..], b"PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\n"] {
        assert!(matches!(read_bytes(header).await, Err(HelloError::Announced)), "{header:?}");
    }
}
