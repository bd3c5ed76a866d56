//! What goes wrong around a hosted cluster, and what it looks like meanwhile.

use std::sync::atomic::Ordering;
use std::time::Duration;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use pilothouse_crds::{HostedCluster, HostedControlPlane, Route};
use pilothouse_pki::{Bundle, Certificate};
use pilothouse_runtime::Clock;
use pilothouse_test_support::eventually;
use rstest::rstest;
use serde_json::json;

use crate::support::{CONTROL_PLANE, NAMESPACE, Options, PATIENCE, Region};

/// From the first write to the last, a cluster that comes and goes, with the operator cut off at this write.
async fn live_and_die(region: &Region, write: usize, arrives: bool) {
    region.faults.arm(write, arrives);
    region.create_cluster("pilothouse/release:4.20.0").await;
    region.run_control_plane().await;
    region.eventually_condition("Available", "True").await;
    let clusters: Api<HostedCluster> = region.api(NAMESPACE);
    let _ = clusters.delete("first", &DeleteParams::default()).await.unwrap();
    region.empty_namespace().await;
    region.eventually_gone(&clusters, "first").await;
    let left = region.versions().await;
    let left: Vec<_> = left.keys().filter(|name| name.contains("first")).collect();
    assert!(left.is_empty(), "cut off at write {write}: {left:?}");
}

/// With the write that does not arrive, and, here and there, with the one that arrives although nobody hears of it: that is
/// hardly different from the next that does not.
#[rstest]
#[case(false, 1)]
#[case(true, 5)]
#[tokio::test]
async fn an_operator_cut_off_at_any_write_leaves_nothing_that_the_next_cannot_finish(
    #[case] arrives: bool,
    #[case] step: usize,
) {
    let region = Region::start().await;
    let mut before = 0;
    for write in (1..).step_by(step) {
        live_and_die(&region, write, arrives).await;
        let cuts = region.faults.disarm();
        if cuts == before {
            // The life had fewer writes than that.
            assert!(write > 25, "only {write} writes");
            break;
        }
        before = cuts;
    }
}

#[tokio::test]
async fn what_is_deleted_or_changed_behind_its_back_is_back_at_once() {
    let region = Region::start().await;
    region.create_cluster("pilothouse/release:4.20.0").await;
    region.run_control_plane().await;
    region.eventually_condition("Available", "True").await;

    let secrets: Api<Secret> = region.api(CONTROL_PLANE);
    let keys_before = region.secret("kas-secret-encryption-config", "keys.json").await;
    let serving_before = region.secret("kas-server-crt", "tls.crt").await;
    for name in [
        "admin-kubeconfig",
        "service-network-admin-kubeconfig",
        "localhost-kubeconfig",
        "kas-server-crt",
        "kas-secret-encryption-config",
    ] {
        let _ = secrets.delete(name, &DeleteParams::default()).await.unwrap();
        region.eventually_there(&secrets, name).await;
    }
    assert_eq!(region.secret("kas-secret-encryption-config", "keys.json").await, keys_before);
    assert_ne!(region.secret("kas-server-crt", "tls.crt").await, serving_before);
    let control_planes: Api<HostedControlPlane> = region.api(CONTROL_PLANE);
    let _ = control_planes.delete("first", &DeleteParams::default()).await.unwrap();
    region.eventually_there(&control_planes, "first").await;
    let beside: Api<Secret> = region.api(NAMESPACE);
    let nonsense = json!({ "data": { "kubeconfig": "bm9uc2Vuc2U=" } });
    beside.patch("first-admin-kubeconfig", &PatchParams::default(), &Patch::Merge(nonsense)).await.unwrap();
    eventually("the kubeconfig is repaired", PATIENCE, async || {
        let kubeconfig =
            beside.get("first-admin-kubeconfig").await.unwrap().data.unwrap()["kubeconfig"].0.clone();
        if kubeconfig == b"nonsense" { Err("nonsense") } else { Ok(()) }
    })
    .await;
    region.stop().await;
}

