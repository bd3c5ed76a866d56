//! What people download from a region that was started with nothing but its own program.

use std::process::Command;

use pilothouse_test_support::requirement::Requirement;
use serde_json::Value;

use crate::document::{download, install_engine};
use crate::region::{Region, User, result};

#[tokio::test(flavor = "multi_thread")]
async fn program_that_was_installed_alone_is_downloaded_as_hcp_and_is_hcp() {
    let Some(curl) = Requirement::new("curl", "curl").find() else { return };
    let Some(mut region) = Region::start_as(User::Alone, &[]).await else { return };
    install_engine(&region).await;
    let hcp = download(&region, &curl);
    let mut version = Command::new(hcp);
    version.args(["version", "--output", "json"]).env("KUBECONFIG", region.data_dir().join("kubeconfig"));
    let version: Value = serde_json::from_str(&result(&version.output().unwrap()).unwrap()).unwrap();
    assert_eq!(version["name"], "hcp", "{version}");
    assert!(version["server"]["versions"].as_array().is_some_and(|all| !all.is_empty()), "{version}");
    region.stop();
}
