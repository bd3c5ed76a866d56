//! Requests drawn from our own OpenAPI documents: no server error, and every answer is of the form that is promised.

use std::fs;
use std::path::Path;

use http::Method;
use pilothouse_clusters_service_api::simulated::Mode;
use pilothouse_test_support::environment;
use pilothouse_test_support::python::Python;
use rstest::rstest;

use crate::bodies::{GROUP, LOCATION, SUBSCRIPTION, cluster, cluster_id, external_auth, node_pool};
use crate::provider::{Engine, Provider, versioned};
use crate::sdk::programs;

/// What an answer is judged by. The others know less than we do: what a schema allows may still be refused, what it does not
/// know is ignored, and an unknown method is a path that is not there.
const CHECKS: &str =
    "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance";

#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn answers_are_as_the_documents_promise_whatever_is_asked(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(python) = Python::find("schemathesis", programs()) else { return };
    let Some(provider) = Provider::start(engine, Mode::Automatic).await else { return };
    provider.made(&cluster_id("ready"), &cluster("ready")).await;
    provider.made(&format!("{}/nodePools/workers", cluster_id("ready")), &node_pool()).await;
    provider.made(&format!("{}/externalAuths/entra", cluster_id("ready")), &external_auth()).await;

    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../schema/openapi"));
    let mut documents: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    // One per version, which is a date; what else is there is about them.
    documents.retain(|path| {
        path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with("20"))
    });
    documents.sort();
    assert_eq!(
        documents.len(),
        pilothouse_api::Version::ALL.len(),
        "one document per version: {documents:?}"
    );
    let examples = environment::rounds(5, 200).to_string();
    // The corners of every field are many thousands of requests.
    let phases = if environment::is_long() { "coverage,fuzzing" } else { "fuzzing" };
    // It keeps notes about earlier runs in the folder it runs in.
    let notes = tempfile::tempdir().unwrap();
    for document in documents {
        let mut program = python.interpreter();
        program
            .args(["-m", "schemathesis.cli", "run"])
            .arg(&document)
            .args(["--url", &provider.base, "--checks", CHECKS, "--seed", "1", "--max-examples", &examples])
            .args(["--phases", phases, "--suppress-health-check", "all", "--warnings", "off"])
            // Whatever is found is shown; making it smaller costs more than it tells.
            .args(["--no-shrink", "--continue-on-failure"])
            .current_dir(notes.path())
            .env("PYTHONPATH", programs())
            .env("SCHEMATHESIS_HOOKS", "drawing")
            .env("PILOTHOUSE_SUBSCRIPTION", SUBSCRIPTION)
            .env("PILOTHOUSE_GROUP", GROUP)
            .env("PILOTHOUSE_LOCATION", LOCATION);
        provider.run(program).await;
    }
    // It may have been deleted, but the provider still answers.
    let reply = provider.send(Method::GET, &versioned(&cluster_id("ready")), &[], Vec::new()).await;
    assert!([200, 404].contains(&reply.status), "{reply:?}");
    provider.stop().await;
}
