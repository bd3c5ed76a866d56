//! Whether a service runs, told by a Lease that it renews: the same between processes as within one.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use pilothouse_runtime::{Chain, Clock, Shutdown};
use serde_json::json;
use tracing::warn;

use crate::error::{Error, FIELD_MANAGER};

/// How long somebody counts as there after the last word.
const DURATION: i32 = 60;
/// How often the word is given.
const RENEWAL: Duration = Duration::from_secs(20);

/// Says of a service that it runs, for as long as it does.
#[derive(Clone)]
pub struct Presence {
    client: Client,
    clock: Clock,
    namespace: String,
    name: String,
    holder: String,
}

/// What a Lease says of who holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// It runs, and should be heard of again by then.
    Until(Timestamp),
    /// It said that it stops, or has not been heard of for too long.
    Gone,
}

// === impl Presence ===

impl Presence {
    /// Of the operator for hosted clusters, which the engine looks for by this name.
    pub fn of_hypershift(client: Client, clock: Clock) -> Self {
        let holder = format!("pilothouse-{}", std::process::id());
        let (namespace, name) = (HYPERSHIFT.0.to_owned(), HYPERSHIFT.1.to_owned());
        Self { client, clock, namespace, name, holder }
    }

    /// Renews the Lease until shutdown, and gives it up then.
    pub async fn keep(self, shutdown: Shutdown) {
        loop {
            if let Err(error) = self.renew().await {
                warn!(lease = %self.name, error = %Chain(&error), "the lease was not renewed");
            }
            tokio::select! {
                () = shutdown.requested() => break,
                () = tokio::time::sleep(RENEWAL) => {}
            }
        }
        // Who looks for it after a crash waits for the Lease to run out; this spares the wait.
        if let Err(error) = self.write("").await {
            warn!(lease = %self.name, error = %Chain(&error), "the lease was not given up");
        }
    }

    async fn renew(&self) -> Result<(), Error> {
        match self.write(&self.holder).await {
            Err(error) if error.is_missing() => {
                let namespace = json!({
                    "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": self.namespace },
                });
                Api::<Namespace>::all(self.client.clone())
                    .patch(&self.namespace, &PatchParams::apply(FIELD_MANAGER), &Patch::Apply(namespace))
                    .await
                    .map_err(|error| {
                        Error::cluster("create", format!("Namespace {}", self.namespace), error)
                    })?;
                self.write(&self.holder).await
            }
            outcome => outcome,
        }
    }

    async fn write(&self, holder: &str) -> Result<(), Error> {
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": { "name": self.name },
            "spec": {
                "holderIdentity": holder,
                "leaseDurationSeconds": DURATION,
                "renewTime": micro_time(self.clock.now()),
            },
        });
        Api::<Lease>::namespaced(self.client.clone(), &self.namespace)
            .patch(&self.name, &PatchParams::apply(FIELD_MANAGER).force(), &Patch::Apply(lease))
            .await
            .map_err(|error| {
                Error::cluster("renew", format!("Lease {}/{}", self.namespace, self.name), error)
            })?;
        Ok(())
    }
}

/// Namespace and name of the Lease of the operator for hosted clusters.
pub(crate) const HYPERSHIFT: (&str, &str) = ("hypershift", "hypershift-operator");

/// What a Lease says at this moment.
pub(crate) fn look(lease: &Lease, now: Timestamp) -> Seen {
    let Some(spec) = &lease.spec else { return Seen::Gone };
    let held = spec.holder_identity.as_deref().is_some_and(|holder| !holder.is_empty());
    let duration = i64::from(spec.lease_duration_seconds.unwrap_or(DURATION));
    let until = spec.renew_time.as_ref().map(|renewed| renewed.0 + jiff::SignedDuration::from_secs(duration));
    match until {
        Some(until) if held && until > now => Seen::Until(until),
        _ => Seen::Gone,
    }
}

/// How Leases write moments.
pub(crate) fn micro_time(moment: Timestamp) -> String {
    format!("{moment:.6}")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("somebody", 59, true)]
    #[case("somebody", 60, false)]
    #[case("", 1, false)]
    fn who_renews_its_lease_is_there(#[case] holder: &str, #[case] after: i64, #[case] there: bool) {
        let at = |second| Timestamp::from_second(second).unwrap();
        let lease: Lease = serde_json::from_value(json!({
            "spec": { "holderIdentity": holder, "leaseDurationSeconds": 60, "renewTime": micro_time(at(0)) },
        }))
        .unwrap();
        assert_eq!(look(&lease, at(after)), if there { Seen::Until(at(60)) } else { Seen::Gone });
    }
}
