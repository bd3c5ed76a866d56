use tokio::io::AsyncReadExt as _;

use super::*;

/// What a client says: frames by hand.
fn open(deflater: &mut headers::Deflater, id: u32, kind: &str) -> Vec<u8> {
    let block = deflater.write(&Headers(vec![("streamType".to_owned(), kind.to_owned())])).unwrap();
    let mut payload = [id.to_be_bytes(), [0; 4]].concat();
    payload.extend([0, 0]);
    payload.extend(block);
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&[0x80, 3, 0, 1, 0][..], &length[1..], &payload].concat()
}

fn data(id: u32, last: bool, data: &[u8]) -> Vec<u8> {
    let length = u32::try_from(data.len()).unwrap().to_be_bytes();
    [&id.to_be_bytes()[..], &[u8::from(last)], &length[1..], data].concat()
}

#[tokio::test]
async fn streams_carry_data_both_ways_and_end_one_half_at_a_time() {
    let (near, mut far) = tokio::io::duplex(1 << 16);
    let (connection, mut streams) = Connection::new(near).unwrap();
    let talk = async {
        let mut deflater = headers::Deflater::try_new().unwrap();
        far.write_all(&open(&mut deflater, 1, "error")).await.unwrap();
        far.write_all(&open(&mut deflater, 3, "data")).await.unwrap();
        let one = streams.recv().await.unwrap();
        let mut two = streams.recv().await.unwrap();
        assert_eq!(
            (one.headers.get("streamtype"), two.headers.get("streamtype")),
            (Some("error"), Some("data"))
        );
        far.write_all(&data(3, false, b"hello")).await.unwrap();
        // A ping in between is answered, and settings are passed over.
        far.write_all(&[0x80, 3, 0, 6, 0, 0, 0, 4, 0, 0, 0, 9]).await.unwrap();
        far.write_all(&[0x80, 3, 0, 4, 0, 0, 0, 4, 0, 0, 0, 0]).await.unwrap();
        far.write_all(&data(3, true, b"")).await.unwrap();
        assert_eq!(two.input.recv().await.as_deref(), Some(&b"hello"[..]));
        assert_eq!(two.input.recv().await, None);
        two.output.send(Bytes::from_static(b"there")).await.unwrap();
        two.output.finish().await.unwrap();
        drop((one, two, streams));
    };
    connection.run(talk).await.unwrap();
    let mut seen = Vec::new();
    far.read_to_end(&mut seen).await.unwrap();
    let contains = |wanted: &[u8]| seen.windows(wanted.len()).any(|window| window == wanted);
    assert!(contains(&[0x80, 3, 0, 2]), "a stream is acknowledged");
    assert!(contains(&[0x80, 3, 0, 6, 0, 0, 0, 4, 0, 0, 0, 9]), "a ping is answered");
    assert!(contains(&data(3, false, b"there")) && contains(&data(3, true, b"")), "{seen:?}");
}

#[tokio::test]
async fn nonsense_ends_the_connection_and_nothing_else() {
    for nonsense in [
        &[0x80, 3, 0, 1, 0, 0xff, 0xff, 0xff][..],
        &[0x80, 3, 0, 1, 0, 0, 0, 4, 0, 0, 0, 1],
        &[0x80, 3, 0, 1, 0, 0, 0, 12, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 7, 7],
        &[0x80, 3, 0, 6, 0, 0, 0, 0],
    ] {
        let (near, mut far) = tokio::io::duplex(1 << 16);
        let (connection, streams) = Connection::new(near).unwrap();
        far.write_all(nonsense).await.unwrap();
        assert_eq!(
            connection.run(std::future::pending()).await.unwrap_err().kind(),
            io::ErrorKind::InvalidData,
            "{nonsense:?}"
        );
        drop(streams);
    }
}