#[tokio::test]
async fn a_deleted_authority_becomes_another_and_the_control_plane_restarts_with_it() {
    let region = Region::start().await;
    region.create_cluster("pilothouse/release:4.20.0").await;
    region.run_control_plane().await;
    region.eventually_condition("Available", "True").await;
    let before = region.secret("system-admin-client", "tls.crt").await;

    let secrets: Api<Secret> = region.api(CONTROL_PLANE);
    let _ = secrets.delete("system-admin-signer", &DeleteParams::default()).await.unwrap();
    // The pod of before runs, and does not know the certificate of now.
    region.eventually_reason("Available", "False", "KASLoadBalancerNotReachable").await;
    assert_ne!(region.secret("system-admin-client", "tls.crt").await, before);
    region.replace_pod().await;
    region.publish().await;
    region.eventually_condition("Available", "True").await;
    region.hosted_client().await.apiserver_version().await.unwrap();
    region.stop().await;
}

#[tokio::test]
async fn certificates_are_renewed_before_they_expire_and_the_administrator_stays_in() {
    let (clock, hand) = Clock::manual(Clock::system().now());
    let region = Region::start_with(Options { clock, ..Options::default() }).await;
    region
        .create_cluster_with("pilothouse/release:4.20.0", |cluster| {
            let validity = ("hypershift.openshift.io/certificate-validity".to_owned(), "6m".to_owned());
            cluster.metadata.annotations = Some([validity].into());
        })
        .await;
    region.run_control_plane().await;
    region.eventually_condition("Available", "True").await;
    let names = ["kas-server-crt", "kas-kubelet-client-crt", "system-admin-client"];
    let mut before = Vec::new();
    for name in names {
        before.push(Certificate::from_pem(&region.secret(name, "tls.crt").await).unwrap());
    }
    let life = before[0].not_after().duration_since(before[0].not_before());
    assert_eq!(life.as_secs(), 660, "the asked for lifetime, and five minutes in the past");

    // Not yet due by anybody's clock, then due by everybody's.
    region.wake();
    region.at_rest().await;
    assert_eq!(region.secret(names[0], "tls.crt").await, before[0].to_pem().as_bytes());
    hand.advance(Duration::from_secs(4 * 60));
    region.wake();
    for (name, before) in names.iter().zip(&before) {
        eventually(&format!("{name} is renewed"), PATIENCE, async || {
            let now = Certificate::from_pem(&region.secret(name, "tls.crt").await).unwrap();
            if now.not_after() > before.not_after() { Ok(()) } else { Err(now.not_after().to_string()) }
        })
        .await;
    }
    // The server still shows the old certificate, and lets in whoever has the new one.
    region.at_rest().await;
    region.eventually_condition("Available", "True").await;
    region.hosted_client().await.apiserver_version().await.unwrap();
    region.stop().await;
}

#[tokio::test]
async fn an_authority_announces_its_successor_long_before_it_signs() {
    let (clock, hand) = Clock::manual(Clock::system().now());
    let region = Region::start_with(Options { clock, ..Options::default() }).await;
    region.create_cluster("pilothouse/release:4.20.0").await;
    region.eventually_there(&region.api::<StatefulSet>(CONTROL_PLANE), "kube-apiserver").await;
    let first = region.secret("root-ca", "ca.crt").await;
    let trusted = async || {
        let settings = region.api::<ConfigMap>(CONTROL_PLANE).get("kube-apiserver").await.unwrap();
        let bundle = settings.data.unwrap().remove("root-ca.crt").unwrap();
        Bundle::from_pem(bundle.as_bytes()).unwrap()
    };
    assert_eq!(trusted().await.certificates().len(), 1);

    let years = |number: u64| Duration::from_secs(number * 365 * 24 * 3600);
    hand.advance(years(8) + years(1) / 2);
    region.wake();
    let both = eventually("both are trusted", PATIENCE, async || {
        let bundle = trusted().await;
        if bundle.certificates().len() == 2 { Ok(bundle) } else { Err("one authority") }
    })
    .await;
    assert_eq!(region.secret("root-ca", "ca.crt").await, first);
    let signed = Certificate::from_pem(&region.secret("kas-server-crt", "tls.crt").await).unwrap();
    assert!(signed.is_signed_by(&both.certificates()[0]));

    hand.advance(years(1));
    region.wake();
    eventually("the successor signs", PATIENCE, async || {
        let signed = Certificate::from_pem(&region.secret("kas-server-crt", "tls.crt").await).unwrap();
        if signed.is_signed_by(&both.certificates()[1]) { Ok(()) } else { Err("the old one") }
    })
    .await;
    assert_eq!(region.secret("root-ca", "previous.crt").await, first);
    assert_eq!(trusted().await.certificates().len(), 2);
    region.stop().await;
}

