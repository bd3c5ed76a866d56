//! Pods that talk to each other.

use k8s_openapi::api::core::v1::{Endpoints, Service};
use kube::Api;
use kube::api::PostParams;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::support::{Cluster, address_of, program, run, until};

pub(crate) fn pods_share_a_port_and_reach_each_other_directly_and_by_service() {
    run(async {
        let cluster = Cluster::start().await;
        for name in ["ada", "bob"] {
            let mut container = program(&["serve", "8080", name]);
            container["readinessProbe"] = json!({"tcpSocket": {"port": 8080}});
            cluster.create(name, json!({"containers": [container]})).await;
        }
        let (ada, bob) = (cluster.until_ready("ada").await, cluster.until_ready("bob").await);
        assert_ne!(address_of(&ada), address_of(&bob));

        // From outside, through the node's socket.
        let mut stream =
            cluster.dialer().connect(format!("{}:8080", address_of(&ada)).parse().unwrap()).await.unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.ends_with("ada"), "{answer}");

        let fetch = |address: String| json!({"image": "pilothouse", "args": ["fetch", address]});
        let output = cluster.output_of("direct", fetch(format!("{}:8080", address_of(&bob)))).await;
        assert_eq!(output, "bob\n");

        let services: Api<Service> = Api::namespaced(cluster.client.clone(), "default");
        let service =
            json!({"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80, "targetPort": 8080}]}});
        let service =
            services.create(&PostParams::default(), &serde_json::from_value(service).unwrap()).await.unwrap();
        let virtual_address = format!("{}:80", service.spec.unwrap().cluster_ip.unwrap());
        let endpoints: Api<Endpoints> = Api::namespaced(cluster.client.clone(), "default");
        let ready = json!({"metadata": {"name": "web"}, "subsets": [{"ports": [{"port": 8080}],
            "addresses": [{"ip": address_of(&ada)}, {"ip": address_of(&bob)}]}]});
        endpoints.create(&PostParams::default(), &serde_json::from_value(ready).unwrap()).await.unwrap();
        until(|| async { cluster.dialer().connect(virtual_address.parse().unwrap()).await.is_ok() }).await;
        let mut answers = Vec::new();
        for round in ["one", "two"] {
            answers.push(
                cluster.output_of(&format!("by-service-{round}"), fetch(virtual_address.clone())).await,
            );
        }
        // The connections that waited for the Service took turns, too; but two in a row are two endpoints.
        answers.sort();
        assert_eq!(answers, ["ada\n", "bob\n"]);
    });
}
