use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;

fn anywhere() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

fn is_watched(stream: &Stream) -> bool {
    matches!(stream.state, State::Watched(_))
}

fn is_prompt(stream: &Stream) -> bool {
    match &stream.state {
        State::Unwatched(stream) => stream.nodelay().unwrap(),
        State::Watched(stream) => stream.nodelay().unwrap(),
        State::Lost => panic!("the connection is lost"),
    }
}

#[tokio::test]
async fn client_that_has_spoken_is_not_watched_and_one_that_has_not_is_waited_for() {
    let listener = Listener::bind(anywhere()).unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    client.write_all(b"hello").await.unwrap();
    let (mut stream, peer) = listener.accept().await.unwrap();
    assert_eq!(peer, client.local_addr().unwrap());
    assert!(is_prompt(&stream), "accepted connections inherit it");
    let mut said = [0; 64];
    assert_eq!(stream.read(&mut said).await.unwrap(), 5);
    assert_eq!(&said[..5], b"hello");
    assert!(!is_watched(&stream));
    // All there was is taken: now there is something to wait for.
    let (read, written) = tokio::join!(stream.read(&mut said), async {
        tokio::task::yield_now().await;
        client.write_all(b"again").await
    });
    written.unwrap();
    assert_eq!(&said[..read.unwrap()], b"again");
    assert!(is_watched(&stream));
    drop(client);
    assert_eq!(stream.read(&mut said).await.unwrap(), 0);
}

#[tokio::test]
async fn client_that_speaks_is_accepted_before_one_that_came_earlier_and_is_silent() {
    let listener = Listener::bind(anywhere()).unwrap();
    let address = listener.local_addr().unwrap();
    let mut silent = TcpStream::connect(address).await.unwrap();
    let mut speaking = TcpStream::connect(address).await.unwrap();
    speaking.write_all(b"hello").await.unwrap();
    let (_stream, peer) = listener.accept().await.unwrap();
    assert_eq!(peer, speaking.local_addr().unwrap());
    silent.write_all(b"hello").await.unwrap();
    let (_stream, peer) = listener.accept().await.unwrap();
    assert_eq!(peer, silent.local_addr().unwrap());
}

#[tokio::test]
async fn all_who_wait_are_accepted_and_then_nobody() {
    let listener = Listener::bind(anywhere()).unwrap();
    let address = listener.local_addr().unwrap();
    let mut clients = Vec::new();
    for _ in 0..3 {
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(b"hello").await.unwrap();
        clients.push(client);
    }
    // The system may take a moment to see that they have spoken.
    let all = async {
        let mut accepted = 0;
        while accepted < clients.len() {
            accepted += listener.accept_waiting().count();
            tokio::task::yield_now().await;
        }
        accepted
    };
    let accepted = tokio::time::timeout(Duration::from_secs(20), all).await;
    assert_eq!(accepted, Ok(clients.len()));
    assert_eq!(listener.accept_waiting().count(), 0);
}

#[tokio::test]
async fn endpoint_hears_at_once_and_the_second_message_does_not_wait() {
    let listener = TcpListener::bind(anywhere()).await.unwrap();
    let mut stream = Stream::connect(listener.local_addr().unwrap()).unwrap();
    stream.write_all(b"first").await.unwrap();
    assert!(!is_watched(&stream), "an endpoint on the loopback is connected at once");
    assert!(!is_prompt(&stream));
    stream.write_all(b"second").await.unwrap();
    assert!(is_prompt(&stream));
    let (mut endpoint, _) = listener.accept().await.unwrap();
    stream.shutdown().await.unwrap();
    let mut heard = String::new();
    endpoint.read_to_string(&mut heard).await.unwrap();
    assert_eq!(heard, "firstsecond");
}

#[tokio::test]
async fn nobody_there_is_told_by_the_first_write() {
    let listener = TcpListener::bind(anywhere()).await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let refused = match Stream::connect(address) {
        Ok(mut stream) => stream.write_all(b"first").await.unwrap_err(),
        Err(error) => error,
    };
    assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
}

#[tokio::test]
async fn more_than_is_taken_at_once_arrives_whole() {
    const MUCH: usize = 16 * 1024 * 1024;
    let listener = TcpListener::bind(anywhere()).await.unwrap();
    let mut stream = Stream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut endpoint, _) = listener.accept().await.unwrap();
    let (sent, mut heard) = (vec![7; MUCH], Vec::new());
    let both = async {
        tokio::try_join!(
            async {
                stream.write_all(&sent).await?;
                stream.shutdown().await
            },
            endpoint.read_to_end(&mut heard)
        )
    };
    let (_, read) = tokio::time::timeout(Duration::from_secs(60), both).await.unwrap().unwrap();
    assert_eq!(read, MUCH);
    assert!(is_watched(&stream), "it had to wait for room");
    assert!(heard == sent);
}
