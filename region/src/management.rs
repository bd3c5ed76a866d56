//! What a management cluster must have before the services can work: custom resources and namespaces.
//!
//! And what people expect of a management cluster before they begin: an ingress controller and a storage class of the
//! usual names.
//!
//! A cluster may have the custom resources already, from the projects that own them. Those are left as they are: our
//! services work with theirs.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ListParams, Patch, PatchParams};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Api, Client, Resource, ResourceExt};
use pilothouse_crds::IngressController;
use pilothouse_runtime::Policy;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::error::Error;

/// Whose fields these are.
const MANAGER: &str = "pilothouse-region";
/// Namespaces that architecture documents name, and whose absence their commands would show. That of the multicluster engine
/// is not among them: people begin with making it.
const NAMESPACES: [&str; 4] = ["hypershift", "local-cluster", "maestro", INGRESS_NAMESPACE];
const INGRESS_NAMESPACE: &str = "openshift-ingress-operator";
/// What the storage of an OpenShift cluster is usually called. Here it is folders on the node's disk, as the class `local`
/// is.
const STORAGE_CLASS: &str = "ocs-storagecluster-ceph-rbd";
/// A definition is served milliseconds after it was accepted.
const PATIENCE: Duration = Duration::from_secs(30);

/// Makes sure of all of them. Safe to repeat: what people changed about them stays.
pub(crate) async fn furnish(client: &Client) -> Result<(), Error> {
    let namespaces = async {
        futures::future::try_join_all(NAMESPACES.iter().map(|name| ensure_namespace(client, name))).await
    };
    futures::try_join!(ensure_definitions(client), namespaces, ensure_storage_class(client))?;
    ensure_ingress_controller(client).await
}

/// Makes sure of the custom resources alone.
pub(crate) async fn ensure_definitions(client: &Client) -> Result<(), Error> {
    let there = definitions(client).await?;
    let wanted = pilothouse_crds::all();
    let ensured =
        wanted.iter().map(|wanted| ensure_definition(client, wanted, there.get(&wanted.name_any())));
    futures::future::try_join_all(ensured).await?;
    Ok(())
}

/// Those that are there, by name. A cluster that cannot be reached is waited for: it may be about to start again, just as whoever
/// asks is.
async fn definitions(client: &Client) -> Result<BTreeMap<String, CustomResourceDefinition>, Error> {
    let all = Api::<CustomResourceDefinition>::all(client.clone());
    let failed = |source| Error::Furnish { what: "custom resources".to_owned(), source: Box::new(source) };
    let mut delays = Policy::RECONNECT.delays();
    let deadline = Instant::now() + PATIENCE;
    loop {
        match all.list(&ListParams::default()).await {
            Ok(there) => {
                return Ok(there.into_iter().map(|definition| (definition.name_any(), definition)).collect());
            }
            Err(source) if is_refusal(&source) => return Err(failed(source)),
            Err(source) if Instant::now() >= deadline => return Err(failed(source)),
            Err(error) => tracing::warn!(%error, "the management cluster does not answer; asking again"),
        }
        sleep_until(deadline.min(Instant::now() + delays.next().unwrap_or_default())).await;
    }
}

/// Whether somebody has answered who will say the same the next time.
fn is_refusal(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => status.code < 500 && status.code != 429,
        _ => false,
    }
}

async fn ensure_definition(
    client: &Client,
    wanted: &CustomResourceDefinition,
    there: Option<&CustomResourceDefinition>,
) -> Result<(), Error> {
    let name = wanted.name_any();
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let foreign = there.filter(|there| !is_ours(there));
    if let Some(foreign) = foreign {
        if !serves(foreign, wanted) {
            return Err(Error::ForeignDefinition(name));
        }
        tracing::debug!(definition = name, "left a definition as it is: it is somebody else's");
    }
    let served = async {
        let (mut delays, longest) = (Policy::CONFLICT.delays(), Policy::CONFLICT.cap());
        loop {
            if foreign.is_none() {
                let how = PatchParams::apply(MANAGER).force();
                match definitions.patch(&name, &how, &Patch::Apply(wanted)).await {
                    Err(source) if is_refusal(&source) => {
                        return Err(Error::Furnish { what: name.clone(), source: Box::new(source) });
                    }
                    Err(error) => tracing::warn!(definition = name, %error, "not applied; trying again"),
                    Ok(_) => {}
                }
            }
            match await_condition(definitions.clone(), &name, conditions::is_crd_established()).await {
                Ok(_) => return Ok(()),
                // The cluster has answered before. It is waited for if it is gone for a moment.
                Err(error) => {
                    tracing::warn!(definition = name, %error, "not known to be served; asking again")
                }
            }
            sleep(delays.next().unwrap_or(longest)).await;
        }
    };
    timeout(PATIENCE, served).await.unwrap_or_else(|_| Err(Error::NotServed(name.clone())))
}

/// Whether we wrote it.
fn is_ours(there: &CustomResourceDefinition) -> bool {
    there.managed_fields().iter().any(|entry| entry.manager.as_deref() == Some(MANAGER))
}

