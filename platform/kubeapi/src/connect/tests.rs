use serde_json::json;

use super::target::Named;
use super::*;

fn asked(query: &str) -> Parameters {
    RequestInfo::parse(&Method::GET, "/", Some(query)).query
}

#[test]
fn a_kubelet_is_asked_in_its_own_words() {
    let pod = json!({ "metadata": { "namespace": "a" }, "spec": { "containers": [{ "name": "one" }] } });
    for (subresource, query, path_of_kubelet) in [
        (
            "exec",
            "command=sh&command=-c&command=exit+3&stdin=true&tty=true",
            "/exec/a/web/one?input=1&output=1&error=1&tty=1&command=sh&command=-c&command=exit+3",
        ),
        ("exec", "command=ls&stdout=true&stderr=false", "/exec/a/web/one?output=1&command=ls"),
        ("attach", "container=one", "/attach/a/web/one?output=1&error=1"),
        ("portforward", "ports=80,81", "/portForward/a/web?port=80&port=81"),
    ] {
        assert_eq!(path(&pod, "web", subresource, &asked(query)).unwrap(), path_of_kubelet);
    }
}

#[test]
fn a_container_has_to_be_named_where_there_are_several() {
    let pod = json!({ "spec": {
        "containers": [{ "name": "one" }, { "name": "two" }], "initContainers": [{ "name": "first" }],
    } });
    assert_eq!(container(&pod, "web", Some("first")).unwrap(), "first");
    let refused = |wanted| container(&pod, "web", wanted).unwrap_err().to_string();
    assert!(refused(Some("three")).contains("container three is not valid for pod web"));
    assert!(refused(None).contains(
        "a container name must be specified for pod web, choose one of: [one two] or one of the init containers: [first]"
    ));
}

#[test]
fn names_carry_schemes_and_ports() {
    for (text, expected) in [
        ("web", Some(("", "web", ""))),
        ("web:http", Some(("", "web", "http"))),
        ("http:web:80", Some(("http", "web", "80"))),
        ("https:web:", Some(("https", "web", ""))),
        ("ftp:web:21", None),
        (":80", None),
    ] {
        let named = Named::parse(text).map(|named| (named.scheme, named.name, named.port));
        assert_eq!(named, expected, "{text}");
    }
    assert_eq!(rest("/api/v1/namespaces/a/pods/b/proxy/x/y", true), Some("/x/y"));
    assert_eq!(rest("/api/v1/namespaces/a/pods/b/proxy", true), None);
    assert_eq!(rest("/api/v1/nodes/a/proxy/", false), Some("/"));
}
