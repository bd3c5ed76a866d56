//! Reading a watch line by line.

use std::time::Duration;

use bytes::{Buf as _, BytesMut};
use futures::{Stream, stream};
use http::StatusCode;
use pilothouse_http::Response;
use tokio::time::timeout;

use crate::{Error, Event};

/// How often a watch on which nothing happens shows that it is still there: the service sends an empty line.
pub const HEARTBEAT: Duration = Duration::from_secs(20);

/// For how long a watch may be silent. One empty line may be late, and one more.
const SILENCE: Duration = HEARTBEAT.saturating_mul(3);

/// What was received and not yet given out.
struct Reader {
    response: Response,
    silence: Duration,
    received: BytesMut,
    ended: bool,
}

/// The events of an answer, until either side ends it or the other one is not heard of any more.
pub(crate) fn events(response: Response) -> impl Stream<Item = Result<Event, Error>> + Send {
    events_within(response, SILENCE)
}

fn events_within(response: Response, silence: Duration) -> impl Stream<Item = Result<Event, Error>> + Send {
    let reader = Reader { response, silence, received: BytesMut::new(), ended: false };
    stream::unfold(reader, |mut reader| async move {
        let next = reader.next().await?;
        // After an error there is nothing to go on from.
        reader.ended = next.is_err();
        Some((next, reader))
    })
}

impl Reader {
    async fn next(&mut self) -> Option<Result<Event, Error>> {
        if self.ended {
            return None;
        }
        loop {
            if let Some(end) = self.received.iter().position(|byte| *byte == b'\n') {
                let line = self.received.split_to(end);
                self.received.advance(1);
                // An empty line only shows that the other side is still there.
                if line.iter().all(u8::is_ascii_whitespace) {
                    continue;
                }
                return Some(
                    serde_json::from_slice(&line)
                        .map_err(|error| Error::Unreadable { status: StatusCode::OK, source: Some(error) }),
                );
            }
            match timeout(self.silence, self.response.chunk()).await {
                Ok(Ok(Some(chunk))) => self.received.extend_from_slice(&chunk),
                // Half a line is no event: it comes again from the last cursor.
                Ok(Ok(None)) => return None,
                Ok(Err(error)) => return Some(Err(error.into())),
                // A machine that is gone closes no connection.
                Err(_) => return Some(Err(Error::Silent(self.silence))),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures::StreamExt as _;
    use pilothouse_http::ClientBuilder;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;
    use crate::Change;

    /// Far beyond anything that works.
    const PATIENCE: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn a_service_that_is_not_heard_of_any_more_is_given_up() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/events", listener.local_addr().unwrap()).parse().unwrap();
        // It begins an answer, tells one event, and neither says anything more nor hangs up.
        let server = async {
            let (mut connection, _) = listener.accept().await.unwrap();
            let mut request = [0; 4096];
            let _read = connection.read(&mut request).await.unwrap();
            let event = Event { cursor: None, change: Change::Bookmark };
            let line = format!("{}\n", serde_json::to_string(&event).unwrap());
            let answer = format!("HTTP/1.1 200 OK\r\n\r\n{line}");
            connection.write_all(answer.as_bytes()).await.unwrap();
            connection
        };
        let client = ClientBuilder::new(PATIENCE).build().unwrap();
        let (_connection, response) = tokio::join!(server, client.get(url).streaming().send());
        let silence = Duration::from_millis(100);
        let mut events = pin!(events_within(response.unwrap(), silence));
        assert_eq!(events.next().await.unwrap().unwrap().change, Change::Bookmark);
        let ended = timeout(PATIENCE, events.next()).await.expect("nobody waits for ever").unwrap();
        assert!(matches!(ended, Err(Error::Silent(for_so_long)) if for_so_long == silence), "{ended:?}");
        assert!(events.next().await.is_none());
    }
}
