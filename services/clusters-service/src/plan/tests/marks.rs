//! A report says by its mark which version of a bundle it is about.

use super::*;
use crate::observed::Report;

#[test]
fn what_is_fed_back_of_a_work_is_its_status_and_nothing_else() {
    let mut model = Model::new();
    model.settle();
    for (name, bundle) in &model.bundles {
        let [config] = &bundle.content.manifest_configs[..] else { panic!("{name}: {:?}", bundle.content) };
        let [rule] = &config.feedback_rules[..] else { panic!("{name}: {config:?}") };
        let paths: Vec<_> = rule.json_paths.iter().map(|path| path.path.as_str()).collect();
        assert_eq!(paths, [".status"], "{name}");
    }
}

#[test]
fn a_bundle_is_marked_with_its_version_which_is_no_difference_by_itself() {
    let mut model = Model::new();
    model.settle();
    let id = model.cluster.cluster.id.to_string();
    assert_eq!(mark::read(&model.bundles[&id].content), Some("1"));
    assert_eq!(mark::read(&model.bundles[&format!("{id}-managed")].content), None);
    for (cidr, version) in [("203.0.113.0/24", 2), ("198.51.100.0/24", 3)] {
        let access = Some(CidrBlockAccess::only(vec![cidr.into()]));
        let update =
            ClusterUpdate { api: Some(ApiUpdate { cidr_block_access: access }), ..ClusterUpdate::default() };
        model.cluster.change(&update, &Origin::default(), model.now);
        model.settle();
        let bundle = &model.bundles[&id];
        let mark = version.to_string();
        assert_eq!((bundle.version, mark::read(&bundle.content)), (version, Some(mark.as_str())));
        assert_eq!(model.plan().actions, []);
    }
}

#[test]
fn a_report_is_about_what_its_mark_says() {
    let mut model = Model::new();
    model.settle();
    let id = model.cluster.cluster.id.to_string();
    let applied = |model: &Model| model.bundles[&id].nested_report("HostedCluster").applied;
    assert!(applied(&model));
    model.report_of(&id, 7, hosted(1, 1, "4.20.3", "Completed"));
    assert_eq!(model.bundles[&id].nested_report("HostedCluster"), Report::default());
    // The inner agent does not know of marks yet, because it has not seen the work.
    let unmarked = serde_json::from_value(hosted(1, 1, "4.20.3", "Completed")).unwrap();
    model.bundles.get_mut(&id).unwrap().status = Some(unmarked);
    assert!(!applied(&model));
}

#[test]
fn a_bundle_from_before_there_were_marks_is_understood_and_replaced() {
    let mut model = Model::new();
    model.settle();
    let id = model.cluster.cluster.id.to_string();
    let bundle = model.bundles.get_mut(&id).unwrap();
    let objects = bundle.content.manifests[0].pointer_mut("/spec/workload/manifests").unwrap();
    let object = objects.as_array_mut().unwrap().last_mut().unwrap();
    object["metadata"].as_object_mut().unwrap().remove("annotations");
    let rules = &mut bundle.content.manifest_configs[0].feedback_rules[0].json_paths;
    rules
        .push(serde_json::from_value(json!({"name": "Generation", "path": ".metadata.generation"})).unwrap());
    bundle.version = 4;
    let mut report = hosted(1, 1, "4.20.3", "Completed");
    let values = &mut report["resourceStatus"][0]["statusFeedback"]["values"];
    values.as_array_mut().unwrap().push(number("Generation", 4));
    bundle.status = Some(serde_json::from_value(report).unwrap());
    let report = bundle.nested_report("HostedCluster");
    assert!(report.applied && report.is_true("Available"), "{report:?}");

    let plan = model.plan();
    assert_eq!(plan.cluster.cluster.state, ClusterState::Ready);
    assert!(matches!(&plan.actions[..], [Action::Update(_, 4)]), "{:?}", plan.actions);
    model.settle();
    assert_eq!(mark::read(&model.bundles[&id].content), Some("5"));
    assert_eq!(model.cluster.cluster.state, ClusterState::Ready);
}
