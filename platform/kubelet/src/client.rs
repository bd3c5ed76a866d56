//! The client of the node's own API server.

use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use http::{Request, Response, Uri};
use hyper_util::rt::TokioIo;
use kube::client::{Body, ClientBuilder};
use kube::config::{KubeConfigOptions, Kubeconfig};
use pilothouse_informer::{Requests, Streamed, connector, requests};
use pilothouse_kubelet_api::{Dialer, Target};
use tokio::net::TcpStream;
use tower::{BoxError, ServiceExt as _};

use crate::config::Config;
use crate::error::Error;

/// Connects to one place, whatever address is asked for.
#[derive(Clone, Debug)]
struct HostConnector {
    dialer: Dialer,
    target: Target,
}

/// A client whose credentials can be exchanged while it is used. A cheap handle.
#[derive(Clone)]
pub(crate) struct Switch {
    current: Arc<Mutex<Requests>>,
}

/// A client by the kubeconfig of `config`, through its host socket if it has one.
pub(crate) async fn connect(config: &Config) -> Result<kube::Client, Error> {
    let path = &config.kubeconfig;
    let unusable = |source| Error::Kubeconfig { path: path.clone(), source };
    let settings = read(path).await.map_err(unusable)?;
    Ok(switchable(&settings, config).map_err(unusable)?.0)
}

/// A client by these settings, and the handle that exchanges its credentials.
pub(crate) fn switchable(
    settings: &kube::Config,
    config: &Config,
) -> Result<(kube::Client, Switch), BoxError> {
    let switch = Switch { current: Arc::new(Mutex::new(connections(settings, config)?)) };
    let namespace = settings.default_namespace.clone();
    Ok((ClientBuilder::new(switch.clone(), namespace).build(), switch))
}

fn connections(settings: &kube::Config, config: &Config) -> Result<Requests, BoxError> {
    let Some(socket) = &config.host_socket else {
        return Ok(requests(settings, connector(settings))?);
    };
    let target = Target::Named(config.host_target.clone());
    Ok(requests(settings, HostConnector { dialer: Dialer::new(socket), target })?)
}

/// The settings of a kubeconfig.
pub(crate) async fn read(path: &Path) -> Result<kube::Config, BoxError> {
    of_kubeconfig(Kubeconfig::read_from(path)?).await
}

pub(crate) async fn of_kubeconfig(kubeconfig: Kubeconfig) -> Result<kube::Config, BoxError> {
    let mut settings =
        kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    // Watches are quiet for as long as nothing happens; the server ends them after minutes at the latest.
    settings.read_timeout = None;
    settings.connect_timeout = Some(std::time::Duration::from_secs(10));
    Ok(settings)
}

// === impl Switch ===

impl Switch {
    /// From now on every request goes over new connections, with the credentials of these settings. Those under way end on the
    /// old ones.
    pub(crate) fn exchange(&self, settings: &kube::Config, config: &Config) -> Result<(), BoxError> {
        *self.lock() = connections(settings, config)?;
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Requests> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl tower::Service<Request<Body>> for Switch {
    type Response = Response<Streamed>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Streamed>, BoxError>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let current = self.lock().clone();
        Box::pin(current.oneshot(request))
    }
}

impl tower::Service<Uri> for HostConnector {
    type Response = TokioIo<TcpStream>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<TokioIo<TcpStream>>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _address: Uri) -> Self::Future {
        let Self { dialer, target } = self.clone();
        Box::pin(async move {
            let stream = dialer.connect_to(&target).await?;
            stream.set_nodelay(true)?;
            Ok(TokioIo::new(stream))
        })
    }
}
