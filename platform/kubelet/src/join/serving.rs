//! What shows visitors who the node is.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use pilothouse_pki::AlternativeName;
use pilothouse_runtime::{Chain, Clock, TaskError};
use tokio::time::sleep;
use tracing::{info, warn};

use super::folder::{self, Folder};
use super::request::{Wish, obtain};
use super::{JoinError, PAUSE, subject};
use crate::config::Config;

/// The serving certificate of a node that has joined.
#[derive(Clone)]
pub(crate) struct Serving {
    config: Config,
    folder: Folder,
    clock: Clock,
    client: kube::Client,
}

impl Serving {
    pub(super) fn new(config: Config, folder: Folder, clock: Clock, client: kube::Client) -> Self {
        Self { config, folder, clock, client }
    }

    /// The file of the certificate and its key.
    pub(crate) fn file(&self) -> PathBuf {
        self.folder.file(folder::SERVING)
    }

    /// Returns once there is a certificate for this address. Somebody has to approve it, who may take a while; the node does
    /// without visitors until then.
    pub(crate) async fn ensure(&self, address: Ipv4Addr) -> Result<(), TaskError> {
        let wish = self.wish(address)?;
        let good = self.folder.current(folder::SERVING).is_some_and(|identity| {
            let certificate = identity.certificate();
            certificate.not_after() > self.clock.now() && certificate.names().iter().eq(sorted(&wish.names))
        });
        if good {
            return Ok(());
        }
        loop {
            match obtain(&self.client, &self.folder, &wish, self.config.join_limit.0).await {
                Ok(identity) => {
                    info!(until = %identity.certificate().not_after(), "the node can be visited");
                    return Ok(());
                }
                Err(error) => warn!(
                    error = %Chain(&error),
                    "the node has no serving certificate yet: no logs, exec or port-forward"
                ),
            }
            sleep(PAUSE).await;
        }
    }

    /// Renews it whenever it is time, until dropped. Who serves with it watches the file.
    pub(crate) async fn keep(self, address: Ipv4Addr) -> Result<(), TaskError> {
        let wish = self.wish(address)?;
        loop {
            if let Some(identity) = self.folder.current(folder::SERVING) {
                self.clock.sleep_until(identity.certificate().renew_at()).await;
            }
            match obtain(&self.client, &self.folder, &wish, self.config.join_limit.0).await {
                Ok(identity) => {
                    info!(until = %identity.certificate().not_after(), "renewed the serving certificate");
                }
                Err(error) => {
                    warn!(error = %Chain(&error), "the serving certificate is not renewed, trying again");
                }
            }
            sleep(PAUSE).await;
        }
    }

    fn wish(&self, address: Ipv4Addr) -> Result<Wish, JoinError> {
        let mut names = vec![AlternativeName::Ip(address.into())];
        // Not every name of a node is one of a host.
        names.extend(AlternativeName::dns(&self.config.node_name).ok());
        Ok(Wish {
            file: folder::SERVING,
            signer: "kubernetes.io/kubelet-serving",
            usages: ["digital signature", "server auth"],
            subject: subject(&self.config)?,
            names,
        })
    }
}

fn sorted(names: &[AlternativeName]) -> Vec<&AlternativeName> {
    let mut names: Vec<_> = names.iter().collect();
    names.sort();
    names
}