#[tokio::test]
async fn a_pod_that_crashes_is_named_with_its_reason_until_it_is_back() {
    let region = Region::start().await;
    region.create_cluster("pilothouse/release:4.20.0").await;
    region.run_control_plane().await;
    region.eventually_condition("Available", "True").await;

    let pods: Api<Pod> = region.api(CONTROL_PLANE);
    let status = |ready: &str, state: serde_json::Value| {
        let message = "started\nerror: the store cannot be opened\n  caused by: it is a folder\n";
        let container = json!({
            "name": "kube-apiserver", "image": "pilothouse", "imageID": "", "ready": ready == "True",
            "restartCount": 4, "state": state,
            "lastState": { "terminated": { "exitCode": 1, "reason": "Error", "message": message } },
        });
        Patch::Merge(json!({ "status": {
            "conditions": [{ "type": "Ready", "status": ready }], "containerStatuses": [container],
        } }))
    };
    let waiting = json!({ "waiting": { "reason": "CrashLoopBackOff", "message": "back-off 40s" } });
    pods.patch_status("kube-apiserver-0", &PatchParams::default(), &status("False", waiting)).await.unwrap();
    let degraded = region.eventually_reason("Degraded", "True", "UnavailableReplicas").await;
    let why = "CrashLoopBackOff: back-off 40s: it ended with 1: \
               started; error: the store cannot be opened; caused by: it is a folder";
    assert!(degraded.message.contains(why), "{}", degraded.message);
    let available = region.eventually_reason("Available", "False", "WaitingForAvailable").await;
    assert!(available.message.contains("pod kube-apiserver-0 is not ready"), "{}", available.message);

    let running = json!({ "running": { "startedAt": "2026-01-01T00:00:00Z" } });
    pods.patch_status("kube-apiserver-0", &PatchParams::default(), &status("True", running)).await.unwrap();
    region.eventually_condition("Available", "True").await;
    region.eventually_condition("Degraded", "False").await;
    region.stop().await;
}

#[tokio::test]
async fn a_management_cluster_that_was_gone_finds_the_operator_ready_to_go_on() {
    let region = Region::start().await;
    region.create_cluster("pilothouse/release:4.20.0").await;
    region.run_control_plane().await;
    region.eventually_condition("Available", "True").await;

    region.faults.outage.store(true, Ordering::SeqCst);
    region.wake();
    let routes: Api<Route> = region.api(CONTROL_PLANE);
    let elsewhere = json!({ "spec": { "host": "elsewhere.test" } });
    routes.patch("kube-apiserver", &PatchParams::default(), &Patch::Merge(elsewhere)).await.unwrap();
    eventually("a pass has failed", PATIENCE, async || {
        let failures: u64 = region.handles.iter().map(|handle| handle.status().totals.failures).sum();
        if failures > 0 { Ok(()) } else { Err("no failure yet") }
    })
    .await;
    // Nobody took back what nobody could look at.
    region.eventually_condition("Available", "True").await;

    region.faults.outage.store(false, Ordering::SeqCst);
    eventually("the route is repaired", PATIENCE, async || {
        match routes.get("kube-apiserver").await.unwrap().spec.host.as_str() {
            "api.first.pilothouse.test" => Ok(()),
            other => Err(other.to_owned()),
        }
    })
    .await;
    region.eventually_condition("ReconciliationSucceeded", "True").await;
    region.stop().await;
}
