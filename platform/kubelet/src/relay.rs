//! The way out of a node's network to its API server, for a node that nobody gives one.
//!
//! A node with namespaces of its own reaches nothing outside. In a region, the region offers a socket through which the node
//! reaches the management API. A node that an administrator starts has this process instead: it stays outside, ends with its kubelet,
//! and opens connections to the one server that the kubeconfig names.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{ChildStdout, Command, ExitCode, Stdio};

use kube::config::Kubeconfig;
use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::unistd::{Pid, getppid};
use pilothouse_kubelet_api::{Acceptor, Handler, Target};
use pilothouse_runtime::{Shutdown, TaskError, Tasks};
use tokio::net::TcpStream;

use crate::config::{Config, Namespaces};
use crate::enter;
use crate::error::Error;

/// The verb of the program under which [`main`] is run.
pub const VERB: &str = "node-relay";

/// Says that everything is in place.
const READY: &str = "ready";

/// A relay that runs for as long as this process does.
#[derive(Debug)]
pub struct Relay {
    words: ChildStdout,
}

/// Opens connections to one server.
struct ToServer {
    host: String,
    port: u16,
}

/// Starts a relay and tells the configuration of it, if this node needs one. Call it before [`enter`](crate::enter()).
///
/// # Errors
///
/// When the kubeconfig names no server, or there is no starting it.
pub fn start(config: &mut Config) -> Result<Option<Relay>, Error> {
    if config.host_socket.is_some() || config.namespaces != Namespaces::Own {
        return Ok(None);
    }
    let path = match (&config.bootstrap_kubeconfig, config.kubeconfig.exists()) {
        (Some(bootstrap), false) if bootstrap.exists() => bootstrap.clone(),
        (Some(_), false) => crate::join::kubeconfig_path(config),
        _ => config.kubeconfig.clone(),
    };
    let unusable = |source| Error::Kubeconfig { path: path.clone(), source };
    let (host, port) = server(&path).map_err(unusable)?;
    let failed = |error: io::Error| Error::setup("the way to the API server")(error.into());
    std::fs::create_dir_all(&config.root).map_err(failed)?;
    let socket = config.root.join("host.sock");
    let program = enter::program(config)
        .map_err(|failure| Error::setup("the way to the API server")(failure.into()))?;
    let mut child = Command::new(program)
        .arg(VERB)
        .arg(&socket)
        .args([&host, &port.to_string(), &std::process::id().to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let no_words = || io::Error::other("it said nothing");
    let mut words = BufReader::new(child.stdout.take().ok_or_else(no_words).map_err(failed)?);
    let mut line = String::new();
    words.read_line(&mut line).map_err(failed)?;
    if line.trim_end() != READY {
        // It says what happened and ends.
        let _ = words.read_to_string(&mut line);
        let _ = child.wait();
        return Err(failed(io::Error::other(line.trim_end().to_owned())));
    }
    config.host_socket = Some(socket);
    Ok(Some(Relay { words: words.into_inner() }))
}

/// The server of a kubeconfig's current context.
fn server(path: &Path) -> Result<(String, u16), Box<dyn std::error::Error + Send + Sync>> {
    let kubeconfig = Kubeconfig::read_from(path)?;
    let current = kubeconfig.current_context.as_deref().unwrap_or_default();
    let context = kubeconfig.contexts.iter().find(|context| context.name == current);
    let cluster = context.and_then(|context| context.context.as_ref()).map(|context| &context.cluster);
    let cluster = kubeconfig.clusters.iter().find(|one| Some(&one.name) == cluster);
    let server = cluster.and_then(|cluster| cluster.cluster.as_ref()?.server.clone());
    let server = server.ok_or("its current context names no server")?;
    let url = url::Url::parse(&server)?;
    let host = url.host_str().ok_or("its server has no host")?.trim_matches(['[', ']']).to_owned();
    Ok((host, url.port_or_known_default().unwrap_or(443)))
}

/// The body of the hidden verb `node-relay SOCKET HOST PORT PARENT`. Call it before any thread exists.
pub fn main(arguments: impl IntoIterator<Item = String>) -> ExitCode {
    let arguments: Vec<_> = arguments.into_iter().collect();
    let [socket, host, port, parent] = arguments.as_slice() else {
        let _ = writeln!(io::stdout(), "usage: {VERB} SOCKET HOST PORT PARENT");
        return ExitCode::from(2);
    };
    let (Ok(port), Ok(parent)) = (port.parse(), parent.parse()) else { return ExitCode::from(2) };
    let target = ToServer { host: host.clone(), port };
    // One thread is enough to open connections, and costs the least.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let relayed = runtime
        .map_err(TaskError::from)
        .and_then(|runtime| runtime.block_on(relay(Path::new(socket), target, Pid::from_raw(parent))));
    match relayed {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stdout(), "{}", pilothouse_runtime::Chain(error.as_ref()));
            ExitCode::FAILURE
        }
    }
}

async fn relay(socket: &Path, target: ToServer, parent: Pid) -> Result<(), TaskError> {
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    if getppid() != parent {
        return Err("the kubelet has ended".into());
    }
    let acceptor = Acceptor::bind(socket)?;
    writeln!(io::stdout(), "{READY}")?;
    Ok(acceptor.serve(Tasks::new("relay", Shutdown::new()), target).await?)
}

// === impl Relay ===

impl Relay {
    /// Returns when it has ended, which it should not.
    pub async fn ended(self) -> TaskError {
        let words = tokio::net::unix::pipe::Receiver::from_owned_fd(OwnedFd::from(self.words));
        let mut rest = Vec::new();
        if let Ok(mut words) = words {
            // Its words end with it, however it ends.
            let _ = tokio::io::AsyncReadExt::read_to_end(&mut words, &mut rest).await;
        }
        format!("the way to the API server has ended: {}", String::from_utf8_lossy(&rest).trim_end()).into()
    }
}

// === impl ToServer ===

impl Handler for ToServer {
    async fn connect(&self, target: Target) -> io::Result<TcpStream> {
        match target {
            Target::Named(_) => TcpStream::connect((self.host.as_str(), self.port)).await,
            Target::Address(address) => Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                format!("{address} is not the API server of this node"),
            )),
        }
    }

    async fn stop_pods(&self) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_is_that_of_the_current_context() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("kubeconfig");
        let text = |server: &str| {
            serde_json::json!({
                "clusters": [
                    { "name": "other", "cluster": { "server": "https://other:1" } },
                    { "name": "mine", "cluster": { "server": server } },
                ],
                "contexts": [{ "name": "here", "context": { "cluster": "mine", "user": "me" } }],
                "current-context": "here",
            })
        };
        for (url, expected) in [
            ("https://api.example.com", ("api.example.com", 443)),
            ("https://127.0.0.1:6443/", ("127.0.0.1", 6443)),
            ("https://[::1]:6443", ("::1", 6443)),
        ] {
            std::fs::write(&path, text(url).to_string()).unwrap();
            let (host, port) = server(&path).unwrap();
            assert_eq!((host.as_str(), port), expected);
        }
    }
}
