//! The client of the node's own API server.

use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::Uri;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioIo};
use kube::client::{ClientBuilder, ConfigExt as _};
use kube::config::{KubeConfigOptions, Kubeconfig};
use pilothouse_kubelet_api::{Dialer, Target};
use tokio::net::TcpStream;

use crate::config::Config;
use crate::error::Error;

/// Connects to one place, whatever address is asked for.
#[derive(Clone, Debug)]
struct HostConnector {
    dialer: Dialer,
    target: Target,
}

/// A client by the kubeconfig of `config`, through its host socket if it has one.
pub(crate) async fn connect(config: &Config) -> Result<kube::Client, Error> {
    let path = &config.kubeconfig;
    let unusable = |source| Error::Kubeconfig { path: path.clone(), source };
    let settings = read(path).await.map_err(unusable)?;
    // One crypto provider in the whole build; somebody else may have installed it already.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let Some(socket) = &config.host_socket else {
        return kube::Client::try_from(settings).map_err(|error| unusable(error.into()));
    };
    let connector =
        HostConnector { dialer: Dialer::new(socket), target: Target::Named(config.host_target.clone()) };
    let https =
        settings.rustls_https_connector_with_connector(connector).map_err(|error| unusable(error.into()))?;
    let service = tower::ServiceBuilder::new()
        .layer(settings.base_uri_layer())
        .option_layer(settings.auth_layer().map_err(|error| unusable(error.into()))?)
        .map_err(tower::BoxError::from)
        .service(Client::builder(TokioExecutor::new()).build::<_, kube::client::Body>(https));
    Ok(ClientBuilder::new(service, settings.default_namespace).build())
}

async fn read(path: &Path) -> Result<kube::Config, Box<dyn std::error::Error + Send + Sync>> {
    let kubeconfig = Kubeconfig::read_from(path)?;
    let mut settings =
        kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    // Watches are quiet for as long as nothing happens; the server ends them after minutes at the latest.
    settings.read_timeout = None;
    settings.connect_timeout = Some(std::time::Duration::from_secs(10));
    Ok(settings)
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
