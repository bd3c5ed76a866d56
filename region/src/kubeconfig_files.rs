//! Kubeconfig files of hosted clusters go with their clusters.
//!
//! `up --cluster` leaves one in the data directory. Whoever deletes that cluster may do it anywhere and at any time, so the
//! region hears of it from Clusters Service. While there is no such file nothing is listened to.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use pilothouse_clusters_service_api::{self as clusters_service, Change, Client, ClusterId, ListQuery};
use pilothouse_http::Context;
use pilothouse_runtime::{Chain, Policy, Shutdown};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};
use tracing::{info, warn};

use crate::data_dir::DataDir;
use crate::first_cluster;

/// One call.
const CALL: Duration = Duration::from_secs(20);

/// The files, and who knows of their clusters.
pub(crate) struct KubeconfigFiles {
    data_dir: DataDir,
    client: Client,
    written: Arc<Notify>,
}

/// Why files could not be looked after for a while.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("Clusters Service did not say which clusters there are")]
    ClustersService(#[from] clusters_service::Error),
    #[error("Clusters Service ended a watch")]
    Ended,
    #[error("the files of clusters cannot be listed")]
    Folder(#[source] io::Error),
    #[error("`{}` cannot be removed", .path.display())]
    File {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

// === impl KubeconfigFiles ===

impl KubeconfigFiles {
    /// Those of a region. `written` is told of every new one.
    pub(crate) fn new(data_dir: DataDir, client: Client, written: Arc<Notify>) -> Self {
        Self { data_dir, client, written }
    }

    /// Looks after them until shutdown.
    pub(crate) async fn run(self, shutdown: Shutdown) {
        tokio::select! {
            () = shutdown.requested() => {}
            never = self.look_after() => match never {},
        }
    }

    async fn look_after(&self) -> Infallible {
        let mut delays = Policy::RECONNECT.delays();
        loop {
            let begun = Instant::now();
            match self.follow().await {
                Ok(()) => self.written.notified().await,
                Err(error) => {
                    if begun.elapsed() > Policy::RECONNECT.cap() {
                        delays.reset();
                    }
                    warn!(error = %Chain(&error), "kubeconfig files may outlive their clusters; trying again");
                    sleep(delays.next().unwrap_or_default()).await;
                }
            }
        }
    }

    /// Removes files as their clusters go. Returns when there is none.
    async fn follow(&self) -> Result<(), Error> {
        if self.names()?.is_empty() {
            return Ok(());
        }
        let mut events = pin!(self.client.watch(None).await?);
        let mut owners = BTreeSet::new();
        loop {
            let is_due = tokio::select! {
                () = self.written.notified() => true,
                event = events.next() => match event.ok_or(Error::Ended)??.change {
                    // From here on every change is told; what came before is seen by looking.
                    Change::Bookmark => true,
                    Change::ClusterDeleted(id) => owners.contains(&id),
                    _ => false,
                },
            };
            if is_due {
                owners = self.sweep().await?;
                if owners.is_empty() {
                    return Ok(());
                }
            }
        }
    }

    /// Removes the files whose clusters are gone. The answer is the other clusters.
    async fn sweep(&self) -> Result<BTreeSet<ClusterId>, Error> {
        let mut owners = BTreeSet::new();
        for name in self.names()? {
            let context = Context::new(CALL);
            let search = ListQuery::search(first_cluster::search(&name));
            if let Some(cluster) = self.client.cluster_list(&context, &search).await?.items.into_iter().next()
            {
                owners.insert(cluster.id);
                continue;
            }
            let path = self.data_dir.cluster_kubeconfig(&name);
            match fs::remove_file(&path) {
                Err(source) if source.kind() != io::ErrorKind::NotFound => {
                    return Err(Error::File { path, source });
                }
                _ => info!(cluster = name, "removed the kubeconfig of a cluster that is gone"),
            }
        }
        Ok(owners)
    }

    fn names(&self) -> Result<Vec<String>, Error> {
        self.data_dir.with_kubeconfig().map_err(Error::Folder)
    }
}

#[cfg(test)]
mod tests {
    use pilothouse_clusters_service_api::simulated::{Mode, Simulated};
    use pilothouse_clusters_service_api::{Cluster, NewCluster};
    use pilothouse_test_support::eventually;
    use serde_json::json;
    use tempfile::TempDir;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    fn cluster(service: &Simulated, group: &str, name: &str) -> Cluster {
        let new: NewCluster = serde_json::from_value(json!({
            "name": name,
            "version": { "id": "openshift-v4.20.8", "channel_group": "stable" },
            "azure": { "subscription_id": "00000000-0000-0000-0000-000000000001", "resource_group_name": group,
                       "resource_name": name, "managed_resource_group_name": format!("{group}-{name}") },
        }))
        .unwrap();
        service.make_cluster(new)
    }

    struct Files {
        folder: TempDir,
        files: KubeconfigFiles,
    }

    impl Files {
        fn new(service: &Simulated, names: &[&str]) -> Self {
            let folder = tempfile::tempdir().unwrap();
            fs::create_dir(folder.path().join("clusters")).unwrap();
            let data_dir = DataDir::new(folder.path());
            let files = KubeconfigFiles::new(data_dir, service.client(), Arc::default());
            let files = Self { folder, files };
            for name in names {
                files.write(name);
            }
            files
        }

        fn write(&self, name: &str) {
            fs::write(self.folder.path().join(format!("clusters/{name}.kubeconfig")), "").unwrap();
        }
    }

    /// Until so many questions after clusters were asked.
    async fn looked_at(service: &Simulated, times: usize) {
        eventually("files were looked at", LIMIT, || async {
            let asked = service.calls().len();
            if asked == times { Ok(()) } else { Err(format!("{asked} times")) }
        })
        .await;
    }

    #[tokio::test]
    async fn file_goes_when_its_cluster_does() {
        let service = Simulated::start(Mode::Automatic).await;
        let (first, second) = (cluster(&service, "first", "one"), cluster(&service, "first", "two"));
        // Somebody else's, of the same name.
        cluster(&service, "theirs", "one");
        // As it was written on the command line.
        let files = Files::new(&service, &["One"]);
        let story = async {
            looked_at(&service, 1).await;
            assert_eq!(files.files.names().unwrap(), ["One"]);
            // One more is listened for from now on.
            files.write("two");
            files.files.written.notify_one();
            looked_at(&service, 3).await;
            service.remove(&first);
            let left = || async {
                let left = files.files.names().unwrap();
                if left == ["two"] { Ok(()) } else { Err(left.join(", ")) }
            };
            eventually("the file is gone", LIMIT, left).await;
            service.remove(&second);
        };
        let (followed, ()) = tokio::join!(tokio::time::timeout(LIMIT, files.files.follow()), story);
        followed.expect("it ends with the last file").unwrap();
        assert_eq!(files.files.names().unwrap(), [""; 0]);
    }

    #[tokio::test]
    async fn file_of_a_cluster_that_went_while_nobody_looked_is_removed_at_the_next_start() {
        let service = Simulated::start(Mode::Automatic).await;
        let files = Files::new(&service, &["gone"]);
        tokio::time::timeout(LIMIT, files.files.follow()).await.expect("nothing is waited for").unwrap();
        assert_eq!(files.files.names().unwrap(), [""; 0]);
    }
}