/// Whether it has every version that we use.
fn serves(there: &CustomResourceDefinition, wanted: &CustomResourceDefinition) -> bool {
    wanted
        .spec
        .versions
        .iter()
        .all(|version| there.spec.versions.iter().any(|served| served.served && served.name == version.name))
}

async fn ensure_namespace(client: &Client, name: &str) -> Result<(), Error> {
    let manifest = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
    apply::<Namespace>(&Api::all(client.clone()), name, manifest).await
}

async fn ensure_storage_class(client: &Client) -> Result<(), Error> {
    let manifest = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": { "name": STORAGE_CLASS },
        "provisioner": "pilothouse.dev/local",
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "Immediate",
    });
    apply::<StorageClass>(&Api::all(client.clone()), STORAGE_CLASS, manifest).await
}

/// The object that people patch before they begin. Nothing here reads it: routes are the gateway's, which admits every host.
async fn ensure_ingress_controller(client: &Client) -> Result<(), Error> {
    let name = "default";
    let manifest = json!({
        "apiVersion": IngressController::api_version(&()),
        "kind": IngressController::kind(&()),
        "metadata": { "name": name, "namespace": INGRESS_NAMESPACE },
        "spec": {},
    });
    let api = Api::<IngressController>::namespaced(client.clone(), INGRESS_NAMESPACE);
    let deadline = Instant::now() + PATIENCE;
    let (mut delays, longest) = (Policy::CONFLICT.delays(), Policy::CONFLICT.cap());
    loop {
        match apply(&api, name, manifest.clone()).await {
            // A definition is said to be established a moment before its objects are served.
            Err(Error::Furnish { source, .. }) if is_missing(&source) && Instant::now() < deadline => {
                sleep(delays.next().unwrap_or(longest)).await;
            }
            outcome => return outcome,
        }
    }
}

fn is_missing(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

async fn apply<K>(api: &Api<K>, name: &str, manifest: Value) -> Result<(), Error>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
{
    api.patch(name, &PatchParams::apply(MANAGER).force(), &Patch::Apply(manifest)).await.map_err(
        |source| Error::Furnish { what: format!("{} `{name}`", K::kind(&())), source: Box::new(source) },
    )?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use http::{Request, Response, StatusCode};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
    use kube::client::Body;

    use super::*;

    /// A cluster that is away for so many questions, is not ready for as many, and then says this.
    fn away(times: usize, status: StatusCode, answer: &Value) -> Client {
        let (asked, answer) = (AtomicUsize::new(0), answer.to_string());
        let service = tower::service_fn(move |_: Request<Body>| {
            let (before, said) = (asked.fetch_add(1, Ordering::Relaxed), answer.clone().into_bytes());
            let answer = |status, body| Response::builder().status(status).body(Body::from(body)).unwrap();
            std::future::ready(if before < times {
                Err(io::Error::from(io::ErrorKind::ConnectionRefused))
            } else if before - times < times {
                Ok(answer(StatusCode::SERVICE_UNAVAILABLE, b"not yet".to_vec()))
            } else {
                Ok(answer(status, said))
            })
        });
        Client::new(service, "default")
    }

    #[tokio::test(start_paused = true)]
    async fn a_cluster_that_is_away_for_a_moment_is_waited_for() {
        let one = json!({
            "metadata": { "resourceVersion": "1" },
            "items": [pilothouse_crds::all().remove(0)],
        });
        assert_eq!(definitions(&away(4, StatusCode::OK, &one)).await.unwrap().len(), 1);
        assert!(definitions(&away(usize::MAX, StatusCode::OK, &one)).await.is_err(), "not for ever");
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_cluster_refuses_is_told_at_once() {
        let refused = json!({
            "kind": "Status", "status": "Failure", "code": 403, "reason": "Forbidden", "message": "no",
        });
        let began = Instant::now();
        assert!(definitions(&away(0, StatusCode::FORBIDDEN, &refused)).await.is_err());
        assert_eq!(began.elapsed(), Duration::ZERO);
    }

    #[test]
    fn a_definition_of_others_is_enough_if_it_serves_our_versions() {
        for wanted in pilothouse_crds::all() {
            let mut there = wanted.clone();
            there.spec.versions[0].schema = None;
            assert!(serves(&there, &wanted));
            there.spec.versions[0].served = false;
            assert!(!serves(&there, &wanted));
            there.spec.versions[0].served = true;
            there.spec.versions[0].name = "v0".to_owned();
            assert!(!serves(&there, &wanted));
        }
    }

    #[test]
    fn a_definition_is_ours_if_we_wrote_a_part_of_it() {
        let mut there = pilothouse_crds::all().remove(0);
        assert!(!is_ours(&there));
        let by = |manager: &str| ManagedFieldsEntry {
            manager: Some(manager.to_owned()),
            ..ManagedFieldsEntry::default()
        };
        there.metadata.managed_fields = Some(vec![by("kubectl")]);
        assert!(!is_ours(&there));
        there.metadata.managed_fields = Some(vec![by("kubectl"), by(MANAGER)]);
        assert!(is_ours(&there));
    }
}
