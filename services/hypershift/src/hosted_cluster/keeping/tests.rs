use k8s_openapi::api::core::v1::{PodSpec, Toleration};
use pilothouse_crds::{HostedCluster, HostedClusterSpec};
use rstest::rstest;
use serde_json::{Value, json};

use super::super::workload;
use super::*;
use crate::Config;

/// A set as it is written for a cluster that is changed by `patch`, by an operator whose own image is `image`.
fn written(patch: Value, image: &str) -> StatefulSet {
    let mut cluster = HostedCluster::new(
        "first",
        HostedClusterSpec {
            release: pilothouse_crds::Release { image: "pilothouse/release:4.20.0".to_owned() },
            issuer_url: "https://kubernetes.default.svc".to_owned(),
            ..HostedClusterSpec::default()
        },
    );
    cluster.metadata.namespace = Some("ocm-local-1".to_owned());
    let mut changed = serde_json::to_value(&cluster).unwrap();
    json_patch::merge(&mut changed, &patch);
    let cluster: HostedCluster = serde_json::from_value(changed).unwrap();
    let blueprint = Blueprint::draw(&cluster, &[], &Config::default()).unwrap();
    let mut set = workload::stateful_set(&blueprint, image);
    sign(&mut set, &blueprint, "172.30.0.9".parse().unwrap(), &blueprint.config_hash());
    set
}

fn pod(set: &StatefulSet) -> &PodSpec {
    set.spec.as_ref().unwrap().template.spec.as_ref().unwrap()
}

fn image(set: &StatefulSet) -> &str {
    pod(set).containers[0].image.as_deref().unwrap()
}

#[test]
fn what_an_operator_of_before_has_written_stays_while_it_runs() {
    let (before, now) = (written(json!({}), "before"), written(json!({}), "now"));
    let kept = keep(&now, Some(&before), true);
    assert_eq!(*kept, before);

    // Nobody is interrupted.
    assert_eq!(*keep(&now, Some(&before), false), now);
    // The same operator repairs what others have changed.
    let mut meddled = now.clone();
    meddled.spec.as_mut().unwrap().template.spec.as_mut().unwrap().containers.clear();
    assert_eq!(*keep(&now, Some(&meddled), true), now);
    // Nothing is known of how it came to be.
    let mut unsigned = before.clone();
    unsigned.metadata.annotations = None;
    assert_eq!(*keep(&now, Some(&unsigned), true), now);
    assert_eq!(*keep(&now, None, true), now);
}

#[test]
fn what_is_not_about_pods_is_never_kept() {
    let (before, mut now) = (written(json!({}), "before"), written(json!({}), "now"));
    now.spec.as_mut().unwrap().min_ready_seconds = Some(7);
    let kept = keep(&now, Some(&before), true);
    assert_eq!(kept.spec.as_ref().unwrap().min_ready_seconds, Some(7));
    assert_eq!(image(&kept), "before");
}

/// Whatever a cluster can ask for that its pods show.
#[rstest]
#[case::release(json!({ "spec": { "release": { "image": "pilothouse/release:4.20.8" } } }))]
#[case::restart(annotated("hypershift.openshift.io/restart-date", "now"))]
#[case::priority(annotated("hypershift.openshift.io/api-critical-priority-class", "mine"))]
#[case::requests(annotated(names::RESOURCE_REQUESTS, "cpu=100m"))]
#[case::labels(json!({ "spec": { "labels": { "team": "blue" } } }))]
#[case::node_selector(json!({ "spec": { "nodeSelector": { "disk": "fast" } } }))]
#[case::tolerations(json!({ "spec": { "tolerations": [Toleration { key: Some("dedicated".into()), ..Toleration::default() }] } }))]
#[case::networks(json!({ "spec": { "networking": { "clusterNetwork": [{ "cidr": "10.9.0.0/16" }] } } }))]
#[case::issuer(json!({ "spec": { "issuerURL": "https://issuer.test" } }))]
fn what_the_cluster_asks_for_comes_with_everything_that_is_new(#[case] patch: Value) {
    let (before, now) = (written(json!({}), "before"), written(patch, "now"));
    assert_ne!(written(json!({}), "now").spec, now.spec, "the case shows nothing");
    assert_eq!(*keep(&now, Some(&before), true), now);
}

fn annotated(name: &str, value: &str) -> Value {
    json!({ "metadata": { "annotations": { name: value } } })
}
