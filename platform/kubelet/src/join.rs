//! How a node gets its certificates: a token asks for the first one, which asks for the next.
//!
//! Everything is below the node's root folder, in `pki`. The key of a certificate that is not there yet is written down before
//! anybody is asked, and the request is named by that key: a kubelet that is killed at any step finds its own request again, and
//! never asks twice.

use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::config::{AuthInfo, Context, Kubeconfig, NamedAuthInfo, NamedContext};
use pilothouse_pki::{Identity, Subject, Visibility, write_atomically};
use pilothouse_runtime::{Chain, Clock, TaskError};
use secrecy::SecretString;
use tracing::{info, warn};

use crate::client::{self, Switch};
use crate::config::Config;
use crate::error::Error;

mod error;
mod folder;
mod request;
mod serving;
#[cfg(test)]
mod tests;

pub use self::error::JoinError;
use self::folder::Folder;
use self::request::{Wish, obtain};
pub(crate) use self::serving::Serving;

/// What the node is called in the kubeconfig that it writes.
const USER: &str = "node";

/// Before the next attempt to renew, after one that failed, and after a certificate that is due again at once: then a clock is
/// wrong, and asking faster does not mend it.
const PAUSE: Duration = Duration::from_secs(60);

/// A node that has joined: its client, and what keeps it in.
pub(crate) struct Joined {
    pub(crate) client: kube::Client,
    pub(crate) membership: Option<Membership>,
}

/// What a node needs to stay in its cluster.
pub(crate) struct Membership {
    config: Config,
    folder: Folder,
    clock: Clock,
    client: kube::Client,
    switch: Switch,
    /// How the API server is reached, without credentials.
    settings: kube::Config,
    identity: Identity,
}

/// The client of this node, who joins first if it has to.
pub(crate) async fn join(config: &Config, clock: &Clock) -> Result<Joined, Error> {
    let Some(bootstrap) = &config.bootstrap_kubeconfig else {
        return Ok(Joined { client: client::connect(config).await?, membership: None });
    };
    let folder = Folder::open(&config.root)?;
    let kubeconfig = kubeconfig_path(config);
    if kubeconfig.exists() && !names_our_certificate(&kubeconfig, &folder) {
        info!(kubeconfig = %kubeconfig.display(), "used as it is: it does not name a certificate of this node's own");
        let config = Config { kubeconfig, ..config.clone() };
        return Ok(Joined { client: client::connect(&config).await?, membership: None });
    }
    let present = folder.current(folder::CLIENT).filter(|identity| is_good(identity, config, clock));
    let (settings, identity) = match present {
        Some(identity) if kubeconfig.exists() => (settings(&kubeconfig).await?, identity),
        Some(identity) => {
            let settings = settings(bootstrap).await?;
            write_kubeconfig(&kubeconfig, bootstrap, &folder)?;
            (settings, identity)
        }
        None => {
            let settings = settings(bootstrap).await?;
            let identity = first(config, &settings, bootstrap, &folder).await?;
            write_kubeconfig(&kubeconfig, bootstrap, &folder)?;
            (settings, identity)
        }
    };
    let unusable = |source| Error::Kubeconfig { path: kubeconfig.clone(), source };
    let (client, switch) =
        client::switchable(&with_identity(&settings, &identity), config).map_err(unusable)?;
    let (config, clock) = (config.clone(), clock.clone());
    let membership = Membership { config, folder, clock, client: client.clone(), switch, settings, identity };
    Ok(Joined { client, membership: Some(membership) })
}

/// The first certificate, by the token.
async fn first(
    config: &Config,
    settings: &kube::Config,
    bootstrap: &Path,
    folder: &Folder,
) -> Result<Identity, Error> {
    let unusable = |source| Error::Kubeconfig { path: bootstrap.to_owned(), source };
    let (client, _) = client::switchable(settings, config).map_err(unusable)?;
    info!(node = config.node_name, "asking for the node's certificate by a token");
    let wish = wish(config)?;
    let identity = obtain(&client, folder, &wish, config.join_limit.0).await;
    let identity = identity.map_err(|error| error.of_token(bootstrap))?;
    info!(until = %identity.certificate().not_after(), "the node has joined");
    Ok(identity)
}

/// What a node asks for to be let in.
fn wish(config: &Config) -> Result<Wish, JoinError> {
    Ok(Wish {
        file: folder::CLIENT,
        signer: "kubernetes.io/kube-apiserver-client-kubelet",
        usages: ["digital signature", "client auth"],
        subject: subject(config)?,
        names: Vec::new(),
    })
}

/// Who a node is to the API server.
fn subject(config: &Config) -> Result<Subject, JoinError> {
    let subject = Subject::try_new(format!("system:node:{}", config.node_name))?;
    Ok(subject.with_organizations(["system:nodes"])?)
}

/// Whether this certificate is this node's and still lets it in.
fn is_good(identity: &Identity, config: &Config, clock: &Clock) -> bool {
    let certificate = identity.certificate();
    certificate.not_after() > clock.now()
        && certificate.subject().common_name() == format!("system:node:{}", config.node_name)
}

