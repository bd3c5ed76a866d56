//! What is behind the proxies: servers that take the first message of TLS for a greeting, and then do as the next byte says.

use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;

use anyhow::Context as _;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// Send without end.
pub(super) const BULK: u8 = b'B';
/// Answer with a byte, and end.
pub(super) const END: u8 = b'E';
/// Answer everything with itself.
pub(super) const QUESTIONS: u8 = b'Q';

/// What is sent at once.
const CHUNK: usize = 256 * 1024;

/// Servers on the loopback, in this process.
pub(super) struct Servers {
    pub(super) all: Vec<Server>,
    tasks: JoinSet<()>,
}

/// One of them.
#[derive(Clone, Debug)]
pub(super) struct Server {
    pub(super) host: String,
    pub(super) address: SocketAddr,
    /// How a client begins that wants to talk to it.
    pub(super) hello: Vec<u8>,
}

impl Servers {
    /// Those of these numbers, which their names have.
    pub(super) async fn start(numbers: Range<usize>) -> anyhow::Result<Self> {
        let mut servers = Self { all: Vec::new(), tasks: JoinSet::new() };
        for number in numbers {
            let host = format!("api.cluster-{number}.pilothouse.test");
            let listener = TcpListener::bind("127.0.0.1:0").await?;
            let (address, hello) = (listener.local_addr()?, hello(&host)?);
            servers.tasks.spawn(serve(listener));
            servers.all.push(Server { host, address, hello });
        }
        Ok(servers)
    }

    /// The one for this client.
    pub(super) fn of(&self, client: usize) -> &Server {
        &self.all[client % self.all.len()]
    }
}

/// What a client of TLS says first to this host.
fn hello(host: &str) -> anyhow::Result<Vec<u8>> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    let name = ServerName::try_from(host.to_owned())?;
    let mut client = ClientConnection::new(Arc::new(config), name)?;
    let mut bytes = Vec::new();
    while client.wants_write() {
        client.write_tls(&mut bytes)?;
    }
    let length = bytes.get(3..5).context("no record")?;
    let length = usize::from(u16::from_be_bytes([length[0], length[1]]));
    anyhow::ensure!(bytes.len() == 5 + length, "the first message is not one record");
    Ok(bytes)
}

async fn serve(listener: TcpListener) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => if let Ok((stream, _)) = accepted {
                connections.spawn(answer(stream));
            },
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
        }
    }
}

/// Ends when the client does; how does not matter here.
async fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut record = [0; 5];
    stream.read_exact(&mut record).await?;
    let mut rest = vec![0; usize::from(u16::from_be_bytes([record[3], record[4]]))];
    stream.read_exact(&mut rest).await?;
    match stream.read_u8().await? {
        BULK => {
            let chunk = vec![0; CHUNK];
            loop {
                stream.write_all(&chunk).await?;
            }
        }
        QUESTIONS => {
            let mut buffer = [0; 1024];
            loop {
                let read = stream.read(&mut buffer).await?;
                if read == 0 {
                    return Ok(());
                }
                stream.write_all(&buffer[..read]).await?;
            }
        }
        _ => {
            stream.write_u8(END).await?;
            stream.shutdown().await?;
            // The client ends it, too.
            stream.read(&mut record).await.map(|_| ())
        }
    }
}
