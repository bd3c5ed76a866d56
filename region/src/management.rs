//! What a management cluster must have before the services can work: custom resources and namespaces.

use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Patch, PatchParams};
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
        futures::future::try_join_all(
            pilothouse_crds::all().iter().map(|definition| ensure_definition(client, definition)),
        )
        .await
    };
    let namespaces = async {
        futures::future::try_join_all(NAMESPACES.iter().map(|name| ensure_namespace(client, name))).await
    };
    futures::try_join!(definitions, namespaces)?;
    Ok(())
}

async fn ensure_definition(client: &Client, definition: &CustomResourceDefinition) -> Result<(), Error> {
    let name = definition.name_any();
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    definitions
        .patch(&name, &PatchParams::apply(MANAGER).force(), &Patch::Apply(definition))
        .await
        .map_err(|source| Error::Furnish { what: name.clone(), source: Box::new(source) })?;
    let served = await_condition(definitions, &name, conditions::is_crd_established());
    match timeout(PATIENCE, served).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(_)) | Err(_) => Err(Error::NotServed(name)),
    }
}

async fn ensure_namespace(client: &Client, name: &str) -> Result<(), Error> {
    let manifest = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
    Api::<Namespace>::all(client.clone())
        .patch(name, &PatchParams::apply(MANAGER).force(), &Patch::Apply(manifest))
        .await
        .map_err(|source| Error::Furnish { what: format!("namespace `{name}`"), source: Box::new(source) })?;
    Ok(())
}
