use k8s_openapi::api::core::v1::{
    Container, ContainerPort, PodCondition, PodSpec, PodStatus, ServicePort, ServiceSpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::*;

fn service(target: IntOrString) -> Service {
    Service {
        metadata: ObjectMeta {
            name: Some("web".to_owned()),
            namespace: Some("default".to_owned()),
            uid: Some("1".to_owned()),
            ..ObjectMeta::default()
        },
        spec: Some(ServiceSpec {
            ports: Some(vec![ServicePort { port: 443, target_port: Some(target), ..ServicePort::default() }]),
            ..ServiceSpec::default()
        }),
        status: None,
    }
}

fn pod(address: &str, port: i32, ready: bool) -> Pod {
    Pod {
        metadata: ObjectMeta { name: Some(format!("pod-{address}")), ..ObjectMeta::default() },
        spec: Some(PodSpec {
            containers: vec![Container {
                ports: Some(vec![ContainerPort {
                    name: Some("api".to_owned()),
                    container_port: port,
                    ..ContainerPort::default()
                }]),
                ..Container::default()
            }],
            ..PodSpec::default()
        }),
        status: Some(PodStatus {
            phase: Some("Running".to_owned()),
            pod_ip: Some(address.to_owned()),
            conditions: Some(vec![PodCondition {
                type_: "Ready".to_owned(),
                status: if ready { "True" } else { "False" }.to_owned(),
                ..PodCondition::default()
            }]),
            ..PodStatus::default()
        }),
    }
}

fn backends(service: &Service, pods: &[Pod]) -> Vec<Backend> {
    pods.iter().filter_map(|pod| Backend::of(service, pod)).collect()
}

/// Subsets as text: ready addresses, unready ones, ports.
fn shape(endpoints: &Endpoints) -> Vec<(String, String, Vec<i32>)> {
    let addresses = |list: &Option<Vec<k8s_openapi::api::core::v1::EndpointAddress>>| {
        let ips: Vec<_> = list.iter().flatten().map(|address| address.ip.as_str()).collect();
        ips.join(" ")
    };
    let subsets = endpoints.subsets.iter().flatten();
    subsets
        .map(|subset| {
            let ports = subset.ports.iter().flatten().map(|port| port.port).collect();
            (addresses(&subset.addresses), addresses(&subset.not_ready_addresses), ports)
        })
        .collect()
}

fn text(value: &str) -> String {
    value.to_owned()
}

#[test]
fn named_ports_are_looked_up_in_each_pod() {
    let service = service(IntOrString::String("api".to_owned()));
    let pods = [pod("10.0.0.2", 6443, true), pod("10.0.0.1", 6443, false), pod("10.0.0.3", 7443, true)];
    let endpoints = subsets::endpoints(&service, &backends(&service, &pods));
    let expected =
        [(text("10.0.0.2"), text("10.0.0.1"), vec![6443]), (text("10.0.0.3"), text(""), vec![7443])];
    assert_eq!(shape(&endpoints), expected);
    let slices = slices::slices(&service, &backends(&service, &pods));
    assert_eq!(slices.iter().map(|slice| slice.endpoints.len()).collect::<Vec<_>>(), [2, 1]);
}

#[test]
fn ending_pods_leave_the_endpoints_but_stay_in_slices_as_terminating() {
    let service = service(IntOrString::Int(6443));
    let mut ending = pod("10.0.0.1", 6443, true);
    ending.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
    let backends = backends(&service, &[ending]);
    assert_eq!(shape(&subsets::endpoints(&service, &backends)), []);
    let slice = slices::slices(&service, &backends).remove(0);
    let conditions = slice.endpoints[0].conditions.clone().unwrap();
    assert_eq!(
        (conditions.ready, conditions.serving, conditions.terminating),
        (Some(false), Some(true), Some(true))
    );
}

#[test]
fn service_may_publish_pods_that_are_not_ready() {
    let mut service = service(IntOrString::Int(6443));
    service.spec.as_mut().unwrap().publish_not_ready_addresses = Some(true);
    let backends = backends(&service, &[pod("10.0.0.1", 6443, false)]);
    let expected = [(text("10.0.0.1"), text(""), vec![6443])];
    assert_eq!(shape(&subsets::endpoints(&service, &backends)), expected);
}

#[test]
fn service_without_pods_has_one_empty_slice() {
    let service = service(IntOrString::Int(6443));
    let slices = slices::slices(&service, &[]);
    assert_eq!((slices.len(), slices[0].endpoints.len()), (1, 0));
    assert_eq!(EndpointsOfServices::of_slice(&slices[0]), Some(ObjectKey::namespaced("default", "web")));
    assert!(slices::is_ours(&slices[0], "web"));
    assert!(subsets::endpoints(&service, &[]).subsets.is_none());
}
