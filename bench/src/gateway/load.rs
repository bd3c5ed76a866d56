//! Clients.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use super::proxies::Proxy;
use super::servers::{BULK, END, QUESTIONS, Server, Servers};
use crate::harness::Samples;

/// Clients at once.
pub(super) const CONNECTIONS: usize = 32;
/// The same where each of them takes all it can get.
pub(super) const BULK_CONNECTIONS: usize = 4;
/// How long a question is.
pub(super) const QUESTION: usize = 64;

/// What is read at once.
const CHUNK: usize = 256 * 1024;
const MEBIBYTE: f64 = 1024.0 * 1024.0;

/// What came of it. Latencies in milliseconds.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) rate: f64,
    pub(super) latencies: Samples,
}

/// Connects to a server through a proxy, and says what is wanted.
async fn connect(proxy: SocketAddr, server: &Server, wanted: u8, client: usize) -> anyhow::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    // An address for each client, so that ports of connections that have ended do not run out.
    let own = u8::try_from(client % 250)? + 1;
    socket.bind(SocketAddr::from(([127, 0, 1, own], 0)))?;
    let mut stream = socket.connect(proxy).await?;
    stream.set_nodelay(true)?;
    let mut words = server.hello.clone();
    words.push(wanted);
    stream.write_all(&words).await?;
    Ok(stream)
}

/// Mebibytes a second that clients get.
pub(super) async fn bulk(proxy: &Proxy, servers: &Servers, duration: Duration) -> anyhow::Result<f64> {
    let mut streams = Vec::new();
    for client in 0..BULK_CONNECTIONS {
        let mut stream = connect(proxy.address, servers.of(client), BULK, client).await?;
        // It has begun before the clock does.
        stream.read_u8().await?;
        streams.push(stream);
    }
    let start = Instant::now();
    let mut tasks = JoinSet::new();
    for mut stream in streams {
        tasks.spawn(async move {
            let mut buffer = vec![0; CHUNK];
            let mut total = 0;
            while let Ok(read) = timeout_at(start + duration, stream.read(&mut buffer)).await {
                match read? {
                    0 => anyhow::bail!("the proxy has ended a connection"),
                    read => total += read,
                }
            }
            Ok(total)
        });
    }
    let mut total = 0;
    while let Some(received) = tasks.join_next().await {
        total += received??;
    }
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52 bytes")]
    let mebibytes = total as f64 / MEBIBYTE;
    Ok(mebibytes / start.elapsed().as_secs_f64())
}

/// Connections that are made, answered and ended, one after another by each client.
pub(super) async fn connections(
    proxy: &Proxy,
    servers: &Servers,
    duration: Duration,
) -> anyhow::Result<Outcome> {
    let address = proxy.address;
    in_parallel(|client, start| {
        let server = servers.of(client).clone();
        async move {
            let mut took = Vec::new();
            while start.elapsed() < duration {
                let begun = Instant::now();
                let mut stream = connect(address, &server, END, client).await?;
                let answer = stream.read_u8().await?;
                took.push(begun.elapsed());
                ensure!(answer == END, "the server answers something else");
                // To the end, so that it has ended for everybody when the next begins.
                ensure!(stream.read_u8().await.is_err(), "the server goes on");
            }
            Ok(took)
        }
    })
    .await
}

/// Questions on connections that stay open.
pub(super) async fn questions(
    proxy: &Proxy,
    servers: &Servers,
    duration: Duration,
) -> anyhow::Result<Outcome> {
    let mut opened = Vec::new();
    for client in 0..CONNECTIONS {
        opened.push(connect(proxy.address, servers.of(client), QUESTIONS, client).await?);
    }
    in_parallel(|client, start| {
        // Each takes its own, the last client the first one.
        let stream = opened.pop();
        async move {
            let mut stream = stream.with_context(|| format!("client {client} has no connection"))?;
            let mut took = Vec::new();
            let mut answer = [0; QUESTION];
            while start.elapsed() < duration {
                let begun = Instant::now();
                stream.write_all(&[7; QUESTION]).await?;
                stream.read_exact(&mut answer).await?;
                took.push(begun.elapsed());
            }
            Ok(took)
        }
    })
    .await
}

/// All clients at once.
async fn in_parallel<F>(mut client: impl FnMut(usize, Instant) -> F) -> anyhow::Result<Outcome>
where
    F: Future<Output = anyhow::Result<Vec<Duration>>> + Send + 'static,
{
    let start = Instant::now();
    let mut tasks = JoinSet::new();
    for number in 0..CONNECTIONS {
        tasks.spawn(client(number, start));
    }
    let mut latencies = Samples::default();
    while let Some(took) = tasks.join_next().await {
        took??.into_iter().for_each(|took| latencies.push_milliseconds(took));
    }
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52 questions")]
    let rate = latencies.len() as f64 / start.elapsed().as_secs_f64();
    Ok(Outcome { rate, latencies })
}
