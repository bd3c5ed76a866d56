//! Both ends of a node's socket, in one process.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use pilothouse_kubelet_api::{Acceptor, Dialer, Handler, Places, Target};
use pilothouse_runtime::{OnExit, Reason, Shutdown, Tasks};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

struct Served {
    folder: TempDir,
    path: PathBuf,
    shutdown: Shutdown,
}

impl Served {
    fn start(handler: impl Handler) -> Self {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("node.sock");
        Self::start_at(folder, path, handler)
    }

    fn start_at(folder: TempDir, path: PathBuf, handler: impl Handler) -> Self {
        let shutdown = Shutdown::new();
        let tasks = Tasks::new("node", shutdown.clone());
        let acceptor = Acceptor::bind(&path).unwrap();
        tasks
            .clone()
            .spawn("socket", OnExit::StopProcess, async move { Ok(acceptor.serve(tasks, handler).await?) });
        Self { folder, path, shutdown }
    }
}

/// Connects wherever it is told, as a node does.
struct Anywhere;

impl Handler for Anywhere {
    async fn connect(&self, target: Target) -> io::Result<TcpStream> {
        match target {
            Target::Address(address) => TcpStream::connect(address).await,
            Target::Named(name) => Err(io::Error::other(format!("who is {name}?"))),
        }
    }
}

/// Never answers.
struct Stuck;

impl Handler for Stuck {
    async fn connect(&self, _target: Target) -> io::Result<TcpStream> {
        std::future::pending().await
    }
}

/// Answers one connection with what it was sent.
async fn echo() -> (SocketAddr, impl Future<Output = ()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let answering = async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut bytes = [0; 5];
        stream.read_exact(&mut bytes).await.unwrap();
        stream.write_all(&bytes).await.unwrap();
    };
    (address, answering)
}

async fn talk(mut stream: TcpStream) {
    stream.write_all(b"hello").await.unwrap();
    let mut bytes = [0; 5];
    stream.read_exact(&mut bytes).await.unwrap();
    assert_eq!(&bytes, b"hello");
}

#[tokio::test]
async fn handed_over_connection_works_and_outlives_the_server() {
    let served = Served::start(Anywhere);
    let (address, answering) = echo().await;
    let stream = Dialer::new(&served.path).connect(address).await.unwrap();
    served.shutdown.request(Reason::Asked("the kubelet goes".into()));
    assert_eq!(stream.peer_addr().unwrap(), address);
    tokio::join!(answering, talk(stream));
}

#[tokio::test]
async fn paths_longer_than_the_kernel_takes_work() {
    let folder = TempDir::new().unwrap();
    let deep = folder.path().join("d".repeat(120));
    std::fs::create_dir(&deep).unwrap();
    let served = Served::start_at(folder, deep.join("node.sock"), Anywhere);
    let (address, answering) = echo().await;
    let stream = Dialer::new(&served.path).connect(address).await.unwrap();
    tokio::join!(answering, talk(stream));
    assert!(served.folder.path().exists());
}

#[tokio::test]
async fn only_named_places_are_on_offer_outside() {
    let (address, answering) = echo().await;
    let served = Served::start(Places::new().with("management-api", address));
    let dialer = Dialer::new(&served.path);

    let refused = dialer.connect(address).await.unwrap_err().to_string();
    assert!(refused.contains("is not on offer here"), "{refused}");
    let refused = dialer.connect_to(&Target::Named("frontend".into())).await.unwrap_err().to_string();
    assert!(refused.contains("`frontend` is not on offer here"), "{refused}");

    let stream = dialer.connect_to(&Target::Named("management-api".into())).await.unwrap();
    tokio::join!(answering, talk(stream));
}

#[tokio::test]
async fn refusals_say_where_and_why() {
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let served = Served::start(Anywhere);
    let error = Dialer::new(&served.path).connect(closed).await.unwrap_err().to_string();
    assert!(error.contains(&closed.to_string()) && error.contains("refused"), "{error}");
    let error = Dialer::new(&served.path).stop_pods(Duration::from_secs(60)).await.unwrap_err().to_string();
    assert!(error.contains("there are no pods on this side"), "{error}");

    let nobody = served.folder.path().join("nobody.sock");
    let error = Dialer::new(&nobody).connect(closed).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
    assert!(error.to_string().contains("nobody.sock"), "{error}");
}

#[tokio::test]
async fn waiting_for_a_connection_has_an_end() {
    let served = Served::start(Stuck);
    let dialer = Dialer::new(&served.path).with_deadline(Duration::from_millis(1));
    let error = dialer.connect("10.0.0.1:1".parse().unwrap()).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
}