/// Where the kubeconfig of a node that joins is.
pub(crate) fn kubeconfig_path(config: &Config) -> PathBuf {
    match config.kubeconfig.as_os_str().is_empty() {
        true => Folder::path_in(&config.root).join("kubeconfig"),
        false => config.kubeconfig.clone(),
    }
}

/// Whether a kubeconfig is one that we wrote.
fn names_our_certificate(path: &Path, folder: &Folder) -> bool {
    let Ok(kubeconfig) = Kubeconfig::read_from(path) else { return false };
    let ours = folder.file(folder::CLIENT);
    let mut users = kubeconfig.auth_infos.iter().filter_map(|user| user.auth_info.as_ref());
    users.any(|user| user.client_certificate.as_deref().is_some_and(|file| Path::new(file) == ours))
}

/// The way to the API server that a kubeconfig tells, with its credentials.
async fn settings(path: &Path) -> Result<kube::Config, Error> {
    client::read(path).await.map_err(|source| Error::Kubeconfig { path: path.to_owned(), source })
}

fn with_identity(settings: &kube::Config, identity: &Identity) -> kube::Config {
    let mut settings = settings.clone();
    settings.auth_info = AuthInfo {
        client_certificate_data: Some(STANDARD.encode(identity.chain_pem())),
        client_key_data: Some(SecretString::from(STANDARD.encode(identity.key().to_pem().as_bytes()))),
        ..AuthInfo::default()
    };
    settings
}

/// Writes the kubeconfig of a node that has joined: the same server, and its own certificate by the name of its file, so that
/// it stays true when that is renewed.
fn write_kubeconfig(path: &Path, bootstrap: &Path, folder: &Folder) -> Result<(), Error> {
    let unusable = |source| Error::Kubeconfig { path: bootstrap.to_owned(), source };
    let mut kubeconfig = Kubeconfig::read_from(bootstrap).map_err(|error| unusable(error.into()))?;
    let current = kubeconfig.current_context.clone().unwrap_or_default();
    let context = kubeconfig.contexts.iter().find(|context| context.name == current);
    let cluster = context.and_then(|context| context.context.as_ref()).map(|context| context.cluster.clone());
    let cluster = cluster.unwrap_or_default();
    kubeconfig.clusters.retain(|one| one.name == cluster);
    let file = folder.file(folder::CLIENT).to_string_lossy().into_owned();
    let user =
        AuthInfo { client_certificate: Some(file.clone()), client_key: Some(file), ..AuthInfo::default() };
    kubeconfig.auth_infos =
        vec![NamedAuthInfo { name: USER.to_owned(), auth_info: Some(user), ..NamedAuthInfo::default() }];
    let context = Context { cluster, user: Some(USER.to_owned()), ..Context::default() };
    kubeconfig.contexts =
        vec![NamedContext { name: USER.to_owned(), context: Some(context), ..NamedContext::default() }];
    kubeconfig.current_context = Some(USER.to_owned());
    // JSON is YAML.
    let text = serde_json::to_string_pretty(&kubeconfig).map_err(|error| unusable(error.into()))?;
    let written = write_atomically(path, format!("{text}\n").as_bytes(), Visibility::OwnerOnly);
    Ok(written.map_err(JoinError::from)?)
}

// === impl Membership ===

impl Membership {
    /// What the node needs to be visited.
    pub(crate) fn serving(&self) -> Serving {
        Serving::new(self.config.clone(), self.folder.clone(), self.clock.clone(), self.client.clone())
    }

    /// The authorities of the cluster, as a file for whoever verifies clients.
    pub(crate) fn write_authorities(&self) -> Result<PathBuf, Error> {
        Ok(self.folder.write_authorities(self.settings.root_cert.as_deref().unwrap_or_default())?)
    }

    /// Renews the certificate whenever it is time, until dropped.
    pub(crate) async fn keep(mut self) -> Result<(), TaskError> {
        loop {
            self.clock.sleep_until(self.identity.certificate().renew_at()).await;
            match self.renew().await {
                Ok(identity) => {
                    info!(until = %identity.certificate().not_after(), "renewed the node's certificate");
                    self.identity = identity;
                    if self.identity.certificate().renew_at() <= self.clock.now() {
                        warn!(
                            "the new certificate is due at once: this machine's clock differs from its signer's"
                        );
                        tokio::time::sleep(PAUSE).await;
                    }
                }
                Err(error) => {
                    let until = self.identity.certificate().not_after();
                    warn!(error = %Chain(&error), %until, "the node's certificate is not renewed, trying again");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    async fn renew(&self) -> Result<Identity, Error> {
        let bootstrap = self.config.bootstrap_kubeconfig.as_deref();
        let expired = self.identity.certificate().not_after() <= self.clock.now();
        let identity = match bootstrap {
            // Who has slept too long begins anew.
            Some(bootstrap) if expired && bootstrap.exists() => {
                first(&self.config, &settings(bootstrap).await?, bootstrap, &self.folder).await?
            }
            _ => obtain(&self.client, &self.folder, &wish(&self.config)?, self.config.join_limit.0).await?,
        };
        let settings = with_identity(&self.settings, &identity);
        let exchanged = self.switch.exchange(&settings, &self.config);
        exchanged.map_err(|source| Error::Kubeconfig { path: kubeconfig_path(&self.config), source })?;
        Ok(identity)
    }
}
