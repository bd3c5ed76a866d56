//! A region that is started without a flag is where the notes of people have it.

use std::net::TcpListener;
use std::process::Command;

use pilothouse_region::Ports;
use pilothouse_test_support::requirement::{Requirement, skipped};
use tokio::sync::Mutex;

use crate::region::{Region, result};

/// Whoever needs the ports that people know by heart holds this: there is one of each on a machine.
pub(crate) static KNOWN_PORTS: Mutex<()> = Mutex::const_new(());

/// As in `docs/how-to/run-a-region.md`, and something that the answer has in it.
const NOTES: [(&str, &str); 6] = [
    (
        r#"ID="/subscriptions/00000000-0000-0000-0000-000000000001/resourceGroups/first/providers/Microsoft.RedHatOpenShift/hcpOpenShiftClusters/first"; curl -s "localhost:8443$ID?api-version=2026-10-01""#,
        "\"Succeeded\"",
    ),
    (
        r#"curl -sG localhost:8001/api/clusters_mgmt/v1/clusters --data-urlencode "search=azure.resource_group_name='first'""#,
        "\"total\":1",
    ),
    ("curl -s localhost:8002/api/maestro/v1/resource-bundles", "ResourceBundleList"),
    ("curl -s localhost:9090/readyz", "\"ready\":true"),
    ("dig @127.0.0.1 -p 5300 api.first.pilothouse.test", "status: NOERROR"),
    ("curl -s localhost:8445/admin/v1/operations", "\"Succeeded\""),
];

#[tokio::test(flavor = "multi_thread")]
async fn region_without_a_flag_is_where_people_have_noted_it() {
    for (program, package) in [("curl", "curl"), ("dig", "bind9-dnsutils"), ("bash", "bash")] {
        if Requirement::new(program, package).find().is_none() {
            return;
        }
    }
    let _alone = KNOWN_PORTS.lock().await;
    if let Some(port) = taken() {
        skipped(&format!("port {port}, which somebody on this machine has"), "stop whoever has it");
        return;
    }
    let Some(mut region) = Region::start_on_default_ports(&["--cluster", "first"]).await else { return };
    for (line, answer) in NOTES {
        let said = result(&Command::new("bash").args(["-c", line]).output().unwrap()).unwrap();
        let said: String = said.split_whitespace().collect::<Vec<_>>().join(" ").replace("\": ", "\":");
        assert!(said.contains(answer), "{line}: {said}");
    }
    let management = region.kubectl(&["cluster-info"]).unwrap();
    assert!(management.contains("https://127.0.0.1:6443"), "{management}");
    let hosted = region.kubectl_on(&region.kubeconfig("first").unwrap(), &["cluster-info"]).unwrap();
    assert!(hosted.contains("https://127.0.0.1:9443"), "{hosted}");
    region.stop();
}

/// A port that is not free.
fn taken() -> Option<u16> {
    let Ports {
        frontend,
        admin,
        clusters_service,
        maestro,
        maestro_grpc,
        mqtt,
        management,
        gateway,
        downloads,
        cloud,
        dns,
        metrics,
    } = Ports::default();
    let ports = [
        frontend,
        admin,
        clusters_service,
        maestro,
        maestro_grpc,
        mqtt,
        management,
        gateway,
        downloads,
        cloud,
        dns,
        metrics,
    ];
    ports.into_iter().find(|port| TcpListener::bind(("127.0.0.1", *port)).is_err())
}
