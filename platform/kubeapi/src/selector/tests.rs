use serde_json::json;

use super::*;
use crate::catalogue::built_in;

#[test]
fn label_selectors_select() {
    let object = json!({ "metadata": { "labels": { "app": "web", "tier": "front", "weight": "7" } } });
    for (selector, expected) in [
        ("", true),
        ("app=web", true),
        ("app==web,tier=front", true),
        ("app = web , tier != back", true),
        ("app!=web", false),
        ("absent!=web", true),
        ("app in (api, web)", true),
        ("app in (api)", false),
        ("app notin (api)", true),
        ("absent notin (api)", true),
        ("app", true),
        ("!app", false),
        ("!absent", true),
        ("absent", false),
        ("weight>6", true),
        ("weight<7", false),
        ("app in (web),tier,!absent", true),
        ("example.com/app=x", false),
    ] {
        let parsed = LabelSelector::parse(selector).unwrap();
        assert_eq!(parsed.matches(&object), expected, "{selector}");
    }
}

#[test]
fn a_label_selector_that_makes_no_sense_is_refused() {
    for selector in [
        "app in web",
        "app in (web",
        "=web",
        "app=web,",
        "app=web tier=x",
        "app=-bad-",
        "a/b/c=d",
        ",",
        "app !web",
    ] {
        assert_eq!(LabelSelector::parse(selector).unwrap_err().code, 400, "{selector}");
    }
}

#[test]
fn a_selector_object_says_the_same_as_its_text() {
    let object = json!({
        "matchLabels": { "app": "web" },
        "matchExpressions": [
            { "key": "tier", "operator": "In", "values": ["a", "b"] },
            { "key": "old", "operator": "DoesNotExist" },
        ],
    });
    let selector = LabelSelector::from_object(&object).unwrap();
    assert_eq!(selector.to_string(), "app=web,tier in (a,b),!old");
    assert_eq!(LabelSelector::parse(&selector.to_string()).unwrap(), selector);
    assert!(selector.matches_labels(&json!({ "app": "web", "tier": "b" })));
    assert!(!selector.matches_labels(&json!({ "app": "web", "tier": "b", "old": "" })));
}

#[test]
fn field_selectors_select() {
    let (pods, nodes, events) = (built_in("", "pods"), built_in("", "nodes"), built_in("", "events"));
    let pod = json!({ "metadata": { "name": "a" }, "spec": { "nodeName": "n1" }, "status": { "phase": "Running" } });
    let event =
        json!({ "involvedObject": { "kind": "Pod", "name": "a,b" }, "source": { "component": "kubelet" } });
    for (resource, object, selector, expected) in [
        (&pods, &pod, "spec.nodeName=n1", true),
        (&pods, &pod, "spec.nodeName=n1,status.phase!=Running", false),
        (&pods, &pod, "metadata.name==a", true),
        (&pods, &json!({}), "spec.nodeName=", true),
        (&nodes, &json!({}), "spec.unschedulable=false", true),
        (&events, &event, "involvedObject.kind=Pod,involvedObject.name=a\\,b", true),
        (&events, &event, "source=kubelet", true),
    ] {
        let parsed = FieldSelector::parse(selector, resource).unwrap();
        assert_eq!(parsed.matches(resource, object), expected, "{selector}");
    }
}

#[test]
fn a_field_the_kind_does_not_offer_is_refused() {
    let failure = FieldSelector::parse("spec.nodeName=x", &built_in("", "secrets")).unwrap_err();
    assert_eq!((failure.code, failure.message.as_str()), (400, "field label not supported: spec.nodeName"));
    assert_eq!(FieldSelector::parse("metadata.name", &built_in("", "pods")).unwrap_err().code, 400);
}
