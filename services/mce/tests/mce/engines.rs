//! `MultiClusterEngine`, and the download that belongs to it.

use std::fs;

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use pilothouse_crds::{ConsoleCLIDownload, ManagedCluster, MultiClusterEngine, MultiClusterEngineStatus};
use pilothouse_http::ClientBuilder;
use pilothouse_runtime::Reason;
use pilothouse_test_support::eventually;
use serde_json::json;

use crate::support::{PATIENCE, Region};

async fn eventually_phase(region: &Region, phase: &str) -> MultiClusterEngineStatus {
    let engines: Api<MultiClusterEngine> = Api::all(region.client.clone());
    eventually(&format!("the engine is {phase}"), PATIENCE, async || {
        let status = engines.get("multiclusterengine").await.unwrap().status.unwrap_or_default();
        if status.phase == phase { Ok(status) } else { Err(format!("{status:?}")) }
    })
    .await
}

fn names(status: &MultiClusterEngineStatus) -> Vec<&str> {
    status.components.iter().map(|component| component.name.as_str()).collect()
}

#[tokio::test]
async fn an_engine_is_available_when_all_of_it_runs_and_says_what_does_not() {
    let region = Region::start().await;
    fs::write(region.folder.path().join("hcp"), "#!/bin/sh\necho ahoy\n").unwrap();
    region.make_engine(json!({})).await;
    let status = eventually_phase(&region, "Progressing").await;
    assert!(names(&status).contains(&"hypershift"), "{status:?}");

    let operator = region.announce_hypershift();
    let status = eventually_phase(&region, "Available").await;
    let expected =
        ["cluster-manager", "cluster-lifecycle", "hypershift", "hcp-cli-download", "local-cluster"];
    assert_eq!(names(&status), expected);
    assert_eq!(status.current_version, env!("CARGO_PKG_VERSION"));
    let local = Api::<ManagedCluster>::all(region.client.clone()).get("local-cluster").await.unwrap();
    let conditions = &local.status.as_ref().unwrap().conditions;
    assert!(pilothouse_crds::is_condition_true(conditions, "ManagedClusterConditionAvailable"), "{local:?}");
    assert_eq!(local.metadata.labels.unwrap()["local-cluster"], "true");
    let lease = Api::<Lease>::namespaced(region.client.clone(), "local-cluster");
    eventually("its lease is there", PATIENCE, async || lease.get("managed-cluster-lease").await).await;

    operator.request(Reason::Asked("the operator stops".to_owned()));
    let status = eventually_phase(&region, "Progressing").await;
    let hypershift = status.components.iter().find(|component| component.name == "hypershift").unwrap();
    assert_eq!(hypershift.reason, "LeaseNotRenewed");
    region.stop().await;
}

#[tokio::test]
async fn components_are_switched_off_and_unknown_ones_are_refused() {
    let region = Region::start().await;
    let off = |name: &str| json!({ "name": name, "enabled": false });
    region.make_engine(json!({ "overrides": { "components": [off("hypershift")] } })).await;
    let status = eventually_phase(&region, "Available").await;
    assert_eq!(names(&status), ["cluster-manager", "cluster-lifecycle", "local-cluster"]);

    let engines: Api<MultiClusterEngine> = Api::all(region.client.clone());
    let components =
        json!([off("hypershift"), off("local-cluster"), { "name": "console-mce", "enabled": true }]);
    let patch = Patch::Merge(json!({ "spec": { "overrides": { "components": components } } }));
    engines.patch("multiclusterengine", &PatchParams::default(), &patch).await.unwrap();
    let status = eventually_phase(&region, "Error").await;
    let failure = pilothouse_crds::find_condition(&status.conditions, "ComponentFailure").unwrap();
    assert!(failure.message.contains("`console-mce`"), "{failure:?}");
    let clusters: Api<ManagedCluster> = Api::all(region.client.clone());
    eventually("the cluster no longer manages itself", PATIENCE, async || {
        match clusters.get_opt("local-cluster").await.unwrap() {
            None => Ok(()),
            Some(cluster) => Err(format!("{cluster:?}")),
        }
    })
    .await;
    region.stop().await;
}

#[tokio::test]
async fn the_download_serves_what_it_links_to_and_comes_back_when_it_is_deleted() {
    let region = Region::start().await;
    let hcp = region.folder.path().join("hcp");
    region.make_engine(json!({})).await;
    region.announce_hypershift();
    let status = eventually_phase(&region, "Progressing").await;
    assert!(names(&status).contains(&"hcp-cli-download"), "{status:?}");
    let downloads: Api<ConsoleCLIDownload> = Api::all(region.client.clone());
    assert!(downloads.get_opt("hcp-cli-download").await.unwrap().is_none(), "there is no program");

    // As large as to be read in several pieces, and nothing that compresses to little.
    let text: String = (0..200_000).map(|number| format!("{}\n", number * 7919 % 104_729)).collect();
    fs::write(&hcp, &text).unwrap();
    let engines: Api<MultiClusterEngine> = Api::all(region.client.clone());
    let wake = Patch::Merge(json!({ "metadata": { "annotations": { "wake": "up" } } }));
    engines.patch("multiclusterengine", &PatchParams::default(), &wake).await.unwrap();
    eventually_phase(&region, "Available").await;
    let _ = downloads.delete("hcp-cli-download", &DeleteParams::default()).await.unwrap();
    let download = eventually("it is back", PATIENCE, async || downloads.get("hcp-cli-download").await).await;

    let link = &download.spec.links[0].href;
    assert!(link.ends_with("/hcp.tar.gz"), "{link}");
    let (status, archive) = fetch(link).await;
    assert_eq!(status, 200);
    let file = region.folder.path().join("downloaded.tar.gz");
    fs::write(&file, &archive).unwrap();
    let out = region.folder.path().join("out");
    fs::create_dir(&out).unwrap();
    let unpacked = std::process::Command::new("tar").arg("-xzf").arg(&file).arg("-C").arg(&out).status();
    assert!(unpacked.unwrap().success());
    assert_eq!(fs::read_to_string(out.join("hcp")).unwrap(), text);

    let (base, platform) = link.trim_end_matches("/hcp.tar.gz").rsplit_once("/linux/").unwrap();
    assert_eq!(fetch(&format!("{base}/hcp-linux-{platform}.tar.gz")).await, (200, archive));
    assert_eq!(fetch(&format!("{base}/windows/amd64/hcp.tar.gz")).await.0, 404);
    region.stop().await;
}

async fn fetch(url: &str) -> (u16, Vec<u8>) {
    let client = ClientBuilder::new(PATIENCE).build().unwrap();
    let response = client.get(url.parse().unwrap()).send().await.unwrap();
    (response.status().as_u16(), response.bytes().await.unwrap().to_vec())
}
