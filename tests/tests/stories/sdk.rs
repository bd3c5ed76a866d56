//! A cluster and a node pool of a whole region, by Azure's own SDK.

use std::path::Path;
use std::process::Stdio;

use pilothouse_test_support::python::Python;
use serde_json::json;

use crate::first_light::SUBSCRIPTION;
use crate::region::{Region, result};

#[tokio::test(flavor = "multi_thread")]
async fn sdk_makes_a_cluster_with_a_node_pool_lists_and_deletes_them() {
    let programs = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/python"));
    let Some(python) = Python::find("sdk", programs) else { return };
    let Some(mut region) = Region::start(&[]).await else { return };
    region.provider().register();

    let mut program = python.program("region.py");
    program.args([region.endpoints().frontend.as_str(), SUBSCRIPTION, "local"]).stdin(Stdio::null());
    let output = tokio::task::spawn_blocking(move || program.output()).await.unwrap().unwrap();
    result(&output).unwrap();

    assert_eq!(region.clusters_service_clusters(), [json!(null); 0]);
    region.stop();
    assert_eq!(region.processes(), [""; 0]);
}
