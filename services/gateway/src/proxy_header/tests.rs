use proptest::prelude::*;

use super::*;

/// As HAProxy 2.6 sends it (`send-proxy-v2`) from 127.0.0.1:51604 to 127.0.0.1:9443.
const CAPTURED: &[u8] =
    b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x0c\x7f\x00\x00\x01\x7f\x00\x00\x01\xc9\x94\x24\xe3";

/// As a private link of Azure sends it: 10.1.0.4:50000 to 10.2.0.4:443, with its number 16,909,060 in field 0xEE.
const LINKED: &[u8] =
    b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x14\x0a\x01\x00\x04\x0a\x02\x00\x04\xc3\x50\x01\xbb\xee\x00\x05\x01\x04\x03\x02\x01";

/// A balancer that looks whether somebody is there.
const HEALTH_CHECK: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x20\x00\x00\x00";

async fn read_bytes(mut bytes: &[u8]) -> Result<(Announced, Vec<u8>), HeaderError> {
    let announced = read(&mut bytes).await?;
    Ok((announced, bytes.to_vec()))
}

fn announced(client: &str, link: Option<u32>) -> Announced {
    Announced { client: Some(client.parse().unwrap()), link }
}

#[tokio::test]
async fn headers_of_others_are_read_to_their_last_byte_and_no_further() {
    for (bytes, expected) in [
        (CAPTURED, announced("127.0.0.1:51604", None)),
        (LINKED, announced("10.1.0.4:50000", Some(0x0102_0304))),
        (HEALTH_CHECK, Announced::default()),
    ] {
        let with_more = [bytes, b"\x16\x03\x01"].concat();
        assert_eq!(read_bytes(&with_more).await.unwrap(), (expected, b"\x16\x03\x01".to_vec()));
        for end in 0..bytes.len() {
            assert!(matches!(read_bytes(&bytes[..end]).await, Err(HeaderError::Left(_))), "{end}");
        }
    }
}

#[tokio::test]
async fn what_is_no_header_is_refused_at_its_first_byte_and_what_is_too_long_before_it_comes() {
    assert!(matches!(read_bytes(b"\x16").await, Err(HeaderError::Missing)));
    assert!(matches!(read_bytes(b"PROXY TCP4").await, Err(HeaderError::Missing)));
    assert!(matches!(read_bytes(b"\r\n\r\n\0\r\nQUIT\r\x21\x11\0\0").await, Err(HeaderError::Missing)));
    let long = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\xff\xff";
    assert!(matches!(read_bytes(long).await, Err(HeaderError::TooLong(65_551))));
    for bytes in [
        // Another version; too short for its addresses; a field longer than the header.
        &b"\r\n\r\n\0\r\nQUIT\n\x11\x11\0\0"[..],
        b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x04\0\0\0\0",
        b"\r\n\r\n\0\r\nQUIT\n\x20\x00\0\x03\xee\x00\x05",
    ] {
        assert!(matches!(read_bytes(bytes).await, Err(HeaderError::Malformed(_))), "{bytes:?}");
    }
}

#[tokio::test]
async fn client_without_an_address_is_not_the_balancer_itself() {
    let unspecified = b"\r\n\r\n\0\r\nQUIT\n\x21\x00\x00\x00";
    let unix = [&b"\r\n\r\n\0\r\nQUIT\n\x21\x31\x00\xd8"[..], &[b'/'; 216]].concat();
    for bytes in [&unspecified[..], &unix] {
        let read = read_bytes(bytes).await;
        assert!(matches!(read, Err(HeaderError::Nobody)), "{read:?}");
    }
}

#[test]
fn what_is_announced_is_written_as_the_protocol_says() {
    let bytes =
        announce("127.0.0.1:51604".parse().unwrap(), "127.0.0.1:9443".parse().unwrap(), "a.test").unwrap();
    let mut expected = CAPTURED.to_vec();
    // Nine bytes more: the field with the host.
    expected[15] += 9;
    expected.extend_from_slice(b"\x02\x00\x06a.test");
    assert_eq!(bytes, expected);
}

proptest! {
    #[test]
    fn whatever_is_announced_is_read_as_such(client: SocketAddr, server: SocketAddr, host in "[a-z.]{1,200}") {
        let bytes = announce(client, server, &host).unwrap();
        let (header, read) = ProxyHeader::parse(&bytes, ParseConfig::default()).unwrap();
        prop_assert_eq!(read, bytes.len());
        prop_assert_eq!(header.authority(), Some(host.as_str()));
        let announced = parse(&bytes).unwrap();
        prop_assert_eq!(announced.client, Some(canonical(client)));
    }

    #[test]
    fn no_bytes_make_it_panic(mut bytes: Vec<u8>, begins_right: bool) {
        if begins_right {
            bytes.splice(0..0, SIGNATURE);
        }
        let _ = parse(&bytes);
        let _ = begins(&bytes);
        if bytes.len() >= FIXED {
            // As if it were as long as it says.
            let length = u16::try_from(bytes.len() - FIXED).unwrap_or(u16::MAX).to_be_bytes();
            bytes[14..16].copy_from_slice(&length);
            let _ = parse(&bytes);
        }
    }
}
