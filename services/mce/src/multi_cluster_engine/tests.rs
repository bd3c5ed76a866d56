use pilothouse_crds::{ComponentOverride, MultiClusterEngineOverrides, MultiClusterEngineSpec};
use rstest::rstest;

use super::*;

fn engine(name: &str, second: i64, components: &[(&str, bool)]) -> Arc<MultiClusterEngine> {
    let components = components.iter().map(|(name, enabled)| ComponentOverride {
        name: (*name).to_owned(),
        enabled: *enabled,
        config_overrides: None,
    });
    let overrides = MultiClusterEngineOverrides {
        components: components.collect(),
        ..MultiClusterEngineOverrides::default()
    };
    let spec = MultiClusterEngineSpec { overrides: Some(overrides), ..MultiClusterEngineSpec::default() };
    let mut engine = MultiClusterEngine::new(name, spec);
    engine.metadata.uid = Some(name.to_owned());
    engine.metadata.creation_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at(second)));
    Arc::new(engine)
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

#[test]
fn the_oldest_engine_counts_and_its_components_can_be_switched_off() {
    assert_eq!(Wishes::of(&[]), None);
    let wishes =
        Wishes::of(&[engine("b", 2, &[]), engine("a", 1, &[(SELF, false), (HOSTING, true)])]).unwrap();
    assert_eq!(wishes.engine.name, "a");
    assert!(!wishes.local_cluster && wishes.import && wishes.hosting);
    assert_eq!(wishes.refused, [""; 0]);
    let wishes = Wishes::of(&[engine("a", 1, &[("assisted-service", true), ("discovery", false)])]).unwrap();
    assert_eq!(wishes.refused, ["spec.overrides.components: there is no component `assisted-service`"]);
}

#[rstest]
#[case(vec![Component::here(SELF)], &[], "Available", "True")]
#[case(
    vec![Component::here(SELF), Component::new(HOSTING, "Lease", Err(("LeaseNotRenewed", "m".to_owned())))],
    &[],
    "Progressing",
    "False"
)]
#[case(vec![Component::here(SELF)], &["no such thing"], "Error", "False")]
fn the_phase_follows_from_what_was_seen(
    #[case] components: Vec<Component>,
    #[case] refused: &[&str],
    #[case] phase: &str,
    #[case] available: &str,
) {
    let mut engine = engine("a", 1, &[]).as_ref().clone();
    let refused = refused.iter().map(|&why| why.to_owned()).collect();
    let observed = Observed { components, refused };
    let status = status::observe(&engine, &observed, at(5));
    assert_eq!(status.phase, phase);
    assert_eq!(find_condition(&status.conditions, "Available").unwrap().status.as_str(), available);
    assert_eq!(status.components.len(), observed.components.len());
    engine.status = Some(status.clone());
    assert_eq!(status::observe(&engine, &observed, at(9)), status, "a second look changes nothing");
}

#[test]
fn an_engine_that_gets_its_component_back_forgets_the_failure() {
    let mut engine = engine("a", 1, &[]).as_ref().clone();
    let observed = |refused: &[&str]| Observed {
        components: vec![],
        refused: refused.iter().map(ToString::to_string).collect(),
    };
    engine.status = Some(status::observe(&engine, &observed(&["no such thing"]), at(5)));
    let has_failed =
        |status: &MultiClusterEngineStatus| find_condition(&status.conditions, "ComponentFailure").is_some();
    assert!(has_failed(engine.status.as_ref().unwrap()));
    assert!(!has_failed(&status::observe(&engine, &observed(&[]), at(6))));
}
