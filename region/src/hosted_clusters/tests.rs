use std::convert::Infallible;

use http::{Request, Response};
use kube::client::Body;
use pilothouse_crds::HostedClusterSpec;
use serde_json::{Value, json};
use tower::service_fn;
use url::form_urlencoded;

use super::*;

/// A management cluster with hosted clusters: each by its DNS prefix and, if Azure asked for it, by its name there.
fn management(clusters: &[(&str, Option<&str>)]) -> HostedClusters {
    let all: Vec<HostedCluster> = clusters
        .iter()
        .map(|(prefix, asked_for)| {
            let mut cluster = HostedCluster::new(prefix, HostedClusterSpec::default());
            cluster.metadata.namespace = Some(format!("ocm-local-{prefix}"));
            cluster.metadata.annotations = asked_for.map(|name| {
                let id = format!("/subscriptions/s/resourceGroups/g/providers/p/hcpOpenShiftClusters/{name}");
                [(RESOURCE_ID.to_owned(), id)].into()
            });
            cluster
        })
        .collect();
    let service = service_fn(move |request: Request<Body>| {
        let answer = answer(&all, &request);
        async move { Ok::<_, Infallible>(Response::new(Body::from(answer.to_string().into_bytes()))) }
    });
    HostedClusters { client: Client::new(service, "default") }
}

fn answer(all: &[HostedCluster], request: &Request<Body>) -> Value {
    let path = request.uri().path();
    if let Some((_, name)) = path.split_once("/hostedclusters/") {
        return json!(all.iter().find(|cluster| cluster.name_any() == name));
    }
    let query = form_urlencoded::parse(request.uri().query().unwrap_or_default().as_bytes());
    let selected = query.into_owned().find(|(name, _)| name == "fieldSelector").map(|(_, value)| value);
    let name = selected.as_deref().and_then(|selected| selected.strip_prefix("metadata.name="));
    let items = all.iter().filter(|cluster| name.is_none_or(|name| cluster.name_any() == name));
    let accepted = request.headers().get(http::header::ACCEPT);
    let partial = accepted.is_some_and(|accepted| accepted.to_str().unwrap().contains("PartialObject"));
    let (version, kind) = match partial {
        true => ("meta.k8s.io/v1", "PartialObjectMetadata"),
        false => ("hypershift.openshift.io/v1beta1", "HostedCluster"),
    };
    let items: Vec<_> = items
        .map(|cluster| match partial {
            true => json!({"apiVersion": version, "kind": kind, "metadata": cluster.metadata}),
            false => json!(cluster),
        })
        .collect();
    json!({"apiVersion": version, "kind": format!("{kind}List"), "metadata": {}, "items": items})
}

#[tokio::test]
async fn a_prefix_is_found_before_a_name_that_reads_alike() {
    let clusters = management(&[("other", Some("first")), ("first", Some("other"))]);
    assert_eq!(clusters.find("first").await.unwrap().name_any(), "first");
}

#[tokio::test]
async fn a_name_in_the_api_that_is_not_the_prefix_is_found_in_any_case() {
    let clusters = management(&[("first-x7k2", Some("First-Production")), ("second", None)]);
    for name in ["First-Production", "first-production"] {
        let found = clusters.find(name).await.unwrap();
        assert_eq!(
            (found.name_any(), found.namespace().unwrap()),
            ("first-x7k2".into(), "ocm-local-first-x7k2".into())
        );
    }
}

#[tokio::test]
async fn a_name_of_several_is_told_with_their_prefixes() {
    let clusters = management(&[("twin", Some("Twin")), ("twin-a", Some("both")), ("twin-b", Some("Both"))]);
    assert_eq!(clusters.find("twin").await.unwrap().name_any(), "twin", "a prefix is one cluster's");
    let told = clusters.find("both").await.unwrap_err();
    assert_eq!(told.to_string(), "`both` is the name of several clusters; use a DNS prefix: twin-a, twin-b");
}

#[tokio::test]
async fn a_name_of_nobody_is_told_with_what_there_is() {
    let clusters = management(&[("first", None), ("second", Some("Another"))]);
    for name in ["third", "metadata.name=first,x=y"] {
        let told = clusters.find(name).await.unwrap_err();
        assert_eq!(told.to_string(), format!("there is no cluster `{name}`; there are: first, second"));
    }
    let told = management(&[]).find("third").await.unwrap_err();
    assert_eq!(told.to_string(), "there is no cluster `third`");
}
