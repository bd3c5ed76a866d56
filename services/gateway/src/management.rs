//! The way to a management cluster.
//!
//! The one that the gateway is started with is given to it. Those of the configuration it connects to itself, by their
//! kubeconfigs, and again when one of those says something else than before.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use kube::config::{Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use pilothouse_informer::Reachability;

use crate::config::ManagementCluster;
use crate::dial::{Dial, dialer};
use crate::error::Error;

/// How long a connection to an API server may take.
const CONNECT: Duration = Duration::from_secs(30);

/// A management cluster.
pub struct Management {
    /// What it is called.
    pub name: String,
    /// Its API.
    pub client: Client,
    /// How its endpoints are reached.
    pub dialer: Arc<dyn Dial>,
}

/// What there is about a management cluster of the configuration: if that is the same as before, the way to it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) cluster: ManagementCluster,
    /// Of what its files say, and not that itself: keys are among them.
    digest: u64,
}

/// Why a kubeconfig is of no use.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Unusable {
    /// It is not there, or says something else.
    #[error("the kubeconfig is not understood")]
    Kubeconfig(#[from] KubeconfigError),
    /// Credentials or authorities cannot be used.
    #[error("the Kubernetes client cannot be made")]
    Client(#[source] Box<kube::Error>),
}

// === impl Origin ===

impl Origin {
    /// Reads its files.
    pub(crate) fn read(cluster: &ManagementCluster) -> Self {
        let mut hasher = DefaultHasher::new();
        for path in files(&cluster.kubeconfig) {
            // One that cannot be read is one of what there is; whoever connects says so.
            fs::read(&path).ok().hash(&mut hasher);
        }
        Self { cluster: cluster.clone(), digest: hasher.finish() }
    }

    /// The way there. Whether anybody answers is not looked at. Blocks, as a kubeconfig may name a program that says who asks.
    pub(crate) fn connect(&self) -> Result<(Management, Reachability), Error> {
        let ManagementCluster { name, kubeconfig, node_socket } = &self.cluster;
        let client = client(kubeconfig).map_err(|source| Error::Management {
            name: name.clone(),
            kubeconfig: kubeconfig.clone(),
            source,
        })?;
        let reachability = Reachability::named(name);
        let client = reachability.of(client);
        Ok((Management { name: name.clone(), client, dialer: dialer(node_socket.as_deref()) }, reachability))
    }
}

/// The files that say how a cluster is reached: the kubeconfig, and those that it names. Tokens are not among them, which the
/// client reads again itself.
pub(crate) fn files(kubeconfig: &Path) -> Vec<PathBuf> {
    let mut files = vec![kubeconfig.to_owned()];
    if let Ok(read) = Kubeconfig::read_from(kubeconfig) {
        let clusters = read.clusters.into_iter().filter_map(|named| named.cluster);
        files.extend(clusters.filter_map(|cluster| cluster.certificate_authority).map(PathBuf::from));
        let users = read.auth_infos.into_iter().filter_map(|named| named.auth_info);
        let named = users.flat_map(|user| [user.client_certificate, user.client_key]);
        files.extend(named.flatten().map(PathBuf::from));
    }
    files
}

fn client(kubeconfig: &Path) -> Result<Client, Unusable> {
    let mut config = Config::try_from(Kubeconfig::read_from(kubeconfig)?)?;
    // A watch may be silent for as long as nothing happens.
    config.read_timeout = None;
    config.connect_timeout = Some(CONNECT);
    Client::try_from(config).map_err(|error| Unusable::Client(Box::new(error)))
}

#[cfg(test)]
mod tests {
    use pilothouse_runtime::Chain;

    use super::*;

    #[test]
    fn way_is_another_when_a_file_that_the_kubeconfig_names_says_something_else() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let write = |name: &str, text: &str| fs::write(at(name), text).unwrap();
        let kubeconfig = "{apiVersion: v1, kind: Config, current-context: it, \
             clusters: [{name: it, cluster: {server: 'https://127.0.0.1:1', certificate-authority: ca.crt}}], \
             contexts: [{name: it, context: {cluster: it, user: it}}], \
             users: [{name: it, user: {client-certificate: it.crt, client-key: it.key}}]}";
        write("kubeconfig", kubeconfig);
        let cluster =
            ManagementCluster { name: "west".to_owned(), kubeconfig: at("kubeconfig"), node_socket: None };
        assert_eq!(files(&cluster.kubeconfig), ["kubeconfig", "ca.crt", "it.crt", "it.key"].map(at));
        let mut before = Origin::read(&cluster);
        assert_eq!(Origin::read(&cluster), before);
        for name in ["ca.crt", "it.crt", "it.key", "kubeconfig"] {
            write(name, "another");
            let after = Origin::read(&cluster);
            assert_ne!(after, before, "{name}");
            before = after;
        }
        let Err(error) = before.connect() else { panic!("that is no kubeconfig") };
        let told = Chain(&error).to_string();
        assert!(told.starts_with("management cluster `west` cannot be followed by "), "{told}");
    }
}
