//! What a management cluster must have before the services can work: custom resources and namespaces.
//!
//! A cluster may have the custom resources already, from the projects that own them. Those are left as they are: our
//! services work with theirs.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ListParams, Patch, PatchParams};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use tokio::time::timeout;

use crate::error::Error;

/// Whose fields these are.
const MANAGER: &str = "pilothouse-region";
/// Namespaces that architecture documents name, and whose absence their commands would show.
const NAMESPACES: [&str; 4] = ["hypershift", "local-cluster", "maestro", "multicluster-engine"];
/// A definition is served milliseconds after it was accepted.
const PATIENCE: Duration = Duration::from_secs(30);

/// Makes sure of all of them. Safe to repeat.
pub(crate) async fn furnish(client: &Client) -> Result<(), Error> {
    let definitions = async {
        let there = definitions(client).await?;
        let wanted = pilothouse_crds::all();
        let ensured =
            wanted.iter().map(|wanted| ensure_definition(client, wanted, there.get(&wanted.name_any())));
        futures::future::try_join_all(ensured).await
    };
    let namespaces = async {
        futures::future::try_join_all(NAMESPACES.iter().map(|name| ensure_namespace(client, name))).await
    };
    futures::try_join!(definitions, namespaces)?;
    Ok(())
}

/// Those that are there, by name.
async fn definitions(client: &Client) -> Result<BTreeMap<String, CustomResourceDefinition>, Error> {
    let there = Api::<CustomResourceDefinition>::all(client.clone()).list(&ListParams::default()).await;
    let there = there
        .map_err(|source| Error::Furnish { what: "custom resources".to_owned(), source: Box::new(source) })?;
    Ok(there.items.into_iter().map(|definition| (definition.name_any(), definition)).collect())
}

async fn ensure_definition(
    client: &Client,
    wanted: &CustomResourceDefinition,
    there: Option<&CustomResourceDefinition>,
) -> Result<(), Error> {
    let name = wanted.name_any();
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    match there.filter(|there| !is_ours(there)) {
        Some(foreign) if serves(foreign, wanted) => {
            tracing::debug!(definition = name, "left a definition as it is: it is somebody else's");
        }
        Some(_) => return Err(Error::ForeignDefinition(name)),
        None => {
            definitions
                .patch(&name, &PatchParams::apply(MANAGER).force(), &Patch::Apply(wanted))
                .await
                .map_err(|source| Error::Furnish { what: name.clone(), source: Box::new(source) })?;
        }
    }
    let served = await_condition(definitions, &name, conditions::is_crd_established());
    match timeout(PATIENCE, served).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(_)) | Err(_) => Err(Error::NotServed(name)),
    }
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
    Api::<Namespace>::all(client.clone())
        .patch(name, &PatchParams::apply(MANAGER).force(), &Patch::Apply(manifest))
        .await
        .map_err(|source| Error::Furnish { what: format!("namespace `{name}`"), source: Box::new(source) })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;

    use super::*;

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
