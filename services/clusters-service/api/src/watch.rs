//! Reading a watch line by line.

use bytes::{Buf as _, BytesMut};
use futures::{Stream, stream};
use http::StatusCode;
use pilothouse_http::Response;

use crate::{Error, Event};

/// What was received and not yet given out.
struct Reader {
    response: Response,
    received: BytesMut,
    ended: bool,
}

/// The events of an answer, until either side ends it.
pub(crate) fn events(response: Response) -> impl Stream<Item = Result<Event, Error>> + Send {
    let reader = Reader { response, received: BytesMut::new(), ended: false };
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
            match self.response.chunk().await {
                Ok(Some(chunk)) => self.received.extend_from_slice(&chunk),
                // Half a line is no event: it comes again from the last cursor.
                Ok(None) => return None,
                Err(error) => return Some(Err(error.into())),
            }
        }
    }
}
