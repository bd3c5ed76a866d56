//! Clients of Kubernetes API servers, made from credentials that are at hand.

use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use pilothouse_pki::{Bundle, Credential, Identity};

/// An API server.
#[derive(Clone, Debug)]
pub(crate) struct Target<'a> {
    pub(crate) server: String,
    /// The name in its certificate, if it is not the host of the URL.
    pub(crate) server_name: Option<&'a str>,
    pub(crate) authorities: &'a Bundle,
}

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The credentials cannot be written as a kubeconfig.
    #[error("the credentials do not make a kubeconfig")]
    Write(#[from] pilothouse_pki::KubeconfigError),
    /// The kubeconfig is not understood.
    #[error("the kubeconfig is not understood")]
    Read(#[from] KubeconfigError),
    /// There is no kubeconfig, and no cluster whose pod this is.
    #[error("no cluster is named: there is no kubeconfig, and this is no pod")]
    Infer(#[from] kube::config::InferConfigError),
    /// They do not make a client.
    #[error(transparent)]
    Connection(#[from] pilothouse_informer::ConnectionError),
    /// The client refuses it.
    #[error("the Kubernetes client cannot be made")]
    Client(#[source] Box<kube::Error>),
}

/// A client for `target` as `user`.
pub(crate) async fn client(
    target: &Target<'_>,
    user: &str,
    identity: &Identity,
) -> Result<Client, ClientError> {
    let text = pilothouse_pki::Kubeconfig {
        cluster: "cluster",
        user,
        context: "cluster",
        server: &target.server,
        tls_server_name: target.server_name,
        authorities: target.authorities,
        namespace: None,
        credential: Credential::Certificate(identity),
    }
    .to_yaml()?;
    let kubeconfig = Kubeconfig::from_yaml(&text)?;
    let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    // A watch may be silent for as long as nothing happens.
    config.read_timeout = None;
    Ok(pilothouse_informer::client(&config)?)
}
