//! Finding the pods of an earlier kubelet again.

use std::sync::Arc;

use tracing::{info, warn};

use super::Pods;
use super::local::Local;
use super::record::{self, Record};
use super::sandbox::{self, Sandbox};
use crate::error::Error;
use crate::process::Process;

impl Pods {
    /// Takes over every pod there is something of on disk. Its shim goes on, or is ended if its network is gone, or was never finished.
    pub(crate) async fn adopt(&self) -> Result<(), Error> {
        let unreadable = |error: std::io::Error| Error::setup("the pods of an earlier kubelet")(error.into());
        for (folder, record) in record::all(&self.around().config.root).map_err(unreadable)? {
            let shim = record::shim(&folder);
            let Some(record) = record else {
                // Begun without having been written down, or almost removed: nobody else knows of it.
                if let Some(shim) = shim {
                    sandbox::end(shim).await.map_err(unreadable)?;
                }
                std::fs::remove_dir_all(&folder).map_err(unreadable)?;
                continue;
            };
            let local = Arc::new(Local::new(folder, record.clone()));
            match shim {
                Some(shim) if self.fits(&record) => {
                    self.keep_apart(&record).await?;
                    self.connect(&local, shim).await;
                }
                shim => {
                    if let Some(shim) = shim {
                        info!(pod = %record.key(), "ended a pod without its network");
                        sandbox::end(shim).await.map_err(unreadable)?;
                    }
                    self.take_apart(&record).await?;
                    local.update_record(Record::forget_network).map_err(unreadable)?;
                }
            }
            self.locals().insert(local);
        }
        self.around().cgroups.remove_others(&self.locals().uids().cloned().collect());
        Ok(())
    }

    /// Whether a pod still has its place in this network, and takes it.
    fn fits(&self, record: &Record) -> bool {
        let is_here = record.network == self.around().network_identity;
        record.attached
            && is_here
            && record
                .address
                .is_some_and(|address| address == self.node_address() || self.pool().reserve(address))
    }

    /// Has the network know again whose pod this is.
    async fn keep_apart(&self, record: &Record) -> Result<(), Error> {
        let own = record.address.filter(|address| *address != self.node_address());
        let Some(address) = own else { return Ok(()) };
        let kept = self.around().network.adopt(address, &record.namespace).await;
        kept.map_err(|failure| Error::setup("the network of an adopted pod")(failure.into()))
    }

    /// Has nothing left of a pod in this network: the next one there must not be let to what was this one's, nor be reached by those
    /// who were to reach this one.
    async fn take_apart(&self, record: &Record) -> Result<(), Error> {
        let is_here = record.network == self.around().network_identity;
        let Some(address) = record.address.filter(|address| is_here && *address != self.node_address())
        else {
            return Ok(());
        };
        self.keep_apart(record).await?;
        let left = self.around().network.detach(address).await;
        left.map_err(|failure| Error::setup("the network of a lost pod")(failure.into()))
    }

    async fn connect(&self, local: &Arc<Local>, shim: Process) {
        let record = local.record();
        match self.open(local, shim).await {
            Ok(sandbox) => {
                info!(pod = %record.key(), pid = shim.pid, "adopted a running pod");
                local.set_sandbox(Some(sandbox));
                self.around().metrics.adopted.inc();
            }
            // The first pass tries again, or ends it.
            Err(error) => warn!(pod = %record.key(), %error, "cannot talk to a running pod"),
        }
    }

    /// A connection to a shim that wakes the pod's key.
    pub(super) async fn open(&self, local: &Arc<Local>, shim: Process) -> std::io::Result<Sandbox> {
        let (key, waker) = (local.record().key(), self.inner.waker.clone());
        let on_change = move || waker.wake(key.clone());
        Sandbox::connect(local.folder.clone(), shim, &self.around().tasks, on_change).await
    }
}
