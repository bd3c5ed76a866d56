//! Azure's own SDK, unmodified, against both stores and in both of its versions.

use std::path::Path;

use pilothouse_clusters_service_api::simulated::Mode;
use pilothouse_test_support::eventually;
use pilothouse_test_support::python::Python;
use rstest::rstest;

use crate::bodies::{LOCATION, SUBSCRIPTION};
use crate::provider::{Engine, LIMIT, Provider};

/// The environment with the SDK of the stable version.
const STABLE: &str = "sdk";
/// The environment with the SDK of the preview.
const PREVIEW: &str = "sdk-preview";

pub(crate) fn programs() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/python"))
}

#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn sdk_leads_resources_through_their_life(
    #[values(STABLE, PREVIEW)] environment: &str,
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(python) = Python::find(environment, programs()) else { return };
    let Some(provider) = Provider::start(engine, Mode::Automatic).await else { return };
    let mut program = python.program("life.py");
    program.args([&provider.base, SUBSCRIPTION, LOCATION]);
    provider.run(program).await;
    provider.stop().await;
}

#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn sdk_is_told_why_a_cluster_could_not_be_made(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    const CODE: &str = "OCM4003";
    const MESSAGE: &str = "the subnet has no addresses left";
    let Some(python) = Python::find(STABLE, programs()) else { return };
    let Some(provider) = Provider::start(engine, Mode::Explicit).await else { return };
    let mut program = python.program("failure.py");
    program.args([&provider.base, SUBSCRIPTION, LOCATION, "unlucky", CODE, MESSAGE]);
    let fails = async {
        let cluster = eventually("the cluster is asked for", LIMIT, || async {
            provider.clusters_service.clusters().into_iter().next().ok_or("none")
        })
        .await;
        provider.clusters_service.fail(&cluster, CODE, MESSAGE);
        // Its deletion comes true by itself.
        provider.clusters_service.set_mode(Mode::Automatic);
    };
    tokio::join!(provider.run(program), fails);
    provider.stop().await;
}
