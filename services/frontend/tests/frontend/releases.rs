use pilothouse_clusters_service_api::simulated::{Call, Fault};
use rstest::rstest;

use crate::support::{Engine, Rig, SUBSCRIPTION, VERSION};

fn below(kind: &str) -> String {
    format!(
        "/subscriptions/{SUBSCRIPTION}/providers/Microsoft.RedHatOpenShift/locations/Anywhere/{kind}?{VERSION}"
    )
}

#[rstest]
#[tokio::test]
async fn versions_are_those_of_clusters_service(#[values(Engine::Sqlite, Engine::Postgres)] engine: Engine) {
    let Some(rig) = Rig::new(engine).await else { return };
    let listed = rig.get(&below("hcpOpenShiftVersions")).await;
    assert_eq!(listed.status, 200, "{}", listed.text);
    assert_eq!(listed.body.get("nextLink"), None);
    let versions = listed.body["value"].as_array().unwrap();
    let find = |name: &str| versions.iter().find(|version| version["name"] == name).unwrap();
    assert_eq!(find("4.20.8")["properties"]["channelGroup"], "stable");
    assert_eq!(find("4.20.8")["properties"]["enabled"], true);
    assert_eq!(find("4.20.8-candidate")["properties"]["channelGroup"], "candidate");
    assert_eq!(find("4.20.8")["id"], below("hcpOpenShiftVersions/4.20.8").split('?').next().unwrap());
    let one = rig.get(&below("HCPOPENSHIFTVERSIONS/4.20.8")).await;
    assert_eq!((one.status, &one.body), (200, find("4.20.8")));
    let missing = rig.get(&below("hcpOpenShiftVersions/3.11.0")).await;
    assert_eq!((missing.status, missing.code()), (404, "ResourceNotFound"));
    let asked = rig.clusters_service.calls().iter().filter(|call| call.path == "/versions").count();
    let pages = versions.len().div_ceil(100);
    assert_eq!(asked, pages, "what is known is not asked again");
    rig.stop().await;
}

#[rstest]
#[tokio::test]
async fn roles_are_told_for_every_minor_that_is_offered(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(rig) = Rig::new(engine).await else { return };
    let listed = rig.get(&below("hcpOperatorIdentityRoleSets")).await;
    assert_eq!(listed.status, 200, "{}", listed.text);
    let sets = listed.body["value"].as_array().unwrap();
    let names: Vec<_> = sets.iter().map(|set| set["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["4.20", "4.21"]);
    let operators = sets[0]["properties"]["controlPlaneOperators"].as_array().unwrap();
    let kms = operators.iter().find(|operator| operator["name"] == "kms").unwrap();
    assert_eq!(kms["required"], "OnEnablement");
    let one = rig.get(&below("hcpOperatorIdentityRoleSets/4.20")).await;
    assert_eq!((one.status, &one.body), (200, &sets[0]));
    for name in ["4.18", "9.9", "odd", "4.20.8"] {
        let missing = rig.get(&below(&format!("hcpOperatorIdentityRoleSets/{name}"))).await;
        assert_eq!((missing.status, missing.code()), (404, "ResourceNotFound"), "{name}");
    }
    rig.stop().await;
}

#[rstest]
#[tokio::test]
async fn versions_that_were_never_told_are_not_made_up(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(rig) = Rig::new(engine).await else { return };
    rig.clusters_service.inject(Fault::Unavailable, Call::is_read);
    for kind in ["hcpOpenShiftVersions", "hcpOpenShiftVersions/4.20.8", "hcpOperatorIdentityRoleSets"] {
        let refused = rig.get(&below(kind)).await;
        assert_eq!((refused.status, refused.header("retry-after")), (503, "59"), "{}", refused.text);
    }
    rig.clusters_service.clear_faults();
    assert_eq!(rig.get(&below("hcpOpenShiftVersions")).await.status, 200);
    rig.stop().await;
}
