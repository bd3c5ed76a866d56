use serde_json::json;

use super::*;
use crate::proto;
use crate::proto::cloud_event_attribute_value::Attr;

const CREATE: &str = "io.open-cluster-management.works.v1alpha1.manifestbundles.spec.create_request";
const ID: &str = "c38ed5a8-27e3-5d3d-8129-4f7116ae3db5";
const METADATA: &str = r#"{"creationTimestamp":"2026-01-02T03:04:05Z","labels":{"api.openshift.com/id":"abc"},"name":"c38ed5a8-27e3-5d3d-8129-4f7116ae3db5","namespace":"cluster1","resourceVersion":"0","uid":"c38ed5a8-27e3-5d3d-8129-4f7116ae3db5"}"#;
const DATA: &str = r#"{"manifests":[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"cm1","namespace":"default"},"data":{"k":"v"}}],"deleteOption":{"propagationPolicy":"Foreground"}}"#;

/// A create request as a server sends it, property by property.
fn sample() -> Vec<(&'static str, &'static str)> {
    vec![
        ("ce-specversion", "1.0"),
        ("ce-id", "b1a179c5-537e-4f3f-9c0c-6fbb27eb66f9"),
        ("ce-source", "maestro"),
        ("ce-type", CREATE),
        ("ce-time", "2026-01-02T03:04:05.1Z"),
        ("ce-clustername", "cluster1"),
        ("ce-logtracing", "{}"),
        ("ce-metadata", METADATA),
        ("ce-originalsource", ""),
        ("ce-resourceid", ID),
        ("ce-resourceversion", "1"),
    ]
}

fn event() -> CloudEvent {
    CloudEvent::from_properties(Some("application/json"), sample(), DATA.into()).unwrap()
}

#[test]
fn properties_are_read_and_written_alike() {
    let event = event();
    let written = event.to_properties();
    let written: Vec<_> = written.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(written, sample());
    assert_eq!(event.resource_version().unwrap(), Some(1));
    assert_eq!(event.metadata().unwrap().unwrap()["labels"], json!({"api.openshift.com/id": "abc"}));
    assert_eq!(event.text(extension::ORIGINAL_SOURCE), None);
}

#[test]
fn foreign_properties_are_ignored_and_missing_ones_named() {
    let mut properties = sample();
    properties.push(("traceparent", "00-1-2-03"));
    assert_eq!(
        CloudEvent::from_properties(Some("application/json"), properties.clone(), DATA.into()).unwrap(),
        event()
    );
    for name in ["specversion", "id", "source", "type"] {
        let without = properties.iter().copied().filter(|(key, _)| *key != format!("ce-{name}"));
        let error = CloudEvent::from_properties(None, without, DATA.into()).unwrap_err();
        assert_eq!(error.to_string(), format!("the event has no `{name}`"));
    }
}

#[test]
fn stored_event_has_metadata_that_can_be_searched() {
    let stored = event().to_json().unwrap();
    assert_eq!(stored["metadata"]["labels"]["api.openshift.com/id"], "abc");
    assert_eq!(stored["data"]["manifests"][0]["kind"], "ConfigMap");
    assert_eq!(stored["resourceversion"], "1");
    let back = CloudEvent::from_value(stored).unwrap();
    assert_eq!(back.metadata().unwrap(), event().metadata().unwrap());
    assert_eq!(back.payload::<serde_json::Value>().unwrap(), event().payload::<serde_json::Value>().unwrap());
}

#[test]
fn protobuf_prefixes_every_name_but_the_content_type() {
    let sent = event().with(extension::RESOURCE_VERSION, 1);
    let message = proto::CloudEvent::from(sent.clone());
    let attribute = |name: &str| message.attributes[name].attr.clone().unwrap();
    assert_eq!(message.spec_version, "1.0");
    assert_eq!(attribute("contenttype"), Attr::CeString("application/json".to_owned()));
    assert_eq!(attribute("ce-clustername"), Attr::CeString("cluster1".to_owned()));
    assert_eq!(attribute("ce-resourceversion"), Attr::CeInteger(1));
    assert_eq!(
        attribute("ce-time"),
        Attr::CeTimestamp(prost_types::Timestamp { seconds: 1_767_323_045, nanos: 100_000_000 })
    );
    assert_eq!(CloudEvent::try_from(message).unwrap(), sent);
}

/// The numbers of the fields, against bytes written down by hand from the published description.
#[test]
fn protobuf_fields_have_their_numbers() {
    use prost::Message as _;
    let message = proto::CloudEvent {
        id: "i".to_owned(),
        source: "s".to_owned(),
        spec_version: "1.0".to_owned(),
        r#type: "t".to_owned(),
        attributes: [("ce-a".to_owned(), proto::CloudEventAttributeValue { attr: Some(Attr::CeInteger(7)) })]
            .into(),
        data: Some(proto::cloud_event::Data::BinaryData(b"{}".to_vec())),
    };
    let expected = [
        &b"\x0a\x01i\x12\x01s\x1a\x031.0\x22\x01t"[..],
        &b"\x2a\x0a\x0a\x04ce-a\x12\x02\x10\x07"[..],
        &b"\x32\x02{}"[..],
    ]
    .concat();
    assert_eq!(message.encode_to_vec(), expected);
    let request = proto::PublishRequest { event: Some(proto::CloudEvent::default()) };
    assert_eq!(request.encode_to_vec(), b"\x0a\x00");
    let request = proto::SubscriptionRequest {
        source: "a".to_owned(),
        cluster_name: "b".to_owned(),
        data_type: "c".to_owned(),
    };
    assert_eq!(request.encode_to_vec(), b"\x0a\x01a\x12\x01b\x1a\x01c");
}

#[test]
fn event_that_is_json_as_a_whole_is_taken() {
    let whole = br#"{"specversion":"1.0","id":"1","source":"cs","type":"t","clustername":"c","resourceversion":3,"data":{"manifests":[]}}"#;
    let event =
        CloudEvent::from_properties(Some("application/cloudevents+json"), [], whole.as_slice().into())
            .unwrap();
    assert_eq!((event.source.as_str(), event.resource_version().unwrap()), ("cs", Some(3)));
    assert_eq!(&event.data[..], br#"{"manifests":[]}"#);
}

#[test]
fn types_are_read_from_the_end() {
    let kind: EventType = CREATE.parse().unwrap();
    assert_eq!((kind.subresource, kind.action), (Subresource::Spec, Action::Create));
    assert!(kind.is_ours());
    assert_eq!(kind.to_string(), CREATE);
    assert!(!"a.b.v1.c.status.update_request".parse::<EventType>().unwrap().is_ours());
    for odd in ["", "spec.create_request", "a.b.c.spec.watch", "a.b.c.meta.create_request", HEARTBEAT] {
        assert!(odd.parse::<EventType>().is_err(), "{odd}");
    }
}
