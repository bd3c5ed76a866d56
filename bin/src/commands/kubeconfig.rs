//! `kubeconfig`: the way into a hosted cluster.

use std::io::{self, Write as _};
use std::path::PathBuf;

use anyhow::anyhow;
use pilothouse_region::{BreakGlass, HostedClusters, HostedClustersError};
use pilothouse_runtime::Clock;
use tokio::runtime;
use url::Url;

use super::peer::Peer;
use super::region_data::RegionArgs;
use crate::{Failure, Hint, Output};

/// Print the administrator's kubeconfig of a hosted cluster.
///
/// It works through the gateway, without any DNS. `pilothouse kubeconfig first > first.kubeconfig`, then
/// `kubectl --kubeconfig first.kubeconfig get nodes`. The cluster is one of the region on this machine, or with
/// `--clusters-service` of any other.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The cluster, by its name in the API or its DNS prefix
    cluster: String,
    #[command(flatten)]
    region: RegionArgs,
    #[command(flatten)]
    elsewhere: Elsewhere,
}

/// A Clusters Service that is not the one of the region on this machine.
#[derive(Debug, clap::Args)]
struct Elsewhere {
    /// The Clusters Service to ask [default: that of the region]
    #[arg(long, value_name = "URL")]
    clusters_service: Option<Url>,
    /// Authorities that certify it, PEM
    #[arg(long, value_name = "FILE", requires = "clusters_service")]
    authorities: Option<PathBuf>,
    /// The certificate to show it, PEM: of somebody who is among its `callers`
    #[arg(long, value_name = "FILE", requires_all = ["clusters_service", "key"])]
    certificate: Option<PathBuf>,
    /// The key of that certificate, PEM
    #[arg(long, value_name = "FILE", requires = "certificate")]
    key: Option<PathBuf>,
}

/// Which Clusters Service was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    /// That of the region on this machine.
    Here,
    /// Any other, by somebody who showed a certificate or did not.
    Elsewhere { anonymously: bool },
}

impl Args {
    /// Prints it.
    ///
    /// # Errors
    ///
    /// If there is no such cluster, or it has no kubeconfig yet.
    pub fn run(self, output: &mut Output) -> Result<(), Failure> {
        let Self { cluster, region, elsewhere } = self;
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let kubeconfig = runtime.block_on(async {
            match elsewhere.clusters_service {
                Some(url) => {
                    let Elsewhere { authorities, certificate, key, .. } = elsewhere;
                    let asked = Asked::Elsewhere { anonymously: certificate.is_none() };
                    let peer = Peer::new(url, authorities, (certificate, key));
                    let http = peer.client(&Clock::system())?.build()?;
                    let found = match BreakGlass::try_new(http, &peer.url, tell) {
                        Ok(clusters) => clusters.kubeconfig(&cluster).await,
                        Err(error) => Err(error),
                    };
                    hinted(found, asked)
                }
                None => {
                    let data_dir = region.data_dir()?;
                    let found = match HostedClusters::open(&data_dir).await {
                        Ok(clusters) => clusters.short_lived_kubeconfig(&data_dir, &cluster, tell).await,
                        Err(error) => Err(error),
                    };
                    hinted(found, Asked::Here)
                }
            }
        })?;
        output.raw(kubeconfig.as_bytes())
    }
}

/// Beside the data, which may go into a file.
fn tell(news: &str) {
    // Nobody is left to tell if standard error is gone.
    let _ = writeln!(io::stderr(), "{news}");
}

/// With what to do about just this failure.
fn hinted(found: Result<String, HostedClustersError>, asked: Asked) -> Result<String, Failure> {
    let hint = found.as_ref().err().map(|error| hint(error, asked));
    found.map_err(|error| anyhow!(error)).hint(hint.unwrap_or_default())
}

fn hint(error: &HostedClustersError, asked: Asked) -> &'static str {
    let elsewhere = asked != Asked::Here;
    match error {
        HostedClustersError::NoRegion { .. } => {
            "`pilothouse up` starts a region; `--data-dir DIR` names another one on this machine, and \
             `--clusters-service URL` one elsewhere"
        }
        HostedClustersError::NotRunning { .. } => {
            "`pilothouse up` resumes the region; `--clusters-service URL` asks a Clusters Service that runs alone"
        }
        HostedClustersError::Api { .. } => {
            "`pilothouse status` shows whether the region runs; `pilothouse up` resumes it"
        }
        HostedClustersError::Unknown { .. } if elsewhere => {
            "name a cluster by its name in the API or its DNS prefix; `--clusters-service` has to be that of its region"
        }
        HostedClustersError::Unknown { .. } => {
            "name a cluster by its name in the API or its DNS prefix; `pilothouse status` lists them"
        }
        HostedClustersError::Ambiguous { .. } => "name one of these prefixes instead",
        HostedClustersError::NotYet { .. } => {
            "it has one once its control plane answers; `pilothouse status` shows how far it is"
        }
        HostedClustersError::Unanswered { source } if elsewhere && source.is_not_allowed() => {
            "`--certificate` has to be of one of its `callers`; an administrator adds the name in this one to them, in \
             `exposure` of `[service.listener]` of its configuration"
        }
        HostedClustersError::Unanswered { .. } if asked == (Asked::Elsewhere { anonymously: true }) => {
            "it was shown no certificate: where it asks for one, name `--certificate` and `--key` of one of its `callers`; \
             else see that `--clusters-service` is where it listens, and `--authorities` certify it"
        }
        HostedClustersError::Unanswered { .. } if elsewhere => {
            "see that `--clusters-service` is where it listens, `--authorities` certify it, and `--certificate` is of one of \
             its `callers`"
        }
        HostedClustersError::Unanswered { .. } => {
            "`pilothouse status` shows whether the region runs; try again when Clusters Service is back"
        }
        HostedClustersError::Refused { .. } => {
            "try again when what it names is over: a revocation takes seconds"
        }
        HostedClustersError::TooLong { .. } => {
            "remove the cause on the management cluster, and try again: what was asked for is given out once it is signed"
        }
        HostedClustersError::NotIssued { .. } => "try again: another one is asked for",
        HostedClustersError::Kubeconfig { .. } => {
            "look at the Secret with its kubeconfig on the management cluster"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_of_a_region_elsewhere_does_not_send_anybody_to_this_machine() {
        let unknown = || HostedClustersError::Unknown { name: "first".to_owned(), others: Vec::new() };
        let elsewhere = Asked::Elsewhere { anonymously: false };
        assert!(hint(&unknown(), Asked::Here).contains("pilothouse status"));
        assert!(!hint(&unknown(), elsewhere).contains("pilothouse status"));
        let waits = "step 9".to_owned();
        let late = HostedClustersError::TooLong { name: "first".to_owned(), waits };
        assert!(!hint(&late, Asked::Here).contains("pilothouse up"));
    }
}
