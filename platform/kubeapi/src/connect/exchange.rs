//! One request over one connection, whose answer may be that the connection becomes something else.

use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures::future::BoxFuture;
use http::header::{CONNECTION, TRANSFER_ENCODING, UPGRADE};
use http::request::Parts;
use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use pilothouse_runtime::OnExit;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tracing::debug;

use crate::pods::PATIENCE;
use crate::server::Server;
use crate::status::Failure;

/// What a request goes over.
pub(super) enum Link {
    Kubelet(Box<TlsStream<TcpStream>>),
    Plain(TcpStream),
}

/// What carries a connection, until it has ended.
type Driver = Option<BoxFuture<'static, hyper::Result<()>>>;

async fn driven(connection: &mut Driver) -> hyper::Result<()> {
    let Some(open) = connection else { return Ok(()) };
    let ended = open.await;
    *connection = None;
    ended
}

pub(super) async fn exchange(
    server: &Arc<Server>,
    link: Link,
    parts: Parts,
    request: Request<Body>,
) -> Result<Response, Failure> {
    match link {
        Link::Kubelet(stream) => over(server, *stream, parts, request).await,
        Link::Plain(stream) => over(server, stream, parts, request).await,
    }
}

async fn over<IO: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    server: &Arc<Server>,
    stream: IO,
    mut parts: Parts,
    request: Request<Body>,
) -> Result<Response, Failure> {
    let failed =
        |error: hyper::Error| Failure::unavailable(format!("error trying to reach the other side: {error}"));
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(failed)?;
    let mut connection: Driver = Some(Box::pin(connection.with_upgrades()));
    let asking = async {
        let mut sending = std::pin::pin!(sender.send_request(request));
        tokio::select! {
            biased;
            response = &mut sending => return response.map_err(failed),
            ended = driven(&mut connection) => ended.map_err(failed)?,
        }
        // It ends with an answer that it has given already where that makes the connection something else.
        sending.await.map_err(failed)
    };
    let answered = tokio::time::timeout(PATIENCE, asking).await;
    let mut answered = answered.map_err(|_| Failure::timeout("the other side did not answer in time"))??;
    if answered.status() != StatusCode::SWITCHING_PROTOCOLS {
        return Ok(passed_on(server, answered, connection));
    }
    let Some(near) = parts.extensions.remove::<OnUpgrade>() else {
        return Err(Failure::bad_request("this connection cannot become another; use HTTP/1.1"));
    };
    let far = hyper::upgrade::on(&mut answered);
    let shutdown = server.shutdown.clone();
    server.tasks.spawn("tunnel", OnExit::Expendable, async move {
        let carried = async {
            // Driven to the point where it gives the connection away.
            driven(&mut connection).await?;
            let (near, far) = tokio::try_join!(near, far)?;
            let (mut near, mut far) = (TokioIo::new(near), TokioIo::new(far));
            if let Err(error) = tokio::io::copy_bidirectional(&mut near, &mut far).await {
                // Either side may go as it likes.
                debug!(%error, "a connection through this server ended early");
            }
            Ok(())
        };
        tokio::select! {
            ended = carried => ended,
            () = shutdown.requested() => Ok(()),
        }
    });
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    *response.headers_mut() = std::mem::take(answered.headers_mut());
    Ok(response)
}

/// An ordinary answer, as it comes.
fn passed_on(server: &Server, answered: Response<Incoming>, connection: Driver) -> Response {
    let (mut head, body) = answered.into_parts();
    for name in [CONNECTION, TRANSFER_ENCODING, UPGRADE] {
        head.headers.remove(name);
    }
    let state = (body, connection, server.shutdown.clone());
    let stream = futures::stream::unfold(state, |(mut body, mut connection, shutdown)| async move {
        tokio::select! {
            bytes = next(&mut body, &mut connection) => Some((bytes?, (body, connection, shutdown))),
            () = shutdown.requested() => None,
        }
    });
    Response::from_parts(head, Body::from_stream(stream))
}

/// More of a body. The connection has to be driven for more to come.
async fn next(body: &mut Incoming, connection: &mut Driver) -> Option<hyper::Result<Bytes>> {
    loop {
        if connection.is_none() {
            let frame = body.frame().await?;
            return Some(frame.map(|frame| frame.into_data().unwrap_or_default()));
        }
        tokio::select! {
            biased;
            frame = body.frame() => {
                return Some(frame?.map(|frame| frame.into_data().unwrap_or_default()));
            }
            // Whatever became of it, the body knows.
            _ = driven(connection) => {}
        }
    }
}
